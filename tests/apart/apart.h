/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the device that stands apart (apart.c).
 */
#ifndef PST_TESTS_APART_H
#define PST_TESTS_APART_H

#include <pthread.h>

#include "exec/device.h"

#include "host_stream.h"

enum { MOST_OPERANDS = 80 };

struct work {
    struct work *next;
    void (*run)(struct pst_device *device, struct work *work);
    const struct pst_kernel *kernel;
    const struct pst_op *op;
    struct pst_call call;
    void (*call_host)(void *context);
    void *operands[8][MOST_OPERANDS];
    void *dst;
    const void *a, *b;
    float *s0, *s1, *weights;
    uint64_t bytes;
    uint32_t dtype;
    struct pst_update update;
    double *ret_sum;
    struct pst_mark *mark;
    uint64_t turn; /* of the mark */
};

/* Worked off by a thread of its own. */
struct queue {
    struct pst_device *device;
    pthread_t thread;
    pthread_cond_t wake;
    struct work *head, *tail;
    uint64_t n_asked, n_done;
    uint64_t seed;
};

struct pst_device {
    struct pst_device *cpu;
    pthread_t owner; /* that entered */
    bool owned;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct queue queues[PST_QUEUES];
    bool quit;
    char failed[128]; /* the operator that failed first; under the mutex */
    struct pst_mark *marks;
    struct pinned *pinned;
    struct host_stream compute; /* the queue of kernels, for other doubles */
};

extern const struct pst_device_ops *apart_cpu; /* the cpu device's */

/* Where that is which an address stands for; NULL gives NULL. */
void *apart_near(const void *far);

/* queue.c: a piece of work; ask() puts it into the queue of kernels, await() returns when that is
   empty. */
struct work *apart_work(void (*run)(struct pst_device *device, struct work *work));
void apart_ask(struct pst_device *device, struct work *work);
void apart_await(struct pst_device *device);
void apart_ask_in(struct pst_device *device, uint32_t queue, struct work *work);
void apart_queues_open(struct pst_device *device);
void apart_queues_close(struct pst_device *device);
pst_status apart_pinned(struct pst_device *device, uint64_t bytes, void **ret_base,
                        struct pst_error *err);
pst_status apart_mark_create(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                             struct pst_error *err);
uint64_t apart_mark_ns(struct pst_device *device, struct pst_mark *mark);
void apart_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
void apart_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
bool apart_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns);
void apart_call(struct pst_device *device, uint32_t queue, void (*call)(void *context),
                void *context);
void apart_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                uint64_t bytes);
void apart_add(struct pst_device *device, uint32_t queue, float *dst, const float *src,
               uint64_t elems);
void apart_copy_now(struct pst_device *device, struct work *work);
/* apart_near() of an address in an arena, an address in pinned memory as it is. */
void *apart_reach(const void *address);
/* Puts somebody else's work into the queue of kernels. */
void apart_ask_other(struct host_stream *stream, void (*work)(void *argument), void *argument);

/* step.c */
void apart_zero(struct pst_device *device, void *dst, uint64_t bytes);
void apart_accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems);
void apart_sum(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
               uint32_t dtype);
void apart_squares(struct pst_device *device, const struct pst_squared *list, uint32_t n);
double apart_square_sum(struct pst_device *device, const float *values, uint64_t elems);
void apart_update(struct pst_device *device, const struct pst_update *how, float *weights,
                  const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                  uint64_t elems);
void apart_refresh(struct pst_device *device, void *working, const float *weights,
                   uint32_t working_dtype, uint64_t elems);

#endif
