/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/plan_report.h"
#include "reports/partition_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/pass_calls.h"
#include "plan/pass_rows.h"

/* Adds the bytes that a device keeps for others to the first stage on it. */
static void add_guests(const struct pst_plan *plan, uint32_t rank, uint64_t bytes,
                       struct pst_stage_report *stages)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (plan->stages[s].ranks[0] == rank) {
            stages[s].guest_bytes = bytes;
            stages[s].activation_bytes += bytes;
            return;
        }
    }
}

/* The rank that holds most of a stage for the whole run: with pieces they differ. */
static uint32_t fullest_rank(const struct pst_session *session, uint32_t s)
{
    const struct pst_plan_stage *stage = &session->planned.plan->stages[s];
    uint64_t most = 0;
    uint32_t rank = stage->ranks[0];

    for (uint32_t r = 0; session->planned.plan->zero > 0 && r < stage->n_ranks; r++) {
        const struct pst_program *program = session->planned.programs[stage->ranks[r]];
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < program->n_values; i++) {
            const struct pst_value *value = &program->values[i];

            bytes += value->is_static && value->stage == s ? value->bytes : 0;
        }
        rank = bytes > most ? stage->ranks[r] : rank;
        most = bytes > most ? bytes : most;
    }
    return rank;
}

static void add_memory(const struct pst_session *session, struct pst_stage_report *stages)
{
    const struct pst_plan *plan = session->planned.plan;
    uint32_t *shown = pst_alloc(plan->n_stages, sizeof *shown);

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        shown[s] = fullest_rank(session, s);
    }
    for (uint32_t rank = 0; rank < plan->n_devices; rank++) {
        const struct pst_program *program = session->planned.programs[rank];
        uint64_t guest_bytes = 0;
        uint32_t tick = program->peak_tick;

        for (uint32_t i = 0; i < program->n_values; i++) {
            const struct pst_value *value = &program->values[i];
            struct pst_stage_report *stage = &stages[value->stage];

            if (value->kind == PST_V_GUEST && value->first <= tick && tick <= value->last) {
                guest_bytes += value->bytes;
            }
            if (shown[value->stage] != rank || value->kind == PST_V_HOST) {
                continue;
            }
            if (value->is_static) {
                stage->static_bytes += value->bytes;
            } else if (value->first <= tick && tick <= value->last) {
                stage->activation_bytes += value->bytes;
            }
        }
        add_guests(plan, rank, guest_bytes, stages);
    }
    free(shown);
}

/* Parameters that operators of the stage use, each once. */
static uint64_t count_parameters(const struct pst_session *session, uint32_t stage)
{
    const struct pst_program *program =
        session->planned.programs[session->planned.plan->stages[stage].ranks[0]];
    uint64_t count = 0;

    for (uint32_t i = 0; i < program->n_params; i++) {
        if (program->params[i].stage == stage) {
            count += session->graph->params[program->params[i].parameter].elems;
        }
    }
    return count;
}

/* The tensors that backward passes of the stage read, or would read if nothing was recomputed. */
static bool *find_read(const struct pst_graph *graph, const struct pst_plan_stage *stage, bool kept)
{
    uint8_t *keep = pst_alloc((size_t)stage->n_nodes + 1, sizeof *keep);
    bool *read = pst_alloc((size_t)graph->n_tensors + 1, sizeof *read);
    struct pst_plan_stage all = *stage;

    all.actions = keep; /* PST_ACTION_KEEP */
    all.n_replays = 0;
    pst_plan_saved(kept ? &all : stage, graph, read);
    free(keep);
    return read;
}

/* Returns the bytes that an operator saves for backward passes of its stage; others have copies. */
static uint64_t saved_bytes(const struct pst_graph *graph, const bool *read, uint32_t op,
                            uint32_t samples)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < graph->ops[op].n_out; i++) {
        const struct pst_tensor *tensor = &graph->tensors[graph->ops[op].out[i]];

        bytes += read[graph->ops[op].out[i]] ? pst_tensor_bytes(tensor, samples) : 0;
    }
    return bytes;
}

/* By action: how many operators, bytes, what it costs. */
static void add_actions(const struct pst_session *session, const struct pst_plan_stage *stage,
                        struct pst_stage_report *report)
{
    uint32_t *times_again = pst_alloc((size_t)stage->n_nodes + 1, sizeof *times_again);
    uint32_t samples = pst_plan_samples(stage);
    bool *read = find_read(session->graph, stage, false);
    bool *spared = find_read(session->graph, stage, true);
    struct pst_cost_at at;
    const struct pst_cost_model *cost =
        pst_cost_on(&session->cost, stage->ranks, stage->n_ranks, &at);

    const struct pst_pass_scale scale =
        pst_cost_host_scale(cost, stage->nodes, stage->n_nodes, samples);

    pst_plan_replayed(stage, session->graph, times_again);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        const bool again = stage->actions[i] == PST_ACTION_RECOMPUTE;
        const uint64_t bytes =
            saved_bytes(session->graph, again ? spared : read, stage->nodes[i], samples);
        struct pst_times times;

        pst_cost_share(cost, &scale, stage->nodes[i], samples, &times);
        report->recompute_ns += times.forward_ns * times_again[i];
        switch (stage->actions[i]) {
        case PST_ACTION_RECOMPUTE:
            report->n_recomputed++;
            report->recomputed_bytes += bytes;
            break;
        case PST_ACTION_OFFLOAD:
            report->n_offloaded++;
            report->offloaded_bytes += bytes;
            break;
        case PST_ACTION_PEER:
            report->n_peers++;
            report->peer_bytes += bytes;
            break;
        default:
            report->kept_bytes += bytes;
            break;
        }
    }
    report->link_ns = pst_cost_host_ns(cost, report->offloaded_bytes) *
                      (uint64_t)session->cluster.link_directions;
    free(times_again);
    free(spared);
    free(read);
}

/* The kinds of a stage's devices, each once. */
static void list_kinds(const struct pst_plan *plan, const struct pst_plan_stage *stage, char *text,
                       size_t size)
{
    text[0] = '\0';
    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        const char *kind = plan->devices[stage->ranks[r]].kind;
        bool known = kind == NULL;

        for (uint32_t q = 0; q < r && !known; q++) {
            known = strcmp(plan->devices[stage->ranks[q]].kind, kind) == 0;
        }
        if (!known) {
            pst_text_append(text, size, "%s%s", text[0] != '\0' ? ", " : "", kind);
        }
    }
}

static void describe(const struct pst_session *session, uint32_t id,
                     struct pst_stage_report *ret_stage)
{
    const struct pst_plan_stage *stage = &session->planned.plan->stages[id];
    struct pst_cost_at at;
    struct pst_times times;

    pst_cost_stage(pst_cost_on(&session->cost, stage->ranks, stage->n_ranks, &at), stage->nodes,
                   stage->n_nodes, pst_plan_samples(stage), &times);
    ret_stage->stage = id;
    ret_stage->plan = *stage;
    list_kinds(session->planned.plan, stage, ret_stage->kinds, sizeof ret_stage->kinds);
    ret_stage->n_operators = stage->n_nodes;
    ret_stage->first_operator = session->graph->ops[stage->nodes[0]].name;
    ret_stage->last_operator = session->graph->ops[stage->nodes[stage->n_nodes - 1]].name;
    ret_stage->forward_ns = times.forward_ns;
    ret_stage->backward_ns = times.backward_input_ns + times.backward_weight_ns;
    ret_stage->parameters = count_parameters(session, id);
    add_actions(session, stage, ret_stage);
}

/* Returns the compute time of a step on the stage's first rank, without replays. */
static double compute_ns(const struct pst_plan *plan, const struct pst_stage_report *stages,
                         uint32_t id)
{
    return (double)(stages[id].forward_ns + stages[id].backward_ns) *
           plan->stages[id].n_microbatches;
}

/* How long links are occupied: the longer of what comes in and what goes out, activations one way,
   gradients the other. */
static double transfers_ns(const struct pst_session *session, uint32_t id)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_plan_stage *stage = &plan->stages[id];
    double in = 0, out = 0;

    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        uint32_t other = edge->from == id ? edge->to : edge->from;

        if (edge->from == id || edge->to == id) {
            const uint64_t bytes = edge->bytes_per_sample * pst_plan_samples(stage);
            const uint32_t own = stage->ranks[0], far = plan->stages[other].ranks[0];
            double *sum = edge->from == id ? &out : &in;

            *sum += (double)pst_cost_transfer_ns(&session->cost, bytes, own, far) -
                    (double)pst_cost_transfer_ns(&session->cost, 0, own, far);
        }
    }
    return (in > out ? in : out) * stage->n_microbatches;
}

/* Sums of gradients over replicas and what brings weights to all, as far as passes wait for it: the
   last sum of an update, and what brings weights, is the all-reduce without ZeRO 3. */
static double sums_ns(const struct pst_session *session, uint32_t id, uint64_t parameters)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_plan_stage *stage = &plan->stages[id];
    uint64_t waits[PST_I_BW + 1], whole, inside;
    struct pst_cost_at at;
    double passes;

    pst_stage_waits(plan, session->graph, &session->cost, id, waits);
    passes = (double)(waits[PST_I_F] + waits[PST_I_BW]) * stage->n_microbatches;
    if (plan->zero >= 3) {
        return passes;
    }
    whole = pst_cost_allreduce_ns(pst_cost_on(&session->cost, stage->ranks, stage->n_ranks, &at),
                                  parameters * sizeof(float), pst_plan_replicas(stage));
    inside = pst_plan_stage_scatter_ns(plan, session->graph, &session->cost, id);
    return passes + (double)(whole > inside ? whole - inside : 0);
}

/* shares: of each device's compute in that of the busiest one. */
static void set_limit(const struct pst_session *session, const double *shares,
                      struct pst_stage_report *stages, uint32_t id)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_plan_stage *stage = &plan->stages[id];
    struct pst_stage_report *r = &stages[id];
    uint64_t capacity = pst_plan_capacity(plan, stage->ranks[0]);
    double memory = capacity == UINT64_MAX || capacity == 0
                        ? 0
                        : (double)plan->devices[stage->ranks[0]].arena_bytes / (double)capacity;

    r->limited_by =
        pst_report_limit(memory, shares[stage->ranks[0]], compute_ns(plan, stages, id),
                         transfers_ns(session, id), sums_ns(session, id, r->parameters));
}

static void add_limits(const struct pst_session *session, struct pst_stage_report *stages)
{
    const struct pst_plan *plan = session->planned.plan;
    double *shares = pst_alloc((size_t)plan->n_devices + 1, sizeof *shares), most = 0;

    for (uint32_t i = 0; i < plan->n_stages; i++) {
        for (uint32_t r = 0; r < plan->stages[i].n_ranks; r++) {
            double *share = &shares[plan->stages[i].ranks[r]];

            *share += compute_ns(plan, stages, i);
            most = *share > most ? *share : most;
        }
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        shares[d] /= most > 0 ? most : 1;
    }
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        set_limit(session, shares, stages, i);
    }
    free(shares);
}

void pst_plan_report_stages(const struct pst_session *session, struct pst_stage_report **ret_stages)
{
    uint32_t n = session->planned.plan->n_stages;
    struct pst_stage_report *stages = pst_alloc(n, sizeof *stages);

    for (uint32_t i = 0; i < n; i++) {
        describe(session, i, &stages[i]);
    }
    add_memory(session, stages);
    add_limits(session, stages);
    for (uint32_t i = 0; i < n; i++) {
        stages[i].total_bytes = stages[i].static_bytes + stages[i].activation_bytes;
    }
    *ret_stages = stages;
}
