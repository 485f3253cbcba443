/* SPDX-License-Identifier: Apache-2.0
 *
 * Was this process started by a launcher, one of several? Asked before anything is loaded or
 * started. Launchers leave it in the environment: Open MPI, MPICH and those like it, Slurm.
 */
#ifndef PST_BASE_LAUNCHED_H
#define PST_BASE_LAUNCHED_H

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

/* How many processes there are; NULL: no launcher has started this process. Slurm sets SLURM_NTASKS
   also in the shell of an allocation, and WORLD_SIZE of torchrun is a common name. */
static inline const char *pst_launched_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        "FLUX_JOB_SIZE", NULL};
    const char *size = pst_launched_first(names);

    size = size != NULL ? size : pst_launched_marked("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS");
    size = size != NULL ? size : pst_launched_marked("SLURM_STEP_ID", "SLURM_NTASKS");
    return size != NULL ? size : pst_launched_marked("TORCHELASTIC_RUN_ID", "WORLD_SIZE");
}

static inline bool pst_launched_as_several(void)
{
    const char *size = pst_launched_size();

    return size != NULL && strtoul(size, NULL, 10) > 1;
}

/* Variables that hold the rank of a process. */
static inline const char *const *pst_launched_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "FLUX_TASK_RANK",
                                        "SLURM_PROCID",         NULL};

    return names;
}

/* The rank that the launcher gave to this process; NULL: unknown. */
static inline const char *pst_launched_rank(void)
{
    const char *rank = pst_launched_first(pst_launched_ranks());

    return rank != NULL ? rank : pst_launched_marked("TORCHELASTIC_RUN_ID", "RANK");
}

#endif
