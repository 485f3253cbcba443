/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs over the doubles of CUDA and NCCL by several processes, to be compared with those of one.
 * Include cmocka and unistd.h before.
 */
#ifndef PENSTOCK_TESTS_MPI_CUDA_H
#define PENSTOCK_TESTS_MPI_CUDA_H

#include "on_host_rig.h"

#include "bits_models.h"
#include "mpi_rig.h"

enum { MPI_CUDA_SETS = 12 };

/* On device cuda over this transport, in n processes; 0: in one, without a launcher. */
static inline void mpi_cuda_train(const char *path, const char *const *sets, const char *transport,
                                  uint32_t n, struct trace *ret_trace)
{
    const char *with[MPI_CUDA_SETS + 3];
    uint32_t i = 0;

    for (; sets[i] != NULL; i++) {
        assert_true(i < MPI_CUDA_SETS);
        with[i] = sets[i];
    }
    with[i] = "run.device=cuda";
    with[i + 1] = transport;
    with[i + 2] = NULL;
    mpi_rig_launch(n);
    bits_train(path, with, ret_trace);
    mpi_rig_launch(0);
}

#define CHECK(what, path, n, ...) check(what, path, n, (const char *const[]){__VA_ARGS__, NULL})

#endif
