/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs of life. Each process tells the others once a second (more often where the stall limit is
 * short) what its rank is at and whom it waits for. So a rank that has waited too long can name the
 * one at the end of the chain: busy, or silent because it was stopped or its host cannot be
 * reached. And the end of a run by one process, with its reason, reaches the others this way.
 */
#include <stdio.h>
#include <string.h>

#include "transport/mpi/module.h"

#define SECOND       UINT64_C(1000000000)
#define FIRST_NS     (SECOND / 20) /* between beats until there is something to tell of */
#define START_NS     (30 * SECOND) /* at least, before the first step: starting takes its time */
#define MISSED_BEATS 3 /* a rank that was not heard of for more beats than that is silent */

bool mpi_watch_begin(struct world *world)
{
    world->beat_request = world->abort_request = MPI_REQUEST_NULL;
    world->turned_ns = pst_now_ns();
    world->beat_ns = world->stall_ns / 8 < SECOND ? world->stall_ns / 8 : SECOND;
    return MPI_Irecv(&world->beat_in, (int)sizeof world->beat_in, MPI_BYTE, MPI_ANY_SOURCE,
                     TAG_BEAT, world->comm, &world->beat_request) == MPI_SUCCESS &&
           MPI_Irecv(&world->abort_in, (int)sizeof world->abort_in, MPI_BYTE, MPI_ANY_SOURCE,
                     TAG_ABORT, world->comm, &world->abort_request) == MPI_SUCCESS;
}

void mpi_watch_end(struct world *world)
{
    mpi_drop(world, &world->beat_request, true);
    mpi_drop(world, &world->abort_request, true);
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        mpi_drop(world, &world->beat_sends[i], false);
        mpi_drop(world, &world->abort_sends[i], false);
        mpi_drop(world, &world->peers[i].header_request, true);
    }
}

/* Whom this rank waits for; MPI_NO_RANK: nobody. Under the mutex. */
static uint32_t waits_for(struct world *world)
{
    struct sum *sum = atomic_load(&world->waits_sum);

    return sum != NULL ? atomic_load(&sum->missing) : atomic_load(&world->waits_for);
}

/* Under the mutex: what this rank says of itself. */
static struct beat own_beat(struct world *world, uint64_t now)
{
    const struct pst_transport *transport = world->transport;
    uint64_t since = atomic_load(&world->waits_since_ns);
    struct beat beat = {.rank = world->rank, .waits_for = waits_for(world), .misses = MPI_NO_RANK};

    if (atomic_load(&world->job.state) == REQUEST_POSTED) {
        beat.misses = atomic_load(&world->job.missing);
    }
    beat.since_ns = since != 0 && now > since ? now - since : 0;
    if (transport != NULL && transport->doing != NULL) {
        transport->doing(transport->doing_context, world->rank, beat.doing, sizeof beat.doing);
    }
    return beat;
}

static void send_beats(struct world *world, uint64_t now)
{
    struct beat beat;

    pthread_mutex_lock(&world->mutex);
    beat = own_beat(world, now);
    world->told = world->told || beat.doing[0] != '\0';
    pthread_mutex_unlock(&world->mutex);
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        if (i == world->rank || !mpi_ended(world, &world->beat_sends[i])) {
            continue; /* or it has not taken the last one */
        }
        world->beats_out[i] = beat;
        mpi_ok(world,
               MPI_Isend(&world->beats_out[i], (int)sizeof beat, MPI_BYTE, (int)i, TAG_BEAT,
                         world->comm, &world->beat_sends[i]),
               "MPI_Isend");
    }
}

static void take_beats(struct world *world, uint64_t now)
{
    while (mpi_ended(world, &world->beat_request)) {
        pthread_mutex_lock(&world->mutex);
        if (world->beat_in.rank < world->n_ranks) {
            world->beats[world->beat_in.rank] = world->beat_in;
            world->heard_ns[world->beat_in.rank] = now;
        }
        pthread_mutex_unlock(&world->mutex);
        if (!mpi_ok(world,
                    MPI_Irecv(&world->beat_in, (int)sizeof world->beat_in, MPI_BYTE, MPI_ANY_SOURCE,
                              TAG_BEAT, world->comm, &world->beat_request),
                    "MPI_Irecv")) {
            return;
        }
    }
}

/* --- the end of a run --------------------------------------------------------------------------*/

/* With `own`: it is this process that ends the run, and the others are to be told. */
static void abort_here(struct world *world, const struct abort_message *message,
                       const struct pst_error *own)
{
    pthread_mutex_lock(&world->mutex);
    if (!atomic_load(&world->aborted)) {
        world->abort = *message;
        world->abort_wanted = own != NULL;
        if (own != NULL) {
            world->abort_error = *own;
        }
        atomic_store(&world->aborted, true);
        mpi_ring(world);
        pthread_cond_signal(&world->rank_wake);
        pthread_cond_broadcast(&world->team_wake);
    }
    pthread_mutex_unlock(&world->mutex);
}

void mpi_abort(struct world *world, uint32_t rank, const struct pst_error *why)
{
    struct abort_message message = {.rank = rank, .exit_code = pst_error_exit_code(why)};

    snprintf(message.why, sizeof message.why, "%s", why->message);
    abort_here(world, &message, why);
}

void mpi_give_up(struct world *world, const char *kind, const char *why)
{
    struct pst_error error;

    pst_fail(&error, PST_ERR_CANCELLED, kind, "%s", why);
    mpi_abort(world, world->rank, &error);
}

void mpi_give_up_memory(struct world *world)
{
    struct pst_error error;

    pst_fail_nomem(&error);
    mpi_abort(world, world->rank, &error);
}

/* Was the process stopped until now, or a moment ago? */
static bool has_stood(const struct world *world)
{
    const uint64_t now = pst_now_ns();

    return now - world->turned_ns > world->stall_ns / 2 ||
           (world->stood_ns > 0 && now - world->stood_ns < 2 * world->beat_ns);
}

static bool carry_aborts(struct world *world)
{
    bool send;

    if (!atomic_load(&world->aborted) && mpi_ended(world, &world->abort_request)) {
        world->abort_in.why[sizeof world->abort_in.why - 1] = '\0';
        atomic_store(&world->stood, has_stood(world));
        abort_here(world, &world->abort_in, NULL);
        return true;
    }
    pthread_mutex_lock(&world->mutex);
    send = world->abort_wanted && !world->abort_sent;
    world->abort_sent = world->abort_sent || send;
    pthread_mutex_unlock(&world->mutex);
    for (uint32_t i = 0; i < world->n_ranks && send; i++) {
        if (i != world->rank) {
            MPI_Isend(&world->abort, (int)sizeof world->abort, MPI_BYTE, (int)i, TAG_ABORT,
                      world->comm, &world->abort_sends[i]);
        }
    }
    return send;
}

bool mpi_watch_progress(struct world *world)
{
    uint64_t now = pst_now_ns();
    bool soon = world->open && !world->told && FIRST_NS < world->beat_ns;

    world->stood_ns = now - world->turned_ns > world->stall_ns / 2 ? now : world->stood_ns;
    world->turned_ns = now;
    take_beats(world, now);
    mpi_gone_progress(world, now);
    if (now - world->beaten_ns >= (soon ? FIRST_NS : world->beat_ns)) {
        world->beaten_ns = now;
        send_beats(world, now);
    }
    return carry_aborts(world);
}

pst_status mpi_fail_aborted(struct world *world, struct pst_error *err)
{
    if (world->abort_wanted) {
        if (err != NULL) {
            *err = world->abort_error;
        }
        return world->abort_error.status;
    }
    stall_fail_aborted(world->abort.rank, world->abort.why, err);
    if (err != NULL) {
        err->exit_code = world->abort.exit_code;
    }
    return PST_ERR_CANCELLED;
}

/* --- who waits for whom ------------------------------------------------------------------------*/

static uint64_t silence(const struct world *world, uint32_t rank, uint64_t now)
{
    return rank == world->rank || now < world->heard_ns[rank] ? 0 : now - world->heard_ns[rank];
}

static bool is_silent(const struct world *world, uint32_t rank, uint64_t now)
{
    return world->gone[rank].is || silence(world, rank, now) > MISSED_BEATS * world->beat_ns;
}

uint64_t mpi_patience(const struct world *world)
{
    return world->stall_ns > START_NS || atomic_load(&world->steps) ? world->stall_ns : START_NS;
}

uint32_t mpi_silent(struct world *world)
{
    uint64_t now = pst_now_ns(), limit = mpi_patience(world);
    uint32_t found = MPI_NO_RANK;

    pthread_mutex_lock(&world->mutex);
    for (uint32_t i = 0; i < world->n_ranks && found == MPI_NO_RANK; i++) {
        found = silence(world, i, now) > limit ? i : found;
    }
    pthread_mutex_unlock(&world->mutex);
    return found;
}

/* The one of which nothing was heard for the longest time, else `rank`. Who has several transfers
   under way at once names one of those that it waits for, so that a chain may miss the one that
   stands still; and on a busy machine others are late, too, but not by as much. `rank` stays where
   it is silent and no other one is by more than a beat: processes of a host go together. */
static uint32_t stopped_or(const struct world *world, uint32_t rank, uint64_t now)
{
    uint64_t longest = is_silent(world, rank, now) ? silence(world, rank, now) + world->beat_ns : 0;

    for (uint32_t r = 0; r < world->n_ranks && !world->gone[rank].is; r++) {
        if (world->gone[r].is || (is_silent(world, r, now) && silence(world, r, now) > longest)) {
            longest = silence(world, r, now);
            rank = r;
        }
    }
    return rank;
}

/* The end of the chain that begins with a rank: it waits for nobody, or nothing is heard of it. */
static uint32_t last_of(const struct world *world, uint32_t rank, uint64_t now)
{
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        uint32_t next = world->beats[rank].waits_for;

        if (is_silent(world, rank, now) || next >= world->n_ranks) {
            break;
        }
        rank = next;
    }
    return stopped_or(world, rank, now);
}

static bool waits_for_it(const struct world *world, uint32_t rank, uint32_t it, uint64_t now)
{
    const struct beat *beat = &world->beats[rank];

    return beat->misses == it ||
           (beat->waits_for < world->n_ranks && last_of(world, rank, now) == it);
}

static void list_waiting(const struct world *world, uint32_t for_whom, uint64_t now, char *text,
                         size_t size)
{
    text[0] = '\0';
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        if (r != for_whom && !is_silent(world, r, now) && waits_for_it(world, r, for_whom, now)) {
            stall_list_device(text, size, r);
        }
    }
}

/* Describes the rank at the end of the chain. */
static void describe(const struct world *world, uint32_t rank, uint64_t now, char *text,
                     size_t size)
{
    const struct beat *beat = &world->beats[rank];
    const char *doing = beat->doing[0] != '\0' ? beat->doing : "nothing that it reports";
    const char *host = mpi_host_of(world, rank);
    double silent_s = (double)silence(world, rank, now) / 1e9;

    if (world->gone[rank].is) {
        snprintf(text, size,
                 "device %u (rank %u, host %s) has ended without a message, killed or crashed; in "
                 "its last report, %.2g s before, it was in %s",
                 rank, rank, host, silent_s, doing);
    } else if (is_silent(world, rank, now)) {
        snprintf(text, size,
                 "device %u (rank %u, host %s) has not reported for %.3g s, it was in %s", rank,
                 rank, host, silent_s, doing);
    } else {
        snprintf(text, size, "device %u (rank %u, host %s) is in %s", rank, rank, host, doing);
    }
}

/* A transfer with it is under way, which this rank will wait for if it does not yet. */
static bool needs(const struct world *world, uint32_t rank)
{
    bool any = world->peers[rank].expected.first != NULL;

    for (uint32_t i = 0; i < world->n_active; i++) {
        any = any || world->active[i]->peer == rank;
    }
    return any;
}

bool mpi_tell_gone(struct world *world, uint32_t rank, struct pst_error *ret_why)
{
    uint64_t now = pst_now_ns();
    struct beat *own = &world->beats[world->rank];
    char culprit[384], waiting[192];

    pthread_mutex_lock(&world->mutex);
    *own = own_beat(world, now);
    if (own->waits_for == MPI_NO_RANK && needs(world, rank)) {
        own->waits_for = rank;
    }
    describe(world, rank, now, culprit, sizeof culprit);
    list_waiting(world, rank, now, waiting, sizeof waiting);
    pthread_mutex_unlock(&world->mutex);
    pst_fail(ret_why, PST_ERR_CANCELLED, "run.died", "%s; waiting for it: %s%s", culprit,
             waiting[0] == '\0'             ? "nobody yet"
             : strchr(waiting, ',') != NULL ? "devices"
                                            : "device",
             waiting);
    pst_error_hint(ret_why, "the kernel's log lists processes that it killed for lack of memory");
    return waiting[0] != '\0';
}

pst_status mpi_fail_stalled(struct world *world, uint32_t peer, const char *what,
                            struct pst_error *err)
{
    uint64_t now = pst_now_ns();
    char culprit[384], waiting[192], own[128];
    uint32_t last;
    bool silent;

    pthread_mutex_lock(&world->mutex);
    world->beats[world->rank] = own_beat(world, now);
    world->beats[world->rank].waits_for = peer;
    last = last_of(world, world->rank, now);
    silent = is_silent(world, last, now);
    describe(world, last, now, culprit, sizeof culprit);
    list_waiting(world, last, now, waiting, sizeof waiting);
    snprintf(own, sizeof own, "%s", world->beats[world->rank].doing);
    pthread_mutex_unlock(&world->mutex);
    stall_fail_chain(culprit, waiting, world->rank, world->stall_ns, what,
                     silent ? "its process was stopped, or its host cannot be reached" : stall_hint,
                     err);
    if (own[0] != '\0') {
        pst_error_detail(err, "device %u is in %s\n", world->rank, own);
    }
    return PST_ERR_CANCELLED;
}
