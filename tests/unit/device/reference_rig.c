/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_rig.h"

#include <math.h>

#include "base/bf16.h"
#include "base/philox.h"

/* --- operands ---------------------------------------------------- */

static double *doubles(uint64_t n)
{
    double *values = calloc(n == 0 ? 1 : n, sizeof *values);

    assert_non_null(values);
    return values;
}

static uint64_t elems_of(const struct rig *rig, uint32_t tensor)
{
    const struct pst_tensor *t = &rig->graph->tensors[tensor];

    return t->batched ? t->elems * rig->samples : t->elems;
}

void rig_init(struct rig *rig, const struct rig_case *test, uint32_t dtype)
{
    memset(rig, 0, sizeof *rig);
    rig->graph = rig_graph(test, dtype);
    rig->dtype = dtype;
    rig->samples = test->samples;
    rig->flags = test->flags;
    rig->positive = test->positive;
    rig->scale = 1;
    rig->index = rig_index(rig->graph);
    rig->op = &rig->graph->ops[rig->index];
    pst_op_grad_info(rig->graph, rig->index, &rig->grad);
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        rig->n_x[i] = elems_of(rig, rig->op->in[i]);
        rig->x[i] = doubles(rig->n_x[i]);
        rig->dx[i] = doubles(rig->n_x[i]);
    }
    for (uint32_t i = 0; i < rig->op->n_param; i++) {
        if (rig->op->param[i] != PST_NONE) {
            rig->n_p[i] = rig->graph->params[rig->op->param[i]].elems;
            rig->p[i] = doubles(rig->n_p[i]);
            rig->dp[i] = doubles(rig->n_p[i]);
        }
    }
    for (uint32_t i = 0; i < rig->op->n_out; i++) {
        rig->n_y[i] = elems_of(rig, rig->op->out[i]);
        rig->y[i] = doubles(rig->n_y[i]);
    }
    rig->dy = doubles(rig->n_y[0]);
    rig->n_state = rig->op->n_state == 0 ? 0 : rig->op->state_elems[0];
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        rig->state[i] = doubles(rig->n_state);
    }
}

void rig_finish(struct rig *rig)
{
    for (uint32_t i = 0; i < RIG_INPUTS; i++) {
        free(rig->x[i]);
        free(rig->dx[i]);
        free(rig->add[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        free(rig->p[i]);
        free(rig->dp[i]);
        free(rig->state[i]);
    }
    for (uint32_t i = 0; i < RIG_OUTPUTS; i++) {
        free(rig->y[i]);
    }
    free(rig->dy);
    pst_graph_destroy(rig->graph);
}

void rig_random(double *values, uint64_t n, uint64_t seed, uint64_t stream)
{
    for (uint64_t i = 0; i < n; i++) {
        values[i] = 2 * (double)pst_uniform(pst_philox(seed, stream, i).v[0]) - 1;
    }
}

/* Tokens of the table; places; truths; classes, of which some are -1. */
static void random_integers(struct rig *rig, uint32_t input, uint64_t seed)
{
    const struct pst_tensor *x = &rig->graph->tensors[rig->op->in[0]];
    const bool classes = rig->op->kind == PST_OP_CROSS_ENTROPY;
    uint64_t n;

    switch (rig->op->kind) {
    case PST_OP_EMBEDDING:
        n = rig->graph->params[rig->op->param[0]].dims[0];
        break;
    case PST_OP_GATHER:
        n = x->dims[x->rank - 1 - rig->op->axis];
        break;
    case PST_OP_CROSS_ENTROPY:
        n = x->dims[x->rank - 1] + 1;
        break;
    default:
        n = 2;
        break;
    }
    for (uint64_t i = 0; i < rig->n_x[input]; i++) {
        rig->x[input][i] = (double)(pst_philox(seed, 100 + input, i).v[0] % n);
        rig->x[input][i] -= classes ? 1 : 0;
    }
}

void rig_fill(struct rig *rig, uint64_t seed)
{
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        if (rig->graph->tensors[rig->op->in[i]].dtype == PST_I32) {
            random_integers(rig, i, seed);
        } else {
            rig_random(rig->x[i], rig->n_x[i], seed, i);
        }
        for (uint64_t e = 0; rig->positive && e < rig->n_x[i]; e++) {
            rig->x[i][e] = fabs(rig->x[i][e]) + 0.5;
        }
    }
    for (uint32_t i = 0; i < RIG_PARAMS; i++) {
        rig_random(rig->p[i], rig->n_p[i], seed, 10 + i);
    }
    rig_random(rig->dy, rig->n_y[0], seed, 20);
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        rig_random(rig->state[i], rig->n_state, seed, 30 + i);
        for (uint64_t e = 0; i == 1 && e < rig->n_state; e++) {
            rig->state[i][e] += 1.5; /* a variance */
        }
    }
    rig->seed = seed;
}

double rig_rounded(double value, uint32_t dtype)
{
    switch (dtype) {
    case PST_F32:
        return (double)(float)value;
    case PST_BF16:
        return (double)pst_bf16_load(pst_bf16_round((float)value));
    default:
        return value;
    }
}

static void round_all(double *values, uint64_t n, uint32_t dtype)
{
    for (uint64_t i = 0; values != NULL && i < n; i++) {
        values[i] = rig_rounded(values[i], dtype);
    }
}

void rig_round(struct rig *rig, uint32_t dtype)
{
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        round_all(rig->x[i], rig->n_x[i], dtype);
        round_all(rig->add[i], rig->n_x[i], dtype);
    }
    for (uint32_t i = 0; i < RIG_PARAMS; i++) {
        round_all(rig->p[i], rig->n_p[i], dtype); /* f32 holds that, too */
    }
    for (uint32_t i = 0; i < 2; i++) {
        round_all(rig->state[i], rig->n_state, PST_F32);
    }
    round_all(rig->dy, rig->n_y[0], dtype);
}

double rig_largest(const double *values, uint64_t n)
{
    double largest = 0;

    for (uint64_t i = 0; i < n; i++) {
        largest = fabs(values[i]) > largest || isnan(values[i]) ? fabs(values[i]) : largest;
    }
    return largest;
}

int rig_main(void (*function)(void **state))
{
    struct CMUnitTest tests[512];
    uint32_t n = 0;

    while (rig_cases[n].name != NULL) {
        const struct CMUnitTest test = {rig_cases[n].name, function, NULL, NULL,
                                        (void *)(uintptr_t)&rig_cases[n]};

        assert_true(n < sizeof tests / sizeof tests[0]);
        tests[n++] = test;
    }
    return _cmocka_run_group_tests("reference", tests, n, NULL, NULL);
}
