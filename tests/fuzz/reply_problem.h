/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that read answers to problem files: questions[], of which the first byte of an input says
 * which, stand before this is included, and KIND is what is asked.
 */
#include <stdio.h>

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

        fuzz_keep_answer(i, &KIND, &job);
    }
}
