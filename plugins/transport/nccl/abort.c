/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of communicators whose kernels may spin for ever. Aborting one may wait for its whole
 * GPU, and so for the kernels of another one there, and for the other ranks of this machine to
 * abort theirs. So all communicators of the process are aborted at once, by a thread each, and
 * nobody waits for these without a limit.
 *
 * Source: the NCCL 2.28 documentation (fault tolerance); NVIDIA/nccl issues 863 and 1013.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "transport/nccl/module.h"

#ifndef NCCL_ABORT_NS
#define NCCL_ABORT_NS UINT64_C(5000000000)
#endif
#define LOOK_NS 1000000

/* Freed by whoever is the last to look at it. */
struct aborts {
    pthread_mutex_t mutex;
    pthread_cond_t over;
    uint32_t n_left, n_users;
};

struct one {
    struct aborts *aborts;
    ncclComm_t comm;
    int ordinal;
};

/* Under the mutex, which it leaves. */
static void let_go(struct aborts *aborts)
{
    bool last = --aborts->n_users == 0;

    pthread_mutex_unlock(&aborts->mutex);
    if (last) {
        pthread_mutex_destroy(&aborts->mutex);
        pthread_cond_destroy(&aborts->over);
        free(aborts);
    }
}

static void *abort_one(void *argument)
{
    struct one one = *(struct one *)argument;

    free(argument);
    cudaSetDevice(one.ordinal); /* NCCL goes back to it, else to the first GPU */
    ncclCommAbort(one.comm);
    pthread_mutex_lock(&one.aborts->mutex);
    if (--one.aborts->n_left == 0) {
        pthread_cond_signal(&one.aborts->over);
    }
    let_go(one.aborts);
    return NULL;
}

/* Under the mutex. */
static void start(struct aborts *aborts, ncclComm_t comm, int ordinal)
{
    struct one *one = pst_alloc(1, sizeof *one);
    pthread_t thread;

    *one = (struct one){aborts, comm, ordinal};
    if (pthread_create(&thread, NULL, abort_one, one) != 0) {
        free(one); /* there is no more to be done for it than to leave it */
        return;
    }
    pthread_detach(thread);
    aborts->n_left++;
    aborts->n_users++;
}

/* Takes a lane's communicator away from everybody else; NULL: there is none. */
static ncclComm_t take(struct rank *rank, uint32_t lane)
{
    ncclComm_t comm;

    pthread_mutex_lock(&rank->mutex);
    comm = rank->lanes[lane].comm;
    rank->lanes[lane].comm = NULL;
    pthread_mutex_unlock(&rank->mutex);
    return comm;
}

static struct aborts *create(void)
{
    struct aborts *aborts = pst_alloc(1, sizeof *aborts);

    pthread_mutex_init(&aborts->mutex, NULL);
    stall_init_wake(&aborts->over);
    aborts->n_users = 1;
    return aborts;
}

void nccl_abort_all(struct pst_transport *transport)
{
    uint64_t end_ns = pst_now_ns() + NCCL_ABORT_NS;
    struct timespec until = pst_timespec(end_ns);
    struct aborts *aborts = create();

    pthread_mutex_lock(&aborts->mutex);
    for (uint32_t r = 0; r < transport->n_ready; r++) {
        for (uint32_t l = 0; l < transport->ranks[r].n_lanes; l++) {
            ncclComm_t comm = take(&transport->ranks[r], l);
            uint32_t before = aborts->n_left;

            if (comm != NULL) {
                start(aborts, comm, transport->ranks[r].ordinal);
                transport->spins = transport->spins || aborts->n_left == before;
            }
        }
    }
    while (aborts->n_left > 0 && pst_now_ns() < end_ns) {
        pthread_cond_timedwait(&aborts->over, &aborts->mutex, &until);
    }
    transport->spins = transport->spins || aborts->n_left > 0;
    let_go(aborts);
}

bool nccl_let_go(struct pst_transport *transport, uint32_t rank)
{
    const struct timespec moment = {0, LOOK_NS};
    const bool idle = nccl_deregister(transport, rank);
    const uint64_t end_ns = pst_now_ns() + 2 * NCCL_ABORT_NS;

    if (!atomic_load(&transport->failed)) {
        return idle; /* no: a transfer that nobody has asked for waits for its peer */
    }
    while (!atomic_load(&transport->through)) {
        if (pst_now_ns() > end_ns) {
            return false; /* the watch itself hangs */
        }
        nanosleep(&moment, NULL);
    }
    return !transport->spins;
}
