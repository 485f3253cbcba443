/* SPDX-License-Identifier: Apache-2.0
 *
 * A rig for one operator: a small graph around it, operands as doubles, and its three reference
 * kernels run on typed buffers that are exactly as large as told and filled with NaN before.
 * Kernels get only the operands that the autodiff table of the model says they read.
 */
#ifndef PST_TEST_REFERENCE_RIG_H
#define PST_TEST_REFERENCE_RIG_H

#include "test.h"

#include "exec/device.h"
#include "operator_case.h"

#define RIG_INPUTS  3
#define RIG_PARAMS  2
#define RIG_OUTPUTS 3

/* Ended by one without name. */
extern const struct rig_case rig_cases[];

struct rig {
    struct pst_graph *graph;
    const struct pst_op *op;
    uint32_t index; /* of op */
    struct pst_op_grad grad;
    uint32_t dtype, samples, flags;
    uint64_t seed, first_sample;
    float scale;
    bool add_in_place; /* dx and add share a buffer */
    bool positive;     /* of the case */
    /* Operands, for the caller to fill; integers as doubles, too. add[i]: NULL, or an addend. */
    double *x[RIG_INPUTS], *p[RIG_PARAMS], *dy, *add[RIG_INPUTS], *state[2];
    uint64_t n_x[RIG_INPUTS], n_p[RIG_PARAMS], n_y[RIG_OUTPUTS], n_state;
    /* Results; dx where the operator has a gradient, that of an aliased input is dy. */
    double *y[RIG_OUTPUTS], *dx[RIG_INPUTS], *dp[RIG_PARAMS];
};

/* Fails the test when the graph cannot be built. samples as in the case. */
void rig_init(struct rig *rig, const struct rig_case *test, uint32_t dtype);
void rig_finish(struct rig *rig);

/* Random operands, the same for every dtype; n values in [-1, 1) from a stream of their own. */
void rig_fill(struct rig *rig, uint64_t seed);
void rig_random(double *values, uint64_t n, uint64_t seed, uint64_t stream);

/* Rounds all operands to what dtype can hold. */
void rig_round(struct rig *rig, uint32_t dtype);

/* F alone; F, B and W. */
void rig_forward(struct rig *rig);
void rig_run(struct rig *rig);

/* One cmocka test per case, whose *state is the case. */
int rig_main(void (*function)(void **state));

double rig_rounded(double value, uint32_t dtype);
double rig_largest(const double *values, uint64_t n); /* magnitude */

#endif
