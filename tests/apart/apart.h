/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the device that stands apart (apart.c).
 */
#ifndef PST_TESTS_APART_H
#define PST_TESTS_APART_H

#include <pthread.h>

#include "device/device.h"

enum { MOST_OPERANDS = 80 };

struct work {
    struct work *next;
    void (*run)(struct pst_device *device, struct work *work);
    const struct pst_kernel *kernel;
    const struct pst_op *op;
    struct pst_call call;
    void *operands[8][MOST_OPERANDS];
    void *dst;
    const void *a, *b;
    float *s0, *s1, *weights;
    uint64_t bytes;
    uint32_t dtype;
    struct pst_update update;
    double *ret_sum;
};

struct pst_device {
    struct pst_device *cpu;
    pthread_t thread, owner; /* owner: that entered */
    bool owned;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct work *head, *tail;
    uint64_t n_asked, n_done;
    bool quit;
    uint64_t seed;
    char failed[128]; /* the operator that failed first */
};

extern const struct pst_device_ops *apart_cpu; /* the cpu device's */

/* Where that is which an address stands for; NULL gives NULL. */
void *apart_near(const void *far);

/* A piece of work; ask() puts it into the queue, await() returns when that is empty. */
struct work *apart_work(void (*run)(struct pst_device *device, struct work *work));
void apart_ask(struct pst_device *device, struct work *work);
void apart_await(struct pst_device *device);

/* step.c */
void apart_zero(struct pst_device *device, void *dst, uint64_t bytes);
void apart_accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems);
void apart_sum(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
               uint32_t dtype);
double apart_square_sum(struct pst_device *device, const float *values, uint64_t elems);
void apart_update(struct pst_device *device, const struct pst_update *how, float *weights,
                  const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                  uint64_t elems);
void apart_refresh(struct pst_device *device, void *working, const float *weights,
                   uint32_t working_dtype, uint64_t elems);

#endif
