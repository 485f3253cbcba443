/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that start several processes under an MPI launcher. Where this build has no MPI they
 * are skipped. Include cmocka and support.h before.
 */
#ifndef PENSTOCK_TESTS_MPI_RIG_H
#define PENSTOCK_TESTS_MPI_RIG_H

#include <stdbool.h>
#include <stdint.h>

enum { MPI_RIG_SKIP = 77 };

static inline bool mpi_rig_is_here(void)
{
    if (PENSTOCK_MPIEXEC[0] == '\0') {
        printf("skipped: this build has no MPI (libopenmpi-dev, openmpi-bin)\n");
        return false;
    }
    /* Containers run tests as root, and forbid processes to read each other's memory. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    return true;
}

/* What processes are given besides, behind the words of support_launcher. Stacks are walked whole,
   for the libraries of MPI have no frame pointers. */
static inline void mpi_rig_environment(void)
{
    static const char *const words[] = {"-x", "LD_PRELOAD=" PENSTOCK_MPI_KEEP, "-x",
                                        "ASAN_OPTIONS=intercept_tls_get_addr=0:"
                                        "verify_asan_link_order=0:fast_unwind_on_malloc=0",
                                        NULL};
    uint32_t n = 0;

    while (support_launcher[n] != NULL) {
        n++;
    }
    if (PENSTOCK_MPI_KEEP[0] != '\0') {
        memcpy(support_launcher + n, words, sizeof words);
    }
}

/* From now on support_run starts n processes; 0: the program by itself. */
static inline void mpi_rig_launch(uint32_t n)
{
    static char count[16];
    static const char *const words[] = {
        PENSTOCK_MPIEXEC,      "-n", count, "--oversubscribe", "--bind-to", "none", "--mca",
        "mpi_yield_when_idle", "1",  NULL};

    snprintf(count, sizeof count, "%u", n);
    memset(support_launcher, 0, sizeof support_launcher);
    if (n > 0) {
        memcpy(support_launcher, words, sizeof words);
        mpi_rig_environment();
    }
}

#endif
