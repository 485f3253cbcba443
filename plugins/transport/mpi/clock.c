/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the clocks of processes are apart. Each asks rank 0 for the time, several times: the
 * answer was given between question and answer, so the shortest of these round trips bounds the
 * difference best, by half of it either way (Cristian, Probabilistic clock synchronization, 1989).
 * Processes of one running system and one time namespace read the same clock.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/mpi/module.h"

#define ROUNDS   32
#define LIMIT_NS UINT64_C(5000000000) /* of all, then the clocks count as unknown */

void mpi_clock_identify(struct mpi_clock_id *ret_id)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    struct stat space;

    *ret_id = (struct mpi_clock_id){.boot = ""};
    if (fd >= 0) {
        const ssize_t n = read(fd, ret_id->boot, sizeof ret_id->boot - 1);

        ret_id->boot[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    if (stat("/proc/self/ns/time", &space) == 0) {
        ret_id->space = (uint64_t)space.st_ino;
    }
}

/* --- the communicator's side -------------------------------------------------------------------*/

static bool finish(struct world *world, MPI_Request *request, uint64_t deadline_ns)
{
    while (!mpi_ended(world, request)) {
        if (atomic_load(&world->aborted) || pst_now_ns() > deadline_ns) {
            mpi_drop(world, request, true);
            return false;
        }
        sched_yield();
    }
    return !atomic_load(&world->aborted);
}

static bool send_time(struct world *world, uint32_t to, uint64_t *ns, uint64_t deadline_ns)
{
    MPI_Request request = MPI_REQUEST_NULL;

    return mpi_ok(world,
                  MPI_Isend(ns, sizeof *ns, MPI_BYTE, (int)to, TAG_CLOCK, world->comm, &request),
                  "MPI_Isend") &&
           finish(world, &request, deadline_ns);
}

static bool receive_time(struct world *world, uint32_t from, uint64_t *ns, uint64_t deadline_ns)
{
    MPI_Request request = MPI_REQUEST_NULL;

    return mpi_ok(world,
                  MPI_Irecv(ns, sizeof *ns, MPI_BYTE, (int)from, TAG_CLOCK, world->comm, &request),
                  "MPI_Irecv") &&
           finish(world, &request, deadline_ns);
}

static bool answer(struct world *world, uint32_t rank, uint64_t deadline_ns)
{
    uint64_t question, now;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (!receive_time(world, rank, &question, deadline_ns)) {
            return false;
        }
        now = pst_now_ns();
        if (!send_time(world, rank, &now, deadline_ns)) {
            return false;
        }
    }
    return true;
}

static void ask(struct world *world, uint64_t deadline_ns)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t begin = pst_now_ns(), there, end;

        if (!send_time(world, 0, &begin, deadline_ns) ||
            !receive_time(world, 0, &there, deadline_ns)) {
            world->clock.ahead_ns = 0;
            world->clock.uncertain_ns = UINT64_MAX;
            return;
        }
        end = pst_now_ns();
        if ((end - begin + 1) / 2 < world->clock.uncertain_ns) {
            world->clock.uncertain_ns = (end - begin + 1) / 2;
            world->clock.ahead_ns = (int64_t)(there - (begin + (end - begin) / 2));
        }
    }
}

void mpi_clock_measure(struct world *world)
{
    const uint64_t deadline_ns = pst_now_ns() + LIMIT_NS;

    world->clock.ahead_ns = 0;
    world->clock.uncertain_ns = world->clock.shared[world->rank] ? 0 : UINT64_MAX;
    if (world->rank != 0 && !world->clock.shared[world->rank]) {
        ask(world, deadline_ns);
    }
    for (uint32_t r = 1; r < world->n_ranks && world->rank == 0; r++) {
        if (!world->clock.shared[r] && !answer(world, r, deadline_ns)) {
            break;
        }
    }
    pthread_mutex_lock(&world->mutex);
    world->clock.wanted = false;
    pthread_cond_broadcast(&world->team_wake);
    pthread_mutex_unlock(&world->mutex);
}

/* --- the driving thread's side -----------------------------------------------------------------*/

pst_status mpi_clock(int64_t *ret_ahead_ns, uint64_t *ret_uncertain_ns, struct pst_error *err)
{
    struct world *world = mpi_world;

    pthread_mutex_lock(&world->mutex);
    world->clock.wanted = true;
    mpi_ring(world);
    while (world->clock.wanted && !world->left) {
        mpi_sleep_until(world, pst_now_ns() + world->beat_ns);
    }
    pthread_mutex_unlock(&world->mutex);
    if (atomic_load(&world->aborted)) {
        return mpi_fail_aborted(world, err);
    }
    *ret_ahead_ns = world->clock.ahead_ns;
    *ret_uncertain_ns = world->clock.uncertain_ns;
    return PST_OK;
}
