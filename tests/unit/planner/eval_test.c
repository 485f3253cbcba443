/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluator of memory plans against worked examples done by hand; e2e/memopt_test.txt has more
 * of them, with the least of all plans. Rules, and stages that are absurd.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

static void expect(const struct stage *s, const char *plan, uint64_t peak, uint64_t extra)
{
    struct pst_stage_value value = value_of_letters(s, plan);

    if (!value.legal || value.peak_bytes != peak || value.extra_ns != extra) {
        fail_msg("%s: legal %u, peak %llu extra %llu; expected %llu and %llu", plan, value.legal,
                 (unsigned long long)value.peak_bytes, (unsigned long long)value.extra_ns,
                 (unsigned long long)peak, (unsigned long long)extra);
    }
}

TEST(test_offloading)
{
    struct stage s;

    stage_init(&s, 4, 4, 1);
    s.view.link_bytes_per_s = 1000000000; /* one byte per tick */
    add_link(&s, 1, 2, 2);
    add_link(&s, 1, 2, 2);
    expect(&s, "KS", 4 + 3 * (1 + 2) + 2 + 1 + 4, 0);

    /* Both directions on one link take twice as long: 2 x 2 x 2 bytes against a period of 6. */
    s.view.link_directions = 2;
    expect(&s, "SS", 4 + 3 * 1 + 4 + 1 + 4, 2);
}

TEST(test_skip_connection)
{
    struct stage s;
    uint8_t actions[4];
    struct pst_stage_value value;

    stage_init(&s, 2, 0, 1);
    add_node(&s, 2, 4, 3, 0, 0, 0);
    add_node(&s, 1, 2, 3, 0, 0, 1);
    add_node(&s, 1, 2, 3, 0, 0, 2);
    add_node(&s, 2, 4, 3, 0, 0, 4 | 1);
    expect(&s, "RKKK", 23, 2);
    letters("RKKR", actions);
    value = value_of(&s, actions);
    assert_int_equal(value.legal, 0);
    assert_int_equal(value.node, 3);
    assert_non_null(value.rule);
}

TEST(test_workspace)
{
    struct stage s;

    stage_init(&s, 1, 0, 2);
    add_node(&s, 1, 2, 4, 0, 4, 0);
    add_node(&s, 2, 4, 4, 0, 4, 1);
    add_node(&s, 3, 6, 4, 0, 4, 2);
    expect(&s, "KKK", 18, 0);
    expect(&s, "RKK", 14, 1);
}

TEST(test_rules_of_single_nodes)
{
    struct stage s;
    uint8_t actions[2] = {PST_ACTION_RECOMPUTE, PST_ACTION_KEEP};

    stage_init(&s, 2, 0, 0);
    add_link(&s, 1, 1, 1);
    add_link(&s, 1, 1, 1);
    s.nodes[0].flags = PST_NODE_NO_RECOMPUTE;
    assert_int_equal(value_of(&s, actions).node, 0);
    s.nodes[0].flags = PST_NODE_NO_OFFLOAD;
    actions[0] = PST_ACTION_OFFLOAD;
    assert_int_equal(value_of(&s, actions).legal, 0);
    s.nodes[0].flags = 0; /* but there is no link */
    assert_int_equal(value_of(&s, actions).legal, 0);
    s.view.link_bytes_per_s = 1;
    assert_int_equal(value_of(&s, actions).legal, 1);
    s.view.host_capacity_bytes = 1; /* two in flight need two bytes */
    assert_int_equal(value_of(&s, actions).legal, 0);
    s.view.host_capacity_bytes = 2;
    assert_int_equal(value_of(&s, actions).legal, 1);
    s.nodes[0].action = PST_ACTION_RECOMPUTE; /* decided before */
    assert_int_equal(value_of(&s, actions).legal, 0);
    s.nodes[0].action = PST_ACTION_OFFLOAD;
    assert_int_equal(value_of(&s, actions).legal, 1);
    actions[1] = PST_ACTION_PEER;
    assert_int_equal(value_of(&s, actions).node, 1);
}

TEST(test_absurd_stages)
{
    struct stage s;

    stage_init(&s, 0, 5, 3);
    assert_int_equal(value_of(&s, NULL).peak_bytes, 8); /* no nodes, nothing in flight */
    stage_init(&s, UINT32_MAX, 0, UINT64_MAX / 2);
    add_link(&s, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    add_link(&s, 0, 0, UINT64_MAX);
    assert_true(value_of(&s, NULL).peak_bytes == UINT64_MAX);
    assert_true(value_of(&s, NULL).period_ns == UINT64_MAX);
}
