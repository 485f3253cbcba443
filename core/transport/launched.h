/* SPDX-License-Identifier: Apache-2.0
 *
 * Was this process started by a launcher, one of several? Asked by transports before they load or
 * start anything.
 */
#ifndef PST_TRANSPORT_LAUNCHED_H
#define PST_TRANSPORT_LAUNCHED_H

#include <stddef.h>
#include <stdlib.h>

/* How many processes there are, as launchers leave it in the environment, beginning with Open MPI,
   MPICH and those like it, Slurm; NULL: none has started this one. */
static inline const char *pst_launched_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (getenv(names[i]) != NULL) {
            return getenv(names[i]);
        }
    }
    return getenv("SLURM_STEP_ID") != NULL ? getenv("SLURM_NTASKS") : NULL;
}

#endif
