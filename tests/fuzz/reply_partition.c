/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes back from a partitioner's process: read, held against the rules, judged and told. The
 * first byte says to which question.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "plugin/solo_partition_state.h"
#include "report/partition_report.h"

static const char planned[] =
    "{\"format\":\"penstock-problem\",\"version\":1,\"devices\":2,\"mini_batch\":8,"
    "\"memory_bytes\":1000000,\"p2p_bandwidth\":1e6,\"comm_model\":\"sum\",\"cost\":\"planned\","
    "\"scheduler\":\"interleaved\",\"scheduler_options\":{\"chunks\":2},\"graph\":{\"nodes\":["
    "{\"name\":\"a\",\"forward_us\":1},{\"name\":\"b\",\"forward_us\":2,\"saved_bytes\":8},"
    "{\"name\":\"c\",\"forward_us\":1,\"param_bytes\":4},{\"name\":\"d\",\"forward_us\":1}],"
    "\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"bytes\":4},{\"from\":\"b\",\"to\":\"c\"},"
    "{\"from\":\"c\",\"to\":\"d\"}]}}";

static const char *const partitioners[] = {"graphpipe", "pipedream", "uniform"};

enum { N = sizeof partitioners / sizeof *partitioners };

static struct pst_problem *problems[N];
static FILE *nowhere;

static struct pst_partition_job job_of(uint32_t i)
{
    return (struct pst_partition_job){.id = partitioners[i], .problem = problems[i]};
}

/* Behind the byte that says which question it answers. */
static void keep(uint32_t i)
{
    const struct pst_partition_job job = job_of(i);
    struct pst_partition_answer answer;
    struct pst_error err = {0};
    char *bytes = NULL, *input;
    size_t n = 0;

    if (!fuzz_judge(pst_partition_ask(&job, NULL, &answer, &err), &err) ||
        !fuzz_judge(pst_partition_answer_pack(&answer, &bytes, &n, &err), &err)) {
        fuzz_fail("%s: %s", job.id, err.message);
    }
    input = malloc(n + 1);
    if (input == NULL) {
        fuzz_fail("no memory");
    }
    input[0] = (char)i;
    memcpy(input + 1, bytes, n);
    fuzz_keep(input, n + 1);
    pst_partition_answer_finish(&answer);
    free(input);
    free(bytes);
}

void fuzz_begin(void)
{
    static const char *const files[N] = {"configs/problems/two-branches.json",
                                         "tests/fuzz/corpus/problem/replicas.json", NULL};

    nowhere = fopen("/dev/null", "w");
    for (uint32_t i = 0; i < N; i++) {
        struct pst_error err = {0};
        size_t n = sizeof planned - 1;
        char *text = files[i] == NULL ? strdup(planned) : fuzz_source(files[i], &n);

        if (pst_problem_read(fuzz_file(text, n), &problems[i], &err) != PST_OK) {
            fuzz_fail("problem %u: %s", i, err.message);
        }
        free(text);
    }
    for (uint32_t i = 0; i < N; i++) {
        keep(i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pst_partition_job job = job_of(size == 0 ? 0 : data[0] % N);
    struct pst_partition_answer answer = {.n_stages = 0};
    struct pst_partition_result result;
    struct pst_error err = {0};
    pst_status st;

    if (size == 0) {
        return 0;
    }
    st = pst_partition_answer_unpack((const char *)data + 1, size - 1, &job, &answer, &err);
    if (st == PST_OK) {
        st = pst_partition_judge(&job, &answer, &result, &err);
    }
    if (fuzz_judge(st, &err)) {
        pst_partition_report_print(job.problem, &result, false, nowhere);
        free(pst_partition_report_json(job.problem, &result));
        pst_partition_result_finish(&result);
    }
    pst_partition_answer_finish(&answer);
    return 0;
}
