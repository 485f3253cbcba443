/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a part against the whole one: an interpreter runs all parts in lockstep, one
 * operator after the other, with reference kernels in double. It makes the conversions by what
 * split.h says of them. Losses and gradients must be those of the whole graph but for the rounding
 * of sums that are cut in another way.
 */
#include "../graph/model_support.h"

#include <math.h>

#include "base/memory.h"
#include "base/text.h"
#include "device/cpu/reference/reference.h"
#include "exec/device.h"
#include "graph/draft.h"
#include "graph/split.h"
#include "prove/internal.h"
#include "random.h"
#include "random_parts.h"

enum { SAMPLES = 2, MOST_PARTS = 8 };

/* Tensors, gradients and weights of one part. */
struct part {
    void **values, **gradients; /* [tensor] */
    double **weights, **sums;   /* [parameter] */
    double **partial;           /* [parameter] of uses whose parts' gradients are to be added */
    void **z;                   /* [operator * PST_MAX_SCRATCH] */
};

struct machine {
    struct pst_graph *graph;
    uint32_t n;
    struct part parts[MOST_PARTS];
    struct pst_arena arena;
};

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

static void set_up(struct machine *m, struct pst_graph *graph)
{
    *m = (struct machine){.graph = graph, .n = graph->parts};
    for (uint32_t k = 0; k < m->n; k++) {
        struct part *part = &m->parts[k];

        part->values = room(m, graph->n_tensors * sizeof *part->values);
        part->gradients = room(m, graph->n_tensors * sizeof *part->gradients);
        part->weights = room(m, graph->n_params * sizeof *part->weights);
        part->sums = room(m, graph->n_params * sizeof *part->sums);
        part->partial = room(m, graph->n_params * sizeof *part->partial);
        part->z = room(m, graph->n_ops * PST_MAX_SCRATCH * sizeof *part->z);
        for (uint32_t t = 0; t < graph->n_tensors; t++) {
            part->values[t] = room(m, elems_of(&graph->tensors[t]) * sizeof(double));
            if (t < graph->n_inputs) {
                fill_input(graph, t, part->values[t]);
            }
        }
        for (uint32_t p = 0; p < graph->n_params; p++) {
            struct filling filling = {p, NULL};

            filling.own = part->weights[p] =
                room(m, graph->params[p].elems * sizeof *part->weights[p]);
            part->sums[p] = room(m, graph->params[p].elems * sizeof *part->sums[p]);
            part->partial[p] = room(m, graph->params[p].elems * sizeof *part->sums[p]);
            for (uint64_t i = 0; i < graph->params[p].elems; i++) {
                filling.own[i] = 7; /* padding, which nothing may come of */
            }
            pst_box_runs(&graph->params[p], k, fill_run, &filling);
        }
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
                            .part = (uint32_t)(part - m->parts)};
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
static void convert(struct machine *m, enum pst_convert_work work, double *const *from,
                    double *const *to, uint64_t n)
{
    const uint64_t own = n / m->n;

    for (uint32_t k = 0; k < m->n; k++) {
        for (uint64_t s = 0; s < SAMPLES; s++) {
            if (work == PST_WORK_COPY) {
                memcpy(&to[k][s * n], &from[k][s * n], n * sizeof **to);
            } else if (work == PST_WORK_CUT) {
                memcpy(&to[k][s * own], &from[k][s * n + k * own], own * sizeof **to);
            }
            for (uint32_t other = 0; other < m->n && work == PST_WORK_GATHER; other++) {
                memcpy(&to[k][s * n + other * own], &from[other][s * own], own * sizeof **to);
            }
        }
        for (uint32_t i = 0; i < m->n * SAMPLES && work == PST_WORK_EXCHANGE; i++) {
            memcpy(&to[k][i * own], &from[i % m->n][(i - i % m->n + k) * own], own * sizeof **to);
        }
        for (uint32_t other = 0; other < m->n && work == PST_WORK_SUM; other++) {
            add_to(to[k], from[other], n * SAMPLES);
        }
        for (uint32_t i = 0; i < m->n * SAMPLES && work == PST_WORK_SCATTER; i++) {
            add_to(&to[k][i / m->n * own], &from[i % m->n][i / m->n * n + k * own], own);
        }
    }
}

static void run_convert(struct machine *m, const struct pst_op *op, uint32_t pass,
                        double **contributions)
{
    const struct pst_tensor *x = &m->graph->tensors[op->in[0]], *y = &m->graph->tensors[op->out[0]];
    double *from[MOST_PARTS], *to[MOST_PARTS];

    for (uint32_t k = 0; k < m->n; k++) {
        from[k] = pass == 0 ? m->parts[k].values[op->in[0]] : m->parts[k].gradients[op->out[0]];
        to[k] = pass == 0 ? m->parts[k].values[op->out[0]]
                          : (contributions[k] = room(m, elems_of(x) * sizeof(double)));
    }
    convert(m, pst_convert_work(op, pass), from, to, x->elems > y->elems ? x->elems : y->elems);
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

        if (op->kind == PST_OP_CONVERT) {
            run_convert(m, op, 0, NULL);
            continue;
        }
        for (uint32_t k = 0; k < m->n; k++) {
            run_kernel(m, &m->parts[k], v, 0, NULL, NULL);
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

static void backward(struct machine *m)
{
    for (uint32_t v = m->graph->n_ops; v-- > 0;) {
        const struct pst_op *op = &m->graph->ops[v];
        double *contributions[MOST_PARTS];
        struct pst_op_grad grad;

        pst_op_grad_info(m->graph, v, &grad);
        if (op->kind == PST_OP_CONVERT && grad.has_b) {
            run_convert(m, op, 1, contributions);
        }
        for (uint32_t k = 0; k < m->n; k++) {
            if (op->kind == PST_OP_CONVERT && grad.has_b) {
                contribute(m, &m->parts[k], op->in[0], contributions[k]);
            } else {
                backward_part(m, &m->parts[k], v, &grad);
            }
        }
    }
}

static void add_partial(struct machine *m)
{
    for (uint32_t p = 0; p < m->graph->n_params; p++) {
        for (uint32_t k = 0; k < m->n; k++) {
            for (uint32_t other = 0; other < m->n; other++) {
                add_to(m->parts[k].sums[p], m->parts[other].partial[p], m->graph->params[p].elems);
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
static void compare_logits(const struct machine *whole, const struct machine *split, uint32_t k)
{
    const struct pst_tensor *all = &whole->graph->tensors[whole->graph->logits];
    const struct pst_tensor *own = &split->graph->tensors[split->graph->logits];
    const uint64_t columns = all->dims[all->rank - 1], n = own->dims[own->rank - 1];
    const uint64_t first = n < columns ? k * n : 0;
    const double *a = whole->parts[0].values[whole->graph->logits];
    const double *b = split->parts[k].values[split->graph->logits];

    assert_true(n * split->n >= columns);
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

static void compare(const struct machine *whole, const struct machine *split, const char *name)
{
    for (uint32_t k = 0; k < split->n; k++) {
        const double *a = whole->parts[0].values[whole->graph->loss];
        const double *b = split->parts[k].values[split->graph->loss];

        compare_logits(whole, split, k);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            if (!(fabs(a[i] - b[i]) <= 1e-12 * fabs(a[i]))) {
                fail_msg("%s, %u parts: loss %.17g, not %.17g", name, split->n, b[i], a[i]);
            }
        }
        for (uint32_t p = 0; p < whole->graph->n_params; p++) {
            const struct pst_parameter *parameter = &split->graph->params[p];
            struct comparison c = {whole->parts[0].sums[p], split->parts[k].sums[p], 0, 0, 0};
            const double scale = largest(c.whole, whole->graph->params[p].elems);

            pst_box_runs(parameter, k, compare_run, &c);
            check_padding(&c, parameter);
            if (!(c.most <= 1e-12 * fmax(scale, 1e-3))) {
                fail_msg("%s, part %u of %u: gradient of %s differs by %g of %g", name, k, split->n,
                         parameter->name, c.most, scale);
            }
        }
    }
}

/* Graphs with these, so that none is missed. */
static struct {
    uint32_t tables, heads, tied, padded, scattered, grouped;
} met;

static void note_vocabulary(const struct pst_graph *graph)
{
    const struct pst_op *loss = &graph->ops[graph->tensors[graph->loss].producer];

    met.heads += loss->kind == PST_OP_CE_JOIN;
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        const struct pst_op *op = &graph->ops[v];

        met.grouped += op->kind == PST_OP_CONCAT; /* before an exchange */
        if (op->kind == PST_OP_EMBEDDING && op->classes > 0) {
            const struct pst_op *next = &graph->ops[v + 1];

            met.tables++;
            met.tied += graph->params[op->param[0]].n_users > 1;
            met.padded += graph->params[op->param[0]].box.padding > 0;
            met.scattered += next->convert == PST_CONVERT_SCATTER;
        }
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
    note_vocabulary(graph);
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

static float smoothing, z_loss;

static struct pst_graph *make_whole(const char *model, const char *settings)
{
    struct pst_graph *graph = make_model(model, settings, PST_F64);
    struct pst_error err = {0};

    assert_ok(pst_graph_set_loss(graph, smoothing, z_loss, &err), &err);
    return graph;
}

static void check_split(const char *model, const char *settings, const struct pst_division *how,
                        uint32_t converts)
{
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t n;

    assert_ok(pst_graph_split(make_whole(model, settings), how, &graph, &err), &err);
    n = compare_graphs(make_whole(model, settings), graph, settings);
    if (n != converts) {
        fail_msg("%s %s: %u conversions, not %u", model, settings, n, converts);
    }
}

static void check(const char *model, const char *settings, uint32_t parts, uint32_t converts)
{
    check_split(model, settings, &(struct pst_division){.parts = parts}, converts);
}

static void check_tokens(const char *model, const char *settings, uint32_t parts, uint32_t converts)
{
    check_split(model, settings, &(struct pst_division){.parts = parts, .sequence = true},
                converts);
}

/* A block has two pairs of fan and sum; the head has a fan and the meeting of its loss; a table
   that is tied to it has a sum. */
TEST(gpt)
{
    check("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", 2, 11);
    check("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12 dropout=0.3", 4, 11);
}

TEST(llama)
{
    check("llama", "layers=2 dim=16 heads=4 kv_heads=2 ff=24 context=6 vocab=12 qkv_bias=true", 2,
          10);
    check("llama", "layers=1 dim=48 heads=8 kv_heads=8 ff=32 context=5 vocab=12 window=3", 8, 6);
}

/* Two key heads have no four parts: their layers are joined where they are large, else whole. */
TEST(attention_that_is_whole)
{
    check("llama", "layers=1 dim=16 heads=4 kv_heads=2 ff=24 context=6 vocab=12", 4, 4);
    check("llama", "layers=1 dim=256 heads=4 kv_heads=2 ff=24 context=3 vocab=12", 4, 6);
    check("llama", "layers=1 dim=16 heads=4 ff=24 context=6 vocab=12 qk_norm=true", 2, 6);
}

/* A table of 1 MiB is split though nothing is tied to it. */
TEST(large_table)
{
    check("gpt", "layers=1 dim=32 heads=4 context=3 vocab=4096 tied=false", 2, 7);
    check("gpt", "layers=1 dim=32 heads=4 context=3 vocab=4095 tied=false", 2, 6);
}

/* Parts that have some padding, and parts that have nothing else. */
TEST(padded_vocabulary)
{
    static const struct {
        float smoothing, z_loss;
    } losses[] = {{0, 0}, {0.1f, 0}, {0, 0.01f}, {0.2f, 0.001f}};

    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        smoothing = losses[i].smoothing;
        z_loss = losses[i].z_loss;
        check("gpt", "layers=1 dim=16 heads=4 context=6 vocab=13", 2, 7);
        check("gpt", "layers=1 dim=16 heads=4 context=6 vocab=5", 4, 7);
        check("gpt", "layers=1 dim=32 heads=8 context=6 vocab=9 tied=false", 8, 6);
        check("llama", "layers=1 dim=16 heads=4 ff=24 context=6 vocab=7 tied=true", 4, 7);
        check_tokens("gpt", "layers=1 dim=16 heads=4 context=8 vocab=13", 4, 8);
        check_tokens("llama", "layers=1 dim=16 heads=4 ff=24 context=6 vocab=7 tied=true", 2, 7);
    }
    smoothing = z_loss = 0;
    /* One row a sample; layers of five have no two parts. */
    check("mlp", "inputs=3 hidden=5 layers=1 classes=3", 2, 2);
    check("mlp", "inputs=3 hidden=6 layers=1 classes=3", 2, 1); /* the head has rows */
}

/* Each part has columns of all experts, which read fanned rows and weights; the router is whole. */
TEST(experts)
{
    static const char model[] = "layers=1 dim=16 heads=4 ff=16 context=6 vocab=12";
    char settings[256];

    snprintf(settings, sizeof settings, "%s experts=4", model);
    check("llama", settings, 2, 7);
    check_tokens("llama", settings, 2, 9);
    snprintf(settings, sizeof settings, "%s experts=5 experts_per_token=3 capacity=1.25", model);
    check("llama", settings, 4, 7);
    snprintf(settings, sizeof settings, "%s experts=3 experts_per_token=1 aux_loss=0.1", model);
    check_tokens("llama", settings, 2, 9);
}

/* Three do not divide 16 columns. */
TEST(experts_that_are_whole)
{
    check("llama", "layers=1 dim=12 heads=3 ff=16 context=6 vocab=12 experts=4", 3, 4);
}

/* t5: two pairs a layer of the encoder, three of the decoder; what the encoder says is fanned once
   for all. */
TEST(other_models)
{
    check("bert", "layers=1 dim=16 heads=4 context=6 vocab=12", 2, 7);
    check("t5",
          "layers=2 decoder_layers=2 dim=16 heads=4 head_dim=4 ff=24 context=5 targets=4 "
          "vocab=12 buckets=8 max_distance=16",
          2, 25);
    check("mmt", "layers=1 dim=16 heads=4 context=5 vocab=12", 2, 10);
}

/* Embeddings are cut, a block gathers and scatters twice, the head gathers. bert has two sums of
   embeddings, and a layer before its head that is whole, between a join and a cut. */
TEST(rows_of_tokens)
{
    check_tokens("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", 2, 12);
    check_tokens("gpt", "layers=2 dim=16 heads=4 context=8 vocab=12 dropout=0.3", 4, 12);
    check_tokens("llama",
                 "layers=2 dim=16 heads=4 kv_heads=2 ff=24 context=6 vocab=12 qk_norm=true", 2, 11);
    check_tokens("bert", "layers=1 dim=16 heads=4 context=6 vocab=12 dropout=0.1", 2, 11);
    check_tokens("t5",
                 "layers=2 decoder_layers=2 dim=16 heads=4 head_dim=4 ff=32 context=4 "
                 "targets=8 vocab=12 buckets=8 max_distance=16 dropout=0.2",
                 4, 25);
}

static void check_rows(const char *model, const char *settings, uint32_t parts, uint32_t converts)
{
    check_split(model, settings, &(struct pst_division){.parts = parts, .ways = PST_WAYS_ROWS},
                converts);
}

/* A table has a sum and a cut, or a cut alone where it is whole; a block joins what attention,
   experts and their router read, and cuts what they make; the head has a gather and the meeting of
   its loss. */
TEST(rows_everywhere)
{
    check_rows("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", 2, 8);
    check_rows("gpt", "layers=2 dim=16 heads=4 context=8 vocab=13 dropout=0.3", 4, 8);
    check_rows("llama", "layers=2 dim=16 heads=3 head_dim=4 ff=22 context=8 vocab=12 qk_norm=true",
               4, 7);
    check_rows("llama", "layers=1 dim=16 heads=4 ff=16 context=6 vocab=12 experts=4", 2, 8);
}

/* Two exchanges in a block in place of a join and a cut. Queries of groups go beside keys and
   values, in the same exchange. */
TEST(exchanges)
{
    struct pst_division how = {.parts = 2, .ways = PST_WAYS_ULYSSES};

    check_split("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", &how, 8);
    check_split("llama", "layers=2 dim=16 heads=4 ff=22 context=8 vocab=12 qk_norm=true", &how, 7);
    check_split("llama", "layers=2 dim=16 heads=8 kv_heads=2 ff=22 context=8 vocab=12 qk_norm=true",
                &how, 7);
    check_split("llama", "layers=1 dim=32 heads=4 kv_heads=2 ff=22 context=6 vocab=12 window=3",
                &how, 5);
    how.parts = 4;
    check_split("gpt", "layers=2 dim=16 heads=4 context=8 vocab=13 dropout=0.3", &how, 8);
    check_split("llama", "layers=1 dim=32 heads=12 kv_heads=4 head_dim=2 ff=22 context=8 vocab=12",
                &how, 5);
}

static void check_asked(const char *settings, const char *patterns, enum pst_way way, bool sequence,
                        uint32_t converts)
{
    struct pst_graph *whole = make_whole("gpt", settings);
    struct pst_division how = {.parts = 2, .sequence = sequence};
    uint8_t *asked = pst_alloc(whole->n_ops, sizeof *asked);

    for (uint32_t v = 0; v < whole->n_ops; v++) {
        asked[v] = pst_list_matches(patterns, whole->ops[v].name) ? way : PST_WAY_AUTO;
    }
    pst_graph_destroy(whole);
    how.asked = asked;
    check_split("gpt", settings, &how, converts);
    free(asked);
}

/* Of 11 conversions whole layers lose a pair a block, a whole block two, and a whole loss those of
   the vocabulary, as head and table share a matrix. Rows are cut and joined where there are no
   others, and need nothing where there are. Columns that nobody reads by rows are joined. */
TEST(ways_by_name)
{
    static const char gpt[] = "layers=2 dim=16 heads=4 context=6 vocab=12";

    check_asked(gpt, "h.*.mlp.*", PST_WAY_WHOLE, false, 7);
    check_asked(gpt, "h.1.*", PST_WAY_WHOLE, false, 7);
    check_asked(gpt, "loss", PST_WAY_WHOLE, false, 8);
    check_asked(gpt, "h.0.mlp.c_proj", PST_WAY_COLUMN, false, 11);
    check_asked(gpt, "h.0.mlp.c_*", PST_WAY_ROWS, false, 11);
    check_asked(gpt, "h.*.mlp.*", PST_WAY_ROWS, true, 8);
}

/* GPT-2's vocabulary on eight parts: 6,283 columns each, of which the last part has 7 too many. A
   row of 1,024 is told the others in 16 bytes. */
TEST(known_sizes)
{
    struct pst_graph *graph = NULL;
    const struct pst_parameter *table;
    const struct pst_tensor *numbers;
    struct pst_error err = {0};

    assert_ok(pst_graph_split(
                  make_model("gpt", "layers=1 dim=64 heads=8 context=1024 vocab=50257", PST_BF16),
                  &(struct pst_division){.parts = 8}, &graph, &err),
              &err);
    table = &graph->params[pst_names_find(&graph->param_names, "wte.weight")];
    assert_true(table->dims[0] == 6283 && table->dims[1] == 64 && table->box.padding == 7);
    assert_int_equal(pst_box_whole(table), 50257 * 64);
    assert_int_equal(graph->tensors[graph->logits].bytes, 12867584);
    numbers = &graph->tensors[graph->ops[pst_names_find(&graph->op_names, "loss:parts")].out[0]];
    assert_int_equal(numbers->bytes, 131072);
    pst_graph_destroy(graph);
}

TEST(what_cannot_be_split)
{
    struct pst_graph *whole =
        make_model("candle-uno",
                   "variant=branches branches=2 features=3 width=5 layers=1 top_layers=1", PST_F32);
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};

    assert_int_equal(pst_graph_split(whole, &(struct pst_division){.parts = 2}, &graph, &err),
                     PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_non_null(
        strstr(err.message, "parallel.tensor = 2 divides no operator of model candle-uno"));
    pst_graph_destroy(whole);
}

/* --- random graphs -----------------------------------------------------------------------------*/

TEST(random_graphs)
{
    const char *asked = getenv("PENSTOCK_PARTS_GRAPHS");
    const uint32_t rounds = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : 2000;
    static const uint32_t degrees[] = {2, 3, 4, 8};
    static const uint32_t ways[] = {PST_WAYS_AUTO, PST_WAYS_ROWS, PST_WAYS_AUTO, PST_WAYS_ULYSSES};
    uint32_t n_split = 0, converts = 0;

    memset(&met, 0, sizeof met);
    for (uint32_t round = 0; round < rounds; round++) {
        struct pst_graph *graph = NULL, *whole = draw_graph(round + 1);
        struct pst_error err = {0};
        const struct pst_division how = {
            .parts = degrees[round % 4], .sequence = round / 4 % 2, .ways = ways[round / 8 % 4]};
        char name[32];

        snprintf(name, sizeof name, "seed %u", round + 1);
        if (pst_graph_split(whole, &how, &graph, &err) != PST_OK) {
            assert_string_equal(err.kind, "config.value");
            pst_graph_destroy(whole);
            continue;
        }
        n_split++;
        converts += compare_graphs(draw_graph(round + 1), graph, name);
    }
    print_message(
        "%u of %u split, %u conversions; %u heads, %u tables, %u padded, %u scattered, %u "
        "grouped\n",
        n_split, rounds, converts, met.heads, met.tables, met.padded, met.scattered, met.grouped);
    assert_true(n_split > rounds / 3 && converts > 2 * n_split);
    assert_true(met.heads > n_split / 5 && met.tables > n_split / 20 && met.tied == met.tables);
    assert_true(met.padded > met.tables / 5 && met.scattered > met.tables / 20);
    assert_true(met.grouped > n_split / 500);
}

/* Any operator may be asked for whole; those that work row by row for rows, linear ones for
   columns, too. */
static void draw_ways(const struct pst_graph *whole, uint64_t seed, uint8_t *asked)
{
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        const uint32_t kind = whole->ops[v].kind;
        const bool linear = kind == PST_OP_LINEAR && whole->ops[v].out[0] != whole->logits;
        const bool by_row = linear || kind == PST_OP_LAYERNORM || kind == PST_OP_ADD ||
                            kind == PST_OP_GLU || kind == PST_OP_ACT;
        const uint64_t drawn = next_random(&seed) % 8;

        asked[v] = drawn == 0             ? PST_WAY_WHOLE
                   : drawn == 1 && by_row ? PST_WAY_ROWS
                   : drawn == 2 && linear ? PST_WAY_COLUMN
                                          : PST_WAY_AUTO;
    }
}

TEST(random_ways)
{
    const char *rounds_asked = getenv("PENSTOCK_PARTS_GRAPHS");
    const uint32_t rounds = rounds_asked != NULL ? (uint32_t)strtoul(rounds_asked, NULL, 10) : 1000;
    static const uint32_t ways[] = {PST_WAYS_AUTO, PST_WAYS_ROWS, PST_WAYS_ULYSSES};
    uint32_t n_split = 0, n_named = 0;

    for (uint32_t round = 0; round < rounds; round++) {
        struct pst_graph *graph = NULL, *whole = draw_graph(round + 1);
        uint8_t *asked = pst_alloc(whole->n_ops, sizeof *asked);
        struct pst_error err = {0};
        const struct pst_division how = {.parts = 2u << round % 2,
                                         .sequence = round / 2 % 2,
                                         .ways = ways[round / 4 % 3],
                                         .asked = asked};
        char name[32];
        pst_status status;

        draw_ways(whole, round + 1, asked);
        status = pst_graph_split(whole, &how, &graph, &err);
        free(asked);
        if (status != PST_OK) {
            assert_string_equal(err.kind, "config.value");
            pst_graph_destroy(whole);
            continue;
        }
        n_split++;
        n_named += graph->n_by_name > 0;
        snprintf(name, sizeof name, "seed %u", round + 1);
        compare_graphs(draw_graph(round + 1), graph, name);
    }
    print_message("%u of %u split, %u with operators by name\n", n_split, rounds, n_named);
    assert_true(n_split > rounds / 3 && n_named > n_split / 2);
}
