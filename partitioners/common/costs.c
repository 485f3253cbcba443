/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs per sample in ticks, and memory of a stage: the reference cost model
 * (docs/partitioning.md).
 */
#include <math.h>

#include "problem.h"

/* Total of everything at D devices stays below this many ticks. */
#define PART_TICKS 0x1p60

static double comp_ns(const struct part_problem *p, uint32_t row, uint32_t b, uint32_t v)
{
    size_t at = (size_t)row * p->n + v;

    return (p->forward_ns[at] + p->backward_ns[at]) / b;
}

double part_sync_rate(const struct part_problem *p, uint32_t d)
{
    return p->node_sync_bytes_per_s > 0 && d <= p->figures.node_size
               ? p->node_sync_bytes_per_s
               : p->figures.allreduce_bytes_per_s;
}

static double sync_ns(const struct part_problem *p, uint32_t d, uint32_t v)
{
    double rate = part_sync_rate(p, d);

    if (rate <= 0 || d == 1) {
        return 0;
    }
    return 2.0 * (d - 1) / d * p->weight_bytes[v] / (rate * p->batch) * 1e9;
}

static double p2p_ns(const struct part_problem *p, uint32_t d, uint32_t e)
{
    double rate = p->figures.p2p_bytes_per_s;

    if (rate <= 0 || p->figures.comm_model == PST_COMM_NONE) {
        return 0;
    }
    return 2.0 * p->edge_bytes[e] / (d * rate) * 1e9;
}

static double total_ns(const struct part_problem *p, uint32_t row, uint32_t b, uint32_t d)
{
    double sum = 0;
    uint32_t i;

    for (i = 0; i < p->n; i++) {
        sum += comp_ns(p, row, b, i) + sync_ns(p, d, i);
    }
    for (i = 0; i < p->n_edges; i++) {
        sum += 2 * p2p_ns(p, d, i);
    }
    return sum;
}

/* A power of two, so that times that are whole in ns / 2^j stay exact. */
static double choose_tick(double most_ns, uint32_t n_devices)
{
    int exponent = 0;

    if (!(most_ns > 0) || !isfinite(most_ns)) {
        return 1;
    }
    frexp(most_ns * n_devices / PART_TICKS, &exponent);
    return ldexp(1, exponent < -40 ? -40 : exponent + 1);
}

static int64_t *row_of(size_t n)
{
    return call_alloc(n == 0 ? 1 : n, sizeof(int64_t));
}

static void fill(const struct part_problem *p, struct part_costs *c, uint32_t k)
{
    uint32_t d = c->degrees[k], row = part_samples_row(p, c->b / d), i;

    c->comp[k] = row_of(p->n);
    c->sync[k] = row_of(p->n);
    c->p2p[k] = row_of(p->n_edges);
    for (i = 0; i < p->n; i++) {
        c->comp[k][i] = llround(comp_ns(p, row, c->b, i) / c->ns_per_tick);
        c->sync[k][i] = llround(sync_ns(p, d, i) / c->ns_per_tick);
    }
    for (i = 0; i < p->n_edges; i++) {
        c->p2p[k][i] = llround(p2p_ns(p, d, i) / c->ns_per_tick);
    }
}

void part_costs_init(const struct part_problem *p, uint32_t b, struct part_costs *ret_costs)
{
    struct part_costs c = {.b = b, .comm_model = p->figures.comm_model};
    double most = 0;
    uint32_t k;

    CALL_TAKE(c.degrees, p->n_degrees + 1);
    CALL_TAKE(c.comp, p->n_degrees + 1);
    CALL_TAKE(c.sync, p->n_degrees + 1);
    CALL_TAKE(c.p2p, p->n_degrees + 1);
    for (k = 0; k < p->n_degrees; k++) {
        uint32_t d = p->degrees[k], row;

        if (b % d != 0) {
            continue;
        }
        row = part_samples_row(p, b / d);
        if (row == UINT32_MAX) {
            call_end(PST_ERR_BUG); /* b is none of the problem's sizes */
        }
        c.degrees[c.n_degrees++] = d;
        most = fmax(most, total_ns(p, row, b, d));
    }
    c.ns_per_tick = choose_tick(most, p->n_devices);
    for (k = 0; k < c.n_degrees; k++) {
        fill(p, &c, k);
    }
    *ret_costs = c;
}

double part_memory(const struct part_problem *p, double weight, double saved, double workspace,
                   uint32_t d, uint64_t in_flight_samples)
{
    uint64_t samples = in_flight_samples < p->batch ? in_flight_samples : p->batch;

    return p->weight_multiplier * weight + saved * (double)samples / d + workspace;
}

bool part_fits(const struct part_problem *p, double bytes)
{
    return bytes <= p->capacity_bytes * (1 + 1e-12);
}
