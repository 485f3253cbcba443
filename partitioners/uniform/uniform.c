/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of equal size in one topological order: equal numbers of nodes, or about equal time. It
 * looks at no memory: the yardstick for every other partitioner.
 */
#include "chain_plugin.h"
#include "part_row.h"

enum { BY_COUNT = 0, BY_COST = 1 };

struct config {
    uint32_t balance, order;
};

PST_INSTANCE(uniform, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, balance, PST_PARAM_ENUM, "count", "count|cost",
              "What is made equal: numbers of nodes, or their times."),
    PST_PARAM(struct config, order, PST_PARAM_ENUM, "index", "index|dfs",
              "Order of the nodes that is cut: as in the model, or branch after branch."),
};

/* Sizes differ by one at most, the larger ones last. */
static void cut_by_count(struct part_row *row)
{
    uint32_t n = row->problem.n, size = n / row->n_stages, rest = n % row->n_stages, s;

    for (s = 0; s < row->n_stages; s++) {
        row->first[s + 1] = row->first[s] + size + (s >= row->n_stages - rest ? 1 : 0);
    }
}

/* Stage s ends with the node at which the time so far reaches s + 1 of n_stages equal shares. */
static void cut_by_cost(struct part_row *row)
{
    uint32_t n = row->problem.n, at = 0, s;
    int64_t total = 0, sum = 0;

    for (at = 0; at < n; at++) {
        total += row->ticks[0][at];
    }
    for (s = 0, at = 0; s < row->n_stages; s++) {
        uint32_t last = n - (row->n_stages - 1 - s); /* at least one node for each later stage */

        /* Products are below 2^60: a tick is chosen so. */
        do {
            sum += row->ticks[0][row->order[at++]];
        } while (at < last && (s + 1 == row->n_stages || sum * row->n_stages < total * (s + 1)));
        row->first[s + 1] = at;
    }
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct uniform *self = self_;
    struct part_row row;
    pst_status status = part_row_init(&row, self->host, in, self->config->order);

    if (status == PST_OK) {
        if (self->config->balance == BY_COST) {
            cut_by_cost(&row);
        } else {
            cut_by_count(&row);
        }
        part_row_answer(&row, out);
    }
    return status;
}

PART_CHAIN_PLUGIN(struct config, "uniform", "1.1",
                  .summary = "Equal numbers of nodes per stage, or equal times.",
                  .reference = "none")
