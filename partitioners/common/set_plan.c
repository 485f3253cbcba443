/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with few sets of operators that hold all their predecessors: residual networks, small
 * models. There the least T of all plans is found, not only looked for.
 */
#include <math.h>

#include "refine_parts.h"
#include "sequence.h"
#include "sets.h"

enum { MOST_SETS = 8192 };

static void plan_of(const struct part_problem *p, uint32_t b, const struct part_downsets *sets,
                    const struct part_sets_answer *answer, struct part_plan *ret_plan)
{
    uint32_t *stage_of = call_alloc((size_t)p->n + 1, sizeof *stage_of);
    uint32_t *nodes = call_alloc((size_t)p->n + 1, sizeof *nodes), s, i, n;

    for (s = 0; s < answer->n_stages; s++) {
        n = part_downsets_between(sets, answer->stages[s].from, answer->stages[s].to, nodes);
        for (i = 0; i < n; i++) {
            stage_of[nodes[i]] = s;
        }
    }
    part_plan_init(ret_plan, p, stage_of, answer->n_stages, b);
    for (s = 0; s < ret_plan->n_stages; s++) {
        ret_plan->stages[s].d = answer->stages[stage_of[ret_plan->stages[s].nodes[0]]].degree;
    }
}

/* false: tables too large. */
static bool solve(const struct part_problem *p, const struct part_costs *costs,
                  const struct part_downsets *sets, double below_ns, struct part_plan *ret_plan,
                  bool *ret_found)
{
    const struct part_dag dag = part_sequence_dag(p);
    uint32_t n = p->n > p->n_edges ? p->n : p->n_edges, i;
    uint32_t *same = call_alloc((size_t)n + 1, sizeof *same);
    double most = below_ns / costs->ns_per_tick * (1 - 1e-12);
    struct part_sets_question question = {
        .problem = p,
        .costs = costs,
        .sets = sets,
        .dag = &dag,
        .node = same,
        .edge = same,
        .n_devices = p->n_devices,
        .capacity = p->capacity_bytes < 1e300 ? p->capacity_bytes : INFINITY,
        .below = most < 9e18 ? (int64_t)ceil(most) : INT64_MAX,
        .host = p->host,
    };
    struct part_sets_answer answer = {0};
    bool solved;

    for (i = 0; i < n; i++) {
        same[i] = i;
    }
    solved = part_sets_solve(&question, &answer) == PST_OK;
    *ret_found = solved && answer.n_stages > 0;
    if (*ret_found) {
        plan_of(p, costs->b, sets, &answer, ret_plan);
    }
    return solved;
}

void part_set_plan(const struct part_problem *p, const struct part_costs *costs, uint64_t steps,
                   double below_ns, struct part_plan *ret_plan, bool *ret_found, bool *ret_complete)
{
    const struct part_dag dag = part_sequence_dag(p);
    struct part_downsets sets = {0};
    double most = sqrt(24.0 * (double)steps / costs->n_degrees);
    struct call_region region;
    uint64_t count;
    bool exact;

    *ret_found = *ret_complete = false;
    call_enter(&region);
    if (most >= 2 && p->n <= MOST_SETS && /* not too many */
        part_downsets_all(&dag, most < MOST_SETS ? (uint32_t)most : MOST_SETS, p->host, &sets,
                          &count, &exact) == PST_OK) {
        *ret_complete = solve(p, costs, &sets, below_ns, ret_plan, ret_found) &&
                        (p->in_row || p->capacity_bytes >= 1e300);
    }
    if (*ret_found) {
        call_keep(ret_plan->stages);
    }
    call_leave(&region);
}
