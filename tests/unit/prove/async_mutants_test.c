/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of random legal asynchronous plans: fill, body and drain. Each is caught by the rule that
 * it breaks; where a mutation may leave a legal plan, an oracle that runs batches decides.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/prove/async_rig.h"
#include "unit/prove/part_mutations.h"
#include "unit/prove/plan_mutations.h"

static uint32_t list_counts[N_LIST_MUTATIONS][MU_VERDICTS],
    part_counts[N_PART_MUTATIONS][MU_VERDICTS], plan_counts[N_PLAN_MUTATIONS][MU_VERDICTS];

static void mutate(struct rig *rig, const char *name)
{
    for (size_t k = 0; k < N_LIST_MUTATIONS; k++) {
        mu_mutate(rig, &list_mutations[k], PST_NONE, name, list_counts[k]);
    }
    for (size_t k = 0; k < N_PART_MUTATIONS; k++) {
        mu_mutate(rig, &part_mutations[k], PST_NONE, name, part_counts[k]);
    }
    for (size_t k = 0; k < N_PLAN_MUTATIONS; k++) {
        mu_mutate(rig, &plan_mutations[k], PST_NONE, name, plan_counts[k]);
    }
}

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    const char *seed = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 97);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct async_shape shape = {.p = 2 + rig_draw(&rig, 3),
                                    .m = 1 + rig_draw(&rig, 5),
                                    .size = 1 + rig_draw(&rig, 2),
                                    .barrier = rig_draw(&rig, 2) == 0};
        shape.replicas = i % 4 == 3;
        shape.size *= shape.replicas ? 3 : 1;
        char name[32];
        snprintf(name, sizeof name, "plan %u", i);
        if (async_plan(&rig, &shape)) {
            assert_true(async_oracle(rig.plan, rig.graph));
            mutate(&rig, name);
        }
        rig_drop_plan(&rig);
    }
}

TEST(mlp)
{
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", 200);
}

TEST(gpt)
{
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 150);
}

TEST(mmt)
{
    check_model("mmt", "branches=2 layers=1 dim=8 heads=1 context=4 vocab=7", 60);
}

TEST(every_mutation)
{
    mu_print(list_mutations, N_LIST_MUTATIONS, list_counts);
    mu_print(part_mutations, N_PART_MUTATIONS, part_counts);
}
