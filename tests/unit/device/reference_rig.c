/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "exec/bf16.h"

/* --- the graph --------------------------------------------------- */

static bool is_integer(const struct rig_case *test, uint32_t input)
{
    return test->op.kind == PST_OP_EMBEDDING ||
           (test->op.kind == PST_OP_CROSS_ENTROPY && input == 1);
}

/* Data as they are, or behind a layer norm so that the input needs a gradient. */
static uint32_t add_input(struct pst_graph_builder *builder, const struct rig_case *test,
                          uint32_t i, uint32_t dtype)
{
    const struct rig_shape *shape = &test->in[i];
    uint32_t in, param[2];
    char name[3][32];
    struct pst_op norm = {.kind = PST_OP_LAYERNORM, .n_in = 1, .n_param = 2, .eps = 1e-5f};

    snprintf(name[0], sizeof name[0], "x%u", i);
    snprintf(name[1], sizeof name[1], "gain%u", i);
    snprintf(name[2], sizeof name[2], "bias%u", i);
    if (is_integer(test, i) || (test->op.kind == PST_OP_MSE && i == 1)) {
        return pst_graph_input(builder, name[0], PST_FIELD_X,
                               is_integer(test, i) ? (uint32_t)PST_I32 : dtype, shape->rank,
                               shape->dims);
    }
    in = pst_graph_input(builder, name[0], PST_FIELD_X, dtype, shape->rank, shape->dims);
    param[0] =
        pst_graph_param(builder, name[1], 1, &shape->dims[shape->rank - 1], PST_INIT_ONE, 0, false);
    param[1] = pst_graph_param(builder, name[2], 1, &shape->dims[shape->rank - 1], PST_INIT_ZERO, 0,
                               false);
    name[0][0] = 'n';
    norm.name = name[0];
    norm.in = &in;
    norm.param = param;
    return pst_graph_add(builder, &norm);
}

static uint32_t add_op(struct pst_graph_builder *builder, const struct rig_case *test,
                       uint32_t dtype)
{
    uint32_t in[RIG_INPUTS], param[RIG_PARAMS], i;
    struct pst_op op = test->op;
    char name[32];

    for (i = 0; i < test->n_in; i++) {
        in[i] = add_input(builder, test, i, dtype);
    }
    for (i = 0; i < test->n_param; i++) {
        snprintf(name, sizeof name, "p%u", i);
        param[i] = pst_graph_param(builder, name, test->param[i].rank, test->param[i].dims,
                                   PST_INIT_ZERO, 0, false);
    }
    op.name = "op";
    op.in = in;
    op.n_in = test->n_in;
    op.param = param;
    op.n_param = test->n_param;
    return pst_graph_add(builder, &op);
}

/* The mean over all axes but the last, and cross-entropy on that: any result becomes a loss. */
static uint32_t add_loss(struct pst_graph_builder *builder, const struct rig_case *test, uint32_t y)
{
    const uint32_t rank = test->op.bag != PST_BAG_NONE        ? 1
                          : test->op.kind == PST_OP_EMBEDDING ? 2
                          : test->op.kind == PST_OP_AVGPOOL   ? 1
                                                              : test->in[0].rank;
    struct pst_op pool = {.kind = PST_OP_AVGPOOL, .name = "pool", .n_in = 1, .in = &y};
    uint32_t in[2];
    struct pst_op loss = {.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in};

    if (pst_op_is_loss(test->op.kind)) {
        return y;
    }
    in[0] = rank < 2 ? y : pst_graph_add(builder, &pool);
    in[1] = pst_graph_input(builder, "target", PST_FIELD_TARGET, PST_I32, 0, NULL);
    return pst_graph_add(builder, &loss);
}

static struct pst_graph *build(const struct rig_case *test, uint32_t dtype)
{
    struct pst_graph_builder *builder = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t y, loss;

    if (pst_graph_builder_create("rig", dtype, &builder, &err) != PST_OK) {
        fail_msg("%s: %s", test->name, err.message);
    }
    y = add_op(builder, test, dtype);
    loss = add_loss(builder, test, y);
    if (pst_graph_finish(builder, loss, y, &graph, &err) != PST_OK) {
        fail_msg("%s: %s", test->name, err.message);
    }
    pst_graph_builder_destroy(builder);
    return graph;
}

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

static void find_op(struct rig *rig)
{
    while (strcmp(rig->graph->ops[rig->index].name, "op") != 0) {
        rig->index++;
        assert_true(rig->index < rig->graph->n_ops);
    }
    rig->op = &rig->graph->ops[rig->index];
    pst_op_grad_info(rig->graph, rig->index, &rig->grad);
}

void rig_init(struct rig *rig, const struct rig_case *test, uint32_t dtype)
{
    uint32_t i;

    memset(rig, 0, sizeof *rig);
    rig->graph = build(test, dtype);
    rig->dtype = dtype;
    rig->samples = test->samples;
    rig->flags = test->flags;
    rig->scale = 1;
    find_op(rig);
    for (i = 0; i < rig->op->n_in; i++) {
        rig->n_x[i] = elems_of(rig, rig->op->in[i]);
        rig->x[i] = doubles(rig->n_x[i]);
        rig->dx[i] = doubles(rig->n_x[i]);
    }
    for (i = 0; i < rig->op->n_param; i++) {
        if (rig->op->param[i] != PST_NONE) {
            rig->n_p[i] = rig->graph->params[rig->op->param[i]].elems;
            rig->p[i] = doubles(rig->n_p[i]);
            rig->dp[i] = doubles(rig->n_p[i]);
        }
    }
    for (i = 0; i < rig->op->n_out; i++) {
        rig->n_y[i] = elems_of(rig, rig->op->out[i]);
        rig->y[i] = doubles(rig->n_y[i]);
    }
    rig->dy = doubles(rig->n_y[0]);
    rig->n_state = rig->op->n_state == 0 ? 0 : rig->op->state_elems[0];
    for (i = 0; i < rig->op->n_state; i++) {
        rig->state[i] = doubles(rig->n_state);
    }
}

void rig_finish(struct rig *rig)
{
    uint32_t i;

    for (i = 0; i < RIG_INPUTS; i++) {
        free(rig->x[i]);
        free(rig->dx[i]);
        free(rig->add[i]);
    }
    for (i = 0; i < 2; i++) {
        free(rig->p[i]);
        free(rig->dp[i]);
        free(rig->state[i]);
    }
    for (i = 0; i < RIG_OUTPUTS; i++) {
        free(rig->y[i]);
    }
    free(rig->dy);
    pst_graph_destroy(rig->graph);
}

void rig_random(double *values, uint64_t n, uint64_t seed, uint64_t stream)
{
    uint64_t i;

    for (i = 0; i < n; i++) {
        values[i] = 2 * (double)pst_uniform(pst_philox(seed, stream, i).v[0]) - 1;
    }
}

/* Tokens of the table; classes, of which some are -1. */
static void random_integers(struct rig *rig, uint32_t input, uint64_t seed)
{
    const struct pst_tensor *logits = &rig->graph->tensors[rig->op->in[0]];
    uint64_t n, i;

    if (rig->op->kind == PST_OP_EMBEDDING) {
        n = rig->graph->params[rig->op->param[0]].dims[0];
    } else {
        n = logits->dims[logits->rank - 1] + 1;
    }
    for (i = 0; i < rig->n_x[input]; i++) {
        rig->x[input][i] = (double)(pst_philox(seed, 100 + input, i).v[0] % n);
        rig->x[input][i] -= rig->op->kind == PST_OP_EMBEDDING ? 0 : 1;
    }
}

void rig_fill(struct rig *rig, uint64_t seed)
{
    uint64_t e;
    uint32_t i;

    for (i = 0; i < rig->op->n_in; i++) {
        if (rig->graph->tensors[rig->op->in[i]].dtype == PST_I32) {
            random_integers(rig, i, seed);
        } else {
            rig_random(rig->x[i], rig->n_x[i], seed, i);
        }
    }
    for (i = 0; i < RIG_PARAMS; i++) {
        rig_random(rig->p[i], rig->n_p[i], seed, 10 + i);
    }
    rig_random(rig->dy, rig->n_y[0], seed, 20);
    for (i = 0; i < rig->op->n_state; i++) {
        rig_random(rig->state[i], rig->n_state, seed, 30 + i);
        for (e = 0; i == 1 && e < rig->n_state; e++) {
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
    uint64_t i;

    for (i = 0; values != NULL && i < n; i++) {
        values[i] = rig_rounded(values[i], dtype);
    }
}

void rig_round(struct rig *rig, uint32_t dtype)
{
    uint32_t i;

    for (i = 0; i < rig->op->n_in; i++) {
        round_all(rig->x[i], rig->n_x[i], dtype);
        round_all(rig->add[i], rig->n_x[i], dtype);
    }
    for (i = 0; i < RIG_PARAMS; i++) {
        round_all(rig->p[i], rig->n_p[i], dtype); /* f32 holds that, too */
    }
    for (i = 0; i < 2; i++) {
        round_all(rig->state[i], rig->n_state, PST_F32);
    }
    round_all(rig->dy, rig->n_y[0], dtype);
}

double rig_largest(const double *values, uint64_t n)
{
    double largest = 0;
    uint64_t i;

    for (i = 0; i < n; i++) {
        largest = fabs(values[i]) > largest || isnan(values[i]) ? fabs(values[i]) : largest;
    }
    return largest;
}

int rig_main(void (*function)(void **state))
{
    struct CMUnitTest tests[64];
    uint32_t n = 0;

    while (rig_cases[n].name != NULL) {
        const struct CMUnitTest test = {rig_cases[n].name, function, NULL, NULL,
                                        (void *)(uintptr_t)&rig_cases[n]};

        assert_true(n < sizeof tests / sizeof tests[0]);
        tests[n++] = test;
    }
    return _cmocka_run_group_tests("reference", tests, n, NULL, NULL);
}
