/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a part against the whole one: an interpreter runs all parts in lockstep, one
 * operator after the other, with reference kernels in double. It makes the conversions by what
 * split.h says of them. Losses and gradients must be those of the whole graph but for the rounding
 * of sums that are cut in another way.
 */
#ifndef PST_REFERENCE_MACHINE_H
#define PST_REFERENCE_MACHINE_H

#include "../graph/model_support.h"

#include <math.h>

#include "base/memory.h"
#include "device/cpu/reference/reference.h"
#include "exec/device.h"
#include "graph/draft.h"
#include "graph/split.h"
#include "prove/internal.h"
#include "random.h"

enum { SAMPLES = 2, MOST_PARTS = 8, MOST_TEAMS = 4 };

/* Tensors, gradients and weights of one part. */
struct part {
    void **values, **gradients; /* [tensor] */
    double **weights, **sums;   /* [parameter] */
    double **partial;           /* [parameter] of uses whose parts' gradients are to be added */
    void **z;                   /* [operator * PST_MAX_SCRATCH] */
};

/* The parts that share operators of one degree. */
struct team {
    uint32_t n;
    struct part parts[MOST_PARTS];
};

struct machine {
    struct pst_graph *graph;
    uint32_t n_teams;
    struct team teams[MOST_TEAMS];
    struct pst_arena arena;
};

static struct team *team_of(struct machine *m, uint32_t v)
{
    uint32_t i = 0;

    while (i < m->n_teams && m->teams[i].n != pst_graph_parts(m->graph, v)) {
        i++;
    }
    if (i == m->n_teams) {
        assert_true(i < MOST_TEAMS && pst_graph_parts(m->graph, v) <= MOST_PARTS);
        m->teams[m->n_teams++].n = pst_graph_parts(m->graph, v);
    }
    return &m->teams[i];
}

/* Part k of some reads from this part, and has its gradients from it, where others made a tensor.
 */
static struct part *part_of(struct team *from, uint32_t k, const struct team *some)
{
    return &from->parts[k * from->n / some->n];
}

/* --- values ------------------------------------------------------------------------------------*/

static uint64_t elems_of(const struct pst_tensor *tensor)
{
    return tensor->elems * (tensor->batched ? SAMPLES : 1);
}

static void *room(struct machine *m, uint64_t bytes)
{
    return pst_arena_alloc(&m->arena, bytes + 1, 0);
}

/* The value of an element depends on its parameter and place in the whole. */
static double element(uint32_t parameter, uint64_t i)
{
    uint64_t seed = parameter * 1000003ull + i * 7919ull + 1;

    next_random(&seed);
    return ((double)(next_random(&seed) % 2000) - 1000) * 1e-3 * 0.3;
}

struct filling {
    uint32_t parameter;
    double *own;
};

static void fill_run(void *context, uint64_t whole, uint64_t own, uint64_t n)
{
    const struct filling *filling = context;

    for (uint64_t i = 0; i < n; i++) {
        filling->own[own + i] = element(filling->parameter, whole + i);
    }
}

/* Numbers of rows of a table, or of classes, of which some targets have none. */
static uint64_t range_of(const struct pst_graph *graph, uint32_t input, uint64_t *ret_ignored)
{
    const struct pst_graph *model = pst_graph_model(graph);
    const struct pst_tensor *tensor = &model->tensors[input];
    uint64_t range = 2;

    *ret_ignored = 0;
    for (uint32_t u = 0; u < tensor->n_consumers; u++) {
        const struct pst_op *op = &model->ops[tensor->consumers[u]];

        if (op->kind == PST_OP_EMBEDDING) {
            range = model->params[op->param[0]].dims[0];
        } else if (op->kind == PST_OP_CROSS_ENTROPY && op->in[1] == input) {
            const struct pst_tensor *logits = &model->tensors[op->in[0]];

            *ret_ignored = 1;
            range = logits->dims[logits->rank - 1];
        }
    }
    return range;
}

static void fill_input(const struct pst_graph *graph, uint32_t i, void *values)
{
    const struct pst_tensor *tensor = &graph->tensors[i];
    uint64_t seed = i + 1, ignored;
    const uint64_t range = range_of(graph, i, &ignored);

    for (uint64_t e = 0; e < elems_of(tensor); e++) {
        const uint64_t drawn = next_random(&seed);

        if (tensor->dtype == PST_I32) {
            ((int32_t *)values)[e] = (int32_t)(drawn % (range + ignored)) - (int32_t)ignored;
        } else {
            ((double *)values)[e] = ((double)(drawn % 2000) - 1000) * 1e-3;
        }
    }
}

/* Where another team made a tensor, what one of its parts has. */
static void set_tensors(struct machine *m, struct team *team, struct part *part)
{
    const struct pst_graph *graph = m->graph;

    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        struct team *maker = t < graph->n_inputs ? team : team_of(m, graph->tensors[t].producer);

        if (maker != team) {
            continue;
        }
        part->values[t] = room(m, elems_of(&graph->tensors[t]) * sizeof(double));
        if (t < graph->n_inputs) {
            fill_input(graph, t, part->values[t]);
        }
    }
}

static void set_weights(struct machine *m, struct team *team, struct part *part)
{
    const struct pst_graph *graph = m->graph;

    for (uint32_t p = 0; p < graph->n_params; p++) {
        struct filling filling = {p, NULL};

        if (team_of(m, graph->params[p].users[0]) != team) {
            continue;
        }
        filling.own = part->weights[p] = room(m, graph->params[p].elems * sizeof *part->weights[p]);
        part->sums[p] = room(m, graph->params[p].elems * sizeof *part->sums[p]);
        part->partial[p] = room(m, graph->params[p].elems * sizeof *part->sums[p]);
        for (uint64_t i = 0; i < graph->params[p].elems; i++) {
            filling.own[i] = 7; /* padding, which nothing may come of */
        }
        pst_box_runs(&graph->params[p], (uint32_t)(part - team->parts), fill_run, &filling);
    }
}

/* What others made is read where they have it. */
static void lend_tensors(struct machine *m, struct team *team)
{
    for (uint32_t t = m->graph->n_inputs; t < m->graph->n_tensors; t++) {
        struct team *maker = team_of(m, m->graph->tensors[t].producer);

        for (uint32_t k = 0; k < team->n && maker != team; k++) {
            team->parts[k].values[t] = part_of(maker, k, team)->values[t];
        }
    }
}

static void set_up(struct machine *m, struct pst_graph *graph)
{
    *m = (struct machine){.graph = graph};
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        team_of(m, v);
    }
    for (uint32_t i = 0; i < m->n_teams; i++) {
        struct team *team = &m->teams[i];

        for (uint32_t k = 0; k < team->n; k++) {
            struct part *part = &team->parts[k];

            part->values = room(m, graph->n_tensors * sizeof *part->values);
            part->gradients = room(m, graph->n_tensors * sizeof *part->gradients);
            part->weights = room(m, graph->n_params * sizeof *part->weights);
            part->sums = room(m, graph->n_params * sizeof *part->sums);
            part->partial = room(m, graph->n_params * sizeof *part->partial);
            part->z = room(m, graph->n_ops * PST_MAX_SCRATCH * sizeof *part->z);
            set_tensors(m, team, part);
            set_weights(m, team, part);
        }
    }
    for (uint32_t i = 0; i < m->n_teams; i++) {
        lend_tensors(m, &m->teams[i]);
    }
}

static void add_to(double *sum, const double *term, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        sum[i] += term[i];
    }
}

/* --- kernels -----------------------------------------------------------------------------------*/

static void pick(const struct pst_op *op, void *const *all, const uint32_t *which, uint32_t n,
                 uint64_t mask, void **ret_some)
{
    (void)op;
    for (uint32_t i = 0; i < n; i++) {
        ret_some[i] = (mask >> i & 1) != 0 && which[i] != PST_NONE ? all[which[i]] : NULL;
    }
}

static void run_kernel(struct machine *m, struct part *part, uint32_t v, uint32_t pass, void **dx,
                       double **dp)
{
    const struct pst_op *op = &m->graph->ops[v];
    void *x[PST_MAX_IN], *p[PST_MAX_PARAM], *y[PST_MAX_OUT], *none[PST_MAX_IN] = {NULL};
    struct pst_op_grad grad;
    struct pst_call call = {.x = x,
                            .p = p,
                            .y = y,
                            .add = none,
                            .z = &part->z[(size_t)v * PST_MAX_SCRATCH],
                            .scale = 1.0f / SAMPLES,
                            .seed = 5,
                            .flags = PST_CALL_TRAINING,
                            .part = (uint32_t)(part - team_of(m, v)->parts)};
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    pst_op_grad_info(m->graph, v, &grad);
    pick(op, part->values, op->in, op->n_in,
         pass == 0   ? UINT64_MAX
         : pass == 1 ? grad.b_reads_x
                     : grad.w_reads_x,
         x);
    pick(op, (void *const *)part->weights, op->param, op->n_param,
         pass == 0   ? UINT64_MAX
         : pass == 1 ? grad.b_reads_p
                     : grad.w_reads_p,
         p);
    pick(op, part->values, op->out, op->n_out,
         pass == 0   ? UINT64_MAX
         : pass == 1 ? grad.b_reads_y
                     : grad.w_reads_y,
         y);
    call.dy = pass > 0 && !pst_op_is_loss(op->kind) ? part->gradients[op->out[0]] : NULL;
    call.dx = dx;
    call.dp = (float *const *)(void *)dp;
    assert_ok(pst_reference_kernel(m->graph, v, pass, SAMPLES, &kernel, &err), &err);
    call.workspace = room(m, kernel->workspace_bytes);
    kernel->run(kernel, &call);
    kernel->destroy(kernel);
}

/* --- conversions -------------------------------------------------------------------------------*/

/* n: elements of a sample of the larger of both. */
static void convert(const struct team *team, enum pst_convert_work work, double *const *from,
                    double *const *to, uint64_t n)
{
    const uint64_t own = n / team->n;

    for (uint32_t k = 0; k < team->n; k++) {
        for (uint64_t s = 0; s < SAMPLES; s++) {
            if (work == PST_WORK_COPY) {
                memcpy(&to[k][s * n], &from[k][s * n], n * sizeof **to);
            } else if (work == PST_WORK_CUT) {
                memcpy(&to[k][s * own], &from[k][s * n + k * own], own * sizeof **to);
            }
            for (uint32_t other = 0; other < team->n && work == PST_WORK_GATHER; other++) {
                memcpy(&to[k][s * n + other * own], &from[other][s * own], own * sizeof **to);
            }
        }
        for (uint32_t i = 0; i < team->n * SAMPLES && work == PST_WORK_EXCHANGE; i++) {
            memcpy(&to[k][i * own], &from[i % team->n][(i - i % team->n + k) * own],
                   own * sizeof **to);
        }
        for (uint32_t other = 0; other < team->n && work == PST_WORK_SUM; other++) {
            add_to(to[k], from[other], n * SAMPLES);
        }
        for (uint32_t i = 0; i < team->n * SAMPLES && work == PST_WORK_SCATTER; i++) {
            add_to(&to[k][i / team->n * own], &from[i % team->n][i / team->n * n + k * own], own);
        }
    }
}

static void run_convert(struct machine *m, uint32_t v, uint32_t pass, double **contributions)
{
    const struct pst_op *op = &m->graph->ops[v];
    struct team *team = team_of(m, v);
    const struct pst_tensor *x = &m->graph->tensors[op->in[0]], *y = &m->graph->tensors[op->out[0]];
    double *from[MOST_PARTS], *to[MOST_PARTS];

    for (uint32_t k = 0; k < team->n; k++) {
        from[k] =
            pass == 0 ? team->parts[k].values[op->in[0]] : team->parts[k].gradients[op->out[0]];
        to[k] = pass == 0 ? team->parts[k].values[op->out[0]]
                          : (contributions[k] = room(m, elems_of(x) * sizeof(double)));
    }
    convert(team, pst_convert_work(op, pass), from, to, x->elems > y->elems ? x->elems : y->elems);
}

/* --- passes ------------------------------------------------------------------------------------*/

static void contribute(struct machine *m, struct part *part, uint32_t tensor, const void *term)
{
    const uint64_t n = elems_of(&m->graph->tensors[tensor]);

    if (part->gradients[tensor] == NULL) {
        part->gradients[tensor] = room(m, n * sizeof(double));
    }
    add_to(part->gradients[tensor], term, n);
}

static void forward(struct machine *m)
{
    for (uint32_t v = 0; v < m->graph->n_ops; v++) {
        const struct pst_op *op = &m->graph->ops[v];
        struct team *team = team_of(m, v);

        if (op->kind == PST_OP_CONVERT) {
            run_convert(m, v, 0, NULL);
            continue;
        }
        for (uint32_t k = 0; k < team->n; k++) {
            run_kernel(m, &team->parts[k], v, 0, NULL, NULL);
        }
    }
}

static void backward_part(struct machine *m, struct part *part, uint32_t v,
                          const struct pst_op_grad *grad)
{
    const struct pst_op *op = &m->graph->ops[v];
    void *dx[PST_MAX_IN] = {NULL};
    double *dp[PST_MAX_PARAM] = {NULL};

    for (uint32_t i = 0; i < op->n_in; i++) {
        if (grad->b_dx >> i & 1) {
            dx[i] = room(m, elems_of(&m->graph->tensors[op->in[i]]) * sizeof(double));
        }
    }
    for (uint32_t i = 0; i < grad->n_z; i++) {
        part->z[(size_t)v * PST_MAX_SCRATCH + i] =
            room(m, grad->z_elems[i] * (grad->z_batched[i] ? SAMPLES : 1) * sizeof(double));
    }
    if (grad->has_b) {
        run_kernel(m, part, v, 1, dx, NULL);
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if ((grad->b_dx | grad->b_alias) >> i & 1) {
            contribute(m, part, op->in[i],
                       grad->b_dx >> i & 1 ? dx[i] : part->gradients[op->out[0]]);
        }
    }
    for (uint32_t i = 0; grad->has_w && i < op->n_param; i++) {
        dp[i] = op->param[i] != PST_NONE
                    ? room(m, m->graph->params[op->param[i]].elems * sizeof(double))
                    : NULL;
    }
    if (grad->has_w) {
        run_kernel(m, part, v, 2, NULL, dp);
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (dp[i] != NULL) {
            add_to((op->partial >> i & 1 ? part->partial : part->sums)[op->param[i]], dp[i],
                   m->graph->params[op->param[i]].elems);
        }
    }
}

/* Each part has the gradients that teams of other degrees made from one of their parts. */
static void bring_gradients(struct machine *m, uint32_t v)
{
    struct team *team = team_of(m, v);
    const uint32_t tensor = m->graph->ops[v].out[0];

    for (uint32_t i = 0; i < m->n_teams; i++) {
        struct team *other = &m->teams[i];

        for (uint32_t k = 0; k < team->n && other != team; k++) {
            const void *gradient = part_of(other, k, team)->gradients[tensor];

            if (gradient != NULL) {
                contribute(m, &team->parts[k], tensor, gradient);
            }
        }
    }
}

static void backward(struct machine *m)
{
    for (uint32_t v = m->graph->n_ops; v-- > 0;) {
        const struct pst_op *op = &m->graph->ops[v];
        struct team *team = team_of(m, v);
        double *contributions[MOST_PARTS];
        struct pst_op_grad grad;

        bring_gradients(m, v);
        pst_op_grad_info(m->graph, v, &grad);
        if (op->kind == PST_OP_CONVERT && grad.has_b) {
            run_convert(m, v, 1, contributions);
        }
        for (uint32_t k = 0; k < team->n; k++) {
            if (op->kind == PST_OP_CONVERT && grad.has_b) {
                contribute(m, &team->parts[k], op->in[0], contributions[k]);
            } else {
                backward_part(m, &team->parts[k], v, &grad);
            }
        }
    }
}

static void add_partial(struct machine *m)
{
    for (uint32_t p = 0; p < m->graph->n_params; p++) {
        struct team *team = team_of(m, m->graph->params[p].users[0]);

        for (uint32_t k = 0; k < team->n; k++) {
            for (uint32_t other = 0; other < team->n; other++) {
                add_to(team->parts[k].sums[p], team->parts[other].partial[p],
                       m->graph->params[p].elems);
            }
        }
    }
}

/* --- against the whole -------------------------------------------------------------------------*/

static double largest(const double *values, uint64_t n)
{
    double most = 0;

    for (uint64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(values[i]));
    }
    return most;
}

struct comparison {
    const double *whole, *own;
    double most, sum;
    uint64_t n;
};

static void compare_run(void *context, uint64_t whole, uint64_t own, uint64_t n)
{
    struct comparison *c = context;

    for (uint64_t i = 0; i < n; i++) {
        c->most = fmax(c->most, fabs(c->whole[whole + i] - c->own[own + i]));
        c->sum += fabs(c->own[own + i]);
    }
    c->n += n;
}

/* The other elements are padding; their gradients are 0. */
static void check_padding(const struct comparison *c, const struct pst_parameter *parameter)
{
    double sum = 0;

    assert_true(c->n == parameter->elems || parameter->box.padding > 0);
    for (uint64_t i = 0; i < parameter->elems; i++) {
        sum += fabs(c->own[i]);
    }
    if (sum != c->sum) {
        fail_msg("%s has a gradient in its padding", parameter->name);
    }
}

/* Each part has all logits, or columns of them. */
static void compare_logits(struct machine *whole, struct machine *split, uint32_t k)
{
    const struct pst_tensor *all = &whole->graph->tensors[whole->graph->logits];
    const struct pst_tensor *own = &split->graph->tensors[split->graph->logits];
    const uint64_t columns = all->dims[all->rank - 1], n = own->dims[own->rank - 1];
    const uint64_t first = n < columns ? k * n : 0;
    const struct team *team = team_of(split, own->producer);
    const double *a = whole->teams[0].parts[0].values[whole->graph->logits];
    const double *b = team->parts[k].values[split->graph->logits];

    assert_true(n * team->n >= columns);
    for (uint64_t row = 0; row < SAMPLES * all->elems / columns; row++) {
        for (uint64_t c = 0; c < n && first + c < columns; c++) {
            const double expected = a[row * columns + first + c];

            if (!(fabs(b[row * n + c] - expected) <= 1e-12 * fmax(fabs(expected), 1))) {
                fail_msg("part %u: logit %u is %.17g, not %.17g", k, (unsigned)c, b[row * n + c],
                         expected);
            }
        }
    }
}

static void compare_losses(struct machine *whole, struct machine *split, const char *name)
{
    const struct pst_graph *graph = split->graph;
    const struct team *team = team_of(split, graph->tensors[graph->loss].producer);
    const double *a = whole->teams[0].parts[0].values[whole->graph->loss];

    for (uint32_t k = 0; k < team->n; k++) {
        const double *b = team->parts[k].values[graph->loss];

        for (uint32_t i = 0; i < SAMPLES; i++) {
            if (!(fabs(a[i] - b[i]) <= 1e-12 * fabs(a[i]))) {
                fail_msg("%s, %u parts: loss %.17g, not %.17g", name, team->n, b[i], a[i]);
            }
        }
    }
}

static void compare_gradients(struct machine *whole, struct machine *split, uint32_t p,
                              const char *name)
{
    const struct pst_parameter *parameter = &split->graph->params[p];
    const struct team *team = team_of(split, parameter->users[0]);

    for (uint32_t k = 0; k < team->n; k++) {
        struct comparison c = {whole->teams[0].parts[0].sums[p], team->parts[k].sums[p], 0, 0, 0};
        const double scale = largest(c.whole, whole->graph->params[p].elems);

        pst_box_runs(parameter, k, compare_run, &c);
        check_padding(&c, parameter);
        if (!(c.most <= 1e-12 * fmax(scale, 1e-3))) {
            fail_msg("%s, part %u of %u: gradient of %s differs by %g of %g", name, k, team->n,
                     parameter->name, c.most, scale);
        }
    }
}

static void compare(struct machine *whole, struct machine *split, const char *name)
{
    const struct team *last = team_of(split, split->graph->tensors[split->graph->logits].producer);

    for (uint32_t k = 0; k < last->n; k++) {
        compare_logits(whole, split, k);
    }
    compare_losses(whole, split, name);
    for (uint32_t p = 0; p < whole->graph->n_params; p++) {
        compare_gradients(whole, split, p, name);
    }
}

/* The proof derives the same layouts by its own table. */
static void prove(const struct pst_graph *graph, const char *name)
{
    static struct pst_check_report report;
    struct pst_check check = {.graph = graph, .report = &report};

    memset(&report, 0, sizeof report);
    pst_check_layouts(&check);
    pst_arena_finish(&check.arena);
    if (report.n_violations > 0) {
        fail_msg("%s: %s: %s", name, report.violations[0].rule, report.violations[0].text);
    }
}

/* Takes both graphs. Returns the number of conversions. */
static uint32_t compare_graphs(struct pst_graph *whole, struct pst_graph *graph, const char *name)
{
    struct machine one, several;
    uint32_t n = 0;

    for (uint32_t v = 0; v < graph->n_ops; v++) {
        n += graph->ops[v].kind == PST_OP_CONVERT;
    }
    prove(graph, name);
    set_up(&one, whole);
    set_up(&several, graph);
    forward(&one);
    backward(&one);
    forward(&several);
    backward(&several);
    add_partial(&several);
    compare(&one, &several, name);
    pst_arena_finish(&one.arena);
    pst_arena_finish(&several.arena);
    pst_graph_destroy(whole);
    pst_graph_destroy(graph);
    return n;
}

#endif
