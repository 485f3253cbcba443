/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism: graphs of parts of models, plans of groups on them and the plans of ranks
 * that come of these are proven; each of a list of faults is refused by the rule that it breaks.
 */
#include "prove/internal.h"
#include "unit/prove/async_rig.h"
#include "unit/prove/legal_rig.h"
#include "unit/prove/parts_rig.h"

static struct pst_check_report report;

/* --- legal -------------------------------------------------------------------------------------*/

static bool merges(const struct pst_plan *plan, const struct pst_graph *graph)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (pst_plan_merges(&plan->stages[s], graph)) {
            return true;
        }
    }
    return false;
}

/* Parts meet within F, B and BW; neither W nor anything else holds them together, so LIVE does not.
 */
static void expect_meetings_in_passes(const struct rig *rig)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        const struct pst_program *program = rig->programs[d];

        for (uint32_t i = 0; i < program->n_instrs; i++) {
            const struct pst_program_instr *list = &program->lists[i];
            const uint8_t op = program->instrs[i].op;

            for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
                const struct pst_program_call *call = &program->calls[c];

                if (call->kind == PST_C_KERNEL &&
                    pst_op_meets(&rig->graph->ops[call->op], call->pass)) {
                    assert_true(op == PST_I_F || op == PST_I_B || op == PST_I_BW);
                    n++;
                }
            }
        }
    }
    assert_true(n > 0);
}

/* All parts of a group do at the same time what it does, on links of their own. NORM and MERGE take
   longer, the more ranks there are. */
static void check_plan(struct rig *rig, const struct rig_shape *shape)
{
    uint64_t groups_ns;

    rig_plan(rig, shape);
    expect_legal(rig, "groups");
    groups_ns = simulate(rig);
    expand(rig);
    expect_legal(rig, "ranks");
    expect_meetings_in_passes(rig);
    if (shape->no_barrier && !merges(rig->plan, rig->graph)) {
        assert_int_equal(simulate(rig), groups_ns);
    } else {
        assert_true(simulate(rig) >= groups_ns);
    }
    check_twin(rig, 2 * shape->batch);
    rig_drop_plan(rig);
}

static void check_model(const char *model, const char *settings, uint32_t parts, bool sequence)
{
    const struct rig_shape shapes[] = {
        {.devices = 1, .chunks = 1, .batch = 4, .microbatch = 2},
        {.devices = 2,
         .chunks = 2,
         .batch = 4,
         .microbatch = 2,
         .recompute = true,
         .split = true,
         .no_barrier = true},
        {.devices = 2, .chunks = 1, .batch = 6, .microbatch = 6, .replicas = true, .zero = 1},
        {.devices = 2,
         .chunks = 1,
         .batch = 6,
         .microbatch = 6,
         .replicas = true,
         .no_barrier = true},
        {.devices = 2,
         .chunks = 2,
         .batch = 4,
         .microbatch = 2,
         .offload = true,
         .no_barrier = true},
        {.devices = 2,
         .chunks = 1,
         .batch = 8,
         .microbatch = 2,
         .two_way = true,
         .no_barrier = true},
        {.devices = 2,
         .chunks = 1,
         .batch = 8,
         .microbatch = 1,
         .guests = true,
         .no_barrier = true},
    };
    FINISHED_BY(rig_close) struct rig rig;

    open_parts(&rig, model, settings, parts, sequence, 35);
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const uint32_t widest = shapes[i].replicas ? 3 : 1;

        if (shapes[i].devices * widest * parts <= RIG_MAX) {
            check_plan(&rig, &shapes[i]);
        }
    }
}

TEST(gpt)
{
    check_model("gpt", GPT, 2, false);
    check_model("gpt", GPT, 4, false);
    check_model("gpt", GPT " dropout=0.1", 2, false);
}

TEST(llama)
{
    check_model("llama", LLAMA, 2, false);
    check_model("llama", LLAMA " qkv_bias=true tied=true", 2, false);
    check_model("llama", LLAMA " qkv_bias=true qk_norm=true tied=true", 2, false);
    check_model("llama", LLAMA " experts=4 experts_per_token=2", 2, false);
}

/* Parts have rows of tokens between split operators, and parts of the gradients of what works on
   rows. */
TEST(rows)
{
    check_model("gpt", GPT, 2, true);
    check_model("gpt", GPT, 4, true);
    check_model("gpt", GPT " dropout=0.1", 2, true);
    check_model("llama", LLAMA " qkv_bias=true qk_norm=true tied=true", 2, true);
    check_model("llama", LLAMA " experts=4 experts_per_token=2", 2, true);
    check_model("bert", "layers=2 dim=16 heads=2 context=8 vocab=11", 2, true);
    check_model("t5", "layers=1 dim=16 heads=2 head_dim=8 ff=24 context=8 vocab=11", 2, true);
    check_model("mmt", "branches=2 layers=1 dim=8 heads=2 context=4 vocab=7", 2, true);
}

/* A wide layer whose result is joined: one head of keys has no two parts. */
TEST(join)
{
    FINISHED_BY(rig_close) struct rig rig;

    open_parts(&rig, "llama", "layers=1 dim=512 heads=4 kv_heads=1 context=8 vocab=11 ff=24", 2,
               false, 35);
    find_op(rig.graph, "layers.0.self_attn.qkv:joined");
    check_plan(&rig, &(struct rig_shape){.devices = 2, .chunks = 1, .batch = 2, .microbatch = 1});
}

/* Other blocks and branches. */
TEST(others)
{
    check_model("bert", "layers=2 dim=16 heads=2 context=8 vocab=11", 2, false);
    check_model("t5", "layers=1 dim=16 heads=2 head_dim=8 ff=24 context=8 vocab=11", 2, false);
    check_model("mmt", "branches=2 layers=1 dim=8 heads=2 context=4 vocab=7", 2, false);
    check_model("mlp", "inputs=12 hidden=16 layers=6 classes=4", 2, false);
}

/* Batches that overlap, on as many ranks as there is room for. */
TEST(asynchronous)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint32_t n = 0;

    open_parts(&rig, "gpt", GPT, 2, true, 35);
    for (uint32_t i = 0; n < 12; i++) {
        struct async_shape shape = async_draw_shape(&rig, i);

        shape.p = shape.replicas ? 2 : shape.p;
        shape.zero = shape.replicas && rig_draw(&rig, 2) == 0;
        shape.offload = rig_draw(&rig, 2) == 0;
        if (async_plan(&rig, &shape) && 2 * rig.plan->n_devices <= RIG_MAX) {
            rig_programs(&rig);
            expect_legal(&rig, "groups");
            expand(&rig);
            expect_legal(&rig, "ranks");
            n++;
        }
        rig_drop_plan(&rig);
    }
}

/* --- times -------------------------------------------------------------------------------------*/

#define RANKS 4

/* One stage of two replicas, or two stages of one, of two parts; a node for each. */
static void open_nodes(struct rig *rig, bool replicas)
{
    static const uint32_t ranks[] = {0, 1};
    const struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2};
    struct pst_error err = {0};
    uint32_t nodes[256], n;

    open_parts(rig, "gpt", GPT, 2, false, 35);
    rig->cluster.node_size = 2;
    rig->cluster.node_link_bandwidth = 1000000000;
    rig->cluster.node_link_latency = 7;
    n = rig->graph->n_ops;
    assert_true(n <= 256);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(rig->graph, 4, 2, &rig->plan);
    if (replicas) {
        pst_plan_add_stage(rig->plan, nodes, n, ranks, 2, 2, 1);
    } else {
        pst_plan_add_stage(rig->plan, nodes, n / 2, ranks, 1, 2, 1);
        pst_plan_add_stage(rig->plan, nodes + n / 2, n - n / 2, ranks + 1, 1, 2, 1);
    }
    assert_ok(pst_plan_connect(rig->plan, rig->graph, &err), &err);
    rig_lower(rig, &shape);
    expand(rig);
    expect_legal(rig, "nodes");
}

static void simulate_all(const struct rig *rig, uint64_t *start[RANKS], uint64_t *end[RANKS])
{
    struct pst_error err = {0};
    uint64_t ns;

    assert_int_equal(rig->plan->n_devices, RANKS);
    for (uint32_t d = 0; d < RANKS; d++) {
        start[d] = calloc(rig->plan->devices[d].n_instrs, sizeof *start[d]);
        end[d] = calloc(rig->plan->devices[d].n_instrs, sizeof *end[d]);
    }
    assert_ok(pst_sim_run(rig->plan, rig->graph, &rig->cost, start, end, &ns, &err), &err);
}

static void free_all(uint64_t *start[RANKS], uint64_t *end[RANKS])
{
    for (uint32_t d = 0; d < RANKS; d++) {
        free(start[d]);
        free(end[d]);
    }
}

static uint32_t find_instr(const struct rig *rig, uint32_t rank, uint32_t op)
{
    const struct pst_plan_device *device = &rig->plan->devices[rank];
    uint32_t i = 0;

    while (i < device->n_instrs && device->body[i].op != op) {
        i++;
    }
    assert_true(i < device->n_instrs);
    return i;
}

/* Both parts have a ring at the same time, and each has half of the way out of a node: of S bytes
   2 (7 ns + S / 2 at half a byte a ns). */
TEST(shared_rings)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint64_t *start[RANKS], *end[RANKS], bytes = 0;

    open_nodes(&rig, true);
    for (uint32_t p = 0; p < rig.graph->n_params; p++) {
        bytes += rig.graph->params[p].elems * rig.graph->params[p].n_users * sizeof(float);
    }
    simulate_all(&rig, start, end);
    for (uint32_t d = 0; d < RANKS; d++) {
        const uint32_t at = find_instr(&rig, d, PST_I_REDUCE);

        assert_int_equal(end[d][at] - start[d][at], 2 * (7 + bytes));
    }
    free_all(start, end);
}

/* The rows of one part wait for those of the other on the way between nodes; both parts begin with
   them when the last have come. */
TEST(begin_together)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint64_t *start[RANKS], *end[RANKS];
    uint32_t f, recv;

    open_nodes(&rig, false);
    simulate_all(&rig, start, end);
    f = find_instr(&rig, 2, PST_I_F);
    recv = find_instr(&rig, 2, PST_I_RECV);
    assert_int_equal(start[3][recv], end[2][recv] - 7); /* a latency after the bytes have left */
    assert_int_equal(start[2][f], end[3][recv]);
    assert_int_equal(start[3][f], end[3][recv]);
    assert_int_equal(end[2][f], end[3][f]);
    free_all(start, end);
}

/* F of cross-entropy over parts moves four numbers of each row and part, the targets, log-sum-exps
   and the loss, but no logits; numbers have no gradient to be cut. */
TEST(times_of_classes)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_times times;

    open_parts(&rig, "gpt", GPT, 2, false, 35);
    rig.cluster.memory_bandwidth = 1000000000;
    rig.cluster.loss_traffic = 16;
    rig.cluster.launch_overhead = 7;
    pst_cost_op(&rig.cost, find_op(rig.graph, "loss"), 3, &times);
    assert_int_equal(times.forward_ns, 7 + 3 * (2 * 8 * 4 * 4 + 8 * 4 + 8 * 4 + 4));
    pst_cost_op(&rig.cost, find_op(rig.graph, "loss:parts"), 3, &times);
    assert_true(times.forward_ns > 0);
    assert_int_equal(times.backward_input_ns, 0);
}

/* --- faults ------------------------------------------------------------------------------------*/

static struct pst_op *op_of(struct rig *rig, const char *name)
{
    return &rig->graph->ops[find_op(rig->graph, name)];
}

static struct pst_parameter *param_of(struct rig *rig, const char *name)
{
    return (struct pst_parameter *)find_param(rig->graph, name);
}

/* The first reader of a tensor reads another one. */
static void redirect(struct rig *rig, const char *reader, uint32_t input, uint32_t tensor)
{
    ((uint32_t *)op_of(rig, reader)->in)[input] = tensor;
}

/* Each fault of a graph. The columns of the matrix then read what is whole, and their gradients of
   it are never summed. */
static void leave_fan_out(struct rig *rig)
{
    redirect(rig, "h.0.attn.c_attn", 0, op_of(rig, "h.0.ln_1:fan")->in[0]);
}

static void leave_sum_out(struct rig *rig)
{
    redirect(rig, "h.0.attn.c_proj:add", 0, op_of(rig, "h.0.attn.c_proj")->out[0]);
}

static void fan_for_sum(struct rig *rig)
{
    op_of(rig, "h.0.attn.c_proj:sum")->convert = PST_CONVERT_FAN;
}

static void sum_for_fan(struct rig *rig)
{
    op_of(rig, "h.0.ln_1:fan")->convert = PST_CONVERT_SUM;
}

static void join_for_fan(struct rig *rig)
{
    op_of(rig, "h.0.ln_1:fan")->convert = PST_CONVERT_JOIN;
}

/* The layer norm's own gradient is whole. */
static void fan_for_whole(struct rig *rig)
{
    redirect(rig, "h.0.attn.c_proj:add", 0, op_of(rig, "h.0.attn.c_proj:sum")->out[0]);
    redirect(rig, "ln_f", 0, op_of(rig, "h.0.ln_1:fan")->out[0]);
}

static void fan_read_whole(struct rig *rig)
{
    for (uint32_t v = 0; v < rig->graph->n_ops; v++) {
        const struct pst_op *op = &rig->graph->ops[v];

        for (uint32_t i = 0; i < op->n_in && op->kind == PST_OP_ADD; i++) {
            if (op->in[i] == op_of(rig, "h.0.ln_2:fan")->in[0]) {
                fail_msg("nothing but the fan reads ln_2");
            }
        }
    }
    /* the second layer's norm in place of what stands before it */
    redirect(rig, "h.1.ln_1", 0, op_of(rig, "h.0.ln_2:fan")->out[0]);
    ((uint32_t *)rig->graph->whole->ops[find_op(rig->graph->whole, "h.1.ln_1")].in)[0] =
        rig->graph->whole->ops[find_op(rig->graph->whole, "h.0.ln_2")].out[0];
}

static void bias_on_each(struct rig *rig)
{
    struct pst_op *op = op_of(rig, "h.0.attn.c_proj");

    assert_int_equal(op->n_param, 2);
    ((uint32_t *)op->param)[1] = op_of(rig, "h.0.attn.c_proj:bias")->param[0];
}

static void bias_of_other(struct rig *rig)
{
    ((uint32_t *)op_of(rig, "h.0.attn.c_proj:bias")->param)[0] =
        op_of(rig, "h.0.mlp.c_proj:bias")->param[0];
}

static void all_heads(struct rig *rig)
{
    op_of(rig, "h.0.attn")->heads *= rig->graph->parts;
}

static void operator_twice(struct rig *rig)
{
    *op_of(rig, "h.1.ln_1") = *op_of(rig, "h.0.ln_1");
    ((uint32_t *)rig->graph->op_of)[find_op(rig->graph, "h.0.ln_1")] =
        find_op(rig->graph->whole, "h.0.ln_1");
}

static void one_section(struct rig *rig)
{
    const char *names[] = {"h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias"};

    for (uint32_t i = 0; i < 2; i++) {
        struct pst_box *box = &param_of(rig, names[i])->box;

        assert_int_equal(box->n_sections, 3);
        box->n_sections = 1;
        box->sections[0] *= 3;
    }
}

static void swap_sections(struct rig *rig)
{
    const char *names[] = {"layers.0.self_attn.qkv.weight"};
    struct pst_box *box = &param_of(rig, names[0])->box;
    uint64_t first = box->sections[0];

    assert_int_equal(box->n_sections, 3);
    assert_int_not_equal(first, box->sections[2]);
    box->sections[0] = box->sections[2];
    box->sections[2] = first;
}

static void bias_in_other_sections(struct rig *rig)
{
    struct pst_box *box = &param_of(rig, "h.0.attn.c_attn.bias")->box;

    box->n_sections = 1;
    box->sections[0] *= 3;
}

static void box_left_out(struct rig *rig)
{
    struct pst_box *box = &param_of(rig, "h.0.attn.c_attn.weight")->box;

    box->sections[2] -= rig->graph->parts;
}

static void whole_bias(struct rig *rig)
{
    struct pst_parameter *bias = param_of(rig, "h.0.mlp.c_fc.bias");

    bias->box.parts = 0;
    bias->dims[0] *= rig->graph->parts;
    bias->elems *= rig->graph->parts;
}

static void muon_on_part(struct rig *rig)
{
    param_of(rig, "h.0.mlp.c_fc.weight")->muon = 1;
    ((struct pst_parameter *)find_param(rig->graph->whole, "h.0.mlp.c_fc.weight"))->muon = 1;
}

static void wider_result(struct rig *rig)
{
    struct pst_tensor *tensor = &rig->graph->tensors[op_of(rig, "h.0.mlp.c_fc")->out[0]];

    tensor->dims[1] *= rig->graph->parts;
    tensor->elems *= rig->graph->parts;
}

static void losses_of_part(struct rig *rig)
{
    rig->graph->logits = op_of(rig, "h.0.attn.c_proj")->out[0];
}

/* Norms of rows have a part of their gradient each. */
static void gradient_said_whole(struct rig *rig)
{
    assert_int_equal(op_of(rig, "h.0.ln_1")->partial, 3);
    op_of(rig, "h.0.ln_1")->partial = 0;
}

static void half_of_gradients(struct rig *rig)
{
    op_of(rig, "h.0.ln_1")->partial = 1;
}

static void gradient_said_partial(struct rig *rig)
{
    op_of(rig, "lm_head")->partial = 1;
}

static void bias_said_whole(struct rig *rig)
{
    assert_int_equal(op_of(rig, "h.0.attn.c_proj:bias")->partial, 1);
    op_of(rig, "h.0.attn.c_proj:bias")->partial = 0;
}

static void sum_for_scatter(struct rig *rig)
{
    op_of(rig, "h.0.attn.c_proj:scatter")->convert = PST_CONVERT_SUM;
}

/* The gradients of the parts' columns would not be added. */
static void join_for_gather(struct rig *rig)
{
    op_of(rig, "h.0.ln_1:gather")->convert = PST_CONVERT_JOIN;
}

static void gather_for_join(struct rig *rig)
{
    op_of(rig, "loss:parts")->convert = PST_CONVERT_GATHER;
}

static void leave_gather_out(struct rig *rig)
{
    redirect(rig, "h.0.attn.c_attn", 0, op_of(rig, "h.0.ln_1:gather")->in[0]);
}

/* Masks of the part's own rows in place of those of the sequence. */
static void own_masks(struct rig *rig)
{
    op_of(rig, "h.0.attn.add")->parts = 2;
}

/* --- faults of plans ---------------------------------------------------------------------------*/

/* The forward passes of one part come the other way round. */
static void other_order(struct rig *rig)
{
    struct pst_instr *list = (struct pst_instr *)rig->plan->devices[1].body;
    uint32_t n = 0;

    for (uint32_t i = 0; i < rig->plan->devices[1].n_instrs; i++) {
        if (list[i].op == PST_I_F) {
            list[i].microbatch = 1 - list[i].microbatch;
            n++;
        }
    }
    assert_int_equal(n, 2);
}

static void peer_of_other_part(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        struct pst_instr *list = (struct pst_instr *)rig->plan->devices[d].body;

        for (uint32_t i = 0; i < rig->plan->devices[d].n_instrs; i++) {
            if (list[i].op == PST_I_SEND || list[i].op == PST_I_RECV) {
                list[i].peer ^= 1;
            }
        }
    }
}

static void other_degree(struct rig *rig)
{
    for (uint32_t s = 0; s < rig->plan->n_stages; s++) {
        rig->plan->stages[s].tensor = 4;
    }
}

static void degrees_apart(struct rig *rig)
{
    rig->plan->stages[1].tensor = 1;
}

/* --- faults of programs ------------------------------------------------------------------------*/

static void reduce_over_all(struct rig *rig)
{
    uint32_t all[RIG_MAX];
    const uint32_t at = find_instr(rig, 0, PST_I_REDUCE);
    struct pst_program_meeting *meeting =
        (struct pst_program_meeting *)rig->programs[0]->lists[at].meeting;

    assert_non_null(meeting);
    for (uint32_t d = 0; d < RIG_MAX; d++) {
        all[d] = d;
    }
    meeting->members = pst_arena_copy(&rig->plan->arena, all, RIG_MAX, sizeof *all);
    meeting->n_members = pst_plan_replicas(&rig->plan->stages[0]) * rig->graph->parts;
}

static void reduce_with_other_part(struct rig *rig)
{
    const uint32_t at = find_instr(rig, 0, PST_I_REDUCE);
    struct pst_program_meeting *meeting =
        (struct pst_program_meeting *)rig->programs[0]->lists[at].meeting;
    uint32_t *members =
        pst_arena_copy(&rig->plan->arena, meeting->members, meeting->n_members, sizeof *members);

    members[meeting->n_members - 1] ^= 1;
    meeting->members = members;
}

static struct pst_program_param *row_of(struct rig *rig, uint32_t rank, const char *name)
{
    struct pst_program *program = rig->programs[rank];
    uint32_t i = 0;

    while (strcmp(rig->graph->params[program->params[i].parameter].name, name) != 0) {
        i++;
    }
    return (struct pst_program_param *)&program->params[i];
}

static void whole_twice(struct rig *rig)
{
    row_of(rig, 1, "h.0.ln_1.weight")->owner = true;
}

static void part_never(struct rig *rig)
{
    assert_true(row_of(rig, 1, "h.0.mlp.c_fc.weight")->owner);
    row_of(rig, 1, "h.0.mlp.c_fc.weight")->owner = false;
}

/* A meeting is missing: the call of a sum is that of the copy beside it. */
static void meeting_left_out(struct rig *rig)
{
    struct pst_program *program = rig->programs[1];

    for (uint32_t c = 0; c < program->n_calls; c++) {
        struct pst_program_call *call = (struct pst_program_call *)&program->calls[c];

        if (call->kind == PST_C_KERNEL && pst_op_meets(&rig->graph->ops[call->op], call->pass)) {
            call->samples++;
            return;
        }
    }
    fail_msg("no meeting");
}

static const struct fault {
    const char *name, *rule;
    void (*apply)(struct rig *rig);
} graph_faults[] =
    {
        {"fan left out", "SPLIT3", leave_fan_out},
        {"sum left out", "SPLIT1", leave_sum_out},
        {"fan for sum", "SPLIT2", fan_for_sum},
        {"sum for fan", "SPLIT2", sum_for_fan},
        {"join for fan", "SPLIT2", join_for_fan},
        {"fan of another tensor", "SPLIT1", fan_for_whole},
        {"fan read by what makes whole gradients", "SPLIT3", fan_read_whole},
        {"bias on each part", "SPLIT1", bias_on_each},
        {"bias of another layer", "SPLIT1", bias_of_other},
        {"all heads on each part", "SPLIT1", all_heads},
        {"operator twice", "SPLIT1", operator_twice},
        {"q|k|v cut as one", "SPLIT4", one_section},
        {"bias cut in other sections", "SPLIT4", bias_in_other_sections},
        {"elements in no box", "SPLIT4", box_left_out},
        {"whole bias of columns", "SPLIT3", whole_bias},
        {"Muon on a part", "SPLIT4", muon_on_part},
        {"result too wide", "SPLIT2", wider_result},
        {"logits of a part", "SPLIT2", losses_of_part},
},
  llama_faults[] = {{"sections swapped", "SPLIT4", swap_sections}},
  row_faults[] =
      {
          {"gradients of rows taken for whole ones", "SPLIT1", gradient_said_whole},
          {"half of them", "SPLIT1", half_of_gradients},
          {"whole gradients added over the parts", "SPLIT1", gradient_said_partial},
          {"a bias of rows taken for a whole one", "SPLIT1", bias_said_whole},
          {"sum for scatter", "SPLIT2", sum_for_scatter},
          {"join for gather", "SPLIT3", join_for_gather},
          {"gather for join", "SPLIT2", gather_for_join},
          {"gather left out", "SPLIT2", leave_gather_out},
          {"masks of the own rows", "SPLIT1", own_masks},
},
  plan_faults[] =
      {
          {"lists in other orders", "COMM4", other_order},
          {"lists in other orders stop", "LIVE1", other_order},
          {"peers of another part", "COMM1", peer_of_other_part},
          {"another number of parts", "FORM1", other_degree},
          {"stages of other numbers", "FORM1", degrees_apart},
},
  program_faults[] = {
      {"REDUCE over all parts", "COMM4", reduce_over_all},
      {"REDUCE with another part", "COMM4", reduce_with_other_part},
      {"a whole parameter twice in NORM", "SHARD4", whole_twice},
      {"a part never in NORM", "SHARD4", part_never},
      {"meetings of other sizes", "COMM4", meeting_left_out},
};

static void expect_fault(struct rig *rig, const struct fault *fault, bool programs)
{
    struct pst_error err = {0};

    fault->apply(rig);
    if (rig_check(rig, programs, &report, &err) == PST_OK || !rig_has_rule(&report, fault->rule)) {
        fail_msg("%s: expected %s, found %s", fault->name, fault->rule,
                 err.status == PST_OK ? "nothing" : err.message);
    }
}

static void check_graph_faults(const char *model, const char *settings, bool sequence,
                               const struct fault *faults, size_t n)
{
    const struct rig_shape shape = {.devices = 1, .chunks = 1, .batch = 2, .microbatch = 2};

    for (size_t i = 0; i < n; i++) {
        FINISHED_BY(rig_close) struct rig rig;

        open_parts(&rig, model, settings, 2, sequence, 35);
        rig_plan(&rig, &shape);
        expect_fault(&rig, &faults[i], false);
        assert_string_equal(report.violations[0].rule, faults[i].rule);
    }
}

TEST(faults_of_graphs)
{
    check_graph_faults("gpt", GPT, false, graph_faults,
                       sizeof graph_faults / sizeof graph_faults[0]);
    check_graph_faults("llama", LLAMA, false, llama_faults, 1);
    check_graph_faults("gpt", GPT, true, row_faults, sizeof row_faults / sizeof row_faults[0]);
}

/* Two stages of two replicas of two parts. */
static void open_ranks(struct rig *rig)
{
    static const uint32_t ranks[] = {0, 1, 2, 3};
    const struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2};
    struct pst_error err = {0};
    uint32_t nodes[256], n;

    open_parts(rig, "gpt", GPT, 2, false, 35);
    n = rig->graph->n_ops;
    assert_true(n <= 256);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(rig->graph, 4, 4, &rig->plan);
    pst_plan_add_stage(rig->plan, nodes, n / 2, ranks, 2, 2, 1);
    pst_plan_add_stage(rig->plan, nodes + n / 2, n - n / 2, ranks + 2, 2, 2, 1);
    rig->plan->barrier = true;
    assert_ok(pst_plan_connect(rig->plan, rig->graph, &err), &err);
    rig_lower(rig, &shape);
    expand(rig);
}

static void check_faults(const struct fault *faults, size_t n, bool programs)
{
    for (size_t i = 0; i < n; i++) {
        FINISHED_BY(rig_close) struct rig rig;

        open_ranks(&rig);
        expect_legal(&rig, "ranks");
        expect_fault(&rig, &faults[i], programs);
    }
}

TEST(faults_of_plans)
{
    check_faults(plan_faults, sizeof plan_faults / sizeof plan_faults[0], false);
}

TEST(faults_of_programs)
{
    check_faults(program_faults, sizeof program_faults / sizeof program_faults[0], true);
}
