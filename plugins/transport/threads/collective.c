/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives: everybody says where its operands are, each member works out its share of the
 * elements and writes the result into every member's buffer, nobody leaves before all are done. An
 * element is summed once, by one thread in the agreed order, so all see the same bits; no scratch
 * is needed.
 */
#include "exec/device.h"
#include "transport/common/inorder.h"
#include "transport/threads/threads.h"

#include <string.h>

#define BLOCK 1024 /* floats summed at a time: stays in the first-level cache */

/* Returns once all members have called it. The k-th common sync of two ranks meets the k-th of the
   other, so groups that share ranks do not disturb each other. */
static pst_status sync_members(struct pst_transport *transport, uint32_t rank,
                               const uint32_t *members, uint32_t n_members, const char *what,
                               struct pst_error *err)
{
    uint32_t n = transport->n_ranks;

    if (atomic_load_explicit(&transport->aborted, memory_order_acquire)) {
        return threads_fail_aborted(transport, err);
    }
    for (uint32_t i = 0; i < n_members; i++) {
        if (members[i] != rank) {
            atomic_uint *mine = &transport->counts[(size_t)rank * n + members[i]];
            uint32_t count = atomic_load_explicit(mine, memory_order_relaxed);

            threads_publish(transport, members[i], mine, count + 1);
        }
    }
    for (uint32_t i = 0; i < n_members; i++) {
        uint32_t peer = members[i], target;
        enum outcome outcome;

        if (peer == rank) {
            continue;
        }
        target =
            atomic_load_explicit(&transport->counts[(size_t)rank * n + peer], memory_order_relaxed);
        outcome =
            threads_await(transport, rank, &transport->counts[(size_t)peer * n + rank], target);
        if (outcome == OUTCOME_ABORTED) {
            return threads_fail_aborted(transport, err);
        }
        if (outcome == OUTCOME_STALLED) {
            return stall_fail_waited(rank, transport->stall_ns, err,
                                     "for rank %u in a %s of %u ranks", peer, what, n_members);
        }
    }
    return PST_OK;
}

static void arrive(struct pst_transport *transport, uint32_t rank)
{
    struct cell *cell = &transport->ranks[rank].cell;

    cell->at_ns = transport->timed ? threads_clock(transport, rank) : pst_now_ns();
}

/* Between the two syncs: the last one's coming is the start, for all of them. */
static void begin_span(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                       uint32_t n_members, uint64_t bytes)
{
    struct rank *self = &transport->ranks[rank];
    const struct pst_transport_times *times = &transport->times;
    uint64_t start = 0;

    for (uint32_t i = 0; i < n_members; i++) {
        uint64_t at = transport->ranks[members[i]].cell.at_ns;

        start = at > start ? at : start;
    }
    self->start_ns = start;
    self->end_ns = transport->timed
                       ? start + times->collective_ns(times->context, bytes, members, n_members)
                       : start;
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

/* Members must agree on the size; all of them come to the same verdict. */
static pst_status check_cells(const struct pst_transport *transport, const uint32_t *members,
                              uint32_t n_members, const uint32_t (*order)[2], uint32_t n_order,
                              const char *what, struct pst_error *err)
{
    const struct cell *first = &transport->ranks[members[0]].cell;

    for (uint32_t i = 1; i < n_members; i++) {
        const struct cell *cell = &transport->ranks[members[i]].cell;

        if (cell->elems != first->elems || cell->n_order != first->n_order) {
            return inorder_fail_sizes(what, members[0], first->elems, first->n_order, members[i],
                                      cell->elems, cell->n_order, err);
        }
    }
    for (uint32_t i = 0; i < n_order; i++) {
        if (order[i][0] >= n_members ||
            order[i][1] >= transport->ranks[members[order[i][0]]].cell.n_src) {
            return pst_fail(err, PST_ERR_BUG, "transport.size",
                            "%s: term %u names source %u of member %u, which does not exist", what,
                            i, order[i][1], order[i][0]);
        }
    }
    return PST_OK;
}

pst_status threads_sum(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                       struct pst_error *err)
{
    uint32_t n_ranks = transport->n_ranks;
    uint64_t begin, share;
    pst_status status, check;

    transport->ranks[rank].cell = (struct cell){.values = values, .elems = n};
    arrive(transport, rank);
    status = sync_members(transport, rank, transport->all, n_ranks, "sum", err);
    if (status != PST_OK) {
        return status;
    }
    begin_span(transport, rank, transport->all, n_ranks, n * sizeof *values);
    check = check_cells(transport, transport->all, n_ranks, NULL, 0, "sum", err);
    if (check == PST_OK) {
        share = inorder_share(n, 0, inorder_even_share(n, n_ranks), rank, &begin);
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
    status =
        sync_members(transport, rank, transport->all, n_ranks, "sum", check == PST_OK ? err : NULL);
    if (check == PST_OK && status == PST_OK) {
        end_span(transport, rank);
    }
    return check != PST_OK ? check : status;
}

/* One block of at most BLOCK elements: summed in order, then handed to every member. */
static void reduce_block(struct pst_transport *transport, const uint32_t *members,
                         uint32_t n_members, const uint32_t (*order)[2], uint32_t n_order,
                         uint64_t at, uint64_t n)
{
    float sum[BLOCK];

    for (uint32_t k = 0; k < n_order; k++) {
        const float *src = transport->ranks[members[order[k][0]]].cell.src[order[k][1]] + at;

        inorder_add(sum, src, k, n, sizeof *sum);
    }
    for (uint32_t m = 0; m < n_members; m++) {
        memcpy(transport->ranks[members[m]].cell.dst + at, sum, n * sizeof *sum);
    }
}

/* Sums a share in the memory of devices: in this rank's buffer, in the order of its kernels, after
   the kernels that all members had queued before. */
static void reduce_apart(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                         uint32_t n_members, const uint32_t (*order)[2], uint32_t n_order,
                         uint64_t at, uint64_t n)
{
    const struct pst_device_ops *device = transport->device;
    struct pst_device *self = transport->devices[rank];
    float *sum = transport->ranks[rank].cell.dst + at;

    for (uint32_t m = 0; m < n_members; m++) {
        threads_order_follow(transport, rank, transport->ranks[members[m]].come);
    }
    threads_order_mark(transport, rank, transport->ranks[rank].start);
    for (uint32_t k = 0; k < n_order && n > 0; k++) {
        const float *src = transport->ranks[members[order[k][0]]].cell.src[order[k][1]] + at;

        if (k == 0) {
            device->move(self, PST_QUEUE_COMPUTE, sum, src, n * sizeof *sum);
        } else {
            device->add(self, PST_QUEUE_COMPUTE, sum, src, n);
        }
    }
    for (uint32_t m = 0; m < n_members && n > 0; m++) {
        if (members[m] != rank) {
            device->move(self, PST_QUEUE_COMPUTE, transport->ranks[members[m]].cell.dst + at, sum,
                         n * sizeof *sum);
        }
    }
    threads_order_mark(transport, rank, transport->ranks[rank].gone);
}

pst_status threads_reduce(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                          uint32_t n_members, const float *const *src, uint32_t n_src,
                          const uint32_t (*order)[2], uint32_t n_order, float *dst, uint64_t elems,
                          struct pst_error *err)
{
    uint32_t position = inorder_position(members, n_members, rank);
    uint64_t begin, n;
    pst_status status, check;

    if (position == n_members || n_order == 0) {
        return pst_fail(err, PST_ERR_BUG, "transport.members",
                        "rank %u takes part in a reduction of %u members and %u terms without it",
                        rank, n_members, n_order);
    }
    transport->ranks[rank].cell =
        (struct cell){.src = src, .n_src = n_src, .dst = dst, .elems = elems, .n_order = n_order};
    arrive(transport, rank);
    if (transport->apart) {
        threads_order_mark(transport, rank, transport->ranks[rank].come);
    }
    status = sync_members(transport, rank, members, n_members, "reduction", err);
    if (status != PST_OK) {
        return status;
    }
    begin_span(transport, rank, members, n_members, elems * sizeof *dst);
    check = check_cells(transport, members, n_members, order, n_order, "reduction", err);
    if (check == PST_OK && !transport->hollow) {
        n = inorder_share(elems, 0, inorder_even_share(elems, n_members), position, &begin);
        if (transport->apart) {
            reduce_apart(transport, rank, members, n_members, order, n_order, begin, n);
        }
        for (uint64_t at = 0; !transport->apart && at < n; at += BLOCK) {
            reduce_block(transport, members, n_members, order, n_order, begin + at,
                         n - at < BLOCK ? n - at : BLOCK);
        }
    }
    status = sync_members(transport, rank, members, n_members, "reduction",
                          check == PST_OK ? err : NULL);
    for (uint32_t m = 0; transport->apart && status == PST_OK && m < n_members; m++) {
        threads_order_follow(transport, rank, transport->ranks[members[m]].gone);
    }
    if (transport->apart && status == PST_OK) {
        struct rank *self = &transport->ranks[rank];

        threads_order_mark(transport, rank, self->end);
        threads_order_moved(transport, rank, &self->start, &self->end);
    }
    if (check == PST_OK && status == PST_OK) {
        end_span(transport, rank);
    }
    return check != PST_OK ? check : status;
}
