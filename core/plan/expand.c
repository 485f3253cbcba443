/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism: from a plan of groups to one of ranks. The parts of a group do the same, each
 * with the parts of the other groups that are its like:
 *
 *   groups   0          F SEND 1                 1          RECV 0 F
 *   ranks    0    1     F SEND 2   F SEND 3      2    3     RECV 0 F   RECV 1 F
 */
#include "base/memory.h"
#include "plan/plan.h"

static const uint32_t *copy_numbers(struct pst_arena *arena, const uint32_t *numbers, uint32_t n)
{
    return pst_arena_copy(arena, numbers, n, sizeof *numbers);
}

/* --- stages, edges, ties -----------------------------------------------------------------------*/

static const uint32_t *ranks_of(struct pst_arena *arena, const struct pst_plan_stage *stage,
                                uint32_t tensor)
{
    uint32_t *ranks = pst_arena_array(arena, (size_t)stage->n_ranks * tensor, sizeof *ranks);

    for (uint32_t i = 0; i < stage->n_ranks * tensor; i++) {
        ranks[i] = stage->ranks[i / tensor] * tensor + i % tensor;
    }
    return ranks;
}

static void expand_stage(struct pst_arena *arena, const struct pst_plan_stage *stage,
                         uint32_t tensor, struct pst_plan_stage *ret_stage)
{
    struct pst_plan_guest *guests =
        pst_arena_copy(arena, stage->guests, stage->n_guests, sizeof *guests);

    PST_ASSERT(stage->tensor == 1);
    for (uint32_t i = 0; i < stage->n_guests; i++) {
        guests[i].rank *= tensor;
    }
    *ret_stage = *stage;
    ret_stage->tensor = tensor;
    ret_stage->n_ranks = stage->n_ranks * tensor;
    ret_stage->ranks = ranks_of(arena, stage, tensor);
    ret_stage->guests = guests;
    ret_stage->nodes = copy_numbers(arena, stage->nodes, stage->n_nodes);
    ret_stage->actions = pst_arena_copy(arena, stage->actions, stage->n_nodes, 1);
    ret_stage->replays =
        pst_arena_copy(arena, stage->replays, stage->n_replays, sizeof *stage->replays);
}

static void copy_tables(const struct pst_plan *plan, struct pst_plan *expanded)
{
    struct pst_arena *arena = &expanded->arena;

    expanded->edges = pst_arena_copy(arena, plan->edges, plan->n_edges, sizeof *plan->edges);
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        expanded->edges[e].tensors =
            copy_numbers(arena, plan->edges[e].tensors, plan->edges[e].n_tensors);
    }
    expanded->ties = pst_arena_copy(arena, plan->ties, plan->n_ties, sizeof *plan->ties);
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        expanded->ties[t].stages =
            copy_numbers(arena, plan->ties[t].stages, plan->ties[t].n_stages);
    }
}

/* --- devices -----------------------------------------------------------------------------------*/

static const struct pst_instr *expand_list(struct pst_arena *arena, const struct pst_instr *list,
                                           uint32_t n, uint32_t tensor, uint32_t part)
{
    struct pst_instr *copy = pst_arena_copy(arena, list, n, sizeof *copy);

    for (uint32_t i = 0; i < n; i++) {
        if (copy[i].op == PST_I_SEND || copy[i].op == PST_I_RECV) {
            copy[i].peer = copy[i].peer * tensor + part;
        }
        copy[i].waits =
            copy[i].n_waits > 0 ? copy_numbers(arena, copy[i].waits, copy[i].n_waits) : NULL;
    }
    return copy;
}

static void expand_device(struct pst_arena *arena, const struct pst_plan_device *device,
                          uint32_t tensor, uint32_t part, struct pst_plan_device *ret_device)
{
    *ret_device = *device;
    ret_device->kind = pst_arena_strdup(arena, device->kind);
    ret_device->body = expand_list(arena, device->body, device->n_instrs, tensor, part);
    ret_device->fill = expand_list(arena, device->fill, device->n_fill, tensor, part);
    ret_device->drain = expand_list(arena, device->drain, device->n_drain, tensor, part);
}

/* --- the plan ----------------------------------------------------------------------------------*/

static const struct pst_plan_stated *copy_stated(struct pst_arena *arena,
                                                 const struct pst_plan *plan)
{
    struct pst_plan_stated *stated;

    if (plan->stated == NULL) {
        return NULL;
    }
    stated = pst_arena_copy(arena, plan->stated, 1, sizeof *stated);
    stated->stage_peaks = pst_arena_copy(arena, plan->stated->stage_peaks, plan->n_stages,
                                         sizeof *stated->stage_peaks);
    return stated;
}

void pst_plan_expand(const struct pst_plan *plan, uint32_t tensor, struct pst_plan **ret_plan)
{
    struct pst_plan *expanded = pst_alloc(1, sizeof *expanded);
    struct pst_arena *arena = &expanded->arena;

    *expanded = *plan;
    *arena = (struct pst_arena){0};
    expanded->n_devices = plan->n_devices * tensor;
    expanded->stages = pst_arena_array(arena, plan->n_stages, sizeof *plan->stages);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        expand_stage(arena, &plan->stages[s], tensor, &expanded->stages[s]);
    }
    copy_tables(plan, expanded);
    expanded->devices = pst_arena_array(arena, expanded->n_devices, sizeof *plan->devices);
    for (uint32_t r = 0; r < expanded->n_devices; r++) {
        expand_device(arena, &plan->devices[r / tensor], tensor, r % tensor, &expanded->devices[r]);
    }
    expanded->times = pst_arena_strdup(arena, plan->times);
    expanded->stated = copy_stated(arena, plan);
    expanded->config_json = pst_arena_strdup(arena, plan->config_json);
    expanded->partitioner = pst_arena_strdup(arena, plan->partitioner);
    expanded->scheduler = pst_arena_strdup(arena, plan->scheduler);
    expanded->memopt = pst_arena_strdup(arena, plan->memopt);
    *ret_plan = expanded;
}
