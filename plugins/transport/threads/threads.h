/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the `threads` transport: ranks are threads of one process. A transfer is one memcpy,
 * made by whichever end posts second; the other end finds it done. Everything is allocated at open.
 *
 * A rank sleeps on its own condition variable and is woken under its own mutex, so whatever it
 * waits for is a word that only grows: the state of a request, or a counter of another rank.
 *
 * After a failed wait the buffers of a rank are its own again once every rank has left its call.
 */
#ifndef PST_TRANSPORT_THREADS_THREADS_H
#define PST_TRANSPORT_THREADS_THREADS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/machine.h"
#include "exec/transport.h"
#include "transport/common/requests.h"
#include "transport/common/stall.h"

struct request {
    struct request_link link; /* in the list of its pair, or of free requests */
    void *data;               /* not written through by a send */
    uint64_t bytes;
    uint64_t peer_bytes; /* set with REQUEST_BAD */
    uint32_t peer;
    bool is_send;
    bool misfit;               /* set with REQUEST_BAD: the other end is of another transfer */
    uint64_t posted_ns;        /* with times */
    uint64_t start_ns, end_ns; /* set before the state is DONE */
    struct pst_mark *begin, *start, *end; /* in order: posted, begun, ended */
    atomic_uint state;
};

struct pair {
    _Alignas(64) pthread_mutex_t mutex;
    struct request_queue pending[2]; /* recv, send: posts without their other end */
};

/* A rank's part of a sum of doubles; the others read it between the two syncs. */
struct cell {
    double *values;
    uint64_t elems;
    uint64_t at_ns; /* when it came, on its clock */
};

struct rank {
    _Alignas(64) pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct request *requests;
    struct request_link *free; /* of the rank's thread */
    struct cell cell;
    struct pst_mark **moved[2]; /* start and end of what was put in order last */
    uint64_t start_ns, end_ns;  /* of what its last wait ended */
    uint32_t brief;             /* so many waits from now on are short of patience */
    bool poked;                 /* there is a new request for a shared link; under the mutex */
};

/* Links with times of their own: links.c. */
struct wire_rank {
    struct request_queue queue[2]; /* posts that have not started: recv, send */
    uint64_t last_start[2];        /* of the transfers of each queue */
    bool queued;                   /* in the worklist */
    bool requested;    /* the transfer at the head of its sends asks for a shared link: */
    uint64_t ready_ns; /* since then, */
    uint64_t due_ns;   /* and is served not before that, or never late for it */
};

struct wire {
    pthread_mutex_t mutex; /* of all below */
    struct wire_rank *ranks;
    uint64_t *link_free;          /* [from * n_ranks + to] */
    uint64_t *node_out, *node_in; /* [node] */
    uint32_t *worklist, n_work;   /* ranks whose queues have a new head */
    uint32_t *asking, n_asking;   /* ranks that have `requested` */
};

struct meet;

struct pst_transport {
    uint32_t n_ranks, max_requests, max_meetings, max_rows;
    uint64_t spin_ns; /* a rank looks so long before it sleeps; 0: others want its core */
    uint64_t stall_ns;
    struct rank *ranks;
    struct pair *pairs;  /* [from * n_ranks + to] */
    atomic_uint *counts; /* [rank] how many syncs of all ranks it entered */
    uint32_t *all;       /* 0 .. n_ranks - 1 */
    bool timed;
    struct pst_transport_times times; /* where timed */
    bool hollow;                      /* buffers are neither read nor written */
    bool apart;                       /* buffers are reached through `memory` */
    struct pst_transport_memory memory;
    const struct pst_device_ops *device; /* where timed or apart, as are: */
    struct pst_device *const *devices;
    struct wire wire;
    struct meet *meet;
    pthread_mutex_t abort_mutex;
    atomic_bool aborted;
    uint32_t abort_rank; /* these two are written once, before `aborted` */
    char abort_text[512];
};

/* wait.c: sleeps until *word >= target (modulo 2^32), the abort or the deadline. */
enum outcome threads_await(struct pst_transport *transport, uint32_t rank, const atomic_uint *word,
                           uint32_t target);
/* threads_await, or until due_ns or a poke (OUTCOME_DUE); stalls at begin_ns + stall_ns. */
enum outcome threads_await_due(struct pst_transport *transport, uint32_t rank,
                               const atomic_uint *word, uint32_t target, uint64_t begin_ns,
                               uint64_t due_ns);
/* threads_await, and links with times are served meanwhile. */
enum outcome threads_await_serving(struct pst_transport *transport, uint32_t rank,
                                   const atomic_uint *word, uint32_t target);
/* Has the rank's threads_await_due return, now or the next time. */
void threads_poke(struct pst_transport *transport, uint32_t rank);
/* *word := value, then wakes the rank. */
void threads_publish(struct pst_transport *transport, uint32_t rank, atomic_uint *word,
                     uint32_t value);
void threads_abort(struct pst_transport *transport, uint32_t rank, const struct pst_error *why);
pst_status threads_fail_aborted(const struct pst_transport *transport, struct pst_error *err);

/* Where timed: the clock of a rank's device; has that and this machine come to ns. */
static inline uint64_t threads_clock(const struct pst_transport *transport, uint32_t rank)
{
    return transport->device->now(transport->devices[rank]);
}

static inline void threads_advance(const struct pst_transport *transport, uint32_t rank,
                                   uint64_t ns)
{
    transport->device->advance(transport->devices[rank], ns);
}

/* order.c: for devices with queues. */
void threads_swap(struct pst_transport *transport, uint32_t rank, struct pst_mark **start,
                  struct pst_mark **end);
/* Sets the marks that threads_swap exchanges. */
static inline void threads_order_moved(struct pst_transport *transport, uint32_t rank,
                                       struct pst_mark **start, struct pst_mark **end)
{
    transport->ranks[rank].moved[0] = start;
    transport->ranks[rank].moved[1] = end;
}
pst_transport_call_fn threads_attach;
/* Sets a mark in the queue of the rank's kernels, or has that follow one. On its thread. */
void threads_order_mark(const struct pst_transport *transport, uint32_t rank,
                        struct pst_mark *mark);
void threads_order_follow(const struct pst_transport *transport, uint32_t rank,
                          struct pst_mark *mark);
/* Both ends are there; any thread. */
void threads_order_transfer(const struct pst_transport *transport, struct request *send,
                            struct request *recv, uint32_t from, uint32_t to);

/* links.c: takes the place of matching by tag where links have times. */
void threads_wire_init(struct pst_transport *transport);
void threads_wire_finish(struct pst_transport *transport);
void threads_wire_post(struct pst_transport *transport, uint32_t rank, struct request *request);
/* Serves what is due on shared links; when the next is, UINT64_MAX: nothing asks. */
uint64_t threads_wire_serve(struct pst_transport *transport);
/* Takes a post back; false when it has started. */
bool threads_wire_withdraw(struct pst_transport *transport, uint32_t rank, struct request *request);

/* post.c */
pst_transport_post_fn threads_post;
pst_transport_wait_fn threads_wait;

/* meet.c; request ids of meetings count from 0 here */
void threads_meet_init(struct pst_transport *transport);
void threads_meet_finish(struct pst_transport *transport);
pst_transport_meet_fn threads_meet;
pst_transport_wait_fn threads_meet_wait;

/* collective.c */
pst_status threads_sum(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                       struct pst_error *err);

#endif
