/* SPDX-License-Identifier: Apache-2.0
 *
 * Point-to-point transfers. Per ordered pair of ranks there are two lists of posts that lack their
 * other end; equal tags match in the order of posting.
 */
#include "transport/threads/threads.h"

#include <string.h>

static struct pair *pair_of(struct pst_transport *transport, uint32_t rank, uint32_t peer,
                            bool is_send)
{
    uint32_t from = is_send ? rank : peer, to = is_send ? peer : rank;

    return &transport->pairs[(size_t)from * transport->n_ranks + to];
}

/* Both ends are here: moves the bytes and tells the other rank. */
static void transfer(struct pst_transport *transport, uint32_t rank, struct request *mine,
                     struct request *other, uint32_t other_rank)
{
    uint32_t state = REQUEST_DONE;

    mine->start_ns = other->start_ns = pst_now_ns();
    if (mine->bytes != other->bytes) {
        state = REQUEST_BAD;
        mine->peer_bytes = other->bytes;
        other->peer_bytes = mine->bytes;
    } else if (transport->apart && mine->is_send) {
        threads_order_transfer(transport, mine, other, rank, other_rank);
    } else if (transport->apart) {
        threads_order_transfer(transport, other, mine, other_rank, rank);
    } else if (mine->bytes > 0) {
        memcpy(mine->is_send ? other->data : mine->data, mine->is_send ? mine->data : other->data,
               mine->bytes);
    }
    mine->end_ns = other->end_ns = pst_now_ns();
    atomic_store_explicit(&mine->state, state, memory_order_relaxed);
    threads_publish(transport, other_rank, &other->state, state);
}

pst_status threads_post(struct pst_transport *transport, uint32_t rank, uint32_t peer, bool is_send,
                        uint64_t tag, void *data, uint64_t bytes, pst_request *ret_request)
{
    struct rank *self = &transport->ranks[rank];
    struct request *request, *other;
    struct pair *pair;

    if (atomic_load_explicit(&transport->aborted, memory_order_acquire)) {
        return PST_ERR_CANCELLED;
    }
    request = peer < transport->n_ranks ? requests_pop(&self->free) : NULL;
    if (request == NULL) {
        return PST_ERR_BUG;
    }
    request->data = data;
    request->bytes = bytes;
    request->link.tag = tag;
    request->peer = peer;
    request->is_send = is_send;
    request->misfit = false;
    *ret_request = (pst_request)(request - self->requests);
    if (transport->apart) {
        threads_order_mark(transport, rank, request->begin);
    }
    if (transport->timed) {
        threads_wire_post(transport, rank, request);
        return PST_OK;
    }
    pair = pair_of(transport, rank, peer, is_send);
    pthread_mutex_lock(&pair->mutex);
    other = requests_take(&pair->pending[!is_send], tag);
    if (other == NULL) {
        atomic_store_explicit(&request->state, REQUEST_POSTED, memory_order_relaxed);
        requests_append(&pair->pending[is_send], request);
    } else {
        atomic_store_explicit(&other->state, REQUEST_MOVING, memory_order_relaxed);
    }
    pthread_mutex_unlock(&pair->mutex);
    if (other != NULL) {
        transfer(transport, rank, request, other, peer);
    }
    return PST_OK;
}

/* Takes a post back; false when the other end has it already. */
static bool withdraw(struct pst_transport *transport, uint32_t rank, struct request *request)
{
    struct pair *pair = pair_of(transport, rank, request->peer, request->is_send);
    bool was_posted;

    if (transport->timed) {
        return threads_wire_withdraw(transport, rank, request);
    }
    pthread_mutex_lock(&pair->mutex);
    was_posted = requests_remove(&pair->pending[request->is_send], request);
    pthread_mutex_unlock(&pair->mutex);
    return was_posted;
}

static pst_status fail_stalled(const struct pst_transport *transport, uint32_t rank,
                               const struct request *request, struct pst_error *err)
{
    return stall_fail_waited(
        rank, transport->stall_ns, err, "for rank %u to %s %llu bytes (tag 0x%llx)", request->peer,
        request->is_send ? "receive" : "send", (unsigned long long)request->bytes,
        (unsigned long long)request->link.tag);
}

static pst_status fail_bad(uint32_t rank, const struct request *request, struct pst_error *err)
{
    bool s = request->is_send;

    if (request->misfit) {
        return pst_fail(err, PST_ERR_BUG, "transport.order",
                        "ranks %u and %u post their transfers in different orders (tag 0x%llx)",
                        rank, request->peer, (unsigned long long)request->link.tag);
    }
    return stall_fail_bytes(s ? rank : request->peer, s ? request->bytes : request->peer_bytes,
                            s ? request->peer : rank, s ? request->peer_bytes : request->bytes,
                            request->link.tag, err);
}

/* Whoever waits serves the requests for shared links whose time has come. */
enum outcome threads_await_serving(struct pst_transport *transport, uint32_t rank,
                                   const atomic_uint *word, uint32_t target)
{
    uint64_t begin;
    enum outcome outcome;

    if (!transport->timed) {
        return threads_await(transport, rank, word, target);
    }
    begin = pst_now_ns();
    do {
        uint64_t due = threads_wire_serve(transport);

        outcome = threads_await_due(transport, rank, word, target, begin, due);
    } while (outcome == OUTCOME_DUE);
    return outcome;
}

pst_status threads_wait(struct pst_transport *transport, uint32_t rank, pst_request id,
                        struct pst_error *err)
{
    struct rank *self = &transport->ranks[rank];
    struct request *request;
    enum outcome outcome;
    pst_status status = PST_OK;

    if (id >= transport->max_requests) {
        return threads_meet_wait(transport, rank, id - transport->max_requests, err);
    }
    if (atomic_load_explicit(&self->requests[id].state, memory_order_relaxed) == REQUEST_FREE) {
        return stall_fail_request(rank, "request", id, err);
    }
    request = &self->requests[id];
    outcome = threads_await_serving(transport, rank, &request->state, REQUEST_DONE);
    if (outcome != OUTCOME_REACHED && !withdraw(transport, rank, request)) {
        /* The other end is inside its memcpy: that ends by itself, and the buffer is in use. */
        while (atomic_load_explicit(&request->state, memory_order_acquire) < REQUEST_DONE) {
            sched_yield();
        }
        outcome = OUTCOME_REACHED;
    }
    if (outcome == OUTCOME_STALLED) {
        status = fail_stalled(transport, rank, request, err);
    } else if (outcome == OUTCOME_ABORTED) {
        status = threads_fail_aborted(transport, err);
    } else if (atomic_load_explicit(&request->state, memory_order_acquire) == REQUEST_BAD) {
        status = fail_bad(rank, request, err);
    } else {
        self->start_ns = request->start_ns;
        self->end_ns = request->end_ns;
        if (transport->apart) {
            threads_order_follow(transport, rank, request->end);
            threads_order_moved(transport, rank, &request->start, &request->end);
        }
        if (transport->timed) {
            threads_advance(transport, rank, request->end_ns);
        }
    }
    atomic_store_explicit(&request->state, REQUEST_FREE, memory_order_relaxed);
    requests_push(&self->free, request);
    return status;
}
