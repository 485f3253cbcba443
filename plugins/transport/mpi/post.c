/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers, as the rank's thread sees them: it leaves them in the inbox and sleeps until they are
 * done.
 */
#include "transport/mpi/module.h"

#include <sched.h>
#include <stdio.h>

#define LOOK_NS 40000u

enum outcome mpi_await(struct world *world, const atomic_uint *word, uint64_t stall_ns)
{
    const struct sleeper rank = {&world->mutex, &world->rank_wake, &world->aborted, NULL};
    uint64_t begin = pst_now_ns();
    enum outcome outcome;

    atomic_store_explicit(&world->steps, true, memory_order_relaxed);
    while (world->spins && !stall_reached(word, REQUEST_DONE) && pst_now_ns() - begin < LOOK_NS) {
        sched_yield();
    }
    if (stall_reached(word, REQUEST_DONE)) {
        return OUTCOME_REACHED;
    }
    do {
        const uint64_t due = pst_now_ns() + world->beat_ns;

        outcome = stall_sleep(&rank, word, REQUEST_DONE, begin, stall_ns, due);
        if (outcome == OUTCOME_STALLED && pst_now_ns() > due + stall_ns / 2) {
            begin = pst_now_ns(); /* this process was stopped, and first reads what came since */
            outcome = OUTCOME_DUE;
        }
    } while (outcome == OUTCOME_DUE);
    return outcome;
}

pst_status mpi_post(struct pst_transport *transport, uint32_t rank, uint32_t peer, bool is_send,
                    uint64_t tag, void *data, uint64_t bytes, pst_request *ret_request)
{
    struct world *world = mpi_world;
    struct request *request;

    if (atomic_load(&world->aborted)) {
        return PST_ERR_CANCELLED;
    }
    request = rank == world->rank && peer != rank && peer < world->n_ranks
                  ? requests_pop(&transport->free)
                  : NULL;
    if (request == NULL) {
        return PST_ERR_BUG;
    }
    request->data = data;
    request->bytes = bytes;
    request->link.tag = tag;
    request->peer = peer;
    request->is_send = is_send;
    request->moved = 0;
    request->header_request = request->data_request = MPI_REQUEST_NULL;
    mpi_stage_transfer(transport, request);
    request->posted_ns = pst_now_ns();
    atomic_store_explicit(&request->state, REQUEST_POSTED, memory_order_relaxed);
    *ret_request = (pst_request)(request - transport->requests);
    pthread_mutex_lock(&world->mutex);
    requests_append(&world->inbox, request);
    mpi_ring(world);
    pthread_mutex_unlock(&world->mutex);
    return PST_OK;
}

static pst_status fail_stalled(struct world *world, const struct request *request,
                               struct pst_error *err)
{
    char what[128];

    snprintf(what, sizeof what, "for device %u to %s %llu bytes (tag 0x%llx)", request->peer,
             request->is_send ? "receive" : "send", (unsigned long long)request->bytes,
             (unsigned long long)request->link.tag);
    return mpi_fail_stalled(world, request->peer, what, err);
}

pst_status mpi_wait(struct pst_transport *transport, uint32_t rank, pst_request id,
                    struct pst_error *err)
{
    struct world *world = mpi_world;
    struct request *request;
    enum outcome outcome;
    pst_status status = PST_OK;

    if (id >= transport->max_requests) {
        id -= transport->max_requests;
        if (id < mpi_n_sums(transport)) {
            return mpi_sum_wait(transport, &transport->sums[id], err);
        }
    }
    request = id < transport->max_requests ? &transport->requests[id] : NULL;
    if (request == NULL || rank != world->rank ||
        atomic_load_explicit(&request->state, memory_order_relaxed) == REQUEST_FREE) {
        return stall_fail_request(rank, "request", id, err);
    }
    atomic_store(&world->waits_for, request->peer);
    atomic_store(&world->waits_since_ns, pst_now_ns());
    outcome = mpi_await(world, &request->state, transport->stall_ns);
    if (outcome == OUTCOME_STALLED) {
        status = fail_stalled(world, request, err);
    } else if (outcome == OUTCOME_ABORTED) {
        status = mpi_fail_aborted(world, err);
    } else if (atomic_load_explicit(&request->state, memory_order_acquire) == REQUEST_BAD) {
        status = stall_fail_bytes(request->peer, request->peer_bytes, rank, request->bytes,
                                  request->link.tag, err);
    } else {
        mpi_unstage_transfer(transport, request);
        transport->start_ns = request->start_ns;
        transport->end_ns = request->end_ns;
    }
    atomic_store(&world->waits_since_ns, 0);
    atomic_store(&world->waits_for, MPI_NO_RANK);
    if (outcome == OUTCOME_REACHED) { /* of others the communicator may have hold: until close */
        atomic_store_explicit(&request->state, REQUEST_FREE, memory_order_relaxed);
        requests_push(&transport->free, request);
    }
    return status;
}
