/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights that a kernel reads: a version that the rank has, or a buffer in which the pass
 * gathers the pieces of all replicas before (gathers.h).
 */
#include "plan/program_build.h"

#include <stdlib.h>

#include "base/memory.h"

/* The version that a call reads, as a number modulo those that there are: of its update, the one
   that this will overwrite. */
static uint32_t version_of(const struct pst_builder *b, const struct pst_program_call *call,
                           uint32_t stage)
{
    const struct pst_stage_build *build = &b->stages[stage];
    uint32_t j = call->first_sample / b->plan->stages[stage].microbatch_size;

    return b->batches.newest
               ? b->section.phase
               : b->section.phase * (build->n_batch / build->n_unit) + j / build->n_unit + 1;
}

void pst_build_params(struct pst_builder *b, const struct pst_program_call *call,
                      const struct pst_op *op, uint64_t mask)
{
    const struct pst_operands at = pst_operands_of(op);

    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE && (mask >> i & 1)) {
            const uint32_t p = op->param[i];
            const struct pst_program_param *row = &b->program->params[b->param_row[p]];

            pst_build_set(b, call, at.p + i,
                          pst_plan_gathers(b->plan, row->stage, p)
                              ? b->gathered[b->param_row[p]]
                              : row->versions[version_of(b, call, row->stage) % row->n_versions]);
        }
    }
}

/* --- gathered for a pass ---------------------------------------------------------------------- */

void pst_build_pass(struct pst_builder *b)
{
    b->pass.n_kernels = b->pass.n_posted = b->pass.n_awaited = 0;
    b->pass.sum = PST_NONE;
    b->pass.n_summed = 0;
}

void pst_build_wait(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t posted)
{
    const struct pst_program_meeting *meeting = b->program->calls[posted].meeting;
    struct pst_program_call *call =
        pst_build_call(b, PST_C_WAIT, s, j, b->program->calls[posted].op, 3);

    call->posted = b->program->n_calls - 1 - posted;
    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        pst_build_use(b, meeting->parts[p].value); /* till then they belong to the transport */
    }
    b->tick++;
}

static void post_gather(struct pst_builder *b, uint32_t s, uint32_t j,
                        const struct pst_pass_gather *row)
{
    struct pst_program_call *call = pst_build_call(b, PST_C_GATHER, s, j, row->parameters[0], 3);
    uint32_t *values = pst_alloc(row->n, sizeof *values);

    for (uint32_t i = 0; i < row->n; i++) {
        const struct pst_parameter *of = &b->graph->params[row->parameters[i]];

        values[i] = pst_build_value(b, PST_V_GATHERED, s, j, row->parameters[i], 0,
                                    of->elems * pst_dtype_bytes(of->dtype));
    }
    call->meeting = pst_build_gather(b, s, row->parameters, values, row->n);
    b->tick++;
    free(values);
}

/* Kernels read what it has brought from now on, and no buffer of an earlier one. */
static void await_gather(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t posted)
{
    const struct pst_program_meeting *meeting = b->program->calls[posted].meeting;

    pst_build_wait(b, s, j, posted);
    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        const uint32_t value = meeting->parts[p].value;

        b->gathered[b->param_row[b->program->values[value].what]] = value;
    }
}

void pst_build_gathered(struct pst_builder *b, uint32_t s, uint32_t j)
{
    const struct pst_pass_gather *rows = b->stages[s].gathers[b->instr->op].rows;
    const uint32_t n = b->stages[s].gathers[b->instr->op].n, ahead = b->plan->prefetch;

    while (b->pass.n_awaited < n && rows[b->pass.n_awaited].call == b->pass.n_kernels) {
        for (; b->pass.n_posted < n && b->pass.n_posted <= b->pass.n_awaited + ahead;
             b->pass.n_posted++) {
            b->pass.gathers[b->pass.n_posted % (1 + ahead)] = b->program->n_calls;
            post_gather(b, s, j, &rows[b->pass.n_posted]);
        }
        await_gather(b, s, j, b->pass.gathers[b->pass.n_awaited++ % (1 + ahead)]);
    }
}
