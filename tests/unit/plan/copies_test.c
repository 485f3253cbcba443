/* SPDX-License-Identifier: Apache-2.0
 *
 * What is offloaded, on random plans: the programs of every rank are run by hand with two copy
 * queues or one beside the calls, in random and in extreme orders, on an arena that only remembers
 * who wrote last. Whatever a call or a copy reads is still there, from its begin to its end. Then
 * what the memory comes to, against the formula.
 */
#include "unit/plan/in_turn.h"

#define UNIT PST_VALUE_ALIGN

/* --- a run by hand --------------------------------------------------------------------------- */

enum { LAZY, EAGER, RANDOM, MOODS };

struct run {
    struct rig *rig;
    const struct pst_program *program;
    uint32_t *device, *host; /* [unit] value that was written there last, plus 1 */
    bool *made;              /* [value] */
    uint32_t instr, call;    /* of the list; call: of the instruction */
    uint32_t n_calls;        /* that have ended */
    uint32_t posted;         /* rows below are posted */
    uint32_t next[2];        /* [queue] row at its head */
    bool entered, in_call, in_copy[2];
    bool *ended; /* [copy] */
    uint32_t queues;
};

static uint32_t *units_of(struct run *run, uint32_t v, uint32_t *ret_n)
{
    const struct pst_value *value = &run->program->values[v];
    *ret_n = (uint32_t)((value->bytes + UNIT - 1) / UNIT);
    return (value->kind == PST_V_HOST ? run->host : run->device) + value->offset / UNIT;
}

static void write_value(struct run *run, uint32_t v)
{
    uint32_t n, *units = units_of(run, v, &n);
    for (uint32_t i = 0; i < n; i++) {
        units[i] = v + 1;
    }
    run->made[v] = true;
}

static void read_value(struct run *run, uint32_t v, const char *who)
{
    uint32_t n, *units = units_of(run, v, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (units[i] != v + 1) {
            fail_msg("seed %llu, rank %u, instruction %u: %s uses buffer %u (kind %u), where "
                     "buffer %d was written since",
                     (unsigned long long)run->rig->seed, run->program->rank, run->instr, who, v,
                     run->program->values[v].kind, (int)units[i] - 1);
        }
    }
}

/* What is there for the first time is written, everything else may be read. */
static void use_operands(struct run *run, const struct pst_program_call *call)
{
    uint32_t n =
        call->kind == PST_C_KERNEL ? pst_operands_of(&run->rig->graph->ops[call->op]).count : 3;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = run->program->operands[call->first_operand + i];
        if (v != PST_NONE && run->made[v]) {
            read_value(run, v, "a call");
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = run->program->operands[call->first_operand + i];
        if (v != PST_NONE && !run->made[v]) {
            assert_int_not_equal(run->program->values[v].kind, PST_V_FETCHED);
            write_value(run, v);
        }
    }
}

static void use_parts(struct run *run)
{
    const struct pst_program_instr *list = &run->program->lists[run->instr];
    for (uint32_t p = list->first_part; p < list->first_part + list->n_parts; p++) {
        uint32_t v = run->program->parts[p].value;
        if (run->made[v]) {
            read_value(run, v, "a transfer");
        } else {
            write_value(run, v);
        }
    }
}

static bool is_copy(const struct run *run, uint32_t instr)
{
    return instr < run->program->n_instrs && (run->program->instrs[instr].op == PST_I_OFFLOAD ||
                                              run->program->instrs[instr].op == PST_I_FETCH);
}

/* The list goes on by a step; false: it waits for a copy, or is through. */
static bool step_list(struct run *run)
{
    const struct pst_program_instr *list = &run->program->lists[run->instr];
    const struct pst_program_call *call = &run->program->calls[list->first_call + run->call];
    if (run->instr == run->program->n_instrs) {
        return false;
    }
    if (!run->entered) {
        run->entered = true;
        for (uint32_t i = run->instr + 1; !is_copy(run, run->instr) && is_copy(run, i); i++) {
            run->posted = run->program->lists[i].first_copy + run->program->lists[i].n_copies;
        }
        use_parts(run);
        return true;
    }
    if (run->call == list->n_calls) {
        run->instr++;
        run->call = 0;
        run->entered = false;
        return true;
    }
    for (uint32_t w = 0; w < call->n_copy_waits && !run->in_call; w++) {
        if (!run->ended[run->program->copy_waits[call->first_copy_wait + w]]) {
            return false;
        }
    }
    use_operands(run, call);
    run->call += run->in_call;
    run->n_calls += run->in_call;
    run->in_call = !run->in_call;
    return true;
}

static bool step_copy(struct run *run, uint32_t queue)
{
    const struct pst_program *program = run->program;
    uint32_t *next = &run->next[queue];
    while (run->queues == 2 && *next < program->n_copies &&
           program->copies[*next].out != (queue == 0)) {
        ++*next;
    }
    if (*next >= run->posted) {
        return false;
    }
    const struct pst_program_copy *copy = &program->copies[*next];
    uint32_t from = copy->out ? copy->value : copy->host;
    uint32_t to = copy->out ? copy->host : copy->value;
    if ((copy->start_call != PST_NONE && run->n_calls <= copy->start_call) ||
        (copy->after != PST_NONE && !run->ended[copy->after])) {
        return false;
    }
    assert_true(run->made[from]);
    read_value(run, from, "a copy");
    if (!run->in_copy[queue]) {
        assert_false(run->made[to]);
        write_value(run, to);
    } else {
        read_value(run, to, "a copy");
        run->ended[*next] = true;
        ++*next;
    }
    run->in_copy[queue] = !run->in_copy[queue];
    return true;
}

static bool step(struct run *run, uint32_t mood)
{
    uint32_t queue = rig_draw(run->rig, run->queues);
    bool copies_first = mood == EAGER || (mood == RANDOM && rig_draw(run->rig, 3) == 0);
    if (!copies_first && step_list(run)) {
        return true;
    }
    for (uint32_t q = 0; q < run->queues; q++) {
        if (step_copy(run, (queue + q) % run->queues)) {
            return true;
        }
    }
    return step_list(run);
}

static void run_program(struct rig *rig, const struct pst_program *program, uint32_t queues,
                        uint32_t mood)
{
    struct run run = {.rig = rig, .program = program, .queues = queues};
    run.device = calloc(program->arena_bytes / UNIT + 2, sizeof *run.device);
    run.host = calloc(program->host_bytes / UNIT + 2, sizeof *run.host);
    run.made = calloc(program->n_values + 1, 1);
    run.ended = calloc(program->n_copies + 1, 1);
    while (step(&run, mood)) {
    }
    if (run.instr < program->n_instrs) {
        fail_msg("seed %llu, rank %u stands still at instruction %u", (unsigned long long)rig->seed,
                 program->rank, run.instr);
    }
    for (uint32_t c = 0; c < program->n_copies; c++) {
        assert_true(run.ended[c]);
    }
    free(run.device);
    free(run.host);
    free(run.made);
    free(run.ended);
}

static struct rig_shape offloading(struct rig *rig)
{
    struct rig_shape shape = rig_draw_shape(rig);
    shape.recompute = false;
    shape.offload = true;
    return shape;
}

TEST(test_any_order)
{
    uint32_t n_copies = 0;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        FINISHED_BY(rig_close) struct rig rig;
        rig_open(&rig, models[seed % MODELS][0], models[seed % MODELS][1], 700 + seed);
        struct rig_shape shape = offloading(&rig);
        rig_plan(&rig, &shape);
        for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
            n_copies += rig.programs[d]->n_copies;
            for (uint32_t mood = 0; mood < MOODS; mood++) {
                run_program(&rig, rig.programs[d], 1 + mood % 2, mood);
                run_program(&rig, rig.programs[d], 2 - mood % 2, mood);
            }
        }
    }
    print_message("%u copies\n", n_copies);
    assert_true(n_copies > 1000);
}

/* The checker finds nothing wrong with any of them. */
TEST(test_legal)
{
    for (uint32_t seed = 1; seed <= 60; seed++) {
        FINISHED_BY(rig_close) struct rig rig;
        rig_open(&rig, models[seed % MODELS][0], models[seed % MODELS][1], 900 + seed);
        struct rig_shape shape = offloading(&rig);
        rig_plan(&rig, &shape);
        expect_legal(&rig, "%s", models[seed % MODELS][0]);
    }
}

/* What is written is read. */
TEST(test_file)
{
    for (uint32_t seed = 1101; seed <= 1112; seed++) {
        FINISHED_BY(rig_close) struct rig rig;
        rig_open(&rig, models[(seed - 1100) % MODELS][0], models[(seed - 1100) % MODELS][1], seed);
        struct rig_shape shape = offloading(&rig);
        rig_plan(&rig, &shape);
        struct pst_plan *read = reread(&rig, seed);
        for (uint32_t d = 0; d < read->n_devices; d++) {
            assert_int_equal(read->devices[d].host_bytes, rig.plan->devices[d].host_bytes);
        }
        pst_plan_destroy(read);
    }
}

/* --- how much ----------------------------------------------------------------------------------*/

/* A 1F1B plan of p equal stages and 8 micro-batches; every `step`-th node of a stage is offloaded,
   0: none. */
static void plan_in_turn(struct rig *rig, uint32_t p, uint32_t step)
{
    in_turn_stages(rig, p, 8);
    for (uint32_t d = 0; d < p && step > 0; d++) {
        for (uint32_t i = 0; i < rig->plan->stages[d].n_nodes; i += step) {
            ((uint8_t *)rig->plan->stages[d].actions)[i] = PST_ACTION_OFFLOAD;
        }
    }
    rig->plan->barrier = true;
    in_turn_lists(rig);
}

/* What the stage leaves of a micro-batch in the nodes that are offloaded, from the operators'
   derivatives: results that a B or W of the stage reads. */
static uint64_t offloaded_bytes(const struct rig *rig, uint32_t s)
{
    const struct pst_plan_stage *stage = &rig->plan->stages[s];
    const struct pst_graph *graph = rig->graph;
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        uint32_t maker = graph->tensors[t].producer, first = stage->nodes[0];
        bool read = false;
        if (maker < first || maker >= first + stage->n_nodes ||
            stage->actions[maker - first] != PST_ACTION_OFFLOAD) {
            continue;
        }
        for (uint32_t v = first; v < first + stage->n_nodes; v++) {
            const struct pst_op *op = &graph->ops[v];
            struct pst_op_grad grad;
            pst_op_grad_info(graph, v, &grad);
            for (uint32_t i = 0; i < op->n_in; i++) {
                read |= op->in[i] == t && ((grad.b_reads_x | grad.w_reads_x) >> i & 1);
            }
            for (uint32_t i = 0; i < op->n_out; i++) {
                read |= op->out[i] == t && ((grad.b_reads_y | grad.w_reads_y) >> i & 1);
            }
        }
        bytes += read ? graph->tensors[t].bytes * (graph->tensors[t].batched ? 2 : 1) : 0;
    }
    return bytes;
}

/*
 * Under 1F1B stage d of p holds k = p - d micro-batches; offloading bytes S of each leaves two on
 * the device, so k - 2 of them are saved, none where k <= 2. Where k = 1 nothing is moved. A peak
 * in the middle of a pass may count what both slots of the other nodes hold: S more at most.
 */
TEST(test_peaks)
{
    uint32_t n_exact = 0, n_all = 0;
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t p = 2 + i % 4, step = 1 + i / 4 % 2, model = i < 8 ? 0 : i < 16 ? 1 : 3;
        uint64_t kept[RIG_MAX];
        FINISHED_BY(rig_close) struct rig rig;
        rig_open(&rig, models[model][0], models[model][1], i);
        plan_in_turn(&rig, p, 0);
        for (uint32_t d = 0; d < p; d++) {
            kept[d] = rig.programs[d]->peak_bytes;
            assert_int_equal(rig.programs[d]->host_bytes, 0);
        }
        rig_drop_plan(&rig);
        plan_in_turn(&rig, p, step);
        for (uint32_t d = 0; d < p; d++) {
            const struct pst_program *program = rig.programs[d];
            uint64_t k = p - d, moved = offloaded_bytes(&rig, d);
            uint64_t saved = k > 2 ? (k - 2) * moved : 0, model_peak = kept[d] - saved;
            assert_true(program->peak_bytes >= model_peak);
            assert_true(program->peak_bytes <= model_peak + (k > 1 ? moved : 0));
            n_exact += program->peak_bytes == model_peak;
            n_all++;
            if (k == 1 || moved == 0) {
                assert_int_equal(program->n_copies, 0);
                assert_int_equal(program->host_bytes, 0);
            } else {
                assert_true(program->host_bytes >= k * moved);
            }
        }
    }
    print_message("%u of %u peaks are those of the formula to the byte\n", n_exact, n_all);
    assert_true(n_exact * 5 > n_all * 4);
}

/* k = 4 on the first of four stages: all that a micro-batch leaves is there twice, not four times.
 */
TEST(test_all_of_it)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint64_t kept, moved;
    rig_open(&rig, "gpt", "layers=4 dim=32 heads=2 context=16 vocab=11 dropout=0.1", 1);
    plan_in_turn(&rig, 4, 0);
    kept = rig.programs[0]->peak_bytes;
    rig_drop_plan(&rig);
    plan_in_turn(&rig, 4, 1);
    moved = offloaded_bytes(&rig, 0);
    assert_true(moved > 0);
    assert_int_equal(rig.programs[0]->peak_bytes, kept - 2 * moved);
}
