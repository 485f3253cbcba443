/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans whose replicas accumulate pieces of gradients (ZeRO 2) are proven, and mutants of their
 * lists and programs are refused by the rule that they break. PENSTOCK_SEED: another seed.
 */
#include "unit/prove/legal_rig.h"
#include "unit/prove/parts_rig.h"
#include "unit/prove/scatter_mutations.h"

static struct pst_check_report report;
static uint32_t n_scatters, n_empty, n_tied, n_late, n_whole, n_merged;

static bool scatters(const struct rig *rig, const struct pst_program_call *call)
{
    return call->kind == PST_C_ADD && call->op < rig->graph->n_params;
}

/* A MERGE of a piece that is not the first of its parameter. */
static bool merges_inner_piece(const struct pst_program *program, uint32_t i)
{
    const struct pst_program_meeting *meeting = program->lists[i].meeting;
    bool inner = false;
    for (uint32_t p = 0; program->instrs[i].op == PST_I_MERGE && p < meeting->n_parts; p++) {
        const struct pst_program_param *row = program->params;
        while (row->parameter != program->values[meeting->parts[p].value].what) {
            row++;
        }
        inner |= row->grad_first > 0;
    }
    return inner;
}

/* Which kinds of ADDs there were: late ones stand in the pass of another micro-batch. */
static void count(const struct rig *rig)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        const struct pst_program *program = rig->programs[d];
        for (uint32_t i = 0; i < program->n_instrs; i++) {
            const struct pst_program_instr *list = &program->lists[i];
            n_merged += merges_inner_piece(program, i);
            for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
                const struct pst_program_call *call = &program->calls[c];
                const uint32_t *operands = &program->operands[call->first_operand];
                n_whole += call->kind == PST_C_ACCUMULATE;
                if (scatters(rig, call)) {
                    n_scatters++;
                    n_empty += operands[0] == PST_NONE;
                    n_tied += rig->graph->params[call->op].n_users > 1;
                    n_late +=
                        program->values[operands[1]].microbatch != program->instrs[i].microbatch;
                }
            }
        }
    }
}

/* One gradient that no replica sums: they agree, and yet it is missing. */
static void lose_everywhere(struct rig *rig)
{
    const uint32_t p = rig_draw(rig, rig->graph->n_params);
    struct pst_error err = {0};
    uint32_t n = 0;
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        const struct pst_program *program = rig->programs[d];
        for (uint32_t c = 0; c < program->n_calls; c++) {
            struct pst_program_call *call = &program->calls[c];
            const uint32_t scratch = program->operands[call->first_operand + 1];
            if (scatters(rig, call) && call->op == p && program->values[scratch].microbatch == 0) {
                me_drop_scatter(rig, call);
                n++;
            }
        }
    }
    if (n > 0) {
        assert_int_equal(rig_check(rig, true, &report, &err), PST_ERR_BUG);
        assert_true(rig_has_rule(&report, "NUM1"));
        rig_programs(rig);
    }
}

static void prove(struct rig *rig, const char *name)
{
    expect_legal(rig, "%s", name);
    count(rig);
    lose_everywhere(rig);
    mu_mutate_all(rig, zero_list_mutations, N_ZERO_LISTS, name);
    mu_mutate_all(rig, scatter_list_mutations, N_SCATTER_LISTS, name);
    me_mutate_all(rig, zero_program_mutations, N_ZERO_PROGRAMS, name);
    me_mutate_all(rig, scatter_program_mutations, N_SCATTER_PROGRAMS, name);
}

/* --- who waits for whom ------------------------------------------------------------------------*/

/* One stage of two replicas, of which the second makes the gradients of two micro-batches in the
   other order. Each has four passes before. */
TEST(standing_still)
{
    static const uint32_t ranks[] = {0, 1};
    static const struct pst_pass order[] = {{PST_PASS_F, 0, 0}, {PST_PASS_F, 0, 1},
                                            {PST_PASS_B, 0, 0}, {PST_PASS_B, 0, 1},
                                            {PST_PASS_W, 0, 0}, {PST_PASS_W, 0, 1}};
    const struct pst_pass *const orders[] = {order, order};
    const uint32_t n_passes[] = {6, 6};
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err = {0};
    struct mutant m;
    uint32_t nodes[64];
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=2 classes=3", 61);
    for (uint32_t v = 0; v < rig.graph->n_ops; v++) {
        nodes[v] = v;
    }
    pst_plan_create(rig.graph, 4, 2, &rig.plan);
    pst_plan_add_stage(rig.plan, nodes, rig.graph->n_ops, ranks, 2, 2, 1);
    rig.plan->zero = 2;
    assert_ok(pst_plan_connect(rig.plan, rig.graph, &err), &err);
    assert_ok(pst_plan_lower(rig.plan, rig.graph, &rig.cost, orders, n_passes, true, &err), &err);
    mu_begin(&m, &rig, 0);
    mu_at(&m, (struct place){PST_BODY, 1, 4})->microbatch = 1;
    mu_at(&m, (struct place){PST_BODY, 1, 5})->microbatch = 0;
    mu_show(&m);
    assert_int_equal(rig_check(&rig, false, &report, &err), PST_ERR_BUG);
    assert_true(me_says(&report, "cycle: device 0 list at 4, W 0 0 -> device 1 list at 4, W 0 1"));
    assert_true(me_says(&report, "list: W 0 1 waits for the list of device 0, which are at 4, "
                                 "W 0 0"));
    mu_end(&m);
}

/* --- random plans -----------------------------------------------------------------------------*/

static struct rig_shape draw_shape(struct rig *rig)
{
    struct rig_shape shape = rig_draw_shape(rig);
    shape.zero = 2;
    shape.prefetch = rig_draw(rig, 3);
    shape.two_way = false;
    shape.replicas = true;
    shape.no_barrier = rig_draw(rig, 3) == 0;
    if (shape.microbatch > 0 || shape.chunks > 1) {
        shape.batch = 6 + 6 * rig_draw(rig, 3);
        shape.microbatch = 6;
    }
    return shape;
}

static bool is_tied(const struct pst_graph *graph)
{
    bool tied = false;
    for (uint32_t p = 0; p < graph->n_params; p++) {
        tied |= graph->params[p].n_users > 1;
    }
    return tied;
}

static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct rig_shape shape = draw_shape(rig);
    if (is_tied(rig->graph) && i % 3 == 0) { /* uses in two stages of one device */
        shape.devices = 1;
        shape.chunks = 2;
        shape.batch = 12;
        shape.microbatch = 6;
    }
    rig_plan(rig, &shape);
    prove(rig, name);
}

TEST(mlp)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_F32, 61, 80, check);
}

TEST(half)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_BF16, 61, 40, check);
}

TEST(tied)
{
    rig_each("gpt", "layers=1 dim=16 heads=2 context=4 vocab=600", PST_F32, 61, 80, check);
}

TEST(experts)
{
    rig_each("llama", LLAMA " experts=4 experts_per_token=2", PST_F32, 61, 40, check);
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
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_F32, 61, 40, check_muon);
}

TEST(tied_llama)
{
    rig_each("llama", LLAMA " tied=true", PST_F32, 61, 40, check);
}

static void check_all(struct rig *rig, uint32_t n)
{
    n = rig_share(n);
    for (uint32_t i = 0; i < n; i++) {
        struct rig_shape shape = draw_shape(rig);
        char name[32];
        snprintf(name, sizeof name, "plan %u", i);
        if (rig->graph->parts > 1) {
            shape.devices = shape.devices % 2 + 1;
        }
        if (rig->graph->slices > 1) {
            shape.batch = 12;
            shape.microbatch = 3 + 3 * rig_draw(rig, 2);
            shape.recompute = false;
        }
        rig_plan(rig, &shape);
        if (rig->graph->parts > 1) {
            expand(rig);
        }
        prove(rig, name);
        rig_drop_plan(rig);
    }
}

static uint64_t seed_or(uint64_t seed)
{
    const char *other = getenv("PENSTOCK_SEED");
    return other != NULL ? strtoull(other, NULL, 10) : seed;
}

/* Micro-batches are added from the last slice of a sequence to the first. */
TEST(slices)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err = {0};
    rig_open(&rig, "gpt", "layers=1 dim=16 heads=2 context=4 vocab=600", seed_or(61));
    assert_ok(pst_graph_slice(rig.graph, 2, &err), &err);
    check_all(&rig, 40);
}

/* Replicas of two parts. */
static void check_parts(const char *model, const char *settings, bool sequence, uint32_t n)
{
    FINISHED_BY(rig_close) struct rig rig;
    open_parts(&rig, model, settings, 2, sequence, seed_or(35));
    check_all(&rig, n);
}

TEST(parts)
{
    check_parts("gpt", GPT " vocab=600", false, 30);
    check_parts("llama", LLAMA, false, 20);
}

TEST(rows)
{
    check_parts("gpt", GPT, true, 20);
    /* norms of several blocks, of whose gradients each part makes a part */
    check_parts("gpt", "layers=1 dim=16384 heads=4 context=4 vocab=11", true, 20);
    assert_true(n_merged > 0);
    check_parts("llama", LLAMA " qk_norm=true", true, 20);
}

TEST(every_mutation)
{
    print_message("%u ADDs, %u of empty pieces, %u of tied parameters, %u late; %u sums of "
                  "whole gradients\n",
                  n_scatters, n_empty, n_tied, n_late, n_whole);
    assert_true(n_empty > 0 && n_tied > 0 && n_late > 0 && n_whole > 0);
    mu_print(scatter_list_mutations, N_SCATTER_LISTS);
    me_print(scatter_program_mutations, N_SCATTER_PROGRAMS);
}
