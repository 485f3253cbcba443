/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler with a vendor: all forwards, then all backwards, the order kept in scratch memory
 * that it looks at closely.
 */
#include <penstock/penstock.h>

enum { TABLE_BYTES = 1 << 20 };

PST_INSTANCE(scratch_order, void)

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    (void)self;
    (void)n_devices;
    ret_topology->n_stages = 0;
    return PST_OK;
}

/* Is it what the host promises? */
static pst_status try_scratch(const struct pst_host *host)
{
    const struct pst_scratch *scratch = host->get_extension(host, PST_SCRATCH);
    unsigned char *bytes;

    if (scratch == NULL) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "works in scratch memory");
    }
    bytes = scratch->alloc(host, TABLE_BYTES, 4096);
    if (bytes == NULL) {
        return PST_ERR_NOMEM;
    }
    for (size_t i = 0; i < TABLE_BYTES; i++) {
        if (bytes[i] != 0 || (uintptr_t)bytes % 4096 != 0) {
            return pst_failf(host, PST_ERR_BUG, "scratch memory is not as promised");
        }
        bytes[i] = 0xff;
    }
    return PST_OK;
}

static pst_status in_flight(void *self_, const struct pst_place *place, struct pst_held *ret_held)
{
    const struct scratch_order *self = self_;

    ret_held->microbatches = place->n_microbatches;
    ret_held->weight_versions = 1;
    return try_scratch(self->host);
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct scratch_order *self = self_;
    pst_status st = try_scratch(self->host);

    for (uint32_t i = 0; st == PST_OK && i < 2 * in->n_stages; i++) {
        bool forward = i < in->n_stages;
        uint32_t s = forward ? i : 2 * in->n_stages - 1 - i;
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (uint32_t j = 0; st == PST_OK && j < stage->n_microbatches; j++) {
            st = out->emit(out, stage->device, forward ? PST_PASS_F : PST_PASS_BW, s, j);
        }
    }
    return st;
}

PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = topology, .in_flight = in_flight,
              .schedule = schedule)

static const char *const provides[] = {"chain", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", "lab/scratch", "1.0"),
    .summary = "All forwards, then all backwards.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_NO_PARAMS,
    PST_PLUGIN_FUNCTIONS,
    .url = "https://lab.example/scratch",
    .vendor = "The Lab",
};

PST_PLUGIN(plugin)
