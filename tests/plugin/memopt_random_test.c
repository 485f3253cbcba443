/* SPDX-License-Identifier: Apache-2.0
 *
 * sqrt, selective, offload and vpipe on random stages and on absurd ones: every answer is booked by
 * the ledger and held against enumeration.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

/* Without margins: every tensor that has the time, the whole link. */
#define PLAIN "min_windows = 0\nlink_target = 1.0\nslot_filter = false\nmin_swap_bytes = 0\n"

static bool may_drop(const char *id)
{
    return strcmp(id, "offload") != 0;
}

/*
 * Random stages: legal and as booked (ask() asserts it), fitting only where enumeration fits, no
 * better than the best.
 */
TEST(test_random_stages)
{
    static const struct {
        const char *id, *options;
    } rows[] = {{"sqrt", ""},
                {"selective", "classes = \"*\"\nauto = true"},
                {"offload", PLAIN},
                {"vpipe", "min_swap_bytes = 0\n"}};
    const uint64_t seed = 4711;
    uint64_t counter = 0;
    uint32_t fit[4] = {0}, possible = 0;
    struct pst_instance *instances[4];

    for (int i = 0; i < 4; i++) {
        instances[i] = open_memopt(rows[i].id, rows[i].options);
    }
    for (int round = 0; round < 250; round++) {
        struct stage s;
        struct optimum best;
        uint64_t all;

        random_stage(&s, 7, seed, &counter);
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            static const char *const kinds[] = {"a", "b", "c"};

            s.nodes[v].op = kinds[draw(seed, &counter, 3)];
            s.nodes[v].layer = v / 2;
            s.nodes[v].flags = draw(seed, &counter, 8) == 0 ? PST_NODE_NO_RECOMPUTE : 0;
        }
        all = enumerate(&s, "K").least_peak;
        s.view.capacity_bytes = all - draw(seed, &counter, 30) * all / 50;
        best = enumerate(&s, "KRS");
        possible += best.fits;
        for (int i = 0; i < 4; i++) {
            struct memopt_answer answer = ask(instances[i], &s);

            fit[i] += answer.status == PST_OK;
            assert_true(best.fits || answer.status != PST_OK);
            assert_true(best.least_peak <= answer.price.peak_bytes);
            if (answer.status == PST_OK) {
                assert_true(answer.value.extra_ns >= best.extra);
                assert_true(may_drop(rows[i].id) || strchr(answer.plan, 'R') == NULL);
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        print_message("%s: %u of %u that can fit\n", rows[i].id, fit[i], possible);
        assert_true(fit[i] > 0 && fit[i] <= possible);
        pst_instance_destroy(instances[i]);
    }
    assert_true(fit[0] * 10 > possible * 6); /* sqrt, vpipe: most of them */
    assert_true(fit[3] * 10 > possible * 6);
}

/* Fits exactly where some choice within the link does, and never takes time. */
TEST(test_offload_against_enumeration)
{
    const uint64_t seed = 17;
    uint64_t counter = 0;
    uint32_t fitting = 0;

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

/* Everything is kept where that fits, to the byte, also where replays take no time and links any.
 */
TEST(test_kept_where_it_fits)
{
    static const struct {
        const char *id, *options;
    } rows[] = {
        {"none", ""},    {"selective", "classes = \"*\"\nauto = true"},
        {"sqrt", ""},    {"rotor", ""},
        {"offload", ""}, {"offload", "min_swap_bytes = 0\nslot_filter = false"},
        {"vpipe", ""},   {"vpipe", "min_swap_bytes = 0"},
        {"exact", ""},   {"exact", "method = \"branch\""},
        {"bpipe", ""},   {"two-ended", "min_swap_bytes = 0\nslot_filter = false"},
        {"adapipe", ""}, {"dawnpiper", "policy = \"capuchin\"\nmin_swap_bytes = 0"},
    };
    const uint64_t seed = 4713;
    uint64_t counter = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWN(instance) *instance = open_memopt(rows[i].id, rows[i].options);

        for (int round = 0; round < 60; round++) {
            struct memopt_answer answer;
            struct stage s;

            random_stage(&s, 7, seed, &counter);
            for (uint32_t v = 0; v < s.view.n_nodes; v++) {
                s.nodes[v].op = "op";
                s.nodes[v].layer = v;
                s.nodes[v].forward_ns *= draw(seed, &counter, 2);
            }
            s.view.link_bytes_per_s = round % 3 == 0 ? UINT64_C(1) << 60 : 0;
            s.view.capacity_bytes = enumerate(&s, "K").least_peak;
            answer = ask(instance, &s);
            assert_int_equal(answer.status, PST_OK);
            assert_int_equal(answer.n_replays, 0);
            if (strspn(answer.plan, "K") != s.view.n_nodes) {
                fail_msg("%s %s, round %d: %s", rows[i].id, rows[i].options, round, answer.plan);
            }
        }
    }
}

/* Who says no names a capacity, and with that the answer is yes. */
TEST(test_enough)
{
    static const struct {
        const char *id, *options;
    } rows[] = {{"sqrt", ""},    {"selective", "classes = \"*\"\nauto = true"},
                {"offload", ""}, {"vpipe", ""},
                {"adapipe", ""}, {"two-ended", ""},
                {"rotor", ""}};
    const uint64_t seed = 4712;
    uint64_t counter = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pst_instance *instance = open_memopt(rows[i].id, rows[i].options);
        uint32_t n_refused = 0;

        for (int round = 0; round < 400; round++) {
            struct memopt_answer answer;
            struct stage s;
            uint64_t all;

            random_stage(&s, 9, seed, &counter);
            for (uint32_t v = 0; v < s.view.n_nodes; v++) {
                s.nodes[v].output_bytes = draw(seed, &counter, 12);
                s.nodes[v].output_saved = s.nodes[v].output_bytes <= s.nodes[v].saved_bytes;
                s.nodes[v].saved_bytes *= draw(seed, &counter, 3) == 0 ? 100 : 1;
                s.nodes[v].layer = v / 2;
            }
            all = enumerate(&s, "K").least_peak;
            s.view.capacity_bytes = all * draw(seed, &counter, 100) / 100;
            answer = ask(instance, &s);
            if (answer.status == PST_OK) {
                continue;
            }
            n_refused++;
            s.view.capacity_bytes = answer.price.peak_bytes;
            answer = ask(instance, &s);
            if (answer.status != PST_OK) {
                fail_msg("%s, round %d: %llu bytes are named, then %llu", rows[i].id, round,
                         (unsigned long long)s.view.capacity_bytes,
                         (unsigned long long)answer.price.peak_bytes);
            }
        }
        assert_true(n_refused > 10);
        pst_instance_destroy(instance);
    }
}

/* Nothing, everything, absurd sizes: an answer or a refusal with reasons. */
TEST(test_absurd_stages)
{
    static const char *const ids[] = {"none", "full", "sqrt", "selective", "offload", "vpipe"};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct memopt_answer answer;
        struct stage s;

        stage_init(&s, 0, 5, 3);
        answer = ask_once(ids[i], "", &s);
        assert_int_equal(answer.status, PST_OK); /* no nodes */
        s.view.capacity_bytes = 0;
        answer = ask_once(ids[i], "", &s);
        assert_int_equal(answer.price.fits, 0);
        stage_init(&s, 7, 0, 0);
        add_link(&s, 0, 0, UINT64_C(1) << 40);
        add_link(&s, 0, 0, 0);
        s.view.link_bytes_per_s = 1;
        answer = ask_once(ids[i], "", &s);
        assert_int_equal(answer.status, PST_OK);
        s.view.capacity_bytes = UINT64_C(1) << 39;
        answer = ask_once(ids[i], "", &s);
        assert_int_equal(answer.price.fits, 0);
        stage_init(&s, 3, 0, 0);
        add_link(&s, 0, 0, 0);
        s.view.capacity_bytes = 0;
        answer = ask_once(ids[i], "", &s);
        assert_int_equal(answer.status, PST_OK); /* nothing fits into nothing */
    }
}
