/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of plans that offload, and of their programs: each is caught by the rule that it breaks.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/prove/copy_list_mutations.h"
#include "unit/prove/copy_program_mutations.h"

#define N_LISTS    (sizeof list_mutations / sizeof list_mutations[0])
#define N_PROGRAMS (sizeof program_mutations / sizeof program_mutations[0])

static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct rig_shape shape = rig_draw_shape(rig);
    shape.recompute = false;
    shape.offload = true;
    rig_plan(rig, &shape);
    mu_mutate_all(rig, list_mutations, N_LISTS, name);
    me_mutate_all(rig, program_mutations, N_PROGRAMS, name);
}

TEST(mlp)
{
    rig_each("mlp", "inputs=4 hidden=4 layers=6 classes=3", PST_F32, 29, 100, check);
}

TEST(gpt)
{
    rig_each("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7 dropout=0.1", PST_F32, 29, 60, check);
}

TEST(every_mutation)
{
    mu_print(list_mutations, N_LISTS);
    me_print(program_mutations, N_PROGRAMS);
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
