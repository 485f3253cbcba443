/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective operations of processes outside of a step: exchanging data, leaving.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/mpi/module.h"

#define SECOND  UINT64_C(1000000000)
#define SLICE   ((uint64_t)64 << 20)
#define LOST_NS (3 * SECOND)

/* --- the communicator's side -------------------------------------------------------------------*/

static void begin(struct world *world)
{
    struct team_job *job = &world->job;
    uint32_t n = world->n_ranks;

    job->begun = true;
    for (uint32_t r = 0; r < n; r++) {
        bool receives = r != world->rank && (job->to_all || r == 0);
        bool sends = r != world->rank && (job->to_all || world->rank == 0);

        if (receives) {
            mpi_ok(world,
                   MPI_Irecv(job->all + (size_t)r * (size_t)job->bytes, job->bytes, MPI_BYTE,
                             (int)r, job->tag, world->comm, &job->requests[r]),
                   "MPI_Irecv");
        }
        if (sends) {
            mpi_ok(world,
                   MPI_Isend(job->mine, job->bytes, MPI_BYTE, (int)r, job->tag, world->comm,
                             &job->requests[n + r]),
                   "MPI_Isend");
        }
    }
}

static void end(struct world *world, uint32_t state)
{
    struct team_job *job = &world->job;
    uint32_t n = world->n_ranks;

    for (uint32_t r = 0; r < 2 * n; r++) {
        if (r < n) {
            job->present[r] = job->requests[r] == MPI_REQUEST_NULL;
        }
        mpi_drop(world, &job->requests[r], r < n);
        job->requests[r] = MPI_REQUEST_NULL;
    }
    pthread_mutex_lock(&world->mutex);
    atomic_store(&job->state, state);
    pthread_cond_broadcast(&world->team_wake);
    pthread_mutex_unlock(&world->mutex);
}

bool mpi_team_progress(struct world *world)
{
    struct team_job *job = &world->job;
    bool over = true, all = true, aborted = atomic_load(&world->aborted);

    if (atomic_load(&job->state) != REQUEST_POSTED) {
        return false;
    }
    if (!job->begun) {
        begin(world);
        return true;
    }
    for (uint32_t r = 0; r < 2 * world->n_ranks; r++) {
        bool ended = mpi_ended(world, &job->requests[r]);

        if (all && !ended) {
            atomic_store(&job->missing, r % world->n_ranks);
        }
        all = all && ended;
        over = over && (ended || world->gone[r % world->n_ranks].is);
    }
    if (over) {
        end(world, all ? REQUEST_DONE : REQUEST_BAD); /* for those that are gone nobody waits */
    } else if (job->final ? aborted && pst_now_ns() >= job->deadline_ns : aborted) {
        end(world, REQUEST_BAD);
    } else {
        return false;
    }
    return true;
}

/* --- the driving thread's side -----------------------------------------------------------------*/

void mpi_sleep_until(struct world *world, uint64_t ns)
{
    struct timespec until = pst_timespec(ns);

    pthread_cond_timedwait(&world->team_wake, &world->mutex, &until);
}

static bool make_room(char **bytes, size_t *room, size_t wanted)
{
    char *larger = wanted > *room ? malloc(wanted) : NULL;

    if (larger != NULL) { /* otherwise what there is stays, for a run that ends */
        free(*bytes);
        *bytes = larger;
        *room = wanted;
    }
    return wanted <= *room;
}

/* Has a process been silent for too long? Then the run ends, and this tells of it. */
static pst_status look_for_silence(struct world *world, struct pst_error *ret_why)
{
    uint32_t silent = atomic_load(&world->aborted) ? MPI_NO_RANK : mpi_silent(world);
    pst_status status = PST_OK;

    if (silent != MPI_NO_RANK) {
        status =
            mpi_fail_stalled(world, silent, "for it to join an operation of all ranks", ret_why);
        mpi_abort(world, world->rank, ret_why);
    }
    return status;
}

/* The communicator should have given up long ago: it hangs in MPI. */
static bool is_lost(struct world *world)
{
    const struct team_job *job = &world->job;

    return job->final && atomic_load(&world->aborted) && pst_now_ns() > job->deadline_ns + LOST_NS;
}

/* Sends the bytes in job->mine; on success, job->all has those received. */
static pst_status run(struct world *world, int tag, bool to_all, int bytes, uint64_t limit_ns,
                      struct pst_error *err)
{
    struct team_job *job = &world->job;
    struct pst_error why = {0};
    pst_status silence = PST_OK;
    uint32_t number;
    bool done;

    pthread_mutex_lock(&world->mutex);
    number = ++job->number;
    while (atomic_load(&job->state) == REQUEST_POSTED && !is_lost(world)) {
        mpi_sleep_until(world, pst_now_ns() + world->beat_ns); /* its thread was not the last */
    }
    job->tag = tag;
    job->to_all = to_all;
    job->final = limit_ns > 0;
    job->bytes = bytes;
    job->deadline_ns = pst_now_ns() + limit_ns;
    job->begun = false;
    atomic_store(&job->missing, MPI_NO_RANK);
    atomic_store(&job->state, REQUEST_POSTED);
    mpi_ring(world);
    while (job->number == number && atomic_load(&job->state) == REQUEST_POSTED && !is_lost(world)) {
        mpi_sleep_until(world, pst_now_ns() + world->beat_ns);
        pthread_mutex_unlock(&world->mutex);
        silence = silence == PST_OK ? look_for_silence(world, &why) : silence;
        pthread_mutex_lock(&world->mutex);
    }
    done = job->number == number && atomic_load(&job->state) == REQUEST_DONE;
    pthread_mutex_unlock(&world->mutex);
    if (done) {
        return PST_OK;
    }
    if (silence != PST_OK && err != NULL) {
        *err = why;
    }
    return silence != PST_OK ? silence : mpi_fail_aborted(world, err);
}

/* Room for `bytes` of each process. */
static pst_status prepare(struct world *world, uint64_t bytes, struct pst_error *err)
{
    struct team_job *job = &world->job;

    return make_room(&job->mine, &job->room_mine, bytes) &&
                   make_room(&job->all, &job->room_all, bytes * world->n_ranks)
               ? PST_OK
               : pst_fail_nomem(err);
}

static pst_status mpi_exchange(const void *mine, void *all, uint64_t bytes, struct pst_error *err)
{
    struct world *world = mpi_world;
    uint64_t slice = SLICE / world->n_ranks;
    pst_status status = PST_OK;

    for (uint64_t at = 0; at < bytes && status == PST_OK; at += slice) {
        uint64_t n = bytes - at < slice ? bytes - at : slice;

        status = prepare(world, n, err);
        if (status == PST_OK) {
            memcpy(world->job.mine, (const char *)mine + at, n);
            status = run(world, TAG_EXCHANGE, true, (int)n, 0, err);
        }
        for (uint32_t r = 0; r < world->n_ranks && status == PST_OK; r++) {
            memcpy((char *)all + r * bytes + at,
                   r == world->rank ? world->job.mine : world->job.all + r * n, n);
        }
    }
    return status;
}

static pst_status mpi_broadcast(void *data, uint64_t bytes, struct pst_error *err)
{
    struct world *world = mpi_world;
    pst_status status = PST_OK;

    for (uint64_t at = 0; at < bytes && status == PST_OK; at += SLICE) {
        uint64_t n = bytes - at < SLICE ? bytes - at : SLICE;

        status = prepare(world, n, err);
        if (status == PST_OK) {
            memcpy(world->job.mine, (const char *)data + at, n);
            status = run(world, TAG_EXCHANGE, false, (int)n, 0, err);
        }
        if (status == PST_OK && world->rank != 0) {
            memcpy((char *)data + at, world->job.all, n);
        }
    }
    return status;
}

static void mpi_stop(const struct pst_error *why)
{
    mpi_abort(mpi_world, mpi_world->rank, why);
}

#define STOOD_S 8 /* a launcher kills what it ends after a second, or several */

static const void *mpi_settle(const void *mine, uint64_t bytes, uint64_t limit_ns,
                              const bool **ret_present)
{
    struct world *world = mpi_world;
    struct team_job *job = &world->job;

    /* The others have said that this process stood still, and the launcher ends it. If it lives on,
       nobody has. */
    if (atomic_load(&world->stood)) {
        nanosleep(&(struct timespec){STOOD_S, 0}, NULL);
    }
    memset(job->present, 0, world->n_ranks * sizeof(bool));
    memcpy(job->mine, mine, bytes);
    run(world, TAG_SETTLE, true, (int)bytes, limit_ns, NULL);
    memcpy(job->all + world->rank * bytes, mine, bytes);
    job->present[world->rank] = true;
    *ret_present = job->present;
    return job->all;
}

/* --- the rest of the table ---------------------------------------------------------------------*/

static const char *mpi_host(uint32_t rank)
{
    return mpi_host_of(mpi_world, rank);
}

static uint32_t mpi_rank(void)
{
    return mpi_world->rank;
}

/* While the rank waits for a sum of this transport, that is what it tells of. */
static void mpi_waits(uint32_t peer)
{
    struct world *world = mpi_world;
    bool since_now = peer != MPI_NO_RANK && atomic_load(&world->waits_since_ns) == 0;

    if (atomic_load(&world->waits_sum) != NULL) {
        return;
    }
    if (peer != atomic_load(&world->waits_for) || since_now) {
        atomic_store(&world->waits_for, peer);
        atomic_store(&world->waits_since_ns, peer == MPI_NO_RANK ? 0 : pst_now_ns());
    }
}

static pst_status mpi_stalled(uint32_t peer, const char *what, struct pst_error *err)
{
    return mpi_fail_stalled(mpi_world, peer, what, err);
}

#define LEAVE_NS (5 * SECOND)

static void mpi_leave(int exit_code, bool orderly)
{
    struct world *world = mpi_world;
    uint64_t end_ns;
    bool left;

    if (mpi_hangs) { /* exit() would take from its thread what that is at */
        fflush(NULL);
        _exit(exit_code);
    }
    if (world == NULL) {
        return;
    }
    /* Nobody goes before all have come: a launcher ends the others when the first one fails. */
    atomic_store(&world->aborted, true);
    orderly = orderly && run(world, TAG_LEAVE, true, 1, LEAVE_NS / 2, NULL) == PST_OK;
    exit_code = orderly || exit_code != 0 ? exit_code : 1;
    pthread_mutex_lock(&world->mutex);
    world->exit_code = exit_code;
    world->quit = orderly ? 1 : 2;
    mpi_ring(world);
    end_ns = pst_now_ns() + LEAVE_NS;
    while (!world->left && pst_now_ns() < end_ns) {
        mpi_sleep_until(world, end_ns);
    }
    left = world->left;
    pthread_mutex_unlock(&world->mutex);
    if (!left || !orderly) {
        _exit(exit_code != 0 ? exit_code : 1);
    }
    pthread_join(world->thread, NULL);
    if (exit_code == 0) { /* else there may be threads that still wait */
        mpi_world_destroy(world);
    }
}

const struct pst_transport_processes mpi_processes = {
    .join = mpi_join,
    .host = mpi_host,
    .rank = mpi_rank,
    .clock = mpi_clock,
    .exchange = mpi_exchange,
    .broadcast = mpi_broadcast,
    .abort = mpi_stop,
    .waits = mpi_waits,
    .stalled = mpi_stalled,
    .settle = mpi_settle,
    .leave = mpi_leave,
};
