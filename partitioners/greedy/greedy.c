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

/* For each stage and start, the furthest end within the cap such that the later stages can take the
   rest. */
struct ends {
    struct part_row *row;
    uint32_t *end;   /* [n_stages][n + 1] 0: there is none */
    uint32_t *start; /* [n + 1] the last place up to this one where the next stage can start */
};

static uint32_t *ends_of(const struct ends *e, uint32_t s)
{
    return e->end + (size_t)s * (e->row->problem.n + 1);
}

static void find_starts(struct ends *e, uint32_t s)
{
    uint32_t n = e->row->problem.n, at, last = 0;

    for (at = 0; at <= n; at++) {
        if (s == e->row->n_stages ? at == n : ends_of(e, s)[at] != 0) {
            last = at;
        }
        e->start[at] = last;
    }
}

/* Does all fit in the stages? */
static bool fill(struct ends *e, int64_t cap)
{
    uint32_t s, at, far;

    for (s = e->row->n_stages; s-- > 0;) {
        const uint32_t *order = e->row->order;
        const int64_t *ticks = e->row->ticks[s];
        int64_t sum = 0;

        find_starts(e, s + 1);
        far = e->row->problem.n;
        for (at = far; at-- > 0;) {
            sum += ticks[order[at]];
            while (sum > cap) {
                sum -= ticks[order[--far]];
            }
            ends_of(e, s)[at] = e->start[far] > at ? e->start[far] : 0;
        }
    }
    return ends_of(e, 0)[0] != 0;
}

/* No more is needed than all on the device that takes the most. */
static int64_t least_cap(struct ends *e)
{
    const struct part_row *row = e->row;
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

        call_go_on(row->problem.host);
        if (fill(e, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static int64_t cut(struct part_row *row)
{
    struct ends e = {.row = row};
    int64_t cap;
    uint32_t s;

    CALL_TAKE(e.end, (size_t)row->n_stages * (row->problem.n + 1));
    CALL_TAKE(e.start, (size_t)row->problem.n + 1);
    cap = least_cap(&e);
    fill(&e, cap);
    for (s = 0; s < row->n_stages; s++) {
        row->first[s + 1] = ends_of(&e, s)[row->first[s]];
    }
    return cap;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct greedy *self = self_;
    struct part_row row;
    pst_status status = part_row_init(&row, self->host, in, self->config->order);

    if (status == PST_OK) {
        part_row_mix(&row);
        part_remark_number(&row.problem, "cap_us_per_sample",
                           (double)cut(&row) * row.costs.ns_per_tick / 1000);
        part_row_answer(&row, out);
    }
    return status;
}

PART_CHAIN_PLUGIN_WORDS(struct config, "greedy", "1.1", "mixed-devices", NULL,
                        .summary = "Fills stages up to the least time that the devices allow.",
                        .reference = "none")
