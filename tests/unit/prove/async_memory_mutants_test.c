/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of programs of random asynchronous plans: those of any program, and those of versions,
 * accumulators, turns and phases. Each is caught by its rule. PENSTOCK_SEED: another seed.
 */
#include "unit/prove/async_rig.h"
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/memory_mutations.h"
#include "unit/prove/turn_mutations.h"

static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct async_shape shape = async_draw_shape(rig, i);
    shape.recompute = rig_draw(rig, 2) == 0;
    if (async_plan(rig, &shape)) {
        rig->plan->optimizer_slots = rig_draw(rig, 3);
        rig_programs(rig);
        me_mutate_all(rig, memory_mutations, N_MEMORY_MUTATIONS, name);
        me_mutate_all(rig, buffer_mutations, N_BUFFER_MUTATIONS, name);
        me_mutate_all(rig, turn_mutations, N_TURN_MUTATIONS, name);
    }
}

TEST(mlp)
{
    rig_each("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_F32, 71, 30, check);
}

TEST(half)
{
    rig_each("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_BF16, 71, 15, check);
}

TEST(gpt)
{
    rig_each("gpt", "layers=1 dim=4 heads=1 context=2 vocab=5", PST_F32, 71, 20, check);
}

TEST(every_mutation)
{
    me_print(turn_mutations, N_TURN_MUTATIONS);
    for (size_t k = 0; k < N_MEMORY_MUTATIONS; k++) {
        print_message("  %-18s %5u caught\n", memory_mutations[k].name,
                      memory_mutations[k].counts[0]);
    }
    for (size_t k = 0; k < N_BUFFER_MUTATIONS; k++) {
        print_message("  %-18s %5u caught\n", buffer_mutations[k].name,
                      buffer_mutations[k].counts[0]);
    }
}
