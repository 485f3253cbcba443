/* SPDX-License-Identifier: Apache-2.0 */
#include "endless.h"

static uint32_t warm_up(uint32_t stage, uint32_t n_stages, uint32_t n_microbatches)
{
    uint32_t behind = n_stages - 1 - stage;

    return behind < n_microbatches ? behind : n_microbatches;
}

void endless_topology(uint32_t version_rule, uint32_t least, struct pst_topology *ret_topology)
{
    order_topology(NULL, 0, ret_topology);
    ret_topology->version_rule = version_rule;
    ret_topology->min_microbatches = least;
}

uint32_t endless_in_flight(const struct pst_place *place)
{
    return warm_up(place->stage, place->n_stages, place->n_microbatches) + 1;
}

/* m pairs of a forward and a backward; in the drain without the forwards of the next batch. */
static void emit_pairs(struct pst_schedule_out *out, uint32_t device, uint32_t stage, uint32_t w,
                       uint32_t m, bool last)
{
    for (uint32_t i = 0; i < m; i++) {
        if (!last || w + i < m) {
            call_check(out->emit(out, device, PST_PASS_F, stage, w + i));
        }
        call_check(out->emit(out, device, PST_PASS_BW, stage, i));
    }
}

static void emit_part(const struct pst_schedule_in *in, struct pst_schedule_out *out, uint32_t part)
{
    call_check(out->part(out, part));
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t m = stage->n_microbatches, w = warm_up(s, in->n_stages, m);

        if (part != PST_PART_FILL) {
            emit_pairs(out, stage->device, s, w, m, part == PST_PART_DRAIN);
            continue;
        }
        for (uint32_t i = 0; i < w; i++) {
            call_check(out->emit(out, stage->device, PST_PASS_F, s, i));
        }
    }
}

pst_status endless_schedule(const struct pst_host *host, const char *scheduler, const char *advice,
                            const struct pst_schedule_in *in, struct pst_schedule_out *out)
{
    uint32_t m = order_require_chain(host, scheduler, in, 1);

    if (m < in->n_stages && advice != NULL) {
        call_end(pst_failf(host, PST_ERR_INFEASIBLE,
                           "%s keeps the pipeline full with at least %u micro-batches, one per "
                           "stage, not %u; use smaller micro-batches or a larger batch%s",
                           scheduler, in->n_stages, m, advice));
    }
    for (uint32_t part = PST_PART_FILL; part <= PST_PART_DRAIN; part++) {
        emit_part(in, out, part);
    }
    return PST_OK;
}
