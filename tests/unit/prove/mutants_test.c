/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of random legal plans: lists, stages, ties, samples. Each is caught by the rule that it
 * breaks; where a mutation may leave a legal plan, an oracle that runs the lists decides.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/prove/list_mutations.h"
#include "unit/prove/plan_mutations.h"

static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct rig_shape shape = rig_draw_shape(rig);
    shape.no_barrier = rig_draw(rig, 3) == 0;
    rig_plan(rig, &shape);
    assert_true(oracle_legal(rig->plan, rig->graph));
    mu_mutate_all(rig, list_mutations, N_LIST_MUTATIONS, name);
    mu_mutate_all(rig, plan_mutations, N_PLAN_MUTATIONS, name);
}

TEST(mlp)
{
    rig_each("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_F32, 97, 400, check);
}

TEST(gpt)
{
    rig_each("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", PST_F32, 97, 300, check);
}

TEST(mmt)
{
    rig_each("mmt", "", PST_F32, 97, 40, check);
}

TEST(every_mutation)
{
    mu_print(list_mutations, N_LIST_MUTATIONS);
    mu_print(plan_mutations, N_PLAN_MUTATIONS);
}
