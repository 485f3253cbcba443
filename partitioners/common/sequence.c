/* SPDX-License-Identifier: Apache-2.0
 *
 * What partitioners share that cut a model into a sequence of stages.
 */
#include "sequence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool cancelled(const void *problem)
{
    return part_cancelled(problem);
}

struct part_stop part_sequence_stop(const struct part_problem *problem)
{
    return (struct part_stop){cancelled, problem};
}

struct part_dag part_sequence_dag(const struct part_problem *p)
{
    return (struct part_dag){p->n,         p->n_edges,  p->from,    p->to,
                             p->first_out, p->first_in, p->in_edges};
}

pst_status part_sequence_times(const struct part_problem *p, uint32_t samples, double *ret_ns)
{
    const struct pst_profile *profile =
        p->host == NULL ? NULL : p->host->get_extension(p->host, PST_PROFILE);
    uint32_t row = part_samples_row(p, samples), v;

    for (v = 0; v < p->n; v++) {
        double ns[3] = {0, 0, 0};
        pst_status st;

        if (row == UINT32_MAX && profile != NULL) {
            st = profile->node_ns(p->host, v, samples, ns);
            if (st != PST_OK) {
                return st;
            }
            ret_ns[v] = ns[0] + ns[1] + ns[2];
        } else {
            /* Without a profile in proportion to the largest size there is. */
            uint32_t from = row != UINT32_MAX ? row : p->n_samples - 1;
            size_t at = (size_t)from * p->n + v;

            ret_ns[v] =
                (p->forward_ns[at] + p->backward_ns[at]) * ((double)samples / p->samples[from]);
        }
    }
    return PST_OK;
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

uint32_t part_sequence_size(const struct part_problem *p, uint32_t b, const uint32_t *degrees,
                            uint32_t n_degrees)
{
    uint64_t size = b;
    uint32_t i;

    for (i = 0; i < n_degrees; i++) {
        size = size / common_divisor((uint32_t)size, degrees[i]) * degrees[i];
        if (size > p->batch) {
            return 0;
        }
    }
    if (p->batch % size != 0) {
        return 0;
    }
    for (i = 0; i < p->n_sizes; i++) {
        if (p->sizes[i] == size) {
            return (uint32_t)size;
        }
    }
    return p->figures.reference != 0 ? (uint32_t)size : 0;
}

/* --- plans -------------------------------------------------------------------------------------*/

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

pst_status part_sequence_plan(const struct part_problem *p, uint32_t *stage_of, uint32_t n_stages,
                              const uint32_t *degrees, uint32_t b, uint32_t n_wanted,
                              struct part_plan *ret_plan)
{
    struct part_plan plan = {0};
    uint32_t s, before = n_stages;
    pst_status st;

    while (n_wanted != 0 && n_stages < n_wanted) {
        if (!halve_slowest(p, stage_of, n_stages)) {
            return p->host == NULL
                       ? PST_ERR_INFEASIBLE
                       : pst_failf(p->host, PST_ERR_INFEASIBLE,
                                   "%u stages are wanted but the graph has only %u nodes; use "
                                   "fewer devices, fewer stages on each, or a deeper model",
                                   n_wanted, p->n);
        }
        n_stages++;
    }
    st = part_plan_init(&plan, p, stage_of, n_stages, b);
    for (s = 0; st == PST_OK && before == n_stages && s < plan.n_stages; s++) {
        plan.stages[s].d = degrees[stage_of[plan.stages[s].nodes[0]]];
    }
    if (st == PST_OK) {
        *ret_plan = plan;
    }
    return st;
}

/* --- links -------------------------------------------------------------------------------------*/

/* Bytes per nanosecond at large sizes; 0: free. */
static double rate_between(const struct part_problem *p, const struct pst_cost *cost, uint32_t to)
{
    const uint64_t small = 1 << 20, large = 1 << 30;
    uint64_t ns =
        cost->transfer_ns(p->host, large, 0, to) - cost->transfer_ns(p->host, small, 0, to);

    return ns == 0 ? 0 : (double)(large - small) / (double)ns;
}

/* The same of a ring all-reduce over n ranks: 2 (n - 1) / n times the bytes pass a link. */
static double sync_rate(const struct part_problem *p, const struct pst_cost *cost, uint32_t n)
{
    const uint64_t bytes = 1 << 30;
    uint64_t ns = cost->allreduce_ns(p->host, bytes, n);

    return ns == 0 ? 0 : 2.0 * (n - 1) / n * (double)bytes / (double)ns;
}

void part_sequence_links(const struct part_problem *p, uint64_t inside_bytes_per_s,
                         uint64_t between_bytes_per_s, struct part_links *ret_links)
{
    const struct pst_cost *cost =
        p->host == NULL ? NULL : p->host->get_extension(p->host, PST_COST);
    uint32_t node = p->figures.node_size, n = p->in == NULL ? 1 : p->in->n_devices;
    double transfer = p->figures.p2p_bytes_per_s / 1e9;
    double sync = p->figures.allreduce_bytes_per_s / 1e9;
    struct part_links links = {transfer, transfer, sync, sync};

    if (p->figures.reference == 0 && cost != NULL && n > 1) {
        uint32_t far = node > 0 && node < n ? node : n - 1;

        links.inside = rate_between(p, cost, 1);
        links.between = rate_between(p, cost, far);
        links.sync_inside = sync_rate(p, cost, 2);
        links.sync_between = sync_rate(p, cost, far + 1);
    }
    if (inside_bytes_per_s != 0) {
        links.inside = links.sync_inside = (double)inside_bytes_per_s / 1e9;
    }
    if (between_bytes_per_s != 0) {
        links.between = links.sync_between = (double)between_bytes_per_s / 1e9;
    }
    *ret_links = links;
}

pst_status part_sequence_too_many(const struct part_problem *p, uint64_t count, bool exact,
                                  int64_t max_states, const char *hint)
{
    char number[40];

    if (p->host == NULL) {
        return PST_ERR_INFEASIBLE;
    }
    if (count == UINT64_MAX) {
        snprintf(number, sizeof number, "more than 1e19");
    } else {
        snprintf(number, sizeof number, "%s%llu", exact ? "" : "more than ",
                 (unsigned long long)(exact ? count : count - 1));
    }
    return pst_failf(p->host, PST_ERR_INFEASIBLE,
                     "the graph has %s states (sets of nodes that hold all their predecessors), "
                     "max_states is %lld; %s",
                     number, (long long)max_states, hint);
}
