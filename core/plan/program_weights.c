/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights that a kernel reads: a version that the rank has, or a buffer in which the pass
 * gathers the pieces of all replicas before (gathers.h).
 */
#include "plan/program_build.h"

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

static void gather_bucket(struct pst_builder *b, uint32_t s, uint32_t j, const uint32_t *bucket,
                          uint32_t n)
{
    struct pst_program_call *call = pst_build_call(b, PST_C_GATHER, s, j, bucket[0], 3);

    for (uint32_t i = 0; i < n; i++) {
        const struct pst_parameter *of = &b->graph->params[bucket[i]];

        b->gathered[b->param_row[bucket[i]]] = pst_build_value(
            b, PST_V_GATHERED, s, j, bucket[i], 0, of->elems * pst_dtype_bytes(of->dtype));
    }
    call->meeting = pst_build_gather(b, s, bucket, n);
    b->tick++;
}

void pst_build_gathered(struct pst_builder *b, uint32_t s, uint32_t j, uint32_t node, uint64_t mask)
{
    const struct pst_op *op = pst_build_op(b, s, node);

    for (uint32_t i = 0; i < op->n_param; i++) {
        const uint32_t *bucket;
        uint32_t n = op->param[i] != PST_NONE && (mask >> i & 1)
                         ? pst_gathers_need(&b->gathers, s, node, op->param[i], &bucket)
                         : 0;

        if (n > 0) {
            gather_bucket(b, s, j, bucket, n);
        }
    }
}
