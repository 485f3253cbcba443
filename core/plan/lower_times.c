/* SPDX-License-Identifier: Apache-2.0
 *
 * When passes run, each as early as its order allows: the times by which lowering places transfers.
 */
#include <string.h>

#include "plan/lower.h"

pst_status pst_plan_pass_times(struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost,
                               const struct pst_pass *const *orders, const uint32_t *n_passes,
                               uint64_t *const *ret_start_ns, uint64_t *const *ret_end_ns,
                               struct pst_error *err)
{
    struct pst_lowering low = {.plan = plan,
                               .graph = graph,
                               .cost = cost,
                               .orders = orders,
                               .n_passes = n_passes,
                               .training = true};
    pst_status st = pst_lowering_prepare(&low, err);

    for (uint32_t r = 0; st == PST_OK && r < plan->n_devices; r++) {
        for (uint32_t i = 0; i < n_passes[r]; i++) {
            ret_end_ns[r][i] = low.end_ns[r][i];
            ret_start_ns[r][i] = low.end_ns[r][i] - pst_lowering_pass_ns(&low, &orders[r][i]);
        }
    }
    pst_arena_finish(&low.arena);
    return st;
}
