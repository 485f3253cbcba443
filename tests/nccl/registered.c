/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that communicators of the double know. It is misuse to destroy one that still knows any,
 * to free what one knows, and to have a message go from memory that is known to such that is not.
 */
#include <pthread.h>
#include <stdlib.h>

#include "fake.h"

struct piece {
    struct piece *next;
    const struct fake_comm *comm;
    const char *memory;
    size_t bytes;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct piece *pieces;

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    struct piece *piece;

    if (fake_fails() || fake_nccl.faults.unknown == fake_own_rank() + 1) {
        return ncclInvalidUsage;
    }
    piece = malloc(sizeof *piece);
    if (piece == NULL || memory == NULL || bytes == 0) {
        fake_misuse("no memory to register");
        return ncclInvalidUsage;
    }
    pthread_mutex_lock(&mutex);
    *piece = (struct piece){pieces, comm, memory, bytes};
    pieces = piece;
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&fake_nccl.n_registered, 1);
    atomic_fetch_add(&fake_nccl.n_registrations, 1);
    *handle = piece;
    return ncclSuccess;
}

/* Those of a communicator, or the one that is named; how many. */
static unsigned drop(const struct fake_comm *comm, const void *handle)
{
    unsigned n = 0;

    pthread_mutex_lock(&mutex);
    for (struct piece **at = &pieces; *at != NULL;) {
        struct piece *piece = *at;

        if (piece->comm == comm && (handle == NULL || handle == piece)) {
            *at = piece->next;
            free(piece);
            n++;
        } else {
            at = &piece->next;
        }
    }
    pthread_mutex_unlock(&mutex);
    atomic_fetch_sub(&fake_nccl.n_registered, n);
    return n;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    if (handle == NULL || drop(comm, handle) != 1) {
        fake_misuse("memory that the communicator does not know");
    }
    return ncclSuccess;
}

unsigned fake_forget(const struct fake_comm *comm)
{
    return drop(comm, NULL);
}

bool fake_is_known(const struct fake_comm *comm, const void *memory, uint64_t bytes)
{
    const char *at = memory;
    bool found = false;

    pthread_mutex_lock(&mutex);
    for (const struct piece *piece = pieces; piece != NULL; piece = piece->next) {
        found = found || ((comm == NULL || piece->comm == comm) && at >= piece->memory &&
                          at + bytes <= piece->memory + piece->bytes);
    }
    pthread_mutex_unlock(&mutex);
    return found;
}
