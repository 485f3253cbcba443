/* SPDX-License-Identifier: Apache-2.0
 *
 * transport-threads.so: opening, closing, the table.
 */
#include "transport/threads/threads.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define SPIN_NS 500000u /* well beyond what it takes to fall asleep and be woken */

/* Zeroed, on lines of cache of its own; sizes of padded structs are multiples of 64. */
static void *zeroed(size_t count, size_t size)
{
    const size_t bytes = (count * size + 63) & ~(size_t)63;
    void *memory = aligned_alloc(64, bytes);

    if (memory == NULL) {
        pst_out_of_memory();
    }
    return memset(memory, 0, bytes);
}

static void init_mutex(pthread_mutex_t *mutex)
{
    if (pthread_mutex_init(mutex, NULL) != 0) {
        pst_out_of_memory();
    }
}

static void init_rank(struct pst_transport *transport, uint32_t index)
{
    struct rank *rank = &transport->ranks[index];

    rank->requests = pst_alloc(transport->max_requests, sizeof *rank->requests);
    requests_fill(&rank->free, rank->requests, transport->max_requests, sizeof *rank->requests);
    init_mutex(&rank->mutex);
    stall_init_wake(&rank->wake);
}

static void threads_close(struct pst_transport *transport)
{
    if (transport == NULL) {
        return;
    }
    for (uint32_t i = 0; i < transport->n_ranks * transport->n_ranks; i++) {
        pthread_mutex_destroy(&transport->pairs[i].mutex);
    }
    for (uint32_t i = 0; i < transport->n_ranks; i++) {
        pthread_mutex_destroy(&transport->ranks[i].mutex);
        pthread_cond_destroy(&transport->ranks[i].wake);
        free(transport->ranks[i].requests);
    }
    threads_wire_finish(transport);
    threads_meet_finish(transport);
    pthread_mutex_destroy(&transport->abort_mutex);
    free(transport->ranks);
    free(transport->pairs);
    free(transport->counts);
    free(transport->all);
    free(transport);
}

static void init_members(struct pst_transport *transport)
{
    uint32_t n = transport->n_ranks;
    size_t n_pairs = (size_t)n * n;

    transport->ranks = zeroed(n, sizeof *transport->ranks);
    transport->pairs = zeroed(n_pairs, sizeof *transport->pairs);
    transport->counts = zeroed(n, sizeof *transport->counts);
    transport->all = pst_alloc(n, sizeof *transport->all);
    for (uint32_t i = 0; i < n; i++) {
        transport->all[i] = i;
        init_rank(transport, i);
    }
    for (size_t i = 0; i < n_pairs; i++) {
        init_mutex(&transport->pairs[i].mutex);
    }
}

static pst_status threads_open(const struct pst_transport_config *config,
                               struct pst_transport **ret_transport, struct pst_error *err)
{
    struct pst_transport *transport;

    if (config->times != NULL && config->memory != NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.config",
                        "transport threads: a device with a clock has no memory of its own");
    }
    if (config->n_ranks == 0 || config->n_ranks > 4096 || config->stall_ns == 0) {
        return pst_fail(err, PST_ERR_BUG, "transport.config",
                        "transport threads: %u ranks with a stall limit of %llu ns",
                        config->n_ranks, (unsigned long long)config->stall_ns);
    }
    transport = pst_alloc(1, sizeof *transport);
    init_mutex(&transport->abort_mutex);
    transport->n_ranks = config->n_ranks;
    transport->max_requests = config->max_requests > 0 ? config->max_requests : 1;
    transport->max_meetings = config->max_meetings;
    transport->max_rows = config->max_rows;
    transport->stall_ns = config->stall_ns;
    transport->spin_ns = config->n_ranks <= pst_usable_cores() ? SPIN_NS : 0;
    transport->timed = config->times != NULL;
    if (transport->timed) {
        transport->times = *config->times;
        transport->hollow = (config->device->flags & PST_DEVICE_NO_DATA) != 0;
    }
    transport->device = config->device;
    transport->devices = config->devices;
    transport->apart = config->memory != NULL;
    if (transport->apart) {
        transport->memory = *config->memory;
    }
    init_members(transport);
    threads_meet_init(transport);
    if (transport->timed) {
        threads_wire_init(transport);
    }
    *ret_transport = transport;
    return PST_OK;
}

static pst_status threads_check(struct pst_transport *transport, uint32_t rank,
                                struct pst_error *err)
{
    (void)rank;
    return atomic_load(&transport->aborted) ? threads_fail_aborted(transport, err) : PST_OK;
}

static void threads_span(const struct pst_transport *transport, uint32_t rank,
                         uint64_t *ret_start_ns, uint64_t *ret_end_ns)
{
    *ret_start_ns = transport->ranks[rank].start_ns;
    *ret_end_ns = transport->ranks[rank].end_ns;
}

static const struct pst_transport_ops threads_ops = {
    .size = sizeof threads_ops,
    .id = "threads",
    .takes_memory = true,
    .ordered = true,
    .open = threads_open,
    .close = threads_close,
    .attach = threads_attach,
    .post = threads_post,
    .wait = threads_wait,
    .sum = threads_sum,
    .meet = threads_meet,
    .abort = threads_abort,
    .check = threads_check,
    .span = threads_span,
    .swap = threads_swap,
};

PST_EXPORT const struct pst_transport_ops *pst_transport_module(void);

const struct pst_transport_ops *pst_transport_module(void)
{
    return &threads_ops;
}
