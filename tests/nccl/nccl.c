/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL as a double on host memory, for ranks that are threads of one process or processes of one
 * machine, with what makes the real one hard to drive: a send is a rendezvous; between two ranks
 * they match in order; a group completes as a whole, and the next one on its stream begins behind
 * it; two ranks connect when they first have to do with each other, and until both have come the
 * communicator is not through; a kernel is not in its stream before the communicator says so;
 * errors come late; a peer that is gone is waited for without an end; an abort waits for all
 * kernels of its device. A kernel keeps its blocks until it ends, and does not begin before its
 * device has room for all of them; how many they are is rounded up, and the ranks have to agree on
 * it. Misuse (calls while a communicator is not through, or from two
 * threads at once, sizes that differ, blocking ones) aborts.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

enum { MOST_DEVICES = 8 };

struct op {
    struct op *next;
    int peer;
    struct fake_end end;
};

struct group {
    struct fake_comm *comm;
    cudaStream_t stream;
    struct op *ops;
};

/* Under the mutex of what is shared. */
struct fake_comm {
    struct fake_shared *shared;
    int rank, whole, device; /* whole: its rank among all, which its first communicator is over */
    atomic_bool busy;        /* a call is under way */
    bool aborted, finalized;
    unsigned polls_left, refs, blocks;
    struct group *pending; /* not in its stream yet */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the above */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static unsigned n_running[MOST_DEVICES]; /* kernels of a device */
static unsigned
    n_blocks[FAKE_RANKS]; /* of a rank, which has a device of its own whatever it says */
static unsigned n_reserved[FAKE_RANKS]; /* of all communicators of a rank */

static _Thread_local int own_rank = -1;
static _Thread_local unsigned depth;
static _Thread_local struct group *open_group;

int fake_own_rank(void)
{
    return own_rank;
}

static void count(unsigned *what, unsigned more)
{
    pthread_mutex_lock(&mutex);
    *what += more;
    pthread_mutex_unlock(&mutex);
}

/* --- communicators --- */

/* A communicator is for one thread at a time. */
static void enter(struct fake_comm *comm)
{
    if (atomic_exchange(&comm->busy, true)) {
        fake_misuse("a communicator that two threads use at once");
    }
    fake_shared_lock(comm->shared);
}

static void leave(struct fake_comm *comm)
{
    fake_shared_unlock(comm->shared);
    atomic_store(&comm->busy, false);
}

static void reserve(int whole, unsigned more)
{
    pthread_mutex_lock(&mutex);
    n_reserved[whole] += more;
    if (n_reserved[whole] > fake_nccl.most_reserved) {
        fake_nccl.most_reserved = n_reserved[whole];
    }
    pthread_mutex_unlock(&mutex);
}

/* Under the mutex of what is shared: ends that differ would wait for each other for ever. */
static void agree(struct fake_shared *shared, const ncclConfig_t *config)
{
    if (shared->n_joined == 0) {
        shared->blocks = config->maxCTAs;
        shared->clusters = config->cgaClusterSize;
    }
    if (shared->blocks != config->maxCTAs || shared->clusters != config->cgaClusterSize) {
        fake_misuse("ranks of a communicator that ask for blocks or clusters of their own");
    }
}

/* Under the mutex, which it leaves. */
static void release(struct fake_comm *comm)
{
    struct fake_shared *shared = comm->shared;
    bool last = --comm->refs == 0, nobody = last && --shared->n_alive == 0;

    fake_shared_unlock(shared);
    if (!last) {
        return;
    }
    if (nobody) {
        fake_shared_forget(shared);
    }
    fake_shared_put(shared);
    reserve(comm->whole, -comm->blocks);
    free(comm);
    count(&fake_nccl.n_comms, -1u);
}

static void free_group(struct group *group)
{
    while (group != NULL && group->ops != NULL) {
        struct op *op = group->ops;

        group->ops = op->next;
        free(op);
    }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret_comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct fake_comm *comm = calloc(1, sizeof *comm);
    struct fake_shared *shared;
    bool all;

    if (fake_fails()) {
        free(comm);
        return ncclInternalError;
    }
    if (comm == NULL || config->blocking != 0 || n > FAKE_RANKS || rank < 0 || rank >= n) {
        fake_misuse("a communicator that blocks, or of no such rank");
        return ncclInvalidArgument;
    }
    shared = fake_shared_get(&id);
    *comm = (struct fake_comm){.shared = shared,
                               .rank = rank,
                               .whole = own_rank < 0 ? rank : own_rank,
                               .device = fake_device(),
                               .refs = 1,
                               .blocks = fake_blocks(config),
                               .polls_left = fake_nccl.faults.polls};
    own_rank = comm->whole;
    fake_shared_lock(shared);
    if (shared->joined[rank] || (shared->n != 0 && shared->n != n)) {
        fake_misuse("a rank joins twice");
    }
    if (shared->n == 0) {
        shared->n = n;
    }
    agree(shared, config);
    reserve(comm->whole, comm->blocks);
    shared->joined[rank] = true;
    shared->n_alive++;
    all = ++shared->n_joined == n;
    fake_shared_unlock(shared);
    if (all) {
        fake_shared_forget(shared);
    }
    count(&fake_nccl.n_comms, 1);
    count(&fake_nccl.n_made, 1);
    *ret_comm = comm;
    return ncclInProgress;
}

static void launch(struct fake_comm *comm);

/* Have all of the group's peers had to do with this rank, too? */
static bool is_connected(const struct fake_comm *comm)
{
    for (const struct op *op = comm->pending->ops; op != NULL; op = op->next) {
        if (!comm->shared->met[op->peer][comm->rank]) {
            return false;
        }
    }
    return true;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    if (fake_fails()) {
        return ncclInternalError;
    }
    enter(comm);
    if (fake_is_failing(comm->whole)) {
        *state = ncclRemoteError;
    } else if (comm->polls_left > 0) {
        comm->polls_left--;
        *state = ncclInProgress;
    } else if (comm->shared->n_joined < comm->shared->n) {
        *state = ncclInProgress;
    } else if (comm->pending != NULL && !is_connected(comm)) {
        *state = ncclInProgress;
    } else if (comm->finalized && comm->refs > 1) { /* kernels are under way */
        *state = ncclInProgress;
    } else {
        launch(comm);
        *state = ncclSuccess;
    }
    leave(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    enter(comm);
    if (comm->pending != NULL) {
        fake_misuse("finalized while it is not through");
    }
    comm->polls_left = fake_nccl.faults.polls;
    comm->finalized = true;
    leave(comm);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    enter(comm);
    if (comm->pending != NULL || comm->polls_left > 0) {
        fake_misuse("destroyed while it is not through");
    }
    if (fake_forget(comm) > 0) {
        fake_misuse("destroyed with memory that it knows");
    }
    atomic_store(&comm->busy, false);
    release(comm);
    return ncclSuccess;
}

/* It waits for the whole device: for the kernels of other communicators, too. */
static pthread_cond_t let_go = PTHREAD_COND_INITIALIZER;
static bool goes_on;
static unsigned n_aborts; /* under way */

static void begin_abort(void)
{
    pthread_mutex_lock(&mutex);
    n_aborts++;
    while (fake_nccl.faults.hang && !goes_on) {
        pthread_cond_wait(&let_go, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

void fake_let_aborts_go(void)
{
    pthread_mutex_lock(&mutex);
    goes_on = true;
    pthread_cond_broadcast(&let_go);
    while (n_aborts > 0) {
        pthread_cond_wait(&ended, &mutex);
    }
    goes_on = false;
    pthread_mutex_unlock(&mutex);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    int device = comm->device;

    begin_abort();
    enter(comm);
    comm->aborted = true;
    fake_forget(comm);
    free_group(comm->pending);
    free(comm->pending);
    comm->pending = NULL;
    fake_shared_tell(comm->shared);
    atomic_store(&comm->busy, false);
    release(comm);
    pthread_mutex_lock(&mutex);
    while (n_running[device] > 0) {
        pthread_cond_wait(&ended, &mutex);
    }
    n_aborts--;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

/* --- groups --- */

static struct fake_channel *channel_of(const struct fake_comm *comm, const struct op *op)
{
    return op->end.is_send ? &comm->shared->channels[comm->rank][op->peer]
                           : &comm->shared->channels[op->peer][comm->rank];
}

/* Of each channel the first that is not over; true: none is left. */
static bool step(struct fake_comm *comm, struct op *ops)
{
    bool busy[2][FAKE_RANKS] = {{false}}, over = true;

    for (struct op *op = ops; op != NULL; op = op->next) {
        bool *channel = &busy[op->end.is_send][op->peer];

        if (!op->end.done && !*channel) {
            fake_end_step(comm->shared, channel_of(comm, op), &op->end);
        }
        *channel = *channel || !op->end.done;
        over = over && op->end.done;
    }
    return over;
}

static bool is_aborted(struct fake_comm *comm)
{
    bool aborted;

    fake_shared_lock(comm->shared);
    aborted = comm->aborted;
    fake_shared_unlock(comm->shared);
    return aborted;
}

/* Blocks of the device for a kernel; false: it never begins. */
static bool take_blocks(struct fake_comm *comm)
{
    bool room = false;

    while (!room && !is_aborted(comm)) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (until.tv_nsec += 20000000) >= 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&mutex);
        room = n_blocks[comm->whole] + comm->blocks <= fake_nccl.processors;
        if (room) {
            n_blocks[comm->whole] += comm->blocks;
            if (n_blocks[comm->whole] > fake_nccl.most_blocks) {
                fake_nccl.most_blocks = n_blocks[comm->whole];
            }
        } else {
            pthread_cond_timedwait(&ended, &mutex, &until);
        }
        pthread_mutex_unlock(&mutex);
    }
    return room;
}

/* The kernel of a group. */
static void run_group(void *argument)
{
    struct group *group = argument;
    struct fake_comm *comm = group->comm;
    bool vanished = fake_nccl.faults.vanished == comm->whole, begun;
    int device = comm->device, whole = comm->whole;
    unsigned blocks;

    count(&n_running[device], 1);
    begun = take_blocks(comm);
    blocks = begun ? comm->blocks : 0;
    fake_shared_lock(comm->shared);
    while (!comm->aborted && (vanished || !step(comm, group->ops))) {
        fake_shared_wait(comm->shared);
    }
    for (const struct op *op = group->ops; op != NULL; op = op->next) {
        fake_end_withdraw(channel_of(comm, op), &op->end);
    }
    free_group(group);
    release(comm);
    pthread_mutex_lock(&mutex);
    fake_nccl.n_groups++;
    n_running[device]--;
    n_blocks[whole] -= blocks;
    pthread_cond_broadcast(&ended);
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

static void append(struct op **list, struct op *op)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = op;
}

static ncclResult_t add(bool is_send, const void *data, size_t count_of, ncclDataType_t type,
                        int peer, ncclComm_t comm, cudaStream_t stream)
{
    struct op *op = fake_fails() ? NULL : calloc(1, sizeof *op);

    if (op == NULL) {
        return ncclInternalError;
    }
    if (depth != 1 || peer == comm->rank || peer >= comm->shared->n) {
        fake_misuse("a transfer outside of a group, or with oneself");
        return ncclInvalidUsage;
    }
    op->peer = peer;
    op->end = (struct fake_end){
        .is_send = is_send,
        .known = fake_is_known(comm, data, count_of * (type == ncclFloat32 ? 4 : 1)),
        .data = fake_reach(data),
        .bytes = count_of * (type == ncclFloat32 ? sizeof(float) : 1)};
    atomic_fetch_add(&fake_nccl.n_bytes, is_send ? op->end.bytes : 0);
    if (open_group == NULL) {
        open_group = calloc(1, sizeof *open_group);
        if (open_group == NULL) {
            abort();
        }
        open_group->comm = comm;
        open_group->stream = stream;
    }
    if (open_group->comm != comm || open_group->stream != stream) {
        fake_misuse("a group of several communicators");
    }
    append(&open_group->ops, op);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *data, size_t count_of, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return add(true, data, count_of, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *data, size_t count_of, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add(false, data, count_of, type, peer, comm, stream);
}

ncclResult_t ncclGroupEnd(void)
{
    struct group *group = open_group;
    struct fake_comm *comm;

    if (depth-- != 1) {
        fake_misuse("groups within groups");
    }
    open_group = NULL;
    if (fake_fails()) {
        free_group(group);
        free(group);
        return ncclInternalError;
    }
    if (group == NULL) {
        return ncclSuccess;
    }
    comm = group->comm;
    enter(comm);
    if (comm->pending != NULL || comm->polls_left > 0) {
        fake_misuse("used while it is not through");
    }
    for (const struct op *op = group->ops; op != NULL; op = op->next) {
        comm->shared->met[comm->rank][op->peer] = true;
    }
    comm->pending = group;
    comm->polls_left = fake_nccl.faults.polls;
    leave(comm);
    return ncclInProgress;
}
