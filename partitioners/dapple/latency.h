/* SPDX-License-Identifier: Apache-2.0
 *
 * DAPPLE's model of one training step (Fan et al., DAPPLE: A Pipelined Data Parallel Approach for
 * Training Large Models, PPoPP 2021): fill up to the slowest stage, run that one, drain.
 */
#ifndef DAPPLE_LATENCY_H
#define DAPPLE_LATENCY_H

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

#endif
