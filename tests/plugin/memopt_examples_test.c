/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of four nodes worked out by hand, to two-ended and to every method of exact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "memopt_rig.h"

#define PLAIN "slot_filter = false\nlink_target = 1.0\nmin_swap_bytes = 0\nhost_memory = 1.0\n"

struct solver {
    const char *id, *options;
    bool offload;
};

static const struct solver solvers[] = {
    {"two-ended", PLAIN, true},
    {"exact", "method = \"enumerate\"", true},
    {"exact", "method = \"branch\"", true},
    {"exact", "method = \"chain\"\nallow = \"recompute\"", false},
};

/* Extra time under a capacity, by all that can say; extra UINT64_MAX: nothing fits. */
static void expect(struct stage *s, bool chain, bool offload, uint64_t capacity, uint64_t extra)
{
    s->view.capacity_bytes = capacity;
    for (size_t i = 0; i < sizeof solvers / sizeof solvers[0]; i++) {
        char options[256];
        struct memopt_answer answer;

        if ((offload && !solvers[i].offload) || (!chain && strstr(solvers[i].options, "chain"))) {
            continue;
        }
        snprintf(options, sizeof options, "%s%s", solvers[i].options,
                 offload || !solvers[i].offload ? "" : "\nallow = \"recompute\"");
        answer = ask_once(solvers[i].id, options, s);
        if (answer.price.fits != (extra != UINT64_MAX) ||
            (answer.price.fits && answer.value.extra_ns != extra)) {
            fail_msg("%s %s at %llu: %s, extra %llu, expected %lld", solvers[i].id, options,
                     (unsigned long long)capacity, answer.plan,
                     (unsigned long long)answer.value.extra_ns, (long long)extra);
        }
    }
}

struct row {
    uint64_t capacity, extra;
};

static void expect_rows(struct stage *s, bool chain, bool offload, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        expect(s, chain, offload, rows[i].capacity, rows[i].extra);
    }
}

#define ROWS(rows) (rows), sizeof(rows) / sizeof((rows)[0])

/* (1, 2, 2) four times, an input of 1. */
static void equal_nodes(struct stage *s, uint32_t k)
{
    stage_init(s, k, 0, 1);
    for (uint32_t i = 0; i < 4; i++) {
        add_link(s, 1, 2, 2);
    }
}

/* (1,2,8) (6,12,4) (1,2,6) (4,8,2), static 10, an input of 2. */
static void mixed_nodes(struct stage *s, uint32_t k)
{
    stage_init(s, k, 10, 2);
    add_link(s, 1, 2, 8);
    add_link(s, 6, 12, 4);
    add_link(s, 1, 2, 6);
    add_link(s, 4, 8, 2);
}

static void test_one_in_flight(void **state)
{
    static const struct row rows[] = {{9, 0}, {8, 1}, {7, 1}, {6, UINT64_MAX}};
    struct stage s;

    (void)state;
    equal_nodes(&s, 1);
    expect_rows(&s, true, false, ROWS(rows));
}

static void test_three_in_flight(void **state)
{
    static const struct row rows[] = {{27, 0}, {26, 1}, {23, 1}, {22, 1}, {21, 1},
                                      {20, 2}, {19, 2}, {18, 2}, {17, 2}, {16, 3},
                                      {15, 3}, {13, 3}, {12, 4}, {11, 4}, {10, UINT64_MAX}};
    struct stage s;

    (void)state;
    equal_nodes(&s, 3);
    expect_rows(&s, true, false, ROWS(rows));
}

static void test_mixed(void **state)
{
    static const struct row rows[] = {{54, 0}, {50, 1}, {48, 1}, {44, 1},
                                      {38, 1}, {36, 2}, {32, 2}, {30, 6}};
    struct stage s;

    (void)state;
    mixed_nodes(&s, 2);
    expect_rows(&s, true, false, ROWS(rows));
}

/* Four in flight, a link of a byte a tick: all may go at 58, where replays alone take 2. */
static void test_free_swap(void **state)
{
    static const struct row rows[] = {{98, 0}, {58, 0}, {54, 1}};
    static const struct row replays[] = {{58, 2}};
    struct stage s;

    (void)state;
    mixed_nodes(&s, 4);
    s.view.link_bytes_per_s = 1000000000;
    expect_rows(&s, true, true, ROWS(rows));
    s.view.link_bytes_per_s = 0;
    expect_rows(&s, true, false, ROWS(replays));
}

/* A quarter of that: the one plan of 37 is RKSS. */
static void test_slow_link(void **state)
{
    static const struct row rows[] = {{50, 1}, {46, 2}};
    struct memopt_answer answer;
    struct stage s;

    (void)state;
    mixed_nodes(&s, 4);
    s.view.link_bytes_per_s = 250000000;
    expect_rows(&s, true, true, ROWS(rows));
    s.view.capacity_bytes = 50;
    answer = ask_once("two-ended", PLAIN, &s);
    assert_string_equal(answer.plan, "RKSS");
    assert_int_equal(answer.value.peak_bytes, 50);
}

/* Node 3 reads 0 and 2: what is dropped first is back before its backward. */
static void test_skip(void **state)
{
    static const struct row rows[] = {{26, 0}, {20, 1}, {17, 3}};
    struct stage s;

    (void)state;
    stage_init(&s, 2, 0, 1);
    add_link(&s, 2, 4, 3);
    add_link(&s, 1, 2, 3);
    add_link(&s, 1, 2, 3);
    add_node(&s, 2, 4, 3, 0, 0, 1u << 0 | 1u << 2);
    assert_int_equal(value_of_letters(&s, "RKKK").peak_bytes, 23);
    assert_false(value_of_letters(&s, "RKKR").legal);
    expect_rows(&s, false, false, ROWS(rows));
}

/* Everything fits, and nothing can. */
static void test_ends(void **state)
{
    struct memopt_answer answer;
    struct stage s;

    (void)state;
    mixed_nodes(&s, 4);
    s.view.link_bytes_per_s = 1000000000;
    answer = ask_once("two-ended", "", &s);
    assert_string_equal(answer.plan, "KKKK");
    assert_int_equal(answer.value.extra_ns, 0);
    s.view.capacity_bytes = 10 + 4 * 2 - 1;
    for (size_t i = 0; i < sizeof solvers / sizeof solvers[0]; i++) {
        s.view.link_bytes_per_s = solvers[i].offload ? 1000000000 : 0;
        answer = ask_once(solvers[i].id, solvers[i].options, &s);
        assert_false(answer.price.fits);
        assert_int_equal(answer.status, PST_ERR_INFEASIBLE);
        assert_non_null(strstr(answer.message, "does not fit"));
    }
}

/* What the slots, the least size and the host's memory forbid is not offloaded. */
static void test_limits(void **state)
{
    struct memopt_answer answer;
    struct stage s;

    (void)state;
    mixed_nodes(&s, 4);
    s.view.link_bytes_per_s = 1000000000;
    s.view.capacity_bytes = 58;
    answer = ask_once("two-ended", PLAIN, &s);
    assert_string_equal(answer.plan, "SSSS");
    answer = ask_once("two-ended", PLAIN "allow = \"recompute\"", &s);
    assert_null(strchr(answer.plan, 'S'));
    answer = ask_once("two-ended", "link_target = 1.0\nslot_filter = false", &s); /* 64 KiB */
    assert_null(strchr(answer.plan, 'S'));
    s.view.host_capacity_bytes = 4 * 20;
    answer = ask_once("two-ended", PLAIN, &s);
    assert_string_equal(answer.plan, "SSSS");
    s.view.host_capacity_bytes = 4 * 20 - 1;
    answer = ask_once("two-ended", PLAIN, &s);
    assert_string_not_equal(answer.plan, "SSSS");
    assert_true(answer.price.fits);
    s.view.host_capacity_bytes = 0;
    /* The backward of node 1 takes 12: with its reader's 2 and a trip of 4 that is half a period.
     */
    answer =
        ask_once("two-ended", "slot_filter = true\nlink_target = 0.49\nmin_swap_bytes = 0", &s);
    assert_int_not_equal(answer.plan[1], 'S');
}

/* --- pipelines ---------------------------------------------------------------------------------*/

/* Eight nodes (1, 2, 2) with a parameter byte and an output of a byte each, on four stages, an
   input of a byte: the least bottleneck over all cuts, stages priced by a plugin. */
struct pipeline {
    struct pst_instance *instance;
    uint64_t capacity, known[4][9][9]; /* [stage][first][end] period + 1 */
    bool stashing, offload;
    uint32_t cuts[5];
};

static uint64_t stage_period(struct pipeline *p, uint32_t stage, uint32_t first, uint32_t end)
{
    uint64_t *known = &p->known[stage][first][end];
    uint32_t k = 4 - stage, versions = p->stashing ? k : 1;
    struct memopt_answer answer;
    struct stage s;

    if (*known == 0) {
        stage_init(&s, k, (uint64_t)(end - first) * (versions + 1), 1);
        for (uint32_t v = first; v < end; v++) {
            add_link(&s, 1, 2, 2);
        }
        s.view.link_bytes_per_s = p->offload ? 1000000000 : 0;
        s.view.capacity_bytes = p->capacity;
        answer = ask(p->instance, &s);
        *known = answer.price.fits ? answer.value.period_ns + 1 : UINT64_MAX;
    }
    return *known == UINT64_MAX ? UINT64_MAX : *known - 1;
}

static uint64_t bottleneck(struct pipeline *p)
{
    uint64_t best = UINT64_MAX;
    uint32_t c[5] = {0, 0, 0, 0, 8};

    for (c[1] = 1; c[1] < 6; c[1]++) {
        for (c[2] = c[1] + 1; c[2] < 7; c[2]++) {
            for (c[3] = c[2] + 1; c[3] < 8; c[3]++) {
                uint64_t most = 0;

                for (uint32_t s = 0; s < 4; s++) {
                    uint64_t period = stage_period(p, s, c[s], c[s + 1]);

                    most = period > most ? period : most;
                }
                if (most < best) {
                    best = most;
                    memcpy(p->cuts, c, sizeof c);
                }
            }
        }
    }
    return best;
}

/* 1F1B that flushes, and PipeDream's, which keeps a version per micro-batch in flight. */
static void test_four_stages(void **state)
{
    static const uint64_t capacity[] = {26, 24, 22, 20, 18, 16, 14, 12};
    static const uint64_t none = UINT64_MAX;
    static const uint64_t table[2][2][8] = {
        {{6, 6, 7, 7, 7, 8, 8, 8}, {6, 6, 6, 6, 6, 6, 7, 8}},
        {{7, 7, 8, 8, 8, 9, none, none}, {6, 6, 6, 7, 8, 9, none, none}}};

    (void)state;
    for (uint32_t i = 0; i < 32; i++) {
        struct pipeline *p = calloc(1, sizeof *p);

        assert_non_null(p);
        p->instance = open_memopt("two-ended", PLAIN);
        p->capacity = capacity[i % 8];
        p->offload = i / 8 % 2 == 1;
        p->stashing = i / 16 == 1;
        assert_int_equal(bottleneck(p), table[p->stashing][p->offload][i % 8]);
        if (p->stashing && p->capacity == 16) {
            assert_int_equal(p->cuts[1], 1);
            assert_int_equal(p->cuts[2], 3);
            assert_int_equal(p->cuts[3], 5);
        }
        pst_instance_destroy(p->instance);
        free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_in_flight), cmocka_unit_test(test_three_in_flight),
        cmocka_unit_test(test_mixed),         cmocka_unit_test(test_free_swap),
        cmocka_unit_test(test_slow_link),     cmocka_unit_test(test_skip),
        cmocka_unit_test(test_four_stages),   cmocka_unit_test(test_ends),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
