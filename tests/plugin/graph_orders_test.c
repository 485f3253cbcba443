/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedulers that claim what no order goes below, on random graphs of stages, against all orders
 * there are: their own order is timed as it runs, the claim is true, and where they say so the
 * order is the best.
 */
#include "schedule_rig.h"

#include "conformance/problem.h" /* random numbers */

enum { ROUNDS = 60, MAX_STAGES = 6, MAX_M = 3, F = 0, B = 1, W = 2, KINDS = 3 };

struct graph {
    uint32_t n_devices, n_stages, m, n_links;
    uint32_t device[MAX_STAGES];
    uint64_t time[MAX_STAGES][KINDS], bytes[MAX_STAGES], weight_bytes[MAX_STAGES];
    uint64_t room[MAX_STAGES]; /* of devices */
    struct pst_schedule_link links[MAX_STAGES * MAX_STAGES];
};

/* --- all orders, one by one --------------------------------------------------------------------*/

/* An order grows by the pass that starts next; of several that start at once and take time, by
   that of the first device. So each order comes by once. */
struct walk {
    const struct graph *graph;
    bool span;
    uint64_t least; /* only what costs less is followed */
    uint32_t done[MAX_STAGES][KINDS];
    uint64_t end[MAX_STAGES][KINDS][MAX_M];
    uint64_t clock[MAX_STAGES], start[MAX_STAGES], work[MAX_STAGES], held[MAX_STAGES];
    uint64_t now;    /* start of the last pass */
    uint32_t device; /* of it; 0 where it took no time */
    uint32_t left;
};

/* When all is there that the next pass needs; UINT64_MAX: not yet. */
static uint64_t arrival(const struct walk *x, uint32_t stage, uint32_t kind)
{
    const struct graph *graph = x->graph;
    uint32_t j = x->done[stage][kind];
    uint64_t at = 0;

    if (j == graph->m || (kind != F && x->done[stage][kind - 1] <= j)) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < graph->n_links && kind != W; i++) {
        const struct pst_schedule_link *link = &graph->links[i];
        uint32_t other = kind == F ? link->from : link->to;
        uint64_t late =
            graph->device[link->from] == graph->device[link->to] ? 0 : link->transfer_ns;

        if ((kind == F ? link->to : link->from) != stage) {
            continue;
        }
        if (x->done[other][kind] <= j) {
            return UINT64_MAX;
        }
        late += x->end[other][kind][j];
        at = late > at ? late : at;
    }
    return at;
}

/* Can all that is left still end for less? Each device has its work left to do. */
static bool is_open(const struct walk *x)
{
    for (uint32_t d = 0; d < x->graph->n_devices; d++) {
        uint64_t from = x->work[d] > 0 && x->clock[d] < x->now ? x->now : x->clock[d];
        uint64_t cost = from + x->work[d];

        if (x->span) {
            cost = x->start[d] == UINT64_MAX ? x->work[d] : cost - x->start[d];
        }
        if (cost >= x->least) {
            return false;
        }
    }
    return true;
}

static void walk(struct walk *x);

static void walk_on(struct walk *x, uint32_t stage, uint32_t kind, uint64_t start)
{
    const struct graph *graph = x->graph;
    uint32_t d = graph->device[stage];
    struct walk before = *x;

    if (kind == F && (x->held[d] += graph->bytes[stage]) > graph->room[d]) {
        *x = before;
        return;
    }
    x->held[d] -= kind == B   ? graph->bytes[stage] - graph->weight_bytes[stage]
                  : kind == W ? graph->weight_bytes[stage]
                              : 0;
    x->start[d] = x->start[d] == UINT64_MAX ? start : x->start[d];
    x->clock[d] = start + graph->time[stage][kind];
    x->work[d] -= graph->time[stage][kind];
    x->end[stage][kind][x->done[stage][kind]++] = x->clock[d];
    x->now = start;
    x->device = graph->time[stage][kind] > 0 ? d : 0;
    x->left--;
    if (is_open(x)) {
        walk(x);
    }
    before.least = x->least;
    *x = before;
}

static void walk(struct walk *x)
{
    if (x->left == 0) { /* nothing is left to do, and it is open */
        x->least = 0;
        for (uint32_t d = 0; d < x->graph->n_devices; d++) {
            uint64_t cost = x->clock[d] - (x->span && x->clock[d] > 0 ? x->start[d] : 0);

            x->least = cost > x->least ? cost : x->least;
        }
        return;
    }
    for (uint32_t stage = 0; stage < x->graph->n_stages; stage++) {
        for (uint32_t kind = F; kind <= W; kind++) {
            uint32_t d = x->graph->device[stage];
            uint64_t start = arrival(x, stage, kind);

            if (start == UINT64_MAX) {
                continue;
            }
            start = start > x->clock[d] ? start : x->clock[d];
            if (start > x->now || (start == x->now && d >= x->device)) {
                walk_on(x, stage, kind, start);
            }
        }
    }
}

/* The least cost of all orders; `known` where none costs less. */
static uint64_t least_of_all(const struct graph *graph, bool span, uint64_t known)
{
    struct walk x = {
        .graph = graph, .span = span, .least = known, .left = KINDS * graph->n_stages * graph->m};

    memset(x.start, 0xFF, sizeof x.start);
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        for (uint32_t kind = F; kind <= W; kind++) {
            x.work[graph->device[s]] += graph->m * graph->time[s][kind];
        }
    }
    walk(&x);
    return x.least;
}

/* --- schedulers --------------------------------------------------------------------------------*/

enum placement { LINE, V, LOOPED }; /* one stage each; two: there and back, or round and round */

struct variant {
    const char *id, *options;
    enum placement placement;
    bool span, exact; /* the span is made small, not the makespan; the order is the best */
};

/* Links of any graph; with `dense` 4 those of the chain. */
static void draw_links(struct graph *graph, uint64_t dense, uint64_t *random)
{
    for (uint32_t s = 1; s < graph->n_stages; s++) {
        for (uint32_t from = 0; from < s; from++) {
            if (dense == 4 ? from + 1 == s : pst_random_between(random, 0, 3) < dense) {
                graph->links[graph->n_links++] =
                    (struct pst_schedule_link){from, s, pst_random_between(random, 0, 4)};
            }
        }
    }
}

static void draw(struct graph *graph, const struct variant *v, uint64_t *random)
{
    static const uint32_t sizes[][2] = {{1, 3}, {2, 2}, {2, 2}, {2, 2}, {3, 1}};
    static const uint32_t lines[][2] = {{2, 3}, {3, 2}, {3, 2}, {4, 1}, {4, 2}};
    bool line = v->placement == LINE;
    const uint32_t *size = (line ? lines : sizes)[pst_random_between(random, 0, 4)];
    bool all_waits = pst_random_between(random, 0, 2) == 0; /* B frees nothing */
    uint64_t caps = pst_random_between(random, 1, 4);       /* micro-batches, roughly */
    uint64_t both[MAX_STAGES] = {0};

    *graph = (struct graph){.n_devices = size[0], .m = size[1]};
    graph->n_stages = line ? size[0] : 2 * size[0];
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        uint32_t d = s < graph->n_devices     ? s
                     : v->placement == LOOPED ? s - graph->n_devices
                                              : graph->n_stages - 1 - s;

        graph->device[s] = d;
        for (uint32_t kind = F; kind <= W; kind++) {
            bool none = kind == W && pst_random_between(random, 0, 5) == 0;

            graph->time[s][kind] = none ? 0 : pst_random_between(random, 1, 6);
        }
        graph->bytes[s] = pst_random_between(random, 2, 6);
        graph->weight_bytes[s] =
            all_waits ? graph->bytes[s] : pst_random_between(random, 0, graph->bytes[s]);
        both[d] += graph->bytes[s];
        graph->room[d] = caps == 4 ? UINT64_MAX : caps * both[d] + pst_random_between(random, 0, 2);
    }
    draw_links(graph, pst_random_between(random, 1, 4), random);
}

static void apply(struct pst_order_question *asked, void *context)
{
    const struct graph *graph = context;

    assert_int_equal(asked->in.n_stages, graph->n_stages);
    for (uint32_t s = 0; s < graph->n_stages; s++) {
        assert_int_equal(asked->stages[s].device, graph->device[s]);
        asked->stages[s].forward_ns = graph->time[s][F];
        asked->stages[s].backward_input_ns = graph->time[s][B];
        asked->stages[s].backward_weight_ns = graph->time[s][W];
        asked->stages[s].saved_bytes = graph->bytes[s];
        asked->stages[s].saved_weight_bytes = graph->weight_bytes[s];
    }
    for (uint32_t d = 0; d < graph->n_devices; d++) {
        asked->activation_bytes[d] = graph->room[d];
    }
    schedule_connect(asked, graph->links, graph->n_links);
}

static void check(const struct variant *v, struct graph *graph, uint32_t round)
{
    OWN_RUN run = SCHEDULE(v->id, .options = v->options, .p = graph->n_devices, .m = graph->m,
                           .change = apply, .context = graph);
    const struct pst_claimed *claim = &run.answer.claim;
    uint64_t cost = v->span ? run.span_ns : run.makespan_ns;
    uint64_t least = least_of_all(graph, v->span, cost);

    assert_true(run.answer.claim.size != 0);
    assert_int_equal(claim->minimised, v->span ? 2 : 1);
    if (claim->makespan_ns != 0) {
        assert_int_equal(claim->makespan_ns, run.makespan_ns);
    }
    if (claim->span_ns != 0) {
        assert_int_equal(claim->span_ns, run.span_ns);
    }
    for (uint32_t d = 0; d < graph->n_devices; d++) {
        assert_true(run.eval.peak_bytes[d] <= graph->room[d]);
    }
    if (claim->lower_bound_ns > least ||
        (v->exact && (cost != least || claim->lower_bound_ns != least))) {
        fail_msg("%s %s round %u: %lu, bound %lu; the best of all orders has %lu", v->id,
                 v->options, round, (unsigned long)cost, (unsigned long)claim->lower_bound_ns,
                 (unsigned long)least);
    }
}

TEST(test_against_all_orders)
{
    static const struct variant variants[] = {
        {"optimal", "objective=makespan", LINE, false, true},
        {"optimal", "objective=span", LINE, true, true},
        {"optimal", "placement=vshape", V, false, true},
        {"optimal", "placement=vshape,objective=span", V, true, true},
        {"optimal", "placement=looped", LOOPED, false, true},
        {"optimal", "placement=looped,objective=span", LOOPED, true, true},
        {"v-adaptive", "objective=makespan", V, false, true},
        {"v-adaptive", "objective=span", V, true, true},
        {"v-adaptive", "objective=makespan,exact=0", V, false, false},
        {"v-adaptive", "objective=span,effort=0", V, true, false},
        {"v-adaptive", "objective=span,robust=0.2", V, true, false},
    };
    uint64_t random = 11;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
            struct graph graph;

            draw(&graph, &variants[i], &random);
            check(&variants[i], &graph, round);
        }
    }
}
