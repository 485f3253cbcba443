/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation balancing between devices after Kim, Park, Yi, Yu, "BPipe: Memory-Balanced Pipeline
 * Parallelism for Training Large Language Models", ICML 2023: under 1F1B early stages hold more
 * micro-batches than late ones, so they leave some with these. Counted in bytes here, so that
 * stages may be unequal and orders others.
 */
#include "balance.h"
#include "optimizer.h"

enum { WHEN_NEEDED = 0, WHEN_ALWAYS = 1 };

struct config {
    uint32_t when;
};

struct bpipe {
    struct mem_opt opt; /* stage by stage everything is kept */
    const struct config *config;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, when, PST_PARAM_ENUM, "needed", "needed|always",
              "Move micro-batches until every device fits, or until pairs of devices hold as equal "
              "amounts as can be, whatever their capacity."),
};

/* All devices with the same capacity, less what the host has taken off some. */
static void set_capacity(struct bp_work *work, uint64_t bytes)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < work->in->n_devices; d++) {
        uint64_t told = pst_global_device_at(work->in, d)->capacity_bytes;

        most = told > most ? told : most;
    }
    for (uint32_t d = 0; d < work->in->n_devices; d++) {
        uint64_t less = most - pst_global_device_at(work->in, d)->capacity_bytes;

        work->capacity[d] = bytes > less ? bytes - less : 0;
    }
}

static bool fits_into(struct bp_work *work, uint64_t bytes)
{
    bp_reset(work);
    set_capacity(work, bytes);
    return bp_fit(work);
}

/* The least capacity with which bp_fit finds an answer. */
static uint64_t least_capacity(struct bp_work *work, uint64_t most)
{
    uint64_t low = 0;

    while (low < most) {
        uint64_t middle = low + (most - low) / 2;

        if (fits_into(work, middle)) {
            most = middle;
        } else {
            low = middle + 1;
        }
    }
    return most;
}

static pst_status refuse(const struct bpipe *self, struct bp_work *work)
{
    uint64_t most = 0, slack = 0, least;
    uint32_t worst = 0;
    char has[32], needs[32], would[32];

    bp_reset(work);
    for (uint32_t d = 0; d < work->in->n_devices; d++) {
        uint64_t told = pst_global_device_at(work->in, d)->capacity_bytes;

        if (bp_peak(work, d) > most) {
            most = bp_peak(work, d);
            worst = d;
        }
        slack = told > slack ? told : slack;
    }
    for (uint32_t d = 0; d < work->in->n_devices; d++) {
        uint64_t less = slack - pst_global_device_at(work->in, d)->capacity_bytes;

        most = bp_peak(work, d) + less > most ? bp_peak(work, d) + less : most;
    }
    least = least_capacity(work, most);
    bp_reset(work);
    return pst_failf(self->opt.host, PST_ERR_INFEASIBLE,
                     "device %u needs %s of %s, and no other device has room for what is too much; "
                     "the smallest capacity that would do is %s (%llu bytes)",
                     worst, mem_bytes_text(needs, bp_peak(work, worst)),
                     mem_bytes_text(has, pst_global_device_at(work->in, worst)->capacity_bytes),
                     mem_bytes_text(would, least), (unsigned long long)least);
}

/* A word where a transfer takes longer than the pass beside it, which then waits. */
static void note_slow(const struct bpipe *self, const struct bp_work *work,
                      const struct bp_row *row)
{
    const struct pst_global_in *in = work->in;
    uint32_t from = pst_global_stage_at(in, row->stage)->device;
    const struct pst_global_device *device = pst_global_device_at(in, from);
    const struct pst_global_link *link = pst_global_link_at(in, from, row->keeper);
    const struct pst_global_pass *beside =
        pst_global_pass_at(in, device->first_pass + row->forward + 1);
    double ns = (double)link->latency_ns +
                (link->bytes_per_s > 0
                     ? (double)work->move_bytes[row->stage] * 1e9 / (double)link->bytes_per_s
                     : 0);
    char text[160];

    if (ns > (double)(beside->end_ns - beside->start_ns)) {
        snprintf(text, sizeof text,
                 "stage %u: moving a micro-batch takes %.1f us, the pass beside it %.1f us",
                 row->stage, ns / 1e3, (double)(beside->end_ns - beside->start_ns) / 1e3);
        self->opt.host->log(self->opt.host, PST_LOG_INFO, text);
    }
}

static pst_status plan_all(void *self_, const struct pst_global_in *in, struct pst_global_out *out)
{
    struct bpipe *self = self_;
    struct bp_work work;
    pst_status st = bp_begin(&work, self->opt.host, in);
    uint32_t noted = PST_NONE;

    if (st != PST_OK) {
        return st;
    }
    if (self->config->when == WHEN_ALWAYS) {
        bp_level(&work);
    } else if (!bp_fit(&work)) {
        return refuse(self, &work);
    }
    for (uint32_t r = 0; st == PST_OK && r < work.n_rows; r++) {
        const struct bp_row *row = &work.rows[r];

        if (row->keeper == PST_NONE || row->fixed) {
            continue;
        }
        st = out->move(out, &(struct pst_global_move){.size = sizeof(struct pst_global_move),
                                                      .stage = row->stage,
                                                      .microbatch = row->microbatch,
                                                      .device = row->keeper});
        if (row->stage != noted) {
            note_slow(self, &work, row);
            noted = row->stage;
        }
    }
    return st;
}

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    pst_status st = mem_create(host, config, sizeof(struct bpipe), mem_consider, ret_self);

    if (st == PST_OK) {
        struct bpipe *self = *ret_self;

        self->opt.fixed_rule = true;
        self->config = config;
    }
    return st;
}

static const struct pst_memopt_global global_interface = {.size = sizeof global_interface,
                                                          .plan = plan_all};
static const struct pst_memopt stage_interface = {
    .size = sizeof stage_interface, .price = mem_price, .plan = mem_plan};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_MEMOPT_GLOBAL) == 0 ? (const void *)&global_interface
           : strcmp(id, PST_MEMOPT) == 0      ? (const void *)&stage_interface
                                              : NULL;
}

PST_DESTROY_NOTHING

static const char *const provides[] = {"chain", "dag", "peer", NULL};
static const char *const needs[] = {"peer", NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("memopt", "bpipe", "1.0"),
    .summary = "Leaves saved tensors of some micro-batches on devices that hold less.",
    .reference = "Kim, Park, Yi, Yu, BPipe: Memory-Balanced Pipeline Parallelism for Training "
                 "Large Language Models, ICML 2023",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
