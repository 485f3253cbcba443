/* SPDX-License-Identifier: Apache-2.0
 *
 * What OFFLOAD and FETCH move, and the lives that follow. While a list is built each gets its rows;
 * once all calls are there, so are the places of all waits: inside a pass a copy waits for the turn
 * of its node, and the calls of a node for its copies. A copy that runs beside the list may touch
 * its buffers from the call after which it may begin to the one that waits for its end.
 */
#include <stdlib.h>

#include "base/util.h"
#include "plan/program_build.h"

/* --- rows --------------------------------------------------------------------------------------*/

static struct pst_program_copy *add_copy(struct pst_builder *b, const struct pst_instr *instr,
                                         uint32_t value, uint32_t host)
{
    struct pst_program *program = b->program;
    struct pst_program_copy *copy;

    if (b->failed || value == PST_NONE || host == PST_NONE) {
        b->failed = true;
        return NULL;
    }
    pst_grow(&program->copies, &b->room.copies, program->n_copies, sizeof *program->copies);
    copy = &program->copies[program->n_copies++];
    *copy = (struct pst_program_copy){.instr = (uint32_t)(instr - program->instrs),
                                      .out = instr->op == PST_I_OFFLOAD,
                                      .value = value,
                                      .host = host,
                                      .bytes = program->values[host].bytes,
                                      .start_call = PST_NONE,
                                      .after = PST_NONE};
    return copy;
}

static void add_offload(struct pst_builder *b, const struct pst_instr *instr, uint32_t node)
{
    const struct pst_stage_build *build = &b->stages[instr->stage];
    struct pst_micro *micro = &build->micros[instr->microbatch];
    const struct pst_op *op = pst_build_op(b, instr->stage, node);

    micro->out_copy[node] = b->program->n_copies;
    for (uint32_t i = 0; i < op->n_out && !b->failed; i++) {
        uint32_t value = *pst_build_act(b, instr->stage, instr->microbatch, op->out[i]);

        if (!build->saved[op->out[i]]) {
            continue;
        }
        pst_build_use(b, value);
        if (!b->failed) {
            add_copy(b, instr, value,
                     pst_build_value(b, PST_V_HOST, instr->stage, instr->microbatch, op->out[i], i,
                                     b->program->values[value].bytes));
        }
    }
}

static void add_fetch(struct pst_builder *b, const struct pst_instr *instr, uint32_t node)
{
    const struct pst_stage_build *build = &b->stages[instr->stage];
    struct pst_micro *micro = &build->micros[instr->microbatch];
    const struct pst_op *op = pst_build_op(b, instr->stage, node);
    uint32_t out = micro->out_copy[node];

    b->failed |= out == PST_NONE;
    micro->in_copy[node] = b->program->n_copies;
    for (uint32_t i = 0; i < op->n_out && !b->failed; i++) {
        const struct pst_value *host;
        struct pst_program_copy *copy;

        if (!build->saved[op->out[i]]) {
            continue;
        }
        host = &b->program->values[b->program->copies[out].host];
        copy = add_copy(b, instr,
                        pst_build_value(b, PST_V_FETCHED, instr->stage, instr->microbatch,
                                        op->out[i], i, host->bytes),
                        b->program->copies[out].host);
        if (copy != NULL) {
            copy->after = out++;
        }
    }
}

void pst_build_copy(struct pst_builder *b, const struct pst_instr *instr)
{
    const struct pst_plan_stage *stage = &b->plan->stages[instr->stage];
    uint32_t node = pst_plan_node(stage, instr->node);

    if (node == PST_NONE || b->stages[instr->stage].saved == NULL ||
        !b->stages[instr->stage].local) {
        b->failed = true;
    } else if (instr->op == PST_I_OFFLOAD) {
        add_offload(b, instr, node);
    } else {
        add_fetch(b, instr, node);
    }
}

void pst_build_fetched(struct pst_builder *b, uint32_t s, uint32_t j, bool forget)
{
    const struct pst_stage_build *build = &b->stages[s];
    struct pst_micro *micro = &build->micros[j];

    for (uint32_t node = 0; build->saved != NULL && node < b->plan->stages[s].n_nodes; node++) {
        const struct pst_op *op = pst_build_op(b, s, node);
        uint32_t row = micro->in_copy[node];

        if (row == PST_NONE && (!forget || micro->out_copy[node] == PST_NONE)) {
            continue;
        }
        for (uint32_t i = 0; i < op->n_out; i++) {
            if (build->saved[op->out[i]]) {
                *pst_build_act(b, s, j, op->out[i]) =
                    row != PST_NONE ? b->program->copies[row++].value : PST_NONE;
            }
        }
    }
}

/* --- places of waits ---------------------------------------------------------------------------*/

/* A wait of a pass for a copy: where in the pass the list stays. */
struct stay {
    uint32_t call, copy;
};

struct finisher {
    struct pst_builder *b;
    struct pst_program *program;
    struct stay *stays; /* by call, then by copy */
    size_t n_stays, room;
    uint32_t *call_tick; /* [call] */
    uint32_t *known;     /* [copy] the first tick in which the list knows that it has ended */
};

/* The n-th kernel call of a pass, or if there are not so many, its first call that gathers nothing.
 */
static uint32_t kernel_call(const struct pst_program *program, uint32_t instr, uint32_t n)
{
    const struct pst_program_instr *list = &program->lists[instr];
    uint32_t first = list->first_call;

    for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
        if (program->calls[c].kind == PST_C_KERNEL && n-- == 0) {
            return c;
        }
        first += c == first &&
                 (program->calls[c].kind == PST_C_GATHER || program->calls[c].kind == PST_C_WAIT);
    }
    return first;
}

/* The call of pass `at` that stays for a copy: of its micro-batch's node the first that reads it,
   of the node's next F its own, else the first of all. */
static uint32_t staying_call(const struct finisher *f, uint32_t at, const struct pst_instr *copy)
{
    const struct pst_instr *pass = &f->program->instrs[at];
    const struct pst_pass_calls *calls = f->b->stages[pass->stage].calls;
    uint32_t n = PST_NONE;

    if (pass->stage == copy->stage && calls != NULL && pass->op <= PST_I_BW) {
        uint32_t node = pst_plan_node(&f->b->plan->stages[pass->stage], copy->node);

        if (copy->op == PST_I_OFFLOAD && pass->op == PST_I_F) {
            n = node; /* one call each */
        } else if (copy->op == PST_I_FETCH && pass->microbatch == copy->microbatch) {
            n = calls[pass->op].first_read[node];
        }
    }
    return kernel_call(f->program, at, n);
}

static void add_stays_of(struct finisher *f, uint32_t at, uint32_t copy)
{
    const struct pst_program_instr *list = &f->program->lists[copy];

    for (uint32_t c = 0; c < list->n_copies; c++) {
        pst_grow(&f->stays, &f->room, f->n_stays, sizeof *f->stays);
        f->stays[f->n_stays++] =
            (struct stay){staying_call(f, at, &f->program->instrs[copy]), list->first_copy + c};
    }
}

static void add_stays(struct finisher *f, uint32_t at, uint32_t first)
{
    const struct pst_instr *pass = &f->program->instrs[at];

    for (uint32_t w = 0; w < pass->n_waits && f->program->lists[at].n_calls > 0; w++) {
        add_stays_of(f, at, first + pass->waits[w]);
    }
}

static int by_call(const void *a, const void *b)
{
    const struct stay *x = a, *y = b;

    return PST_COMPARE_KEYS({x->call, y->call}, {x->copy, y->copy});
}

/* Marks the OFFLOADs that no pass of fill waits for. Every part leaves the same ones, and the first
   F of each stage in the next part waits for them. */
static void mark_open(const struct finisher *f, const struct pst_program_section *fill, bool *open)
{
    for (uint32_t i = 0; i < fill->n_instrs; i++) {
        open[i] = f->program->instrs[fill->first_instr + i].op == PST_I_OFFLOAD;
    }
    for (uint32_t i = 0; i < fill->n_instrs; i++) {
        const struct pst_instr *instr = &f->program->instrs[fill->first_instr + i];

        for (uint32_t w = 0; instr->op < PST_I_SEND && w < instr->n_waits; w++) {
            open[instr->waits[w]] = false;
        }
    }
}

static void add_open_stays(struct finisher *f, const struct pst_program_section *fill,
                           const bool *open, uint32_t at)
{

    for (uint32_t i = 0; i < fill->n_instrs && f->program->lists[at].n_calls > 0; i++) {
        uint32_t copy = fill->first_instr + i;

        if (open[i] && f->program->instrs[copy].stage == f->program->instrs[at].stage) {
            add_stays_of(f, at, copy);
        }
    }
}

/* Stays of body or drain for what an earlier part left. */
static void find_open_stays(struct finisher *f, const struct pst_program_section *section)
{
    const struct pst_program_section *fill = section - section->part;
    bool *open = pst_alloc((size_t)fill->n_instrs + 1, sizeof *open);
    bool *met = pst_alloc((size_t)f->b->plan->n_stages + 1, sizeof *met);

    mark_open(f, fill, open);
    for (uint32_t i = 0; i < section->n_instrs; i++) {
        const struct pst_instr *instr = &f->program->instrs[section->first_instr + i];

        if (instr->op == PST_I_F && !met[instr->stage]) {
            met[instr->stage] = true;
            add_open_stays(f, fill, open, section->first_instr + i);
        }
    }
    free(open);
    free(met);
}

/* Sorts the stays and gives each call its own. */
static void join_stays(struct finisher *f)
{
    struct pst_program *program = f->program;

    if (f->n_stays > 0) {
        qsort(f->stays, f->n_stays, sizeof *f->stays, by_call);
    }
    program->copy_waits = pst_arena_array(&program->arena, f->n_stays, sizeof *program->copy_waits);
    for (size_t i = 0; i < f->n_stays; i++) {
        struct pst_program_call *call = &program->calls[f->stays[i].call];

        call->first_copy_wait = call->n_copy_waits == 0 ? (uint32_t)i : call->first_copy_wait;
        call->n_copy_waits++;
        program->copy_waits[i] = f->stays[i].copy;
    }
    program->n_copy_waits = (uint32_t)f->n_stays;
}

/* Where rows of `at` may begin in the pass `pass` behind which it stands, if they wait for it. */
static uint32_t start_call(const struct finisher *f, uint32_t at, uint32_t pass, uint32_t first)
{
    const struct pst_instr *copy = &f->program->instrs[at], *behind = &f->program->instrs[pass];
    const struct pst_pass_calls *calls = f->b->stages[behind->stage].calls;
    bool waits = false;
    uint32_t n;

    for (uint32_t w = 0; w < copy->n_waits; w++) {
        waits |= first + copy->waits[w] == pass;
    }
    if (!waits || f->program->lists[pass].n_calls == 0) {
        return PST_NONE;
    }
    if (behind->stage != copy->stage || calls == NULL || behind->op > PST_I_BW) {
        return f->program->lists[pass].first_call + f->program->lists[pass].n_calls - 1;
    }
    n = calls[behind->op].behind[pst_plan_node(&f->b->plan->stages[copy->stage], copy->node)];
    return n == 0 ? PST_NONE : kernel_call(f->program, pass, n - 1);
}

/* Finds where the list stays for copies, and where copies start. */
static void find_places(struct finisher *f)
{
    const struct pst_program *program = f->program;
    uint32_t pass = PST_NONE;

    for (uint32_t s = 0; s < program->n_sections; s++) {
        const struct pst_program_section *section = &program->sections[s];

        for (uint32_t i = 0; i < section->n_instrs; i++) {
            uint32_t at = section->first_instr + i;
            const struct pst_instr *instr = &program->instrs[at];
            const struct pst_program_instr *list = &program->lists[at];

            if (instr->op < PST_I_SEND) {
                add_stays(f, at, section->first_instr);
            }
            pass = pst_instr_copies(instr) ? pass : at;
            for (uint32_t c = 0; c < list->n_copies && !instr->at_part_head; c++) {
                program->copies[list->first_copy + c].start_call =
                    start_call(f, at, pass, section->first_instr);
            }
        }
        if (f->b->plan->asynchronous && section->part != PST_FILL) {
            find_open_stays(f, section);
        }
    }
    join_stays(f);
}

/* --- lives -------------------------------------------------------------------------------------*/

/* Calls that stay for copies do so in a tick of their own, which all behind them move on by. */
static void move_ticks(struct finisher *f)
{
    struct pst_program *program = f->program;
    uint32_t *moved = pst_alloc((size_t)f->b->tick + 1, sizeof *moved), now = 0, old = 0;

    for (uint32_t i = 0; i < program->n_instrs; i++) {
        struct pst_program_instr *list = &program->lists[i];

        list->first_tick = now;
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
            now += pst_call_ticks(&program->calls[c]);
            f->call_tick[c] = now - 1;
            moved[old++] = now - 1;
        }
        if (list->n_calls == 0) {
            moved[old++] = now++;
        }
        list->n_ticks = now - list->first_tick;
    }
    for (uint32_t v = 0; v < program->n_values; v++) {
        struct pst_value *value = &program->values[v];

        if (!value->is_static) {
            value->first = moved[value->first];
            value->last = moved[value->last];
        }
    }
    for (uint32_t s = 0; s < program->n_sections; s++) {
        struct pst_program_section *section = &program->sections[s];

        section->first_tick =
            section->n_instrs > 0 ? program->lists[section->first_instr].first_tick : now;
    }
    f->b->tick = now;
    free(moved);
}

/* The first tick behind the section of an instruction; what a part leaves open is in buffers that
   are there all the time. */
static uint32_t end_of_section(const struct finisher *f, uint32_t at)
{
    const struct pst_program *program = f->program;
    uint32_t s = 0;

    while (s + 1 < program->n_sections && program->sections[s + 1].first_instr <= at) {
        s++;
    }
    return s + 1 < program->n_sections ? program->sections[s + 1].first_tick : f->b->tick;
}

static void find_known(struct finisher *f)
{
    const struct pst_program *program = f->program;

    for (uint32_t i = 0; i < program->n_copies; i++) {
        f->known[i] = end_of_section(f, program->copies[i].instr) - 1;
    }
    for (size_t i = f->n_stays; i-- > 0;) {
        uint32_t copy = f->stays[i].copy, tick = f->call_tick[f->stays[i].call] - 1;

        for (; copy != PST_NONE; copy = program->copies[copy].after) {
            f->known[copy] = tick < f->known[copy] ? tick : f->known[copy];
        }
    }
}

/* The first tick in which a row may run: posted, behind its call, and behind the row that it
   follows. */
static uint32_t first_tick_of(const struct finisher *f, const struct pst_program_copy *copy)
{
    const struct pst_program *program = f->program;
    const struct pst_instr *instrs = program->instrs;
    uint32_t pass = copy->instr, first = 0;

    while (pass > 0 && pst_instr_copies(&instrs[pass]) && !instrs[pass].at_part_head) {
        pass--;
    }
    for (; copy != NULL; copy = copy->after == PST_NONE ? NULL : &program->copies[copy->after]) {
        uint32_t tick = copy->start_call == PST_NONE ? 0 : f->call_tick[copy->start_call] + 1;

        first = tick > first ? tick : first;
    }
    return first > program->lists[pass].first_tick ? first : program->lists[pass].first_tick;
}

static void set_lives(struct finisher *f)
{
    struct pst_program *program = f->program;

    for (uint32_t i = 0; i < program->n_copies; i++) {
        const struct pst_program_copy *copy = &program->copies[i];
        struct pst_value *value = &program->values[copy->value];
        struct pst_value *host = &program->values[copy->host];
        uint32_t first = first_tick_of(f, copy);

        value->last = value->last < f->known[i] ? f->known[i] : value->last;
        if (copy->out) {
            host->first = first;
            host->last = f->known[i];
        } else {
            value->first = first;
            host->last = host->last < f->known[i] ? f->known[i] : host->last;
        }
    }
}

void pst_build_copies(struct pst_builder *b)
{
    struct finisher f = {.b = b, .program = b->program};

    if (b->program->n_copies == 0) {
        return;
    }
    f.call_tick = pst_arena_array(&b->arena, b->program->n_calls, sizeof *f.call_tick);
    f.known = pst_arena_array(&b->arena, b->program->n_copies, sizeof *f.known);
    find_places(&f);
    move_ticks(&f);
    find_known(&f);
    set_lives(&f);
    free(f.stays);
}
