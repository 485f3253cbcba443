/* SPDX-License-Identifier: Apache-2.0
 *
 * From a plan's lists back to orders of passes, or from a scheduler's answer; and what of them has
 * no place in such a file.
 */
#include "exchange/torch_csv.h"

static pst_status refuse(struct pst_error *err, const char *what)
{
    return pst_fail(err, PST_ERR_INFEASIBLE, "output.form",
                    "PyTorch's schedule files have no form for %s", what);
}

static pst_status check(const struct pst_plan *plan, struct pst_error *err)
{
    if (plan->asynchronous || plan->version_rule != PST_VERSION_SYNC) {
        return refuse(err, "asynchronous schedules, whose passes read several versions of weights");
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (plan->stages[s].n_ranks != 1) {
            return refuse(err, "stages with replicas");
        }
        if (plan->stages[s].n_microbatches != plan->stages[0].n_microbatches) {
            return refuse(err, "micro-batches of different sizes");
        }
        if (plan->stages[s].weight_versions > 1) {
            return refuse(err, "several versions of weights");
        }
    }
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        if (plan->edges[e].to != plan->edges[e].from + 1) {
            pst_status st = refuse(err, "stages that are no chain");

            pst_error_detail(err, "stage %u feeds stage %u", plan->edges[e].from,
                             plan->edges[e].to);
            return st;
        }
    }
    return plan->n_stages == 0 ? refuse(err, "a plan without stages") : PST_OK;
}

static uint32_t count_dropped(const struct pst_plan *plan)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            n += plan->stages[s].actions[i] != PST_ACTION_KEEP;
        }
    }
    return n;
}

static void collect(const struct pst_plan *plan, struct pst_arena *arena,
                    struct pst_torch_order *order)
{
    uint32_t *n_passes = pst_arena_array(arena, plan->n_devices, sizeof *n_passes);
    uint32_t *rank_of = pst_arena_array(arena, plan->n_stages, sizeof *rank_of);
    const struct pst_pass **lists =
        pst_arena_array(arena, plan->n_devices, sizeof(struct pst_pass *));

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        rank_of[s] = plan->stages[s].ranks[0];
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        const struct pst_plan_device *device = &plan->devices[r];
        struct pst_pass *passes = pst_arena_array(arena, device->n_instrs, sizeof *passes);
        for (uint32_t i = 0; i < device->n_instrs; i++) {
            const struct pst_instr *instr = &device->body[i];

            if (instr->op >= PST_I_F && instr->op <= PST_I_R) {
                passes[n_passes[r]++] =
                    (struct pst_pass){instr->op, instr->stage, instr->microbatch};
            }
        }
        lists[r] = passes;
    }
    *order = (struct pst_torch_order){
        plan->n_devices, plan->n_stages, plan->stages[0].n_microbatches, rank_of, lists, n_passes};
}

static uint32_t count_replays(const struct pst_torch_order *order)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < order->n_ranks; r++) {
        for (uint32_t i = 0; i < order->n_passes[r]; i++) {
            n += order->passes[r][i].op == PST_PASS_R;
        }
    }
    return n;
}

pst_status pst_torch_csv_of_plan(const struct pst_plan *plan, enum pst_torch_flavour flavour,
                                 char **ret_text, uint32_t *ret_n_dropped, struct pst_error *err)
{
    struct pst_torch_order order;
    struct pst_arena arena = {0};
    pst_status st = check(plan, err);

    if (st == PST_OK) {
        collect(plan, &arena, &order);
        st = pst_torch_csv(&order, flavour, ret_text, err);
    }
    if (st == PST_OK) {
        *ret_n_dropped = count_dropped(plan) + count_replays(&order);
    }
    pst_arena_finish(&arena);
    return st;
}

static pst_status check_answer(const struct pst_solo *solo, const struct pst_orders *answer,
                               struct pst_error *err)
{
    uint32_t n = solo->in.n_stages;

    if (answer->asynchronous) {
        return refuse(err, "asynchronous schedules, whose passes read several versions of weights");
    }
    for (uint32_t s = 0; s < n; s++) {
        if (solo->stages[s].microbatch_size != solo->stages[0].microbatch_size ||
            solo->stages[s].n_microbatches != solo->stages[0].n_microbatches) {
            return refuse(err, "micro-batches of different sizes");
        }
        if (s > 0 && (solo->stages[s].n_pred != 1 ||
                      solo->links[solo->stages[s].first_pred].from != s - 1)) {
            return refuse(err, "stages that are no chain");
        }
    }
    return solo->in.n_links + 1 == n ? PST_OK : refuse(err, "stages that are no chain");
}

pst_status pst_torch_csv_of_answer(const struct pst_solo *solo, const struct pst_orders *answer,
                                   enum pst_torch_flavour flavour, char **ret_text,
                                   struct pst_error *err)
{
    enum { BODY = 1 };
    struct pst_arena arena = {0};
    uint32_t *rank_of = pst_arena_array(&arena, solo->in.n_stages, sizeof *rank_of);
    const struct pst_torch_order order = {.n_ranks = solo->in.n_devices,
                                          .n_stages = solo->in.n_stages,
                                          .n_microbatches = solo->stages[0].n_microbatches,
                                          .rank_of = rank_of,
                                          .passes =
                                              (const struct pst_pass *const *)answer->passes[BODY],
                                          .n_passes = answer->n_passes[BODY]};
    pst_status st = check_answer(solo, answer, err);

    for (uint32_t s = 0; s < solo->in.n_stages && st == PST_OK; s++) {
        rank_of[s] = solo->stages[s].device;
    }
    if (st == PST_OK) {
        st = pst_torch_csv(&order, flavour, ret_text, err);
    }
    pst_arena_finish(&arena);
    return st;
}
