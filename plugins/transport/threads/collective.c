/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of doubles over all ranks: everybody says where its values are, each works out its share of
 * them and writes the result into everybody's, nobody leaves before all are done. A value is summed
 * once, by one thread in the order of ranks, so all see the same bits; no scratch is needed.
 */
#include "exec/device.h"
#include "transport/common/inorder.h"
#include "transport/threads/threads.h"

/* Returns once all ranks have called it as often as this one. */
static pst_status sync_all(struct pst_transport *transport, uint32_t rank, struct pst_error *err)
{
    const uint32_t n = transport->n_ranks;
    atomic_uint *counts = transport->counts;
    const uint32_t target = atomic_load_explicit(&counts[rank], memory_order_relaxed) + 1;

    if (atomic_load_explicit(&transport->aborted, memory_order_acquire)) {
        return threads_fail_aborted(transport, err);
    }
    for (uint32_t peer = 0; peer < n; peer++) { /* the first one publishes, all are woken */
        threads_publish(transport, peer, &counts[rank], target);
    }
    for (uint32_t peer = 0; peer < n; peer++) {
        const enum outcome outcome = threads_await(transport, rank, &counts[peer], target);

        if (outcome == OUTCOME_ABORTED) {
            return threads_fail_aborted(transport, err);
        }
        if (outcome == OUTCOME_STALLED) {
            return stall_fail_waited(rank, transport->stall_ns, err,
                                     "for rank %u in a sum of %u ranks", peer, n);
        }
    }
    return PST_OK;
}

/* Between the two syncs: the last one's coming is the start, for all of them. */
static void begin_span(struct pst_transport *transport, uint32_t rank, uint64_t bytes)
{
    struct rank *self = &transport->ranks[rank];
    const struct pst_transport_times *times = &transport->times;
    uint64_t start = 0;

    for (uint32_t r = 0; r < transport->n_ranks; r++) {
        const uint64_t at = transport->ranks[r].cell.at_ns;

        start = at > start ? at : start;
    }
    self->start_ns = self->end_ns = start;
    if (transport->timed) {
        self->end_ns +=
            times->meeting_ns(times->context, (struct pst_meet_bytes){bytes, bytes}, transport->all,
                              transport->n_ranks);
    }
}

static void end_span(struct pst_transport *transport, uint32_t rank)
{
    struct rank *self = &transport->ranks[rank];

    if (transport->timed) {
        threads_advance(transport, rank, self->end_ns);
    } else {
        self->end_ns = pst_now_ns();
    }
}

/* Refuses ranks that add up different numbers of values. All ranks decide alike. */
static pst_status check_cells(const struct pst_transport *transport, struct pst_error *err)
{
    const uint64_t elems = transport->ranks[0].cell.elems;
    const uint32_t n = transport->n_ranks;

    for (uint32_t r = 1; r < n; r++) {
        const struct cell *cell = &transport->ranks[r].cell;

        if (cell->elems != elems) {
            return inorder_fail_sizes("sum", 0, elems, n, r, cell->elems, n, err);
        }
    }
    return PST_OK;
}

/* This rank's share of the values. */
static void sum_share(const struct pst_transport *transport, uint32_t rank, uint32_t n)
{
    const uint32_t n_ranks = transport->n_ranks;
    uint64_t begin, share = inorder_share(n, 0, inorder_even_share(n, n_ranks), rank, &begin);

    for (uint64_t i = begin; i < begin + share; i++) {
        double sum = transport->ranks[0].cell.values[i];

        for (uint32_t r = 1; r < n_ranks; r++) {
            sum += transport->ranks[r].cell.values[i];
        }
        for (uint32_t r = 0; r < n_ranks; r++) {
            transport->ranks[r].cell.values[i] = sum;
        }
    }
}

pst_status threads_sum(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                       struct pst_error *err)
{
    pst_status status, check;

    transport->ranks[rank].cell =
        (struct cell){.values = values,
                      .elems = n,
                      .at_ns = transport->timed ? threads_clock(transport, rank) : pst_now_ns()};
    status = sync_all(transport, rank, err);
    if (status != PST_OK) {
        return status;
    }
    begin_span(transport, rank, n * sizeof *values);
    check = check_cells(transport, err);
    if (check == PST_OK) {
        sum_share(transport, rank, n);
    }
    status = sync_all(transport, rank, check == PST_OK ? err : NULL);
    if (check == PST_OK && status == PST_OK) {
        end_span(transport, rank);
    }
    return check != PST_OK ? check : status;
}
