/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes back from a memory optimizer's process: read, evaluated and told. The first byte says
 * to which question.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "planner/problem_memopt.h"
#include "reports/memopt_report.h"

static const struct {
    const char *id, *file;
} questions[] = {{"none", "configs/problems/four-layers.json"},
                 {"dawnpiper", "configs/problems/four-layers.json"},
                 {"rotor", "configs/problems/three-layers.json"},
                 {"full", "configs/problems/three-layers.json"}};

enum { N = sizeof questions / sizeof *questions };

static struct pst_problem *problems[N];
static FILE *nowhere;

static struct pst_problem_job job_of(uint32_t i)
{
    return (struct pst_problem_job){.id = questions[i].id, .problem = problems[i]};
}

void fuzz_begin(void)
{
    nowhere = fopen("/dev/null", "w");
    for (uint32_t i = 0; i < N; i++) {
        problems[i] = fuzz_problem(questions[i].file);
    }
    for (uint32_t i = 0; i < N; i++) {
        const struct pst_problem_job job = job_of(i);
        struct pst_wire w = {.reads = false};
        struct pst_memopt_result answer;
        struct pst_error err = {0};

        if (pst_apart_ask(&pst_memopt_kind, &job, job.id, NULL, NULL, &answer, &err) != PST_OK) {
            fuzz_fail("%s: %s", job.id, err.message);
        }
        pst_apart_put(&pst_memopt_kind, &job, &answer, &w);
        fuzz_keep_behind(i, w.bytes, w.n);
        pst_memopt_result_finish(&answer);
        free(w.bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pst_problem_job job = job_of(size == 0 ? 0 : data[0] % N);
    struct pst_memopt_result result;
    struct pst_error err = {0};
    struct pst_json json = {0};
    pst_status st;

    if (size == 0) {
        return 0;
    }
    st = pst_apart_take(&pst_memopt_kind, &job, job.id, (const char *)data + 1, size - 1, &result,
                        &err);
    if (st == PST_OK) {
        st = pst_memopt_judge(&result, &err);
        if (fuzz_judge(st, &err)) {
            pst_memopt_report_print(&result, false, nowhere);
            pst_memopt_report_json(&result, &json);
            pst_json_finish(&json);
        }
        pst_memopt_result_finish(&result);
    } else {
        fuzz_judge(st, &err);
    }
    return 0;
}
