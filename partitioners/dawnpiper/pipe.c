/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "dawnpiper.h"

static void set_times(struct pipe *pipe)
{
    uint32_t v;

    part_ranges_times(pipe->problem, pipe->size, pipe->time_ns, NULL);
    for (v = 0; v < pipe->n; v++) {
        double ns = pipe->time_ns[v + 1] - pipe->time_ns[v];

        /* The host may round a time that is not a whole number, pass by pass. */
        ns = ns == floor(ns) ? ns : floor(ns - 1.5);
        pipe->sum_ns[v + 1] = pipe->sum_ns[v] + (ns > 0 ? (uint64_t)ns : 0);
    }
}

pst_status pipe_init(struct pipe *pipe, const struct part_problem *problem,
                     const struct config *config, const struct part_ranges *ranges,
                     uint32_t n_stages, uint32_t size)
{
    uint32_t s;
    pst_status status;

    memset(pipe, 0, sizeof *pipe);
    pipe->problem = problem;
    pipe->config = config;
    pipe->ranges = ranges;
    pipe->cost = problem->host->get_extension(problem->host, PST_COST);
    pipe->n = problem->n;
    pipe->n_stages = n_stages;
    pipe->size = size;
    pipe->memo.value_size = sizeof(struct solved);
    CALL_TAKE(pipe->time_ns, (size_t)pipe->n + 1);
    CALL_TAKE(pipe->sum_ns, (size_t)pipe->n + 1);
    CALL_TAKE(pipe->sum_held, (size_t)n_stages + 1);
    CALL_TAKE(pipe->sum_copies, (size_t)n_stages + 1);
    if (pipe->cost == NULL) {
        return pst_failf(problem->host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_COST);
    }
    status = part_asker_init(problem, n_stages, size, 1, &pipe->asker);
    if (status == PST_OK) {
        part_asker_share(&pipe->asker);
        pipe->most_saved = part_most_create(pipe->n);
        memcpy(pipe->most_saved[0], problem->saved_bytes, pipe->n * sizeof **pipe->most_saved);
        part_most_fill(pipe->most_saved, pipe->n);
        set_times(pipe);
    }
    for (s = 0; status == PST_OK && s < n_stages; s++) {
        pipe->sum_held[s + 1] = pipe->sum_held[s] + pipe->asker.in_flight[s];
        pipe->sum_copies[s + 1] =
            pipe->sum_copies[s] + problem->weight_multiplier + pipe->asker.versions[s] - 1;
    }
    return status;
}

bool pipe_admits(const struct pipe *pipe, uint32_t c)
{
    return pipe->config->max_boundary_tensors == 0 ||
           (int64_t)pipe->ranges->cut_tensors[c] <= pipe->config->max_boundary_tensors;
}

uint64_t pipe_comm(const struct pipe *pipe, uint32_t boundary, uint32_t c)
{
    double bytes = pipe->ranges->cut_bytes[c] * pipe->size;
    uint64_t ns = bytes == 0 ? 0
                             : pipe->cost->transfer_ns(pipe->problem->host, (uint64_t)ceil(bytes),
                                                       boundary, boundary + 1);

    return pipe->config->shared_link ? 2 * ns : ns;
}

void pipe_price(struct pipe *pipe, uint32_t stage, uint32_t a, uint32_t b, uint64_t *ret_ns)
{
    struct pst_stage_price price;

    part_asker_price(&pipe->asker, stage, a, b, &price);
    *ret_ns = price.fits != 0 ? price.period_ns : NS_NEVER;
}

/* --- pivots ------------------------------------------------------------------------------------*/

/* Memory per stage if stages i..j were cut evenly; irreducible: with the largest node alone. */
static double share(const struct pipe *pipe, uint32_t i, uint32_t j, uint32_t a, uint32_t b,
                    bool irreducible)
{
    const struct part_ranges *ranges = pipe->ranges;
    double size = pipe->size, g = j - i + 1;
    double copies = (pipe->sum_copies[j + 1] - pipe->sum_copies[i]) / g;
    double held = (pipe->sum_held[j + 1] - pipe->sum_held[i]) / g;
    double input = pipe->asker.in_flight[i] * ranges->cut_bytes[a] * size;
    double weights = (ranges->weight[b] - ranges->weight[a]) * copies / g;

    if (irreducible) {
        return weights + input + part_most(pipe->most_saved, a, b) * size;
    }
    return weights + (ranges->saved[b] - ranges->saved[a]) * size * held / g + input;
}

bool pipe_pivots(const struct pipe *pipe, uint32_t i, uint32_t j, uint32_t a, uint32_t b,
                 struct pivots *ret_pivots)
{
    uint32_t mid = (i + j) / 2, nl = mid - i + 1, nr = j - mid, c;
    double least_t = INFINITY, least_m = INFINITY, least_i = INFINITY;

    for (c = a + nl; c + nr <= b; c++) {
        double t, memory, irreducible;

        if (!pipe_admits(pipe, c)) {
            continue;
        }
        t = fmax((pipe->time_ns[c] - pipe->time_ns[a]) / nl,
                 (pipe->time_ns[b] - pipe->time_ns[c]) / nr);
        memory = fmax(share(pipe, i, mid, a, c, false), share(pipe, mid + 1, j, c, b, false));
        irreducible = pipe->interval == INTERVAL_PAPER ? 0
                                                       : fmax(share(pipe, i, mid, a, c, true),
                                                              share(pipe, mid + 1, j, c, b, true));
        if (t < least_t) {
            least_t = t;
            ret_pivots->compute = c;
        }
        if (memory < least_m) {
            least_m = memory;
            ret_pivots->memory = c;
        }
        if (irreducible < least_i) {
            least_i = irreducible;
            ret_pivots->irreducible = c;
        }
    }
    if (pipe->interval == INTERVAL_PAPER) {
        ret_pivots->irreducible = ret_pivots->compute;
    }
    return !isinf(least_t);
}
