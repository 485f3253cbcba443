/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluator of memory plans against worked examples done by hand, and against enumeration of
 * all plans of small stages.
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

/* Least extra time of all legal plans within cap; UINT64_MAX: none. */
static uint64_t optimum(const struct stage *s, uint64_t cap)
{
    struct stage limited = *s;

    limited.view.nodes = limited.nodes;
    limited.view.producers = limited.producers;
    limited.view.capacity_bytes = cap;
    return enumerate(&limited, "KRS").extra;
}

TEST(test_one_micro_batch)
{
    struct stage s;

    stage_init(&s, 1, 0, 1);
    for (int v = 0; v < 4; v++) {
        add_link(&s, 1, 2, 2);
    }
    expect(&s, "KKKK", 9, 0);
    assert_int_equal(value_of(&s, NULL).period_ns, 12);
    expect(&s, "KKKR", 9, 1); /* restored while all the rest is still there */
    expect(&s, "KRKK", 7, 1);
    expect(&s, "RKKK", 7, 1);
    assert_int_equal(optimum(&s, 9), 0);
    assert_int_equal(optimum(&s, 8), 1);
    assert_int_equal(optimum(&s, 7), 1);
    assert_true(optimum(&s, 6) == UINT64_MAX);
}

TEST(test_three_in_flight)
{
    static const struct {
        const char *plan;
        uint64_t cap, extra;
    } rows[] = {{"KKKK", 27, 0}, {"KKKR", 23, 1}, {"KRKK", 21, 1}, {"KKRR", 19, 2},
                {"KRKR", 17, 2}, {"KRRR", 15, 3}, {"RRKR", 13, 3}, {"RRRR", 11, 4}};
    struct stage s;

    stage_init(&s, 3, 0, 1);
    for (int v = 0; v < 4; v++) {
        add_link(&s, 1, 2, 2);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect(&s, rows[i].plan, rows[i].cap, rows[i].extra);
        assert_int_equal(optimum(&s, rows[i].cap), rows[i].extra);
    }
    assert_true(optimum(&s, 10) == UINT64_MAX);
}

/* nodes (tf, tb, a): (1,2,8) (6,12,4) (1,2,6) (4,8,2); static 10, input 2. */
static void uneven(struct stage *s, uint32_t k)
{
    stage_init(s, k, 10, 2);
    add_link(s, 1, 2, 8);
    add_link(s, 6, 12, 4);
    add_link(s, 1, 2, 6);
    add_link(s, 4, 8, 2);
}

TEST(test_uneven_nodes)
{
    static const uint64_t caps[][2] = {{54, 0}, {50, 1}, {38, 1}, {36, 2}, {32, 2}, {30, 6}};
    struct stage s;

    uneven(&s, 2);
    assert_int_equal(value_of(&s, NULL).period_ns, 36);
    expect(&s, "KKKK", 54, 0);
    expect(&s, "RKKK", 38, 1);
    expect(&s, "RKRK", 32, 2);
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        assert_int_equal(optimum(&s, caps[i][0]), caps[i][1]);
    }
    uint8_t actions[4];
    letters("KKRK", actions);
    assert_true(value_of(&s, actions).peak_bytes <= 48);
}

TEST(test_offloading)
{
    struct stage s;
    struct optimum best;

    uneven(&s, 4);
    s.view.link_bytes_per_s = 1000000000; /* one byte per tick */
    expect(&s, "KKKK", 98, 0);
    expect(&s, "SSSS", 58, 0);
    expect(&s, "RKRK", 48, 2);
    assert_int_equal(optimum(&s, 58), 0);
    assert_int_equal(optimum(&s, 54), 1);
    uint8_t actions[4];
    letters("RKSK", actions);
    assert_true(value_of(&s, actions).peak_bytes <= 54);

    s.view.link_bytes_per_s = 250000000;
    expect(&s, "RKSS", 50, 1);
    s.view.capacity_bytes = 50;
    best = enumerate(&s, "KRS");
    assert_int_equal(best.extra, 1);
    assert_string_equal(best.plan, "RKSS");
    assert_int_equal(best.n_best, 1);
    assert_int_equal(optimum(&s, 46), 2);

    stage_init(&s, 4, 4, 1);
    s.view.link_bytes_per_s = 1000000000;
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
    expect(&s, "KKKK", 26, 0);
    expect(&s, "RKKK", 23, 2);
    expect(&s, "KRKK", 20, 1);
    expect(&s, "KRKR", 17, 3);
    assert_int_equal(optimum(&s, 17), 3);
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
