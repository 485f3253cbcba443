/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of partitioners on any problem. Whoever searches for an
 * optimum is held to what its own definition promises: more devices, more
 * memory and faster links never worsen it, another topological order of the
 * file or an operator that costs nothing changes nothing. For all of them units
 * do not matter: of time, of bytes.
 */
#include <math.h>
#include "test.h"

#include "ask_rig.h"

enum { DEVICES = 1, MEMORY = 2, LINKS = 4, ORDER = 8, NOTHING = 16 };
/* ample: its own laws know nothing of the memory by which the answer is judged.
   once: what several stages read is sent once, so that something in the middle
   of one of several edges is sent too. */
enum { AMPLE = 32, COMPUTE = 64, ONCE = 128 };

/* pipedream's recurrence and piper's hold plans against the problem's memory
   only afterwards; graphpipe without refine cuts orders where its family has
   nothing that fits, and they may be better; dapple's latency, which is told from one pivot,
   may grow where a step of the pipeline shrinks. */
static const struct planner {
    const char *id, *options, *value; /* a remark, or NULL: the bottleneck by the reference model */
    unsigned laws;
} planners[] = {
    {"uniform", "{}", NULL, 0},
    {"uniform", "{\"balance\": \"cost\"}", NULL, 0},
    {"greedy", "{}", NULL, COMPUTE | AMPLE | DEVICES | NOTHING},
    {"chain-dp", "{}", NULL, DEVICES | MEMORY | LINKS | NOTHING},
    {"chain-dp", "{\"order\": \"best\"}", NULL, DEVICES | MEMORY | LINKS | ORDER | NOTHING},
    {"graphpipe", "{\"refine\": false}", NULL, AMPLE | DEVICES | LINKS},
    {"stage-graph", "{\"objective\": \"bottleneck\"}", NULL,
     DEVICES | MEMORY | LINKS | ORDER | NOTHING},
    {"pipedream", "{\"use_fewer_machines\": true}", "bottleneck_us_per_sample",
     AMPLE | DEVICES | LINKS | NOTHING},
    {"pipedream", "{\"use_fewer_machines\": true, \"states\": \"downsets\"}",
     "bottleneck_us_per_sample", AMPLE | DEVICES | LINKS | ORDER | NOTHING},
    {"pipedream", "{\"use_fewer_machines\": true, \"objective\": \"paper\"}",
     "bottleneck_us_per_sample", AMPLE | DEVICES | LINKS | NOTHING | ONCE},
    {"pipedream", "{\"objective\": \"reference\"}", "bottleneck_us_per_sample",
     DEVICES | MEMORY | LINKS | NOTHING},
    {"pipedream", "{\"objective\": \"reference\", \"states\": \"downsets\"}",
     "bottleneck_us_per_sample", DEVICES | MEMORY | LINKS | ORDER | NOTHING},
    {"piper", "{}", "bottleneck_us_per_sample", AMPLE | DEVICES | LINKS | ORDER | NOTHING},
    {"dapple", "{\"beam\": 0}", "latency_us", MEMORY},
    {"dapple", "{}", "latency_us", 0},
    {"pipedream-2bw", "{\"even\": false, \"allow_idle\": true}", "bottleneck_us_per_sample",
     DEVICES | MEMORY | LINKS | NOTHING | ONCE},
    {"pipedream-2bw", "{\"schedule\": \"best\"}", "bottleneck_us_per_sample", MEMORY | LINKS},
};

enum { N_PLANNERS = sizeof planners / sizeof *planners };

/* What the planner made of it, us; INFINITY: nothing fits. */
static double ask(const struct rig_case *c, const struct planner *planner)
{
    struct pst_partition_result result;
    struct pst_error err;
    double us = 0;
    pst_status st = ask_rig(c, planner->id, planner->options, NULL, &result, &err);

    if (st == PST_ERR_INFEASIBLE) {
        return INFINITY;
    }
    if (st != PST_OK) {
        fail_msg("%s: %s", planner->id, err.message);
    }
    us = ask_number(&result, planner->value, result.bottleneck_ns / 1000);
    for (uint32_t s = 0; planner->laws & COMPUTE && s < result.n_stages; s++) {
        double own = result.stages[s].compute_per_sample_ns / 1000;

        us = s == 0 ? own : fmax(us, own);
    }
    pst_partition_result_finish(&result);
    return us;
}

static const char *of(const struct planner *planner)
{
    static char text[128];

    snprintf(text, sizeof text, "%s %s", planner->id, planner->options);
    return text;
}

static void expect_same(double is, double was, const struct planner *planner, const char *law,
                        unsigned round)
{
    if (is != was && !(fabs(is - was) <= 1e-9 * fabs(was))) {
        fail_msg("round %u, %s: %s: %.15g us, was %.15g us", round, of(planner), law, is, was);
    }
}

static void expect_no_worse(double is, double was, const struct planner *planner, const char *law,
                            unsigned round)
{
    if (is > was * (1 + 1e-9)) {
        fail_msg("round %u, %s: %s: %.15g us, was %.15g us", round, of(planner), law, is, was);
    }
}

/* --- units -------------------------------------------------------------------------------------*/

static void scale(double *list, uint32_t n, double by)
{
    for (uint32_t i = 0; i < n; i++) {
        list[i] *= by;
    }
}

TEST(test_units)
{
    const uint64_t seed = 331;
    uint32_t n_fit = 0;

    for (unsigned round = 0; round < 40; round++) {
        uint64_t rng = seed * 1000003 + round;
        double first[N_PLANNERS];
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;

        ask_draw_graph(&g, 12, &rng);
        if (round % 2 == 1) { /* alike, so that plans are as good but for rounding */
            rig_costs(&g, RIG_FLAT, &rng);
            scale(g.tau, g.n, 1.0 / 7);
        }
        ask_draw_case(&c, &g, &rng);
        for (int i = 0; i < N_PLANNERS; i++) {
            first[i] = ask(&c, &planners[i]);
            n_fit += !isinf(first[i]);
        }
        scale(g.tau, g.n, 3);
        scale(g.alpha, g.n, 3);
        c.p2p /= 3;
        c.allreduce /= 3;
        for (int i = 0; i < N_PLANNERS; i++) {
            expect_same(ask(&c, &planners[i]), 3 * first[i], &planners[i], "times by 3", round);
        }
        scale(g.weight, g.n, 7);
        scale(g.saved, g.n, 7);
        scale(g.workspace, g.n, 7);
        scale(g.bytes, g.n_edges, 7);
        c.p2p *= 7;
        c.allreduce *= 7;
        c.memory *= 7;
        for (int i = 0; i < N_PLANNERS; i++) {
            expect_same(ask(&c, &planners[i]), 3 * first[i], &planners[i], "bytes by 7", round);
        }
    }
    assert_true(n_fit > 40 * N_PLANNERS / 2);
}

/* --- more of something -------------------------------------------------------------------------*/

/* One size that all degrees divide: with several a planner may prefer the
 * shorter step. */
static void draw_whole(struct rig_case *c, const struct rig_graph *g, uint64_t *rng)
{
    static const uint32_t degrees[] = {1, 2, 4};

    ask_draw_case(c, g, rng);
    c->sizes = NULL;
    c->b = rig_draw(rng, 0, 1) == 1 ? 4 : 8;
    c->degrees = degrees;
    c->n_degrees = (uint32_t)rig_draw(rng, 2, 3);
}

static struct rig_case case_for(const struct rig_case *c, const struct planner *planner)
{
    struct rig_case made = *c;

    made.memory = planner->laws & AMPLE ? (double)INFINITY : c->memory;
    return made;
}

struct growth {
    unsigned law;
    const char *words;
    uint32_t devices;
    double memory, links;
};

TEST(test_more)
{
    static const struct growth growths[] = {{DEVICES, "a device more", 1, 1, 1},
                                            {MEMORY, "more memory", 0, 1.25, 1},
                                            {LINKS, "faster links", 0, 1, 1.5}};
    const uint64_t seed = 332;
    uint32_t n_better[3] = {0};

    for (unsigned round = 0; round < 40; round++) {
        uint64_t rng = seed * 1000003 + round;
        struct rig_graph g;
        struct rig_case c;

        ask_draw_graph(&g, 9, &rng);
        draw_whole(&c, &g, &rng);
        for (int i = 0; i < N_PLANNERS; i++) {
            struct rig_case base = case_for(&c, &planners[i]);
            double was = ask(&base, &planners[i]);

            for (int k = 0; k < 3; k++) {
                struct rig_case more = base;
                double is;

                if ((planners[i].laws & growths[k].law) == 0) {
                    continue;
                }
                more.devices += growths[k].devices;
                more.memory *= growths[k].memory;
                more.p2p *= growths[k].links;
                more.allreduce *= growths[k].links;
                is = ask(&more, &planners[i]);
                expect_no_worse(is, was, &planners[i], growths[k].words, round);
                n_better[k] += is < was * (1 - 1e-9);
            }
        }
        rig_graph_finish(&g);
    }
    print_message("better: %u with devices, %u with memory, %u with links\n", n_better[0],
                  n_better[1], n_better[2]);
    assert_true(n_better[0] > 10 && n_better[1] > 10 && n_better[2] > 10);
}

/* --- the same in other words -------------------------------------------------------------------*/

static void copy_node(const struct rig_graph *from, uint32_t v, struct rig_graph *to, uint32_t w)
{
    to->tau[w] = from->tau[v];
    to->alpha[w] = from->alpha[v];
    to->weight[w] = from->weight[v];
    to->saved[w] = from->saved[v];
    to->workspace[w] = from->workspace[v];
}

/* A random topological order becomes the order of the file. */
static void relabel(const struct rig_graph *g, struct rig_graph *ret, uint64_t *rng)
{
    uint32_t place[64], waits[64] = {0};
    bool done[64] = {false};

    assert_true(g->n <= 64);
    rig_graph_init(ret, g->n);
    ret->forward_share = g->forward_share;
    for (uint32_t e = 0; e < g->n_edges; e++) {
        waits[g->to[e]]++;
    }
    for (uint32_t at = 0; at < g->n; at++) {
        uint32_t v = (uint32_t)rig_draw(rng, 0, g->n - 1);

        while (done[v] || waits[v] > 0) {
            v = (v + 1) % g->n;
        }
        done[v] = true;
        place[v] = at;
        copy_node(g, v, ret, at);
        for (uint32_t e = 0; e < g->n_edges; e++) {
            waits[g->to[e]] -= g->from[e] == v;
        }
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        rig_edge(ret, place[g->from[e]], place[g->to[e]], g->bytes[e]);
    }
    rig_sort(ret);
}

/* An operator that costs nothing in the middle of edge `at`, right behind where
 * the edge begins. */
static void insert_nothing(const struct rig_graph *g, uint32_t at, struct rig_graph *ret)
{
    uint32_t from = g->from[at], made = from + 1;

    rig_graph_init(ret, g->n + 1);
    ret->forward_share = g->forward_share;
    for (uint32_t v = 0; v < g->n; v++) {
        copy_node(g, v, ret, v + (v > from));
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        uint32_t u = g->from[e] + (g->from[e] > from), w = g->to[e] + (g->to[e] > from);

        if (e == at) {
            rig_edge(ret, u, made, g->bytes[e]);
            rig_edge(ret, made, w, g->bytes[e]);
        } else {
            rig_edge(ret, u, w, g->bytes[e]);
        }
    }
    rig_sort(ret);
}

static bool is_sole(const struct rig_graph *g, uint32_t at)
{
    uint32_t n = 0;

    for (uint32_t e = 0; e < g->n_edges; e++) {
        n += g->from[e] == g->from[at];
    }
    return n == 1;
}

TEST(test_other_words)
{
    const uint64_t seed = 333;
    uint32_t n_orders = 0, at = 0;

    for (unsigned round = 0; round < 40; round++) {
        uint64_t rng = seed * 1000003 + round;
        FINISHED_BY(rig_graph_finish) struct rig_graph g, other, longer;
        struct rig_case c;

        ask_draw_graph(&g, 8, &rng);
        draw_whole(&c, &g, &rng);
        relabel(&g, &other, &rng);
        n_orders += memcmp(g.tau, other.tau, g.n * sizeof *g.tau) != 0;
        if (g.n_edges > 0) {
            at = (uint32_t)rig_draw(&rng, 0, g.n_edges - 1);
            insert_nothing(&g, at, &longer);
        }
        for (int i = 0; i < N_PLANNERS; i++) {
            struct rig_case base = case_for(&c, &planners[i]), same = base;
            double was = ask(&base, &planners[i]);

            if (planners[i].laws & ORDER) {
                same.graph = &other;
                expect_same(ask(&same, &planners[i]), was, &planners[i], "another order", round);
            }
            if (planners[i].laws & NOTHING && g.n_edges > 0 &&
                (!(planners[i].laws & ONCE) || is_sole(&g, at))) {
                same.graph = &longer;
                expect_same(ask(&same, &planners[i]), was, &planners[i], "nothing more", round);
            }
        }
        if (g.n_edges > 0) {
            rig_graph_finish(&longer);
        }
    }
    assert_true(n_orders > 10);
}
