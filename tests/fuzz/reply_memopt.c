/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes back from a memory optimizer's process: read, evaluated and told. The first byte says
 * to which question.
 */
#include "fuzz.h"
#include "ask/problem_memopt.h"
#include "reports/memopt_report.h"

static const struct {
    const char *id, *file;
} questions[] = {{"none", "configs/problems/four-layers.json"},
                 {"dawnpiper", "configs/problems/four-layers.json"},
                 {"rotor", "configs/problems/three-layers.json"},
                 {"full", "configs/problems/three-layers.json"}};

#define KIND pst_memopt_kind
#include "reply_problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pst_problem_job job = job_of(size == 0 ? 0 : data[0] % N);
    struct pst_memopt_result result;
    struct pst_error err = {0};
    struct pst_json json = {0};

    if (fuzz_take_answer(data, size, &pst_memopt_kind, &job, &result)) {
        if (fuzz_judge(pst_memopt_judge(&result, &err), &err)) {
            pst_memopt_report_print(&result, false, nowhere);
            pst_memopt_report_json(&result, &json);
            pst_json_finish(&json);
        }
        pst_memopt_result_finish(&result);
    }
    return 0;
}
