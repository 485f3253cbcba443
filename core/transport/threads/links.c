/* SPDX-License-Identifier: Apache-2.0
 *
 * Links of a described machine. Whoever posts the end that completes a pair works out when the
 * transfer starts and ends, on the clocks that both posts carry; nobody waits here, and a thread
 * that waits for the transfer sleeps until that end. Where links are shared, requests are served
 * as they come, which is in the order of their times but for how late this machine wakes threads.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/threads/threads.h"

enum { RECV = 0, SEND = 1 };

static uint64_t max_ns(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool threads_wire_init(struct pst_transport *transport)
{
    struct wire *wire = &transport->wire;
    size_t n = transport->n_ranks;

    if (pthread_mutex_init(&wire->mutex, NULL) != 0) {
        return false;
    }
    wire->ready = true;
    wire->ranks = calloc(n, sizeof *wire->ranks);
    wire->link_free = calloc(n * n, sizeof *wire->link_free);
    wire->node_out = calloc(n, sizeof *wire->node_out);
    wire->node_in = calloc(n, sizeof *wire->node_in);
    wire->worklist = calloc(n, sizeof *wire->worklist);
    return wire->ranks != NULL && wire->link_free != NULL && wire->node_out != NULL &&
           wire->node_in != NULL && wire->worklist != NULL;
}

void threads_wire_finish(struct pst_transport *transport)
{
    struct wire *wire = &transport->wire;

    if (wire->ready) {
        pthread_mutex_destroy(&wire->mutex);
    }
    free(wire->ranks);
    free(wire->link_free);
    free(wire->node_out);
    free(wire->node_in);
    free(wire->worklist);
}

/* Start and end of a transfer whose ends were both ready at `ready`. */
static void time_transfer(struct pst_transport *transport, struct request *send,
                          struct request *recv, uint32_t from, uint32_t to)
{
    const struct pst_transport_times *times = &transport->times;
    struct wire *wire = &transport->wire;
    uint32_t out = times->node(times->context, from), in = times->node(times->context, to);
    bool far = out != in;
    uint64_t *ways[2] = {&wire->link_free[(size_t)from * transport->n_ranks + to], NULL};
    struct pst_transfer_time time =
        times->transfer(times->context, from, to, send->tag, send->bytes);
    uint64_t start = max_ns(send->posted_ns, recv->posted_ns), end;

    if (far) {
        ways[0] = &wire->node_out[out];
        ways[1] = &wire->node_in[in];
    }
    start = max_ns(start, wire->ranks[from].last_start[SEND]);
    start = max_ns(start, wire->ranks[to].last_start[RECV]);
    start = max_ns(start, *ways[0]);
    start = far ? max_ns(start, *ways[1]) : start;
    end = start + time.ns;
    *ways[0] = end;
    if (far) {
        *ways[1] = end;
    }
    if (!time.follows) { /* the queues move on when a message starts, not when its pieces do */
        wire->ranks[from].last_start[SEND] = start;
        wire->ranks[to].last_start[RECV] = start;
    }
    send->start_ns = recv->start_ns = start;
    send->end_ns = recv->end_ns = end;
}

static void complete(struct pst_transport *transport, struct request *send, struct request *recv,
                     uint32_t from, uint32_t to)
{
    uint32_t state = REQUEST_DONE;

    if (send->tag != recv->tag || send->bytes != recv->bytes) {
        send->misfit = recv->misfit = send->tag != recv->tag;
        send->peer_bytes = recv->bytes;
        recv->peer_bytes = send->bytes;
        state = REQUEST_BAD;
    } else {
        time_transfer(transport, send, recv, from, to);
        if (!transport->times.hollow && send->bytes > 0) {
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

/* Starts what is at the heads of both its queues. */
static void match(struct pst_transport *transport, uint32_t from, uint32_t to)
{
    struct wire *wire = &transport->wire;
    struct queue *sends = &wire->ranks[from].queue[SEND], *recvs = &wire->ranks[to].queue[RECV];
    struct request *send = sends->head, *recv = recvs->head;

    if (send == NULL || recv == NULL || send->peer != to || recv->peer != from) {
        return;
    }
    threads_take(sends, send, 0);
    threads_take(recvs, recv, 0);
    complete(transport, send, recv, from, to);
    put(wire, from);
    put(wire, to);
}

static void settle(struct pst_transport *transport)
{
    struct wire *wire = &transport->wire;

    while (wire->n_work > 0) {
        uint32_t rank = wire->worklist[--wire->n_work];
        struct wire_rank *self = &wire->ranks[rank];

        self->queued = false;
        if (self->queue[SEND].head != NULL) {
            match(transport, rank, self->queue[SEND].head->peer);
        }
        if (self->queue[RECV].head != NULL) {
            match(transport, self->queue[RECV].head->peer, rank);
        }
    }
}

void threads_wire_post(struct pst_transport *transport, uint32_t rank, struct request *request)
{
    struct wire *wire = &transport->wire;

    request->posted_ns = transport->times.now(transport->times.context, rank);
    atomic_store_explicit(&request->state, REQUEST_POSTED, memory_order_relaxed);
    pthread_mutex_lock(&wire->mutex);
    threads_append(&wire->ranks[rank].queue[request->is_send ? SEND : RECV], request);
    put(wire, rank);
    settle(transport);
    pthread_mutex_unlock(&wire->mutex);
}

bool threads_wire_withdraw(struct pst_transport *transport, uint32_t rank, struct request *request)
{
    struct wire *wire = &transport->wire;
    struct queue *queue = &wire->ranks[rank].queue[request->is_send ? SEND : RECV];
    bool was_posted;

    pthread_mutex_lock(&wire->mutex);
    was_posted = threads_take(queue, request, 0) != NULL;
    pthread_mutex_unlock(&wire->mutex);
    return was_posted;
}
