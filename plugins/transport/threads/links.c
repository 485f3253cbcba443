/* SPDX-License-Identifier: Apache-2.0
 *
 * Links of a described machine. Whoever posts the end that completes a pair works out when the
 * transfer starts and ends, on the clocks that both posts carry; nobody waits here, and a thread
 * that waits for the transfer sleeps until that end.
 *
 * Shared links serve requests in the order of their times, at equal times the lower sender first.
 * A request can be older than one that is known already, so none is served before its time has come
 * on this machine, too, and half of its own length has passed: by then posts that are woken late
 * are here, and the transfer's end is not yet.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "transport/threads/threads.h"

enum { RECV = 0, SEND = 1 };

static uint64_t max_ns(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void threads_wire_init(struct pst_transport *transport)
{
    struct wire *wire = &transport->wire;
    size_t n = transport->n_ranks;

    if (pthread_mutex_init(&wire->mutex, NULL) != 0) {
        pst_out_of_memory();
    }
    wire->ranks = pst_alloc(n, sizeof *wire->ranks);
    wire->link_free = pst_alloc(n * n, sizeof *wire->link_free);
    wire->node_out = pst_alloc(n, sizeof *wire->node_out);
    wire->node_in = pst_alloc(n, sizeof *wire->node_in);
    wire->worklist = pst_alloc(n, sizeof *wire->worklist);
    wire->asking = pst_alloc(n, sizeof *wire->asking);
}

void threads_wire_finish(struct pst_transport *transport)
{
    struct wire *wire = &transport->wire;

    if (transport->timed) {
        pthread_mutex_destroy(&wire->mutex);
    }
    free(wire->ranks);
    free(wire->link_free);
    free(wire->node_out);
    free(wire->node_in);
    free(wire->worklist);
    free(wire->asking);
}

static struct request *head_of(const struct wire *wire, uint32_t rank, uint32_t side)
{
    return (struct request *)wire->ranks[rank].queue[side].first;
}

static bool is_far(const struct pst_transport *transport, uint32_t from, uint32_t to)
{
    const struct pst_transport_times *times = &transport->times;

    return times->node(times->context, from) != times->node(times->context, to);
}

static struct pst_transfer_time time_of(const struct pst_transport *transport,
                                        const struct request *send, uint32_t from, uint32_t to)
{
    const struct pst_transport_times *times = &transport->times;

    return times->transfer(times->context, from, to, send->link.tag, send->bytes);
}

/* Both ends are there and at the heads of their queues. */
static uint64_t ready_at(const struct wire *wire, const struct request *send,
                         const struct request *recv, uint32_t from, uint32_t to)
{
    return max_ns(max_ns(send->posted_ns, recv->posted_ns),
                  max_ns(wire->ranks[from].last_start[SEND], wire->ranks[to].last_start[RECV]));
}

/* Start and end of a transfer that has its link as soon as that is free; the link is free again
   once the bytes have left. */
static void time_transfer(struct pst_transport *transport, struct request *send,
                          struct request *recv, uint32_t from, uint32_t to)
{
    const struct pst_transport_times *times = &transport->times;
    struct wire *wire = &transport->wire;
    uint64_t *ways[2] = {&wire->link_free[(size_t)from * transport->n_ranks + to], NULL};
    struct pst_transfer_time time = time_of(transport, send, from, to);
    uint64_t start = ready_at(wire, send, recv, from, to), end;
    bool far = is_far(transport, from, to);

    if (far) {
        ways[0] = &wire->node_out[times->node(times->context, from)];
        ways[1] = &wire->node_in[times->node(times->context, to)];
    }
    start = max_ns(start, *ways[0]);
    start = far ? max_ns(start, *ways[1]) : start;
    end = start + time.ns;
    *ways[0] = end - time.latency_ns;
    if (far) {
        *ways[1] = *ways[0];
    }
    if (!time.follows) { /* the queues move on when a message starts, not when its pieces do */
        wire->ranks[from].last_start[SEND] = start;
        wire->ranks[to].last_start[RECV] = start;
    }
    send->start_ns = recv->start_ns = start;
    send->end_ns = recv->end_ns = end;
}

static bool is_misfit(const struct request *send, const struct request *recv)
{
    return send->link.tag != recv->link.tag || send->bytes != recv->bytes;
}

static void complete(struct pst_transport *transport, struct request *send, struct request *recv,
                     uint32_t from, uint32_t to)
{
    uint32_t state = REQUEST_DONE;

    if (is_misfit(send, recv)) {
        send->misfit = recv->misfit = send->link.tag != recv->link.tag;
        send->peer_bytes = recv->bytes;
        recv->peer_bytes = send->bytes;
        state = REQUEST_BAD;
    } else {
        time_transfer(transport, send, recv, from, to);
        if (!transport->hollow && send->bytes > 0) {
            memcpy(recv->data, send->data, send->bytes);
        }
    }
    threads_publish(transport, from, &send->state, state);
    threads_publish(transport, to, &recv->state, state);
}

static void put(struct wire *wire, uint32_t rank)
{
    if (!wire->ranks[rank].queued) {
        wire->ranks[rank].queued = true;
        wire->worklist[wire->n_work++] = rank;
    }
}

/* Starts what is at the heads of both queues. */
static void start(struct pst_transport *transport, uint32_t from, uint32_t to)
{
    struct wire *wire = &transport->wire;
    struct request *send = requests_shift(&wire->ranks[from].queue[SEND]);
    struct request *recv = requests_shift(&wire->ranks[to].queue[RECV]);

    complete(transport, send, recv, from, to);
    put(wire, from);
    put(wire, to);
}

/* Starts the transfer at the heads of both queues, or requests its link. */
static void match(struct pst_transport *transport, uint32_t from, uint32_t to)
{
    struct wire *wire = &transport->wire;
    struct wire_rank *sender = &wire->ranks[from];
    struct request *send = head_of(wire, from, SEND), *recv = head_of(wire, to, RECV);
    struct pst_transfer_time time;

    if (sender->requested || send == NULL || recv == NULL || send->peer != to ||
        recv->peer != from) {
        return;
    }
    time = time_of(transport, send, from, to);
    if (is_misfit(send, recv) || !is_far(transport, from, to) || time.follows) {
        start(transport, from, to);
        return;
    }
    sender->requested = true;
    sender->ready_ns = ready_at(wire, send, recv, from, to);
    sender->due_ns = sender->ready_ns + time.ns / 2;
    wire->asking[wire->n_asking++] = from;
    threads_poke(transport, from);
    threads_poke(transport, to);
}

static void settle(struct pst_transport *transport)
{
    struct wire *wire = &transport->wire;

    while (wire->n_work > 0) {
        uint32_t rank = wire->worklist[--wire->n_work];
        const struct request *request;

        wire->ranks[rank].queued = false;
        if ((request = head_of(wire, rank, SEND)) != NULL) {
            match(transport, rank, request->peer);
        }
        if ((request = head_of(wire, rank, RECV)) != NULL) {
            match(transport, request->peer, rank);
        }
    }
}

/* Position of the request that is served next. */
static uint32_t next_request(const struct wire *wire)
{
    uint32_t next = 0;

    for (uint32_t i = 1; i < wire->n_asking; i++) {
        uint32_t a = wire->asking[i], b = wire->asking[next];
        uint64_t x = wire->ranks[a].ready_ns, y = wire->ranks[b].ready_ns;

        next = x < y || (x == y && a < b) ? i : next;
    }
    return next;
}

static uint64_t serve(struct pst_transport *transport)
{
    struct wire *wire = &transport->wire;

    settle(transport);
    while (wire->n_asking > 0) {
        uint32_t next = next_request(wire), from = wire->asking[next];

        if (wire->ranks[from].due_ns > pst_now_ns()) {
            return wire->ranks[from].due_ns;
        }
        wire->asking[next] = wire->asking[--wire->n_asking];
        wire->ranks[from].requested = false;
        start(transport, from, head_of(wire, from, SEND)->peer);
        settle(transport);
    }
    return UINT64_MAX;
}

uint64_t threads_wire_serve(struct pst_transport *transport)
{
    uint64_t due;

    pthread_mutex_lock(&transport->wire.mutex);
    due = serve(transport);
    pthread_mutex_unlock(&transport->wire.mutex);
    return due;
}

void threads_wire_post(struct pst_transport *transport, uint32_t rank, struct request *request)
{
    struct wire *wire = &transport->wire;

    request->posted_ns = threads_clock(transport, rank);
    atomic_store_explicit(&request->state, REQUEST_POSTED, memory_order_relaxed);
    pthread_mutex_lock(&wire->mutex);
    requests_append(&wire->ranks[rank].queue[request->is_send ? SEND : RECV], request);
    put(wire, rank);
    serve(transport);
    pthread_mutex_unlock(&wire->mutex);
}

/* The request of this sender, if it is for that transfer. */
static void forget(struct wire *wire, uint32_t from, const struct request *request)
{
    const struct request *send = head_of(wire, from, SEND);

    if (!wire->ranks[from].requested ||
        (send != request && head_of(wire, send->peer, RECV) != request)) {
        return;
    }
    wire->ranks[from].requested = false;
    for (uint32_t i = 0; i < wire->n_asking; i++) {
        if (wire->asking[i] == from) {
            wire->asking[i] = wire->asking[--wire->n_asking];
        }
    }
}

bool threads_wire_withdraw(struct pst_transport *transport, uint32_t rank, struct request *request)
{
    struct wire *wire = &transport->wire;
    struct request_queue *queue = &wire->ranks[rank].queue[request->is_send ? SEND : RECV];
    bool was_posted;

    pthread_mutex_lock(&wire->mutex);
    forget(wire, request->is_send ? rank : request->peer, request);
    was_posted = requests_remove(queue, request);
    pthread_mutex_unlock(&wire->mutex);
    return was_posted;
}
