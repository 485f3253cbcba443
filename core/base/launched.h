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

/* Slurm says how many tasks a step has; what was asked for stands in the environment of a shell,
   too, in which nothing was launched. */
static inline const char *pst_launched_by_slurm(const char *name)
{
    return getenv("SLURM_STEP_ID") != NULL ? getenv(name) : NULL;
}

/* How many processes there are; NULL: none has started this one. */
static inline const char *pst_launched_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        NULL};
    const char *size = pst_launched_first(names);

    size = size != NULL ? size : pst_launched_by_slurm("SLURM_STEP_NUM_TASKS");
    return size != NULL ? size : pst_launched_by_slurm("SLURM_NTASKS");
}

static inline bool pst_launched_as_several(void)
{
    const char *size = pst_launched_size();

    return size != NULL && strcmp(size, "1") != 0;
}

/* Variables that hold the rank of a process. */
static inline const char *const *pst_launched_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                                        "SLURM_PROCID", NULL};

    return names;
}

#endif
