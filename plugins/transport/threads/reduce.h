/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of sums over replicas: reduce.c, and order.c for devices with queues.
 */
#ifndef PST_TRANSPORT_THREADS_REDUCE_H
#define PST_TRANSPORT_THREADS_REDUCE_H

#include "transport/threads/threads.h"

struct meeting {
    struct request_link link; /* in the list of free ones */
    struct post *first;       /* of the first member; then in their order */
    uint32_t n_left;          /* members that have not left; under the mutex */
    uint64_t n_pieces;
    uint64_t start_ns, end_ns; /* before the state of the posts is REQUEST_DONE */
    _Atomic uint64_t taken, done;
};

/* One member's part of a sum. */
struct post {
    struct request_link link; /* in the queue of its rank, or of free ones */
    struct post *after;       /* of the next member */
    uint32_t rank;
    const uint32_t *members;
    uint32_t n_members, n_parts;
    const struct pst_reduce_part *parts;
    uint64_t posted_ns;
    struct meeting *meeting; /* before the state is REQUEST_MOVING */
    /* in order (order.c): behind what its rank was asked for before; when it begins; its share; the
     * whole sum */
    struct pst_mark *begin, *start, *part, *end;
    atomic_uint state;
};

struct reduce_rank {
    struct request_queue queue; /* posts that have not met; under the mutex */
    struct post *posts;
    struct request_link *free; /* of the rank's thread */
    uint64_t free_ns;          /* with times: end of its last sum */
};

struct reduce {
    pthread_mutex_t mutex;
    struct reduce_rank *ranks;
    struct meeting *meetings;
    struct request_link *free;
};

/* All members are there: asks their devices for the sum. Under the mutex. */
void threads_order_sum(const struct pst_transport *transport, const struct post *first);

#endif
