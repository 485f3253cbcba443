/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: what the operators of a series between two positions cost as a stage.
 */
#ifndef GRAPHPIPE_RUNS_H
#define GRAPHPIPE_RUNS_H

#include "probe.h"

struct gp_run {
    int64_t comp, sync, p2p;
};

/* One lane's numbers of a stage between two positions. */
static inline struct gp_run gp_run_of(const struct gp_costs *costs, const struct gp_class *c,
                                      uint32_t l, uint32_t from, uint32_t to,
                                      const struct gp_start *start, const struct gp_end *end)
{
    uint32_t n = costs->n_lanes, inside = 2 * c->n_ops + 2, to_sum = to < inside ? to : inside;
    const int64_t *comp = c->sums + (size_t)l * c->n_sums;
    struct gp_run r = {comp[to_sum] - comp[from], 0, 0};

    if (from == 0) {
        r.comp += costs->op_classes[start->op].times[l];
    }
    if (to > inside) {
        r.comp += costs->op_classes[end->op].times[l];
    }
    if (costs->comm_model == PST_COMM_MAX) {
        const int64_t *sync = comp + (size_t)n * c->n_sums;

        r.sync = sync[to_sum] - sync[from];
        r.sync += from == 0 ? costs->op_classes[start->op].times[GP_SYNC * n + l] : 0;
        r.sync += to > inside ? costs->op_classes[end->op].times[GP_SYNC * n + l] : 0;
    }
    if (costs->links) {
        size_t at = (size_t)l * (2 * c->n_ops + 4);

        r.p2p = c->left[at + from] + c->right[at + to];
        if (from == 0) {
            const int64_t *op = costs->op_classes[start->op].times;

            r.p2p += op[GP_OUT * n + l] + op[GP_IN * n + l];
        }
        if (to > inside) {
            const int64_t *op = costs->op_classes[end->op].times;

            r.p2p += op[GP_OUT * n + l] + op[GP_IN * n + l];
        }
        if (from % 2 == 1 && to == from + 1) { /* the direct edge of a gap without its ends */
            r.p2p -= 2 * costs->classes[c->kids[from / 2]].times[GP_DIRECT * n + l];
        }
    }
    return r;
}

/* Without what a lane takes. */
void gp_run_load(const struct gp_probe *probe, const struct gp_class *c, uint32_t from, uint32_t to,
                 const struct gp_start *start, const struct gp_end *end, struct gp_load *load);

#endif
