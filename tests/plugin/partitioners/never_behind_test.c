/* SPDX-License-Identifier: Apache-2.0
 *
 * On problem files no partitioner has a shorter step than stage-graph, as the host times them all:
 * random graphs, replicas, links and memory, and plans with a size for each. Plans that count
 * memory or replicas in a way of their own are no rivals.
 */
#include <math.h>
#include "test.h"

#include "ask_rig.h"

enum { ROUNDS = 50, MOST_NODES = 12 };

/* INFINITY: refuses, or counts otherwise. */
static double step_of(const struct rig_case *c, const char *id)
{
    struct pst_partition_result result;
    struct pst_error err;
    double ns;

    if (ask_rig(c, id, NULL, NULL, &result, &err) != PST_OK) {
        return INFINITY;
    }
    ns = isnan(ask_number(&result, "stage_bytes", NAN)) &&
                 isnan(ask_number(&result, "worst_stage_bytes", NAN)) &&
                 isnan(ask_number(&result, "own_width", NAN))
             ? result.step_ns
             : INFINITY;
    pst_partition_result_finish(&result);
    return ns;
}

TEST(test_problems)
{
    static const char *const rivals[] = {"graphpipe", "chain-dp", "pipedream", "piper",  "dapple",
                                         "dawnpiper", "tideline", "vpipe",     "greedy", "uniform"};
    uint64_t rng = 2011;
    uint32_t n_behind = 0, n_ahead = 0;

    for (int round = 0; round < ROUNDS; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        double ours, best = INFINITY;
        const char *who = "";

        ask_draw_graph(&g, MOST_NODES, &rng);
        ask_draw_case(&c, &g, &rng);
        ours = step_of(&c, "stage-graph");
        for (size_t i = 0; i < sizeof rivals / sizeof rivals[0]; i++) {
            double step = step_of(&c, rivals[i]);

            who = step < best ? rivals[i] : who;
            best = fmin(best, step);
        }
        n_ahead += ours < best * (1 - 1e-9);
        if (ours > best * (1 + 1e-9)) {
            n_behind++;
            print_message("round %d: %g us, %s %g\n", round, ours / 1000, who, best / 1000);
        }
    }
    print_message("ahead of all in %u, behind in %u\n", n_ahead, n_behind);
    assert_int_equal(n_behind, 0);
    assert_true(n_ahead > ROUNDS / 10);
}
