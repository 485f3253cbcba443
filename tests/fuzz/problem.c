/* SPDX-License-Identifier: Apache-2.0
 *
 * A problem for partitioners and memory optimizers: read, and asked about.
 */
#include "ask/problem_file.h"

#include "fuzz.h"
#include "ask/problem_memopt.h"
#include "ask/problem_partition.h"

/* What asks in time that grows with the file. */
static bool is_small(const struct pst_problem *problem)
{
    return problem->graph->n_nodes <= 64 && problem->n_devices <= 64 && problem->mini_batch <= 1024;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};

    if (!fuzz_judge(pst_problem_read(fuzz_file(data, size), &problem, &err), &err)) {
        return 0;
    }
    if (is_small(problem)) {
        const struct pst_problem_job partition = {.id = "uniform", .problem = problem};
        const struct pst_problem_job memopt = {.id = "full", .problem = problem};
        struct pst_partition_result stages;
        struct pst_memopt_result kept;

        if (!problem->no_devices &&
            fuzz_judge(pst_problem_partition(&partition, NULL, NULL, &stages, &err), &err)) {
            pst_partition_result_finish(&stages);
        }
        if (fuzz_judge(pst_problem_memopt(&memopt, NULL, NULL, &kept, &err), &err)) {
            pst_memopt_result_finish(&kept);
        }
    }
    pst_problem_destroy(problem);
    return 0;
}
