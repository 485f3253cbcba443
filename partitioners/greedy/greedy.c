/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills one stage after the other up to a cap on its time, and searches the least cap with which
 * the devices suffice: the optimum of a chain without transfers, memory limit and replicas.
 */
#include "chain_plugin.h"
#include "part_row.h"

struct config {
    uint32_t order;
};

PST_INSTANCE(greedy, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, order, PST_PARAM_ENUM, "index", "index|dfs",
              "Order of the nodes that is cut: as in the model, or branch after branch."),
};

/* Fills stages up to the cap, leaving a node for each stage to come; does all fit in them? */
static bool fill(struct part_row *row, int64_t cap)
{
    uint32_t n = row->problem.n, at = 0, s;

    for (s = 0; s < row->n_stages; s++) {
        const int64_t *ticks = row->ticks[s];
        uint32_t last = n - (row->n_stages - 1 - s);
        int64_t sum = ticks[row->order[at++]];

        while (at < last && sum + ticks[row->order[at]] <= cap) {
            sum += ticks[row->order[at++]];
        }
        if (sum > cap) {
            return false;
        }
        row->first[s + 1] = at;
    }
    return at == n;
}

/* No more is needed than all on the device that takes the most. */
static int64_t least_cap(struct part_row *row)
{
    int64_t low = 0, high = 0;
    uint32_t v, s;

    for (v = 0; v < row->problem.n; v++) {
        int64_t most = 0;

        for (s = 0; s < row->n_stages; s++) {
            most = row->ticks[s][v] > most ? row->ticks[s][v] : most;
        }
        high += most;
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (fill(row, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct greedy *self = self_;
    struct part_row row;
    pst_status st = part_row_init(&row, self->host, in, self->config->order);

    if (st == PST_OK) {
        int64_t cap;

        part_row_mix(&row);
        cap = least_cap(&row);
        fill(&row, cap);
        part_remark_number(&row.problem, "cap_us_per_sample",
                           (double)cap * row.costs.ns_per_tick / 1000);
        part_row_answer(&row, out);
    }
    return st;
}

PART_CHAIN_PLUGIN_WORDS(struct config, "greedy", "1.1", "mixed-devices",
                        .summary = "Fills stages up to the least time that the devices allow.",
                        .reference = "none")
