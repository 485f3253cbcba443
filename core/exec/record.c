/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder: for each rank the last visits of its sections, all in one block of numbers, which
 * ranks in other processes hand round as it is.
 */
#include "exec/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exec/state.h"

/* One run of a section, as it is recorded; by instruction, 0 where nothing is known. */
struct exec_visit {
    uint64_t t, first_instr, n_instrs;
    struct {
        uint64_t start, end, stall; /* stall of passes: in which they stood still for copies */
    } of[];
};

enum { VISIT_WORDS = sizeof(struct exec_visit) / sizeof(uint64_t) };

struct pst_recorder {
    const struct pst_graph *graph;
    const struct pst_plan *plan;
    const struct pst_program *const *programs;
    uint32_t n_visits, n_steps;
    uint64_t n_skipped; /* steps */
    size_t visit_words, rank_words;
    struct pst_clock *clocks; /* of each rank, where they are processes; NULL: not known yet */
    uint64_t *words; /* of each rank: how many visits there were; the last n_visits, a ring */
};

static uint64_t *words_of(const struct pst_recorder *recorder, uint32_t rank)
{
    return recorder->words + rank * recorder->rank_words;
}

static struct exec_visit *visit_in(const struct pst_recorder *recorder, uint64_t *words, uint64_t n)
{
    return (struct exec_visit *)(words + 1 + n % recorder->n_visits * recorder->visit_words);
}

struct pst_recorder *pst_recorder_create(const struct pst_graph *graph, const struct pst_plan *plan,
                                         const struct pst_program *const *programs,
                                         uint32_t n_steps)
{
    struct pst_recorder *recorder = pst_alloc(1, sizeof *recorder);
    uint32_t most = 0;

    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t s = 0; s < programs[d]->n_sections; s++) {
            uint32_t n = programs[d]->sections[s].n_instrs;

            most = n > most ? n : most;
        }
    }
    recorder->graph = graph;
    recorder->plan = plan;
    recorder->programs = programs;
    recorder->n_steps = n_steps > 0 ? n_steps : 1;
    /* An asynchronous step may have a fill before and a drain behind it. */
    recorder->n_visits = recorder->n_steps + (plan->asynchronous ? 2 : 0);
    recorder->visit_words = VISIT_WORDS + 3 * (size_t)most;
    recorder->rank_words = 1 + recorder->n_visits * recorder->visit_words;
    recorder->words = pst_alloc(plan->n_devices * recorder->rank_words, sizeof *recorder->words);
    return recorder;
}

void pst_recorder_destroy(struct pst_recorder *recorder)
{
    if (recorder != NULL) {
        free(recorder->clocks);
        free(recorder->words);
        free(recorder);
    }
}

void pst_recorder_skip(struct pst_recorder *recorder, uint64_t n_steps)
{
    recorder->n_skipped = n_steps;
}

struct exec_visit *exec_record_enter(struct exec_rank *rank, const struct exec_list *list,
                                     uint32_t section, const struct exec_task *task)
{
    struct pst_recorder *recorder = rank->exec->config.recorder;
    const struct pst_program_section *range = &list->program->sections[section];
    struct exec_visit *visit;
    uint64_t *words;

    if (recorder == NULL || list != &rank->train || task->t < recorder->n_skipped) {
        return NULL;
    }
    words = words_of(recorder, rank->index);
    visit = visit_in(recorder, words, words[0]++);
    visit->t = task->t;
    visit->first_instr = range->first_instr;
    visit->n_instrs = range->n_instrs;
    memset(visit->of, 0, range->n_instrs * sizeof *visit->of);
    return visit;
}

/* The place may have been taken by a later visit, where few are kept. */
static bool is_visit_of(const struct exec_visit *visit, uint32_t instr)
{
    return visit != NULL && instr >= visit->first_instr &&
           instr - visit->first_instr < visit->n_instrs;
}

void exec_record_copied(struct exec_visit *visit, uint32_t instr, uint64_t start, uint64_t end)
{
    if (is_visit_of(visit, instr)) {
        instr -= (uint32_t)visit->first_instr;
        if (visit->of[instr].end == 0 || start < visit->of[instr].start) {
            visit->of[instr].start = start;
        }
        visit->of[instr].end = end > visit->of[instr].end ? end : visit->of[instr].end;
    }
}

void exec_record_stall(struct exec_visit *visit, uint32_t instr, uint64_t ns)
{
    if (is_visit_of(visit, instr)) {
        visit->of[instr - visit->first_instr].stall += ns;
    }
}

static uint64_t shift_time(uint64_t ns, int64_t by)
{
    return ns != 0 ? (uint64_t)((int64_t)ns + by) : 0;
}

pst_status pst_recorder_gather(struct pst_recorder *recorder, const struct pst_exec *exec,
                               struct pst_error *err)
{
    size_t bytes = recorder->rank_words * sizeof *recorder->words;
    struct pst_clock clock = {0};
    uint64_t *mine;
    pst_status status;

    if (!exec_is_shared(exec)) {
        return PST_OK;
    }
    recorder->clocks = pst_alloc(recorder->plan->n_devices, sizeof *recorder->clocks);
    status = exec->config.transport->processes->clock(&clock.offset_ns, &clock.uncertainty_ns, err);
    PST_TRY(status, exec_exchange(exec, &clock, recorder->clocks, sizeof clock, err));
    if (status != PST_OK) {
        return status;
    }
    mine = pst_alloc(1, bytes);
    memcpy(mine, words_of(recorder, exec->first_local), bytes);
    for (uint32_t v = 0; v < recorder->n_visits; v++) {
        struct exec_visit *visit = visit_in(recorder, mine, v);

        for (uint32_t i = 0; i < visit->n_instrs; i++) {
            visit->of[i].start = shift_time(visit->of[i].start, clock.offset_ns);
            visit->of[i].end = shift_time(visit->of[i].end, clock.offset_ns);
        }
    }
    status = exec_exchange(exec, mine, recorder->words, bytes, err);
    free(mine);
    return status;
}

/* --- rows -------------------------------------------------------------------------------------*/

static const struct exec_visit *visit_at(const struct pst_recorder *recorder, uint32_t rank,
                                         uint32_t i)
{
    uint64_t *words = words_of(recorder, rank), n = words[0];
    uint64_t first = n > recorder->n_visits ? n - recorder->n_visits : 0;

    return first + i < n ? visit_in(recorder, words, first + i) : NULL;
}

static uint64_t first_start(const struct pst_recorder *recorder)
{
    uint64_t first = UINT64_MAX;

    for (uint32_t d = 0; d < recorder->plan->n_devices; d++) {
        const struct exec_visit *visit;

        for (uint32_t v = 0; (visit = visit_at(recorder, d, v)) != NULL; v++) {
            for (uint32_t i = 0; i < visit->n_instrs; i++) {
                if (visit->of[i].end > 0 && visit->of[i].start < first) {
                    first = visit->of[i].start;
                }
            }
        }
    }
    return first;
}

bool pst_recorder_is_empty(const struct pst_recorder *recorder)
{
    return first_start(recorder) == UINT64_MAX;
}

static uint64_t scattered_bytes(const struct pst_program_call *call)
{
    uint64_t bytes = 0;

    for (uint32_t p = 0; call->kind == PST_C_SCATTER && p < call->meeting->n_parts; p++) {
        bytes += call->meeting->parts[p].bytes;
    }
    return bytes;
}

static uint64_t moved_bytes(const struct pst_recorder *recorder, const struct pst_program *program,
                            uint32_t at)
{
    const struct pst_program_instr *list = &program->lists[at];
    const struct pst_meet_bytes meet =
        pst_plan_meet_bytes(recorder->plan, recorder->graph, &program->instrs[at], program->rank);
    uint64_t bytes = meet.added > meet.copied ? meet.added : meet.copied;

    for (uint32_t i = 0; i < list->n_parts; i++) {
        bytes += program->parts[list->first_part + i].bytes;
    }
    for (uint32_t i = 0; i < list->n_copies; i++) {
        bytes += program->copies[list->first_copy + i].bytes;
    }
    for (uint32_t i = 0; i < list->n_calls; i++) {
        bytes += scattered_bytes(&program->calls[list->first_call + i]);
    }
    return bytes;
}

void pst_recorder_each(const struct pst_recorder *recorder,
                       void (*row)(void *context, const struct pst_recorded *recorded),
                       void *context)
{
    for (uint32_t rank = 0; rank < recorder->plan->n_devices; rank++) {
        const struct pst_program *program = recorder->programs[rank];
        const struct exec_visit *visit;

        for (uint32_t v = 0; (visit = visit_at(recorder, rank, v)) != NULL; v++) {
            for (uint32_t i = 0; i < visit->n_instrs; i++) {
                const uint32_t at = (uint32_t)visit->first_instr + i;
                const struct pst_recorded recorded = {.instr = &program->instrs[at],
                                                      .rank = rank,
                                                      .at = i,
                                                      .step = visit->t,
                                                      .start_ns = visit->of[i].start,
                                                      .end_ns = visit->of[i].end,
                                                      .stall_ns = visit->of[i].stall,
                                                      .bytes = moved_bytes(recorder, program, at)};

                if (recorded.end_ns > 0) { /* 0: the run ended before it did */
                    row(context, &recorded);
                }
            }
        }
    }
}

struct pst_recording pst_recorder_recording(const struct pst_recorder *recorder)
{
    return (struct pst_recording){.plan = recorder->plan,
                                  .clocks = recorder->clocks,
                                  .begin_ns = first_start(recorder),
                                  .n_steps = recorder->n_steps};
}
