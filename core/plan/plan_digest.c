/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan does, as a number: stages with their actions, and the lists of all devices. Where it
 * comes from, and what is foretold of it, is left out.
 */
#include "plan/plan.h"

_Static_assert(sizeof(struct pst_replay) == 3 * sizeof(uint32_t) &&
                   sizeof(struct pst_plan_guest) == 2 * sizeof(uint32_t),
               "numbers without gaps");

static void add(struct pst_hasher *hasher, uint32_t n, const uint32_t *numbers)
{
    pst_hasher_add(hasher, &n, sizeof n);
    pst_hasher_add(hasher, numbers, n * sizeof *numbers);
}

static void add_stage(struct pst_hasher *hasher, const struct pst_plan_stage *stage)
{
    const uint32_t numbers[] = {
        stage->microbatch_size, stage->k,        stage->n_microbatches, stage->in_flight,
        stage->weight_versions, stage->n_guests, stage->tensor};

    add(hasher, sizeof numbers / sizeof *numbers - (stage->tensor == 1), numbers); /* as ever */
    add(hasher, stage->n_nodes, stage->nodes);
    add(hasher, stage->n_ranks, stage->ranks);
    pst_hasher_add(hasher, stage->actions, stage->n_nodes);
    add(hasher, 3 * stage->n_replays, (const uint32_t *)stage->replays);
    add(hasher, 2 * stage->n_guests, (const uint32_t *)stage->guests);
}

static void add_list(struct pst_hasher *hasher, uint32_t n, const struct pst_instr *list)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t numbers[] = {list[i].op,           list[i].payload,  list[i].stage,
                                    list[i].microbatch,   list[i].node,     list[i].peer,
                                    list[i].first_sample, list[i].n_samples};

        add(hasher, sizeof numbers / sizeof *numbers, numbers);
        add(hasher, list[i].n_waits, list[i].waits);
    }
    add(hasher, 0, NULL);
}

struct pst_hash pst_plan_digest(const struct pst_plan *plan)
{
    struct pst_hasher *hasher = pst_hasher_create();
    const uint32_t numbers[] = {
        plan->batch,        plan->step_batch,  plan->slices,  plan->version_rule,  plan->copies,
        plan->asynchronous, plan->drain_every, plan->barrier, plan->deferred_step, plan->n_stages,
        plan->n_devices,    plan->zero,        plan->prefetch};
    struct pst_hash digest;

    pst_hasher_add(hasher, &plan->graph_digest, sizeof plan->graph_digest);
    add(hasher, sizeof numbers / sizeof *numbers - (plan->zero == 0) - (plan->prefetch == 0),
        numbers); /* as ever */
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        add_stage(hasher, &plan->stages[s]);
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        for (uint32_t part = 0; part < PST_PARTS; part++) {
            uint32_t n;
            const struct pst_instr *list = pst_plan_list(&plan->devices[r], part, &n);

            add_list(hasher, n, list);
        }
    }
    digest = pst_hasher_end(hasher);
    pst_hasher_destroy(hasher);
    return digest;
}
