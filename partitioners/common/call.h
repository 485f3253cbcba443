/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners: one call of the host as a whole. It ends at once, from any depth, when there is
 * no memory left or the host asks to stop; what it took is given back then. So nobody who takes
 * memory checks for NULL or hands such a failure on. Not for functions that the host calls back:
 * the way out leads over the frames of the host.
 */
#ifndef PARTITIONERS_COMMON_CALL_H
#define PARTITIONERS_COMMON_CALL_H

#include <pthread.h>
#include <stddef.h>

#include <penstock/penstock.h>

/* Zeroed, there until the region that it was taken in is left, or the call ends. A product that
   does not fit counts as memory that is not there. */
void *part_alloc(size_t count, size_t size)
    __attribute__((malloc, returns_nonnull, warn_unused_result));
/* What is new is not zeroed. */
void *part_resize(void *old, size_t count, size_t size)
    __attribute__((returns_nonnull, warn_unused_result));
/* Room for array[n], of an array of `room` elements, which grows in large steps. */
#define PART_MAKE_ROOM(array, n, room)                                                             \
    do {                                                                                           \
        if ((n) == (room)) {                                                                       \
            (room) = 2 * (room) + 16;                                                              \
            (array) = part_resize((array), (room), sizeof *(array));                               \
        }                                                                                          \
    } while (0)
/* Where it pays: for what is large, or taken again and again. */
void part_free(void *memory);
/* As part_alloc, but NULL where there is none: for tables that a search can do without. */
void *part_try_alloc(size_t count, size_t size);

/* What is taken between the two is given back when it is left, but for what part_keep hands to the
   region around it. Arrays that grow do so in the region of their first element. */
struct part_region {
    struct part_region *outer;
    struct block *first;
    pthread_mutex_t *lock; /* NULL: of one thread */
};
void part_enter(struct part_region *region);
void part_keep(void *memory); /* may be NULL */
void part_leave(struct part_region *region);

/* The call gives this status. Outside of one (in tests) the program ends. */
void part_end(pst_status status) __attribute__((noreturn));

/* Ends the call where a function of the host failed. */
static inline void part_check(pst_status status)
{
    if (status != PST_OK) {
        part_end(status);
    }
}

/* What `run` gives, or what part_end was told. */
pst_status part_call(pst_status (*run)(void *context), void *context);

/* For further threads of a call: part_call_join, with what part_call_now gave before, is part_call
   in there, with memory that belongs to the same call. */
struct part_region *part_call_now(void);
pst_status part_call_join(struct part_region *region, pst_status (*run)(void *context),
                          void *context);

/* The function of pst_partitioner: `function` as a call, which has the same arguments. */
#define PART_PARTITIONER(function)                                                                 \
    struct part_question {                                                                         \
        void *self;                                                                                \
        const struct pst_partition_in *in;                                                         \
        struct pst_partition_out *out;                                                             \
    };                                                                                             \
    static pst_status answer_question(void *question_)                                             \
    {                                                                                              \
        const struct part_question *question = question_;                                          \
                                                                                                   \
        return function(question->self, question->in, question->out);                              \
    }                                                                                              \
    static pst_status call_##function(void *self, const struct pst_partition_in *in,               \
                                      struct pst_partition_out *out)                               \
    {                                                                                              \
        struct part_question question = {self, in, out};                                           \
                                                                                                   \
        return part_call(answer_question, &question);                                              \
    }                                                                                              \
    PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = call_##function)

#endif
