/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the double of NCCL and its runtime: streams that work by themselves, in order, late.
 */
#ifndef PST_TESTS_NCCL_FAKE_H
#define PST_TESTS_NCCL_FAKE_H

#include <nccl.h>

/* Has the stream run work(argument) once it is there, then free the argument. On a stream of
   somebody else, which has always done what it was asked for: at once. */
void fake_stream_ask(cudaStream_t stream, void (*work)(void *argument), void *argument);

/* What a test sets; looked up in the module by name. */
struct fake_faults {
    unsigned polls; /* how often a communicator says that it is not through */
    int vanished;   /* rank whose groups never begin; -1: none */
    int failing;    /* rank whose communicators tell of an error; -1: none */
};
/* What a test looks up in the module, as `fake_nccl`. */
struct fake_nccl {
    struct fake_faults faults;  /* set while nothing is open */
    unsigned n_groups, n_comms; /* groups that ended, communicators that exist */
    /* From now on this rank's communicators tell of an error. */
    void (*break_rank)(int rank);
    /* A stream like those of the transport, for what computes. */
    cudaError_t (*stream_create)(cudaStream_t *ret_stream, unsigned flags, int priority);
    cudaError_t (*stream_destroy)(cudaStream_t stream);
    void (*ask)(cudaStream_t stream, void (*work)(void *argument), void *argument);
};
extern struct fake_nccl fake_nccl;

#endif
