/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums, as the rank's thread sees them. All stand in one queue, for all ranks that share two of
 * them post these in the same order.
 */
#include "transport/mpi/module.h"

#include <stdio.h>

static uint64_t mix(uint64_t digest, uint64_t value)
{
    return (digest ^ value) * UINT64_C(0x100000001B3);
}

/* Puts a sum into the queue. */
static void post(struct world *world, struct sum *sum)
{
    uint64_t shape = mix(UINT64_C(0xCBF29CE484222325), sum->size);

    for (uint32_t p = 0; p < sum->n_parts; p++) {
        shape = mix(shape, sum->parts[p].elems);
    }
    for (uint32_t t = 0; sum->order != NULL && t < sum->n_terms; t++) {
        shape = mix(shape, sum->order[t][0]);
    }
    sum->mine = (struct sum_head){.elems = sum->elems, .shape = shape, .n_terms = sum->n_terms};
    sum->next = NULL;
    atomic_store(&sum->missing, MPI_NO_RANK);
    atomic_store_explicit(&sum->state, STATE_POSTED, memory_order_relaxed);
    pthread_mutex_lock(&world->mutex);
    *(world->sum_inbox_last != NULL ? &world->sum_inbox_last->next : &world->sum_inbox) = sum;
    world->sum_inbox_last = sum;
    mpi_ring(world);
    pthread_mutex_unlock(&world->mutex);
}

static uint32_t position(const uint32_t *members, uint32_t n_members, uint32_t rank)
{
    uint32_t i = 0;

    while (i < n_members && members[i] != rank) {
        i++;
    }
    return i;
}

static pst_status fail_bad(const struct sum *sum, uint32_t rank, struct pst_error *err)
{
    return pst_fail(err, PST_ERR_BUG, "transport.size",
                    "%s: rank %u has %llu elements in %u terms, rank %u has %llu in %u", sum->name,
                    rank, (unsigned long long)sum->mine.elems, sum->mine.n_terms, sum->peer,
                    (unsigned long long)sum->theirs.elems, sum->theirs.n_terms);
}

static pst_status fail_stalled(struct world *world, struct sum *sum, struct pst_error *err)
{
    uint32_t missing = atomic_load(&sum->missing);
    char what[96];

    snprintf(what, sizeof what, "in a %s of %u devices", sum->name, sum->n_members);
    return mpi_fail_stalled(world, missing == MPI_NO_RANK ? world->rank : missing, what, err);
}

pst_status mpi_sum_wait(struct pst_transport *transport, struct sum *sum, struct pst_error *err)
{
    struct world *world = mpi_world;
    enum outcome outcome;
    pst_status status = PST_OK;

    if (atomic_load_explicit(&sum->state, memory_order_relaxed) == STATE_FREE) {
        return pst_fail(err, PST_ERR_BUG, "transport.request", "rank %u waits for no sum",
                        world->rank);
    }
    atomic_store(&world->waits_sum, sum);
    atomic_store(&world->waits_since_ns, pst_now_ns());
    outcome = mpi_await(world, &sum->state, transport->stall_ns);
    if (outcome == OUTCOME_STALLED) {
        status = fail_stalled(world, sum, err);
    } else if (outcome == OUTCOME_ABORTED) {
        status = mpi_fail_aborted(world, err);
    } else if (atomic_load_explicit(&sum->state, memory_order_acquire) == STATE_BAD) {
        status = fail_bad(sum, world->rank, err);
    } else {
        mpi_unstage_sum(transport, sum);
        transport->start_ns = sum->start_ns;
        transport->end_ns = sum->end_ns;
    }
    atomic_store(&world->waits_since_ns, 0);
    atomic_store(&world->waits_sum, NULL);
    if (outcome == OUTCOME_REACHED) {
        atomic_store_explicit(&sum->state, STATE_FREE, memory_order_relaxed);
        sum->next = transport->free_sums;
        transport->free_sums = sum;
    }
    return status;
}

/* A sum of the list of free ones. `reserve`: leaves the last, which calls that wait at once take.
 */
static struct sum *take(struct pst_transport *transport, bool reserve)
{
    struct sum *sum = transport->free_sums;

    if (sum == NULL || (reserve && sum->next == NULL)) {
        return NULL;
    }
    transport->free_sums = sum->next;
    return sum;
}

static void give_back(struct pst_transport *transport, struct sum *sum)
{
    sum->next = transport->free_sums;
    transport->free_sums = sum;
}

pst_status mpi_all_reduce(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                          uint32_t n_members, const struct pst_reduce_part *parts, uint32_t n_parts,
                          pst_request *ret_request)
{
    struct world *world = mpi_world;
    uint32_t me = position(members, n_members, rank);
    struct sum *sum;

    if (atomic_load(&world->aborted)) {
        return PST_ERR_CANCELLED;
    }
    sum = me < n_members && rank == world->rank ? take(transport, true) : NULL;
    if (sum == NULL) {
        return PST_ERR_BUG;
    }
    sum->name = "sum over replicas";
    sum->members = members;
    sum->n_members = n_members;
    sum->me = me;
    sum->order = NULL;
    sum->values = NULL;
    sum->parts = parts;
    sum->n_parts = n_parts;
    sum->n_terms = n_members;
    sum->size = sizeof(float);
    sum->elems = 0;
    for (uint32_t p = 0; p < n_parts; p++) {
        sum->elems += parts[p].elems;
    }
    mpi_stage_parts(transport, sum);
    post(world, sum);
    *ret_request = transport->max_requests + (pst_request)(sum - transport->sums);
    return PST_OK;
}

/* Posts and waits. */
static pst_status run(struct pst_transport *transport, struct sum *sum, struct pst_error *err)
{
    struct world *world = mpi_world;

    if (atomic_load(&world->aborted)) {
        give_back(transport, sum);
        return mpi_fail_aborted(world, err);
    }
    post(world, sum);
    return mpi_sum_wait(transport, sum, err);
}

pst_status mpi_sum(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                   struct pst_error *err)
{
    struct sum *sum = take(transport, false);

    if (sum == NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.request", "too many sums at once");
    }
    sum->name = "sum";
    sum->members = transport->all;
    sum->n_members = sum->n_terms = mpi_world->n_ranks;
    sum->me = rank;
    sum->order = NULL;
    sum->parts = NULL;
    sum->n_parts = 0;
    sum->values = values;
    sum->elems = n;
    sum->size = sizeof(double);
    sum->far_parts = NULL;
    sum->far_result = NULL;
    return run(transport, sum, err);
}

pst_status mpi_reduce(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                      uint32_t n_members, const float *const *src, uint32_t n_src,
                      const uint32_t (*order)[2], uint32_t n_order, float *dst, uint64_t elems,
                      struct pst_error *err)
{
    uint32_t me = position(members, n_members, rank);
    struct sum *sum;

    for (uint32_t i = 0; i < n_order; i++) {
        if (order[i][0] >= n_members || (order[i][0] == me && order[i][1] >= n_src)) {
            return pst_fail(err, PST_ERR_BUG, "transport.size",
                            "reduction: term %u names source %u of member %u, which does not exist",
                            i, order[i][1], order[i][0]);
        }
    }
    sum = me < n_members && n_order > 0 && rank == mpi_world->rank ? take(transport, false) : NULL;
    if (sum == NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.members",
                        "rank %u takes part in a reduction of %u members and %u terms without it",
                        rank, n_members, n_order);
    }
    sum->name = "reduction";
    sum->members = members;
    sum->n_members = n_members;
    sum->me = me;
    sum->order = order;
    sum->n_terms = n_order;
    sum->sources = src;
    sum->result = dst;
    sum->values = NULL;
    sum->parts = NULL;
    sum->n_parts = 0;
    sum->elems = elems;
    sum->size = sizeof(float);
    mpi_stage_sources(transport, sum, n_src);
    return run(transport, sum, err);
}
