/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan and its programs written out by hand: the model loss = (w1 w0 x - t)^2 on two ranks, a
 * batch of four samples in two micro-batches, all forwards first. With `tied`, w1 is w0.
 */
#ifndef PST_TEST_EXEC_TOY_H
#define PST_TEST_EXEC_TOY_H

#include "exec/exec.h"

enum { T_X, T_TARGET, T_A, T_B, T_LOSS, N_TENSORS };
enum { MOST = 64 };

/* Arrays behind one program; value 0 stands for "none". */
struct toy_list {
    struct pst_program program;
    struct pst_instr instrs[MOST];
    struct pst_program_instr lists[MOST];
    struct pst_program_call calls[MOST];
    uint32_t operands[MOST * 16];
    struct pst_value values[MOST];
    struct pst_transfer_part parts[MOST];
    struct pst_program_param params[2];
    uint32_t waits[MOST];
    uint32_t grads[2], users[2], versions[1];
    uint32_t state_values[6];
    struct pst_program_section section;
    uint32_t weight, grad, scratch, tie;
    struct pst_program_meeting sum; /* of a tied gradient */
    struct pst_program_meet_part sum_part;
};

struct toy {
    struct pst_graph graph;
    struct pst_op ops[3];
    struct pst_tensor tensors[N_TENSORS];
    struct pst_parameter params[2];
    uint32_t ins[3][2], outs[3], param_of[2], users[2];
    struct pst_plan plan, eval_plan;
    struct pst_plan_stage stages[2];
    struct pst_plan_device devices[2];
    struct pst_plan_tie tie;
    uint32_t ranks[2], tie_stages[2];
    struct toy_list lists[2], eval_lists[2];
    const struct pst_program *programs[2], *eval_programs[2];
    bool tied;
};

struct toy_operands {
    uint32_t x[2], p, y, dy, dx, dp;
};

static uint32_t toy_value(struct toy_list *list, uint32_t kind, uint64_t bytes)
{
    struct pst_program *p = &list->program;
    struct pst_value *value;

    if (p->n_values == 0) {
        p->n_values = 1;
        list->values[0] = (struct pst_value){.kind = PST_V_SCRATCH};
    }
    value = &list->values[p->n_values];
    *value = (struct pst_value){
        .kind = (uint8_t)kind, .bytes = bytes, .offset = (p->arena_bytes + 255) / 256 * 256};
    p->arena_bytes = value->offset + bytes;
    return p->n_values++;
}

static void toy_operand(struct toy_list *list, uint32_t value)
{
    list->operands[list->program.n_operands++] = value == 0 ? PST_NONE : value;
}

static struct pst_program_call *toy_call(struct toy_list *list, uint32_t kind, uint32_t microbatch)
{
    struct pst_program_call *call = &list->calls[list->program.n_calls++];

    list->lists[list->program.n_instrs - 1].n_calls++;
    *call = (struct pst_program_call){.kind = (uint8_t)kind,
                                      .first_sample = 2 * microbatch,
                                      .samples = 2,
                                      .first_operand = list->program.n_operands};
    return call;
}

static void toy_plain(struct toy_list *list, uint32_t kind, uint32_t tensor, uint32_t microbatch,
                      uint32_t out, uint32_t in)
{
    struct pst_program_call *call = toy_call(list, kind, microbatch);

    call->op = tensor;
    call->elems = 1;
    toy_operand(list, out);
    toy_operand(list, in);
    toy_operand(list, 0);
}

static void toy_kernel(struct toy *toy, struct toy_list *list, uint32_t op, uint32_t pass,
                       uint32_t microbatch, struct toy_operands o)
{
    struct pst_program_call *call = toy_call(list, PST_C_KERNEL, microbatch);
    const struct pst_op *of = &toy->ops[op];

    call->op = op;
    call->pass = (uint8_t)pass;
    for (uint32_t i = 0; i < of->n_in; i++) {
        toy_operand(list, o.x[i]);
    }
    for (uint32_t i = 0; i < of->n_param; i++) {
        toy_operand(list, o.p);
    }
    toy_operand(list, o.y);
    toy_operand(list, o.dy);
    for (uint32_t i = 0; i < of->n_in; i++) {
        toy_operand(list, i == 0 ? o.dx : 0);
    }
    for (uint32_t i = 0; i < of->n_in + PST_MAX_SCRATCH; i++) {
        toy_operand(list, 0);
    }
    for (uint32_t i = 0; i < of->n_param; i++) {
        toy_operand(list, o.dp);
    }
    toy_operand(list, 0);
}

/* wait: instruction of this list, PST_NONE for none. Returns the index of the new one. */
static uint32_t toy_instr(struct toy_list *list, uint32_t op, uint32_t stage, uint32_t microbatch,
                          uint32_t wait)
{
    struct pst_program *p = &list->program;
    uint32_t at = p->n_instrs++;

    list->instrs[at] =
        (struct pst_instr){.op = (uint8_t)op, .stage = stage, .microbatch = microbatch};
    if (wait != PST_NONE) {
        list->waits[at] = wait;
        list->instrs[at].n_waits = 1;
        list->instrs[at].waits = &list->waits[at];
    }
    list->lists[at] =
        (struct pst_program_instr){.first_call = p->n_calls, .first_part = p->n_parts};
    return at;
}

static uint32_t toy_transfer(struct toy_list *list, uint32_t op, uint32_t payload,
                             uint32_t microbatch, uint32_t value, uint32_t wait)
{
    uint32_t at = toy_instr(list, op, 0, 0, wait);

    list->instrs[at].payload = (uint8_t)payload;
    list->instrs[at].first_sample = 2 * microbatch;
    list->instrs[at].n_samples = 2;
    list->instrs[at].peer = 1 - list->program.rank;
    list->lists[at].n_parts = 1;
    list->parts[list->program.n_parts++] = (struct pst_transfer_part){value, 0, 8};
    return at;
}

/* W of the micro-batch: the first one into the accumulator, the second by way of scratch. */
static void toy_weight_pass(struct toy *toy, struct toy_list *list, uint32_t op,
                            uint32_t microbatch, uint32_t x, uint32_t dy)
{
    toy_kernel(toy, list, op, PST_KERNEL_W, microbatch,
               (struct toy_operands){
                   .x = {x}, .dy = dy, .dp = microbatch == 0 ? list->grad : list->scratch});
    if (microbatch > 0) {
        toy_plain(list, PST_C_ACCUMULATE, 0, microbatch, list->grad, list->scratch);
    }
}

static void toy_end(struct toy *toy, struct toy_list *list)
{
    uint32_t stage = list->program.rank;

    toy_instr(list, PST_I_REDUCE, stage, 0, PST_NONE);
    if (toy->tied) {
        static const uint32_t members[] = {0, 1}, order[][2] = {{0, 0}, {1, 0}};

        list->sum_part = (struct pst_program_meet_part){list->tie, PST_NONE, 0, sizeof(float)};
        list->sum = (struct pst_program_meeting){.kind = PST_MEET_SUM,
                                                 .n_members = 2,
                                                 .members = members,
                                                 .n_parts = 1,
                                                 .parts = &list->sum_part,
                                                 .n_sources = 1,
                                                 .sources = list->grads,
                                                 .n_order = 2,
                                                 .order = order};
        list->lists[toy_instr(list, PST_I_TIE, 0, 0, PST_NONE)].meeting = &list->sum;
    }
    toy_instr(list, PST_I_NORM, 0, 0, PST_NONE);
    toy_instr(list, PST_I_STEP, stage, 0, PST_NONE);
}

static void toy_static(struct toy *toy, struct toy_list *list, uint32_t rank)
{
    list->program.rank = rank;
    list->section.kept_output = PST_NONE;
    list->weight = toy_value(list, PST_V_WEIGHT, 4);
    list->grad = toy_value(list, PST_V_GRAD, 4);
    list->tie = toy->tied ? toy_value(list, PST_V_TIE, 4) : PST_NONE;
    list->grads[0] = list->grad;
    list->users[0] = toy->tied ? rank : 0;
    list->versions[0] = list->weight;
    list->params[0] = (struct pst_program_param){.parameter = toy->tied ? 0 : rank,
                                                 .stage = rank,
                                                 .shard = {0, 1},
                                                 .kept = {0, 1},
                                                 .weight = list->weight,
                                                 .working = list->weight,
                                                 .n_versions = 1,
                                                 .versions = list->versions,
                                                 .tie = list->tie,
                                                 .room = PST_NONE,
                                                 .optimizer = {PST_NONE, PST_NONE},
                                                 .n_grads = 1,
                                                 .grads = list->grads,
                                                 .grad_users = list->users,
                                                 .owner = !toy->tied || rank == 0};
}

static void toy_first_rank(struct toy *toy, struct toy_list *list, bool training)
{
    uint32_t x[2], a[2], da[2], recv;

    toy_static(toy, list, 0);
    for (uint32_t m = 0; m < 2; m++) {
        uint32_t f = toy_instr(list, PST_I_F, 0, m, PST_NONE);

        x[m] = toy_value(list, PST_V_INPUT, 8);
        a[m] = toy_value(list, PST_V_ACT, 8);
        toy_plain(list, PST_C_LOAD, T_X, m, x[m], 0);
        toy_kernel(toy, list, 0, PST_KERNEL_F, m,
                   (struct toy_operands){.x = {x[m]}, .p = list->weight, .y = a[m]});
        toy_transfer(list, PST_I_SEND, PST_PAYLOAD_ACT, m, a[m], f);
    }
    if (training) {
        list->scratch = toy_value(list, PST_V_SCRATCH, 4);
        for (uint32_t m = 0; m < 2; m++) {
            da[m] = toy_value(list, PST_V_RECV, 8);
            recv = toy_transfer(list, PST_I_RECV, PST_PAYLOAD_GRAD, m, da[m], PST_NONE);
            toy_instr(list, PST_I_BW, 0, m, recv);
            toy_weight_pass(toy, list, 0, m, x[m], da[m]);
        }
        toy_end(toy, list);
    }
}

static void toy_last_rank(struct toy *toy, struct toy_list *list, bool training)
{
    uint32_t a[2], t[2], b[2], loss[2], db, da, bw;

    toy_static(toy, list, 1);
    for (uint32_t m = 0; m < 2; m++) {
        a[m] = toy_value(list, PST_V_RECV, 8);
        t[m] = toy_value(list, PST_V_INPUT, 8);
        b[m] = toy_value(list, PST_V_ACT, 8);
        list->values[b[m]].what = T_B;
        list->values[b[m]].microbatch = m;
        loss[m] = toy_value(list, PST_V_ACT, 8);
        bw = toy_transfer(list, PST_I_RECV, PST_PAYLOAD_ACT, m, a[m], PST_NONE);
        toy_instr(list, PST_I_F, 1, m, bw);
        toy_plain(list, PST_C_LOAD, T_TARGET, m, t[m], 0);
        toy_kernel(toy, list, 1, PST_KERNEL_F, m,
                   (struct toy_operands){.x = {a[m]}, .p = list->weight, .y = b[m]});
        toy_kernel(toy, list, 2, PST_KERNEL_F, m,
                   (struct toy_operands){.x = {b[m], t[m]}, .y = loss[m]});
        toy_plain(list, PST_C_LOSS, T_LOSS, m, 0, loss[m]);
    }
    list->section.kept_output = training ? PST_NONE : b[1];
    for (uint32_t m = 0; training && m < 2; m++) {
        if (m == 0) {
            list->scratch = toy_value(list, PST_V_SCRATCH, 4);
        }
        db = toy_value(list, PST_V_DACT, 8);
        da = toy_value(list, PST_V_DACT, 8);
        bw = toy_instr(list, PST_I_BW, 1, m, PST_NONE);
        toy_kernel(toy, list, 2, PST_KERNEL_B, m,
                   (struct toy_operands){.x = {b[m], t[m]}, .dx = db});
        toy_kernel(toy, list, 1, PST_KERNEL_B, m,
                   (struct toy_operands){.p = list->weight, .dy = db, .dx = da});
        toy_weight_pass(toy, list, 1, m, a[m], db);
        toy_transfer(list, PST_I_SEND, PST_PAYLOAD_GRAD, m, da, bw);
    }
    if (training) {
        toy_end(toy, list);
    }
}

static void toy_seal(struct toy_list *list)
{
    list->section.part = PST_BODY;
    list->section.n_instrs = list->program.n_instrs;
    list->program.sections = &list->section;
    list->program.n_sections = list->program.n_phases = 1;
    list->program.instrs = list->instrs;
    list->program.lists = list->lists;
    list->program.calls = list->calls;
    list->program.operands = list->operands;
    list->program.values = list->values;
    list->program.parts = list->parts;
    list->program.params = list->params;
    list->program.n_params = 1;
    list->program.peak_bytes = list->program.arena_bytes;
    memset(list->state_values, 0xFF, sizeof list->state_values);
    list->program.state_values = list->state_values;
}

static void toy_graph(struct toy *toy)
{
    for (uint32_t i = 0; i < N_TENSORS; i++) {
        toy->tensors[i] = (struct pst_tensor){.name = "t",
                                              .role = PST_ROLE_ACTIVATION,
                                              .dtype = PST_F32,
                                              .batched = true,
                                              .elems = 1,
                                              .bytes = 4};
    }
    toy->tensors[T_X].role = toy->tensors[T_TARGET].role = PST_ROLE_INPUT;
    toy->tensors[T_X].field = PST_FIELD_X;
    toy->tensors[T_TARGET].field = PST_FIELD_TARGET;
    for (uint32_t i = 0; i < 3; i++) {
        toy->ins[i][0] = (uint32_t[]){T_X, T_A, T_B}[i];
        toy->ins[i][1] = T_TARGET;
        toy->outs[i] = T_A + i;
        toy->param_of[i % 2] = toy->tied ? 0 : i % 2;
        toy->ops[i] = (struct pst_op){.kind = i < 2 ? PST_OP_LINEAR : PST_OP_CROSS_ENTROPY,
                                      .name = (const char *[]){"first", "second", "loss"}[i],
                                      .n_in = i < 2 ? 1 : 2,
                                      .n_out = 1,
                                      .n_param = i < 2 ? 1 : 0,
                                      .in = toy->ins[i],
                                      .out = &toy->outs[i]};
    }
    for (uint32_t i = 0; i < 2; i++) {
        toy->users[i] = i;
        toy->params[i] = (struct pst_parameter){.name = i == 0 ? "w0" : "w1",
                                                .elems = 1,
                                                .init = PST_INIT_ONE,
                                                .decay = i == 1,
                                                .n_users = toy->tied ? 2 : 1,
                                                .users = &toy->users[i]};
        toy->ops[i].param = &toy->param_of[i];
    }
    toy->graph = (struct pst_graph){.name = "toy",
                                    .slices = 1,
                                    .n_ops = 3,
                                    .n_tensors = N_TENSORS,
                                    .n_params = toy->tied ? 1 : 2,
                                    .ops = toy->ops,
                                    .tensors = toy->tensors,
                                    .params = toy->params,
                                    .loss = T_LOSS,
                                    .logits = T_B};
}

/* On one thread each. */
static inline struct pst_exec_config toy_config(const struct toy *toy,
                                                const struct pst_device_ops *device,
                                                const struct pst_transport_ops *transport)
{
    return (struct pst_exec_config){.graph = &toy->graph,
                                    .plan = &toy->plan,
                                    .programs = toy->programs,
                                    .device = device,
                                    .device_config = {.threads = 1},
                                    .transport = transport,
                                    .stall_ns = 60000000000u};
}

/* Takes NORM, the last instruction but one, out of the training lists. */
static inline void toy_drop_norm(struct toy *toy)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct toy_list *list = &toy->lists[i];
        uint32_t norm = list->program.n_instrs - 2;

        list->instrs[norm] = list->instrs[norm + 1];
        list->lists[norm] = list->lists[norm + 1];
        list->program.n_instrs--;
        list->section.n_instrs--;
    }
}

static void toy_init(struct toy *toy, bool tied)
{
    memset(toy, 0, sizeof *toy);
    toy->tied = tied;
    toy_graph(toy);
    for (uint32_t i = 0; i < 2; i++) {
        toy->ranks[i] = toy->tie_stages[i] = i;
        toy->stages[i] = (struct pst_plan_stage){.tensor = 1,
                                                 .n_ranks = 1,
                                                 .ranks = &toy->ranks[i],
                                                 .microbatch_size = 2,
                                                 .n_microbatches = 2};
    }
    toy->tie = (struct pst_plan_tie){.parameter = 0, .n_stages = 2, .stages = toy->tie_stages};
    toy->plan = (struct pst_plan){.batch = 4,
                                  .copies = 1,
                                  .n_stages = 2,
                                  .n_devices = 2,
                                  .stages = toy->stages,
                                  .devices = toy->devices,
                                  .n_ties = tied ? 1 : 0,
                                  .ties = &toy->tie};
    toy->eval_plan = toy->plan;
    toy_first_rank(toy, &toy->lists[0], true);
    toy_last_rank(toy, &toy->lists[1], true);
    toy_first_rank(toy, &toy->eval_lists[0], false);
    toy_last_rank(toy, &toy->eval_lists[1], false);
    for (uint32_t i = 0; i < 2; i++) {
        toy_seal(&toy->lists[i]);
        toy_seal(&toy->eval_lists[i]);
        toy->programs[i] = &toy->lists[i].program;
        toy->eval_programs[i] = &toy->eval_lists[i].program;
    }
}

#endif
