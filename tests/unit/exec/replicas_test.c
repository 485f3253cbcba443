/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas against training in sequence: every replica's gradient is summed over its micro-batches,
 * then replica after replica, so losses, norms and weights are known beforehand, bit for bit,
 * whatever the cut, the order of passes and the numbers of replicas of neighbouring stages; all
 * replicas hold the same weights; the arena is used to its last byte.
 */
#include "unit/exec/reference.h"

enum { STEPS = 4, CLASSES = 7, BATCH = 16 };

static const char mlp[] = "inputs=12 hidden=16 layers=4 classes=7";
static const char gpt[] = "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2";
static const char resnet[] = "image=8 width=4 stages=2 blocks=1 classes=7";
static const char mmt[] = "layers=1 dim=16 heads=2 context=8 vocab=7";

/* All copies of all parameters are those of the reference. */
static void check_weights(struct real *real, const struct reference *ref, uint32_t step)
{
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        uint32_t parameter = ref->program->params[i].parameter, n_copies = 0;
        uint64_t n = real->graph->params[parameter].elems;
        float *values = malloc(n * sizeof *values);

        for (uint32_t r = 0; r < real->n_ranks; r++) {
            memset(values, 0x55, n * sizeof *values);
            if (pst_exec_get_copy(real->exec, parameter, r, values) != PST_OK) {
                continue;
            }
            n_copies++;
            if (memcmp(values, ref->now[i], n * sizeof *values) != 0) {
                fail_msg("step %u: %s on rank %u is not what it should be", step,
                         real->graph->params[parameter].name, r);
            }
        }
        assert_true(n_copies > 0);
        free(values);
    }
}

/* On how many ranks each operator is; free() it. */
static uint32_t *replicas_of(const struct real *real)
{
    uint32_t *replicas = calloc(real->graph->n_ops, sizeof *replicas);

    for (uint32_t s = 0; s < real->plan->n_stages; s++) {
        for (uint32_t n = 0; n < real->plan->stages[s].n_nodes; n++) {
            replicas[real->plan->stages[s].nodes[n]] = real->plan->stages[s].n_ranks;
        }
    }
    return replicas;
}

/* look: evaluates after every step, which must change nothing that comes after. */
static void check(const char *model, const char *settings, uint32_t dtype,
                  const struct layout *layout, double clip, bool look)
{
    struct reference ref;
    FINISHED_BY(real_destroy) struct real real;
    uint32_t *replicas;

    print_message("%s: %u stages of %u, %u, %u, ... replicas\n", model, layout->n_stages,
                  layout->replicas[0], layout->replicas[1], layout->replicas[2]);
    real_create(&real, model, settings, dtype, layout, BATCH, 2, clip);
    real_data(&real, CLASSES);
    reference_init(&ref, model, settings, dtype, BATCH, 2, clip);
    real_data(&ref.real, CLASSES);
    ref.replicas = replicas = replicas_of(&real);
    ref.delayed = layout->order == ORDER_2BW;
    for (uint32_t step = 1; step <= STEPS; step++) {
        struct pst_update update = real_adamw(step);
        struct pst_step_result result = real_step(&real, &update);
        struct reference_step expected = reference_step(&ref, &update);

        if (result.loss != expected.loss || result.grad_norm != expected.norm) {
            fail_msg("step %u: loss %a, norm %a; in sequence %a, %a", step, result.loss,
                     result.grad_norm, expected.loss, expected.norm);
        }
        check_weights(&real, &ref, step);
        if (look) {
            double loss = real_eval(&real);

            assert_true(isfinite(loss) && loss == real_eval(&real));
        }
    }
    real_check_peaks(&real);
    free(replicas);
    reference_finish(&ref);
}

static const struct layout alike[] = {
    {1, {0}, ORDER_GPIPE, false, {2}},          {1, {0}, ORDER_1F1B, true, {8}},
    {2, {0}, ORDER_1F1B, false, {2, 2}},        {2, {0}, ORDER_SPLIT, false, {4, 4}},
    {3, {0}, ORDER_1F1B, true, {4, 4, 4}},      {4, {0}, ORDER_SPLIT, true, {2, 2, 2, 2}},
    {2, {0}, ORDER_GPIPE, false, {8, 4}}, /* from here on: neighbours differ */
    {3, {0}, ORDER_GPIPE, true, {1, 8, 2}},     {3, {0}, ORDER_GPIPE, false, {4, 1, 4}},
    {4, {0}, ORDER_GPIPE, false, {1, 2, 4, 2}},
};

static void check_model(const char *model, const char *settings, uint32_t dtype, double clip)
{
    for (size_t k = 0; k < sizeof alike / sizeof alike[0]; k++) {
        check(model, settings, dtype, &alike[k], clip, k % 2 == 0);
    }
}

TEST(test_mlp)
{
    check_model("mlp", mlp, PST_F32, 0);
}

/* Tied embedding and head, dropout. */
TEST(test_gpt)
{
    check_model("gpt", gpt, PST_F32, 0.5);
}

/* Batch norm over the samples of a replica. */
TEST(test_resnet)
{
    check_model("resnet", resnet, PST_F32, 0);
}

TEST(test_mmt)
{
    check_model("mmt", mmt, PST_F32, 0.5);
}

TEST(test_bf16)
{
    check("gpt", gpt, PST_BF16, &alike[2], 0.5, true);
    check("mlp", mlp, PST_BF16, &alike[7], 0, false);
}

/* The delayed rule, with and without a norm of the whole model. */
TEST(test_delayed)
{
    static const struct layout layouts[] = {{1, {0}, ORDER_2BW, false, {2}},
                                            {2, {0}, ORDER_2BW, false, {2, 2}},
                                            {3, {0}, ORDER_2BW, true, {2, 2, 2}},
                                            {2, {0}, ORDER_2BW, false, {4, 4}}};

    if (real_has_one_queue()) {
        skip();
    }
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        check("mlp", mlp, PST_F32, &layouts[k], 0, false);
        check("mlp", mlp, PST_F32, &layouts[k], 0.3, true);
        check("gpt", gpt, PST_F32, &layouts[k], 0, false);
        check("resnet", resnet, PST_F32, &layouts[k], 0.3, true);
    }
}

/* Evaluation uses the running statistics of the first replicas, whatever the cut. */
TEST(test_statistics)
{
    double first = 0;

    for (uint32_t n = 1; n <= 4; n++) {
        const struct layout layout = {n, {0}, ORDER_GPIPE, false, {2, 2, 2, 2}};
        FINISHED_BY(real_destroy) struct real real;
        double loss;

        real_create(&real, "resnet", resnet, PST_F32, &layout, BATCH, 2, 0);
        real_data(&real, CLASSES);
        for (uint32_t step = 1; step <= STEPS; step++) {
            struct pst_update update = real_adamw(step);

            real_step(&real, &update);
        }
        loss = real_eval(&real);
        first = n == 1 ? loss : first;
        assert_true(loss == first);
    }
}
