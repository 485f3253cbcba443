/* SPDX-License-Identifier: Apache-2.0
 *
 * Legal plans with one thing changed, as the tests of the checker do it: the checker finds the rule
 * that the change breaks, or an oracle that runs the lists says that it is still legal. The bytes
 * choose the plan and the change.
 */
#include "fuzz.h"

#include "unit/prove/list_mutations.h"
#include "unit/prove/plan_mutations.h"

struct choice {
    uint8_t model, mutation;
    uint32_t seed, turn;
};

static const struct {
    const char *name, *settings;
} models[] = {{"mlp", "inputs=4 hidden=4 layers=6 classes=3"},
              {"gpt", "layers=2 dim=8 heads=2 context=4 vocab=7"}};

void fuzz_begin(void)
{
    for (uint8_t i = 0; i < N_LIST_MUTATIONS + N_PLAN_MUTATIONS; i++) {
        struct choice choice;

        memset(&choice, 0, sizeof choice);
        choice.model = i;
        choice.mutation = i;
        choice.seed = i;
        fuzz_keep(&choice, sizeof choice);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choice choice;
    struct rig_shape shape;
    struct rig rig;
    uint32_t k;

    if (size != sizeof choice) {
        return 0;
    }
    memcpy(&choice, data, sizeof choice);
    rig_open(&rig, models[choice.model % 2].name, models[choice.model % 2].settings, choice.seed);
    shape = rig_draw_shape(&rig);
    shape.no_barrier = rig_draw(&rig, 3) == 0;
    rig_plan(&rig, &shape);
    k = choice.mutation % (N_LIST_MUTATIONS + N_PLAN_MUTATIONS);
    mu_mutate(&rig,
              k < N_LIST_MUTATIONS ? &list_mutations[k] : &plan_mutations[k - N_LIST_MUTATIONS],
              choice.turn, "the plan");
    rig_drop_plan(&rig);
    rig_close(&rig);
    return 0;
}
