/* SPDX-License-Identifier: Apache-2.0
 *
 * Who meets inside passes. COMM4 on tensor parallelism: the parts of a replica have equal lists but
 * for what they exchange with others, and for what waits, and in equal passes equal meetings, so
 * that they meet in one order. Which transfers a list needs, and which waits, is told of each rank
 * (COMM1, PASS3, LIVE). Of replicas that sum gradients in passes scatters.c proves the order.
 */
#include "base/hash.h"
#include "graph/split.h"
#include "prove/internal.h"

bool pst_check_meets_replicas(const struct pst_check *check, const struct pst_instr *instr)
{
    return check->scatters[instr->stage] && (instr->op == PST_I_W || instr->op == PST_I_BW ||
                                             (instr->op <= PST_I_R && check->plan->zero >= 3));
}

uint32_t pst_check_group(const struct pst_check *check, const struct pst_instr *instr,
                         uint32_t rank, const uint32_t **ret_ranks)
{
    const struct pst_plan_stage *of = &check->plan->stages[instr->stage];
    uint32_t place = pst_plan_place(of, rank);
    if (place == PST_NONE) {
        *ret_ranks = NULL;
        return 0;
    }
    if (pst_check_meets_replicas(check, instr)) {
        *ret_ranks = of->ranks;
        return of->n_ranks;
    }
    *ret_ranks = &of->ranks[place / of->tensor * of->tensor];
    return of->tensor;
}

/* Every conversion meets in F or in B, and is in replays of backward passes. */
bool pst_check_meets(const struct pst_check *check, const struct pst_instr *instr)
{
    return pst_check_is_pass(instr->op) &&
           ((instr->op != PST_I_W && check->converts[instr->stage]) ||
            pst_check_meets_replicas(check, instr));
}

/* By the rule that fills check->pieces, which plans that are illegal lack. */
static bool is_scattered(const struct pst_check *check, uint32_t stage, uint32_t parameter)
{
    const struct pst_plan *plan = check->plan;
    uint32_t tie = 0;
    if (parameter == PST_NONE || plan->zero < 2) {
        return false;
    }
    while (tie < plan->n_ties && plan->ties[tie].parameter != parameter) {
        tie++;
    }
    return tie < plan->n_ties ? pst_check_cuts_tie(plan, tie)
                              : pst_plan_replicas(&plan->stages[stage]) > 1;
}

void pst_check_find_meetings(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    const bool parts = pst_check_tensor(check) > 1;
    check->converts = pst_check_array(check, plan->n_stages, sizeof *check->converts);
    check->scatters = pst_check_array(check, plan->n_stages, sizeof *check->scatters);
    for (uint32_t s = 0; (parts || plan->zero >= 2) && s < plan->n_stages; s++) {
        for (uint32_t v = 0; v < plan->stages[s].n_nodes; v++) {
            const struct pst_op *op = &check->graph->ops[plan->stages[s].nodes[v]];
            check->converts[s] |= parts && pst_op_is_convert(op->kind);
            for (uint32_t i = 0; i < op->n_param && !check->scatters[s]; i++) {
                check->scatters[s] = is_scattered(check, s, op->param[i]);
            }
        }
    }
}

static bool are_equal(const struct pst_instr *a, const struct pst_instr *b)
{
    return a->op == b->op && a->stage == b->stage && a->microbatch == b->microbatch &&
           a->node == b->node;
}

/* The first instruction from `i` on that is no end of a transfer. */
static uint32_t next_own(const struct pst_plan_device *device, uint32_t i)
{
    while (i < device->n_instrs &&
           (device->body[i].op == PST_I_SEND || device->body[i].op == PST_I_RECV)) {
        i++;
    }
    return i;
}

/* Against the first part of the replica. */
static void check_list(struct pst_check *check, uint32_t rank, uint32_t first)
{
    const struct pst_plan_device *a = &check->plan->devices[first];
    const struct pst_plan_device *b = &check->plan->devices[rank];
    uint32_t i = next_own(a, 0), j = next_own(b, 0);
    char text[64];
    while (i < a->n_instrs && j < b->n_instrs && are_equal(&a->body[i], &b->body[j])) {
        i = next_own(a, i + 1);
        j = next_own(b, j + 1);
    }
    if (i < a->n_instrs || j < b->n_instrs) {
        pst_check_add(check, "COMM4", rank, j < b->n_instrs ? j : PST_NONE,
                      "its list is not that of device %u, which is the first part of the same "
                      "replica and has %s at %u",
                      first,
                      i < a->n_instrs ? pst_check_describe(&a->body[i], text) : "nothing more", i);
    }
}

static uint32_t first_part(const struct pst_check *check, uint32_t rank)
{
    uint32_t at = check->rank_first[rank];
    if (at == check->rank_first[rank + 1]) {
        return rank;
    }
    const struct pst_plan_stage *stage = &check->plan->stages[check->rank_stages[at]];
    return stage->ranks[pst_plan_replica(stage, rank) * stage->tensor];
}

void pst_check_parts(struct pst_check *check)
{
    const bool parts = pst_check_tensor(check) > 1;
    for (uint32_t d = 0; parts && d < check->plan->n_devices; d++) {
        check_list(check, d, first_part(check, d));
    }
}

uint64_t pst_check_meetings_within(const struct pst_check *check, const struct pst_program *program)
{
    uint64_t digest = PST_FNV1A;
    uint32_t n_own = 0; /* instructions so far that are no ends of transfers */
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_program_instr *list = &program->lists[i];
        const uint8_t op = program->instrs[i].op;
        n_own += op != PST_I_SEND && op != PST_I_RECV;
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
            const struct pst_program_call *call = &program->calls[c];
            if (call->kind == PST_C_KERNEL &&
                pst_op_meets(&check->graph->ops[call->op], call->pass)) {
                digest = pst_fnv1a(pst_fnv1a(digest, n_own), call->op);
                digest = pst_fnv1a(pst_fnv1a(digest, call->pass), call->samples);
            }
        }
    }
    return digest;
}

void pst_check_within(struct pst_check *check, const uint64_t *meetings)
{
    const bool parts = pst_check_tensor(check) > 1;
    for (uint32_t d = 0; parts && d < check->plan->n_devices; d++) {
        uint32_t first = first_part(check, d);
        if (meetings[d] != meetings[first]) {
            pst_check_add(check, "COMM4", d, PST_NONE,
                          "its passes hold other meetings than those of device %u, which is the "
                          "first part of the same replica",
                          first);
        }
    }
}
