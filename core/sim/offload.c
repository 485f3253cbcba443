/* SPDX-License-Identifier: Apache-2.0
 *
 * Durations inside the passes of stages that offload.
 */
#include "sim/durations.h"

static bool time_calls(const struct pst_sim_durations *durations, struct pst_arena *arena,
                       const struct pst_plan_stage *stage, bool placed,
                       const struct pst_pass_calls *pass, uint64_t **ret_ns)
{
    uint64_t *ns = pst_arena_array(arena, (size_t)pass->n_calls + 1, sizeof *ns);
    if (ns == NULL) {
        return false;
    }
    for (uint32_t c = 0; c < pass->n_calls; c++) {
        const struct pst_pass_call *call = &pass->calls[c];
        struct pst_times times;
        if (call->replay && placed) {
            continue;
        }
        pst_cost_op(durations->cost, stage->nodes[call->node], pst_plan_samples(stage), &times);
        ns[c] = call->pass == 0   ? times.forward_ns
                : call->pass == 1 ? times.backward_input_ns
                                  : times.backward_weight_ns;
    }
    *ret_ns = ns;
    return true;
}

bool pst_sim_offload_init(const struct pst_sim_durations *durations, struct pst_arena *arena,
                          uint32_t s, bool placed, struct pst_sim_offload **ret_offload)
{
    const uint32_t ops[] = {PST_I_F, PST_I_B, PST_I_W, PST_I_BW};
    const struct pst_plan_stage *stage = &durations->plan->stages[s];
    if (!pst_plan_stage_has(stage, PST_ACTION_OFFLOAD)) {
        return true;
    }
    struct pst_sim_offload *offload = pst_arena_array(arena, 1, sizeof *offload);
    bool ok =
        offload != NULL && pst_pass_calls_init(stage, durations->graph, arena, offload->passes);
    if (ok) {
        offload->bytes = pst_arena_array(arena, stage->n_nodes, sizeof *offload->bytes);
        ok = offload->bytes != NULL &&
             pst_plan_offload_bytes(stage, durations->graph, offload->bytes);
    }
    for (uint32_t i = 0; ok && i < sizeof ops / sizeof *ops; i++) {
        ok = time_calls(durations, arena, stage, placed, &offload->passes[ops[i]],
                        &offload->call_ns[ops[i]]);
    }
    *ret_offload = offload;
    return ok;
}

uint32_t pst_sim_node(const struct pst_sim_durations *durations, const struct pst_instr *copy)
{
    return pst_plan_node(&durations->plan->stages[copy->stage], copy->node);
}
