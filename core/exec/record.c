/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/record.h"

#include <stdlib.h>

#include "base/memory.h"
#include "exec/state.h"
#include "exec/record_impl.h"

uint32_t record_longest_section(const struct pst_program *program)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < program->n_sections; i++) {
        most = program->sections[i].n_instrs > most ? program->sections[i].n_instrs : most;
    }
    return most;
}

static void init_rank(struct pst_recorder *recorder, uint32_t index)
{
    struct record_rank *rank = &recorder->ranks[index];
    size_t n = record_longest_section(recorder->programs[index]) + 1;

    rank->visits = pst_arena_array(&recorder->arena, recorder->n_visits, sizeof *rank->visits);
    for (uint32_t v = 0; v < recorder->n_visits; v++) {
        rank->visits[v].start = pst_arena_array(&recorder->arena, n, sizeof(uint64_t));
        rank->visits[v].end = pst_arena_array(&recorder->arena, n, sizeof(uint64_t));
        rank->visits[v].stall = pst_arena_array(&recorder->arena, n, sizeof(uint64_t));
    }
}

struct pst_recorder *pst_recorder_create(const struct pst_graph *graph, const struct pst_plan *plan,
                                         const struct pst_program *const *programs,
                                         uint32_t n_steps)
{
    struct pst_recorder *recorder = pst_alloc(1, sizeof *recorder);

    recorder->graph = graph;
    recorder->plan = plan;
    recorder->programs = programs;
    recorder->n_steps = n_steps > 0 ? n_steps : 1;
    /* An asynchronous step may have a fill before and a drain behind it. */
    recorder->n_visits = recorder->n_steps + (plan->asynchronous ? 2 : 0);
    recorder->ranks = pst_arena_array(&recorder->arena, plan->n_devices, sizeof *recorder->ranks);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        init_rank(recorder, d);
    }
    return recorder;
}

void pst_recorder_destroy(struct pst_recorder *recorder)
{
    if (recorder != NULL) {
        pst_arena_finish(&recorder->arena);
        free(recorder);
    }
}

struct exec_visit *exec_record_enter(struct exec_rank *rank, const struct exec_list *list,
                                     uint32_t section, const struct exec_task *task)
{
    struct pst_recorder *recorder = rank->exec->config.recorder;
    const struct pst_program_section *range = &list->program->sections[section];
    struct record_rank *own;
    struct exec_visit *visit;

    if (recorder == NULL || list != &rank->train) {
        return NULL;
    }
    own = &recorder->ranks[rank->index];
    visit = &own->visits[own->n_entered++ % recorder->n_visits];
    visit->t = task->t;
    visit->section = section;
    visit->first_instr = range->first_instr;
    visit->n_instrs = range->n_instrs;
    for (uint32_t i = 0; i < range->n_instrs; i++) {
        visit->start[i] = visit->end[i] = visit->stall[i] = 0;
    }
    return visit;
}

/* The place may have been taken by a later visit, where few are kept. */
static bool is_in(const struct exec_visit *visit, uint32_t instr)
{
    return visit != NULL && instr >= visit->first_instr &&
           instr - visit->first_instr < visit->n_instrs;
}

static void widen(struct exec_visit *visit, uint32_t instr, uint64_t start, uint64_t end)
{
    instr -= visit->first_instr;
    if (visit->end[instr] == 0 || start < visit->start[instr]) {
        visit->start[instr] = start;
    }
    visit->end[instr] = end > visit->end[instr] ? end : visit->end[instr];
}

void exec_record_copied(struct exec_visit *visit, uint32_t instr, uint64_t start, uint64_t end)
{
    if (is_in(visit, instr)) {
        widen(visit, instr, start, end);
    }
}

void exec_record_stall(struct exec_visit *visit, uint32_t instr, uint64_t ns)
{
    if (is_in(visit, instr)) {
        visit->stall[instr - visit->first_instr] += ns;
    }
}

/* --- the timeline ----------------------------------------------------------------------------- */

struct sweep {
    const struct pst_recorder *recorder;
    struct pst_timeline *timeline;
    uint64_t begin_ns; /* first start */
    double scale;
};

static const struct exec_visit *visit_at(const struct pst_recorder *recorder, uint32_t rank,
                                         uint32_t i)
{
    const struct record_rank *own = &recorder->ranks[rank];
    uint64_t first = own->n_entered > recorder->n_visits ? own->n_entered - recorder->n_visits : 0;

    return first + i < own->n_entered ? &own->visits[(first + i) % recorder->n_visits] : NULL;
}

static uint64_t first_start(const struct pst_recorder *recorder)
{
    uint64_t first = UINT64_MAX;

    for (uint32_t d = 0; d < recorder->plan->n_devices; d++) {
        const struct exec_visit *visit;

        for (uint32_t v = 0; (visit = visit_at(recorder, d, v)) != NULL; v++) {
            for (uint32_t i = 0; i < visit->n_instrs; i++) {
                if (visit->end[i] > 0 && visit->start[i] < first) {
                    first = visit->start[i];
                }
            }
        }
    }
    return first;
}

static uint64_t moved_bytes(const struct pst_recorder *recorder, const struct pst_program *program,
                            uint32_t at)
{
    const struct pst_instr *instr = &program->instrs[at];
    const struct pst_program_instr *list = &program->lists[at];
    uint64_t bytes = 0;

    if (instr->op == PST_I_NORM) {
        return pst_plan_norm_values(recorder->plan, recorder->graph) * sizeof(double);
    }
    if (instr->op == PST_I_REDUCE) {
        return pst_plan_gradient_bytes(recorder->plan, recorder->graph, instr->stage);
    }
    if (instr->op == PST_I_TIE) {
        const struct pst_plan_tie *tie = &recorder->plan->ties[instr->stage];

        return recorder->graph->params[tie->parameter].elems * sizeof(float);
    }
    for (uint32_t i = 0; i < list->n_parts; i++) {
        bytes += program->parts[list->first_part + i].bytes;
    }
    for (uint32_t i = 0; i < list->n_copies; i++) {
        bytes += program->copies[list->first_copy + i].bytes;
    }
    return bytes;
}

static void add_visit(const struct sweep *sweep, uint32_t rank, const struct exec_visit *visit)
{
    const struct pst_program *program = sweep->recorder->programs[rank];

    for (uint32_t i = 0; i < visit->n_instrs; i++) {
        struct pst_span span = {.rank = rank, .instr = i};

        if (visit->end[i] == 0) {
            continue; /* the run ended before it did */
        }
        span.start_ns = (uint64_t)((double)(visit->start[i] - sweep->begin_ns) / sweep->scale);
        span.end_ns = (uint64_t)((double)(visit->end[i] - sweep->begin_ns) / sweep->scale);
        span.stall_ns = (uint64_t)((double)visit->stall[i] / sweep->scale);
        span.bytes = moved_bytes(sweep->recorder, program, visit->first_instr + i);
        pst_span_describe(sweep->recorder->plan, &program->instrs[visit->first_instr + i],
                          (uint32_t)visit->t, &span);
        pst_timeline_add(sweep->timeline, &span);
    }
}

static void fill(const struct sweep *sweep)
{
    for (uint32_t d = 0; d < sweep->recorder->plan->n_devices; d++) {
        const struct exec_visit *visit;

        for (uint32_t v = 0; (visit = visit_at(sweep->recorder, d, v)) != NULL; v++) {
            add_visit(sweep, d, visit);
        }
    }
    pst_timeline_finish_build(sweep->timeline);
    pst_timeline_describe(sweep->timeline, sweep->recorder->plan, "run", sweep->recorder->n_steps);
}

pst_status pst_recorder_timeline(const struct pst_recorder *recorder, double scale,
                                 struct pst_timeline **ret_timeline, struct pst_error *err)
{
    struct sweep sweep = {.recorder = recorder, .begin_ns = first_start(recorder), .scale = scale};

    if (sweep.begin_ns == UINT64_MAX) {
        return pst_fail(err, PST_ERR_BUG, "internal", "no step was recorded");
    }
    pst_timeline_create(recorder->plan->n_devices, &sweep.timeline);
    fill(&sweep);
    *ret_timeline = sweep.timeline;
    return PST_OK;
}
