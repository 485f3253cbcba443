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
static pst_status emit_pairs(struct pst_schedule_out *out, uint32_t device, uint32_t stage,
                             uint32_t w, uint32_t m, bool last)
{
    pst_status st = PST_OK;
    uint32_t i;

    for (i = 0; st == PST_OK && i < m; i++) {
        if (!last || w + i < m) {
            st = out->emit(out, device, PST_PASS_F, stage, w + i);
        }
        if (st == PST_OK) {
            st = out->emit(out, device, PST_PASS_BW, stage, i);
        }
    }
    return st;
}

static pst_status emit_part(const struct pst_schedule_in *in, struct pst_schedule_out *out,
                            uint32_t part)
{
    pst_status st = out->part(out, part);
    uint32_t s, i;

    for (s = 0; st == PST_OK && s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t m = stage->n_microbatches, w = warm_up(s, in->n_stages, m);

        if (part != PST_PART_FILL) {
            st = emit_pairs(out, stage->device, s, w, m, part == PST_PART_DRAIN);
            continue;
        }
        for (i = 0; st == PST_OK && i < w; i++) {
            st = out->emit(out, stage->device, PST_PASS_F, s, i);
        }
    }
    return st;
}

pst_status endless_schedule(const struct pst_host *host, const char *scheduler, const char *advice,
                            const struct pst_schedule_in *in, struct pst_schedule_out *out)
{
    uint32_t m, part;
    pst_status st = order_require_chain(host, scheduler, in, 1, &m);

    if (st == PST_OK && m < in->n_stages && advice != NULL) {
        st = pst_failf(host, PST_ERR_INFEASIBLE,
                       "%s keeps the pipeline full with at least %u micro-batches, one per stage, "
                       "not %u; take smaller micro-batches or a larger batch%s",
                       scheduler, in->n_stages, m, advice);
    }
    for (part = PST_PART_FILL; st == PST_OK && part <= PST_PART_DRAIN; part++) {
        st = emit_part(in, out, part);
    }
    return st;
}
