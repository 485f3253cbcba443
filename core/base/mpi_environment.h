/* SPDX-License-Identifier: Apache-2.0
 *
 * Was this process started by a launcher, one of several? Asked before anything is loaded or
 * started. Launchers leave it in the environment: Open MPI, MPICH and those like it, Slurm.
 */
#ifndef PST_BASE_MPI_ENVIRONMENT_H
#define PST_BASE_MPI_ENVIRONMENT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The first of these variables that there is; NULL: none. */
static inline const char *pst_launched_first(const char *const *names)
{
    for (; *names != NULL; names++) {
        if (getenv(*names) != NULL) {
            return getenv(*names);
        }
    }
    return NULL;
}

/* The variable `name`, where the variable `mark` shows that this process was launched. */
static inline const char *pst_launched_marked(const char *mark, const char *name)
{
    return getenv(mark) != NULL ? getenv(name) : NULL;
}

/* Returns how many processes there are; NULL: no launcher has started this process. "several"
   stands for a number that a launcher keeps to itself: PMIx, and Hydra with a port. Slurm sets
   SLURM_NTASKS and SLURM_PROCID also in the shell of an allocation, which is no step or a step of
   one task, and WORLD_SIZE of torchrun is a common name. */
static inline const char *pst_launched_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        "FLUX_JOB_SIZE", NULL};
    static const char *const marked[][2] = {{"PALS_RANKID", "PALS_SIZE"},
                                            {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
                                            {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                            {"SLURM_STEP_ID", "SLURM_NTASKS"},
                                            {"TORCHELASTIC_RUN_ID", "WORLD_SIZE"}};
    const char *size = pst_launched_first(names);

    for (size_t i = 0; size == NULL && i < sizeof marked / sizeof *marked; i++) {
        size = pst_launched_marked(marked[i][0], marked[i][1]);
    }
    if (size == NULL && (getenv("PMIX_RANK") != NULL || getenv("PMI_ID") != NULL)) {
        size = "several";
    }
    return size != NULL ? size : getenv("MPI_LOCALNRANKS");
}

static inline bool pst_launched_as_several(void)
{
    const char *size = pst_launched_size();

    return size != NULL && (strcmp(size, "several") == 0 || strtoul(size, NULL, 10) > 1);
}

/* Variables that hold the rank of a process. */
static inline const char *const *pst_launched_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",
                                        "FLUX_TASK_RANK",
                                        "PALS_RANKID",
                                        "JSM_NAMESPACE_RANK",
                                        "PMIX_RANK",
                                        "PMI_ID",
                                        "SLURM_PROCID",
                                        NULL};

    return names;
}

/* The rank that the launcher gave to this process; NULL: unknown. */
static inline const char *pst_launched_rank(void)
{
    const char *rank = pst_launched_first(pst_launched_ranks());

    return rank != NULL ? rank : pst_launched_marked("TORCHELASTIC_RUN_ID", "RANK");
}

#endif
