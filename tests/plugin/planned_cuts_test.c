/* SPDX-License-Identifier: Apache-2.0
 *
 * tideline, vpipe and pipedream-2bw on costed graphs that a scheduler and a memory optimizer
 * judge: peaks and periods worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../solo_rig.h"

static struct solo s;

/* Six nodes (1, 2, 2, 1, 1): stage 0 of c nodes needs 6c + 2, stage 1 4(6 - c) + 1. */
static void six_nodes(double capacity)
{
    solo_init(&s, 6);
    for (uint32_t v = 0; v < 6; v++) {
        s.nodes[v].ns[0] = 1000;
        s.nodes[v].ns[1] = 2000;
        s.nodes[v].saved_bytes = 2;
        s.nodes[v].output_bytes = s.nodes[v].param_bytes = 1;
        if (v > 0) {
            s.edges[v - 1].bytes = 1;
        }
    }
    s.problem.n_devices = 2;
    s.problem.mini_batch = 8;
    s.problem.memory_bytes = capacity;
    s.problem.weight_multiplier = 2;
    s.problem.input_bytes = 1;
    s.problem.planned = true;
    s.problem.scheduler = "1f1b";
    s.problem.memopt = "none";
}

static void expect(const char *id, const char *options, double us, uint32_t cut)
{
    struct pst_partition_result result;
    struct pst_error err;
    pst_status st = solo_ask(&s, id, options, &result, &err);

    if (us == 0) {
        assert_int_equal(st, PST_ERR_INFEASIBLE);
        assert_string_equal(err.kind, "plan.infeasible");
        return;
    }
    if (st != PST_OK) {
        fail_msg("%s, %g bytes: %s", id, s.problem.memory_bytes, err.message);
    }
    assert_int_equal(result.n_stages, 2);
    assert_int_equal(result.stages[0].n_nodes, cut);
    solo_close(solo_number(&result, "bottleneck_us_per_sample"), us);
    pst_partition_result_finish(&result);
}

static void test_everything_kept(void **state)
{
    static const struct {
        double capacity, us;
        uint32_t cut;
    } table[] = {{20, 9, 3}, {19, 12, 2}, {17, 12, 2}, {16, 0, 0}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        six_nodes(table[i].capacity);
        expect("tideline", NULL, table[i].us, table[i].cut);
        expect("tideline", "{\"search\":\"binary\"}", table[i].us, table[i].cut);
        expect("tideline", "{\"search\":\"threshold\"}", table[i].us, table[i].cut);
        expect("vpipe", NULL, table[i].us, table[i].cut);
        /* Stages take 9 and 9 or 6 and 12: m slots and one to fill, of 8 samples. */
        expect("pipedream-2bw", NULL, table[i].us * 9 / 8, table[i].cut);
    }
}

/* Stage 0 recomputed as a whole holds inputs alone beside one micro-batch: 2c + 2 + 2c. */
static void test_stages_recomputed(void **state)
{
    (void)state;
    six_nodes(14); /* 6 + 2 + 6 and 6 + 1 + 6: 9 + 3 */
    s.problem.memopt = "full";
    expect("tideline", NULL, 12, 3);
    expect("vpipe", NULL, 12, 3);
    s.problem.memory_bytes = 13; /* c = 2: 4 + 2 + 4, but 8 + 1 + 8 */
    expect("tideline", NULL, 0, 0);
}

/* Four blocks of 2 GB, 1 GB a sample, messages of 0.1 GB: the first stage of 2BW holds two versions
   and four micro-batches, 4 + 4.4 GB, or, recomputing, 4 + 0.4 + 1. */
static void test_two_versions(void **state)
{
    static const struct {
        const char *memopt;
        double capacity_gb, us, gb;
    } table[] = {{"none", 8.4, 3, 8.4},
                 {"none", 8.39, 0, 0},
                 {"full", 8.39, 4, 5.4},
                 {"full", 5.4, 4, 5.4},
                 {"full", 5.39, 0, 0}};
    static const uint32_t one[] = {1};
    static const double us[][2] = {{1, 2}};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct pst_partition_result result;
        struct pst_error err;

        solo_init(&s, 4);
        solo_blocks(&s, 1, one, us, 2e9, 1e9, 1e8);
        s.problem.n_devices = 4;
        s.problem.mini_batch = 8;
        s.problem.memory_bytes = table[i].capacity_gb * 1e9;
        s.problem.input_bytes = 1e8;
        s.problem.planned = true;
        s.problem.scheduler = "2bw";
        s.problem.memopt = table[i].memopt;
        if (solo_ask(&s, "pipedream-2bw", NULL, &result, &err) != PST_OK) {
            if (table[i].us != 0) {
                fail_msg("case %zu: %s", i, err.message);
            }
            continue;
        }
        solo_close(solo_number(&result, "bottleneck_us_per_sample"), table[i].us);
        solo_close(solo_number(&result, "worst_stage_bytes"), table[i].gb * 1e9);
        assert_string_equal(solo_text(&result, "mode"), "pipeline");
        assert_string_equal(solo_text(&result, "schedule"), "2bw");
        assert_int_equal(solo_number(&result, "recompute"), strcmp(table[i].memopt, "full") == 0);
        pst_partition_result_finish(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_kept),
        cmocka_unit_test(test_stages_recomputed),
        cmocka_unit_test(test_two_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
