/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that talks to MPI. It looks at everything under way, as often as it pays: for a moment
 * without a break where this host has cores to spare, then with longer and longer naps, for the
 * kernels need the cores more. A new wish wakes it at once.
 */
#include "transport/mpi/module.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/memory.h"

#define SPIN_NS    50000u
#define NAP_NS     20000u
#define LONGEST_NS 1000000u

struct world *mpi_world;

void mpi_ring(struct world *world)
{
    world->rung = true;
    pthread_cond_signal(&world->wake);
}

void mpi_publish(struct world *world, atomic_uint *word, uint32_t value)
{
    const struct sleeper rank = {&world->mutex, &world->rank_wake, &world->aborted, NULL};

    stall_publish(&rank, word, value);
}

bool mpi_ok(struct world *world, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "", why[MPI_WHY];
    int length = 0;

    if (code == MPI_SUCCESS) {
        return true;
    }
    MPI_Error_string(code, text, &length);
    snprintf(why, sizeof why, "%s: %s", what, text);
    mpi_give_up(world, "run.device", why);
    return false;
}

bool mpi_ended(struct world *world, MPI_Request *request)
{
    int flag = 0;

    if (*request == MPI_REQUEST_NULL) {
        return true;
    }
    return !mpi_ok(world, MPI_Test(request, &flag, MPI_STATUS_IGNORE), "MPI_Test") || flag != 0;
}

bool mpi_drop(struct world *world, MPI_Request *request, bool is_receive)
{
    int flag = 0;

    (void)world;
    if (*request == MPI_REQUEST_NULL) {
        return true;
    }
    if (is_receive) {
        MPI_Cancel(request);
    }
    for (uint32_t i = 0; i < 100 && flag == 0; i++) {
        MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    }
    if (flag == 0) {
        MPI_Request_free(request);
    }
    return flag != 0;
}

/* Parts of the library are loaded at run time and look for the rest among global symbols. */
static void promote_library(void)
{
    Dl_info info;

    if (dladdr((void *)(uintptr_t)&MPI_Finalize, &info) != 0 && info.dli_fname != NULL) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    }
}

static struct world *_Atomic in_init;

/* Some errors of MPI_Init end the process. The driving thread tells that, and this one waits. */
static void end_in_init(void)
{
    struct world *world = atomic_load(&in_init);

    if (world == NULL) {
        return;
    }
    pthread_mutex_lock(&world->mutex);
    snprintf(world->why, sizeof world->why,
             "MPI_Init_thread ended the process; MPI's own message may have the reason");
    mpi_hangs = world->failed = true;
    pthread_cond_broadcast(&world->team_wake);
    pthread_mutex_unlock(&world->mutex);
    for (;;) {
        pause();
    }
}

static bool init(struct world *world)
{
    int provided = MPI_THREAD_SINGLE, rank = 0, size = 1, found = 0, *most = NULL;
    int code;

    promote_library();
    mpi_absent_mark(true);
    atomic_store(&in_init, world);
    atexit(end_in_init);
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    atomic_store(&in_init, NULL);
    if (code == MPI_SUCCESS && provided < MPI_THREAD_FUNNELED) {
        snprintf(world->why, sizeof world->why, "this MPI does not support threads");
        return false;
    }
    code = code == MPI_SUCCESS ? MPI_Comm_dup(MPI_COMM_WORLD, &world->comm) : code;
    if (code != MPI_SUCCESS) {
        snprintf(world->why, sizeof world->why, "MPI_Init_thread fails with %d", code);
        return false;
    }
    mpi_absent_mark(false);
    MPI_Comm_set_errhandler(world->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world->comm, &rank);
    MPI_Comm_size(world->comm, &size);
    MPI_Comm_get_attr(world->comm, MPI_TAG_UB, (void *)&most, &found);
    world->n_numbers = MPI_NUMBERS;
    if (found == 0 || *most - TAG_DATA < (int)MPI_NUMBERS) {
        world->n_numbers = (uint32_t)((found != 0 ? *most : 32767) - TAG_DATA);
    }
    world->rank = (uint32_t)rank;
    world->n_ranks = (uint32_t)size;
    return true;
}

static void allocate(struct world *world)
{
    size_t n = world->n_ranks;

    world->hosts = pst_alloc(n, sizeof *world->hosts);
    world->beats = pst_alloc(n, sizeof *world->beats);
    world->clock.shared = pst_alloc(n, sizeof *world->clock.shared);
    world->heard_ns = pst_alloc(n, sizeof *world->heard_ns);
    world->peers = pst_alloc(n, sizeof *world->peers);
    world->beats_out = pst_alloc(n, sizeof *world->beats_out);
    world->beat_sends = pst_alloc(n, sizeof(MPI_Request));
    world->abort_sends = pst_alloc(n, sizeof(MPI_Request));
    world->job.requests = pst_alloc(2 * n, sizeof(MPI_Request));
    world->job.present = pst_alloc(n, sizeof(bool));
    world->job.mine = pst_alloc(world->job.room_mine, 1);
    world->job.room_all = n * world->job.room_mine;
    world->job.all = pst_alloc(world->job.room_all, 1);
    for (uint32_t lane = 0; lane < PST_MEET_LANES; lane++) {
        world->lanes[lane].staging.heads = pst_alloc(n, MPI_HEAD);
    }
    world->gone = pst_alloc(n, sizeof *world->gone);
    for (size_t i = 0; i < n; i++) {
        world->peers[i].header_request = MPI_REQUEST_NULL;
        world->beat_sends[i] = world->abort_sends[i] = MPI_REQUEST_NULL;
        world->job.requests[i] = world->job.requests[n + i] = MPI_REQUEST_NULL;
        world->beats[i].waits_for = world->beats[i].misses = MPI_NO_RANK;
        world->heard_ns[i] = pst_now_ns();
        atomic_init(&world->gone[i].fd, -1);
    }
}

/* Sleeps until it is rung for, at most so long. */
static void nap(struct world *world, uint64_t ns)
{
    uint64_t at = pst_now_ns() + ns;
    struct timespec until = pst_timespec(at);

    pthread_mutex_lock(&world->mutex);
    if (!world->rung) {
        pthread_cond_timedwait(&world->wake, &world->mutex, &until);
    }
    pthread_mutex_unlock(&world->mutex);
}

static void rest(struct world *world, uint64_t idle_ns)
{
    uint64_t ns = idle_ns / 8;

    if (world->spins && idle_ns < SPIN_NS) {
        sched_yield();
        return;
    }
    ns = ns < NAP_NS ? NAP_NS : ns;
    nap(world, ns > LONGEST_NS ? LONGEST_NS : ns);
}

/* Takes what the others left; returns what it shall do. */
static int take(struct world *world, bool *ret_moved)
{
    struct request_queue requests, sums;
    bool close, moved, clock;
    int quit;

    pthread_mutex_lock(&world->mutex);
    requests = world->inbox;
    sums = world->sum_inbox;
    world->inbox = world->sum_inbox = (struct request_queue){0};
    close = world->closing;
    world->open = world->transport != NULL;
    quit = world->quit;
    clock = world->clock.wanted;
    moved = world->rung;
    world->rung = false;
    pthread_mutex_unlock(&world->mutex);
    if (clock) {
        mpi_clock_measure(world);
    }
    mpi_sums_take(world, &sums);
    *ret_moved = mpi_transfers_take(world, &requests) || moved;
    if (close) {
        bool dropped = mpi_transfers_drop(world);

        dropped = mpi_sums_drop(world) && dropped;
        pthread_mutex_lock(&world->mutex);
        world->closing = false;
        world->closed = true;
        world->keeps = !dropped;
        pthread_cond_broadcast(&world->team_wake);
        pthread_mutex_unlock(&world->mutex);
    }
    return quit;
}

static void loop(struct world *world)
{
    uint64_t last = pst_now_ns();

    for (;;) {
        bool moved;
        int quit = take(world, &moved);

        if (quit == 1) {
            mpi_watch_end(world);
            MPI_Comm_free(&world->comm);
            MPI_Finalize();
            return;
        }
        if (quit == 2) {
            MPI_Abort(MPI_COMM_WORLD, world->exit_code);
            return;
        }
        moved = mpi_transfers_progress(world) || moved;
        moved = mpi_sums_progress(world) || moved;
        moved = mpi_team_progress(world) || moved;
        moved = mpi_watch_progress(world) || moved;
        if (moved) {
            last = pst_now_ns();
        } else {
            rest(world, pst_now_ns() - last);
        }
    }
}

void *mpi_communicator(void *argument)
{
    struct world *world = argument;
    bool ok;

    prctl(PR_SET_TIMERSLACK, 1000ul);
    ok = init(world);
    if (ok) {
        allocate(world);
        ok = mpi_watch_begin(world);
    }
    pthread_mutex_lock(&world->mutex);
    world->ready = ok;
    world->failed = !ok;
    pthread_cond_broadcast(&world->team_wake);
    pthread_mutex_unlock(&world->mutex);
    if (ok) {
        loop(world);
    }
    pthread_mutex_lock(&world->mutex);
    world->left = true;
    pthread_cond_broadcast(&world->team_wake);
    pthread_mutex_unlock(&world->mutex);
    return NULL;
}
