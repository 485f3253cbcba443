/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of random legal plans: lists, stages, ties, samples. Each is caught by the rule that it
 * breaks; where a mutation may leave a legal plan, an oracle that runs the lists decides.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/prove/list_mutations.h"
#include "unit/prove/plan_mutations.h"

static uint32_t list_counts[N_LIST_MUTATIONS][MU_VERDICTS],
    plan_counts[N_PLAN_MUTATIONS][MU_VERDICTS];

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    const char *seed = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 97);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        char name[32];
        shape.no_barrier = rig_draw(&rig, 3) == 0;
        rig_plan(&rig, &shape);
        assert_true(oracle_legal(rig.plan, rig.graph));
        snprintf(name, sizeof name, "plan %u", i);
        for (size_t k = 0; k < N_LIST_MUTATIONS; k++) {
            mu_mutate(&rig, &list_mutations[k], PST_NONE, name, list_counts[k]);
        }
        for (size_t k = 0; k < N_PLAN_MUTATIONS; k++) {
            mu_mutate(&rig, &plan_mutations[k], PST_NONE, name, plan_counts[k]);
        }
        rig_drop_plan(&rig);
    }
}

TEST(mlp)
{
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", 400);
}

TEST(gpt)
{
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 300);
}

TEST(mmt)
{
    check_model("mmt", "", 40);
}

TEST(every_mutation)
{
    mu_print(list_mutations, N_LIST_MUTATIONS, list_counts);
    mu_print(plan_mutations, N_PLAN_MUTATIONS, plan_counts);
}
