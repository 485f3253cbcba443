/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a rank over simulated time: its program says in which tick each buffer begins and
 * ends to live, the simulation when the instruction of that tick ran. The calls of a pass share its
 * time as their kernels cost, and stand still for copies where it does; what is posted takes its
 * place at the time of posting. What the batches of an asynchronous plan take turns in lives all
 * the time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/state.h"

static uint64_t call_ns(const struct pst_sim_record *record, uint32_t rank, uint32_t stage,
                        const struct pst_program_call *call)
{
    if (call->meeting != NULL) {
        uint64_t bytes = 0;

        for (uint32_t p = 0; p < call->meeting->n_parts; p++) {
            bytes += call->meeting->parts[p].bytes;
        }
        return call->kind == PST_C_GATHER
                   ? pst_plan_gather_ns(record->plan, record->cost, stage, bytes)
                   : pst_plan_scatter_ns(record->plan, record->cost, stage, bytes);
    }
    if (call->kind != PST_C_KERNEL) {
        return 0;
    }
    struct pst_sim_known *known = &record->known[call->op];
    const uint32_t slice = record->cost->graph->ops[call->op].slices > 1 ? call->slice : 0;
    if (known->samples != call->samples || known->slice != slice) {
        const struct pst_cost_model of = pst_cost_of_slice(record->cost, slice);
        struct pst_cost_at at;

        *known = (struct pst_sim_known){.samples = call->samples, .slice = slice};
        const struct pst_cost_model *cost = pst_cost_on(&of, &rank, 1, &at);
        const struct pst_plan_stage *all = &record->plan->stages[stage];
        const struct pst_pass_scale scale =
            pst_cost_host_scale(cost, all->nodes, all->n_nodes, call->samples);

        pst_cost_share(cost, &scale, call->op, call->samples, &known->times);
    }
    return call->pass == 0   ? known->times.forward_ns
           : call->pass == 1 ? known->times.backward_input_ns
                             : known->times.backward_weight_ns;
}

static uint8_t kind_of(const struct pst_value *value)
{
    static const uint8_t kinds[PST_V_KINDS] = {
        [PST_V_WEIGHT] = PST_MEM_PARAMS,       [PST_V_WORKING] = PST_MEM_PARAMS,
        [PST_V_STATE] = PST_MEM_PARAMS,        [PST_V_GATHERED] = PST_MEM_PARAMS,
        [PST_V_GRAD] = PST_MEM_GRADS,          [PST_V_TIE] = PST_MEM_GRADS,
        [PST_V_OPTIMIZER] = PST_MEM_OPTIMIZER, [PST_V_RECV] = PST_MEM_BUFFERS,
        [PST_V_SCRATCH] = PST_MEM_BUFFERS,     [PST_V_WORKSPACE] = PST_MEM_WORKSPACE,
        [PST_V_GUEST] = PST_MEM_GUESTS,        [PST_V_INPUT] = PST_MEM_ACTIVATIONS,
        [PST_V_ACT] = PST_MEM_ACTIVATIONS,     [PST_V_DACT] = PST_MEM_ACTIVATIONS,
        [PST_V_Z] = PST_MEM_ACTIVATIONS,       [PST_V_FETCHED] = PST_MEM_ACTIVATIONS,
        [PST_V_HOST] = PST_MEM_ACTIVATIONS,    [PST_V_RETURNED] = PST_MEM_ACTIVATIONS,
        [PST_V_PAST] = PST_MEM_ACTIVATIONS,
    };

    return kinds[value->kind];
}

/* The ticks of one nanosecond make one point: the fullest of them. */
struct curve {
    struct pst_timeline *timeline;
    uint32_t rank;
    uint64_t (*rise)[PST_MEM_KINDS];  /* per tick; differences wrap around and cancel out */
    uint64_t (*leave)[PST_MEM_KINDS]; /* per section, at its end */
    uint64_t live[PST_MEM_KINDS], most[PST_MEM_KINDS];
    uint64_t ns, most_sum;
    bool any;
};

static void emit_point(struct curve *curve, uint64_t ns, const uint64_t *bytes)
{
    const struct pst_timeline_rank *row = &curve->timeline->ranks[curve->rank];
    bool same = row->n_points > 0 &&
                memcmp(row->points[row->n_points - 1].bytes, bytes, sizeof curve->live) == 0;
    if (!same) {
        uint64_t last = row->n_points > 0 ? row->points[row->n_points - 1].ns : 0;
        ns = ns > last ? ns : last; /* a run of no time behind one whose end was shown for 1 ns */
        pst_timeline_memory(curve->timeline, curve->rank, ns, bytes);
    }
}

/* The next tick is at `next`: what was fullest until then is a point, what is left another. */
static void close_point(struct curve *curve, uint64_t next)
{
    if (curve->any) {
        emit_point(curve, curve->ns, curve->most);
        if (next > curve->ns + 1) {
            emit_point(curve, curve->ns + 1, curve->live);
        }
    }
}

static void at_time(struct curve *curve, uint64_t ns, const uint64_t *rise)
{
    uint64_t sum = 0;
    if (!curve->any || ns > curve->ns) {
        close_point(curve, ns);
        curve->any = true;
        curve->ns = ns;
        curve->most_sum = 0;
    }
    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        curve->live[k] += rise[k];
        sum += curve->live[k];
    }
    if (sum >= curve->most_sum) {
        curve->most_sum = sum;
        memcpy(curve->most, curve->live, sizeof curve->most);
    }
}

/* One run of a section. */
struct passage {
    const struct pst_program *program;
    const struct pst_program_section *section;
    const struct pst_sim_rank *run;
    uint32_t first; /* of the run's list: the section's first instruction */
};

/* The end of a copy of an earlier part, which the pass waits for in the list that is written out.
 */
static uint64_t open_end(const struct passage *passage, const struct pst_instr *copy,
                         const struct pst_instr *pass)
{
    uint64_t latest = 0;
    for (uint32_t w = 0; w < pass->n_waits; w++) {
        const struct pst_instr *waited = &passage->run->list[pass->waits[w]];
        if (waited->op == copy->op && waited->stage == copy->stage && waited->node == copy->node &&
            passage->run->end[pass->waits[w]] > latest) {
            latest = passage->run->end[pass->waits[w]];
        }
    }
    return latest;
}

/* The end of the copies that a call of the pass at `at` waits for; 0: none. */
static uint64_t copies_end(const struct passage *passage, const struct pst_program_call *call,
                           uint32_t at)
{
    const struct pst_program_section *section = passage->section;
    uint64_t latest = 0;
    for (uint32_t w = call->first_copy_wait; w < call->first_copy_wait + call->n_copy_waits; w++) {
        uint32_t instr = passage->program->copies[passage->program->copy_waits[w]].instr;
        bool open = instr - section->first_instr >= section->n_instrs;
        uint64_t end =
            open ? open_end(passage, &passage->program->instrs[instr], &passage->run->list[at])
                 : passage->run->end[passage->first + instr - section->first_instr];
        latest = end > latest ? end : latest;
    }
    return latest;
}

/* When the n calls of a pass begin, from its own beginning on, if they stay for no copy; [n]: its
   end. Meetings of replicas go on beside kernels, or take their cores. */
static uint64_t *time_calls(const struct pst_sim_record *record, uint32_t rank, uint32_t stage,
                            const struct pst_program_call *calls, uint32_t n)
{
    uint64_t *at = pst_alloc((size_t)n + 1, sizeof *at), *end = pst_alloc(n, sizeof *end);
    const bool serial = pst_cost_meets_alone(record->cost, record->plan->n_devices);
    uint64_t now = 0, lane_free = 0;

    for (uint32_t c = 0; c < n; c++) {
        const uint64_t ns = call_ns(record, rank, stage, &calls[c]);

        at[c] = now;
        if (calls[c].kind == PST_C_WAIT) {
            now = pst_later(now, end[c - calls[c].posted]);
        } else if (calls[c].meeting == NULL) {
            now = pst_sat_add_ns(now, ns);
        } else {
            end[c] = lane_free = pst_sat_add_ns(pst_later(now, lane_free), ns);
            now = serial ? lane_free : now;
        }
    }
    at[n] = now;
    free(end);
    return at;
}

/* Ticks of one instruction; returns the one behind them. */
static uint32_t walk_instr(const struct pst_sim_record *record, const struct passage *passage,
                           uint32_t instr, uint32_t tick, struct curve *curve)
{
    const struct pst_program_instr *list =
        &passage->program->lists[passage->section->first_instr + instr];
    const struct pst_program_call *calls = &passage->program->calls[list->first_call];
    const uint32_t at = passage->first + instr, n = list->n_calls;
    uint64_t start = passage->run->posted[at], end = passage->run->end[at];
    uint64_t *ns, stalled = 0;
    uint64_t stall = passage->run->stall != NULL ? passage->run->stall[at] : 0;
    if (n == 0) {
        at_time(curve, start, curve->rise[tick++]);
        return tick;
    }
    ns = time_calls(record, curve->rank, passage->run->list[at].stage, calls, n);
    for (uint32_t c = 0; c < n; c++) {
        unsigned __int128 share = (unsigned __int128)(end - start - stall) * ns[c];
        uint64_t now = start + stalled + (ns[n] > 0 ? (uint64_t)(share / ns[n]) : 0);
        uint64_t until = copies_end(passage, &calls[c], at);
        for (uint32_t t = pst_call_ticks(&calls[c]); t > 1; t--) {
            at_time(curve, now, curve->rise[tick++]);
        }
        stalled += until > now ? until - now : 0;
        at_time(curve, until > now ? until : now, curve->rise[tick++]);
    }
    free(ns);
    return tick;
}

static uint32_t section_at(const struct pst_program *program, uint32_t tick)
{
    uint32_t s = program->n_sections - 1;
    while (s > 0 && program->sections[s].first_tick > tick) {
        s--;
    }
    return s;
}

/* rise: bytes that begin at a tick less those that ended; leave: those that end with a section. */
static void sum_ticks(const struct pst_program *program, struct curve *curve)
{
    for (uint32_t v = 0; v < program->n_values; v++) {
        const struct pst_value *value = &program->values[v];
        uint8_t kind = kind_of(value);
        if (value->kind == PST_V_HOST) {
            continue;
        }
        if (value->is_static || value->period > 0) {
            curve->live[kind] += value->bytes;
            continue;
        }
        uint32_t s = section_at(program, value->first);
        uint32_t end =
            s + 1 < program->n_sections ? program->sections[s + 1].first_tick : program->n_ticks;
        curve->rise[value->first][kind] += value->bytes;
        if (value->last + 1 < end) {
            curve->rise[value->last + 1][kind] -= value->bytes;
        } else {
            curve->leave[s][kind] -= value->bytes;
        }
    }
}

static void walk_run(const struct pst_sim_record *record, const struct pst_program *program,
                     const struct pst_sim_rank *run, uint32_t rank, struct curve *curve)
{
    uint32_t at = PST_NONE, tick = 0; /* section; tick in it */
    uint32_t batch = 0;
    for (uint32_t i = 0; i < run->n; i++) {
        struct pst_origin from = {.instr = i};
        uint32_t s = 0;
        if (record->plan->asynchronous) {
            from =
                pst_plan_origin(record->plan, rank, i, record->n_steps, record->plan->drain_every);
            s = from.batch % program->n_phases * PST_PARTS + (uint32_t)from.part;
        }
        if (s != at || from.batch != batch) {
            if (at != PST_NONE) {
                at_time(curve, run->posted[i], curve->leave[at]);
            }
            at = s;
            batch = from.batch;
            tick = program->sections[s].first_tick;
        }
        tick = walk_instr(record,
                          &(struct passage){program, &program->sections[s], run, i - from.instr},
                          from.instr, tick, curve);
    }
    at_time(curve, run->latest, curve->leave[at == PST_NONE ? 0 : at]);
}

void pst_sim_memory_add(const struct pst_sim_record *record, const struct pst_sim_rank *run,
                        uint32_t rank)
{
    const struct pst_program *program = record->programs[rank];
    struct curve curve = {.timeline = record->timeline, .rank = rank};
    curve.rise = pst_alloc((size_t)program->n_ticks + 1, sizeof *curve.rise);
    curve.leave = pst_alloc((size_t)program->n_sections + 1, sizeof *curve.leave);
    sum_ticks(program, &curve);
    walk_run(record, program, run, rank, &curve);
    close_point(&curve, UINT64_MAX);
    free(curve.rise);
    free(curve.leave);
}
