/* SPDX-License-Identifier: Apache-2.0
 *
 * transport-mpi.so: opening, closing, the table.
 */
#include "transport/mpi/module.h"

#include <stdlib.h>

#include "base/memory.h"

#define CLOSE_NS UINT64_C(5000000000)

/* Gives up what is under way; false where the communicator does not come to it, or MPI not to an
   end. */
static bool give_up(struct world *world)
{
    uint64_t end_ns = pst_now_ns() + CLOSE_NS;
    struct timespec until = pst_timespec(end_ns);
    bool closed;

    pthread_mutex_lock(&world->mutex);
    world->inbox = world->sum_inbox = (struct request_queue){0};
    world->closing = true;
    world->closed = false;
    mpi_ring(world);
    while (!world->closed && pst_now_ns() < end_ns) {
        pthread_cond_timedwait(&world->team_wake, &world->mutex, &until);
    }
    closed = world->closed && !world->keeps;
    world->transport = NULL;
    pthread_mutex_unlock(&world->mutex);
    return closed;
}

static bool let_go(struct pst_transport *transport)
{
    if (mpi_world != NULL && mpi_world->transport == transport) {
        transport->hangs = !give_up(mpi_world);
    }
    return !transport->hangs;
}

static bool mpi_detach(struct pst_transport *transport, uint32_t rank)
{
    (void)rank;
    if (!let_go(transport)) {
        return false;
    }
    mpi_stages_forget(transport);
    return true;
}

static struct pst_transport *kept; /* what MPI may still look at: the process is about to end */

static void mpi_close(struct pst_transport *transport)
{
    if (transport == NULL) {
        return;
    }
    if (!let_go(transport)) {
        transport->kept_before = kept;
        kept = transport;
        return;
    }
    mpi_stages_free(transport);
    free(transport->requests);
    free(transport->sums);
    free(transport->all);
    free(transport);
}

static void allocate(struct pst_transport *transport, uint32_t n_ranks)
{
    const uint32_t n_sums = transport->max_meetings + 1;

    transport->requests = pst_alloc(transport->max_requests, sizeof *transport->requests);
    transport->sums = pst_alloc(mpi_n_sums(transport), sizeof *transport->sums);
    transport->all = pst_alloc(n_ranks, sizeof *transport->all);
    requests_fill(&transport->free, transport->requests, transport->max_requests,
                  sizeof *transport->requests);
    requests_fill(&transport->free_sums[PST_MEET_SUMS], transport->sums, n_sums,
                  sizeof *transport->sums);
    requests_push(&transport->free_sums[PST_MEET_PARTS], &transport->sums[n_sums]);
    requests_fill(&transport->free_sums[PST_MEET_ROWS], &transport->sums[n_sums + 1],
                  transport->max_rows, sizeof *transport->sums);
    for (uint32_t i = 0; i < n_ranks; i++) {
        transport->all[i] = i;
    }
}

static pst_status check(const struct pst_transport_config *config, struct pst_error *err)
{
    const struct world *world = mpi_world;

    if (world == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "a transport between processes is for \"penstock train\" under an MPI "
                        "launcher");
    }
    if (config->times != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "run.transport = \"mpi\" keeps no times of links; emulated devices are "
                        "threads of one process");
    }
    if (config->n_ranks != world->n_ranks || config->stall_ns == 0 ||
        config->max_requests >= world->n_numbers || world->transport != NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.config",
                        "transport mpi: %u ranks in %u processes, %u requests, a stall limit of "
                        "%llu ns",
                        config->n_ranks, world->n_ranks, config->max_requests,
                        (unsigned long long)config->stall_ns);
    }
    return PST_OK;
}

/* Collective. */
static pst_status mpi_open(const struct pst_transport_config *config,
                           struct pst_transport **ret_transport, struct pst_error *err)
{
    struct world *world = mpi_world;
    pst_status status = check(config, err);
    struct pst_transport *transport;
    struct request **active;
    char none = 0, *all;

    if (status != PST_OK) {
        return status;
    }
    transport = pst_alloc(1, sizeof *transport);
    transport->max_requests = config->max_requests > 0 ? config->max_requests : 1;
    transport->max_meetings = config->max_meetings;
    transport->max_rows = config->max_rows;
    transport->stall_ns = config->stall_ns;
    transport->doing = config->doing;
    transport->doing_context = config->doing_context;
    transport->note = config->note;
    transport->device = config->device;
    transport->devices = config->devices;
    transport->apart = config->memory != NULL;
    if (transport->apart) {
        transport->memory = *config->memory;
    }
    active = pst_alloc(transport->max_requests, sizeof(struct request *));
    all = pst_alloc(world->n_ranks, 1);
    allocate(transport, world->n_ranks);
    /* After this exchange, neither side has requests of the last transport. */
    status = mpi_processes.exchange(&none, all, 1, err);
    free(all);
    if (status != PST_OK) {
        free(active);
        mpi_close(transport);
        return status;
    }
    pthread_mutex_lock(&world->mutex);
    world->active = active;
    world->transport = transport;
    mpi_ring(world);
    pthread_mutex_unlock(&world->mutex);
    *ret_transport = transport;
    return PST_OK;
}

static void mpi_abort_call(struct pst_transport *transport, uint32_t rank,
                           const struct pst_error *why)
{
    (void)transport;
    mpi_abort(mpi_world, rank, why);
}

static pst_status mpi_check(struct pst_transport *transport, uint32_t rank, struct pst_error *err)
{
    (void)transport;
    (void)rank;
    return atomic_load(&mpi_world->aborted) ? mpi_fail_aborted(mpi_world, err) : PST_OK;
}

static void mpi_span(const struct pst_transport *transport, uint32_t rank, uint64_t *ret_start_ns,
                     uint64_t *ret_end_ns)
{
    (void)rank;
    *ret_start_ns = transport->start_ns;
    *ret_end_ns = transport->end_ns;
}

static const struct pst_transport_ops mpi_ops = {
    .size = sizeof mpi_ops,
    .id = "mpi",
    .takes_memory = true,
    .open = mpi_open,
    .close = mpi_close,
    .attach = mpi_attach,
    .detach = mpi_detach,
    .post = mpi_post,
    .wait = mpi_wait,
    .sum = mpi_sum,
    .meet = mpi_meet,
    .abort = mpi_abort_call,
    .check = mpi_check,
    .span = mpi_span,
    .processes = &mpi_processes,
};

PST_EXPORT const struct pst_transport_ops *pst_transport_module(void);

const struct pst_transport_ops *pst_transport_module(void)
{
    return &mpi_ops;
}
