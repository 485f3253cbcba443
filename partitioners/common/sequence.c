/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared code of partitioners that cut a model into a sequence of stages.
 */
#include "sequence.h"

struct part_dag part_sequence_dag(const struct part_problem *p)
{
    return (struct part_dag){p->n,         p->n_edges,  p->from,    p->to,
                             p->first_out, p->first_in, p->in_edges};
}

void part_sequence_times(const struct part_problem *p, uint32_t samples, double *ret_ns)
{
    const struct pst_profile *profile =
        p->host == NULL ? NULL : p->host->get_extension(p->host, PST_PROFILE);
    uint32_t row = part_samples_row(p, samples), v;

    for (v = 0; v < p->n; v++) {
        double ns[3] = {0, 0, 0};

        if (row == UINT32_MAX && profile != NULL) {
            call_check(profile->node_ns(p->host, v, samples, ns));
            ret_ns[v] = ns[0] + ns[1] + ns[2];
        } else {
            /* Without a profile in proportion to the largest size there is. */
            uint32_t from = row != UINT32_MAX ? row : p->n_samples - 1;
            size_t at = (size_t)from * p->n + v;

            ret_ns[v] =
                (p->forward_ns[at] + p->backward_ns[at]) * ((double)samples / p->samples[from]);
        }
    }
}

uint32_t part_sequence_size(const struct part_problem *p, uint32_t b, const uint32_t *degrees,
                            uint32_t n_degrees)
{
    uint64_t size = b;
    uint32_t i;

    for (i = 0; i < n_degrees; i++) {
        size = part_common_multiple((uint32_t)size, degrees[i]);
        if (size > p->batch) {
            return 0;
        }
    }
    if (size == b) {
        return b; /* one of the sizes to choose from, whether or not it divides the batch */
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

/* --- links -------------------------------------------------------------------------------------*/

/* Bytes per nanosecond at large sizes; 0: free. */
static double rate_between(const struct part_problem *p, const struct pst_cost *cost, uint32_t to)
{
    const uint64_t small = 1 << 20, large = 1 << 30;
    uint64_t ns =
        cost->transfer_ns(p->host, large, 0, to) - cost->transfer_ns(p->host, small, 0, to);

    return ns == 0 ? 0 : (double)(large - small) / (double)ns;
}

/* The rate of a ring all-reduce over n ranks: 2 (n - 1) / n times the bytes pass a link. */
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
