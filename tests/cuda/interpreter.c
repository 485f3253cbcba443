/* SPDX-License-Identifier: Apache-2.0 */
#include "interpreter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"

/* Values of the tensors, each laid out as its strides say; NaN where nothing has been put. */
struct run {
    const struct pst_dnn_graph *graph;
    void *memory[PST_DNN_TENSORS];
    double *values[PST_DNN_TENSORS];
    const char *fault;
};

struct element {
    int64_t i[4];
};

/* Goes through the elements of a tensor. */
#define EACH(at, tensor)                                                                           \
    for (struct element at = {{0, 0, 0, 0}}; at.i[0] < (tensor)->dims[0]; step(&at, tensor))

static void step(struct element *at, const struct pst_dnn_tensor *t)
{
    for (uint32_t axis = 3; axis > 0; axis--) {
        if (++at->i[axis] < t->dims[axis]) {
            return;
        }
        at->i[axis] = 0;
    }
    at->i[0]++;
}

static int64_t offset(const struct pst_dnn_tensor *t, const struct element *at)
{
    int64_t sum = 0;

    for (uint32_t axis = 0; axis < 4; axis++) {
        sum += t->dims[axis] == 1 ? 0 : at->i[axis] * t->strides[axis];
    }
    return sum;
}

static int64_t span(const struct pst_dnn_tensor *t)
{
    const struct element last = {{t->dims[0] - 1, t->dims[1] - 1, t->dims[2] - 1, t->dims[3] - 1}};

    return offset(t, &last) + 1;
}

static double rounded(uint32_t type, double value)
{
    return type == PST_DNN_BF16  ? (double)pst_bf16_load(pst_bf16_round((float)value))
           : type == PST_DNN_F32 ? (double)(float)value
                                 : value;
}

static double load(const struct pst_dnn_tensor *t, const void *memory, int64_t i)
{
    return t->type == PST_DNN_BF16 ? (double)pst_bf16_load(((const uint16_t *)memory)[i])
                                   : (double)((const float *)memory)[i];
}

static void store(const struct pst_dnn_tensor *t, void *memory, int64_t i, double value)
{
    if (t->type == PST_DNN_BF16) {
        ((uint16_t *)memory)[i] = pst_bf16_round((float)value);
    } else {
        ((float *)memory)[i] = (float)value;
    }
}

static double value(const struct run *run, uint32_t tensor, const struct element *at)
{
    return tensor == PST_DNN_NONE ? 0
                                  : run->values[tensor][offset(&run->graph->tensors[tensor], at)];
}

static double apply(const struct run *run, const struct pst_dnn_op *op, const struct element *at)
{
    const double x = value(run, op->x, at), b = value(run, op->b, at);

    switch (op->kind) {
    case PST_DNN_MUL:
        return x * b;
    case PST_DNN_ADD:
        return x + b;
    case PST_DNN_SUB:
        return x - b;
    case PST_DNN_DIV:
        return x / b;
    case PST_DNN_EXP:
        return exp(x);
    case PST_DNN_LOG:
        return log(x);
    case PST_DNN_IDENTITY:
        return x;
    case PST_DNN_INDEX:
        return (double)at->i[op->axis];
    case PST_DNN_GE:
        return x >= b;
    case PST_DNN_GT:
        return x > b;
    default: /* PST_DNN_SELECT */
        return value(run, op->t, at) != 0 ? x : b;
    }
}

static void map(struct run *run, const struct pst_dnn_op *op)
{
    const struct pst_dnn_tensor *y = &run->graph->tensors[op->y];

    EACH(at, y)
    {
        run->values[op->y][offset(y, &at)] = apply(run, op, &at);
    }
}

/* The same element of a tensor with as many heads, or fewer that are shared. */
static struct element shared(const struct pst_dnn_tensor *t, const struct pst_dnn_tensor *all,
                             struct element at)
{
    at.i[1] = at.i[1] * t->dims[1] / all->dims[1];
    return at;
}

static void reduce(struct run *run, const struct pst_dnn_op *op)
{
    const struct pst_dnn_tensor *x = &run->graph->tensors[op->x], *y = &run->graph->tensors[op->y];
    const bool max = op->kind == PST_DNN_REDUCE_MAX;

    EACH(at, y)
    {
        run->values[op->y][offset(y, &at)] = max ? -INFINITY : 0;
    }
    EACH(at, x)
    {
        const struct element to = shared(y, x, at);
        double *sum = &run->values[op->y][offset(y, &to)];
        const double v = value(run, op->x, &at);

        *sum = max ? fmax(*sum, v) : *sum + v;
    }
}

static void matmul(struct run *run, const struct pst_dnn_op *op)
{
    const struct pst_dnn_tensor *x = &run->graph->tensors[op->x], *b = &run->graph->tensors[op->b];
    const struct pst_dnn_tensor *y = &run->graph->tensors[op->y];

    if (x->dims[3] != b->dims[2] || x->dims[2] != y->dims[2] || b->dims[3] != y->dims[3]) {
        run->fault = "a product of matrices that do not fit";
        return;
    }
    EACH(at, y)
    {
        struct element in_x = at, in_b = shared(b, y, at);
        double sum = 0;

        for (int64_t k = 0; k < x->dims[3]; k++) {
            in_x.i[3] = in_b.i[2] = k;
            sum += value(run, op->x, &in_x) * value(run, op->b, &in_b);
        }
        run->values[op->y][offset(y, &at)] = sum;
    }
}

/* The same memory, seen otherwise. */
static void reshape(struct run *run, const struct pst_dnn_op *op)
{
    const struct pst_dnn_tensor *x = &run->graph->tensors[op->x], *y = &run->graph->tensors[op->y];

    if (span(x) != span(y)) {
        run->fault = "a view that is not of the same memory";
        return;
    }
    memcpy(run->values[op->y], run->values[op->x], (size_t)span(x) * sizeof(double));
}

/* Every triple of an element of x, of the filter, and of y that belong together. */
static void convolve(struct run *run, const struct pst_dnn_op *op)
{
    const bool by_x = op->kind == PST_DNN_CONV_X, by_filter = op->kind == PST_DNN_CONV_B;
    const uint32_t x = by_x ? op->y : op->x, filter = by_filter ? op->y : op->b;
    const uint32_t y = by_x ? op->x : by_filter ? op->b : op->y;
    const struct pst_dnn_tensor *t = run->graph->tensors;

    EACH(at, &t[op->y])
    {
        run->values[op->y][offset(&t[op->y], &at)] = 0;
    }
    EACH(at_y, &t[y])
    {
        for (int64_t k = 0; k < t[filter].dims[1] * t[filter].dims[2] * t[filter].dims[3]; k++) {
            const int64_t w = k % t[filter].dims[3], h = k / t[filter].dims[3] % t[filter].dims[2];
            const int64_t c = k / t[filter].dims[3] / t[filter].dims[2];
            const struct element at_f = {{at_y.i[1], c, h, w}};
            struct element at_x = {{at_y.i[0], c, 0, 0}};
            uint64_t row, column;
            double *vx, *vf, *vy;

            if (!pst_window_at(&run->graph->window, 0, (uint64_t)at_y.i[2], (uint64_t)h, &row) ||
                !pst_window_at(&run->graph->window, 1, (uint64_t)at_y.i[3], (uint64_t)w, &column)) {
                continue;
            }
            at_x.i[2] = (int64_t)row;
            at_x.i[3] = (int64_t)column;
            vx = &run->values[x][offset(&t[x], &at_x)];
            vf = &run->values[filter][offset(&t[filter], &at_f)];
            vy = &run->values[y][offset(&t[y], &at_y)];
            if (by_x) {
                *vx += *vf * *vy;
            } else if (by_filter) {
                *vf += *vx * *vy;
            } else {
                *vy += *vx * *vf;
            }
        }
    }
}

static void evaluate(struct run *run, const struct pst_dnn_op *op)
{
    const struct pst_dnn_tensor *y = &run->graph->tensors[op->y];

    if (op->kind == PST_DNN_MATMUL) {
        matmul(run, op);
    } else if (op->kind == PST_DNN_REDUCE_MAX || op->kind == PST_DNN_REDUCE_ADD) {
        reduce(run, op);
    } else if (op->kind == PST_DNN_RESHAPE) {
        reshape(run, op);
    } else if (op->kind >= PST_DNN_CONV) {
        convolve(run, op);
    } else {
        map(run, op);
    }
    EACH(at, y)
    {
        double *v = &run->values[op->y][offset(y, &at)];

        *v = rounded(y->type, *v);
        if (y->place == PST_DNN_MEMORY) {
            store(y, run->memory[op->y], offset(y, &at), *v);
        }
    }
}

static bool is_result(const struct pst_dnn_graph *graph, uint32_t tensor)
{
    bool found = false;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        found = found || graph->ops[i].y == tensor;
    }
    return found;
}

static void prepare(struct run *run, uint32_t i)
{
    const struct pst_dnn_tensor *t = &run->graph->tensors[i];
    const int64_t n = span(t);

    run->values[i] = malloc((size_t)n * sizeof(double));
    if (run->values[i] == NULL) {
        run->fault = "out of memory";
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        run->values[i][k] = t->place == PST_DNN_VALUE ? (double)t->value : (double)NAN;
    }
    if (t->place != PST_DNN_MEMORY) {
        return;
    }
    if (run->memory[i] == NULL || (uintptr_t)run->memory[i] % 16 != 0) {
        run->fault = "an operand that is missing or not aligned";
    } else if (!is_result(run->graph, i)) {
        EACH(at, t)
        {
            run->values[i][offset(t, &at)] = load(t, run->memory[i], offset(t, &at));
        }
    }
}

const char *interpret(const struct pst_dnn_graph *graph, void *const operands[PST_DNN_ROLES])
{
    struct run run = {.graph = graph};

    for (uint32_t role = 0; role < PST_DNN_ROLES; role++) {
        if (graph->of_role[role] != PST_DNN_NONE) {
            run.memory[graph->of_role[role]] = operands[role];
        }
    }
    for (uint32_t i = 0; run.fault == NULL && i < graph->n_tensors; i++) {
        prepare(&run, i);
    }
    for (uint32_t i = 0; run.fault == NULL && i < graph->n_ops; i++) {
        evaluate(&run, &graph->ops[i]);
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        free(run.values[i]);
    }
    return run.fault;
}
