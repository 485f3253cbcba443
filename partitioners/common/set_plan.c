/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with few sets of operators that hold all their predecessors: residual networks, small
 * models. There the best of all plans is found, not only looked for.
 */
#include <math.h>

#include "refine_parts.h"
#include "sets.h"

enum { MOST_SETS = 40000, BISECTIONS = 40 };

bool part_set_open(const struct part_problem *p, const struct part_costs *costs, uint64_t steps,
                   struct part_set_search *ret_search)
{
    const struct part_dag dag = part_sequence_dag(p);
    struct part_set_search search = {.problem = p, .costs = costs, .dag = dag};
    uint64_t count;
    bool exact;

    search.looks = costs->n_degrees > 0 ? 12.0 * (double)steps / costs->n_degrees : 0;
    if (part_downsets_all(&dag, search.looks < MOST_SETS ? (uint32_t)search.looks : MOST_SETS,
                          p->host, &search.sets, &count, &exact) != PST_OK) {
        return false;
    }
    *ret_search = search;
    return true;
}

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

/* Pairs of borders, and where transfers count what crosses each set from each border, which is
   sooner done. For paths pairs are looked into. */
static double looks(const struct part_set_search *s, const struct part_sets_question *q, double n)
{
    double crossing = n * s->sets.n_sets / 4;
    double pairs = n * n / 2 * (q->shortest ? s->problem->n / 32 + 1 : 1);

    return pairs + (s->costs->comm_model != PST_COMM_NONE ? crossing : 0);
}

/* Strictly below which bottleneck, above `low`, there are not more borders than the search may look
   at; 0: below none. */
static int64_t affordable(const struct part_set_search *s, const struct part_sets_question *q,
                          int64_t low)
{
    int64_t high = q->below, found = 0, middle, most = q->work[s->sets.n_sets - 1] + 1;
    uint32_t i;

    if (looks(s, q, part_sets_borders(q, high)) <= s->looks) {
        return high;
    }
    high = high < most ? high : most;
    for (i = 0; i < BISECTIONS && low < high; i++) {
        middle = high - (high - low) / 2;
        if (looks(s, q, part_sets_borders(q, middle)) <= s->looks) {
            found = low = middle;
        } else {
            high = middle - 1;
        }
    }
    return found;
}

void part_set_plan(const struct part_set_search *s, bool shortest, double below_ns,
                   struct part_plan *ret_plan, double *ret_ns, bool *ret_found, bool *ret_complete)
{
    const struct part_problem *p = s->problem;
    uint32_t n = p->n > p->n_edges ? p->n : p->n_edges, i;
    double most = below_ns / s->costs->ns_per_tick * (1 - 1e-12);
    struct part_sets_question question = {
        .problem = p,
        .costs = s->costs,
        .sets = &s->sets,
        .dag = &s->dag,
        .n_devices = p->n_devices,
        .capacity = p->capacity_bytes < 1e300 ? p->capacity_bytes : INFINITY,
        .below = most < 9e18 ? (int64_t)ceil(most) : INT64_MAX,
        .shortest = shortest,
        .host = p->host,
    };
    struct part_sets_answer answer = {0};
    struct call_region region;
    int64_t below = question.below, bound;
    bool all = !shortest && (p->in_row || p->capacity_bytes >= 1e300);
    uint32_t *same;

    call_enter(&region);
    CALL_TAKE(same, (size_t)n + 1);
    for (i = 0; i < n; i++) {
        same[i] = i;
    }
    question.node = question.edge = same;
    bound = part_lower_bound(p, s->costs);
    question.work = part_sets_work(&question);
    question.below = below > bound ? affordable(s, &question, bound) : 0;
    *ret_found = false;
    *ret_complete = below <= bound && all;
    if (question.below > 0 && part_sets_solve(&question, &answer) == PST_OK) {
        *ret_found = answer.n_stages > 0;
        *ret_complete = (question.below == below || *ret_found) && all;
    }
    if (*ret_found) {
        plan_of(p, s->costs->b, &s->sets, &answer, ret_plan);
        *ret_ns = (double)answer.ticks * s->costs->ns_per_tick;
        call_keep(ret_plan->stages);
    }
    call_leave(&region);
}
