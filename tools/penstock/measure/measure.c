/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds over groups of operators, timed call by call.
 */
#include "measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/util.h"
#include "graph/custom.h"
#include "measure/measure_impl.h"
#include "measure/watch.h"

#define FEWEST_ROUNDS 3u
#define N_SERIES      4u         /* F, B, W, and adding its gradient to the sum of the step */
#define MOST_TIMES    (1u << 23) /* that are kept */
#define TRIMMED       0.1        /* at either end: what was interrupted, or is too good to last */

/* Two places in what the device is asked for: by a watch of the host around it or, on a device that
   works on its own, between marks in its queue, so that the way there does not count. */
struct places {
    const struct pst_device_ops *ops;
    struct pst_device *device;
    struct pst_mark *marks[2]; /* NULL: by the watch */
    struct pst_watch watch;
};

static pst_status places_init(struct places *places, const struct pst_measure_config *config,
                              struct pst_device *device, struct pst_error *err)
{
    const struct pst_device_ops *ops = config->device;
    pst_status status = PST_OK;

    *places = (struct places){
        .ops = ops, .device = device, .watch = pst_watch_of(ops, &config->device_config)};
    for (uint32_t i = 0; (ops->flags & PST_DEVICE_APART) != 0 && i < 2 && status == PST_OK; i++) {
        status = ops->mark_create(device, true, &places->marks[i], err);
    }
    return status;
}

static void places_begin(struct places *places)
{
    if (places->marks[0] != NULL) {
        places->ops->mark(places->device, PST_QUEUE_COMPUTE, places->marks[0]);
    } else {
        pst_watch_begin(&places->watch);
    }
}

/* All since the beginning has ended: how long it took. The next lap begins. */
static uint64_t places_lap(struct places *places)
{
    const struct pst_device_ops *ops = places->ops;
    uint64_t begin, end;

    if (ops->finish != NULL) {
        ops->finish(places->device);
    }
    if (places->marks[0] == NULL) {
        return pst_watch_lap(&places->watch);
    }
    ops->mark(places->device, PST_QUEUE_COMPUTE, places->marks[1]);
    ops->wait(places->device, places->marks[1], UINT64_MAX);
    begin = ops->mark_ns(places->device, places->marks[0]);
    end = ops->mark_ns(places->device, places->marks[1]);
    ops->sync(places->device, NULL); /* a failure stays: it is asked for at the end */
    places_begin(places);
    return end > begin ? end - begin : 0;
}

struct measuring {
    const struct pst_measure_config *config;
    struct pst_device *device;
    struct places places;
    struct pst_arena arena;
    uint32_t *first;    /* [n_ops] the first operator that is like it */
    uint32_t *selected; /* operators that are measured, ascending */
    uint32_t n_selected;
    uint64_t done, all; /* rounds times operators */
    uint32_t most_rounds;
    uint64_t *times;      /* [n_selected][N_SERIES][most_rounds] */
    uint32_t *n_rounds;   /* [n_selected] that were timed */
    uint64_t *sorted;     /* room for the runs of a class */
    uint64_t *step_times; /* [most_rounds] of the group */
    struct pst_measured_update update;
};

static uint64_t *times_of(const struct measuring *m, uint32_t selected, uint32_t series)
{
    return m->times + ((size_t)selected * N_SERIES + series) * m->most_rounds;
}

/* --- what is alike ----------------------------------------------------------------------------*/

static bool same_tensor(const struct pst_graph *graph, uint32_t a, uint32_t b)
{
    const struct pst_tensor *s = &graph->tensors[a], *t = &graph->tensors[b];

    return s->dtype == t->dtype && s->rank == t->rank && s->batched == t->batched &&
           memcmp(s->dims, t->dims, s->rank * sizeof *s->dims) == 0;
}

static bool same_param(const struct pst_graph *graph, uint32_t a, uint32_t b)
{
    const struct pst_parameter *p, *q;

    if (a == PST_NONE || b == PST_NONE) {
        return a == b;
    }
    p = &graph->params[a];
    q = &graph->params[b];
    return p->dtype == q->dtype && p->rank == q->rank &&
           memcmp(p->dims, q->dims, p->rank * sizeof *p->dims) == 0;
}

static bool same_form(const struct pst_form *a, const struct pst_form *b)
{
    return a == NULL || b == NULL
               ? a == b
               : a->rank == b->rank && memcmp(a->from, b->from, sizeof a->from) == 0 &&
                     memcmp(a->start, b->start, sizeof a->start) == 0 &&
                     memcmp(a->step, b->step, sizeof a->step) == 0;
}

static bool same_general(const struct pst_op *a, const struct pst_op *b)
{
    return a->map == b->map && a->reduce == b->reduce && a->axis == b->axis && a->axes == b->axes &&
           memcmp(a->swapped, b->swapped, sizeof a->swapped) == 0 && a->logarithm == b->logarithm &&
           a->groups == b->groups && memcmp(a->pad_more, b->pad_more, sizeof a->pad_more) == 0 &&
           memcmp(a->dilation, b->dilation, sizeof a->dilation) == 0 && same_form(a->form, b->form);
}

static bool same_custom(const struct pst_custom *a, const struct pst_custom *b)
{
    return a == NULL || b == NULL
               ? a == b
               : strcmp(a->id, b->id) == 0 && strcmp(a->attributes, b->attributes) == 0;
}

static bool same_attributes(const struct pst_op *a, const struct pst_op *b)
{
    return a->kind == b->kind && a->n_in == b->n_in && a->n_out == b->n_out &&
           a->n_param == b->n_param && a->n_state == b->n_state && a->act == b->act &&
           a->transposed == b->transposed && a->causal == b->causal && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->window == b->window && a->head_dim == b->head_dim &&
           a->experts_per_token == b->experts_per_token &&
           memcmp(a->kernel, b->kernel, sizeof a->kernel) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
           memcmp(a->pad, b->pad, sizeof a->pad) == 0 && (a->p > 0) == (b->p > 0) &&
           same_general(a, b) && same_custom(a->custom, b->custom);
}

bool pst_measure_alike(const struct pst_graph *graph, uint32_t a, uint32_t b)
{
    const struct pst_op *s = &graph->ops[a], *t = &graph->ops[b];
    struct pst_op_grad f, g;

    if (!same_attributes(s, t)) {
        return false;
    }
    for (uint32_t i = 0; i < s->n_in; i++) {
        if (!same_tensor(graph, s->in[i], t->in[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < s->n_out; i++) {
        if (!same_tensor(graph, s->out[i], t->out[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < s->n_param; i++) {
        if (!same_param(graph, s->param[i], t->param[i])) {
            return false;
        }
    }
    pst_op_grad_info(graph, a, &f);
    pst_op_grad_info(graph, b, &g);
    return f.has_b == g.has_b && f.has_w == g.has_w && f.b_dx == g.b_dx && f.n_z == g.n_z;
}

/* Classes, and the first few operators of each. Conversions have no kernel for one device. */
static void select_ops(struct measuring *m)
{
    const struct pst_graph *graph = m->config->graph;
    uint32_t *classes = pst_arena_array(&m->arena, graph->n_ops, sizeof *classes);
    uint32_t *members = pst_arena_array(&m->arena, graph->n_ops, sizeof *members);
    uint32_t n_classes = 0;

    for (uint32_t o = 0; o < graph->n_ops; o++) {
        uint32_t c = 0;

        m->first[o] = o;
        if (pst_op_is_convert(graph->ops[o].kind)) {
            continue;
        }
        while (c < n_classes && !pst_measure_alike(graph, classes[c], o)) {
            c++;
        }
        if (c == n_classes) {
            classes[n_classes++] = o;
        }
        m->first[o] = classes[c];
        if (members[c]++ < PST_MEASURE_TWINS) {
            m->selected[m->n_selected++] = o;
        }
    }
}

/* Returns the limit of rounds: as configured or, if least_ns is set, up to 50 times as many. */
static uint32_t most_rounds(const struct measuring *m)
{
    uint64_t most = MOST_TIMES / N_SERIES / (m->n_selected + 1u);

    most = most < 50 * (uint64_t)m->config->rounds ? most : 50 * (uint64_t)m->config->rounds;
    return m->config->least_ns == 0 || most < m->config->rounds ? m->config->rounds
                                                                : (uint32_t)most;
}

static void measuring_init(struct measuring *m)
{
    const struct pst_graph *graph = m->config->graph;

    m->first = pst_arena_array(&m->arena, graph->n_ops, sizeof *m->first);
    m->selected = pst_arena_array(&m->arena, graph->n_ops, sizeof *m->selected);
    select_ops(m);
    m->most_rounds = most_rounds(m);
    m->times = pst_arena_array(&m->arena, (size_t)m->n_selected * N_SERIES,
                               m->most_rounds * sizeof *m->times);
    m->n_rounds = pst_arena_array(&m->arena, m->n_selected, sizeof *m->n_rounds);
    m->sorted =
        pst_arena_array(&m->arena, (size_t)PST_MEASURE_TWINS * m->most_rounds, sizeof *m->sorted);
    m->step_times = pst_arena_array(&m->arena, m->most_rounds, sizeof *m->step_times);
    m->all = (uint64_t)m->n_selected * (m->config->warmups + m->config->rounds);
}

/* --- rounds -----------------------------------------------------------------------------------*/

/* A pass; and after W what adds its gradients to the sums. */
static void run_pass(struct measuring *m, const struct measure_op *op, uint32_t pass,
                     uint32_t slice, uint64_t ret_ns[2])
{
    const struct pst_device_ops *device = m->config->device;
    const struct pst_op *o = &m->config->graph->ops[op->op];
    struct pst_call call = op->calls[pass];

    call.slice = slice;
    places_begin(&m->places);
    op->kernels[pass]->run(op->kernels[pass], &call);
    ret_ns[0] = places_lap(&m->places);
    ret_ns[1] = 0;
    if (pass == 2) {
        for (uint32_t i = 0; i < o->n_param; i++) {
            if (op->accumulate[i] != NULL && op->calls[pass].dp[i] != NULL) {
                device->accumulate(m->device, op->accumulate[i], op->calls[pass].dp[i],
                                   m->config->graph->params[o->param[i]].elems);
            }
        }
        ret_ns[1] = places_lap(&m->places);
    }
}

/* F of all, then B and W of each in reverse, as a step does. The group's operators are selected
   from `offset` on. `round` PST_NONE: a warm-up. */
static void run_round(struct measuring *m, const struct measure_group *group, uint32_t offset,
                      uint32_t round)
{
    for (uint32_t k = 0; k < 2 * group->n_ops; k++) {
        bool forward = k < group->n_ops;
        uint32_t i = forward ? k : 2 * group->n_ops - 1 - k;
        const struct measure_op *op = &group->ops[i];

        for (uint32_t pass = forward ? 0 : 1; pass <= (forward ? 0u : 2u); pass++) {
            uint64_t ns[2] = {0, 0};

            if (op->kernels[pass] != NULL) {
                run_pass(m, op, pass, measure_slice(m->config->graph, round), ns);
            }
            if (round != PST_NONE) {
                times_of(m, offset + i, pass)[round] = ns[0];
                if (pass == 2) {
                    times_of(m, offset + i, 3)[round] = ns[1];
                }
            }
        }
    }
}

/* Square sums of all gradients come first, as for the norm; then the updates. */
static uint64_t run_steps(struct measuring *m, const struct measure_group *group)
{
    const struct pst_device_ops *device = m->config->device;

    places_begin(&m->places);
    for (uint32_t i = 0; i < group->n_steps; i++) {
        device->square_sum(m->device, group->steps[i].grad, group->steps[i].elems);
    }
    for (uint32_t i = 0; i < group->n_steps; i++) {
        const struct measure_step *step = &group->steps[i];

        device->update(m->device, m->config->update, step->weights, step->grad, step->slots[0],
                       step->slots[1], step->working, step->dtype, step->elems);
    }
    return places_lap(&m->places);
}

static void report_progress(const struct measuring *m, uint64_t done)
{
    if (m->config->progress != NULL) {
        m->config->progress(m->config->context, done < m->all ? done : m->all, m->all);
    }
}

/* The mean of sorted values without those at either end. A median would not do: on a machine that
   is fast one moment and slow the next it is the time of one of the two, and what a step takes is a
   sum of many. */
static double middle_mean(const uint64_t *values, uint32_t n)
{
    uint32_t cut = (uint32_t)(TRIMMED * (double)n);
    double sum = 0;

    for (uint32_t i = cut; i < n - cut; i++) {
        sum += (double)values[i];
    }
    return sum / (double)(n - 2 * cut);
}

static void add_update(struct measuring *m, const struct measure_group *group, uint32_t n_steps)
{
    if (n_steps == 0) {
        return;
    }
    qsort(m->step_times, n_steps, sizeof *m->step_times, pst_by_number);
    m->update.ns += middle_mean(m->step_times, n_steps);
    for (uint32_t i = 0; i < group->n_steps; i++) {
        m->update.bytes += group->steps[i].elems * sizeof(float);
    }
}

static bool is_cancelled(const struct measuring *m)
{
    return m->config->cancelled != NULL && m->config->cancelled();
}

static pst_status run_rounds(struct measuring *m, const struct measure_group *group,
                             uint32_t offset, struct pst_error *err)
{
    const struct pst_measure_config *config = m->config;
    uint64_t start = pst_now_ns(), before = m->done;
    uint64_t limit = config->group_ns == 0 ? UINT64_MAX : config->group_ns;
    uint32_t warmups = 0, rounds = 0, n_steps = 0;
    uint32_t every = config->microbatches > 0 ? config->microbatches : 1;

    m->done += (uint64_t)group->n_ops * (config->warmups + config->rounds);
    while (rounds < m->most_rounds) {
        uint64_t spent = pst_now_ns() - start;
        bool late = spent > limit;
        bool warm = warmups >= config->warmups || (late && warmups > 0);

        if (warm && ((late && rounds >= FEWEST_ROUNDS) ||
                     (spent > config->least_ns && rounds >= config->rounds))) {
            break;
        }
        if (is_cancelled(m)) {
            return pst_fail(err, PST_ERR_CANCELLED, "run.stopped", "stopped while measuring");
        }
        run_round(m, group, offset, warm ? rounds : PST_NONE);
        if (warm && rounds % every == 0 && group->n_steps > 0) {
            m->step_times[n_steps++] = run_steps(m, group);
        }
        if (warm) {
            rounds++;
        } else {
            warmups++;
        }
        before += group->n_ops;
        report_progress(m, before < m->done ? before : m->done);
    }
    for (uint32_t i = 0; i < group->n_ops; i++) {
        m->n_rounds[offset + i] = rounds;
    }
    add_update(m, group, n_steps);
    report_progress(m, m->done);
    return PST_OK;
}

/* --- groups -----------------------------------------------------------------------------------*/

/* As many operators from `offset` on as fit, at least one; *ret_bytes: what they take. */
static pst_status next_group(const struct measuring *m, uint32_t offset, uint32_t *ret_n,
                             uint64_t *ret_bytes, struct pst_error *err)
{
    uint32_t n = 0;
    uint64_t bytes = 0;

    *ret_bytes = 0;
    while (offset + n < m->n_selected) {
        measure_group_bytes(m->config, m->device, m->selected + offset, n + 1, &bytes);
        if (n > 0 && bytes > m->config->memory_bytes) {
            break;
        }
        *ret_bytes = bytes;
        n++;
    }
    *ret_n = n;
    if (*ret_bytes > m->config->memory_bytes) {
        char need[32], have[32];

        pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                 "operator %s needs %s for %u samples, but only %s fit",
                 m->config->graph->ops[m->selected[offset]].name,
                 pst_format_bytes(need, *ret_bytes), m->config->samples,
                 pst_format_bytes(have, m->config->memory_bytes));
        pst_error_hint(err, "measure smaller micro-batches");
        return PST_ERR_NOMEM;
    }
    return PST_OK;
}

/* A device of its own for each group: closing it gives the arena back. */
static pst_status measure_next(struct measuring *m, uint32_t *offset, struct pst_error *err)
{
    struct measure_group group = {0};
    void *base = NULL;
    uint64_t bytes = 0;
    uint32_t n = 0;
    pst_status status = m->config->device->open(&m->config->device_config, &m->device, err);

    if (status != PST_OK) {
        return status;
    }
    m->config->device->enter(m->device);
    status = next_group(m, *offset, &n, &bytes, err);
    PST_TRY(status, places_init(&m->places, m->config, m->device, err));
    PST_TRY(status, m->config->device->arena(m->device, bytes, &base, err));
    PST_TRY(status,
            measure_group_init(m->config, m->device, m->selected + *offset, n, base, &group, err));
    PST_TRY(status, run_rounds(m, &group, *offset, err));
    if (status == PST_OK && (m->config->device->flags & PST_DEVICE_APART) != 0) {
        status = m->config->device->sync(m->device, err);
    }
    measure_group_finish(&group);
    m->config->device->close(m->device);
    pst_float_mode_reset(); /* kernels flush to zero; what is planned from now on does not */
    *offset += n;
    return status;
}

/* --- means ------------------------------------------------------------------------------------*/

/* Returns a quantile of sorted values, interpolated; part: from 0 to 1. */
static double quantile(const uint64_t *values, uint32_t n, double part)
{
    double position = part * (double)(n - 1);
    uint32_t below = (uint32_t)position, above = below + 1 < n ? below + 1 : below;
    double low = (double)values[below], high = (double)values[above];

    return low + (high - low) * (position - (double)below);
}

/* Sorts the times of a class, of every step-th round from `round` on; returns how many they are. */
static uint32_t gather(const struct measuring *m, uint32_t first, uint32_t series, uint32_t round,
                       uint32_t step)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_selected; i++) {
        for (uint32_t r = round; m->first[m->selected[i]] == first && r < m->n_rounds[i];
             r += step) {
            m->sorted[n++] = times_of(m, i, series)[r];
        }
    }
    qsort(m->sorted, n, sizeof *m->sorted, pst_by_number);
    return n;
}

/* Returns the mean of the middle of the sorted times; 0 if there are none. */
static double mean_of(const struct measuring *m, uint32_t n, double *ret_spread)
{
    const double mean = n > 0 ? middle_mean(m->sorted, n) : 0;

    *ret_spread =
        mean > 0 ? (quantile(m->sorted, n, 0.75) - quantile(m->sorted, n, 0.25)) / mean : 0;
    return mean;
}

bool measure_grows(const struct pst_graph *graph, const double *ns, const double *work, double mean,
                   double *ret_ns, double *ret_growth, double *ret_saved)
{
    const uint32_t middle = measure_turns(graph) - 1;
    double slope;

    if (ns[middle] <= ns[0] || work[middle] <= work[0]) {
        return false;
    }
    slope = (ns[middle] - ns[0]) / (work[middle] - work[0]);
    *ret_growth = slope * (work[1] - work[0]);
    *ret_saved = ns[0] + *ret_growth - ns[1];
    *ret_ns = ns[0] + slope * (mean - work[0]) - *ret_saved / graph->slices;
    return true;
}

static void summarize_slices(const struct measuring *m, uint32_t op, uint32_t pass,
                             struct pst_measured *ret_measured)
{
    const struct pst_graph *graph = m->config->graph;
    const uint32_t turns = measure_turns(graph);
    double ns[3], work[3], mean, bytes, saved;

    for (uint32_t i = 0; i < turns; i++) {
        pst_op_slice_work(graph, op, measure_slice(graph, i), pass, 1, &work[i], &bytes);
        ns[i] = mean_of(m, gather(m, op, pass, i, turns), &ret_measured->spread[pass]);
    }
    pst_op_work(graph, op, pass, 1, &mean, &bytes);
    if (measure_grows(graph, ns, work, mean, &ret_measured->ns[pass], &ret_measured->growth[pass],
                      &saved) &&
        pass == 1) {
        ret_measured->growth[2] = fmax(0, saved);
    }
}

/* The first gradient of a step is the sum, the others are added to it. */
static void summarize(const struct measuring *m, uint32_t first, struct pst_measured *ret_measured)
{
    double added = m->config->microbatches > 1 ? 1 - 1 / (double)m->config->microbatches : 0;

    *ret_measured = (struct pst_measured){.rounds = 0};
    for (uint32_t pass = 0; pass < 3; pass++) {
        uint32_t n = gather(m, first, pass, 0, 1);

        ret_measured->ns[pass] = mean_of(m, n, &ret_measured->spread[pass]);
        ret_measured->rounds = n;
    }
    for (uint32_t pass = 0; m->config->graph->ops[first].slices > 1 && pass < 2; pass++) {
        summarize_slices(m, first, pass, ret_measured);
    }
    if (added > 0) {
        ret_measured->ns[2] += added * middle_mean(m->sorted, gather(m, first, 3, 0, 1));
    }
}

pst_status pst_measure_ops(const struct pst_measure_config *config,
                           struct pst_measured *ret_measured,
                           struct pst_measured_update *ret_update, struct pst_error *err)
{
    struct measuring m = {.config = config};
    uint32_t offset = 0;
    pst_status status = PST_OK;
    measuring_init(&m);

    while (status == PST_OK && offset < m.n_selected) {
        status = measure_next(&m, &offset, err);
    }
    for (uint32_t o = 0; status == PST_OK && o < config->graph->n_ops; o++) {
        if (pst_op_is_convert(config->graph->ops[o].kind)) {
            ret_measured[o] = (struct pst_measured){.rounds = 0};
        } else if (m.first[o] == o) {
            summarize(&m, o, &ret_measured[o]);
        } else {
            ret_measured[o] = ret_measured[m.first[o]];
        }
    }
    if (status == PST_OK) {
        *ret_update = m.update;
    }
    pst_arena_finish(&m.arena);
    return status;
}
