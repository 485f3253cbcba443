/* SPDX-License-Identifier: Apache-2.0
 *
 * One order, equal stages.
 */
#include "part_row.h"

#include <math.h>
#include <string.h>

static pst_status count_stages(struct part_row *row)
{
    const struct part_problem *p = &row->problem;
    uint32_t wanted = p->in->n_stages != 0 ? p->in->n_stages : p->n_devices / row->d;

    if (wanted > p->n && (p->in->n_stages != 0 || p->figures.reference == 0)) {
        return part_too_few_nodes(p->host, wanted, p->n);
    }
    row->n_stages = wanted < p->n ? wanted : p->n;
    return PST_OK;
}

pst_status part_row_init(struct part_row *row, const struct pst_host *host,
                         const struct pst_partition_in *in, uint32_t order_kind)
{
    struct part_problem *p = &row->problem;
    uint32_t s;
    pst_status status;

    memset(row, 0, sizeof *row);
    part_problem_read(host, in, p);
    row->b = in->micro_batches[0];
    part_costs_init(p, row->b, &row->costs);
    if (row->costs.n_degrees == 0) {
        return part_infeasible(p, row->b);
    }
    row->d = row->costs.degrees[0];
    status = count_stages(row);
    if (status != PST_OK) {
        return status;
    }
    CALL_TAKE(row->ticks, row->n_stages);
    for (s = 0; s < row->n_stages; s++) {
        row->ticks[s] = row->costs.comp[0];
    }
    CALL_TAKE(row->order, (size_t)p->n + 1);
    CALL_TAKE(row->first, (size_t)row->n_stages + 1);
    part_order(p, order_kind, NULL, row->order);
    return PST_OK;
}

static const int64_t *ticks_on(const struct part_row *row, const struct pst_cost *cost,
                               uint32_t device)
{
    const struct part_problem *p = &row->problem;
    int64_t *ticks = call_alloc((size_t)p->n + 1, sizeof *ticks);
    uint32_t v;

    for (v = 0; v < p->n; v++) {
        struct pst_times times;

        call_check(cost->compute_on(p->host, &v, 1, row->b, &device, 1, &times));
        ticks[v] = llround(
            (double)(times.forward_ns + times.backward_input_ns + times.backward_weight_ns) /
            row->b / row->costs.ns_per_tick);
    }
    return ticks;
}

void part_row_mix(struct part_row *row)
{
    const struct part_problem *p = &row->problem;
    const struct pst_cluster_view *cluster = p->in->cluster;
    const struct pst_cost *cost = p->host->get_extension(p->host, PST_COST);
    uint32_t s, t;

    if (part_is_problem(p) || row->d != 1 || cluster->n_devices < row->n_stages || cost == NULL ||
        !PST_CAN(cost, compute_on)) {
        return;
    }
    for (s = 1; s < cluster->n_devices && !row->placed; s++) {
        row->placed = pst_cluster_kind_at(cluster, s) != pst_cluster_kind_at(cluster, 0);
    }
    for (s = 0; row->placed && s < row->n_stages; s++) {
        for (t = 0; pst_cluster_kind_at(cluster, t) != pst_cluster_kind_at(cluster, s); t++) {
        }
        row->ticks[s] = t < s ? row->ticks[t] : ticks_on(row, cost, s);
    }
}

void part_row_answer(const struct part_row *row, struct pst_partition_out *out)
{
    struct part_plan plan = {NULL, 0};
    uint32_t s;

    part_plan_cut(&plan, &row->problem, row->order, row->first, row->n_stages, row->b);
    for (s = 0; s < plan.n_stages; s++) {
        plan.stages[s].d = row->d;
        if (row->placed) {
            const struct pst_stage_decl decl = part_stage_decl(&plan.stages[s], &s);

            call_check(out->stage(out, &decl));
        }
    }
    if (!row->placed) {
        part_plan_answer(&plan, &row->problem, out);
    }
    part_plan_finish(&plan);
}
