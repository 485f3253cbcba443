/* SPDX-License-Identifier: Apache-2.0
 *
 * One order, equal stages.
 */
#include "part_row.h"

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
    pst_status st;

    memset(row, 0, sizeof *row);
    part_problem_read(host, in, p);
    row->b = in->micro_batches[0];
    part_costs_init(p, row->b, &row->costs);
    if (row->costs.n_degrees == 0) {
        return part_infeasible(p, row->b);
    }
    row->d = row->costs.degrees[0];
    row->ticks = row->costs.comp[0];
    st = count_stages(row);
    if (st != PST_OK) {
        return st;
    }
    CALL_TAKE(row->order, (size_t)p->n + 1);
    CALL_TAKE(row->first, (size_t)row->n_stages + 1);
    part_order(p, order_kind, NULL, row->order);
    return PST_OK;
}

void part_row_answer(const struct part_row *row, struct pst_partition_out *out)
{
    struct part_plan plan = {NULL, 0};
    uint32_t s;

    part_plan_cut(&plan, &row->problem, row->order, row->first, row->n_stages, row->b);
    for (s = 0; s < plan.n_stages; s++) {
        plan.stages[s].d = row->d;
    }
    part_plan_answer(&plan, &row->problem, out);
    part_plan_finish(&plan);
}
