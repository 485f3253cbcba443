/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of programs of random asynchronous plans: those of any program, and those of versions,
 * accumulators, turns and phases. Each is caught by its rule. PENSTOCK_SEED: another seed.
 */
#include "unit/prove/async_rig.h"
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/memory_mutations.h"
#include "unit/prove/turn_mutations.h"

static uint32_t memory_counts[N_MEMORY_MUTATIONS][2], buffer_counts[N_BUFFER_MUTATIONS][2],
    turn_counts[N_TURN_MUTATIONS][2];

static void mutate(struct rig *rig, const char *name)
{
    uint32_t n = rig->plan->n_devices;
    for (size_t k = 0; k < N_MEMORY_MUTATIONS; k++) {
        me_mutate(rig, rig_draw(rig, n), &memory_mutations[k], name, memory_counts[k]);
    }
    for (size_t k = 0; k < N_BUFFER_MUTATIONS; k++) {
        me_mutate(rig, rig_draw(rig, n), &buffer_mutations[k], name, buffer_counts[k]);
    }
    for (size_t k = 0; k < N_TURN_MUTATIONS; k++) {
        me_mutate(rig, rig_draw(rig, n), &turn_mutations[k], name, turn_counts[k]);
    }
}

static void check_model(const char *model, const char *settings, uint32_t dtype, uint32_t n_plans)
{
    const char *seed = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 71);
    pst_graph_destroy(rig.graph);
    rig.graph = make_model(model, settings, dtype);
    rig.cost.graph = rig.graph;
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct async_shape shape = {.p = 2 + rig_draw(&rig, 3),
                                    .m = 1 + rig_draw(&rig, 5),
                                    .size = 1 + rig_draw(&rig, 2),
                                    .barrier = rig_draw(&rig, 2) == 0,
                                    .recompute = rig_draw(&rig, 2) == 0};
        shape.replicas = i % 4 == 3;
        shape.size *= shape.replicas ? 3 : 1;
        char name[32];
        snprintf(name, sizeof name, "plan %u", i);
        if (async_plan(&rig, &shape)) {
            rig.plan->optimizer_slots = rig_draw(&rig, 3);
            rig_programs(&rig);
            mutate(&rig, name);
        }
        rig_drop_plan(&rig);
    }
}

TEST(mlp)
{
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_F32, 30);
}

TEST(half)
{
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_BF16, 15);
}

TEST(gpt)
{
    check_model("gpt", "layers=1 dim=4 heads=1 context=2 vocab=5", PST_F32, 20);
}

TEST(every_mutation)
{
    me_print(turn_mutations, N_TURN_MUTATIONS, turn_counts);
    for (size_t k = 0; k < N_MEMORY_MUTATIONS; k++) {
        print_message("  %-18s %5u caught\n", memory_mutations[k].name, memory_counts[k][0]);
    }
    for (size_t k = 0; k < N_BUFFER_MUTATIONS; k++) {
        print_message("  %-18s %5u caught\n", buffer_mutations[k].name, buffer_counts[k][0]);
    }
}
