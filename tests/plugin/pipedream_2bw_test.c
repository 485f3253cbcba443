/* SPDX-License-Identifier: Apache-2.0
 *
 * pipedream-2bw on worked examples: the tables were computed by hand from the paper's formulas.
 */
#include "test.h"

#include "../solo_rig.h"

#define GB 1e9

struct expected {
    double capacity_gb;
    uint32_t w, d, b;
    bool pipeline, recompute;
    double samples_per_s, gb;
};

static void expect(struct solo *s, const char *options, const struct expected *e)
{
    struct pst_partition_result result;
    struct pst_error err;

    s->problem.memory_bytes = e->capacity_gb * GB;
    if (e->w == 0) {
        assert_int_equal(solo_ask(s, "pipedream-2bw", options, &result, &err), PST_ERR_INFEASIBLE);
        assert_string_equal(err.kind, "plan.infeasible");
        return;
    }
    if (solo_ask(s, "pipedream-2bw", options, &result, &err) != PST_OK) {
        fail_msg("M = %g: %s", e->capacity_gb, err.message);
    }
    assert_int_equal(result.n_stages, e->d);
    for (uint32_t i = 0; i < e->d; i++) {
        assert_int_equal(result.stages[i].n_nodes, s->draft.n_nodes / e->d);
        assert_int_equal(result.stages[i].n_ranks, e->w);
        assert_int_equal(result.stages[i].microbatch_size, e->w * e->b);
    }
    assert_string_equal(solo_text(&result, "mode"), e->pipeline ? "pipeline" : "no-pipeline");
    assert_int_equal(solo_number(&result, "recompute"), e->recompute);
    solo_close(solo_number(&result, "throughput_per_s"), e->samples_per_s);
    solo_close(solo_number(&result, "bottleneck_us_per_sample"), 1e6 / e->samples_per_s);
    solo_close(solo_number(&result, "worst_stage_bytes"), e->gb * GB);
    solo_close(result.stages[0].memory_bytes, e->gb * GB);
    solo_close(result.peak_bytes, e->gb * GB);
    pst_partition_result_finish(&result);
}

static const uint32_t sizes[] = {1, 2, 4};

/* Four devices of one server, eight blocks. */
TEST(test_one_server)
{
    static const double us[][2] = {{10000, 20000}, {16000, 32000}, {28000, 56000}};
    static const struct expected table[] = {
        {15.5, 2, 2, 4, true, false, 8 / .496, 15.2},
        {15.2, 2, 2, 4, true, false, 8 / .496, 15.2},
        {14, 2, 2, 2, true, false, 4 / .272, 11.6},
        {9.5, 1, 4, 2, true, false, 2 / .176, 8},
        {8.5, 1, 4, 2, true, false, 2 / .176, 8},
        {7.5, 1, 4, 4, true, true, 4 / .384, 7.2},
        {5, 1, 4, 1, true, true, 1 / .12, 4.8},
        {4, 1, 4, 4, false, false, 4 / 1.312, 4},
        {2, 0, 0, 0, false, false, 0, 0},
    };
    static struct solo s;

    solo_init(&s, 8);
    solo_blocks(&s, 3, sizes, us, 1 * GB, .2 * GB, .1 * GB);
    s.problem.n_devices = 4;
    s.problem.mini_batch = 32;
    s.problem.p2p_bandwidth = 10 * GB;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        expect(&s, NULL, &table[i]);
        expect(&s,
               "{\"node_size\":4,\"bandwidth_high\":10000000000,\"bandwidth_low\":10000000000,"
               "\"allreduce_coefficient\":4}",
               &table[i]);
    }
}

/* Sixteen devices of two servers: where the all-reduce crosses servers decides. */
TEST(test_two_servers)
{
    static const double us[][2] = {{4000, 8000}, {6000, 12000}, {10000, 20000}};
    static const struct expected table[] = {
        {10, 4, 4, 2, true, false, 8 / .152, 9.76},
        {8, 2, 8, 4, true, false, 8 / .22, 7.84},
        {6, 2, 8, 2, true, false, 4 / .116, 5.92},
        {4, 1, 16, 4, true, true, 4 / .2, 3.48},
    };
    static const struct expected few = {10, 4, 4, 1, true, false, 4 / .088, 8.88};
    static const char *const options =
        "{\"node_size\":8,\"bandwidth_high\":100000000000,\"bandwidth_low\":2000000000,"
        "\"allreduce_coefficient\":2}";
    static struct solo s;

    solo_init(&s, 16);
    solo_blocks(&s, 3, sizes, us, 1 * GB, .05 * GB, .02 * GB);
    s.problem.n_devices = 16;
    s.problem.mini_batch = 64;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        expect(&s, options, &table[i]);
    }
    s.problem.mini_batch = 16; /* m = 2 < d = 4 forbids (4, 4, 2) */
    expect(&s, options, &few);
}

/* Memory of one pipeline of four: |W| 8, A 4, I 0.1 GB. An all-reduce of 64 (w - 1)/w |W|/d keeps
   wider ones away. */
TEST(test_memory)
{
    static const struct {
        const char *schedule;
        uint32_t batch;
        double capacity_gb, gb;
        bool pipeline, recompute;
    } table[] = {
        {"2bw", 8, 8.4, 2 * 8 / 4. + 4 + .4, true, false},
        {"2bw", 8, 8.39, 2 * 8 / 4. + 1 + .4, true, true},
        {"2bw", 8, 5.4, 5.4, true, true},
        {"flush", 8, 6.4, 2 + 4 + .4, true, false},
        {"flush", 8, 6.39, 2 + 1 + .4, true, true},
        {"gpipe", 8, 3.8, 2 + 1 + .8, true, true},
        {"gpipe", 32, 6.2, 2 + 1 + 3.2, true, true},
        {"2bw", 8, 3.4, 2 + 1 + .1, false, false},
    };
    static const double us[][2] = {{5e6, 5e6}};
    static struct solo s;

    solo_init(&s, 4);
    solo_blocks(&s, 1, sizes, us, 2 * GB, 1 * GB, .1 * GB);
    s.problem.n_devices = 4;
    s.problem.p2p_bandwidth = 1 * GB;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct pst_partition_result result;
        struct pst_error err;
        char options[128];

        snprintf(options, sizeof options, "{\"schedule\":\"%s\",\"allreduce_coefficient\":64}",
                 table[i].schedule);
        s.problem.mini_batch = table[i].batch;
        s.problem.memory_bytes = table[i].capacity_gb * GB;
        if (solo_ask(&s, "pipedream-2bw", options, &result, &err) != PST_OK) {
            fail_msg("case %zu: %s", i, err.message);
        }
        assert_int_equal(result.n_stages, 4);
        solo_close(solo_number(&result, "worst_stage_bytes"), table[i].gb * GB);
        assert_string_equal(solo_text(&result, "mode"),
                            table[i].pipeline ? "pipeline" : "no-pipeline");
        assert_int_equal(solo_number(&result, "recompute"), table[i].recompute);
        pst_partition_result_finish(&result);
    }
}

/* A flush costs m + d - 1 slots of a batch of m: 8 samples in (8 + 3) * 10 s and an all-reduce of
   nothing; with two versions it is 10 s each. Both at once: the faster one, unless its second
   version does not fit. */
TEST(test_schedules)
{
    static const double us[][2] = {{5e6, 5e6}};
    static struct solo s;
    struct pst_partition_result result;
    struct pst_error err;

    solo_init(&s, 4);
    solo_blocks(&s, 1, sizes, us, 2 * GB, 1 * GB, 0);
    s.problem.n_devices = 4;
    s.problem.mini_batch = 8;
    s.problem.p2p_bandwidth = 1 * GB;
    assert_int_equal(solo_ask(&s, "pipedream-2bw",
                              "{\"schedule\":\"flush\",\"allreduce_coefficient\":64}", &result,
                              &err),
                     PST_OK);
    solo_close(solo_number(&result, "throughput_per_s"), 8 / 110.);
    pst_partition_result_finish(&result);
    s.problem.memory_bytes = 6 * GB; /* two versions: 4 + 4 */
    assert_int_equal(solo_ask(&s, "pipedream-2bw",
                              "{\"schedule\":\"best\",\"allreduce_coefficient\":64}", &result,
                              &err),
                     PST_OK);
    /* 1/(4/3 * 10) recomputing with two versions beats 8/110 with one */
    solo_close(solo_number(&result, "throughput_per_s"), 3 / 40.);
    assert_string_equal(solo_text(&result, "schedule"), "2bw");
    pst_partition_result_finish(&result);
    assert_int_equal(solo_ask(&s, "pipedream-2bw",
                              "{\"schedule\":\"best\",\"allreduce_coefficient\":64,\"c_extra\":2}",
                              &result, &err),
                     PST_OK);
    solo_close(solo_number(&result, "throughput_per_s"), 8 / 110.);
    assert_string_equal(solo_text(&result, "schedule"), "flush");
    pst_partition_result_finish(&result);
}

static void set_times(struct solo *s, const double *us)
{
    for (uint32_t v = 0; v < s->draft.n_nodes; v++) {
        s->nodes[v].ns[0] = us[v] * 1000;
    }
}

/* Times 4 2 2 2 2 6 on three stages: 6 | 6 | 6. */
TEST(test_unequal_times)
{
    static const double us[] = {4, 2, 2, 2, 2, 6};
    static struct solo s;
    struct pst_partition_result result;
    struct pst_error err;

    solo_init(&s, 6);
    set_times(&s, us);
    s.problem.n_devices = 3;
    s.problem.mini_batch = 7; /* keeps w = 3 away, which no batch of 7 can have */
    assert_int_equal(solo_ask(&s, "pipedream-2bw", NULL, &result, &err), PST_OK);
    assert_int_equal(result.n_stages, 3);
    assert_int_equal(result.stages[0].n_nodes, 2);
    assert_int_equal(result.stages[1].n_nodes, 3);
    assert_int_equal(result.stages[2].n_nodes, 1);
    solo_close(solo_number(&result, "bottleneck_us_per_sample"), 6);
    pst_partition_result_finish(&result);
}

/* Blocks of time 1, weight 1, activation 2 on two stages: stage 0 needs 6 a block, stage 1 four.
   Without recomputation (which costs twice the time here) 3 | 3 wants 18, 2 | 4 wants 16. */
TEST(test_memory_moves_the_cut)
{
    static const double us[] = {1, 1, 1, 1, 1, 1};
    static const struct {
        double capacity, us;
        uint32_t first;
        bool pipeline;
    } table[] = {{18, 3, 3, true}, {16, 4, 2, true}, {15.9, 6, 3, false}};
    static struct solo s;

    solo_init(&s, 6);
    set_times(&s, us);
    for (uint32_t v = 0; v < 6; v++) {
        s.nodes[v].param_bytes = 1;
        s.nodes[v].saved_bytes = 2;
    }
    s.problem.n_devices = 2;
    s.problem.mini_batch = 7;
    for (size_t i = 0; i < 3; i++) {
        struct pst_partition_result result;
        struct pst_error err;

        s.problem.memory_bytes = table[i].capacity;
        assert_int_equal(
            solo_ask(&s, "pipedream-2bw", "{\"even\":false,\"c_extra\":3}", &result, &err), PST_OK);
        solo_close(solo_number(&result, "bottleneck_us_per_sample"), table[i].us);
        assert_int_equal(strcmp(solo_text(&result, "mode"), "pipeline") == 0, table[i].pipeline);
        if (table[i].pipeline) {
            assert_int_equal(result.stages[0].n_nodes, table[i].first);
        }
        pst_partition_result_finish(&result);
    }
}
