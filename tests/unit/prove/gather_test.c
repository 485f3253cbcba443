/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans whose replicas keep pieces of the weights (ZeRO 3) are proven, and mutants of their lists
 * and programs, of training and of evaluation, are refused by the rule that they break.
 * PENSTOCK_SEED: another seed.
 */
#include "base/memory.h"
#include "graph/custom.h"
#include "unit/prove/gather_mutations.h"
#include "unit/prove/legal_rig.h"
#include "unit/prove/parts_rig.h"

static struct pst_check_report report;
static struct {
    uint32_t calls, tied, again, in_w, eval; /* GATHERs */
    uint32_t whole;                          /* reads of weights that are not gathered */
    uint32_t alone;                          /* stages of one replica */
} n;

/* Counts the GATHERs of one pass, and its reads of other weights. */
static void count_pass(const struct rig *rig, const struct pst_program *program, uint32_t instr)
{
    const struct pst_program_instr *list = &program->lists[instr];
    uint32_t *times = calloc(rig->graph->n_params, sizeof *times);
    for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
        const struct pst_program_call *call = &program->calls[c];
        if (call->kind == PST_C_GATHER) {
            n.calls++;
            n.tied += rig->graph->params[call->op].n_users > 1;
            n.again += times[call->op]++ > 0;
            n.in_w += program->instrs[instr].op == PST_I_W;
            n.eval += rig->limits.forward_only;
        } else if (call->kind == PST_C_KERNEL) {
            const struct pst_op *op = &rig->graph->ops[call->op];
            const uint32_t *p = &program->operands[call->first_operand + pst_operands_of(op).p];
            for (uint32_t i = 0; i < op->n_param; i++) {
                n.whole += p[i] != PST_NONE && program->values[p[i]].is_static;
            }
        }
    }
    free(times);
}

static void count(const struct rig *rig)
{
    for (uint32_t s = 0; s < rig->plan->n_stages; s++) {
        n.alone += pst_plan_replicas(&rig->plan->stages[s]) == 1;
    }
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        for (uint32_t i = 0; i < rig->programs[d]->n_instrs; i++) {
            if (rig->programs[d]->instrs[i].op <= PST_I_R) {
                count_pass(rig, rig->programs[d], i);
            }
        }
    }
}

/* No rank gathers a parameter: all agree, and yet it is not there. */
static void lose_everywhere(struct rig *rig)
{
    const uint32_t p = rig_draw(rig, rig->graph->n_params);
    struct pst_error err = {0};
    uint32_t lost = 0;
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        const struct pst_program *program = rig->programs[d];
        for (uint32_t c = 0; c < program->n_calls; c++) {
            struct pst_program_call *call = &program->calls[c];
            if (call->kind == PST_C_GATHER && call->op == p) {
                me_drop_scatter(rig, call);
                lost++;
            }
        }
    }
    if (lost > 0) {
        assert_int_equal(rig_check(rig, true, &report, &err), PST_ERR_BUG);
        assert_true(rig_has_rule(&report, "MEM2"));
        assert_true(me_says(&report, "is read before it is written"));
        rig_programs(rig);
    }
}

static void mutate(struct rig *rig, const char *name)
{
    lose_everywhere(rig);
    mu_mutate_all(rig, gather_list_mutations, N_GATHER_LISTS, name);
    me_mutate_all(rig, gather_program_mutations, N_GATHER_PROGRAMS, name);
}

/* The evaluation gathers, too. */
static void prove_twin(struct rig *rig, const char *name)
{
    struct pst_plan *plan = begin_twin(rig, 2 * rig->plan->batch);

    assert_int_equal(rig->plan->zero, 3);
    count(rig);
    mutate(rig, name);
    end_twin(rig, plan);
}

static void prove(struct rig *rig, const char *name)
{
    expect_legal(rig, "%s", name);
    count(rig);
    mutate(rig, name);
    mu_mutate_all(rig, zero_list_mutations, N_ZERO_LISTS, name);
    mu_mutate_all(rig, scatter_list_mutations, N_SCATTER_LISTS, name);
    me_mutate_all(rig, zero_program_mutations, N_ZERO_PROGRAMS, name);
    me_mutate_all(rig, scatter_program_mutations, N_SCATTER_PROGRAMS, name);
}

/* --- random plans -----------------------------------------------------------------------------*/

static struct rig_shape draw_shape(struct rig *rig)
{
    struct rig_shape shape = rig_draw_shape(rig);
    shape.zero = 3;
    shape.prefetch = rig_draw(rig, 3);
    shape.two_way = false;
    shape.replicas = true;
    shape.no_barrier = rig_draw(rig, 3) == 0;
    shape.offload = rig_draw(rig, 3) == 0;
    if (shape.microbatch > 0 || shape.chunks > 1) {
        shape.batch = 6 + 6 * rig_draw(rig, 3);
        shape.microbatch = 6;
    }
    return shape;
}

static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct rig_shape shape = draw_shape(rig);
    rig_plan(rig, &shape);
    prove(rig, name);
    if (shape.microbatch != 0) {
        prove_twin(rig, name);
    }
}

TEST(mlp)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_F32, 67, 60, check);
}

TEST(half)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_BF16, 67, 40, check);
}

TEST(tied)
{
    rig_each("gpt", "layers=2 dim=16 heads=2 context=4 vocab=600", PST_F32, 67, 60, check);
}

TEST(tied_llama)
{
    rig_each("llama", LLAMA " tied=true", PST_BF16, 67, 40, check);
}

TEST(experts)
{
    rig_each("llama", LLAMA " experts=4 experts_per_token=2", PST_F32, 67, 40, check);
}

static void check_muon(struct rig *rig, uint32_t i, const char *name)
{
    for (uint32_t p = 0; p < rig->graph->n_params; p++) {
        rig->graph->params[p].muon = rig->graph->params[p].rank == 2;
    }
    check(rig, i, name);
}

TEST(muon)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_F32, 67, 30, check_muon);
}

static uint64_t seed_or(uint64_t seed)
{
    const char *other = getenv("PENSTOCK_SEED");
    return other != NULL ? strtoull(other, NULL, 10) : seed;
}

/* Replicas of two parts, a group of ranks as wide as a logical device has replicas. */
static void check_parts(const char *model, const char *settings, bool sequence, uint32_t n_plans)
{
    FINISHED_BY(rig_close) struct rig rig;
    open_parts(&rig, model, settings, 2, sequence, seed_or(37));
    n_plans = rig_share(n_plans);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = draw_shape(&rig);
        char name[32];
        snprintf(name, sizeof name, "plan %u", i);
        shape.devices = shape.devices % 2 + 1;
        rig_plan(&rig, &shape);
        expand(&rig);
        prove(&rig, name);
        if (shape.microbatch != 0) {
            prove_twin(&rig, name);
        }
        rig_drop_plan(&rig);
    }
}

TEST(parts)
{
    check_parts("gpt", GPT " vocab=600", false, 30);
    check_parts("llama", LLAMA, false, 20);
}

TEST(rows)
{
    check_parts("gpt", GPT, true, 20);
    check_parts("llama", LLAMA " qk_norm=true", true, 20);
}

/* --- passes that read weights -----------------------------------------------------------------*/

/* An operator of a plugin whose W reads its parameter, which no built-in one does. */
static pst_status describe(struct pst_custom *custom, struct pst_error *err)
{
    custom->row = (struct pst_operator_row){.size = sizeof custom->row,
                                            .n_y = 1,
                                            .y[0] = custom->question.x[0],
                                            .b_reads_p = 1,
                                            .w_reads_x = 1,
                                            .w_reads_p = 1,
                                            .w_reads_dy = 1,
                                            .flops = {10, 20, 30}};
    return PST_OK;
}

static void destroy(struct pst_custom *custom)
{
    pst_arena_finish(&custom->arena);
    free(custom);
}

/* fc -> op -> op -> op -> loss, a layer each, of the type. */
static struct pst_graph *graph_of(uint32_t dtype)
{
    static const uint64_t dims[2] = {3, 3}, many = 9000;
    static const char *const names[] = {"a", "b", "c"};
    struct pst_graph_builder *builder = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t x, in[2], w[2];
    assert_ok(pst_graph_builder_create("it", dtype, &builder, &err), &err);
    x = pst_graph_input(builder, "x", PST_FIELD_X, dtype, 1, dims);
    w[0] = pst_graph_param(builder, "w", 2, dims, PST_INIT_ONE, 0, false);
    w[1] = PST_NONE;
    in[0] = pst_graph_add(
        builder,
        &(struct pst_op){
            .kind = PST_OP_LINEAR, .name = "fc", .n_in = 1, .in = &x, .n_param = 2, .param = w});
    for (uint32_t i = 0; i < 3; i++) {
        struct pst_custom *custom = pst_alloc(1, sizeof *custom);
        *custom = (struct pst_custom){.id = "lab/it",
                                      .version = "1",
                                      .attributes = "",
                                      .describe = describe,
                                      .destroy = destroy};
        pst_graph_layer(builder, i + 1);
        w[0] = pst_graph_param(builder, names[i], 1, &many, PST_INIT_ONE, 0, false);
        in[0] = pst_graph_add(builder, &(struct pst_op){.kind = PST_OP_CUSTOM,
                                                        .name = names[i],
                                                        .n_in = 1,
                                                        .in = in,
                                                        .n_param = 1,
                                                        .param = w,
                                                        .custom = custom});
    }
    in[1] = pst_graph_input(builder, "t", PST_FIELD_TARGET, PST_I32, 0, NULL);
    x = pst_graph_add(
        builder,
        &(struct pst_op){.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in});
    assert_ok(pst_graph_finish(builder, x, in[0], &graph, &err), &err);
    pst_graph_builder_destroy(builder);
    return graph;
}

TEST(weights_that_w_reads)
{
    FINISHED_BY(rig_close) struct rig rig;
    const uint32_t before = n.in_w;
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=2 classes=3", seed_or(71));
    pst_graph_destroy(rig.graph);
    rig.graph = graph_of(PST_F32);
    rig.cost.graph = rig.graph;
    for (uint32_t i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "plan %u", i);
        struct rig_shape shape = draw_shape(&rig);
        shape.devices = 1 + shape.devices % 2;
        shape.split = true;
        rig_plan(&rig, &shape);
        prove(&rig, name);
        rig_drop_plan(&rig);
    }
    assert_true(n.in_w > before);
}

TEST(every_mutation)
{
    print_message("%u GATHERs: %u of tied parameters, %u once more in a pass, %u in W, %u of "
                  "evaluations; %u reads of whole weights, %u stages of one replica\n",
                  n.calls, n.tied, n.again, n.in_w, n.eval, n.whole, n.alone);
    assert_true(n.tied > 0 && n.again > 0 && n.in_w > 0 && n.eval > 0 && n.whole > 0 &&
                n.alone > 0);
    mu_print(gather_list_mutations, N_GATHER_LISTS);
    me_print(gather_program_mutations, N_GATHER_PROGRAMS);
}
