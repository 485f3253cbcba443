/* SPDX-License-Identifier: Apache-2.0
 *
 * From the sink to the source: best[i][u][s] is the least bottleneck, or the shortest path, of what
 * is not in the i-th border, on at most u devices and in at most s stages. Borders are the sets
 * that a stage can end at: those with devices enough before and after them.
 */
#include "sets.h"

#include <math.h>
#include <string.h>

#include "chain.h"

enum { MOST_CELLS = 1 << 27 };

/* Stages with one set in front of them: one, or several that no edge connects, which run side by
   side. */
struct row {
    uint32_t n, devices, most; /* most: as in most_stages */
    int64_t counts;
    uint32_t *to, *degree; /* [n_devices] */
};

struct nest {
    const struct part_sets_question *q;
    uint32_t n_sets, n_devices, n_stages, n_degrees;
    uint32_t n_borders, *borders; /* sets, ascending; the first and the last set are borders */
    uint32_t *before, *behind;    /* [n_borders] devices that what is there needs at least */
    int64_t *best;                /* [n_borders][n_devices + 1][n_stages + 1] */
    int64_t **comp, **sync;       /* [n_degrees][n_sets] */
    int64_t **leaving;            /* [n_degrees][n_sets] all edges out of a set */
    int64_t **skipping;           /* [n_degrees][n_sets] edges from the set at hand past another */
    int64_t *into;                /* [nodes] from the set at hand into a node, one degree */
    double *weight, *saved;       /* [n_sets] */
    uint32_t *nodes;              /* room */
    uint32_t *side;               /* [nodes] of what has no edges in between; NULL: not looked at */
    int64_t *load;                /* [nodes] of a side, at its first node */
    uint32_t *packed;             /* room */
    uint64_t *bits;               /* room for those of a set */
    uint32_t n_slots, *slots;     /* sets by their bits: index plus 1; n_slots a power of two */
    bool workspace;               /* does any node have some? */
    uint32_t n_ways;              /* to work off what is between two borders: a stage on each
                                     degree; sides; some sides together */
    struct row row;
    uint64_t polls;
};

/* of the i-th border */
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

static int64_t ceil_ticks(int64_t ticks, int64_t most)
{
    return ticks / most + (ticks % most != 0);
}

/* Whole stages before a set, and whole stages after it. */
static bool is_border(const struct part_sets_question *q, const int64_t *work, uint32_t i,
                      int64_t below)
{
    int64_t most = below - 1, all = work[q->sets->n_sets - 1];

    return below == INT64_MAX || all == 0 ||
           (most > 0 &&
            ceil_ticks(work[i], most) + ceil_ticks(all - work[i], most) <= q->n_devices);
}

int64_t *part_sets_work(const struct part_sets_question *q)
{
    const struct nest f = {.q = q, .n_sets = q->sets->n_sets};
    struct part_costs costs = *q->costs;
    int64_t *work = call_alloc(f.n_sets, sizeof *work);
    int64_t *of_node = call_alloc((size_t)q->problem->n + 1, sizeof *of_node);

    if (q->shortest) {
        costs.comm_model = PST_COMM_NONE;
    }
    part_least_work(q->problem, &costs, of_node);
    sum_nodes(&f, of_node, work);
    return work;
}

uint32_t part_sets_borders(const struct part_sets_question *q, int64_t below)
{
    uint32_t i, n = 0;

    for (i = 0; i < q->sets->n_sets; i++) {
        n += is_border(q, q->work, i, below);
    }
    return n;
}

static void list_borders(struct nest *f)
{
    const int64_t *work = f->q->work != NULL ? f->q->work : part_sets_work(f->q);
    int64_t most = f->q->below - 1, all = work[f->n_sets - 1];
    uint32_t i, x;

    CALL_TAKE(f->borders, f->n_sets);
    CALL_TAKE(f->before, f->n_sets);
    CALL_TAKE(f->behind, f->n_sets);
    for (i = 0; i < f->n_sets; i++) {
        if (is_border(f->q, work, i, f->q->below)) {
            f->borders[f->n_borders++] = i;
        }
    }
    for (x = 0; f->q->below != INT64_MAX && most > 0 && x < f->n_borders; x++) {
        f->before[x] = (uint32_t)ceil_ticks(work[f->borders[x]], most);
        f->behind[x] = (uint32_t)ceil_ticks(all - work[f->borders[x]], most);
    }
}

/* Devices for what is between two borders at most. */
static uint32_t between(const struct nest *f, uint32_t x, uint32_t y)
{
    uint32_t others = f->before[x] + f->behind[y];

    return others < f->n_devices ? f->n_devices - others : 0;
}

static const uint64_t *bits_of(const struct part_downsets *sets, uint32_t i)
{
    return sets->bits + (uint64_t)i * sets->n_words;
}

static uint32_t slot_of(const struct nest *f, const uint64_t *bits)
{
    const struct part_downsets *sets = f->q->sets;
    uint64_t hash = 0;
    uint32_t w, at;

    for (w = 0; w < sets->n_words; w++) {
        hash = (hash ^ bits[w]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    for (at = (uint32_t)hash & (f->n_slots - 1); f->slots[at] != 0;
         at = (at + 1) & (f->n_slots - 1)) {
        if (memcmp(bits_of(sets, f->slots[at] - 1), bits, sets->n_words * sizeof *bits) == 0) {
            break;
        }
    }
    return at;
}

/* Sides count for paths alone, and where stages beside each other hold the same. */
static void init_sides(struct nest *f)
{
    uint32_t i;

    if (!f->q->shortest || f->q->problem->in_row || f->q->sets->bits == NULL) {
        return;
    }
    for (f->n_slots = 2; f->n_slots < 2 * f->n_sets; f->n_slots *= 2) {
    }
    CALL_TAKE(f->slots, f->n_slots);
    CALL_TAKE(f->bits, f->q->sets->n_words);
    CALL_TAKE(f->load, (size_t)f->q->dag->n + 1);
    CALL_TAKE(f->packed, (size_t)f->q->dag->n + 1);
    CALL_TAKE(f->side, (size_t)f->q->dag->n + 1);
    for (i = 0; i < f->n_sets; i++) {
        f->slots[slot_of(f, bits_of(f->q->sets, i))] = i + 1;
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
    list_borders(f);
    f->n_devices = q->n_devices;
    f->n_degrees = q->costs->n_degrees;
    f->n_stages = 1;
    if (!isinf(q->capacity)) {
        f->n_stages = q->dag->n < q->n_devices ? q->dag->n : q->n_devices;
    }
    cells = (size_t)f->n_borders * (f->n_devices + 1);
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
    init_sides(f);
    f->n_ways = f->n_degrees + (f->side != NULL ? 2 : 0);
    CALL_TAKE(f->row.to, (size_t)f->n_devices + 1);
    CALL_TAKE(f->row.degree, (size_t)f->n_devices + 1);
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

/* `ticks` is compared with `below`; the sequence adds up `counts` or takes the most. */
struct cost {
    int64_t ticks, counts;
};

static struct cost cost_of(const struct nest *f, uint32_t i, uint32_t j, uint32_t k)
{
    int64_t comp = f->comp[k][j] - f->comp[k][i], sync = f->sync[k][j] - f->sync[k][i], p2p = 0;

    if (f->q->costs->comm_model != PST_COMM_NONE) {
        int64_t past = f->skipping[k][j];

        p2p = (f->leaving[k][i] - past) + (f->leaving[k][j] - past);
    }
    if (f->q->shortest) {
        return (struct cost){comp + sync, comp + p2p / 2};
    }
    comp = part_tps(f->q->costs, comp, p2p, sync);
    return (struct cost){comp, comp};
}

/* Joins the counts of a stage and of the stages after it. */
static int64_t join(const struct nest *f, int64_t counts, int64_t rest)
{
    if (rest == INT64_MAX) {
        return INT64_MAX;
    }
    return f->q->shortest ? counts + rest : counts > rest ? counts : rest;
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

/* Stage j - i on degree k; false: it takes too long or does not fit. */
static bool add_stage(struct nest *f, uint32_t i, uint32_t j, uint32_t k, struct row *row)
{
    struct cost cost = cost_of(f, i, j, k);
    uint32_t d = f->q->costs->degrees[k], most;

    if (row->devices + d > f->n_devices || cost.ticks >= f->q->below) {
        return false;
    }
    most = most_stages(f, i, j, d);
    if (most == 0) {
        return false;
    }
    row->most = row->n == 0 || most < row->most ? most : row->most;
    row->counts = row->n == 0 || cost.counts > row->counts ? cost.counts : row->counts;
    row->devices += d;
    row->to[row->n] = j;
    row->degree[row->n++] = d;
    return true;
}

static uint32_t root_of(uint32_t *side, uint32_t v)
{
    while (side[v] != v) {
        v = side[v] = side[side[v]];
    }
    return v;
}

/* f->side of the nodes of j - i: the first node that edges inside connect each with; how many such
   there are. */
static uint32_t find_sides(struct nest *f, uint32_t i, uint32_t j, uint32_t n)
{
    const struct part_dag *dag = f->q->dag;
    const uint64_t *before = bits_of(f->q->sets, i), *all = bits_of(f->q->sets, j);
    uint32_t x, e, n_sides = n;

    for (x = 0; x < n; x++) {
        f->side[f->nodes[x]] = f->nodes[x];
    }
    for (x = 0; x < n; x++) {
        uint32_t v = f->nodes[x];

        for (e = dag->first_out[v]; e < dag->first_out[v + 1]; e++) {
            uint32_t w = dag->to[e], a, b;

            if (((all[w / 64] & ~before[w / 64]) >> w % 64 & 1) == 0) {
                continue;
            }
            a = root_of(f->side, v);
            b = root_of(f->side, w);
            n_sides -= a != b;
            f->side[a > b ? a : b] = a > b ? b : a;
        }
    }
    return n_sides;
}

/* Sides share a stage as long as that is below the limit on the least degree: first fit, the
   largest first. How many are left. */
static uint32_t pack_sides(struct nest *f, uint32_t n)
{
    const int64_t *comp = f->q->costs->comp[0], *sync = f->q->costs->sync[0];
    uint32_t x, i, n_packed = 0;

    for (x = 0; x < n; x++) {
        f->load[f->nodes[x]] = 0;
    }
    for (x = 0; x < n; x++) {
        uint32_t v = f->q->node[f->nodes[x]];

        f->load[root_of(f->side, f->nodes[x])] += comp[v] + sync[v];
    }
    for (;;) {
        uint32_t most = UINT32_MAX;

        for (x = 0; x < n; x++) {
            uint32_t v = f->nodes[x];

            for (i = 0; i < n_packed && f->packed[i] != v; i++) {
            }
            if (f->side[v] == v && i == n_packed &&
                (most == UINT32_MAX || f->load[v] > f->load[most])) {
                most = v;
            }
        }
        if (most == UINT32_MAX) {
            return n_packed;
        }
        for (i = 0; i < n_packed && f->load[f->packed[i]] + f->load[most] >= f->q->below; i++) {
        }
        if (i == n_packed) {
            f->packed[n_packed++] = most;
        } else {
            f->load[f->packed[i]] += f->load[most];
            f->side[most] = f->packed[i];
        }
    }
}

/* A stage for each side of j - i, or for several, on the least degree that will do. */
static bool add_sides(struct nest *f, uint32_t i, uint32_t j, bool packed, struct row *row)
{
    uint32_t n = part_downsets_between(f->q->sets, i, j, f->nodes), n_sides, x, y, k;

    n_sides = find_sides(f, i, j, n);
    if (packed && n_sides > 2) {
        uint32_t n_packed = pack_sides(f, n);

        n_sides = n_packed < n_sides ? n_packed : 0; /* else it is known */
    } else if (packed) {
        return false;
    }
    if (n_sides < 2 || n_sides > f->n_devices) {
        return false;
    }
    for (x = 0; x < n; x++) {
        uint32_t first = f->nodes[x];

        if (f->side[first] != first) {
            continue;
        }
        memcpy(f->bits, bits_of(f->q->sets, i), f->q->sets->n_words * sizeof *f->bits);
        for (y = 0; y < n; y++) {
            if (root_of(f->side, f->nodes[y]) == first) {
                f->bits[f->nodes[y] / 64] |= UINT64_C(1) << f->nodes[y] % 64;
            }
        }
        y = f->slots[slot_of(f, f->bits)] - 1;
        for (k = 0; k < f->n_degrees && !add_stage(f, i, y, k, row); k++) {
        }
        if (k == f->n_degrees) {
            return false;
        }
        part_downsets_between(f->q->sets, i, j, f->nodes);
    }
    return true;
}

/* Stages between the borders x and y in front of everything that is known for y. */
static void put(struct nest *f, uint32_t x, uint32_t y, const struct row *row)
{
    bool limited = !isinf(f->q->capacity);
    uint32_t u, s;

    for (u = row->devices; u <= f->n_devices; u++) {
        const int64_t *rest = cell(f, y, u - row->devices);
        int64_t *best = cell(f, x, u);

        for (s = 1; s <= row->most; s++) {
            int64_t value = join(f, row->counts, rest[limited ? s - 1 : s]);

            best[s] = value < best[s] ? value : best[s];
        }
    }
}

/* The w-th of the ways to work off what is between two borders; false: it will not do. */
static bool way_of(struct nest *f, uint32_t x, uint32_t y, uint32_t w, struct row *row)
{
    uint32_t i = f->borders[x], j = f->borders[y];

    row->n = row->devices = 0;
    return w < f->n_degrees ? add_stage(f, i, j, w, row)
                            : between(f, x, y) > 1 && add_sides(f, i, j, w > f->n_degrees, row);
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
    return f->side != NULL;
}

static void search(struct nest *f)
{
    uint32_t x, y, w, last = f->n_borders - 1;

    blank(f, last, 0);
    for (x = last; x-- > 0;) {
        uint32_t i = f->borders[x];

        blank(f, x, INT64_MAX);
        look_from(f, i);
        poll(f, (uint64_t)f->n_sets * f->n_degrees);
        for (y = x + 1; y <= last; y++) {
            uint32_t j = f->borders[y];

            if (between(f, x, y) == 0 || !may_be_below(f, i, j) ||
                !part_downsets_nested(f->q->sets, i, j)) {
                continue;
            }
            for (w = 0; w < f->n_ways; w++) {
                if (way_of(f, x, y, w, &f->row)) {
                    put(f, x, y, &f->row);
                }
            }
            poll(f, (uint64_t)f->n_degrees * f->n_devices * f->n_stages);
        }
        run_minima(f, x);
    }
}

/* Finds the first row of the best of (x, u, s): of equals the one with most nodes, then the least
   degree. It is in f->row; false: there is none. */
static bool first_row(struct nest *f, uint32_t x, uint32_t u, uint32_t s, uint32_t *ret_y,
                      uint32_t *ret_s)
{
    int64_t value = cell(f, x, u)[s];
    bool limited = !isinf(f->q->capacity);
    uint32_t y, w;

    look_from(f, f->borders[x]);
    for (y = f->n_borders; y-- > x + 1;) {
        if (!part_downsets_nested(f->q->sets, f->borders[x], f->borders[y])) {
            continue;
        }
        for (w = 0; w < f->n_ways; w++) {
            if (!way_of(f, x, y, w, &f->row) || f->row.devices > u) {
                continue;
            }
            *ret_s = limited ? (s < f->row.most ? s : f->row.most) - 1 : s;
            if (join(f, f->row.counts, cell(f, y, u - f->row.devices)[*ret_s]) <= value) {
                *ret_y = y;
                return true;
            }
        }
    }
    return false;
}

static void unroll(struct nest *f, struct part_sets_answer *answer)
{
    uint32_t x = 0, u = f->n_devices, s = f->n_stages, i;

    if (cell(f, 0, u)[s] == INT64_MAX) {
        return;
    }
    CALL_TAKE(answer->stages, (size_t)f->n_devices + 1);
    answer->ticks = cell(f, 0, u)[s];
    while (x + 1 < f->n_borders) {
        uint32_t from = f->borders[x];

        if (!first_row(f, x, u, s, &x, &s)) {
            call_end(PST_ERR_BUG);
        }
        for (i = 0; i < f->row.n; i++) {
            answer->stages[answer->n_stages++] = (struct part_sets_stage){
                .from = from, .to = f->row.to[i], .degree = f->row.degree[i]};
        }
        u -= f->row.devices;
    }
}

pst_status part_sets_solve(const struct part_sets_question *question,
                           struct part_sets_answer *ret_answer)
{
    struct nest f = {.q = question};
    struct part_sets_answer answer = {0};
    pst_status status = init(&f);

    if (status == PST_OK && f.n_borders > 0 && f.borders[0] == 0) {
        search(&f);
        unroll(&f, &answer);
    }
    if (status == PST_OK) {
        *ret_answer = answer;
    }
    return status;
}
