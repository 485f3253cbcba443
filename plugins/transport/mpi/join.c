/* SPDX-License-Identifier: Apache-2.0
 *
 * How processes find each other: MPI_Init, which waits for all of them and tells nothing of those
 * that do not come, and then who is where.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/mpi_environment.h"
#include "transport/mpi/module.h"

#define SECOND   UINT64_C(1000000000)
#define YIELD_NS (2 * SECOND) /* for a host that knows more of who is missing */

bool mpi_hangs;

void mpi_world_destroy(struct world *world)
{
    mpi_world = NULL;
    mpi_gone_finish(world);
    pthread_mutex_destroy(&world->mutex);
    pthread_cond_destroy(&world->wake);
    pthread_cond_destroy(&world->rank_wake);
    pthread_cond_destroy(&world->team_wake);
    free(world->hosts);
    free(world->clock.shared);
    free(world->beats);
    free(world->heard_ns);
    free(world->peers);
    free(world->beats_out);
    free(world->beat_sends);
    free(world->abort_sends);
    free(world->job.requests);
    free(world->job.present);
    free(world->job.mine);
    free(world->job.all);
    for (uint32_t lane = 0; lane < PST_MEET_LANES; lane++) {
        free(world->lanes[lane].staging.heads);
    }
    free(world);
}

static struct world *create(uint64_t stall_ns, uint64_t room)
{
    struct world *world = pst_alloc(1, sizeof *world);

    pthread_mutex_init(&world->mutex, NULL);
    stall_init_wake(&world->wake);
    stall_init_wake(&world->rank_wake);
    stall_init_wake(&world->team_wake);
    world->stall_ns = stall_ns;
    world->job.room_mine = room;
    atomic_init(&world->waits_for, MPI_NO_RANK);
    atomic_init(&world->steps, false);
    return world;
}

/* Is it in its loop, or has it failed, before time is up? */
static bool has_come(struct world *world, uint64_t limit_ns)
{
    uint64_t end_ns = pst_now_ns() + limit_ns;
    bool come;

    pthread_mutex_lock(&world->mutex);
    while (!world->ready && !world->failed && pst_now_ns() < end_ns) {
        mpi_sleep_until(world, end_ns);
    }
    come = world->ready || world->failed;
    pthread_mutex_unlock(&world->mutex);
    return come;
}

static pst_status await_communicator(struct world *world, const char *transport,
                                     struct pst_error *err)
{
    uint64_t limit = mpi_patience(world);
    char who[512];

    if (!has_come(world, limit) && !mpi_absent_tell(who, sizeof who) &&
        !has_come(world, YIELD_NS)) {
        mpi_absent_tell(who, sizeof who);
    }
    if (has_come(world, 0)) {
        if (!world->failed) {
            return PST_OK;
        }
        pst_fail(err, PST_ERR_DEVICE, "run.device", "run.transport = \"%s\": %s", transport,
                 world->why);
        if (err != NULL) {
            err->exit_code = 4;
        }
        return PST_ERR_DEVICE;
    }
    mpi_hangs = true;
    pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
             "run stalled: the processes have not met in %.3g s: %s", (double)limit / 1e9, who);
    pst_error_hint(err, "one was stopped or could not be started, or hosts cannot reach each "
                        "other; if it only needs longer, raise run.stall_limit");
    return PST_ERR_CANCELLED;
}

struct introduction {
    char host[64];
    struct mpi_clock_id clock;
    struct mpi_self self;
};

/* Hosts, and who reads the same clock. */
static pst_status introduce(struct world *world, struct pst_error *err)
{
    struct introduction own = {.host = ""};
    struct introduction *all = pst_alloc(world->n_ranks, sizeof *all);
    pst_status status;

    gethostname(own.host, sizeof own.host - 1);
    mpi_self(&own.self);
    mpi_clock_identify(&own.clock);
    status = mpi_processes.exchange(&own, all, sizeof own, err);
    for (uint32_t r = 0; r < world->n_ranks && status == PST_OK; r++) {
        memcpy(world->hosts[r], all[r].host, sizeof world->hosts[r]);
        world->n_near += strcmp(all[r].host, own.host) == 0;
        mpi_gone_watch(world, r, &own.self, &all[r].self);
        world->clock.shared[r] =
            r == 0 || (all[0].clock.boot[0] != '\0' &&
                       memcmp(&all[r].clock, &all[0].clock, sizeof all[r].clock) == 0);
    }
    free(all);
    return status;
}

static uint32_t count_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (uint32_t)n : 1;
}

pst_status mpi_join(const char *transport, uint64_t stall_ns, uint64_t room, uint32_t *ret_rank,
                    uint32_t *ret_n_ranks, struct pst_error *err)
{
    const char *size = pst_launched_size();
    struct world *world;
    pst_status status;

    *ret_n_ranks = 0;
    if (mpi_world != NULL || stall_ns == 0) {
        return pst_fail(err, PST_ERR_BUG, "internal", "transport mpi: joined twice");
    }
    if (size == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "run.transport = \"%s\": this process was not started by an MPI launcher",
                        transport);
    }
    world = create(stall_ns, room);
    if (pthread_create(&world->thread, NULL, mpi_communicator, world) != 0) {
        mpi_world_destroy(world);
        return pst_fail(err, PST_ERR_NOMEM, "machine.threads", "cannot start a thread");
    }
    status = await_communicator(world, transport, err);
    if (status != PST_OK) {
        return status; /* its thread may be anywhere: the process is about to end */
    }
    mpi_world = world;
    *ret_rank = world->rank;
    *ret_n_ranks = world->n_ranks;
    if (world->n_ranks == 1 && strtoul(size, NULL, 10) > 1) {
        *ret_n_ranks = 0;
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "run.transport = \"%s\": the launcher has started %s processes, but each "
                        "is alone: launcher and library are of different MPIs",
                        transport, size);
    }
    status = introduce(world, err);
    if (status == PST_OK) {
        world->spins = 2 * world->n_near <= count_cores();
    }
    return status;
}
