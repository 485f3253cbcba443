/* SPDX-License-Identifier: Apache-2.0
 *
 * FORM1, FORM2: counts and indices in range, nothing unknown, for the graph that it names.
 */
#include "plan/check/internal.h"

#define MAX_DEVICES      65536u
#define MAX_STAGES       65536u
#define MAX_MICROBATCHES (1u << 20)
#define MAX_INSTRS       100000000ull

static bool ascending(const uint32_t *values, uint32_t n, uint32_t limit)
{
    for (uint32_t i = 0; i < n; i++) {
        if (values[i] >= limit || (i > 0 && values[i] <= values[i - 1])) {
            return false;
        }
    }
    return true;
}

static bool check_counts(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    if (plan->n_devices < 1 || plan->n_devices > MAX_DEVICES) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "%u devices; 1 to %u are possible",
                      plan->n_devices, MAX_DEVICES);
        return false;
    }
    if (plan->n_stages < 1 || plan->n_stages > MAX_STAGES) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "%u stages; 1 to %u are possible",
                      plan->n_stages, MAX_STAGES);
        return false;
    }
    if (plan->batch < 1 || plan->optimizer_slots > 2) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "batch %u, %u optimizer slots; at least 1 sample and at most 2 slots",
                      plan->batch, plan->optimizer_slots);
        return false;
    }
    check->list_base = pst_check_array(check, (uint64_t)plan->n_devices + 1, sizeof(uint64_t));
    if (check->list_base == NULL) {
        return false;
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        check->list_base[d + 1] = check->list_base[d] + plan->devices[d].n_instrs;
    }
    if (check->list_base[plan->n_devices] > MAX_INSTRS) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "%llu instructions; %llu are possible",
                      (unsigned long long)check->list_base[plan->n_devices], MAX_INSTRS);
        return false;
    }
    return true;
}

static void check_stage(struct pst_check *check, uint32_t s)
{
    const struct pst_plan_stage *stage = &check->plan->stages[s];
    if (stage->n_nodes == 0 || !ascending(stage->nodes, stage->n_nodes, check->graph->n_ops)) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "stage %u: its %u operators must be at least one, ascending, below %u", s,
                      stage->n_nodes, check->graph->n_ops);
    }
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        if (stage->actions[n] > PST_ACTION_RECOMPUTE) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u, operator %u: memory action %u; this version knows keep (0) "
                          "and recompute (1)",
                          s, n, stage->actions[n]);
            break;
        }
    }
    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        if (stage->ranks[r] >= check->plan->n_devices) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u sits on device %u of %u devices", s, stage->ranks[r],
                          check->plan->n_devices);
            break;
        }
    }
    if (stage->microbatch_size < 1 || stage->n_microbatches > MAX_MICROBATCHES) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "stage %u: %u micro-batches of %u samples; at most %u of at least 1", s,
                      stage->n_microbatches, stage->microbatch_size, MAX_MICROBATCHES);
    }
}

static void check_edges_and_ties(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        bool sorted = e == 0 || edge[-1].from < edge->from ||
                      (edge[-1].from == edge->from && edge[-1].to < edge->to);
        if (edge->from >= plan->n_stages || edge->to >= plan->n_stages || !sorted) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "edge %u from stage %u to %u; below %u, ascending by both", e, edge->from,
                          edge->to, plan->n_stages);
        }
        if (edge->n_tensors == 0 ||
            !ascending(edge->tensors, edge->n_tensors, check->graph->n_tensors)) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "edge %u: its %u tensors must be at least one, ascending, below %u", e,
                          edge->n_tensors, check->graph->n_tensors);
        }
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        const struct pst_plan_tie *tie = &plan->ties[t];
        if (tie->parameter >= check->graph->n_params || tie->n_stages == 0 ||
            !ascending(tie->stages, tie->n_stages, plan->n_stages)) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "tie %u: parameter %u below %u, %u stages: at least one, ascending, "
                          "below %u",
                          t, tie->parameter, check->graph->n_params, tie->n_stages, plan->n_stages);
        }
    }
}

/* What an instruction of this kind may index, and which of its fields must be 0. */
static const char *instr_fault(const struct pst_plan *plan, uint32_t rank,
                               const struct pst_instr *instr)
{
    bool transfer = instr->op == PST_I_SEND || instr->op == PST_I_RECV;
    bool pass = pst_check_is_pass(instr->op);
    if (instr->op == PST_I_OFFLOAD || instr->op == PST_I_FETCH) {
        return "copies to host or peers are not available in this version";
    }
    if (!transfer && !pass && instr->op != PST_I_STEP && !pst_check_is_reduction(instr->op)) {
        return "unknown operation";
    }
    uint32_t limit = transfer                  ? plan->n_edges
                     : instr->op == PST_I_TIE  ? plan->n_ties
                     : instr->op == PST_I_NORM ? 1
                                               : plan->n_stages;
    if (instr->stage >= limit) {
        return "stage, edge or tie out of range";
    }
    if (pass ? instr->microbatch >= plan->stages[instr->stage].n_microbatches
             : instr->microbatch != 0) {
        return "micro-batch out of range";
    }
    if (instr->node != 0) {
        return "a node where none belongs";
    }
    if (!transfer) {
        return instr->payload != 0 || instr->first_sample != 0 || instr->n_samples != 0 ||
                       instr->peer != 0
                   ? "fields of a transfer where none belong"
                   : NULL;
    }
    if (instr->payload > PST_PAYLOAD_GRAD) {
        return "unknown payload";
    }
    if (instr->peer >= plan->n_devices || instr->peer == rank) {
        return "the peer must be another device";
    }
    if (instr->n_samples == 0 || instr->first_sample >= plan->batch ||
        instr->n_samples > plan->batch - instr->first_sample) {
        return "samples outside the batch";
    }
    return NULL;
}

static void check_list(struct pst_check *check, uint32_t rank)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    char text[64];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        const char *fault = instr_fault(check->plan, rank, instr);
        if (fault == NULL && !ascending(instr->waits, instr->n_waits, i)) {
            fault = "waits must be ascending and name earlier instructions";
        }
        if (fault != NULL) {
            pst_check_add(check, "FORM1", rank, i, "%s: %s", pst_check_describe(instr, text),
                          fault);
        }
    }
}

bool pst_check_form(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    if (!check_counts(check)) {
        return false;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        check_stage(check, s);
    }
    check_edges_and_ties(check);
    if (check->report->n_violations > 0) {
        return false;
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        check_list(check, d);
    }
    if (plan->graph_digest != check->graph->digest) {
        pst_check_add(check, "FORM2", PST_NONE, PST_NONE,
                      "made for graph %016llx, found %016llx; plan again for this model",
                      (unsigned long long)plan->graph_digest,
                      (unsigned long long)check->graph->digest);
    }
    if (plan->version_rule != PST_VERSION_SYNC) {
        pst_check_add(check, "WVER1", PST_NONE, PST_NONE,
                      "version rule %u; this version runs synchronous plans (1)",
                      plan->version_rule);
    }
    return check->report->n_violations == 0;
}
