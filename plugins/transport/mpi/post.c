/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers, as the rank's thread sees them: it leaves them in the inbox and sleeps until they are
 * done.
 */
#include "transport/mpi/module.h"

#include <sched.h>
#include <stdio.h>

#define LOOK_NS 40000u

static bool reached(const atomic_uint *word)
{
    return atomic_load_explicit(word, memory_order_acquire) >= STATE_DONE;
}

enum outcome mpi_await(struct world *world, const atomic_uint *word, uint64_t stall_ns)
{
    uint64_t begin = pst_now_ns(), deadline = begin + stall_ns;
    struct timespec until = pst_timespec(deadline);
    enum outcome outcome = OUTCOME_REACHED;
    int timed_out = 0;

    atomic_store_explicit(&world->steps, true, memory_order_relaxed);
    while (world->spins && !reached(word) && pst_now_ns() - begin < LOOK_NS) {
        sched_yield();
    }
    if (reached(word)) {
        return OUTCOME_REACHED;
    }
    pthread_mutex_lock(&world->mutex);
    while (!reached(word)) {
        if (atomic_load(&world->aborted)) {
            outcome = OUTCOME_ABORTED;
            break;
        }
        if (timed_out != 0) {
            outcome = OUTCOME_STALLED;
            break;
        }
        timed_out = pthread_cond_timedwait(&world->rank_wake, &world->mutex, &until);
    }
    pthread_mutex_unlock(&world->mutex);
    return outcome;
}

static pst_status post(struct pst_transport *transport, uint32_t rank, uint32_t peer, bool is_send,
                       uint64_t tag, void *data, uint64_t bytes, pst_request *ret_request)
{
    struct world *world = mpi_world;
    struct request *request = transport->free;

    if (atomic_load(&world->aborted)) {
        return PST_ERR_CANCELLED;
    }
    if (request == NULL || rank != world->rank || peer == rank || peer >= world->n_ranks) {
        return PST_ERR_BUG;
    }
    transport->free = request->next;
    request->next = NULL;
    request->data = data;
    request->bytes = bytes;
    request->tag = tag;
    request->peer = peer;
    request->is_send = is_send;
    request->moved = 0;
    request->header_request = request->data_request = MPI_REQUEST_NULL;
    mpi_stage_transfer(transport, request);
    request->posted_ns = pst_now_ns();
    atomic_store_explicit(&request->state, STATE_POSTED, memory_order_relaxed);
    *ret_request = (pst_request)(request - transport->requests);
    pthread_mutex_lock(&world->mutex);
    *(world->inbox_last != NULL ? &world->inbox_last->next : &world->inbox) = request;
    world->inbox_last = request;
    mpi_ring(world);
    pthread_mutex_unlock(&world->mutex);
    return PST_OK;
}

pst_status mpi_send(struct pst_transport *transport, uint32_t rank, uint32_t to, uint64_t tag,
                    const void *data, uint64_t bytes, pst_request *ret_request)
{
    return post(transport, rank, to, true, tag, (void *)(uintptr_t)data, bytes, ret_request);
}

pst_status mpi_recv(struct pst_transport *transport, uint32_t rank, uint32_t from, uint64_t tag,
                    void *data, uint64_t bytes, pst_request *ret_request)
{
    return post(transport, rank, from, false, tag, data, bytes, ret_request);
}

static pst_status fail_stalled(struct world *world, const struct request *request,
                               struct pst_error *err)
{
    char what[128];

    snprintf(what, sizeof what, "for device %u to %s %llu bytes (tag 0x%llx)", request->peer,
             request->is_send ? "receive" : "send", (unsigned long long)request->bytes,
             (unsigned long long)request->tag);
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
        if (id < transport->max_reductions) {
            return mpi_sum_wait(transport, &transport->sums[id], err);
        }
    }
    request = id < transport->max_requests ? &transport->requests[id] : NULL;
    if (request == NULL || rank != world->rank ||
        atomic_load_explicit(&request->state, memory_order_relaxed) == STATE_FREE) {
        return pst_fail(err, PST_ERR_BUG, "transport.request", "rank %u waits for no request (%u)",
                        rank, id);
    }
    atomic_store(&world->waits_for, request->peer);
    atomic_store(&world->waits_since_ns, pst_now_ns());
    outcome = mpi_await(world, &request->state, transport->stall_ns);
    if (outcome == OUTCOME_STALLED) {
        status = fail_stalled(world, request, err);
    } else if (outcome == OUTCOME_ABORTED) {
        status = mpi_fail_aborted(world, err);
    } else if (atomic_load_explicit(&request->state, memory_order_acquire) == STATE_BAD) {
        status = pst_fail(err, PST_ERR_BUG, "transport.size",
                          "rank %u sends %llu bytes, but rank %u expects %llu (tag 0x%llx)",
                          request->peer, (unsigned long long)request->peer_bytes, rank,
                          (unsigned long long)request->bytes, (unsigned long long)request->tag);
    } else {
        mpi_unstage_transfer(transport, request);
        transport->start_ns = request->start_ns;
        transport->end_ns = request->end_ns;
    }
    atomic_store(&world->waits_since_ns, 0);
    atomic_store(&world->waits_for, MPI_NO_RANK);
    if (outcome == OUTCOME_REACHED) { /* of others the communicator may have hold: until close */
        atomic_store_explicit(&request->state, STATE_FREE, memory_order_relaxed);
        request->next = transport->free;
        transport->free = request;
    }
    return status;
}
