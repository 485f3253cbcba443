/* SPDX-License-Identifier: Apache-2.0
 *
 * graphpipe with refine against every partitioner that makes a sequence of stages, on random small
 * problems under the reference cost model: none of them has a plan with a smaller bottleneck, also
 * where degrees make them enlarge the micro-batches that are offered.
 */
#include <math.h>
#include "test.h"

#include "ask_rig.h"

static const struct {
    const char *id, *options;
} planners[] = {
    {"uniform", "{}"},
    {"uniform", "{\"balance\": \"cost\"}"},
    {"greedy", "{}"},
    {"greedy", "{\"order\": \"dfs\"}"},
    {"chain-dp", "{}"},
    {"chain-dp", "{\"order\": \"best\"}"},
    {"pipedream", "{}"},
    {"pipedream", "{\"objective\": \"paper\"}"},
    {"pipedream", "{\"objective\": \"reference\", \"states\": \"downsets\"}"},
    {"piper", "{}"},
    {"dapple", "{}"},
    {"pipedream-2bw", "{}"},
    {"pipedream-2bw", "{\"schedule\": \"flush\"}"},
};

/* Does the plan fit by the reference model, whatever its maker counts? */
static bool fits(const struct rig_case *c, const struct pst_partition_result *r)
{
    uint32_t stage_of[64], d[64];
    struct rig_case same = *c;

    same.b = r->stages[0].microbatch_size;
    for (uint32_t s = 0; s < r->n_stages; s++) {
        assert_int_equal(r->stages[s].microbatch_size, same.b);
        d[s] = r->stages[s].n_ranks;
        for (uint32_t i = 0; i < r->stages[s].n_nodes; i++) {
            stage_of[r->stages[s].nodes[i]] = s;
        }
    }
    return rig_judge(&same, stage_of, r->n_stages, d, false).fits;
}

/* Plans of planners with limits of their own on memory or replicas answer another problem. */
static bool is_comparable(const struct rig_case *c, const struct pst_partition_result *r)
{
    for (uint32_t s = 0; s < r->n_stages; s++) {
        bool allowed = c->degrees == NULL && r->stages[s].n_ranks == 1;

        for (uint32_t k = 0; c->degrees != NULL && k < c->n_degrees; k++) {
            allowed = allowed || c->degrees[k] == r->stages[s].n_ranks;
        }
        if (!allowed) {
            return false;
        }
    }
    return fits(c, r);
}

struct tally {
    uint32_t compared, ahead, enlarged;
};

static void compare(const struct rig_case *c, struct pst_partition_result *graph, bool found,
                    const char *where, struct tally *tally)
{
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) {
        struct pst_partition_result other;
        struct pst_error err;
        pst_status st = ask_rig(c, planners[i].id, planners[i].options, NULL, &other, &err);

        if (st == PST_ERR_INFEASIBLE) {
            continue;
        }
        if (st != PST_OK) {
            fail_msg("%s: %s: %s", where, planners[i].id, err.message);
        }
        if (is_comparable(c, &other)) {
            tally->compared++;
            if (!found) {
                fail_msg("%s: graphpipe finds nothing, %s %s does", where, planners[i].id,
                         planners[i].options);
            }
            tally->ahead += other.bottleneck_ns > graph->bottleneck_ns * (1 + 1e-9);
            tally->enlarged += other.stages[0].microbatch_size > c->sizes[c->n_sizes - 1];
            if (graph->bottleneck_ns > other.bottleneck_ns * (1 + 1e-9)) {
                fail_msg("%s: graphpipe %.12g us, b %u; %s %s %.12g us, b %u", where,
                         graph->bottleneck_ns / 1000, graph->stages[0].microbatch_size,
                         planners[i].id, planners[i].options, other.bottleneck_ns / 1000,
                         other.stages[0].microbatch_size);
            }
        }
        pst_partition_result_finish(&other);
    }
}

TEST(test_never_behind)
{
    const uint64_t seed = 20261;
    struct tally tally = {0};

    for (unsigned round = 0; round < 120; round++) {
        uint64_t rng = seed * 1000003 + round;
        struct pst_partition_result graph;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct pst_error err;
        char where[64];
        pst_status st;

        snprintf(where, sizeof where, "seed %llu, round %u", (unsigned long long)seed, round);
        ask_draw_graph(&g, rig_draw(&rng, 0, 9) == 0 ? 30 : 12, &rng);
        ask_draw_case(&c, &g, &rng);
        st = ask_rig(&c, "graphpipe", "{\"refine\": true}", NULL, &graph, &err);
        if (st != PST_OK && st != PST_ERR_INFEASIBLE) {
            fail_msg("%s: %s", where, err.message);
        }
        compare(&c, &graph, st == PST_OK, where, &tally);
        if (st == PST_OK) {
            pst_partition_result_finish(&graph);
        }
    }
    print_message("%u compared, graphpipe ahead in %u; %u of enlarged micro-batches\n",
                  tally.compared, tally.ahead, tally.enlarged);
    assert_true(tally.enlarged > 0 && tally.ahead > 0);
}
