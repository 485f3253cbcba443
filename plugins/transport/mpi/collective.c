/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums, as the rank's thread sees them. All stand in one queue, for all ranks that share two of
 * them post these in the same order.
 */
#include "transport/common/inorder.h"
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
    atomic_store(&sum->missing, MPI_NO_RANK);
    atomic_store_explicit(&sum->state, REQUEST_POSTED, memory_order_relaxed);
    pthread_mutex_lock(&world->mutex);
    requests_append(&world->sum_inbox, sum);
    mpi_ring(world);
    pthread_mutex_unlock(&world->mutex);
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

    if (atomic_load_explicit(&sum->state, memory_order_relaxed) == REQUEST_FREE) {
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
    } else if (atomic_load_explicit(&sum->state, memory_order_acquire) == REQUEST_BAD) {
        status = inorder_fail_sizes(sum->name, world->rank, sum->mine.elems, sum->mine.n_terms,
                                    sum->peer, sum->theirs.elems, sum->theirs.n_terms, err);
    } else {
        mpi_unstage_sum(transport, sum);
        transport->start_ns = sum->start_ns;
        transport->end_ns = sum->end_ns;
    }
    atomic_store(&world->waits_since_ns, 0);
    pthread_mutex_lock(&world->mutex); /* own_beat may read the sum, which is reused from here on */
    atomic_store(&world->waits_sum, NULL);
    pthread_mutex_unlock(&world->mutex);
    if (outcome == OUTCOME_REACHED) {
        atomic_store_explicit(&sum->state, REQUEST_FREE, memory_order_relaxed);
        requests_push(&transport->free_sums, sum);
    }
    return status;
}

pst_status mpi_all_reduce(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                          uint32_t n_members, const struct pst_reduce_part *parts, uint32_t n_parts,
                          pst_request *ret_request)
{
    struct world *world = mpi_world;
    uint32_t me = inorder_position(members, n_members, rank);
    const struct request_link *free = transport->free_sums;
    struct sum *sum;

    if (atomic_load(&world->aborted)) {
        return PST_ERR_CANCELLED;
    }
    /* The last free one is left to calls that wait at once. */
    sum = me < n_members && rank == world->rank && free != NULL && free->next != NULL
              ? requests_pop(&transport->free_sums)
              : NULL;
    if (sum == NULL) {
        return PST_ERR_BUG;
    }
    *sum = (struct sum){.name = "sum over replicas",
                        .members = members,
                        .n_members = n_members,
                        .me = me,
                        .parts = parts,
                        .n_parts = n_parts,
                        .n_terms = n_members,
                        .size = sizeof(float),
                        .stage = sum->stage,
                        .stage_table = sum->stage_table};
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
        requests_push(&transport->free_sums, sum);
        return mpi_fail_aborted(world, err);
    }
    post(world, sum);
    return mpi_sum_wait(transport, sum, err);
}

pst_status mpi_sum(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                   struct pst_error *err)
{
    struct sum *sum = requests_pop(&transport->free_sums);

    if (sum == NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.request", "too many sums at once");
    }
    *sum = (struct sum){.name = "sum",
                        .members = transport->all,
                        .n_members = mpi_world->n_ranks,
                        .n_terms = mpi_world->n_ranks,
                        .me = rank,
                        .values = values,
                        .elems = n,
                        .size = sizeof(double),
                        .stage = sum->stage,
                        .stage_table = sum->stage_table};
    return run(transport, sum, err);
}

pst_status mpi_reduce(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                      uint32_t n_members, const float *const *src, uint32_t n_src,
                      const uint32_t (*order)[2], uint32_t n_order, float *dst, uint64_t elems,
                      struct pst_error *err)
{
    uint32_t me = inorder_position(members, n_members, rank);
    struct sum *sum;

    for (uint32_t i = 0; i < n_order; i++) {
        if (order[i][0] >= n_members || (order[i][0] == me && order[i][1] >= n_src)) {
            return pst_fail(err, PST_ERR_BUG, "transport.size",
                            "reduction: term %u names source %u of member %u, which does not exist",
                            i, order[i][1], order[i][0]);
        }
    }
    sum = me < n_members && n_order > 0 && rank == mpi_world->rank
              ? requests_pop(&transport->free_sums)
              : NULL;
    if (sum == NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.members",
                        "rank %u takes part in a reduction of %u members and %u terms without it",
                        rank, n_members, n_order);
    }
    *sum = (struct sum){.name = "reduction",
                        .members = members,
                        .n_members = n_members,
                        .me = me,
                        .order = order,
                        .n_terms = n_order,
                        .sources = src,
                        .result = dst,
                        .elems = elems,
                        .size = sizeof(float),
                        .stage = sum->stage,
                        .stage_table = sum->stage_table};
    mpi_stage_sources(transport, sum, n_src);
    return run(transport, sum, err);
}
