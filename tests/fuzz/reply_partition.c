/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes back from a partitioner's process: read, held against the rules, judged and told. The
 * first byte says to which question.
 */
#include "fuzz.h"
#include "ask/problem_partition.h"
#include "reports/partition_report.h"

static const struct {
    const char *id, *file;
} questions[] = {{"graphpipe", "configs/problems/two-branches.json"},
                 {"pipedream", "tests/fuzz/corpus/problem/replicas.json"},
                 {"uniform", "tests/fuzz/corpus/problem/planned.json"}};

#define KIND pst_partition_kind
#include "reply_problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pst_problem_job job = job_of(size == 0 ? 0 : data[0] % N);
    struct pst_partition_result result;
    struct pst_error err = {0};
    struct pst_json json = {0};

    if (fuzz_take_answer(data, size, &pst_partition_kind, &job, &result)) {
        if (fuzz_judge(pst_partition_judge(job.problem, &result, &err), &err)) {
            pst_partition_report_print(job.problem, &result, false, nowhere);
            pst_partition_report_json(job.problem, &result, &json);
            pst_json_finish(&json);
        }
        pst_partition_result_finish(&result);
    }
    return 0;
}
