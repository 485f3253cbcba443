/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings, as the rank's thread sees them. Those of a lane stand in one queue, for all ranks that
 * share two of them post these in the same order.
 */
#include "base/hash.h"
#include "transport/mpi/module.h"

#include <stdio.h>

/* Puts a sum into the queue. */
static void post(struct world *world, struct sum *sum)
{
    uint64_t shape = pst_fnv1a(PST_FNV1A, sum->meeting.kind);

    shape = pst_fnv1a(shape, sum->meeting.kind == PST_MEET_SUM ? sum->meeting.dtype : 0);
    for (uint32_t p = 0; p < sum->meeting.n_parts; p++) {
        shape = pst_fnv1a(shape, sum->meeting.parts[p].elems);
        shape = pst_fnv1a(shape, sum->meeting.parts[p].owner);
        shape = pst_fnv1a(shape, sum->meeting.kind == PST_MEET_EXCHANGE ? sum->meeting.parts[p].to
                                                                        : PST_NONE);
    }
    for (uint32_t t = 0; t < sum->n_terms; t++) {
        shape = pst_fnv1a(shape, inorder_member(&sum->meeting, t));
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

    snprintf(what, sizeof what, "in a %s among %u devices", sum->meeting.name,
             sum->meeting.n_members);
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
        status =
            inorder_fail_sizes(sum->meeting.name, world->rank, sum->mine.elems, sum->mine.n_terms,
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
        requests_push(&transport->free_sums[sum->meeting.lane], sum);
    }
    return status;
}

/* A free one for the meeting. `last`: that may be the last, which is left to who waits at once. */
static struct sum *take_sum(struct pst_transport *transport, const struct pst_meeting *meeting,
                            uint32_t me, bool last)
{
    struct request_link **free = &transport->free_sums[meeting->lane];
    struct sum *sum = *free != NULL && (last || (*free)->next != NULL) ? requests_pop(free) : NULL;

    if (sum != NULL) {
        *sum = (struct sum){.meeting = *meeting,
                            .me = me,
                            .n_terms = inorder_terms(meeting),
                            .elems = pst_meeting_elems(meeting),
                            .size = pst_meeting_size(meeting),
                            .stage = sum->stage,
                            .stage_table = sum->stage_table};
    }
    return sum;
}

pst_status mpi_meet(struct pst_transport *transport, uint32_t rank,
                    const struct pst_meeting *meeting, pst_request *ret_request)
{
    struct world *world = mpi_world;
    struct sum *sum = NULL;
    uint32_t me;

    if (atomic_load(&world->aborted)) {
        return PST_ERR_CANCELLED;
    }
    if (rank == world->rank && inorder_takes(meeting, rank, world->n_ranks, &me)) {
        sum = take_sum(transport, meeting, me, meeting->lane != PST_MEET_SUMS);
    }
    if (sum == NULL) {
        return PST_ERR_BUG;
    }
    mpi_stage_sum(transport, sum);
    post(world, sum);
    *ret_request = transport->max_requests + (pst_request)(sum - transport->sums);
    return PST_OK;
}

pst_status mpi_sum(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                   struct pst_error *err)
{
    const struct pst_meeting all = {.dtype = PST_F64,
                                    .name = "sum",
                                    .members = transport->all,
                                    .n_members = mpi_world->n_ranks,
                                    .n_src = 1};
    struct sum *sum = take_sum(transport, &all, rank, true);

    if (sum == NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.request", "too many sums at once");
    }
    sum->values = (struct pst_meet_part){.dst = values, .elems = n, .owner = PST_NONE};
    sum->meeting.parts = &sum->values;
    sum->meeting.n_parts = 1;
    sum->elems = n;
    if (atomic_load(&mpi_world->aborted)) {
        requests_push(&transport->free_sums[PST_MEET_SUMS], sum);
        return mpi_fail_aborted(mpi_world, err);
    }
    post(mpi_world, sum);
    return mpi_sum_wait(transport, sum, err);
}
