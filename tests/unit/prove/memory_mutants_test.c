/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of programs of random plans. Each is caught by its rule; where none can be (a wait that
 * nothing needs), that is proven. PENSTOCK_SEED: another seed.
 */
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/memory_mutations.h"

static uint32_t memory_counts[N_MEMORY_MUTATIONS][2], buffer_counts[N_BUFFER_MUTATIONS][2];

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    const char *seed = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 53);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        char name[32];
        rig_plan(&rig, &shape);
        snprintf(name, sizeof name, "plan %u", i);
        for (size_t k = 0; k < N_MEMORY_MUTATIONS; k++) {
            me_mutate(&rig, rig_draw(&rig, rig.plan->n_devices), &memory_mutations[k], name,
                      memory_counts[k]);
        }
        for (size_t k = 0; k < N_BUFFER_MUTATIONS; k++) {
            me_mutate(&rig, rig_draw(&rig, rig.plan->n_devices), &buffer_mutations[k], name,
                      buffer_counts[k]);
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
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7 dropout=0.1", 150);
}

TEST(mmt)
{
    check_model("mmt", "", 10);
}

TEST(resnet)
{
    check_model("resnet", "", 8);
}

TEST(every_mutation)
{
    me_print(memory_mutations, N_MEMORY_MUTATIONS, memory_counts);
    me_print(buffer_mutations, N_BUFFER_MUTATIONS, buffer_counts);
}
