/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of random legal asynchronous plans: fill, body and drain. Each is caught by the rule that
 * it breaks; where a mutation may leave a legal plan, an oracle that runs batches decides.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/prove/async_rig.h"
#include "unit/prove/part_mutations.h"
#include "unit/prove/plan_mutations.h"

static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct async_shape shape = async_draw_shape(rig, i);
    if (async_plan(rig, &shape)) {
        assert_true(oracle_legal(rig->plan, rig->graph));
        mu_mutate_all(rig, list_mutations, N_LIST_MUTATIONS, name);
        mu_mutate_all(rig, part_mutations, N_PART_MUTATIONS, name);
        mu_mutate_all(rig, plan_mutations, N_PLAN_MUTATIONS, name);
    }
}

TEST(mlp)
{
    rig_each("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_F32, 97, 200, check);
}

TEST(gpt)
{
    rig_each("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", PST_F32, 97, 150, check);
}

TEST(mmt)
{
    rig_each("mmt", "branches=2 layers=1 dim=8 heads=1 context=4 vocab=7", PST_F32, 97, 60, check);
}

TEST(every_mutation)
{
    mu_print(list_mutations, N_LIST_MUTATIONS);
    mu_print(part_mutations, N_PART_MUTATIONS);
}
