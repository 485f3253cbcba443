/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation balancing between devices after Kim, Park, Yi, Yu, "BPipe: Memory-Balanced Pipeline
 * Parallelism for Training Large Language Models", ICML 2023: under 1F1B early stages hold more
 * micro-batches than late ones, so they leave some with these. Counted in bytes here, so that
 * stages may be unequal and orders others.
 */
#include "mem_plugin.h"
#include "balance.h"
#include "optimizer.h"

enum { WHEN_NEEDED = 0, WHEN_ALWAYS = 1 };

struct config {
    uint32_t when;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, when, PST_PARAM_ENUM, "needed", "needed|always",
              "Move micro-batches until every device fits, or until pairs of devices hold amounts "
              "as equal as possible, whatever their capacity."),
};

/* How much memory would do is for the host to say, which knows what layouts take. */
static pst_status refuse(const struct mem_opt *opt, struct bp_work *work)
{
    uint32_t worst = 0;
    uint64_t most = 0;
    char has[32], needs[32];

    bp_reset(work);
    for (uint32_t d = 0; d < work->in->n_devices; d++) {
        if (bp_peak(work, d) > most) {
            most = bp_peak(work, d);
            worst = d;
        }
    }
    return pst_failf(opt->host, PST_ERR_INFEASIBLE,
                     "device %u is charged %s of %s, and no other device has room for the excess",
                     worst, mem_bytes_text(needs, most),
                     mem_bytes_text(has, pst_global_device_at(work->in, worst)->capacity_bytes));
}

/* A word where a transfer takes longer than the pass beside it, which then waits. */
static void note_slow(const struct mem_opt *opt, const struct bp_work *work,
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
        opt->host->log(opt->host, PST_LOG_INFO, text);
    }
}

static pst_status plan_all(void *self, const struct pst_global_in *in, struct pst_global_out *out)
{
    const struct mem_opt *opt = self;
    const struct config *config = opt->config;
    struct bp_work work;
    uint32_t noted = PST_NONE;

    bp_begin(&work, in);
    if (config->when == WHEN_ALWAYS) {
        bp_level(&work);
    } else if (!bp_fit(&work)) {
        return refuse(opt, &work);
    }
    for (uint32_t r = 0; r < work.n_rows; r++) {
        const struct bp_row *row = &work.rows[r];

        if (row->keeper == PST_NONE || row->fixed) {
            continue;
        }
        call_check(out->move(out, &(struct pst_global_move){.size = sizeof(struct pst_global_move),
                                                            .stage = row->stage,
                                                            .microbatch = row->microbatch,
                                                            .device = row->keeper}));
        if (row->stage != noted) {
            note_slow(opt, &work, row);
            noted = row->stage;
        }
    }
    return PST_OK;
}

CALL_FUNCTION(call_plan_all, plan_all, struct pst_global_in, struct pst_global_out)

/* Stage by stage everything is kept. */
static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    pst_status status = mem_create(host, config, sizeof(struct mem_opt), mem_consider, ret_self);

    if (status == PST_OK) {
        ((struct mem_opt *)*ret_self)->fixed_rule = true;
    }
    return status;
}

static const struct pst_memopt_global global_interface = {.size = sizeof global_interface,
                                                          .plan = call_plan_all};
static const struct pst_memopt stage_interface = {
    .size = sizeof stage_interface, .price = mem_price, .plan = mem_plan};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_MEMOPT_GLOBAL) == 0 ? (const void *)&global_interface
           : strcmp(id, PST_MEMOPT) == 0      ? (const void *)&stage_interface
                                              : NULL;
}

PST_DESTROY_NOTHING

MEM_PLUGIN("bpipe", "1.0", MEM_WORDS("chain", "dag", "peer"), MEM_WORDS("peer"),
           .summary = "Leaves saved tensors of some micro-batches on devices that hold less.",
           .reference =
               "Kim, Park, Yi, Yu, BPipe: Memory-Balanced Pipeline Parallelism for Training "
               "Large Language Models, ICML 2023",
           PST_PLUGIN_PARAMS(params, struct config))
