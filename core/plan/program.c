/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds and lays out the programs of a plan, rank by rank (docs/internals/programs.md). Reports
 * need of a program only what is alive at its peak. A slim program has that and the places of all
 * values, from which the whole one can be built again.
 */
#include "plan/program.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "plan/layouts.h"
#include "plan/program_build.h"

#define WORTH_THREADS 20000 /* instructions: a tenth of a second to lay out their values */

/* All ticks are there: what lives all the time does so from the first to the last. */
static void extend_lives(struct pst_builder *b)
{
    struct pst_program *program = b->program;

    program->n_ticks = b->tick > 0 ? b->tick : 1;
    for (uint32_t i = 0; i < program->n_values; i++) {
        if (program->values[i].is_static || program->values[i].period > 0) {
            program->values[i].first = 0;
            program->values[i].last = program->n_ticks - 1;
        }
    }
}

/* All but the offsets. */
static pst_status build_program(const struct pst_plan *plan, const struct pst_graph *graph,
                                const struct pst_cost_model *cost, uint32_t rank,
                                struct pst_program **ret_program, struct pst_error *err)
{
    struct pst_program *program = pst_alloc(1, sizeof *program);
    struct pst_builder b = {.plan = plan,
                            .graph = graph,
                            .cost = cost,
                            .program = program,
                            .rank = rank,
                            .batches = {.n = plan->asynchronous ? 2 : 1,
                                        .samples = plan->batch,
                                        .newest = !plan->asynchronous}};
    pst_status status;

    program->rank = rank;
    pst_build_begin(&b);
    status = pst_build_phases(&b, err);
    if (status == PST_OK) {
        pst_build_copies(&b);
        extend_lives(&b);
        *ret_program = program;
    } else {
        pst_program_destroy(program);
    }
    pst_arena_finish(&b.arena);
    return status;
}

/* A plan that states its arenas has the layouts that it was made with, whatever room there is. */
static void lay_out_rank(struct pst_program *program, const struct pst_plan *plan, uint32_t rank,
                         struct pst_layouts *layouts)
{
    uint64_t stated = plan->devices[rank].arena_bytes;

    pst_layout_program(program, stated != 0 ? stated : pst_plan_capacity(plan, rank), layouts);
}

pst_status pst_program_create(const struct pst_plan *plan, const struct pst_graph *graph,
                              const struct pst_cost_model *cost, uint32_t rank,
                              struct pst_program **ret_program, struct pst_error *err)
{
    struct pst_program *program;
    pst_status status = build_program(plan, graph, cost, rank, &program, err);

    if (status == PST_OK) {
        lay_out_rank(program, plan, rank, NULL);
        *ret_program = program;
    }
    return status;
}

void pst_plan_for_ranks(const struct pst_plan *plan, void (*work)(void *context, uint32_t rank),
                        void *context)
{
    uint64_t n_instrs = 0;

    for (uint32_t r = 0; r < plan->n_devices; r++) {
        n_instrs += plan->devices[r].n_instrs;
    }
    if (n_instrs >= WORTH_THREADS) {
        pst_parallel(plan->n_devices, work, context);
        return;
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        work(context, r);
    }
}

/* --- slim programs ---------------------------------------------------------------------------- */

/* Parameters without their values: which ones the rank holds. */
static void keep_params(struct pst_program *program)
{
    const struct pst_program_param *from = program->params;
    struct pst_arena kept = {NULL, 0, 0};
    struct pst_program_param *params = pst_arena_array(&kept, program->n_params, sizeof *params);

    for (uint32_t i = 0; i < program->n_params; i++) {
        params[i] = (struct pst_program_param){
            .parameter = from[i].parameter, .stage = from[i].stage, .owner = from[i].owner};
    }
    pst_arena_finish(&program->arena);
    program->arena = kept;
    program->params = params;
}

static bool is_alive(const struct pst_value *value, uint32_t tick)
{
    return value->kind != PST_V_HOST && value->first <= tick && tick <= value->last;
}

/* Places must hold offsets to the byte: a wrong offset must not become a right one when the program
   is built again. */
static bool has_places(const struct pst_program *program)
{
    for (uint32_t i = 0; i < program->n_values; i++) {
        const uint64_t offset = program->values[i].offset;

        if (offset % PST_VALUE_ALIGN != 0 || offset / PST_VALUE_ALIGN > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

/* A program without places stays whole. */
static void make_slim(struct pst_program *program)
{
    const uint32_t n = program->n_values;

    if (!has_places(program)) {
        return;
    }
    program->places = pst_alloc((size_t)n + 1, sizeof *program->places);
    program->n_values = 0;
    for (uint32_t i = 0; i < n; i++) {
        program->places[i] = (uint32_t)(program->values[i].offset / PST_VALUE_ALIGN);
        if (is_alive(&program->values[i], program->peak_tick)) {
            program->values[program->n_values++] = program->values[i];
        }
    }
    program->values = pst_resize(program->values, program->n_values + 1, sizeof *program->values);
    keep_params(program);
    free(program->calls);
    free(program->operands);
    free(program->parts);
    free(program->copies);
    *program = (struct pst_program){.arena = program->arena,
                                    .rank = program->rank,
                                    .n_values = program->n_values,
                                    .values = program->values,
                                    .n_params = program->n_params,
                                    .params = program->params,
                                    .n_ticks = program->n_ticks,
                                    .static_bytes = program->static_bytes,
                                    .peak_bytes = program->peak_bytes,
                                    .arena_bytes = program->arena_bytes,
                                    .peak_tick = program->peak_tick,
                                    .host_bytes = program->host_bytes,
                                    .places = program->places,
                                    .n_places = n};
}

pst_status pst_program_restore(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, const struct pst_program *slim,
                               struct pst_program **ret_program, struct pst_error *err)
{
    struct pst_program *program;
    pst_status status = build_program(plan, graph, cost, slim->rank, &program, err);

    if (status != PST_OK) {
        return status;
    }
    if (program->n_values != slim->n_places) {
        pst_program_destroy(program);
        return pst_fail(err, PST_ERR_BUG, "internal", "the slim program is of another plan");
    }
    for (uint32_t i = 0; i < program->n_values; i++) {
        program->values[i].offset = (uint64_t)slim->places[i] * PST_VALUE_ALIGN;
    }
    program->static_bytes = slim->static_bytes;
    program->peak_bytes = slim->peak_bytes;
    program->arena_bytes = slim->arena_bytes;
    program->peak_tick = slim->peak_tick;
    program->host_bytes = slim->host_bytes;
    *ret_program = program;
    return PST_OK;
}

/* --- all ranks -------------------------------------------------------------------------------- */

struct making {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    const struct pst_cost_model *cost;
    enum pst_program_form form;
    struct pst_layouts *layouts;
    struct pst_program **programs; /* NULL where it failed */
};

static void make_program(void *making_, uint32_t rank)
{
    const struct making *m = making_;
    struct pst_program **program = &m->programs[rank];

    if (build_program(m->plan, m->graph, m->cost, rank, program, NULL) != PST_OK) {
        return;
    }
    if (m->form != PST_PROGRAM_BUILT) {
        lay_out_rank(*program, m->plan, rank, m->layouts);
    }
    if (m->form == PST_PROGRAM_SLIM) {
        make_slim(*program);
    }
}

pst_status pst_programs_create(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, enum pst_program_form form,
                               struct pst_layouts *layouts, struct pst_program **ret_programs,
                               struct pst_error *err)
{
    struct pst_layouts own = {.next = 0};
    struct making making = {plan,        graph, cost, form, layouts != NULL ? layouts : &own,
                            ret_programs};

    pst_plan_for_ranks(plan, make_program, &making);
    pst_layouts_finish(&own);
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        if (ret_programs[r] == NULL) { /* the first that fails says why */
            return build_program(plan, graph, cost, r, &ret_programs[r], err);
        }
    }
    return PST_OK;
}

void pst_programs_state_memory(struct pst_program *const *programs, struct pst_plan *plan)
{
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        plan->devices[r].peak_bytes = programs[r]->peak_bytes;
        plan->devices[r].arena_bytes = programs[r]->arena_bytes;
        plan->devices[r].host_bytes = programs[r]->host_bytes;
    }
}

void pst_program_destroy(struct pst_program *program)
{
    if (program != NULL) {
        free(program->calls);
        free(program->operands);
        free(program->values);
        free(program->parts);
        free(program->copies);
        free(program->places);
        pst_arena_finish(&program->arena);
        free(program);
    }
}
