/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of a plan: built one by one, then laid out, at once where that takes long.
 */
#include "plan/program.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "plan/program_build.h"

#define WORTH_THREADS 100000 /* values to lay out: a tenth of a second */

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
                            .n_batches = plan->asynchronous ? 2 : 1,
                            .batch = plan->batch,
                            .newest = !plan->asynchronous};
    pst_status st;

    program->rank = rank;
    pst_build_begin(&b);
    st = pst_build_phases(&b, err);
    if (st == PST_OK) {
        pst_build_copies(&b);
        extend_lives(&b);
        *ret_program = program;
    } else {
        pst_program_destroy(program);
    }
    pst_arena_finish(&b.arena);
    return st;
}

/* A plan that states its arenas has the layouts that it was made with, whatever room there is. */
static void lay_out_rank(struct pst_program *program, const struct pst_plan *plan, uint32_t rank)
{
    uint64_t stated = plan->devices[rank].arena_bytes;

    pst_layout_program(program, stated != 0 ? stated : pst_plan_capacity(plan, rank));
}

pst_status pst_program_create(const struct pst_plan *plan, const struct pst_graph *graph,
                              const struct pst_cost_model *cost, uint32_t rank,
                              struct pst_program **ret_program, struct pst_error *err)
{
    struct pst_program *program;
    pst_status st = build_program(plan, graph, cost, rank, &program, err);

    if (st == PST_OK) {
        lay_out_rank(program, plan, rank);
        *ret_program = program;
    }
    return st;
}

struct layouts {
    struct pst_program **programs;
    const struct pst_plan *plan;
};

static void lay_out(void *layouts_, uint32_t i)
{
    struct layouts *layouts = layouts_;

    lay_out_rank(layouts->programs[i], layouts->plan, i);
}

pst_status pst_programs_build(const struct pst_plan *plan, const struct pst_graph *graph,
                              const struct pst_cost_model *cost, struct pst_program **ret_programs,
                              struct pst_error *err)
{
    pst_status st = PST_OK;

    for (uint32_t r = 0; st == PST_OK && r < plan->n_devices; r++) {
        st = build_program(plan, graph, cost, r, &ret_programs[r], err);
    }
    return st;
}

pst_status pst_programs_create(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, struct pst_program **ret_programs,
                               struct pst_error *err)
{
    struct layouts layouts = {.programs = ret_programs, .plan = plan};
    uint64_t n_values = 0;
    pst_status st = pst_programs_build(plan, graph, cost, ret_programs, err);

    for (uint32_t r = 0; st == PST_OK && r < plan->n_devices; r++) {
        n_values += ret_programs[r]->n_values;
    }
    for (uint32_t r = 0; st == PST_OK && n_values < WORTH_THREADS && r < plan->n_devices; r++) {
        lay_out(&layouts, r);
    }
    if (st == PST_OK && n_values >= WORTH_THREADS) {
        pst_parallel(plan->n_devices, lay_out, &layouts);
    }
    return st;
}

void pst_program_destroy(struct pst_program *program)
{
    if (program != NULL) {
        free(program->calls);
        free(program->operands);
        free(program->values);
        free(program->parts);
        free(program->copies);
        pst_arena_finish(&program->arena);
        free(program);
    }
}
