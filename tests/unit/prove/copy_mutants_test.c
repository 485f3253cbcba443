/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of plans that offload, and of their programs: each is caught by the rule that it breaks.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/prove/copy_list_mutations.h"
#include "unit/prove/copy_program_mutations.h"

#define N_LISTS    (sizeof list_mutations / sizeof list_mutations[0])
#define N_PROGRAMS (sizeof program_mutations / sizeof program_mutations[0])

static uint32_t list_counts[N_LISTS][MU_VERDICTS], program_counts[N_PROGRAMS][2];

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    const char *seed = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 29);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        char name[32];
        shape.recompute = false;
        shape.offload = true;
        rig_plan(&rig, &shape);
        snprintf(name, sizeof name, "plan %u", i);
        for (size_t k = 0; k < N_LISTS; k++) {
            mu_mutate(&rig, &list_mutations[k], PST_NONE, name, list_counts[k]);
        }
        for (size_t k = 0; k < N_PROGRAMS; k++) {
            me_mutate(&rig, rig_draw(&rig, rig.plan->n_devices), &program_mutations[k], name,
                      program_counts[k]);
        }
        rig_drop_plan(&rig);
    }
}

TEST(mlp)
{
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", 100);
}

TEST(gpt)
{
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7 dropout=0.1", 60);
}

TEST(every_mutation)
{
    mu_print(list_mutations, N_LISTS, list_counts);
    me_print(program_mutations, N_PROGRAMS, program_counts);
}

/* Copies are for training. */
TEST(other_mode)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    struct rig_shape shape = {.devices = 1, .chunks = 1, .batch = 4, .microbatch = 1};
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=6 classes=3", 5);
    shape.offload = true;
    rig_plan(&rig, &shape);
    rig.limits.forward_only = true;
    assert_int_equal(rig_check(&rig, false, &report, &err), PST_ERR_BUG);
    assert_true(me_says(&report, "a copy in a plan for evaluation"));
}
