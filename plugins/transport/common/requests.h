/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of requests: a stack of those that are free, and queues of those that are posted. A struct
 * on such a list begins with its link, so a pointer to one is a pointer to the other.
 *
 *     free -> [ ] -> [ ] -> [ ]          queue.first -> [tag 7] -> [tag 9] <- queue.last
 *              pop, push                                 shift: the oldest; append: at the end
 *
 * No list is locked here.
 */
#ifndef PST_TRANSPORT_COMMON_REQUESTS_H
#define PST_TRANSPORT_COMMON_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ordered: a request is over from DONE on. MOVING: the other ends are here, too. */
enum { REQUEST_FREE, REQUEST_POSTED, REQUEST_MOVING, REQUEST_DONE, REQUEST_BAD };

struct request_link {
    struct request_link *next;
    uint64_t tag; /* of a transfer */
};

struct request_queue {
    struct request_link *first, *last;
};

/* Fills a stack with the elements of an array; the first one is popped first. */
void requests_fill(struct request_link **stack, void *elements, size_t count, size_t size);
void requests_push(struct request_link **stack, void *element);
/* Returns NULL if the list is empty, or has no such element. */
void *requests_pop(struct request_link **stack);
void *requests_shift(struct request_queue *queue);
/* The oldest with this tag. */
void *requests_take(struct request_queue *queue, uint64_t tag);
/* Returns false if the element is not on the queue. */
bool requests_remove(struct request_queue *queue, const void *element);
void requests_append(struct request_queue *queue, void *element);

#endif
