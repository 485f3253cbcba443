/* SPDX-License-Identifier: Apache-2.0
 *
 * DAPPLE's model of one training step (Fan et al., DAPPLE: A Pipelined Data Parallel Approach for
 * Training Large Models, PPoPP 2021): fill up to the slowest stage, run that one, drain.
 */
#ifndef DAPPLE_LATENCY_H
#define DAPPLE_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

/* Times this close are equal, relative: of several that are, rounding, which is another in another
   unit of time, must not say which one it is. */
#define DAPPLE_SAME 1e-9

/* A stage, or the transfer between two: its passes of one micro-batch, and the all-reduce of its
   weights after the last one. */
struct dapple_step {
    double forward, backward, allreduce;
};

/*
 * n >= 1 steps in order, m >= 1 micro-batches. The pivot Q is the step that keeps the others
 * waiting: from the end on, s < Q takes over where, by more than rounding,
 *
 *   (m - 1) (F_s + B_s) > (m - 1) (F_Q + B_Q) + sum of F_a + B_a over s < a < Q
 *
 * The latency is F_0 + ... + F_Q + (m - 1) (F_Q + B_Q) + what is left after the last backward pass
 * of Q began: the most of AR_s + B_s + ... + B_Q for s <= Q and of AR_s - (sum of B_a over Q < a <
 * s) for s > Q. ret_pivot may be NULL.
 */
double dapple_latency(const struct dapple_step *steps, uint32_t n, uint32_t m, uint32_t *ret_pivot);

/*
 * All that earlier steps need to know of the last ones s, ..., n - 1. What is left is the passes
 * B_s + ... + B_Q and `sync`, so the latency of the last steps alone is passes + sync.
 */
struct dapple_tail {
    double hold;   /* a step before s takes over the pivot where its (m - 1) (F + B) is above; a
                      single   micro-batch waits for none: INFINITY */
    double passes; /* F_a + B_a over s <= a <= Q, and (m - 1) (F_Q + B_Q) */
    double sync;   /* the most of AR_a - (B_s + ... + B_(a - 1)) */
};

struct dapple_tail dapple_tail_last(const struct dapple_step *step, uint32_t m);
/* One more step in front. Does it take over the pivot? Of two tails the one that is less in all
   three numbers stays so, whatever is put in front of both. */
bool dapple_tail_before(struct dapple_tail *tail, const struct dapple_step *step, uint32_t m);

#endif
