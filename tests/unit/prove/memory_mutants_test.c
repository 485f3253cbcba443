/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of programs of random plans. Each is caught by its rule; where none can be (a wait that
 * nothing needs), that is proven. PENSTOCK_SEED: another seed.
 */
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/memory_mutations.h"

/* Gradients of results are added by calls or kernels, which not every model needs. */
static struct memory_mutation sum_mutations[] = {
    ME(add_other),
    ME(adds_other),
    ME(sum_elsewhere),
};
#define N_SUM_MUTATIONS (sizeof sum_mutations / sizeof sum_mutations[0])

static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct rig_shape shape = rig_draw_shape(rig);
    rig_plan(rig, &shape);
    me_mutate_all(rig, memory_mutations, N_MEMORY_MUTATIONS, name);
    me_mutate_all(rig, sum_mutations, N_SUM_MUTATIONS, name);
    me_mutate_all(rig, buffer_mutations, N_BUFFER_MUTATIONS, name);
}

TEST(mlp)
{
    rig_each("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_F32, 53, 200, check);
}

TEST(gpt)
{
    rig_each("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7 dropout=0.1", PST_F32, 53, 150,
             check);
}

TEST(mmt)
{
    rig_each("mmt", "", PST_F32, 53, 10, check);
}

TEST(resnet)
{
    rig_each("resnet", "", PST_F32, 53, 8, check);
}

TEST(every_mutation)
{
    me_print(memory_mutations, N_MEMORY_MUTATIONS);
    me_print(sum_mutations, N_SUM_MUTATIONS);
    me_print(buffer_mutations, N_BUFFER_MUTATIONS);
}
