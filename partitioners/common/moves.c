/* SPDX-License-Identifier: Apache-2.0
 *
 * Local moves: a node leaves the slowest stage for another one, which may in turn have to give one
 * away. Stages keep their order, so a node may go wherever that order leaves it between its
 * predecessors and its successors: no move can close a cycle.
 */
#include <math.h>
#include <string.h>

#include "refine_parts.h"

#define NONE UINT32_MAX

enum {
    CHAIN = 3,  /* moves in a row that together help */
    TARGETS = 4 /* stages that a node is offered to at each but the last of them */
};

struct load {
    int64_t comp, sync, p2p;
    double weight, saved;
    uint32_t k, first; /* first: node of a list */
};

struct local {
    const struct part_problem *problem;
    const struct part_costs *costs;
    uint32_t n_stages;
    struct load *loads;               /* stages in topological order */
    uint32_t *stage_of, *next, *last; /* [n] lists of nodes */
    uint32_t *depth;                  /* [n_stages] */
    bool *linked; /* [n_stages * n_stages] scratch of depths, where memory is limited */
    int64_t goal; /* every stage is to be below */
    uint64_t *steps;
    bool stop;
};

static int64_t ticks_of(const struct local *l, uint32_t s)
{
    return part_tps(l->costs, l->loads[s].comp, l->loads[s].p2p, l->loads[s].sync);
}

/* --- taking part in a stage --------------------------------------------------------------------*/

/* The cost of v's edges to stage s if v is not in it (or leaves it), with the degree of s. */
struct touch {
    int64_t inside, outside; /* edges to nodes in s; to others */
};

static struct touch touch_of(const struct local *l, uint32_t v, uint32_t s)
{
    const struct part_problem *p = l->problem;
    const int64_t *p2p = l->costs->p2p[l->loads[s].k];
    struct touch t = {0, 0};
    uint32_t i;

    for (i = p->first_out[v]; i < p->first_out[v + 1]; i++) {
        *(l->stage_of[p->to[i]] == s ? &t.inside : &t.outside) += p2p[i];
    }
    for (i = p->first_in[v]; i < p->first_in[v + 1]; i++) {
        uint32_t e = p->in_edges[i];

        *(l->stage_of[p->from[e]] == s ? &t.inside : &t.outside) += p2p[e];
    }
    return t;
}

static int64_t without(const struct local *l, uint32_t v, uint32_t s)
{
    const struct load *load = &l->loads[s];
    struct touch t = touch_of(l, v, s);

    return part_tps(l->costs, load->comp - l->costs->comp[load->k][v],
                    load->p2p + t.inside - t.outside, load->sync - l->costs->sync[load->k][v]);
}

static int64_t with(const struct local *l, uint32_t v, uint32_t s)
{
    const struct load *load = &l->loads[s];
    struct touch t = touch_of(l, v, s);

    return part_tps(l->costs, load->comp + l->costs->comp[load->k][v],
                    load->p2p - t.inside + t.outside, load->sync + l->costs->sync[load->k][v]);
}

static void put(struct local *l, uint32_t v, uint32_t s)
{
    struct load *load = &l->loads[s];
    struct touch t = touch_of(l, v, s);

    load->comp += l->costs->comp[load->k][v];
    load->sync += l->costs->sync[load->k][v];
    load->p2p += t.outside - t.inside;
    load->weight += l->problem->weight_bytes[v];
    load->saved += l->problem->saved_bytes[v];
    l->stage_of[v] = s;
    l->next[v] = load->first;
    l->last[v] = NONE;
    if (load->first != NONE) {
        l->last[load->first] = v;
    }
    load->first = v;
}

static void take(struct local *l, uint32_t v)
{
    uint32_t s = l->stage_of[v];
    struct load *load = &l->loads[s];
    struct touch t = touch_of(l, v, s);

    load->comp -= l->costs->comp[load->k][v];
    load->sync -= l->costs->sync[load->k][v];
    load->p2p -= t.outside - t.inside;
    load->weight -= l->problem->weight_bytes[v];
    load->saved -= l->problem->saved_bytes[v];
    if (l->last[v] != NONE) {
        l->next[l->last[v]] = l->next[v];
    } else {
        load->first = l->next[v];
    }
    if (l->next[v] != NONE) {
        l->last[l->next[v]] = l->last[v];
    }
    l->stage_of[v] = NONE;
}

static void move(struct local *l, uint32_t v, uint32_t s)
{
    take(l, v);
    put(l, v, s);
}

/* Stages from *ret_first to *ret_last may hold v. */
static void room_of(const struct local *l, uint32_t v, uint32_t *ret_first, uint32_t *ret_last)
{
    const struct part_problem *p = l->problem;
    uint32_t i, first = 0, last = l->n_stages - 1;

    for (i = p->first_in[v]; i < p->first_in[v + 1]; i++) {
        uint32_t s = l->stage_of[p->from[p->in_edges[i]]];

        first = s > first ? s : first;
    }
    for (i = p->first_out[v]; i < p->first_out[v + 1]; i++) {
        uint32_t s = l->stage_of[p->to[i]];

        last = s < last ? s : last;
    }
    *ret_first = first;
    *ret_last = last;
}

/* --- memory ------------------------------------------------------------------------------------*/

static void set_places(struct local *l)
{
    uint32_t s, behind = 0;

    for (s = l->n_stages; s-- > 0;) {
        behind += l->loads[s].first != NONE;
        l->depth[s] = behind;
    }
}

static void set_depths(struct local *l)
{
    const struct part_problem *p = l->problem;
    uint32_t e, s, t;

    if (p->in_row) {
        set_places(l);
        return;
    }
    memset(l->linked, 0, (size_t)l->n_stages * l->n_stages * sizeof *l->linked);
    for (e = 0; e < p->n_edges; e++) {
        l->linked[(size_t)l->stage_of[p->from[e]] * l->n_stages + l->stage_of[p->to[e]]] = true;
    }
    for (s = l->n_stages; s-- > 0;) {
        l->depth[s] = 1;
        for (t = s + 1; t < l->n_stages; t++) {
            if (l->linked[(size_t)s * l->n_stages + t] && l->depth[t] >= l->depth[s]) {
                l->depth[s] = l->depth[t] + 1;
            }
        }
    }
    *l->steps -= p->n_edges / 8 < *l->steps ? p->n_edges / 8 : *l->steps;
}

static double workspace_of(const struct local *l, uint32_t s)
{
    double most = 0;
    uint32_t v;

    for (v = l->loads[s].first; v != NONE; v = l->next[v]) {
        most = fmax(most, l->problem->workspace_bytes[v]);
    }
    return most;
}

static bool fits(struct local *l)
{
    uint32_t s;

    if (l->linked == NULL) {
        return true;
    }
    set_depths(l);
    for (s = 0; s < l->n_stages; s++) {
        const struct load *load = &l->loads[s];

        if (load->first != NONE &&
            !part_fits(l->problem, part_memory(l->problem, load->weight, load->saved,
                                               workspace_of(l, s), l->costs->degrees[load->k],
                                               (uint64_t)l->costs->b * l->depth[s]))) {
            return false;
        }
    }
    return true;
}

/* --- the search --------------------------------------------------------------------------------*/

static void count_step(struct local *l)
{
    if (*l->steps == 0) {
        l->stop = true;
        return;
    }
    *l->steps -= 1;
    if (*l->steps % 8192 == 0) {
        call_go_on(l->problem->host);
    }
}

struct candidate {
    uint32_t node, stage;
    int64_t ticks; /* of the stage then */
};

/* Keeps the best few, best first. */
static void keep(struct candidate *list, uint32_t *n, struct candidate one)
{
    uint32_t i;

    if (*n == TARGETS && list[TARGETS - 1].ticks <= one.ticks) {
        return;
    }
    i = *n < TARGETS ? (*n)++ : TARGETS - 1;
    for (; i > 0 && list[i - 1].ticks > one.ticks; i--) {
        list[i] = list[i - 1];
    }
    list[i] = one;
}

/* Brings s below the goal by giving away one node other than `except`, in a chain of at most `more`
   further moves. Everything is as before where that fails. */
static bool relieve(struct local *l, uint32_t s, uint32_t except, uint32_t more)
{
    struct candidate list[TARGETS];
    uint32_t n = 0, i, v, next, first, last, t;

    for (v = l->loads[s].first; v != NONE && !l->stop; v = next) {
        next = l->next[v];
        room_of(l, v, &first, &last);
        if (v == except || first == last || without(l, v, s) >= l->goal) {
            count_step(l);
            continue;
        }
        for (t = first; t <= last && !l->stop; t++) {
            int64_t then;

            count_step(l);
            if (t == s) {
                continue;
            }
            then = with(l, v, t);
            if (then >= l->goal) {
                keep(list, &n, (struct candidate){v, t, then});
                continue;
            }
            move(l, v, t);
            if (fits(l)) {
                return true;
            }
            move(l, v, s);
        }
    }
    for (i = 0; more > 0 && i < n && !l->stop; i++) {
        move(l, list[i].node, list[i].stage);
        if (ticks_of(l, s) < l->goal && relieve(l, list[i].stage, list[i].node, more - 1)) {
            return true;
        }
        move(l, list[i].node, s);
    }
    return false;
}

static uint32_t slowest(const struct local *l)
{
    uint32_t s, worst = 0;

    for (s = 1; s < l->n_stages; s++) {
        if (ticks_of(l, s) > ticks_of(l, worst)) {
            worst = s;
        }
    }
    return worst;
}

static void run(struct local *l, uint64_t *moves)
{
    while (!l->stop) {
        uint32_t s = slowest(l);

        l->goal = ticks_of(l, s);
        if (l->goal == 0 || !relieve(l, s, NONE, CHAIN - 1)) {
            break;
        }
        ++*moves;
    }
}

/* --- from a plan and to one --------------------------------------------------------------------*/

static uint32_t degree_index(const struct part_costs *c, uint32_t d)
{
    uint32_t k;

    for (k = 0; k < c->n_degrees && c->degrees[k] != d; k++) {
    }
    return k;
}

static bool load_plan(struct local *l, const struct part_plan *plan)
{
    uint32_t s, i;

    memset(l->stage_of, 0xff, (size_t)l->problem->n * sizeof *l->stage_of);
    for (s = 0; s < l->n_stages; s++) {
        l->loads[s].first = NONE;
        l->loads[s].k = degree_index(l->costs, plan->stages[s].d);
        if (l->loads[s].k == l->costs->n_degrees) {
            return false;
        }
    }
    for (s = 0; s < l->n_stages; s++) {
        for (i = plan->stages[s].n_nodes; i-- > 0;) {
            put(l, plan->stages[s].nodes[i], s);
        }
    }
    return true;
}

static void save_plan(const struct local *l, struct part_plan *plan)
{
    struct part_plan made = {NULL, 0};
    uint32_t s, at = 0;

    part_plan_init(&made, l->problem, l->stage_of, l->n_stages, l->costs->b);
    for (s = 0; s < l->n_stages; s++) {
        if (l->loads[s].first != NONE) {
            made.stages[at++].d = l->costs->degrees[l->loads[s].k];
        }
    }
    part_plan_finish(plan);
    *plan = made;
}

void moves_run(const struct part_problem *p, const struct part_costs *c, struct part_plan *plan,
               uint64_t *steps, uint64_t *moves)
{
    uint64_t before = *moves;
    size_t n = (size_t)p->n + 1, n_stages = plan->n_stages;
    bool limited = p->capacity_bytes < (double)UINT64_MAX;
    struct call_region region;
    struct local l;

    call_enter(&region);
    l = (struct local){
        .problem = p,
        .costs = c,
        .n_stages = plan->n_stages,
        .loads = call_alloc(n_stages + 1, sizeof *l.loads),
        .stage_of = call_alloc(n, sizeof *l.stage_of),
        .next = call_alloc(n, sizeof *l.next),
        .last = call_alloc(n, sizeof *l.last),
        .depth = call_alloc(n_stages + 1, sizeof *l.depth),
        .linked = limited ? call_alloc(n_stages * n_stages + 1, sizeof *l.linked) : NULL,
        .steps = steps,
    };
    if (!load_plan(&l, plan)) {
        call_end(PST_ERR_BUG);
    }
    run(&l, moves);
    if (*moves > before) {
        save_plan(&l, plan);
        call_keep(plan->stages);
    }
    call_leave(&region);
    call_go_on(p->host);
}
