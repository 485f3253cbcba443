/* SPDX-License-Identifier: Apache-2.0
 *
 * From the sink to the source: best[i][u][s] is the least bottleneck of what is not in set i, on at
 * most u devices and in at most s stages.
 */
#include "sets.h"

#include <math.h>
#include <string.h>

enum { MOST_CELLS = 1 << 27 };

struct nest {
    const struct part_sets_question *q;
    uint32_t n_sets, n_devices, n_stages, n_degrees;
    int64_t *best;          /* [n_sets][n_devices + 1][n_stages + 1] */
    int64_t **comp, **sync; /* [n_degrees][n_sets] */
    int64_t **leaving;      /* [n_degrees][n_sets] all edges out of a set */
    int64_t **skipping;     /* [n_degrees][n_sets] edges from the set at hand past another */
    int64_t *into;          /* [nodes] from the set at hand into a node, one degree */
    double *weight, *saved; /* [n_sets] */
    uint32_t *nodes;        /* room */
    bool workspace;         /* does any node have some? */
    uint64_t polls;
};

static int64_t *cell(const struct nest *f, uint32_t i, uint32_t u)
{
    return f->best + ((size_t)i * (f->n_devices + 1) + u) * (f->n_stages + 1);
}

static void poll(struct nest *f, uint64_t work)
{
    f->polls += work;
    if (f->polls >= 2000000) {
        f->polls = 0;
        call_go_on(f->q->host);
    }
}

static int64_t **table(uint32_t rows, size_t columns)
{
    int64_t **t = call_alloc((size_t)rows + 1, sizeof *t);
    uint32_t k;

    for (k = 0; k < rows; k++) {
        t[k] = call_alloc(columns, sizeof **t);
    }
    return t;
}

/* ret[j] = sum over nodes of set j. */
static void sum_nodes(const struct nest *f, const int64_t *values, int64_t *ret)
{
    const struct part_downsets *sets = f->q->sets;
    uint32_t j, i;

    for (j = 1; j < f->n_sets; j++) {
        ret[j] = ret[sets->parent[j]];
        for (i = sets->first_added[j]; i < sets->first_added[j + 1]; i++) {
            ret[j] += values[f->q->node[sets->added[i]]];
        }
    }
}

/* Edges out of set j: those of its parent, and what its own nodes read and send. */
static void sum_leaving(const struct nest *f, uint32_t k)
{
    const struct part_downsets *sets = f->q->sets;
    const struct part_dag *dag = f->q->dag;
    const int64_t *p2p = f->q->costs->p2p[k];
    uint32_t j, i, e;

    for (j = 1; j < f->n_sets; j++) {
        int64_t sum = f->leaving[k][sets->parent[j]];

        for (i = sets->first_added[j]; i < sets->first_added[j + 1]; i++) {
            uint32_t v = sets->added[i];

            for (e = dag->first_out[v]; e < dag->first_out[v + 1]; e++) {
                sum += p2p[f->q->edge[e]];
            }
            for (e = dag->first_in[v]; e < dag->first_in[v + 1]; e++) {
                sum -= p2p[f->q->edge[dag->in_edges[e]]];
            }
        }
        f->leaving[k][j] = sum;
    }
}

static pst_status init(struct nest *f)
{
    const struct part_sets_question *q = f->q;
    const struct part_problem *p = q->problem;
    uint32_t k, v;
    double *room;
    size_t cells;

    f->n_sets = q->sets->n_sets;
    f->n_devices = q->n_devices;
    f->n_degrees = q->costs->n_degrees;
    f->n_stages = 1;
    if (!isinf(q->capacity)) {
        f->n_stages = q->dag->n < q->n_devices ? q->dag->n : q->n_devices;
    }
    cells = (size_t)f->n_sets * (f->n_devices + 1);
    if (cells > MOST_CELLS / (f->n_stages + 1)) {
        return PST_ERR_NOMEM;
    }
    CALL_TAKE(f->best, cells * (f->n_stages + 1));
    f->comp = table(f->n_degrees, f->n_sets);
    f->sync = table(f->n_degrees, f->n_sets);
    f->leaving = table(f->n_degrees, f->n_sets);
    f->skipping = table(f->n_degrees, f->n_sets);
    CALL_TAKE(f->into, (size_t)q->dag->n + 1);
    CALL_TAKE(f->weight, f->n_sets);
    CALL_TAKE(f->saved, f->n_sets);
    CALL_TAKE(f->nodes, (size_t)q->dag->n + 1);
    CALL_TAKE(room, (size_t)q->dag->n + 1);
    for (k = 0; k < f->n_degrees; k++) {
        sum_nodes(f, q->costs->comp[k], f->comp[k]);
        sum_nodes(f, q->costs->sync[k], f->sync[k]);
        sum_leaving(f, k);
    }
    for (v = 0; v < q->dag->n; v++) {
        room[v] = p->weight_bytes[q->node[v]];
        f->workspace = f->workspace || p->workspace_bytes[q->node[v]] > 0;
    }
    part_downsets_sum(q->sets, room, f->weight);
    for (v = 0; v < q->dag->n; v++) {
        room[v] = p->saved_bytes[q->node[v]];
    }
    part_downsets_sum(q->sets, room, f->saved);
    return PST_OK;
}

/* skipping[k][j] = edges from set i to what is not in set j, for all j. */
static void look_from(struct nest *f, uint32_t i)
{
    const struct part_downsets *sets = f->q->sets;
    const struct part_dag *dag = f->q->dag;
    uint32_t k, j, e, x, n = part_downsets_between(sets, 0, i, f->nodes);

    for (k = 0; f->q->costs->comm_model != PST_COMM_NONE && k < f->n_degrees; k++) {
        const int64_t *p2p = f->q->costs->p2p[k];

        memset(f->into, 0, dag->n * sizeof *f->into);
        for (x = 0; x < n; x++) {
            for (e = dag->first_out[f->nodes[x]]; e < dag->first_out[f->nodes[x] + 1]; e++) {
                f->into[dag->to[e]] += p2p[f->q->edge[e]];
            }
        }
        f->skipping[k][0] = 0;
        for (x = 0; x < dag->n; x++) {
            f->skipping[k][0] += f->into[x];
        }
        for (j = 1; j < f->n_sets; j++) {
            f->skipping[k][j] = f->skipping[k][sets->parent[j]];
            for (x = sets->first_added[j]; x < sets->first_added[j + 1]; x++) {
                f->skipping[k][j] -= f->into[sets->added[x]];
            }
        }
    }
    /* Edges inside set i were counted as well: they end in every set j that holds i. */
}

static int64_t stage_ticks(const struct nest *f, uint32_t i, uint32_t j, uint32_t k)
{
    int64_t p2p = 0;

    if (f->q->costs->comm_model != PST_COMM_NONE) {
        int64_t past = f->skipping[k][j];

        p2p = (f->leaving[k][i] - past) + (f->leaving[k][j] - past);
    }
    return part_tps(f->q->costs, f->comp[k][j] - f->comp[k][i], p2p, f->sync[k][j] - f->sync[k][i]);
}

/* Most stages from this one to the end at which it fits; 0: never. */
static uint32_t most_stages(struct nest *f, uint32_t i, uint32_t j, uint32_t d)
{
    const struct part_problem *p = f->q->problem;
    double weight = f->weight[j] - f->weight[i], saved = f->saved[j] - f->saved[i], work = 0;
    uint32_t s, low = 0, high = f->n_stages, x, n;

    if (isinf(f->q->capacity)) {
        return f->n_stages;
    }
    if (f->workspace) {
        n = part_downsets_between(f->q->sets, i, j, f->nodes);
        for (x = 0; x < n; x++) {
            work = fmax(work, p->workspace_bytes[f->q->node[f->nodes[x]]]);
        }
    }
    while (low < high) {
        s = low + (high - low + 1) / 2;
        if (part_memory(p, weight, saved, work, d, (uint64_t)f->q->costs->b * s) <=
            f->q->capacity * (1 + 1e-12)) {
            low = s;
        } else {
            high = s - 1;
        }
    }
    return low;
}

/* Stage j - i on d devices in front of everything that is known for j. */
static void put(struct nest *f, uint32_t i, uint32_t j, uint32_t k)
{
    int64_t ticks = stage_ticks(f, i, j, k);
    uint32_t d = f->q->costs->degrees[k], u, s, most;
    bool limited = !isinf(f->q->capacity);

    if (d > f->n_devices || ticks >= f->q->below) {
        return;
    }
    most = most_stages(f, i, j, d);
    for (u = d; most > 0 && u <= f->n_devices; u++) {
        const int64_t *rest = cell(f, j, u - d);
        int64_t *best = cell(f, i, u);

        for (s = 1; s <= most; s++) {
            int64_t value = rest[limited ? s - 1 : s] > ticks ? rest[limited ? s - 1 : s] : ticks;

            best[s] = value < best[s] ? value : best[s];
        }
    }
}

static void blank(struct nest *f, uint32_t i, int64_t value)
{
    size_t c;

    for (c = 0; c < ((size_t)f->n_devices + 1) * (f->n_stages + 1); c++) {
        cell(f, i, 0)[c] = value;
    }
}

/* At most u devices, at most s stages. */
static void run_minima(struct nest *f, uint32_t i)
{
    uint32_t u, s;

    for (u = 0; u <= f->n_devices; u++) {
        int64_t *best = cell(f, i, u);

        for (s = 0; s <= f->n_stages; s++) {
            if (s > 0 && best[s - 1] < best[s]) {
                best[s] = best[s - 1];
            }
            if (u > 0 && cell(f, i, u - 1)[s] < best[s]) {
                best[s] = cell(f, i, u - 1)[s];
            }
        }
    }
}

/* Is what set j has and set i has not short enough on some degree? Asked before all else. */
static bool may_be_below(const struct nest *f, uint32_t i, uint32_t j)
{
    uint32_t k;

    for (k = 0; k < f->n_degrees; k++) {
        if (f->comp[k][j] - f->comp[k][i] < f->q->below) {
            return true;
        }
    }
    return false;
}

static void search(struct nest *f)
{
    uint32_t i, j, k, last = f->n_sets - 1;

    blank(f, last, 0);
    for (i = last; i-- > 0;) {
        blank(f, i, INT64_MAX);
        look_from(f, i);
        for (j = i + 1; j <= last; j++) {
            if (!may_be_below(f, i, j) || !part_downsets_nested(f->q->sets, i, j)) {
                continue;
            }
            for (k = 0; k < f->n_degrees; k++) {
                put(f, i, j, k);
            }
            poll(f, (uint64_t)f->n_degrees * f->n_devices * f->n_stages);
        }
        run_minima(f, i);
    }
}

/* The stage that the best of (i, u, s) starts with: of equals the one with most nodes, then the
   least degree. */
static bool first_stage(struct nest *f, uint32_t i, uint32_t u, uint32_t s, uint32_t *ret_j,
                        uint32_t *ret_k)
{
    int64_t value = cell(f, i, u)[s];
    bool limited = !isinf(f->q->capacity);
    uint32_t j, k;

    look_from(f, i);
    for (j = f->n_sets; j-- > i + 1;) {
        if (!part_downsets_nested(f->q->sets, i, j)) {
            continue;
        }
        for (k = 0; k < f->n_degrees; k++) {
            uint32_t d = f->q->costs->degrees[k], most, at;

            if (d > u || stage_ticks(f, i, j, k) > value) {
                continue;
            }
            most = most_stages(f, i, j, d);
            at = limited ? (s < most ? s : most) : 1;
            if (most > 0 && cell(f, j, u - d)[limited ? at - 1 : at] <= value) {
                *ret_j = j;
                *ret_k = k;
                return true;
            }
        }
    }
    return false;
}

static void unroll(struct nest *f, struct part_sets_answer *answer)
{
    uint32_t i = 0, u = f->n_devices, s = f->n_stages, j, k;
    int64_t value = cell(f, 0, u)[s];

    if (value == INT64_MAX) {
        return;
    }
    CALL_TAKE(answer->stages, (size_t)f->n_devices + 1);
    answer->ticks = value;
    while (i + 1 < f->n_sets) {
        if (!first_stage(f, i, u, s, &j, &k)) {
            call_end(PST_ERR_BUG);
        }
        answer->stages[answer->n_stages++] =
            (struct part_sets_stage){.from = i, .to = j, .degree = f->q->costs->degrees[k]};
        u -= f->q->costs->degrees[k];
        if (!isinf(f->q->capacity)) {
            uint32_t most = most_stages(f, i, j, f->q->costs->degrees[k]);

            s = (s < most ? s : most) - 1;
        }
        i = j;
    }
}

pst_status part_sets_solve(const struct part_sets_question *question,
                           struct part_sets_answer *ret_answer)
{
    struct nest f = {.q = question};
    struct part_sets_answer answer = {0};
    pst_status st = init(&f);

    if (st == PST_OK) {
        search(&f);
    }
    if (st == PST_OK) {
        unroll(&f, &answer);
    }
    if (st != PST_OK) {
        return st;
    }
    *ret_answer = answer;
    return PST_OK;
}
