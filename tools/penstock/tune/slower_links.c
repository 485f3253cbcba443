/* SPDX-License-Identifier: Apache-2.0
 *
 * A second opinion on plans that keep host links busy. Memory optimizers weigh periods, and a
 * period does not show what copies cost where a step begins and ends, nor passes that wait because
 * a link is nearly full. So such a job is planned once more with links that seem slower, and the
 * plan of the shorter step counts.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "tune/advise.h"

/* Part of a stage's time that its copies may take before the period says too little. */
#define FULL_PART 3
#define FULL_OF   4

/* Do the copies of some stage take longer than that? */
static bool is_busy(const struct pst_search *search, const struct pst_plan *plan)
{
    uint64_t *bytes = pst_alloc(search->graph->n_ops, sizeof *bytes);
    bool busy = false;

    for (uint32_t s = 0; s < plan->n_stages && !busy; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        uint64_t moved = 0, pass_ns = 0;
        struct pst_cost_at at;
        const struct pst_cost_model *cost =
            pst_cost_on(search->cost, stage->ranks, stage->n_ranks, &at);

        pst_plan_offload_bytes(stage, search->graph, bytes);
        for (uint32_t i = 0; i < stage->n_nodes; i++) {
            struct pst_times times;

            pst_cost_op(cost, stage->nodes[i], pst_plan_samples(stage), &times);
            pass_ns += times.forward_ns + times.backward_input_ns + times.backward_weight_ns;
            moved += bytes[i];
        }
        busy = pst_cost_host_ns(cost, moved) * (uint64_t)search->cluster->link_directions >
               pass_ns / FULL_OF * FULL_PART;
    }
    free(bytes);
    return busy;
}

static uint64_t step_of(const struct pst_search *search, const struct pst_planned *planned)
{
    return pst_step_of(search->clock, planned, search->graph, search->cost);
}

void pst_try_slower_links(const struct pst_search *search, struct pst_planned *planned)
{
    struct pst_cluster cluster;
    struct pst_arena arena = {0};
    struct pst_search slower = *search;
    struct pst_planned other = {.plan = NULL};
    struct pst_error unused;
    uint64_t unused_need, bar_ns;

    if (search->clock == NULL || !is_busy(search, planned->plan)) {
        return;
    }
    pst_cluster_copy(search->cluster, &arena, &cluster);
    cluster.host_bandwidth = cluster.host_bandwidth / FULL_OF * FULL_PART;
    for (uint32_t k = 0; k < cluster.n_kinds; k++) {
        cluster.kinds[k].host_bandwidth = cluster.kinds[k].host_bandwidth / FULL_OF * FULL_PART;
    }
    slower.cluster = &cluster;
    bar_ns = step_of(search, planned);
    slower.context = &bar_ns;
    pst_status status = pst_search_plan(&slower, &other, &unused_need, &unused);

    pst_arena_finish(&arena);
    if (status != PST_OK) {
        return;
    }
    if (step_of(search, &other) < step_of(search, planned)) {
        pst_planned_finish(planned);
        *planned = other;
    } else {
        pst_planned_finish(&other);
    }
}
