/* SPDX-License-Identifier: Apache-2.0
 *
 * Which recomputed operators run again. The model: two linear layers with a ReLU, whose backward
 * reads its result; a third without, whose result only the loss reads; the loss.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "unit/graph/model_support.h"

enum { KEEP = PST_ACTION_KEEP, AGAIN = PST_ACTION_RECOMPUTE };

static void expect(const struct pst_graph *graph, const uint32_t *nodes, uint32_t n,
                   const uint8_t *actions, const bool *expected)
{
    const struct pst_plan_stage stage = {.nodes = nodes, .n_nodes = n, .actions = actions};
    uint32_t replayed[4];

    memset(replayed, 7, sizeof replayed);
    pst_plan_replayed(&stage, graph, replayed);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(replayed[i], expected[i]);
    }
}

static void only_what_is_read(void **state)
{
    static const uint32_t nodes[] = {0, 1, 2, 3};
    static const uint8_t all[] = {AGAIN, AGAIN, AGAIN, AGAIN}, none[] = {KEEP, KEEP, KEEP, KEEP};
    static const uint8_t middle[] = {KEEP, AGAIN, KEEP, KEEP};
    struct pst_graph *graph =
        make_model("mlp", "inputs=4 hidden=8 layers=2 classes=3 act=relu", PST_F32);

    (void)state;
    assert_int_equal(graph->n_ops, 4);
    expect(graph, nodes, 4, none, (const bool[]){false, false, false, false});
    /* the loss reads its input backward, and what it wrote beside itself */
    expect(graph, nodes, 4, all, (const bool[]){true, true, true, true});
    /* cut before it: the last layer's result is the next stage's */
    expect(graph, nodes, 3, all, (const bool[]){true, true, false, false});
    expect(graph, &nodes[2], 1, all, (const bool[]){false});
    expect(graph, nodes, 4, middle, (const bool[]){false, true, false, false});
    pst_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_is_read)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
