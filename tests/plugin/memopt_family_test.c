/* SPDX-License-Identifier: Apache-2.0
 *
 * sqrt, selective, offload and vpipe: worked examples done by hand, every answer booked by the
 * ledger.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

/* n nodes (1, 2, 1) of a chain, input 1, k in flight. */
static void units(struct stage *s, uint32_t n, uint32_t k)
{
    stage_init(s, k, 0, 1);
    for (uint32_t v = 0; v < n; v++) {
        add_link(s, 1, 2, 1);
    }
}

/* nodes (tf, tb, a): (1,2,8) (6,12,4) (1,2,6) (4,8,2); static 10, input 2. */
static void uneven(struct stage *s, uint32_t k)
{
    static const uint64_t rows[][3] = {{1, 2, 8}, {6, 12, 4}, {1, 2, 6}, {4, 8, 2}};

    stage_init(s, k, 10, 2);
    for (uint32_t v = 0; v < 4; v++) {
        add_link(s, rows[v][0], rows[v][1], rows[v][2])->layer = v;
    }
}

static void expect_refusal(const struct memopt_answer *answer, const char *words)
{
    assert_int_equal(answer->status, PST_ERR_INFEASIBLE);
    if (strstr(answer->message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", answer->message, words);
    }
}

/* --- sqrt --------------------------------------------------------------------------------------*/

/* The peak of 16 equal nodes with every l-th kept. */
static uint64_t peak_of_segments(uint32_t l, uint32_t k)
{
    struct stage s;
    char plan[MAX_NODES + 1] = {0};

    units(&s, 16, k);
    for (uint32_t v = 0; v < 16; v++) {
        plan[v] = (v + 1) % l == 0 ? 'K' : 'R';
    }
    return ledger_value_of(&s, plan).peak;
}

TEST(test_sqrt_of_equal_nodes)
{
    struct memopt_answer answer;
    struct stage s;

    /* Kept nodes and a segment, whose last node is kept, and the input: 16/l + (l - 1) + 1. */
    assert_int_equal(peak_of_segments(1, 1), 17);
    assert_int_equal(peak_of_segments(2, 1), 10);
    assert_int_equal(peak_of_segments(4, 1), 8);
    assert_int_equal(peak_of_segments(8, 1), 10);
    for (uint32_t k = 1; k <= 4; k += 3) {
        uint64_t least = UINT64_MAX;

        for (uint32_t l = 1; l <= 16; l++) {
            least = peak_of_segments(l, k) < least ? peak_of_segments(l, k) : least;
        }
        units(&s, 16, k);
        answer = ask_once("sqrt", "fit = false", &s);
        assert_int_equal(answer.value.peak_bytes, least);
    }
    /* Longer segments with more in flight. */
    assert_true(peak_of_segments(8, 4) < peak_of_segments(4, 4));
}

TEST(test_sqrt_fits)
{
    struct memopt_answer answer;
    struct stage s;

    units(&s, 16, 1);
    answer = ask_once("sqrt", "", &s);
    assert_string_equal(answer.plan, "KKKKKKKKKKKKKKKK");
    s.view.capacity_bytes = 10;
    answer = ask_once("sqrt", "", &s);
    assert_int_equal(answer.status, PST_OK);
    assert_int_equal(answer.value.extra_ns, 8); /* every other node dropped is enough */
    s.view.capacity_bytes = 7;
    answer = ask_once("sqrt", "", &s);
    assert_int_equal(answer.price.peak_bytes, 8);
    expect_refusal(&answer, "1 bytes short");
    expect_refusal(&answer, "(8 bytes)");
    /* Three in flight, nodes (1, 2, 2): at 19 bytes two of four nodes go. */
    stage_init(&s, 3, 0, 1);
    for (int v = 0; v < 4; v++) {
        add_link(&s, 1, 2, 2);
    }
    s.view.capacity_bytes = 19;
    answer = ask_once("sqrt", "", &s);
    assert_int_equal(answer.value.extra_ns, 2);
    s.view.capacity_bytes = 10;
    answer = ask_once("sqrt", "", &s);
    expect_refusal(&answer, "(11 bytes)");
}

/* --- selective ---------------------------------------------------------------------------------*/

/* Three layers of norm, scores, softmax, linear. */
static void transformer(struct stage *s, uint32_t k)
{
    static const char *const kinds[] = {"layernorm", "scores", "softmax", "linear"};
    static const uint64_t rows[][3] = {{1, 2, 2}, {3, 6, 10}, {1, 2, 10}, {9, 18, 4}};

    stage_init(s, k, 0, 2);
    for (uint32_t v = 0; v < 12; v++) {
        struct pst_stage_node *node = add_link(s, rows[v % 4][0], rows[v % 4][1], rows[v % 4][2]);

        node->op = kinds[v % 4];
        node->layer = v / 4;
    }
}

TEST(test_selective_kinds)
{
    struct memopt_answer answer;
    struct stage s;

    transformer(&s, 2);
    answer = ask_once("selective", "", &s);
    assert_string_equal(answer.plan, "KRRKKRRKKRRK");
    assert_int_equal(answer.value.extra_ns, 12);
    /* Parked 2 + 3 x 6; active: input, 18 kept, one layer's 20. */
    assert_int_equal(answer.value.peak_bytes, 20 + 2 + 18 + 20);
    answer = ask_once("selective", "classes = \"softmax, linear\"", &s);
    assert_string_equal(answer.plan, "KKRRKKRRKKRR");
    answer = ask_once("selective", "classes = \"*\"", &s);
    assert_string_equal(answer.plan, "RRRRRRRRRRRR");
    answer = ask_once("selective", "classes = \"soft,ax,linear2\"", &s);
    assert_string_equal(answer.plan, "KKKKKKKKKKKK");
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    s.nodes[5].action = PST_ACTION_OFFLOAD;
    s.view.link_bytes_per_s = 1000000000;
    answer = ask_once("selective", "", &s);
    assert_string_equal(answer.plan, "KRKKKSRKKRRK");
    s.view.node_size = sizeof s.nodes[0]; /* nobody knows their kind */
    for (int v = 0; v < 12; v++) {
        s.nodes[v].op = NULL;
    }
    answer = ask_once("selective", "", &s);
    assert_string_equal(answer.plan, "KKKKKSKKKKKK");
}

TEST(test_selective_takes_no_more_than_needed)
{
    struct memopt_answer answer;
    struct stage s;

    transformer(&s, 2);
    s.view.capacity_bytes = UINT64_MAX;
    answer = ask_once("selective", "classes = \"*\"\nauto = true", &s);
    assert_string_equal(answer.plan, "KKKKKKKKKKKK");
    s.view.capacity_bytes = answer.price.peak_bytes - 1;
    /* softmax: 10 bytes a tick; scores 3.3; norm 2; linear 0.4. */
    answer = ask_once("selective", "classes = \"*\"\nauto = true", &s);
    assert_string_equal(answer.plan, "KKRKKKRKKKRK");
    s.view.capacity_bytes = answer.price.peak_bytes - 1;
    answer = ask_once("selective", "classes = \"*\"\nauto = true", &s);
    assert_string_equal(answer.plan, "KRRKKRRKKRRK");
    s.view.capacity_bytes = 1;
    answer = ask_once("selective", "classes = \"*\"\nauto = true", &s);
    expect_refusal(&answer, "the smallest capacity that would do");
}

/* --- offload -----------------------------------------------------------------------------------*/

/* Without margins: every tensor that has the time, the whole link. */
#define PLAIN "min_windows = 0\nlink_target = 1.0\nslot_filter = false\nmin_swap_bytes = 0\n"

TEST(test_offload_free)
{
    struct memopt_answer answer;
    struct stage s;

    uneven(&s, 4);
    s.view.link_bytes_per_s = 1000000000;
    s.view.capacity_bytes = 98;
    answer = ask_once("offload", PLAIN, &s);
    assert_string_equal(answer.plan, "KKKK");
    answer = ask_once("offload", PLAIN "when = \"always\"\n", &s);
    assert_string_equal(answer.plan, "SSSS");
    s.view.capacity_bytes = 58;
    answer = ask_once("offload", PLAIN, &s);
    assert_string_equal(answer.plan, "SSSS");
    assert_int_equal(answer.value.peak_bytes, 58);
    assert_int_equal(answer.value.extra_ns, 0);
    s.view.capacity_bytes = 57;
    answer = ask_once("offload", PLAIN, &s);
    expect_refusal(&answer, "(58 bytes)");
    /* Two of four copies of a tensor stay; 14 bytes of tensors are enough for 70. */
    s.view.capacity_bytes = 70;
    answer = ask_once("offload", PLAIN, &s);
    assert_string_equal(answer.plan, "SKSK");
    /* With k at or below the staging copies there is nothing to gain. */
    s.view.in_flight = 2;
    s.view.capacity_bytes = 53;
    answer = ask_once("offload", PLAIN, &s);
    expect_refusal(&answer, "(54 bytes)");
}

TEST(test_offload_heeds_the_link)
{
    struct memopt_answer answer;
    struct stage s;

    uneven(&s, 4);
    s.view.link_bytes_per_s = 250000000; /* 9 bytes a period: 8, or 6 + 2 */
    s.view.capacity_bytes = 82;
    answer = ask_once("offload", PLAIN, &s);
    assert_string_equal(answer.plan, "SKKK");
    assert_int_equal(answer.value.extra_ns, 0);
    s.view.capacity_bytes = 81;
    answer = ask_once("offload", PLAIN, &s);
    expect_refusal(&answer, "(82 bytes)");
    s.view.link_directions = 2; /* 4.5 bytes */
    s.view.capacity_bytes = 90;
    answer = ask_once("offload", PLAIN, &s);
    assert_string_equal(answer.plan, "KSKK");
    s.view.link_bytes_per_s = 0;
    answer = ask_once("offload", PLAIN, &s);
    expect_refusal(&answer, "(98 bytes)");
    /* What was sent before takes its part: 1 byte is left beside 8. */
    s.view.link_directions = 1;
    s.view.link_bytes_per_s = 250000000;
    s.nodes[0].action = PST_ACTION_OFFLOAD;
    s.view.capacity_bytes = 81;
    answer = ask_once("offload", PLAIN, &s);
    expect_refusal(&answer, "(82 bytes)");
}

/* k 3, period 12, nothing after the last node, 2 bytes a tick: FT = 24 - a. */
TEST(test_offload_free_time)
{
    struct memopt_answer answer;
    struct stage s;

    for (uint64_t a = 23; a <= 25; a++) {
        stage_init(&s, 3, 0, 0);
        add_link(&s, 2, 4, 0);
        add_link(&s, 2, 4, a);
        s.view.link_bytes_per_s = 2000000000;
        answer = ask_once("offload", PLAIN "when = \"always\"\n", &s);
        assert_string_equal(answer.plan, a <= 24 ? "KS" : "KK");
        /* Another trip to spare: 24 - a >= a. */
        answer = ask_once("offload",
                          "min_windows = 1\nlink_target = 1.0\nslot_filter = false\n"
                          "min_swap_bytes = 0\nwhen = \"always\"\n",
                          &s);
        assert_string_equal(answer.plan, "KK");
    }
    /* A copy of 24 takes 12 of 12, so with the 4 that it occupies its slot it is too long. */
    stage_init(&s, 3, 0, 0);
    add_link(&s, 2, 4, 0);
    add_link(&s, 2, 4, 17);
    s.view.link_bytes_per_s = 2000000000;
    answer =
        ask_once("offload",
                 "min_windows = 0\nlink_target = 1.0\nmin_swap_bytes = 0\nwhen = \"always\"\n", &s);
    assert_string_equal(answer.plan, "KK"); /* 8.5 + 4 > 12 */
    s.nodes[1].saved_bytes = 16;
    answer =
        ask_once("offload",
                 "min_windows = 0\nlink_target = 1.0\nmin_swap_bytes = 0\nwhen = \"always\"\n", &s);
    assert_string_equal(answer.plan, "KS"); /* 8 + 4 = 12 */
}

/* Fits exactly where some choice within the link does, and never takes time. */
TEST(test_offload_against_enumeration)
{
    const uint64_t seed = 17;
    uint64_t counter = 0;
    uint32_t fitting = 0;

    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 400; round++) {
        struct memopt_answer answer;
        struct optimum best;
        struct stage s;

        random_stage(&s, 8, seed, &counter);
        best = enumerate(&s, "K");
        s.view.capacity_bytes = best.least_peak - draw(seed, &counter, 25) * best.least_peak / 50;
        best = enumerate(&s, "KS");
        answer = ask_once("offload", PLAIN, &s);
        assert_int_equal(answer.status == PST_OK, best.fits && best.extra == 0);
        fitting += answer.status == PST_OK;
        if (answer.status == PST_OK) {
            assert_int_equal(answer.value.extra_ns, 0);
            assert_null(strchr(answer.plan, 'R'));
        }
    }
    print_message("%u fit\n", fitting);
    assert_in_range(fitting, 100, 380);
}

/* --- vpipe -------------------------------------------------------------------------------------*/

#define VPIPE "min_swap_bytes = 0\n"

TEST(test_vpipe_examples)
{
    struct memopt_answer answer;
    struct stage s;

    uneven(&s, 2);
    s.view.capacity_bytes = 54;
    assert_string_equal(ask_once("vpipe", VPIPE, &s).plan, "KKKK");
    s.view.capacity_bytes = 38;
    answer = ask_once("vpipe", VPIPE, &s);
    assert_string_equal(answer.plan, "RKKK"); /* 1 tick for 8 bytes */
    s.view.capacity_bytes = 32;
    answer = ask_once("vpipe", VPIPE, &s);
    assert_string_equal(answer.plan, "RKRK");
    s.view.capacity_bytes = 30;
    answer = ask_once("vpipe", VPIPE, &s);
    assert_int_equal(answer.value.extra_ns, 6);
    s.view.in_flight = 4;
    s.view.link_bytes_per_s = 250000000;
    s.view.capacity_bytes = 50;
    answer = ask_once("vpipe", VPIPE, &s);
    assert_string_equal(answer.plan, "RKSS");
    assert_int_equal(answer.value.extra_ns, 1);
}

/* All nodes of a layer alike. */
TEST(test_vpipe_layers)
{
    struct memopt_answer answer;
    struct stage s;

    transformer(&s, 3);
    s.view.capacity_bytes = 3 * 2 + 2 * 52 + 78; /* of 3 x 26 a layer goes */
    answer = ask_once("vpipe", VPIPE, &s);
    assert_int_equal(answer.status, PST_OK);
    for (int v = 0; v < 12; v++) {
        assert_int_equal(answer.plan[v], answer.plan[v - v % 4]);
    }
    assert_int_equal(answer.value.extra_ns, 14);
    answer = ask_once("vpipe", "mode = \"ratio\"\nratio = \"0.5\"", &s);
    assert_string_equal(answer.plan, "KKKKKKRRRRRR");
    s.view.stage = 1;
    s.view.n_stages = 3;
    answer = ask_once("vpipe", "mode = \"ratio\"\nratio = \"1,.25, 0\"", &s);
    assert_string_equal(answer.plan, "KKKKKKKKKRRR");
    s.view.stage = 2;
    answer = ask_once("vpipe", "mode = \"ratio\"\nratio = \"1,.25, 0\"", &s);
    assert_string_equal(answer.plan, "KKKKKKKKKKKK");
}

TEST(test_vpipe_ratio_is_checked)
{
    static const struct pst_eval eval = {sizeof eval, rig_evaluate, rig_evaluate_replays};
    const struct pst_host_context context = {.eval = &eval};
    static const char *const wrong[] = {"1,,0", "2", "-0.1", "a", "", "0.5;1"};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pst_instance *instance = NULL;
        struct pst_error err = {0};
        char text[64];

        snprintf(text, sizeof text, "mode = \"ratio\"\nratio = \"%s\"", wrong[i]);
        assert_int_equal(plugin_rig_open("memopt", "vpipe", text, &context, &instance, &err),
                         PST_ERR_CONFIG);
        assert_non_null(strstr(err.message, "ratio"));
    }
}
