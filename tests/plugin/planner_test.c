/* SPDX-License-Identifier: Apache-2.0
 *
 * From TOML to a plan: what comes out, and what is said about memory. planner_faults_test.txt has
 * what is refused and whose fault it is.
 */
#include "test.h"

#include "job_expect.h"

TEST(test_a_plan)
{
    struct pst_planned planned;
    FINISHED_BY(job_rig_finish) struct job_rig rig;

    assert_ok(job_rig_plan(&rig,
                           MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B "[[memopt]]\nuse = \"none\"\n",
                           &planned),
              &rig.err);
    assert_int_equal(planned.plan->n_stages, 2);
    assert_int_equal(planned.plan->n_devices, 2);
    assert_int_equal(planned.plan->stages[0].in_flight, 2);
    assert_int_equal(planned.plan->stages[1].in_flight, 1);
    assert_int_equal(planned.plan->stages[0].n_microbatches, 4);
    assert_int_equal(planned.plan->optimizer_slots, 2); /* adamw */
    assert_string_equal(planned.plan->partitioner, "chain-dp 2.0");
    assert_string_equal(planned.plan->scheduler, "1f1b 1.0");
    assert_string_equal(planned.plan->memopt, "none 1.0");
    assert_contains(planned.plan->config_json, "chain-dp");
    assert_true(planned.plan->graph_digest == rig.graph->digest);
    assert_true(planned.plan->capacity_bytes == UINT64_MAX);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(planned.programs[r]->rank, r);
        assert_true(planned.plan->devices[r].arena_bytes == planned.programs[r]->arena_bytes);
    }
    pst_planned_finish(&planned);
}

static uint64_t need_with(const char *toml)
{
    struct pst_planned planned;
    struct job_rig rig;
    uint64_t need = 0;

    assert_ok(job_rig_plan(&rig, toml, &planned), &rig.err);
    for (uint32_t r = 0; r < planned.plan->n_devices; r++) {
        uint64_t bytes = planned.plan->devices[r].arena_bytes;

        need = bytes > need ? bytes : need;
        assert_true(bytes <= planned.plan->capacity_bytes);
    }
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    return need;
}

/* The job with so much memory. */
static const char *limited(const char *job, uint64_t memory)
{
    static char toml[1200];

    snprintf(toml, sizeof toml, "%smemory = %llu\n", job, (unsigned long long)memory);
    return toml;
}

#define GPT                                                                                        \
    "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 32\nheads = 2\ncontext = 32\nvocab = 64\n"          \
    "[data]\nkind = \"synthetic\"\n[train]\nbatch = 16\nmicrobatch = 2\n"

TEST(test_capacity)
{
    static const char job[] = GPT "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"gpipe\"\n"
                                  "[cluster]\ndevices = 3\n";
    uint64_t all = need_with(job), need;
    struct pst_error err;
    char words[64];

    assert_true(need_with(limited(job, all)) == all);
    /* One byte less, and buffers that only save time are given up. */
    need = need_with(limited(job, all - 1));
    assert_true(need < all);
    /* Exactly that much is enough; one byte less is refused, and the answer names the number. */
    assert_true(need_with(limited(job, need)) == need);
    assert_int_equal(try(limited(job, need - 1), &err), PST_ERR_INFEASIBLE);
    assert_string_equal(err.kind, "plan.infeasible");
    assert_int_equal(pst_error_exit_code(&err), 1);
    snprintf(words, sizeof words, "(%llu bytes) on device ", (unsigned long long)need);
    assert_contains(err.message, words);
    assert_contains(err.message, ", 1 B more than its ");
    assert_contains(err.details, "activations");
    assert_contains(err.details, "stage 2");
    assert_true(job_rig_enough(&err) == need);
    assert_contains(err.hint, "memopt.use = \"");
    assert_contains(err.hint, "\" would fit");
}

/* What a refusal says would do, does: the number, and the memory optimizer. */
TEST(test_advice)
{
    static const char *const partitioners[] = {"[partitioner]\nuse = \"uniform\"\n", CHAIN_DP};
    static const unsigned percents[] = {1, 30, 50, 60};

    for (size_t p = 0; p < 2; p++) {
        char job[1024], toml[1200];
        uint64_t need;

        snprintf(job, sizeof job, "%s%s%s[cluster]\ndevices = 3\n", GPT, partitioners[p],
                 ONE_F_ONE_B);
        need = need_with(job);
        for (size_t i = 0; i < 4; i++) {
            unsigned long long memory = need * percents[i] / 100, enough, with = 0;
            struct pst_error err;
            const char *at;
            char id[64] = "";

            assert_int_equal(try(limited(job, memory), &err), PST_ERR_INFEASIBLE);
            assert_contains(err.details, "optimizer state");
            assert_contains(err.details, "device 2: ");
            enough = job_rig_enough(&err);
            assert_true(enough > memory && enough <= need);
            assert_true(need_with(limited(job, enough)) <= enough);
            at = strstr(err.hint, "memopt.use = \"");
            assert_non_null(at);
            assert_int_equal(sscanf(at, "memopt.use = \"%63[^\"]", id), 1);
            if (strstr(err.hint, "\" would fit") != NULL) {
                with = memory;
            } else {
                at = strstr(err.hint, "would do; ");
                assert_non_null(at);
                assert_int_equal(sscanf(at, "would do; %llu with memopt", &with), 1);
            }
            assert_true(with < enough);
            snprintf(toml, sizeof toml, "%smemory = %llu\n[[memopt]]\nuse = \"%s\"\n", job, with,
                     id);
            assert_true(need_with(toml) <= with);
        }
    }
}

/* What has nothing to do with memory gets no advice about memory. */
TEST(test_no_advice)
{
    struct pst_error err;

    assert_int_equal(
        try(GPT CHAIN_DP ONE_F_ONE_B "[cluster]\ndevices = 500\nmemory = 10000\n", &err),
        PST_ERR_INFEASIBLE);
    assert_contains(err.message, "500 stages");
    assert_string_equal(err.hint, "");
    assert_string_equal(err.details, "");
}

/* A partitioner that heeds memory finds a plan where uniform does not, and recomputing goes lower.
 */
TEST(test_less_and_less_memory)
{
    static const char job[] = GPT CHAIN_DP ONE_F_ONE_B "[cluster]\ndevices = 3\n";
    static const char full[] = GPT CHAIN_DP ONE_F_ONE_B
        "[[memopt]]\nuse = \"full\"\nunit = \"layer\"\n[cluster]\ndevices = 3\n";
    uint64_t need = need_with(job), tight = need - need / 16, less = need / 2 + need / 6;
    struct pst_error err;

    assert_true(need_with(limited(job, tight)) <= tight);
    assert_int_equal(try(limited(job, less), &err), PST_ERR_INFEASIBLE);
    assert_int_equal(pst_error_exit_code(&err), 1);
    assert_true(need_with(limited(full, less)) <= less);
}
