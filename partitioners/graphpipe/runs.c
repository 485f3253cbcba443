/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

void gp_run_load(const struct gp_probe *probe, const struct gp_class *c, uint32_t from, uint32_t to,
                 const struct gp_start *start, const struct gp_end *end, struct gp_load *load)
{
    const struct gp_costs *costs = probe->costs;
    uint32_t inside = 2 * c->n_ops + 2, to_sum = to < inside ? to : inside, i;

    *load = (struct gp_load){.weight = c->weight[to_sum] - c->weight[from],
                             .saved = c->saved[to_sum] - c->saved[from]};
    for (i = from; costs->workspaces && i < to_sum; i++) {
        load->workspace = c->workspace[i] > load->workspace ? c->workspace[i] : load->workspace;
    }
    for (i = 0; i < 2; i++) {
        if (i == 0 ? from == 0 : to > inside) {
            const struct gp_load *op = &costs->op_classes[i == 0 ? start->op : end->op].load;

            load->weight += op->weight;
            load->saved += op->saved;
            load->workspace = op->workspace > load->workspace ? op->workspace : load->workspace;
        }
    }
}

void gp_run_sums(const struct gp_probe *probe, const struct gp_class *c, uint32_t from, uint32_t to,
                 const struct gp_start *start, const struct gp_end *end, int64_t *scratch,
                 struct gp_stage_sums *ret_sums)
{
    uint32_t n = probe->costs->n_lanes, l;
    struct gp_load load;

    for (l = 0; l < n; l++) {
        struct gp_run r = gp_run_of(probe->costs, c, l, from, to, start, end);

        scratch[l] = r.comp;
        scratch[n + l] = r.sync;
        scratch[2 * n + l] = r.p2p;
    }
    gp_run_load(probe, c, from, to, start, end, &load);
    *ret_sums = (struct gp_stage_sums){scratch,     scratch + n, scratch + 2 * n,
                                       load.weight, load.saved,  load.workspace};
}
