/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders by hand and random graphs of stages, for tests of their timing and bounds. Include cmocka
 * before.
 */
#ifndef PENSTOCK_TESTS_ORDER_RIG_H
#define PENSTOCK_TESTS_ORDER_RIG_H

#include "base/philox.h"
#include "plan/order_eval.h"
#include "planner/order_question.h"

enum { MAX_STAGES = 8, MAX_MB = 24, MAX_LIST = 600 };

struct rng {
    uint64_t seed, counter;
};

static inline uint32_t draw(struct rng *rng, uint32_t n)
{
    return pst_philox(rng->seed, 0, rng->counter++).v[0] % n;
}

struct lists {
    struct pst_pass passes[MAX_STAGES][MAX_LIST];
    uint32_t n[MAX_STAGES];
    const struct pst_pass *heads[MAX_STAGES];
};

static inline pst_status evaluate(const struct pst_order_question *asked, struct lists *lists,
                                  struct pst_order_eval *ret_eval, struct pst_error *err)
{
    for (uint32_t d = 0; d < asked->in.n_devices; d++) {
        lists->heads[d] = lists->passes[d];
    }
    return pst_order_evaluate(&asked->in, lists->heads, lists->n, ret_eval, err);
}

static inline void add(struct lists *lists, uint32_t device, uint32_t op, uint32_t stage,
                       uint32_t mb)
{
    lists->passes[device][lists->n[device]++] = (struct pst_pass){(uint8_t)op, stage, mb};
}

static inline void chain(uint32_t p, uint32_t m, uint64_t f, uint64_t b, uint64_t w, uint64_t cap,
                         bool vshape, struct pst_order_question *ret_asked)
{
    const struct pst_order_question_costs costs = {.forward_ns = f,
                                                   .backward_input_ns = b,
                                                   .backward_weight_ns = w,
                                                   .saved_bytes = 1,
                                                   .saved_weight_bytes = 1,
                                                   .limit_bytes = cap == 0 ? UINT64_MAX : cap};
    uint32_t device_of[MAX_STAGES], n = vshape ? 2 * p : p;

    for (uint32_t s = 0; s < n; s++) {
        device_of[s] = s < p ? s : 2 * p - 1 - s;
    }
    *ret_asked = pst_order_question_line(p, n, device_of, m, &costs);
}

#endif
