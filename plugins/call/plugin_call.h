/* SPDX-License-Identifier: Apache-2.0
 *
 * For plugins: one call of the host as a whole. It ends at once, from any depth, when there is no
 * memory left or the host asks to stop; what it took is given back then. So nobody who takes memory
 * checks for NULL or hands such a failure on. Not for functions that the host calls back: the way
 * out leads over the frames of the host.
 */
#ifndef PLUGIN_CALL_H
#define PLUGIN_CALL_H

#include <stddef.h>

#include <penstock/penstock.h>

/* Zeroed, there until the region that it was taken in is left, or the call ends. A product that
   does not fit counts as memory that is not there. */
void *call_alloc(size_t count, size_t size)
    __attribute__((malloc, returns_nonnull, warn_unused_result));
/* New elements are not zeroed. */
void *call_resize(void *old, size_t count, size_t size)
    __attribute__((returns_nonnull, warn_unused_result));
/* pointer = n zeroed elements. */
#define CALL_TAKE(pointer, n) ((pointer) = call_alloc((n), sizeof *(pointer)))
/* Room for array[n], of an array of `room` elements, which grows in large steps. */
#define CALL_MAKE_ROOM(array, n, room)                                                             \
    do {                                                                                           \
        if ((n) == (room)) {                                                                       \
            (room) = 2 * (room) + 16;                                                              \
            (array) = call_resize((array), (room), sizeof *(array));                               \
        }                                                                                          \
    } while (0)
/* Frees early: useful for large memory, or memory that is allocated again and again. */
void call_free(void *memory);
/* call_alloc that returns NULL on failure: for tables that a search can do without. */
void *call_try_alloc(size_t count, size_t size);

/* call_leave frees what was allocated since call_enter, except what call_keep moved to the outer
   region. Arrays grow in the region of their first element. */
struct call_region {
    struct call_region *outer;
    struct block *first;
};
void call_enter(struct call_region *region);
void call_keep(void *memory); /* may be NULL */
void call_leave(struct call_region *region);

/* Ends the call with this status. Outside of a call (in tests) the program aborts. */
void call_end(pst_status status) __attribute__((noreturn));

/* Ends the call where a function of the host failed. */
static inline void call_check(pst_status status)
{
    if (status != PST_OK) {
        call_end(status);
    }
}

/* Ends the call where the host asks to stop. NULL: never. */
static inline void call_go_on(const struct pst_host *host)
{
    if (host != NULL && host->cancelled != NULL && host->cancelled(host)) {
        call_end(PST_ERR_CANCELLED);
    }
}

/* Runs `run` as a call. Returns its status, or the one passed to call_end. */
pst_status call_run(pst_status (*run)(void *context), void *context);

/* Runs `run` in the memory of the current call: call_end in `run` ends `run` only. */
pst_status call_try(pst_status (*run)(void *context), void *context);

/* Writes called(self, in, out), a function of an interface: `function` of the same arguments as a
   call. */
#define CALL_FUNCTION(called, function, in_type, out_type)                                         \
    struct called##_question {                                                                     \
        void *self;                                                                                \
        const in_type *in;                                                                         \
        out_type *out;                                                                             \
    };                                                                                             \
    static pst_status called##_run(void *question_)                                                \
    {                                                                                              \
        const struct called##_question *question = question_;                                      \
                                                                                                   \
        return function(question->self, question->in, question->out);                              \
    }                                                                                              \
    static pst_status called(void *self, const in_type *in, out_type *out)                         \
    {                                                                                              \
        struct called##_question question = {self, in, out};                                       \
                                                                                                   \
        return call_run(called##_run, &question);                                                  \
    }

#endif
