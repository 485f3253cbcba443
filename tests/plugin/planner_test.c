/* SPDX-License-Identifier: Apache-2.0
 *
 * From TOML to a plan: what comes out, what is refused and whose fault it is.
 */
#include "test.h"

#include "base/log.h"
#include "job_expect.h"

TEST(test_a_plan)
{
    struct pst_planned planned;
    struct job_rig rig;

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
    job_rig_finish(&rig);
}

/* Whatever the combination, a plan that the checker accepts; and twice the same. */
TEST(test_combinations)
{
    static const char *const models[] = {
        MODEL, "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 16\nheads = 2\ncontext = 8\nvocab = "
               "11\n[data]\nkind = \"synthetic\"\n"};
    static const char *const partitioners[] = {CHAIN_DP, "[partitioner]\nuse = \"uniform\"\n"};
    static const char *const schedulers[] = {
        ONE_F_ONE_B, "[scheduler]\nuse = \"gpipe\"\n",
        "[scheduler]\nuse = \"1f1b\"\nsplit = true\neager = true\n",
        "[scheduler]\nuse = \"gpipe\"\nreverse = true\nsplit = true\n"};
    static const char *const memopts[] = {"", "[[memopt]]\nuse = \"full\"\n",
                                          "[[memopt]]\nuse = \"full\"\nunit = \"layer\"\n[[memopt]]"
                                          "\nuse = \"none\"\n"};
    uint32_t n = 0;

    for (size_t a = 0; a < 2; a++) {
        for (size_t b = 0; b < 2; b++) {
            for (size_t c = 0; c < 4; c++) {
                for (size_t d = 0; d < 3; d++) {
                    struct pst_planned planned[2];
                    struct job_rig rigs[2];
                    char toml[1024];

                    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = %d\n%s%s%s", models[a],
                             TRAIN, 1 + (int)(n++ % 4), partitioners[b], schedulers[c], memopts[d]);
                    for (int i = 0; i < 2; i++) {
                        if (job_rig_plan(&rigs[i], toml, &planned[i]) != PST_OK) {
                            fail_msg("%s\n%s\n%s", toml, rigs[i].err.message, rigs[i].err.details);
                        }
                    }
                    for (uint32_t r = 0; r < planned[0].plan->n_devices; r++) {
                        const struct pst_plan_device *x = &planned[0].plan->devices[r];
                        const struct pst_plan_device *y = &planned[1].plan->devices[r];

                        assert_int_equal(x->n_instrs, y->n_instrs);
                        assert_int_equal(x->arena_bytes, y->arena_bytes);
                    }
                    for (int i = 0; i < 2; i++) {
                        pst_planned_finish(&planned[i]);
                        job_rig_finish(&rigs[i]);
                    }
                }
            }
        }
    }
}

/* --- memory ------------------------------------------------------------------------------------*/

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

#define GPT                                                                                        \
    "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 32\nheads = 2\ncontext = 32\nvocab = 64\n"          \
    "[data]\nkind = \"synthetic\"\n[train]\nbatch = 16\nmicrobatch = 2\n"

TEST(test_capacity)
{
    const char *strategies = "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"gpipe\"\n";
    char toml[1024];
    struct pst_error err;
    uint64_t need;

    snprintf(toml, sizeof toml, "%s%s%s", GPT, strategies, "[cluster]\ndevices = 3\n");
    need = need_with(toml);
    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = 3\nmemory = %llu\n", GPT, strategies,
             (unsigned long long)need);
    assert_true(need_with(toml) == need);
    /* One byte less, and buffers that only save time are given up. */
    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = 3\nmemory = %llu\n", GPT, strategies,
             (unsigned long long)need - 1);
    assert_true(need_with(toml) < need);
    need = need_with(toml);
    /* Exactly that much is enough; one byte less is refused, and the answer names the number. */
    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = 3\nmemory = %llu\n", GPT, strategies,
             (unsigned long long)need);
    assert_true(need_with(toml) == need);
    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = 3\nmemory = %llu\n", GPT, strategies,
             (unsigned long long)need - 1);
    assert_int_equal(try(toml, &err), PST_ERR_INFEASIBLE);
    assert_string_equal(err.kind, "plan.infeasible");
    assert_int_equal(pst_error_exit_code(&err), 1);
    snprintf(toml, sizeof toml, "(%llu bytes) on device ", (unsigned long long)need);
    assert_contains(err.message, toml);
    assert_contains(err.message, ", 1 B more than its ");
    assert_contains(err.details, "activations");
    assert_contains(err.details, "stage 2");
    assert_true(job_rig_enough(&err) == need);
    assert_contains(err.hint, "memopt.use = \"");
    assert_contains(err.hint, "\" would do with what there is");
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

            snprintf(toml, sizeof toml, "%smemory = %llu\n", job, memory);
            assert_int_equal(try(toml, &err), PST_ERR_INFEASIBLE);
            assert_contains(err.details, "optimizer state");
            assert_contains(err.details, "device 2: ");
            enough = job_rig_enough(&err);
            assert_true(enough > memory && enough <= need);
            snprintf(toml, sizeof toml, "%smemory = %llu\n", job, enough);
            assert_true(need_with(toml) <= enough);
            at = strstr(err.hint, "memopt.use = \"");
            assert_non_null(at);
            assert_int_equal(sscanf(at, "memopt.use = \"%63[^\"]", id), 1);
            if (strstr(err.hint, "\" would do with what there is") != NULL) {
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
    char toml[1024];
    struct pst_error err;

    snprintf(toml, sizeof toml, "%s%s%s[cluster]\ndevices = 500\nmemory = 10000\n", GPT, CHAIN_DP,
             ONE_F_ONE_B);
    assert_int_equal(try(toml, &err), PST_ERR_INFEASIBLE);
    assert_contains(err.message, "500 stages");
    assert_string_equal(err.hint, "");
    assert_string_equal(err.details, "");
}

/* A partitioner that heeds memory finds a plan where uniform does not, and recomputing goes lower.
 */
TEST(test_less_and_less_memory)
{
    static const char *const dp = CHAIN_DP ONE_F_ONE_B;
    char toml[1024];
    uint64_t free_need, tight, full;
    struct pst_error err;

    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = 3\n", GPT, dp);
    free_need = need_with(toml);
    tight = free_need - free_need / 16;
    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = 3\nmemory = %llu\n", GPT, dp,
             (unsigned long long)tight);
    assert_true(need_with(toml) <= tight);

    full = free_need / 2 + free_need / 6;
    snprintf(toml, sizeof toml, "%s%s[cluster]\ndevices = 3\nmemory = %llu\n", GPT, dp,
             (unsigned long long)full);
    assert_int_equal(try(toml, &err), PST_ERR_INFEASIBLE);
    assert_int_equal(pst_error_exit_code(&err), 1);
    snprintf(toml, sizeof toml,
             "%s%s[[memopt]]\nuse = \"full\"\nunit = \"layer\"\n[cluster]\ndevices = 3\nmemory = "
             "%llu\n",
             GPT, dp, (unsigned long long)full);
    assert_true(need_with(toml) <= full);
}

/* --- what the user got wrong
 * ---------------------------------------------------------------------*/

TEST(test_wrong_requests)
{
    struct pst_error err;

    expect(MODEL TRAIN TWO CHAIN_DP "[scheduler]\nuse = \"gpip\"\n", "plugin.not-found", 2,
           "no scheduler \"gpip\"; did you mean \"gpipe\"?");
    assert_int_not_equal(try(MODEL TRAIN TWO CHAIN_DP "[scheduler]\nuse = \"gpip\"\n", &err),
                         PST_OK);
    assert_string_equal(err.file, "test.toml");
    assert_int_equal(err.line, 16);
    expect(MODEL TRAIN TWO CHAIN_DP, "config.key", 2, "[scheduler] must name one");
    expect(MODEL TRAIN TWO CHAIN_DP "[scheduler]\nuse = 7\n", "config.value", 2,
           "\"use\" in [scheduler] must be a string");
    expect(MODEL TRAIN TWO CHAIN_DP "[scheduler]\nuse = \"gpipe\"\nrevers = true\n", "config.key",
           2, "unknown key \"revers\" in [scheduler] (gpipe); did you mean \"reverse\"?");
    expect(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B "[[memopt]]\nuse = \"full\"\nevery = 0\n",
           "config.value", 2, "every");
    expect(MODEL TRAIN "[cluster]\ndevices = 40\n" CHAIN_DP ONE_F_ONE_B, "plan.infeasible", 1,
           "40 stages are wanted but the graph has only");
}

/* --- what a plugin got wrong
 * ---------------------------------------------------------------------*/

TEST_WITH(test_lying_partitioners, with_gallery, without_gallery)
{
    static const struct lie lies[] = {
        {"missing", "plan.illegal", 3, "reads \"layers.3\", which is in no stage before"},
        {"twice", "plan.illegal", 3, "is in stage 0 and in stage 1"},
        {"order", "plan.illegal", 3, "which is in no stage before"},
        {"far", "plan.illegal", 3, "stage 1 has node 6, but there are 6"},
        {"rank", "plan.illegal", 3, "rank 0, which has a stage already"},
        {"size", "plan.illegal", 3, "micro-batches of 3 samples"},
        {"empty", "plan.illegal", 3, "has no nodes"},
        {"deaf", "plan.illegal", 3, "stage 1 has node 6"},
        {"replicas", "plan.illegal", 3, "2 replicas; degrees are those that were offered"},
        {"wait", "plugin.timeout", 3,
         "partitioner-liar.so): made no plan in 100 ms, the plugins.time_limit; it was in "
         "partition()"},
        {"shy", "plan.infeasible", 1, "partitioner \"liar\": found no answer"},
    };

    check_lies(MODEL TRAIN TWO ONE_F_ONE_B
               "[plugins]\ntime_limit = \"100 ms\"\n[partitioner]\nuse = \"liar\"\nlie = \"%s\"\n",
               lies, sizeof lies / sizeof lies[0]);
}

TEST_WITH(test_lying_schedulers, with_gallery, without_gallery)
{
    static const struct lie lies[] = {
        {"missing", "plan.illegal", 3, "never gets its backward"},
        {"twice", "plan.illegal", 3, "BW of micro-batch 0 on stage 0 comes twice"},
        {"early", "plan.illegal", 3, "comes before its F"},
        {"device", "plan.illegal", 3, "emitted on device 1, but the stage is on device 0"},
        {"deadlock", "plan.illegal", 3, "scheduler \"liar\" made an illegal plan"},
        {"part", "plan.illegal", 3, "asynchronous schedules"},
        {"many", "config.value", 2, "needs at least 1000 micro-batches"},
        {"mute", "plan.illegal", 3, "micro-batch 0 of stage 0 never gets its F"},
        {"async", "plugin.contract", 3, "does not provide async"},
    };
    static const struct lie tales[] = {
        {"held", "plan.illegal", 3, "in_flight() says that stage 1 of 2 holds 0 micro-batches"},
    };

    check_lies(MODEL TRAIN TWO CHAIN_DP "[scheduler]\nuse = \"liar\"\nlie = \"%s\"\n", lies,
               sizeof lies / sizeof lies[0]);
    check_lies(MODEL TRAIN TWO CHAIN_DP "[scheduler]\nuse = \"teller\"\nlie = \"%s\"\n", tales, 1);
}

TEST_WITH(test_lying_memopts, with_gallery, without_gallery)
{
    static const struct lie lies[] = {
        {"far", "plan.illegal", 3, "there is no such node"},
        {"action", "plan.illegal", 3, "there is no such action"},
        {"peer", "plan.illegal", 3, "not an action that one stage can decide about"},
        {"promise", "plugin.contract", 3, "price() promised"},
        {"haste", "plugin.contract", 3, "price() promised 1 ns, but its passes alone take"},
        {"broken", "plugin.contract", 3, "price() returned the unknown status 4711"},
    };

    check_lies(MODEL TRAIN TWO CHAIN_DP ONE_F_ONE_B "[[memopt]]\nuse = \"liar\"\nlie = \"%s\"\n",
               lies, sizeof lies / sizeof lies[0]);
}

/* Honest ones of the gallery work; without in_flight() the host counts on a unit chain. */
TEST_WITH(test_counted_in_flight, with_gallery, without_gallery)
{
    struct pst_planned planned;
    struct job_rig rig;

    assert_ok(job_rig_plan(&rig,
                           MODEL TRAIN TWO
                           "[partitioner]\nuse = \"chain-dp\"\n[scheduler]\nuse = \"liar\"\n",
                           &planned),
              &rig.err);
    assert_int_equal(planned.plan->stages[0].in_flight, 1);
    assert_int_equal(planned.plan->stages[1].in_flight, 1);
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
}

/* Two stages on each of two devices: they share its memory, and the plan is checked as any other.
 */
TEST_WITH(test_stages_that_share_devices, with_gallery, without_gallery)
{
    const char *strategies = "[scheduler]\nuse = \"looper\"\n[partitioner]\nuse = ";
    struct pst_planned planned;
    struct job_rig rig;
    char toml[1024];
    uint64_t need;

    snprintf(toml, sizeof toml, "%s%s\"uniform\"\n[cluster]\ndevices = 2\n", GPT, strategies);
    assert_ok(job_rig_plan(&rig, toml, &planned), &rig.err);
    assert_int_equal(planned.plan->n_stages, 4);
    for (uint32_t s = 0; s < 4; s++) {
        assert_int_equal(planned.plan->stages[s].ranks[0], s % 2);
        assert_int_equal(planned.plan->stages[s].in_flight, 8);
    }
    need = planned.plan->devices[0].arena_bytes > planned.plan->devices[1].arena_bytes
               ? planned.plan->devices[0].arena_bytes
               : planned.plan->devices[1].arena_bytes;
    pst_planned_finish(&planned);
    job_rig_finish(&rig);

    snprintf(toml, sizeof toml, "%s%s\"chain-dp\"\n[cluster]\ndevices = 2\nmemory = %llu\n", GPT,
             strategies, (unsigned long long)need);
    assert_true(need_with(toml) <= need);
}
