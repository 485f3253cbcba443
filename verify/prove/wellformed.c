/* SPDX-License-Identifier: Apache-2.0
 *
 * FORM1, FORM2: counts and indices in range, nothing unknown, for the graph that it names.
 */
#include "plan/sequence.h"
#include "prove/internal.h"
#include "plan/gathers.h"

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

static void check_counts(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    if (plan->n_devices < 1 || plan->n_devices > MAX_DEVICES) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "%u devices; 1 to %u are possible",
                      plan->n_devices, MAX_DEVICES);
        return;
    }
    if (plan->n_stages < 1 || plan->n_stages > MAX_STAGES) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "%u stages; 1 to %u are possible",
                      plan->n_stages, MAX_STAGES);
        return;
    }
    if (plan->batch < 1 || plan->optimizer_slots > 2) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "batch %u, %u optimizer slots; at least 1 sample and at most 2 slots",
                      plan->batch, plan->optimizer_slots);
        return;
    }
    pst_check_lists(check);
    uint64_t n_instrs = check->list_base[plan->n_devices];
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        n_instrs += plan->devices[d].n_fill + (uint64_t)plan->devices[d].n_drain;
    }
    if (n_instrs > MAX_INSTRS) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "%llu instructions; %llu are possible",
                      (unsigned long long)n_instrs, MAX_INSTRS);
    }
}

/* How many parts share the operators of a stage; 0: not all of them are shared by as many. */
static uint32_t degree_of(const struct pst_check *check, const struct pst_plan_stage *stage)
{
    const struct pst_graph *graph = check->graph;
    uint32_t degree = 0;
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        uint32_t node = stage->nodes[n];
        if (node >= graph->n_ops) {
            continue; /* told below */
        }
        if (degree != 0 && pst_graph_parts(graph, node) != degree) {
            return 0;
        }
        degree = pst_graph_parts(graph, node);
    }
    return degree != 0 ? degree : graph->parts;
}

/* A plan of ranks, or one of groups, each of which stands for the parts of a replica. */
static void check_tensor(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    bool groups = true;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        groups = groups && plan->stages[s].tensor == 1;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        const uint32_t parts = degree_of(check, stage);
        if (parts == 0) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u: its operators are shared by unlike numbers of devices", s);
            return;
        }
        if (stage->tensor != (groups ? 1 : parts) || stage->n_ranks % stage->tensor != 0) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u: %u devices in replicas of %u; a replica is one device, in all "
                          "stages, or the %u parts of its operators",
                          s, stage->n_ranks, stage->tensor, parts);
            return;
        }
    }
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
        bool parts = check->plan->asynchronous;

        if (stage->actions[n] > (parts ? PST_ACTION_OFFLOAD : PST_ACTION_PEER)) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u, operator %u: memory action %u; known are keep (0), recompute "
                          "(1), offload (2) and, in synchronous plans, peer (3)",
                          s, n, stage->actions[n]);
            break;
        }
    }
    uint32_t replay = 0;
    const char *fault =
        pst_sequence_fault(stage->replays, stage->n_replays, stage->n_nodes, &replay);
    if (fault != NULL) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "stage %u, replay %u: %s", s, replay,
                      fault);
    }
    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        if (stage->ranks[r] >= check->plan->n_devices) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u is on device %u of %u devices", s, stage->ranks[r],
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

/* The parts of a replica are devices in a row, and a device is the same part in all its stages. */
static void check_rows(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint64_t *met = pst_check_array(check, plan->n_devices, sizeof *met);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        for (uint32_t r = 0; r < stage->n_ranks; r++) {
            const uint32_t part = r % stage->tensor, rank = stage->ranks[r];
            const uint64_t seat = (uint64_t)stage->tensor << 32 | part;
            if (rank != stage->ranks[r - part] + part || (met[rank] != 0 && met[rank] != seat)) {
                pst_check_add(check, "FORM1", rank, PST_NONE,
                              "it is part %u of %u of stage %u; the parts of a replica are devices "
                              "in a row, and the same ones in all their stages",
                              part, stage->tensor, s);
                return;
            }
            met[rank] = seat;
        }
    }
}

/* Guests of a stage whose other fields are of good form. */
static void check_guests(struct pst_check *check, uint32_t s)
{
    const struct pst_plan *plan = check->plan;
    const struct pst_plan_stage *stage = &plan->stages[s];
    if (stage->n_guests > 0 &&
        (plan->asynchronous || plan->copies > 1 || check->limits->forward_only)) {
        pst_check_add(
            check, "FORM1", PST_NONE, PST_NONE,
            "stage %u: guests on other devices, which only synchronous training of one copy has",
            s);
        return;
    }
    bool away = pst_plan_stage_has(stage, PST_ACTION_PEER);
    if (away != (stage->n_guests > 0)) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE, "stage %u: %s; both or neither are legal",
                      s,
                      away ? "operators whose results go to other devices (3), but no guests"
                           : "guests, but no operators whose results go to other devices (3)");
        return;
    }
    for (uint32_t i = 0; i < stage->n_guests; i++) {
        const struct pst_plan_guest *guest = &stage->guests[i];
        if (guest->microbatch >= stage->n_microbatches ||
            (i > 0 && guest->microbatch <= guest[-1].microbatch)) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u: its guests must be ascending micro-batches below %u", s,
                          stage->n_microbatches);
            return;
        }
        if (guest->rank >= plan->n_devices || pst_plan_replica(stage, guest->rank) != PST_NONE ||
            pst_plan_guest_rank(plan, stage, guest, 0) == PST_NONE) {
            pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                          "stage %u: micro-batch %u is a guest of device %u; expected another "
                          "device with as many replicas and parts",
                          s, guest->microbatch, guest->rank);
            return;
        }
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

/* Returns what is wrong with an instruction's fields (ranges, fields that must be 0), or NULL. */
static const char *instr_fault(const struct pst_plan *plan, uint32_t n_ops, uint32_t rank,
                               const struct pst_instr *instr)
{
    uint64_t reach = plan->asynchronous ? 2 : 1; /* batches that a list works on */
    bool transfer = instr->op == PST_I_SEND || instr->op == PST_I_RECV;
    bool pass = pst_check_is_pass(instr->op), copy = pst_check_is_copy(instr->op);
    if (!transfer && !pass && !copy && instr->op != PST_I_STEP &&
        !pst_check_is_reduction(instr->op)) {
        return "unknown operation";
    }
    bool guest = pst_instr_moves_guest(instr);
    uint32_t limit = guest                     ? plan->n_stages
                     : transfer                ? plan->n_edges
                     : instr->op == PST_I_TIE  ? plan->n_ties
                     : instr->op == PST_I_NORM ? 1
                                               : plan->n_stages;
    if (instr->stage >= limit) {
        return "stage, edge or tie out of range";
    }
    if (pass || copy ? instr->microbatch >= reach * plan->stages[instr->stage].n_microbatches
                     : instr->microbatch != 0) {
        return "micro-batch out of range";
    }
    if (copy ? instr->node >= n_ops : instr->node != 0) {
        return copy ? "operator out of range" : "a node where none belongs";
    }
    if (instr->at_part_head) {
        return "a mark of lists that are made from parts";
    }
    if (!transfer) {
        return instr->payload != 0 || instr->first_sample != 0 || instr->n_samples != 0 ||
                       instr->peer != 0
                   ? "fields of a transfer where none belong"
                   : NULL;
    }
    if (instr->payload >= PST_PAYLOAD_COUNT) {
        return "unknown payload";
    }
    if (guest && plan->asynchronous) {
        return "guests on other devices are not available in asynchronous plans";
    }
    if (instr->peer >= plan->n_devices || instr->peer == rank) {
        return "the peer must be another device";
    }
    if (instr->n_samples == 0 || instr->first_sample >= reach * plan->batch ||
        instr->n_samples > reach * plan->batch - instr->first_sample) {
        return "samples outside the batch";
    }
    return NULL;
}

/* Copies run beside the list, from a pass to passes. */
static const char *copy_fault(const struct pst_check *check, const struct pst_instr *list,
                              uint32_t at, uint32_t n_apart)
{
    const struct pst_instr *instr = &list[at];
    bool copy = pst_check_is_copy(instr->op);
    if (copy && check->limits->forward_only) {
        return "a copy in a plan for evaluation";
    }
    if (copy && at >= n_apart &&
        (at == n_apart ||
         !(pst_check_is_pass(list[at - 1].op) || pst_check_is_copy(list[at - 1].op)))) {
        return "a copy must directly follow a pass or another copy";
    }
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        uint32_t op = list[instr->waits[w]].op;
        bool back = instr->op == PST_I_FETCH && op == PST_I_OFFLOAD;
        if (copy && !back && !pst_check_is_pass(op)) {
            return "a copy waits only for passes, FETCH also for OFFLOAD";
        }
        if (pst_check_is_copy(op) && !back && !pst_check_is_pass(instr->op)) {
            return "only passes wait for copies";
        }
    }
    return NULL;
}

static void check_list(struct pst_check *check, uint32_t rank, enum pst_part part)
{
    uint32_t n;
    const struct pst_instr *list = pst_plan_list(&check->plan->devices[rank], part, &n);
    uint32_t n_apart = check->plan->asynchronous && part != PST_FILL ? pst_plan_apart(list, n) : 0;
    char text[64];
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_instr *instr = &list[i];
        const char *fault = instr_fault(check->plan, check->graph->n_ops, rank, instr);
        if (fault == NULL && !ascending(instr->waits, instr->n_waits, i)) {
            fault = "waits must be ascending and name earlier instructions";
        }
        fault = fault == NULL ? copy_fault(check, list, i, n_apart) : fault;
        if (fault != NULL) {
            pst_check_add(check, "FORM1", rank, i, "%s%s: %s",
                          part == PST_FILL    ? "fill: "
                          : part == PST_DRAIN ? "drain: "
                                              : "",
                          pst_check_describe(instr, text), fault);
        }
    }
}

/* Delayed: two versions. Stashed: no more than micro-batches can be under way, and one, with sizes
   that are equal, as no two stages meet. */
static void check_slots(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        uint32_t n = stage->weight_versions;
        if (plan->version_rule == PST_VERSION_DELAYED && n != 2) {
            pst_check_add(check, "WVER2", PST_NONE, PST_NONE,
                          "stage %u keeps %u versions of its weights; the delayed rule reads 2", s,
                          n);
        }
        if (plan->version_rule != PST_VERSION_STASHED) {
            continue;
        }
        if (n == 0 || n > stage->n_microbatches + 1) {
            pst_check_add(check, "WVER2", PST_NONE, PST_NONE,
                          "stage %u keeps %u versions of its weights; one to %u are possible", s, n,
                          stage->n_microbatches + 1);
        }
        if (stage->n_microbatches != plan->stages[0].n_microbatches) {
            pst_check_add(check, "PART5", PST_NONE, PST_NONE,
                          "stage %u has %u micro-batches, stage 0 has %u; if every micro-batch "
                          "updates the weights, all stages have the same number",
                          s, stage->n_microbatches, plan->stages[0].n_microbatches);
        }
    }
    for (uint32_t t = 0; plan->version_rule == PST_VERSION_STASHED && t < plan->n_ties; t++) {
        if (plan->ties[t].n_stages > 1) {
            pst_check_add(
                check, "WVER2", PST_NONE, PST_NONE,
                "tie %u is over %u stages, whose weights differ if every micro-batch updates them",
                t, plan->ties[t].n_stages);
        }
    }
    if (plan->version_rule == PST_VERSION_STASHED && (plan->barrier || plan->deferred_step)) {
        pst_check_add(check, "WVER2", PST_NONE, PST_NONE,
                      "updates after every micro-batch with a barrier or deferred steps");
    }
}

static void check_zero(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    if (plan->zero > 3 || (plan->zero > 0 && plan->version_rule == PST_VERSION_STASHED)) {
        pst_check_add(
            check, "FORM1", PST_NONE, PST_NONE,
            "zero = %u with version rule %u; zero is 0 to 3, and 0 with rule 3, where every "
            "micro-batch makes an update",
            plan->zero, plan->version_rule);
    } else if (plan->zero >= 2 && (plan->version_rule != PST_VERSION_SYNC || plan->copies != 1)) {
        pst_check_add(
            check, "FORM1", PST_NONE, PST_NONE,
            "zero = %u with version rule %u and %u copies of the model; zero = 2 and 3 need "
            "version rule 1 and one copy",
            plan->zero, plan->version_rule, plan->copies);
    } else if (plan->prefetch > (plan->zero >= 2 ? PST_MOST_PREFETCH : 0)) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "prefetch = %u with zero = %u; prefetch is 0 to %d, and 0 with zero 0 and 1",
                      plan->prefetch, plan->zero, PST_MOST_PREFETCH);
    }
}

/* How the plan treats versions of the weights, and what goes with that. One for evaluation keeps
   the slots of the plan whose weights it reads, and with them its rule. */
static void check_mode(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    bool parts = false, twin = check->limits->forward_only && !plan->asynchronous;
    if (!pst_rule_is_known(plan->version_rule)) {
        pst_check_add(check, "WVER3", PST_NONE, PST_NONE,
                      "version rule %u; known are that of whole steps (1), the delayed one (2) and "
                      "the stashed one (3)",
                      plan->version_rule);
    }
    if (!twin && plan->asynchronous != pst_rule_is_asynchronous(plan->version_rule)) {
        pst_check_add(check, plan->asynchronous ? "WVER2" : "WVER1", PST_NONE, PST_NONE,
                      "%s plan with version rule %u",
                      plan->asynchronous ? "asynchronous" : "synchronous", plan->version_rule);
    }
    if (plan->asynchronous && check->limits->forward_only) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "an asynchronous plan for evaluation, which has no steps");
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        parts |= plan->devices[d].n_fill > 0 || plan->devices[d].n_drain > 0;
    }
    if (!plan->asynchronous &&
        (parts || (!twin && (plan->drain_every != 0 || plan->deferred_step)))) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "a synchronous plan with fill, drain, drain_every or deferred steps");
    }
    if (plan->copies < 1 || plan->copies > 2 || (plan->copies > 1 && plan->asynchronous)) {
        pst_check_add(check, "FORM1", PST_NONE, PST_NONE,
                      "%u copies of the model in %s plan; there are 1, or 2 in a synchronous one",
                      plan->copies, plan->asynchronous ? "an asynchronous" : "a synchronous");
    }
    check_zero(check);
    check_slots(check);
}

void pst_check_form(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    if (!pst_check_is_clean(check, check_counts)) {
        return;
    }
    if (!pst_check_is_clean(check, check_tensor)) {
        return;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        check_stage(check, s);
    }
    check_edges_and_ties(check);
    if (check->report->n_violations > 0 || !pst_check_is_clean(check, check_rows)) {
        return;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        check_guests(check, s);
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t part = 0; part < PST_PARTS; part++) {
            check_list(check, d, (enum pst_part)part);
        }
    }
    if (plan->graph_digest != check->graph->digest) {
        pst_check_add(check, "FORM2", PST_NONE, PST_NONE,
                      "made for graph %016llx, found %016llx; plan again for this model",
                      (unsigned long long)plan->graph_digest,
                      (unsigned long long)check->graph->digest);
    }
    check_mode(check);
}
