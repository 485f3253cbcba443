/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact cut under the reference cost model, for all sizes of a micro-batch.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chain_dp.h"
#include "refine.h"

#define STEPS UINT64_C(200000000) /* of the search for the best order, over all sizes */

struct sweep {
    struct part_problem problem;
    struct part_chain_stats stats;
    uint32_t kind, *order;
    bool found, proven;
    struct part_plan plan;
    struct part_value value;
    double bound_ns; /* least of all sizes: no partition at any of them is below */
    char table[1024];
};

/* The best plan of one size; *ret_found. */
static void solve(struct sweep *s, const struct part_costs *costs, bool *ret_found,
                  struct part_plan *ret_plan, bool *ret_proven)
{
    struct part_chain_limits limits = {.below = INT64_MAX, .memory = true, .stats = &s->stats};
    const struct part_refine_limits share = {.steps = STEPS / s->problem.n_sizes};
    struct part_refine_stats refined;
    int64_t ticks;

    if (s->kind == ORDER_BEST) {
        part_dag_solve(&s->problem, costs, &share, ret_found, ret_plan, &refined);
        s->stats.probes += refined.probes;
        *ret_proven = refined.optimal;
        return;
    }
    part_chain_solve(&s->problem, costs, s->order, &limits, ret_found, &ticks, ret_plan);
    *ret_proven = s->stats.exact;
}

static void note(struct sweep *s, uint32_t b, const struct part_value *value)
{
    size_t at = strlen(s->table);

    if (value == NULL) {
        snprintf(s->table + at, sizeof s->table - at, "%s%u: does not fit", at > 0 ? "; " : "", b);
    } else {
        snprintf(s->table + at, sizeof s->table - at, "%s%u: %.6g us, step %.6g us, %.0f bytes",
                 at > 0 ? "; " : "", b, value->bottleneck_ns / 1000, value->step_ns / 1000,
                 value->peak_bytes);
    }
}

/* Takes the plan over where it is the best so far. */
static void keep(struct sweep *s, struct part_plan *plan, uint32_t b, bool proven)
{
    struct part_value value;

    part_plan_value(plan, &s->problem, false, &value);
    note(s, b, &value);
    if (!s->found || part_value_faster(&value, &s->value)) {
        struct part_plan old = s->plan;

        s->plan = *plan;
        *plan = old;
        s->value = value;
        s->found = true;
        s->proven = proven;
    }
}

/* Sizes ascend: one whose bound is no better than the best T so far only has a longer warm-up. */
static void try_size(struct sweep *s, uint32_t b)
{
    struct part_plan plan = {NULL, 0};
    struct part_costs costs;
    double bound_ns;
    bool found = false, proven = false;

    part_costs_init(&s->problem, b, &costs);
    if (costs.n_degrees > 0) {
        bound_ns = (double)part_lower_bound(&s->problem, &costs) * costs.ns_per_tick;
        s->bound_ns = fmin(s->bound_ns, bound_ns);
        if (!s->found || bound_ns < s->value.bottleneck_ns * (1 - 1e-12)) {
            solve(s, &costs, &found, &plan, &proven);
            if (found) {
                keep(s, &plan, b, proven);
            } else {
                note(s, b, NULL);
            }
        }
    }
    part_plan_finish(&plan);
}

static void remark(const struct sweep *s, uint32_t n_sizes)
{
    const struct part_problem *p = &s->problem;

    part_remark_number(p, "probes", (double)s->stats.probes);
    if (s->kind != ORDER_BEST) {
        part_remark_number(p, "states", (double)s->stats.states);
    }
    part_remark_number(p, "lower_bound_us_per_sample", s->bound_ns / 1000);
    if (s->bound_ns > 0) {
        part_remark_number(p, "gap", s->value.bottleneck_ns / s->bound_ns);
    }
    part_remark_flag(p, "proven", s->proven);
    if (n_sizes > 1) {
        part_remark_text(p, "sizes", s->table);
    }
}

static pst_status sweep(struct sweep *s, uint32_t only_size, struct pst_partition_out *out)
{
    const struct part_problem *p = &s->problem;
    uint32_t i, first = UINT32_MAX;

    CALL_TAKE(s->order, (size_t)p->n + 1);
    if (s->kind != ORDER_BEST) {
        part_order(p, s->kind, NULL, s->order);
    }
    for (i = 0; i < p->n_sizes; i++) {
        if (only_size == 0 || p->sizes[i] == only_size) {
            first = first == UINT32_MAX ? i : first;
            try_size(s, p->sizes[i]);
        }
    }
    if (!s->found) {
        return part_infeasible(p, p->sizes[first == UINT32_MAX ? 0 : first]);
    }
    remark(s, only_size == 0 ? p->n_sizes : 1);
    part_plan_answer(&s->plan, p, out);
    return PST_OK;
}

pst_status chain_by_reference(const struct pst_host *host, const struct pst_partition_in *in,
                              uint32_t order, uint32_t size, struct pst_partition_out *out)
{
    struct sweep s = {.kind = order, .bound_ns = INFINITY};

    part_problem_read(host, in, &s.problem);
    s.problem.in_row = true;
    part_remark_flag(&s.problem, "in_row", true);
    return sweep(&s, size, out);
}
