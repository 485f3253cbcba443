/* SPDX-License-Identifier: Apache-2.0
 *
 * What a problem file cannot say: nodes with flags, nodes that somebody decided about before,
 * stages of a pipeline. e2e/memopt_test.txt has the examples that it can.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

/* A stage of so many, without static bytes; its input has one byte. */
static void begin(struct stage *s, uint32_t stage, uint32_t n_stages, uint32_t k)
{
    stage_init(s, k, 0, 1);
    s->view.stage = stage;
    s->view.n_stages = n_stages;
}

/* A node that reads the positions of the mask. */
static void add(struct stage *s, uint32_t layer, uint32_t reads)
{
    add_node(s, 1, 2, 2, 0, 0, reads)->layer = layer;
}

/* layers: one digit per node of a chain. */
static void add_chain(struct stage *s, const char *layers)
{
    for (; *layers != '\0'; layers++) {
        add(s, (uint32_t)(*layers - '0'), s->view.n_nodes == 0 ? 0 : 1u << (s->view.n_nodes - 1));
    }
}

/* The finished plan as letters. */
static const char *plan(struct stage *s, const char *id, const char *options)
{
    static struct memopt_answer answer;

    answer = ask_once(id, options, s);
    assert_int_equal(answer.status, PST_OK);
    assert_int_equal(answer.price.period_ns, answer.value.period_ns);
    assert_int_equal(answer.price.peak_bytes, answer.value.peak_bytes);
    return answer.plan;
}

TEST(test_what_is_never_dropped)
{
    struct stage s;

    begin(&s, 0, 2, 2);
    add_chain(&s, "000000");
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    assert_string_equal(plan(&s, "full", ""), "RRKRRR");

    /* Node 4 of the second layer reads node 1 of the first: its replay could not, so it is kept. */
    begin(&s, 0, 2, 2);
    add_chain(&s, "0001");
    add(&s, 1, 1u << 3 | 1u << 1);
    add(&s, 1, 1u << 4);
    assert_string_equal(plan(&s, "full", "unit = \"layer\""), "RKKRRK");
    assert_string_equal(plan(&s, "full", ""), "RRRRRR"); /* in one run nothing is in the way */

    /* Keeping node 2 splits the run, so that node 3 may no longer read node 0. */
    begin(&s, 0, 2, 2);
    add_chain(&s, "000");
    add(&s, 0, 1u << 2 | 1u << 0);
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    assert_string_equal(plan(&s, "full", ""), "KRKR");

    /* What an earlier optimizer decided stays, and what it dropped cannot be read by another run.
     */
    begin(&s, 0, 2, 2);
    add_chain(&s, "0000");
    s.nodes[1].action = PST_ACTION_OFFLOAD;
    s.view.link_bytes_per_s = 1000000000;
    assert_string_equal(plan(&s, "full", ""), "RSRR");
    begin(&s, 0, 2, 2);
    add_chain(&s, "000");
    add(&s, 0, 1u << 2 | 1u << 0);
    s.nodes[0].action = PST_ACTION_RECOMPUTE;
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    assert_string_equal(plan(&s, "full", ""), "RRKK");
}

TEST(test_selective)
{
    static const char *const kinds[] = {"layernorm", "scores", "softmax", "linear"};
    struct stage s;

    begin(&s, 0, 2, 2);
    add_chain(&s, "000011112222");
    for (uint32_t v = 0; v < 12; v++) {
        s.nodes[v].op = kinds[v % 4];
    }
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    s.nodes[5].action = PST_ACTION_OFFLOAD;
    s.view.link_bytes_per_s = 1000000000;
    assert_string_equal(plan(&s, "selective", ""), "KRKKKSRKKRRK");
    for (uint32_t v = 0; v < 12; v++) { /* nobody knows their kind */
        s.nodes[v].op = NULL;
    }
    assert_string_equal(plan(&s, "selective", ""), "KKKKKSKKKKKK");
}

TEST(test_what_was_sent_before_takes_its_part)
{
    static const char *const options = "min_windows = 0\nlink_target = 1.0\nslot_filter = false\n"
                                       "min_swap_bytes = 0\n";
    static const uint64_t rows[][3] = {{1, 2, 8}, {6, 12, 4}, {1, 2, 6}, {4, 8, 2}};
    struct memopt_answer answer;
    struct stage s;

    stage_init(&s, 4, 10, 2);
    for (uint32_t v = 0; v < 4; v++) {
        add_link(&s, rows[v][0], rows[v][1], rows[v][2]);
    }
    s.view.link_bytes_per_s = 250000000; /* 9 bytes a period: 1 is left beside 8 */
    s.nodes[0].action = PST_ACTION_OFFLOAD;
    s.view.capacity_bytes = 81;
    answer = ask_once("offload", options, &s);
    assert_int_equal(answer.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(answer.message, "(82 bytes)"));
}

TEST(test_ratios_of_stages)
{
    static const char *const plans[] = {"RRRRRRRRRRRR", "KKKKKKKKKRRR", "KKKKKKKKKKKK"};
    struct stage s;

    for (uint32_t i = 0; i < 3; i++) {
        begin(&s, i, 3, 3);
        add_chain(&s, "000011112222");
        assert_string_equal(plan(&s, "vpipe", "mode = \"ratio\"\nratio = \"1,.25, 0\""), plans[i]);
    }
}

/* On any graph the answer is legal (plan() above asserts it) and respects flags. */
TEST(test_random_stages)
{
    const uint64_t seed = 31;
    uint64_t counter = 0;

    for (int round = 0; round < 300; round++) {
        struct stage s;
        struct pst_philox r = pst_philox(seed, 0, counter++);
        uint32_t n = 1 + r.v[0] % 16, layer = 0;
        const char *text;

        begin(&s, r.v[1] % 2, 2, 1 + r.v[2] % 4);
        for (uint32_t v = 0; v < n; v++) {
            struct pst_philox q = pst_philox(seed, 1, counter++);

            layer += q.v[0] % 3 == 0;
            add(&s, layer, q.v[1] & ((1u << v) - 1));
            s.nodes[v].flags = q.v[2] % 5 == 0 ? PST_NODE_NO_RECOMPUTE : 0;
        }
        text = plan(&s, "full", r.v[3] % 2 == 0 ? "" : "unit = \"layer\"\nevery = 2");
        for (uint32_t v = 0; v < n; v++) {
            assert_false(text[v] == 'R' && s.nodes[v].flags != 0);
        }
    }
}
