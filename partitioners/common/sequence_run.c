/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a search for sequences of stages, size by size, until its plans fit, and keeps the best.
 */
#include <math.h>

#include "sequence.h"

enum { ATTEMPTS = 8 };

static double node_weight(const struct part_problem *p, uint32_t v)
{
    size_t at = (size_t)(p->n_samples == 0 ? 0 : p->n_samples - 1) * p->n + v;

    return p->n_samples == 0 ? 0 : p->forward_ns[at] + p->backward_ns[at];
}

/* The slowest stage of two nodes and more is halved; later stages move up by one. */
static bool halve_slowest(const struct part_problem *p, uint32_t *stage_of, uint32_t n_stages)
{
    double most = -1, half = 0;
    uint32_t s, v, worst = UINT32_MAX, n_worst = 0, taken = 0;

    for (s = 0; s < n_stages; s++) {
        double sum = 0;
        uint32_t count = 0;

        for (v = 0; v < p->n; v++) {
            sum += stage_of[v] == s ? node_weight(p, v) : 0;
            count += stage_of[v] == s;
        }
        if (count > 1 && sum > most) {
            most = sum;
            worst = s;
            n_worst = count;
        }
    }
    for (v = 0; worst != UINT32_MAX && v < p->n; v++) {
        if (stage_of[v] > worst) {
            stage_of[v]++;
        } else if (stage_of[v] == worst) {
            double own = node_weight(p, v);

            /* Nodes come in topological order: the first ones stay. */
            if (taken > 0 && (taken + 1 == n_worst || half + own / 2 > most / 2)) {
                stage_of[v] = worst + 1;
                n_worst = UINT32_MAX;
                half = INFINITY;
            }
            half += own;
            taken++;
        }
    }
    return worst != UINT32_MAX;
}

void part_sequence_plan(const struct part_problem *p, uint32_t *stage_of, uint32_t n_stages,
                        const uint32_t *degrees, uint32_t b, uint32_t n_wanted,
                        struct part_plan *ret_plan)
{
    struct part_plan plan = {0};
    uint32_t s, before = n_stages;

    while (n_wanted != 0 && n_stages < n_wanted) {
        if (!halve_slowest(p, stage_of, n_stages)) {
            call_end(part_too_few_nodes(p->host, n_wanted, p->n));
        }
        n_stages++;
    }
    part_plan_init(&plan, p, stage_of, n_stages, b);
    for (s = 0; before == n_stages && s < plan.n_stages; s++) {
        plan.stages[s].d = degrees[stage_of[plan.stages[s].nodes[0]]];
    }
    *ret_plan = plan;
}

/* Is there more to ask about a plan than its objective? A simulated step takes longer than some
   searches. */
static bool must_judge(const struct part_problem *p, const struct part_searcher *searcher)
{
    return p->figures.reference == 0 || (!isinf(p->capacity_bytes) && !searcher->own_memory) ||
           (!searcher->own_objective && p->n_sizes > 1);
}

/* Takes plan and extra over. Sizes come in ascending order. */
static void consider(const struct part_problem *p, const struct part_searcher *searcher,
                     struct part_best *best, struct part_best *other)
{
    bool better = !best->found;

    if (p->figures.reference == 0 || !searcher->own_objective) {
        better = better || part_value_faster(&other->value, &best->value);
    } else {
        better = better || other->bottleneck_ns <= best->bottleneck_ns * (1 + 1e-12);
    }
    if (better) {
        *best = *other;
        best->found = true;
    }
}

/* Holds degrees to divisors of b where others go with no size; *ret_size 0: no sequence. */
static pst_status find(const struct part_problem *p, const struct part_searcher *searcher,
                       struct part_limits limits, uint32_t *ret_size, struct part_sequence *ret)
{
    pst_status status = searcher->find(searcher->self, &limits, ret);

    *ret_size = 0;
    if (status == PST_OK && ret->n_stages > 0) {
        *ret_size = part_sequence_size(p, limits.b, ret->degrees, ret->n_stages);
    }
    if (status != PST_OK || ret->n_stages == 0 || *ret_size != 0) {
        return status;
    }
    limits.whole = true;
    *ret = (struct part_sequence){0};
    status = searcher->find(searcher->self, &limits, ret);
    if (status == PST_OK && ret->n_stages > 0) {
        *ret_size = part_sequence_size(p, limits.b, ret->degrees, ret->n_stages);
    }
    return status;
}

/* One plan within these limits; *ret_size 0: none. */
static pst_status attempt(const struct part_problem *p, const struct part_searcher *searcher,
                          const struct part_limits *limits, uint32_t *ret_size,
                          struct part_best *ret)
{
    struct part_sequence found = {0};
    struct call_region region;
    pst_status status;

    *ret = (struct part_best){.value = {.fits = true}};
    call_enter(&region);
    status = find(p, searcher, *limits, ret_size, &found);
    if (status == PST_OK && *ret_size != 0) {
        part_sequence_plan(p, found.stage_of, found.n_stages, found.degrees, *ret_size,
                           p->in->n_stages, &ret->plan);
        if (must_judge(p, searcher)) {
            part_plan_value(&ret->plan, p, p->figures.reference == 0, &ret->value);
        }
    }
    ret->bottleneck_ns = found.bottleneck_ns;
    ret->bytes = found.bytes;
    ret->extra = found.extra;
    call_keep(ret->plan.stages);
    call_keep(ret->extra);
    call_leave(&region);
    return status;
}

static pst_status try_size(const struct part_problem *p, const struct part_searcher *searcher,
                           uint32_t b, struct part_best *best)
{
    struct part_limits limits = {.b = b, .capacity = p->capacity_bytes};
    bool looser = p->figures.reference == 0 && !isinf(p->capacity_bytes);

    for (; limits.attempt < ATTEMPTS; limits.attempt++) {
        struct part_best other;
        uint32_t size;
        pst_status status = attempt(p, searcher, &limits, &size, &other);

        if (status == PST_OK && size != 0 && other.value.fits) {
            consider(p, searcher, best, &other);
            return PST_OK;
        }
        if (status != PST_OK || (looser ? size != 0 && limits.attempt > 0 : size == 0)) {
            return status;
        }
        if (size == 0) {
            limits.capacity *= 1.5; /* by itself nothing fits, but a memory optimizer takes part */
        } else {
            looser = false;
            if (limits.attempt >= searcher->free_attempts) {
                /* the search shall not find the same again, whatever its rules count */
                limits.capacity =
                    other.bytes > 0 ? fmin(limits.capacity, other.bytes) : limits.capacity;
                limits.capacity *= fmin(0.98, p->capacity_bytes / other.value.worst_bytes);
            }
        }
    }
    return PST_OK;
}

static pst_status search(const struct part_problem *p, const struct part_searcher *searcher,
                         struct part_best *best)
{
    uint32_t i;
    pst_status status = PST_OK;

    for (i = 0; status == PST_OK && i < p->n_sizes; i++) {
        status = try_size(p, searcher, p->sizes[i], best);
    }
    if (status == PST_OK && !best->found) {
        return part_infeasible(p, p->sizes[0]);
    }
    return status;
}

pst_status part_sequence_partition(const struct pst_host *host, const struct pst_partition_in *in,
                                   struct part_searcher *searcher, struct pst_partition_out *out)
{
    struct part_problem problem;
    struct part_best best = {0};
    pst_status status = PST_OK;

    part_problem_read(host, in, &problem);
    status = searcher->init(searcher, &problem);
    if (status == PST_OK) {
        status = search(&problem, searcher, &best);
    }
    if (status == PST_OK) {
        status = searcher->answer(searcher->self, &best, out);
    }
    return status;
}
