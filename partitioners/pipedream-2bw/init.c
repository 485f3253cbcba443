/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "twobw.h"

/* Are all nodes alike at every size, in a line with equal messages? */
static bool is_equal(const struct part_problem *problem)
{
    bool equal = problem->n_edges == problem->n - 1;
    uint32_t v, i;

    for (v = 0; equal && v < problem->n_edges; v++) {
        equal = problem->from[v] == v && problem->to[v] == v + 1 &&
                problem->edge_bytes[v] == problem->edge_bytes[0];
    }
    for (v = 1; equal && v < problem->n; v++) {
        equal = problem->weight_bytes[v] == problem->weight_bytes[0] &&
                problem->saved_bytes[v] == problem->saved_bytes[0];
        for (i = 0; equal && i < problem->n_samples; i++) {
            const double *forward = &problem->forward_ns[(size_t)i * problem->n];
            const double *backward = &problem->backward_ns[(size_t)i * problem->n];

            equal = forward[v] == forward[0] && backward[v] == backward[0];
        }
    }
    return equal;
}

static double rate(const struct twobw *search, uint64_t option)
{
    double bytes_per_s = option != 0 ? (double)option : search->problem->figures.p2p_bytes_per_s;

    return bytes_per_s / 1e9;
}

void twobw_ask_topology(struct twobw *search, uint32_t n_devices)
{
    const struct part_problem *problem = search->problem;
    const struct pst_ask *ask = problem->host->get_extension(problem->host, PST_ASK);
    struct pst_topology topology = {.size = sizeof topology,
                                    .version_rule = PST_VERSION_SYNC,
                                    .min_microbatches = 1,
                                    .microbatch_multiple = 1};

    if (ask != NULL && PST_CAN(ask, topology)) {
        call_check(ask->topology(problem->host, n_devices, &topology));
    }
    search->version_rule = topology.version_rule;
    search->n_wanted = problem->in->n_stages;
    /* Several stages on a device: the host knows how many devices there are, and sees to that. */
    search->least = search->n_wanted != 0 ? 1 : topology.min_microbatches;
    search->multiple = search->n_wanted != 0 ? 1 : topology.microbatch_multiple;
}

void twobw_init(const struct part_problem *problem, const struct config *config,
                struct twobw *ret_search)
{
    struct twobw *search = ret_search;
    uint32_t most;

    memset(search, 0, sizeof *search);
    search->problem = problem;
    search->config = config;
    search->node_size = config->node_size != 0            ? (uint32_t)config->node_size
                        : problem->figures.node_size != 0 ? problem->figures.node_size
                                                          : problem->n_devices;
    search->high = rate(search, config->bandwidth_high);
    search->low = rate(search, config->bandwidth_low);
    CALL_TAKE(search->sum_ns, (size_t)problem->n + 1);
    part_ranges_init(problem, &search->ranges);
    part_span_init(&search->ranges, &search->span);
    search->equal = config->even && problem->figures.reference != 0 && is_equal(problem);
    twobw_choose_places(search);
    most = problem->n_devices < search->ranges.n ? problem->n_devices : search->ranges.n;
    CALL_TAKE(search->best, 2 * ((size_t)search->ranges.n + 1));
    CALL_TAKE(search->parent, ((size_t)most + 1) * ((size_t)search->ranges.n + 1));
}
