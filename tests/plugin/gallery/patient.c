/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler that can be asked in haste: then one micro-batch goes through after the other.
 */
#include "gallery.h"

struct config {
    uint32_t patience;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, patience, PST_PARAM_ENUM, "much", "none|much",
              "All forward passes first, or one micro-batch at a time."),
};

PST_INSTANCE(patient, struct config)

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = 1;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

/* Micro-batches first ... last - 1 through all stages and back. */
static pst_status send(const struct pst_schedule_in *in, uint32_t first, uint32_t last,
                       struct pst_schedule_out *out)
{
    pst_status st = PST_OK;

    for (uint32_t at = 0; at < 2 * in->n_stages; at++) {
        bool back = at >= in->n_stages;
        uint32_t s = back ? 2 * in->n_stages - 1 - at : at;
        uint32_t device = pst_schedule_stage_at(in, s)->device;

        for (uint32_t j = first; st == PST_OK && j < last; j++) {
            st = out->emit(out, device, back ? PST_PASS_BW : PST_PASS_F, s, j);
        }
    }
    return st;
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct patient *self = self_;
    uint32_t n = pst_schedule_stage_at(in, 0)->n_microbatches;
    uint32_t together = self->config->patience == 0 ? 1 : n;
    pst_status st = PST_OK;

    for (uint32_t first = 0; st == PST_OK && first < n; first += together) {
        st = send(in, first, first + together, out);
    }
    return st;
}

PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = topology, .schedule = schedule)

GALLERY_PLUGIN("scheduler", "patient", "0", "Takes its time, or is told not to.",
               PST_PLUGIN_PARAMS(params, struct config), "chain", "exhaustive",
               "haste=patience:none")
