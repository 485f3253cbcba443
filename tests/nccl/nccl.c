/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL as a double on threads and host memory, with what makes the real one hard to drive: a send
 * is a rendezvous; between two ranks they match in order; a group completes as a whole, and the
 * next one on its stream begins behind it; two ranks connect when they first have to do with each
 * other, and until both have come the communicator is not through; a kernel is not in its stream
 * before the communicator says so; errors come late; a peer that is gone is waited for without an
 * end. Misuse (calls while a communicator is not through, sizes that differ, blocking ones) aborts.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { MOST_RANKS = 16, MOST_CLIQUES = 64 };

struct op {
    struct op *next;
    bool is_send, done;
    int peer;
    void *data;
    size_t bytes;
};

struct group {
    struct fake_comm *comm;
    cudaStream_t stream;
    struct op *ops, *last;
};

struct clique {
    ncclUniqueId id;
    int n, n_joined, n_alive; /* alive: not freed */
    struct fake_comm *comms[MOST_RANKS];
    struct op *sends[MOST_RANKS][MOST_RANKS],
        *recvs[MOST_RANKS][MOST_RANKS]; /* [from][to] active */
    bool met[MOST_RANKS][MOST_RANKS];   /* [a][b] a has had to do with b */
};

struct fake_comm {
    struct clique *clique;
    int rank;
    bool aborted;
    unsigned polls_left, refs;
    struct group *pending; /* not in its stream yet */
    ncclResult_t error;
};

static void fail_rank(int rank);

__attribute__((visibility("default"))) struct fake_nccl fake_nccl = {
    .faults = {2, -1, -1},
    .break_rank = fail_rank,
    .stream_create = cudaStreamCreateWithPriority,
    .stream_destroy = cudaStreamDestroy,
    .ask = fake_stream_ask,
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of everything here */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct clique *cliques[MOST_CLIQUES];
static unsigned n_ids;

static _Thread_local unsigned depth;
static _Thread_local struct group *open_group;

static void fail_rank(int rank)
{
    pthread_mutex_lock(&mutex);
    fake_nccl.faults.failing = rank;
    pthread_mutex_unlock(&mutex);
}

static void misuse(const char *what)
{
    fprintf(stderr, "nccl double: %s\n", what);
    abort();
}

/* --- communicators -----------------------------------------------------------------------------
 */

static struct clique *find_clique(const ncclUniqueId *id, int n)
{
    struct clique *clique;
    uint32_t i = 0;

    for (; i < MOST_CLIQUES; i++) {
        if (cliques[i] != NULL && memcmp(&cliques[i]->id, id, sizeof *id) == 0) {
            return cliques[i];
        }
    }
    for (i = 0; i < MOST_CLIQUES && cliques[i] != NULL; i++) {
    }
    clique = calloc(1, sizeof *clique);
    if (clique == NULL || i == MOST_CLIQUES || n > MOST_RANKS) {
        abort();
    }
    clique->id = *id;
    clique->n = n;
    cliques[i] = clique;
    return clique;
}

static void drop_clique(struct clique *clique)
{
    for (uint32_t i = 0; i < MOST_CLIQUES; i++) {
        cliques[i] = cliques[i] == clique ? NULL : cliques[i];
    }
    free(clique);
}

static void release(struct fake_comm *comm)
{
    if (--comm->refs == 0) {
        comm->clique->comms[comm->rank] = NULL;
        if (--comm->clique->n_alive == 0) {
            drop_clique(comm->clique);
        }
        fake_nccl.n_comms--;
        free(comm);
    }
}

static void free_group(struct group *group)
{
    while (group->ops != NULL) {
        struct op *op = group->ops;

        group->ops = op->next;
        free(op);
    }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret_comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct fake_comm *comm = calloc(1, sizeof *comm);

    if (comm == NULL || config->blocking != 0) {
        misuse("a communicator that blocks");
        return ncclInvalidArgument;
    }
    pthread_mutex_lock(&mutex);
    comm->clique = find_clique(&id, n);
    comm->rank = rank;
    comm->refs = 1;
    comm->polls_left = fake_nccl.faults.polls;
    if (comm->clique->comms[rank] != NULL || comm->clique->n != n) {
        misuse("a rank joins twice");
    }
    comm->clique->comms[rank] = comm;
    comm->clique->n_joined++;
    comm->clique->n_alive++;
    fake_nccl.n_comms++;
    pthread_mutex_unlock(&mutex);
    *ret_comm = comm;
    return ncclInProgress;
}

static void launch(struct fake_comm *comm);

/* Have all of the group's peers had to do with this rank, too? */
static bool is_connected(const struct fake_comm *comm)
{
    for (const struct op *op = comm->pending->ops; op != NULL; op = op->next) {
        if (!comm->clique->met[op->peer][comm->rank]) {
            return false;
        }
    }
    return true;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    pthread_mutex_lock(&mutex);
    if (fake_nccl.faults.failing == comm->rank) {
        comm->error = ncclRemoteError;
    }
    if (comm->error != ncclSuccess) {
        *state = comm->error;
    } else if (comm->polls_left > 0) {
        comm->polls_left--;
        *state = ncclInProgress;
    } else if (comm->clique->n_joined < comm->clique->n) {
        *state = ncclInProgress;
    } else if (comm->pending != NULL && !is_connected(comm)) {
        *state = ncclInProgress;
    } else {
        launch(comm);
        *state = ncclSuccess;
    }
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    pthread_mutex_lock(&mutex);
    comm->polls_left = fake_nccl.faults.polls;
    pthread_mutex_unlock(&mutex);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    pthread_mutex_lock(&mutex);
    if (comm->pending != NULL || comm->polls_left > 0) {
        misuse("destroyed while it is not through");
    }
    release(comm);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    pthread_mutex_lock(&mutex);
    comm->aborted = true;
    if (comm->pending != NULL) {
        free_group(comm->pending);
        free(comm->pending);
        comm->pending = NULL;
    }
    release(comm);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

/* --- groups ------------------------------------------------------------------------------------
 */

static void append(struct op **list, struct op *op)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    op->next = NULL;
    *list = op;
}

/* Moves what is at both heads of a channel. */
static void match(struct clique *clique, int from, int to)
{
    while (clique->sends[from][to] != NULL && clique->recvs[from][to] != NULL) {
        struct op *send = clique->sends[from][to], *recv = clique->recvs[from][to];

        if (send->bytes != recv->bytes) {
            misuse("a send and its receive are of different sizes");
        }
        memcpy(recv->data, send->data, send->bytes);
        clique->sends[from][to] = send->next;
        clique->recvs[from][to] = recv->next;
        send->done = recv->done = true;
        pthread_cond_broadcast(&changed);
    }
}

static void withdraw(struct op **list, const struct op *op)
{
    while (*list != NULL && *list != op) {
        list = &(*list)->next;
    }
    if (*list != NULL) {
        *list = op->next;
    }
}

static struct op **channel_of(struct fake_comm *comm, const struct op *op)
{
    return op->is_send ? &comm->clique->sends[comm->rank][op->peer]
                       : &comm->clique->recvs[op->peer][comm->rank];
}

/* The kernel of a group. */
static void run_group(void *argument)
{
    struct group *group = argument;
    struct fake_comm *comm = group->comm;
    struct op *all[1024];
    uint32_t n = 0;
    bool over = false;

    pthread_mutex_lock(&mutex);
    while (group->ops != NULL) {
        if (n == sizeof all / sizeof *all) {
            misuse("a group of too many transfers");
        }
        all[n++] = group->ops;
        group->ops = group->ops->next;
    }
    for (uint32_t i = 0; i < n && fake_nccl.faults.vanished != comm->rank; i++) {
        append(channel_of(comm, all[i]), all[i]);
        match(comm->clique, all[i]->is_send ? comm->rank : all[i]->peer,
              all[i]->is_send ? all[i]->peer : comm->rank);
    }
    while (!over && !comm->aborted) {
        over = fake_nccl.faults.vanished != comm->rank;
        for (uint32_t i = 0; i < n; i++) {
            over = over && all[i]->done;
        }
        if (!over) {
            pthread_cond_wait(&changed, &mutex);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i]->done) {
            withdraw(channel_of(comm, all[i]), all[i]);
        }
        free(all[i]);
    }
    fake_nccl.n_groups++;
    release(comm);
    pthread_mutex_unlock(&mutex);
}

static void launch(struct fake_comm *comm)
{
    struct group *group = comm->pending;

    if (group != NULL) {
        comm->pending = NULL;
        comm->refs++;
        fake_stream_ask(group->stream, run_group, group);
    }
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

static ncclResult_t add(bool is_send, void *data, size_t count, ncclDataType_t type, int peer,
                        ncclComm_t comm, cudaStream_t stream)
{
    struct op *op = calloc(1, sizeof *op);

    if (op == NULL || depth != 1 || peer == comm->rank || peer >= comm->clique->n) {
        misuse("a transfer outside of a group, or with oneself");
        return ncclInvalidUsage;
    }
    *op = (struct op){.is_send = is_send,
                      .peer = peer,
                      .data = data,
                      .bytes = count * (type == ncclFloat32 ? sizeof(float) : 1)};
    if (open_group == NULL) {
        open_group = calloc(1, sizeof *open_group);
        if (open_group == NULL) {
            abort();
        }
        open_group->comm = comm;
        open_group->stream = stream;
    }
    if (open_group->comm != comm || open_group->stream != stream) {
        misuse("a group of several communicators");
    }
    append(&open_group->ops, op);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return add(true, (void *)(uintptr_t)data, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add(false, data, count, type, peer, comm, stream);
}

ncclResult_t ncclGroupEnd(void)
{
    struct group *group = open_group;
    struct fake_comm *comm;

    if (depth-- != 1) {
        misuse("groups within groups");
    }
    open_group = NULL;
    if (group == NULL) {
        return ncclSuccess;
    }
    comm = group->comm;
    pthread_mutex_lock(&mutex);
    if (comm->pending != NULL || comm->polls_left > 0) {
        misuse("used while it is not through");
    }
    for (const struct op *op = group->ops; op != NULL; op = op->next) {
        comm->clique->met[comm->rank][op->peer] = true;
    }
    comm->pending = group;
    comm->polls_left = fake_nccl.faults.polls;
    pthread_mutex_unlock(&mutex);
    return ncclInProgress;
}

/* --- the rest ----------------------------------------------------------------------------------
 */

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION(2, 28, 9);
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&mutex);
    snprintf(id->internal, sizeof id->internal, "%u", ++n_ids);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited" : "an error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}
