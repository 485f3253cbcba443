/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas that keep pieces of optimizer state (ZeRO 1), gradients (2) and weights (3), against
 * training in sequence: losses, norms, weights and gradients are known beforehand, bit for bit;
 * each rank has the elements of a parameter that it should, and an answer about it holds no others.
 */
#include "plan/shards.h"
#include "unit/exec/reference.h"

enum { STEPS = 3, CLASSES = 7, BATCH = 16 };

static const char mlp[] = "inputs=40 hidden=130 layers=4 classes=7";
static const char gpt[] = "layers=2 dim=16 heads=2 context=8 vocab=600 dropout=0.2";

static const struct layout layouts[] = {
    {1, {0}, ORDER_GPIPE, false, {2}},      {1, {0}, ORDER_REVERSE, true, {4}},
    {2, {0}, ORDER_1F1B, false, {2, 2}},    {3, {0}, ORDER_SPLIT, true, {4, 4, 4}},
    {2, {0}, ORDER_GPIPE, false, {8, 4}}, /* from here on: neighbours differ */
    {3, {0}, ORDER_GPIPE, true, {1, 8, 2}}, {3, {0}, ORDER_GPIPE, false, {4, 1, 4}},
};

static uint32_t n_empty, n_pieces, n_whole; /* of what ranks keep */

/* Fills the tables that plan and graph imply for operators and parameters. */
struct facts {
    uint32_t *replicas; /* [operator] */
    bool *inside;       /* [parameter] */
};

static struct facts find_facts(const struct real *real)
{
    struct facts facts = {calloc(real->graph->n_ops, sizeof *facts.replicas),
                          calloc(real->graph->n_params, sizeof *facts.inside)};

    for (uint32_t s = 0; s < real->plan->n_stages; s++) {
        for (uint32_t v = 0; v < real->plan->stages[s].n_nodes; v++) {
            const uint32_t node = real->plan->stages[s].nodes[v];
            const struct pst_op *op = &real->graph->ops[node];

            facts.replicas[node] = real->plan->stages[s].n_ranks;
            for (uint32_t i = 0; i < op->n_param; i++) {
                if (op->param[i] != PST_NONE) {
                    facts.inside[op->param[i]] = pst_plan_scatters(real->plan, s, op->param[i]);
                }
            }
        }
    }
    return facts;
}

static uint32_t stage_of(const struct real *real, uint32_t op)
{
    for (uint32_t s = 0; s < real->plan->n_stages; s++) {
        for (uint32_t v = 0; v < real->plan->stages[s].n_nodes; v++) {
            if (real->plan->stages[s].nodes[v] == op) {
                return s;
            }
        }
    }
    fail();
    return 0;
}

/* The elements that a rank answers for: of f32, those that passes read; of other types, those of
   the f32 master. false: the rank does not have the parameter. */
static bool kept_by(const struct real *real, uint32_t parameter, uint32_t rank,
                    struct pst_shard *ret_kept)
{
    const struct pst_parameter *of = &real->graph->params[parameter];
    const uint32_t from = of->dtype == PST_F32 ? 3 : 1;
    bool found = false;

    for (uint32_t u = 0; u < of->n_users && !found; u++) {
        const uint32_t s = stage_of(real, of->users[u]);
        const uint32_t place = pst_plan_place(&real->plan->stages[s], rank);
        struct pst_arena arena = {0};
        struct pst_shards shards;

        if (place == PST_NONE) {
            continue;
        }
        pst_plan_shards(real->plan, real->graph, s, &arena, &shards);
        *ret_kept = real->plan->zero >= from ? pst_shard_of(&shards, real->graph, parameter, place)
                                             : (struct pst_shard){0, of->elems};
        pst_arena_finish(&arena);
        found = true;
    }
    return found;
}

static void check_copy(struct real *real, uint32_t parameter, uint32_t rank, const float *expected,
                       float *values)
{
    const uint64_t n = real->graph->params[parameter].elems;
    struct pst_shard kept;

    memset(values, 0x55, n * sizeof *values);
    if (!kept_by(real, parameter, rank, &kept)) {
        assert_int_equal(pst_exec_get_copy(real->exec, parameter, rank, values), PST_ERR_BUG);
        return;
    }
    assert_int_equal(pst_exec_get_copy(real->exec, parameter, rank, values), PST_OK);
    n_empty += kept.elems == 0;
    n_whole += kept.elems == n;
    n_pieces += kept.elems > 0 && kept.elems < n;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof bits);
        if (i >= kept.first && i < kept.first + kept.elems
                ? memcmp(&values[i], &expected[i], sizeof *values) != 0
                : bits != 0x55555555) {
            fail_msg("%s, element %" PRIu64 " on rank %u, which has %" PRIu64 " from %" PRIu64
                     " on: %a, expected %a",
                     real->graph->params[parameter].name, i, rank, kept.elems, kept.first,
                     (double)values[i], (double)expected[i]);
        }
    }
}

/* All of each parameter, its gradient, and what each rank has of it. */
static void check_parameters(struct real *real, struct reference *ref)
{
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        const uint32_t parameter = ref->program->params[i].parameter;
        const uint64_t bytes = real->graph->params[parameter].elems * sizeof(float);
        float *values = malloc(bytes), *gradient = malloc(bytes);

        memset(values, 0x55, bytes);
        assert_int_equal(pst_exec_get_parameter(real->exec, parameter, values), PST_OK);
        assert_memory_equal(values, ref->now[i], bytes);
        memset(values, 0x55, bytes);
        assert_int_equal(pst_exec_get_gradient(real->exec, parameter, values), PST_OK);
        ref->real.device_ops->enter(ref->device);
        reference_get(ref, gradient, reference_gradient(ref, i), bytes);
        assert_memory_equal(values, gradient, bytes);
        for (uint32_t r = 0; r < real->n_ranks; r++) {
            check_copy(real, parameter, r, ref->now[i], values);
        }
        free(values);
        free(gradient);
    }
}

static void check(const char *model, const char *settings, uint32_t dtype,
                  const struct layout *layout, double clip)
{
    struct reference ref;
    FINISHED_BY(real_destroy) struct real real;
    struct facts facts;

    print_message("%s, zero %u: %u stages of %u, %u, %u, ... replicas\n", model, real_cuts,
                  layout->n_stages, layout->replicas[0], layout->replicas[1], layout->replicas[2]);
    real_create(&real, model, settings, dtype, layout, BATCH, 2, clip);
    real_data(&real, CLASSES);
    facts = find_facts(&real);
    reference_init(&ref, model, settings, dtype, BATCH, 2, clip);
    real_data(&ref.real, CLASSES);
    ref.replicas = facts.replicas;
    ref.inside = facts.inside;
    ref.delayed = false;
    for (uint32_t step = 1; step <= STEPS; step++) {
        struct pst_update update = real_adamw(step);
        struct pst_step_result result = real_step(&real, &update);
        struct reference_step expected = reference_step(&ref, &update);

        if (result.loss != expected.loss || result.grad_norm != expected.norm) {
            fail_msg("step %u: loss %a, norm %a; in sequence %a, %a", step, result.loss,
                     result.grad_norm, expected.loss, expected.norm);
        }
        check_parameters(&real, &ref);
        assert_true(isfinite(real_eval(&real)));
        check_parameters(&real, &ref);
    }
    real_check_peaks(&real);
    free(facts.replicas);
    free(facts.inside);
    reference_finish(&ref);
}

static void check_model(const char *model, const char *settings, uint32_t dtype, double clip)
{
    for (real_cuts = 1; real_cuts <= 3; real_cuts++) {
        for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
            check(model, settings, dtype, &layouts[k], clip);
        }
    }
    real_cuts = 0;
}

TEST(test_mlp)
{
    check_model("mlp", mlp, PST_F32, 0.3);
}

/* Tied embedding and head, dropout. */
TEST(test_gpt)
{
    check_model("gpt", gpt, PST_F32, 0);
}

TEST(test_bf16)
{
    check_model("mlp", mlp, PST_BF16, 0);
    check_model("gpt", gpt, PST_BF16, 0.3);
}

/* Running statistics. */
TEST(test_resnet)
{
    check_model("resnet", "image=8 width=16 stages=2 blocks=1 classes=7", PST_F32, 0);
}

/* An evaluation of the same weights is the same one, however they are kept. */
TEST(test_evaluation)
{
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        double whole = 0;

        for (real_cuts = 0; real_cuts <= 3; real_cuts++) {
            FINISHED_BY(real_destroy) struct real real;
            double loss;

            real_create(&real, "gpt", gpt, PST_BF16, &layouts[k], BATCH, 2, 0);
            real_data(&real, CLASSES);
            loss = real_eval(&real);
            whole = real_cuts == 0 ? loss : whole;
            assert_true(isfinite(loss) && loss == whole);
        }
    }
    real_cuts = 0;
}

TEST(test_kinds)
{
    print_message("ranks keep %u pieces, %u empty ones, %u whole parameters\n", n_pieces, n_empty,
                  n_whole);
    assert_true(n_pieces > 0 && n_empty > 0 && n_whole > 0);
}
