/* SPDX-License-Identifier: Apache-2.0
 *
 * pipedream-2bw, vpipe and tideline in jobs: as wide as was said, within memory; and where chain-dp
 * finds a plan that fits, so does the other exact one.
 */
#include "job_rig.h"

#include "test.h"

static const char *const models[] = {
    "[model]\nuse = \"gpt\"\nlayers = 3\ndim = 32\nheads = 2\ncontext = 16\nvocab = 64\n",
    "[model]\nuse = \"resnet\"\ndepth = \"custom\"\nimage = 8\nstages = 2\nblocks = 2\nwidth = 8\n",
    "[model]\nuse = \"mmt\"\nbranches = 3\nlayers = 1\ndim = 16\nheads = 2\ncontext = 6\n",
};
static const char *const ids[] = {"pipedream-2bw", "vpipe", "tideline"};
static const char *const schedulers[] = {
    "[scheduler]\nuse = \"1f1b\"\n", "[scheduler]\nuse = \"gpipe\"\n",
    "[scheduler]\nuse = \"2bw\"\n", "[scheduler]\nuse = \"zb-h1\"\n"};
static const char *const memopts[] = {"", "[[memopt]]\nuse = \"full\"\n"};

static void write_job(char toml[1024], const char *model, const char *partitioner,
                      const char *scheduler, const char *memopt, unsigned devices, uint64_t memory)
{
    char limit[64] = "";

    if (memory != UINT64_MAX) {
        snprintf(limit, sizeof limit, "memory = %llu\n", (unsigned long long)memory);
    }
    snprintf(toml, 1024,
             "%s[data]\nkind = \"synthetic\"\n[train]\nbatch = 12\nmicrobatch = 2\n"
             "[partitioner]\nuse = \"%s\"\n%s%s[cluster]\ndevices = %u\n%s",
             model, partitioner, scheduler, memopt, devices, limit);
}

/* What the device that needs most takes; 0: does not fit. */
static uint64_t plan(const char *toml)
{
    struct pst_planned planned = {.plan = NULL};
    struct job_rig rig;
    uint64_t most = 0;
    pst_status st = job_rig_plan(&rig, toml, &planned);

    if (st == PST_ERR_INFEASIBLE) {
        assert_string_equal(rig.err.kind, "plan.infeasible");
        job_rig_finish(&rig);
        return 0;
    }
    if (st != PST_OK) {
        fail_msg("%s\n%s\n%s", toml, rig.err.message, rig.err.details);
    }
    for (uint32_t r = 0; r < planned.plan->n_devices; r++) {
        uint64_t bytes = planned.plan->devices[r].arena_bytes;

        most = bytes > most ? bytes : most;
        assert_true(bytes <= planned.plan->capacity_bytes);
    }
    for (uint32_t s = 0; s < planned.plan->n_stages; s++) {
        assert_int_equal(planned.plan->stages[s].n_ranks, 1);
    }
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    return most;
}

/* Where several replicas are allowed, pipedream-2bw weighs width against depth; with one degree
   alone there is nothing to weigh, and all stages are as wide. */
TEST(test_replicas)
{
    static const struct {
        const char *degrees;
        uint32_t n_stages, n_ranks;
    } table[] = {{"1", 4, 1}, {"2", 2, 2}, {"4", 1, 4}};

    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 3; k++) { /* 1f1b, gpipe, 2bw */
            struct pst_planned planned = {.plan = NULL};
            FINISHED_BY(job_rig_finish) struct job_rig rig;
            char toml[1024];

            snprintf(toml, sizeof toml,
                     "%s[data]\nkind = \"synthetic\"\n[train]\nbatch = 16\nmicrobatch = 4\n"
                     "degrees = \"%s\"\n[partitioner]\nuse = \"pipedream-2bw\"\n%s[cluster]\n"
                     "devices = 4\n",
                     models[0], table[i].degrees, schedulers[k]);
            if (job_rig_plan(&rig, toml, &planned) != PST_OK) {
                fail_msg("%s\n%s", toml, rig.err.message);
            }
            assert_int_equal(planned.plan->n_stages, table[i].n_stages);
            for (uint32_t s = 0; s < planned.plan->n_stages; s++) {
                assert_int_equal(planned.plan->stages[s].n_ranks, table[i].n_ranks);
                assert_int_equal(planned.plan->stages[s].microbatch_size, 4);
            }
            pst_planned_finish(&planned);
        }
    }
}

/* With less and less memory: what is planned is within it, and tideline, whose search is exact on
   these graphs, says no exactly where chain-dp does. */
TEST(test_less_memory)
{
    uint32_t n_fit = 0, n_not = 0;

    for (size_t m = 0; m < 2; m++) {
        for (size_t o = 0; o < 2; o++) {
            uint64_t need;
            char toml[1024];

            write_job(toml, models[m], "chain-dp", schedulers[0], memopts[o], 3, UINT64_MAX);
            need = plan(toml);
            assert_true(need != 0);
            for (uint64_t memory = need; memory > need * 85 / 100; memory = memory * 97 / 100) {
                bool fits[4];

                for (size_t p = 0; p < 4; p++) {
                    write_job(toml, models[m], p < 3 ? ids[p] : "chain-dp", schedulers[0],
                              memopts[o], 3, memory);
                    fits[p] = plan(toml) != 0;
                }
                if (fits[2] != fits[3]) {
                    fail_msg("model %zu, memopt %zu, %llu bytes: tideline %d, chain-dp %d", m, o,
                             (unsigned long long)memory, fits[2], fits[3]);
                }
                assert_true(fits[3] || !fits[0]); /* pipedream-2bw: d = 3 and the same prices */
                n_fit += fits[2];
                n_not += !fits[2];
            }
        }
    }
    print_message("%u fit, %u do not\n", n_fit, n_not);
    assert_true(n_fit >= 4 && n_not >= 4);
}
