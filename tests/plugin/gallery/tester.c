/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner that has its answer, halves of the model, simulated before it gives it, and says so
 * in remarks; or asks about what is no plan.
 */

#include "gallery.h"

struct config {
    uint32_t ask;
};

enum { ASK_ANSWER, ASK_HOLE, ASK_EARLY };

static const struct pst_param params[] = {
    PST_PARAM(struct config, ask, PST_PARAM_ENUM, "answer", "answer|hole|early",
              "Simulate the answer; stages that lack a node; when nobody wants an answer."),
};

struct tester {
    const struct pst_host *host;
    const struct config *config;
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct tester *self = host->alloc(host, sizeof *self, _Alignof(struct tester));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    *ret_self = self;
    if (self->config->ask == ASK_EARLY) {
        const struct pst_trial *trial = host->get_extension(host, PST_TRIAL);
        struct pst_trial_value value = {.size = sizeof value};
        struct pst_stage_decl stage = {.size = sizeof stage};

        return trial == NULL ? PST_OK : trial->step(host, &stage, 1, &value);
    }
    return PST_OK;
}

PST_DESTROY_NOTHING

static pst_status ask(const struct tester *self, const struct pst_stage_decl stages[2])
{
    const struct pst_host *host = self->host;
    const struct pst_trial *trial = host->get_extension(host, PST_TRIAL);
    const struct pst_remark *remark = host->get_extension(host, PST_REMARK);
    struct pst_trial_value exact = {.size = sizeof exact};
    struct pst_trial_value quick = {.size = sizeof quick, .quick = 1};
    pst_status st;

    if (trial == NULL) {
        remark->flag(host, "no_trial", true);
        return PST_OK;
    }
    st = trial->step(host, stages, self->config->ask == ASK_HOLE ? 1 : 2, &exact);
    if (st == PST_OK) {
        st = trial->step(host, stages, 2, &quick);
    }
    if (st == PST_OK) {
        remark->number(host, "step_ns", (double)exact.step_ns);
        remark->number(host, "quick_ns", (double)quick.step_ns);
        remark->number(host, "peak_bytes", (double)exact.peak_bytes);
        remark->flag(host, "fits", exact.fits != 0);
    }
    return st;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    static const uint32_t ranks[] = {0, 1};
    const struct tester *self = self_;
    const struct pst_host *host = self->host;
    uint32_t n = in->graph->n_nodes, half = n / 2, s, i;
    uint32_t *nodes = host->alloc(host, (size_t)n * sizeof *nodes, _Alignof(uint32_t));
    struct pst_stage_decl stages[2];
    pst_status st;

    if (nodes == NULL) {
        return PST_ERR_NOMEM;
    }
    for (i = 0; i < n; i++) {
        nodes[i] = i;
    }
    for (s = 0; s < 2; s++) {
        stages[s] = (struct pst_stage_decl){.size = sizeof stages[s],
                                            .nodes = nodes + (s == 0 ? 0 : half),
                                            .n_nodes = s == 0 ? half : n - half,
                                            .ranks = &ranks[s],
                                            .n_ranks = 1,
                                            .microbatch_size = in->micro_batches[0],
                                            .k = 1};
    }
    st = ask(self, stages);
    for (s = 0; st == PST_OK && s < 2; s++) {
        st = out->stage(out, &stages[s]);
    }
    return st;
}

PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

GALLERY_PLUGIN("partitioner", "tester", "0", "Has its answer simulated first.",
               PST_PLUGIN_PARAMS(params, struct config), "chain")
