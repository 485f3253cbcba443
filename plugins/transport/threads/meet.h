/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of meetings: meet.c, and order.c for devices with queues.
 */
#ifndef PST_TRANSPORT_THREADS_MEET_H
#define PST_TRANSPORT_THREADS_MEET_H

#include "transport/threads/threads.h"

/* A sum whose members are all there. */
struct gathering {
    struct request_link link; /* in the list of free ones */
    struct post *first;       /* of the first member; then in their order */
    uint32_t n_left;          /* members that have not left; under the mutex */
    uint64_t n_pieces;
    uint64_t start_ns, end_ns; /* before the state of the posts is REQUEST_DONE */
    struct {
        uint32_t rank, n_terms;
        uint64_t elems;
    } unlike[2]; /* two posts that differ, with REQUEST_BAD */
    _Atomic uint64_t taken, done;
};

/* The post of one member. */
struct post {
    struct request_link link; /* in a queue of its rank, or of free ones */
    struct post *after;       /* of the next member */
    uint32_t rank;
    struct pst_meeting meeting;
    uint64_t posted_ns;
    struct gathering *gathering; /* before the state is REQUEST_MOVING */
    /* in order (order.c): behind what its rank was asked for before; when it begins; its share; the
     * whole sum */
    struct pst_mark *begin, *start, *part, *end;
    atomic_uint state;
};

struct meet_rank {
    struct {
        struct request_queue queue; /* posts that have not met; under the mutex */
        struct request_link *free;  /* of the rank's thread */
        uint64_t free_ns;           /* with times: end of its last meeting */
    } lanes[PST_MEET_LANES];
    struct post *posts; /* max_meetings, the one of PST_MEET_PARTS, max_rows */
};

struct meet {
    pthread_mutex_t mutex;
    struct meet_rank *ranks;
    struct gathering *gatherings;
    struct request_link *free;
};

static inline uint32_t threads_n_posts(const struct pst_transport *transport)
{
    return transport->max_meetings + 1 + transport->max_rows;
}

/* The post that brings a term of the sum. */
const struct post *threads_post_of(const struct post *first, uint32_t term);
/* All members are there: asks their devices for the sum. Under the mutex. */
void threads_order_sum(const struct pst_transport *transport, const struct post *first);

#endif
