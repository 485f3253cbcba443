/* SPDX-License-Identifier: Apache-2.0
 *
 * A problem for schedulers: read, and asked about where it is small.
 */
#include "commands/schedule_problem.h"

#include "fuzz.h"
#include "ask/schedule_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_schedule_problem problem;
    struct pst_error err = {0};

    if (!fuzz_judge(pst_schedule_problem_read(fuzz_file(data, size), &problem, &err), &err)) {
        return 0;
    }
    if (problem.samples <= 64 && problem.asked.in.n_stages <= 16) {
        const struct pst_schedule_job job = {.id = "gpipe", .problem = &problem.asked};
        struct pst_schedule_result result;

        if (fuzz_judge(pst_schedule_job_run(&job, NULL, NULL, &result, &err), &err)) {
            pst_schedule_result_finish(&result);
        }
    }
    pst_schedule_problem_finish(&problem);
    return 0;
}
