/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowers orders of passes to instruction lists (docs/internals/lowering.md). Stages and passes have
 * come through the planner's intake (stage_rules.c, schedule_intake.c): samples can be dealt out,
 * ranks that share a stage share all in the same order of replicas, and every micro-batch passes
 * every stage. Here every pass is timed with the cost model, each as early as its order allows,
 * which also shows that the orders of all devices together can be satisfied.
 */
#include "plan/lower.h"
#include "plan/order_run.h"
#include "plan/pass_rows.h"
#include "plan/shards.h"

/* --- what is taken -----------------------------------------------------------------------------*/

/* Every rank has one home; its stages have the same ranks, each copy in the same order. */
static void find_homes(struct pst_lowering *low)
{
    const struct pst_plan *plan = low->plan;

    low->home = pst_arena_none(&low->arena, plan->n_devices);
    low->replica = pst_arena_array(&low->arena, plan->n_devices, sizeof *low->replica);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        PST_ASSERT(stage->tensor == 1 && plan->batch % stage->microbatch_size == 0 &&
                   stage->microbatch_size % stage->n_ranks == 0);
        for (uint32_t r = 0; r < stage->n_ranks; r++) {
            uint32_t *home = &low->home[stage->ranks[r]];

            *home = *home == PST_NONE ? s : *home;
            low->replica[stage->ranks[r]] = *home == s ? r : low->replica[stage->ranks[r]];
            PST_ASSERT(plan->stages[*home].n_ranks == stage->n_ranks &&
                       pst_plan_shares(&plan->stages[*home], stage) &&
                       (plan->copies > 1 || plan->stages[*home].ranks[r] == stage->ranks[r]));
        }
    }
}

static pst_status check_supported(const struct pst_lowering *low, struct pst_error *err)
{
    const struct pst_plan *plan = low->plan;

    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];

        PST_ASSERT(edge->from < edge->to);
        if (pst_lowering_together(low, edge->from, edge->to) &&
            plan->stages[edge->from].microbatch_size != plan->stages[edge->to].microbatch_size) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "stages %u and %u share a device but not a micro-batch size",
                            edge->from, edge->to);
        }
    }
    return PST_OK;
}

/* --- times -------------------------------------------------------------------------------------*/

static void index_edges(struct pst_lowering *low)
{
    const struct pst_plan *plan = low->plan;

    low->in_first = pst_arena_array(&low->arena, plan->n_stages + 2, sizeof *low->in_first);
    low->out_first = pst_arena_array(&low->arena, plan->n_stages + 2, sizeof *low->out_first);
    low->in_edges = pst_arena_array(&low->arena, plan->n_edges, sizeof *low->in_edges);
    low->edge_grad = pst_arena_array(&low->arena, plan->n_edges, sizeof *low->edge_grad);
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];

        for (uint32_t i = 0; i < edge->n_tensors; i++) {
            low->edge_grad[e] |= low->training && low->graph->tensors[edge->tensors[i]].needs_grad;
        }
        low->out_first[edge->from + 1]++;
        low->in_first[edge->to + 2]++;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        low->out_first[s + 1] += low->out_first[s];
        low->in_first[s + 2] += low->in_first[s + 1];
    }
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        low->in_edges[low->in_first[plan->edges[e].to + 1]++] = e;
    }
}

static void time_stages(struct pst_lowering *low)
{
    const struct pst_plan *plan = low->plan;
    const uint32_t n = low->graph->slices;

    low->pass_ns = pst_arena_array(&low->arena, (size_t)plan->n_stages * n, sizeof *low->pass_ns);
    low->together = pst_arena_array(&low->arena, plan->n_stages, sizeof *low->together);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        low->together[s] = plan->copies == 1 && pst_plan_scattered_bytes(plan, low->graph, s) > 0;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        struct pst_arena temporary = {0};
        struct pst_stage_rows rows = {.stage = s};

        if (plan->zero >= 2) {
            pst_stage_rows_make(plan, low->graph, low->cost, s, &temporary, &rows);
        }
        for (uint32_t slice = 0; slice < n; slice++) {
            uint64_t *ns = low->pass_ns[s * n + slice], summed[PST_I_R + 1];

            pst_stage_times(&rows, plan, low->graph, low->cost, slice, true, ns, summed);
            ns[PST_PASS_W] = summed[PST_I_W];
            ns[PST_PASS_BW] = summed[PST_I_BW];
        }
        pst_arena_finish(&temporary);
    }
}

/* Where each pass stands in the order of its ranks, which is that of the first of them, or of each
   copy. */
static void index_passes(struct pst_lowering *low)
{
    const struct pst_plan *plan = low->plan;
    size_t rows = 0;

    low->base = pst_arena_array(&low->arena, plan->n_stages + 1, sizeof *low->base);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        low->base[s] = (uint32_t)rows;
        rows += plan->copies * plan->stages[s].n_microbatches;
    }
    for (uint32_t op = PST_PASS_F; op <= PST_PASS_R; op++) {
        low->at[op] = pst_arena_none(&low->arena, rows);
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        for (uint32_t i = 0; i < low->n_passes[r]; i++) {
            const struct pst_pass *pass = &low->orders[r][i];
            const struct pst_plan_stage *stage = &plan->stages[pass->stage];
            uint32_t replica = pst_lowering_replica(low, r, pass->stage), row;

            PST_ASSERT(replica != PST_NONE && pass->op < PST_PASS_R &&
                       pass->microbatch < stage->n_microbatches);
            row = pst_lowering_row(low, pass->stage, replica, pass->microbatch);
            if (replica % pst_plan_width(plan, stage) == 0) {
                PST_ASSERT(low->at[pass->op][row] == PST_NONE);
                low->at[pass->op][row] = i;
            }
        }
    }
}

/* A pass of the other stage of an edge, which has a sample that a pass of this rank reads. */
static struct pst_order_need need_over(const struct pst_lowering *low, uint32_t edge,
                                       uint32_t other, uint32_t rank, uint32_t sample,
                                       bool backward)
{
    const struct pst_plan_stage *stage = &low->plan->stages[other];
    const uint32_t replica = pst_plan_replica_of(stage, sample), from = stage->ranks[replica];
    const uint32_t microbatch = sample / stage->microbatch_size;
    const uint32_t row = pst_lowering_row(low, other, replica, microbatch);
    const uint64_t bytes = low->plan->edges[edge].bytes_per_sample * pst_plan_samples(stage);

    return (struct pst_order_need){
        {from, backward ? pst_lowering_backward(low, row) : low->at[PST_PASS_F][row]},
        from != rank ? pst_cost_transfer_ns(low->cost, bytes, from, rank) : 0,
        {backward ? PST_PASS_B : PST_PASS_F, other, microbatch}};
}

/* Need number i of a pass: its own earlier pass, then each pass beyond an edge that shares samples
   with it. */
static bool find_need(const void *of, uint32_t rank, const struct pst_pass *pass, uint32_t i,
                      struct pst_order_need *ret_need)
{
    const struct pst_lowering *low = of;
    const struct pst_plan *plan = low->plan;
    const uint32_t s = pass->stage, replica = pst_lowering_replica(low, rank, s);
    const uint32_t first = pst_plan_first_sample(&plan->stages[s], replica, pass->microbatch);
    const uint32_t last = first + pst_plan_samples(&plan->stages[s]) - 1;
    const bool forward = pass->op == PST_PASS_F;
    const uint32_t *edges = forward ? low->in_first : low->out_first;

    if (!forward && i-- == 0) {
        const uint8_t op = pass->op == PST_PASS_W ? PST_PASS_B : PST_PASS_F;
        const uint32_t row = pst_lowering_row(low, s, replica, pass->microbatch);

        *ret_need = (struct pst_order_need){{rank, low->at[op][row]}, 0, {op, s, pass->microbatch}};
        return true;
    }
    for (uint32_t at = edges[s]; at < edges[s + 1] && pass->op != PST_PASS_W; at++) {
        const uint32_t e = forward ? low->in_edges[at] : at;
        const uint32_t other = forward ? plan->edges[e].from : plan->edges[e].to;
        const uint32_t share = pst_plan_samples(&plan->stages[other]);
        const uint32_t n = forward || low->edge_grad[e] ? last / share - first / share + 1 : 0;

        if (i < n) {
            *ret_need = need_over(low, e, other, rank, (first / share + i) * share, !forward);
            return true;
        }
        i -= n;
    }
    return false;
}

/* The replicas of a stage that sum gradients in a pass, or gather weights, begin it together. */
static const uint32_t *find_group(const void *of, const struct pst_pass *pass, uint32_t *ret_n)
{
    const struct pst_lowering *low = of;
    const bool meets = pass->op == PST_PASS_W || pass->op == PST_PASS_BW || low->plan->zero >= 3;

    *ret_n = low->plan->stages[pass->stage].n_ranks;
    return meets && low->together[pass->stage] ? low->plan->stages[pass->stage].ranks : NULL;
}

static uint64_t duration_of(const void *of, const struct pst_pass *pass)
{
    return pst_lowering_pass_ns(of, pass);
}

pst_status pst_lowering_prepare(struct pst_lowering *low, struct pst_error *err)
{
    struct pst_order_run run = {.n_devices = low->plan->n_devices,
                                .passes = low->orders,
                                .n_passes = low->n_passes,
                                .of = low,
                                .need = find_need,
                                .duration_ns = duration_of,
                                .together = find_group,
                                .rule = "LIVE1: "};
    pst_status status;

    find_homes(low);
    status = check_supported(low, err);
    if (status != PST_OK) {
        return status;
    }
    index_edges(low);
    time_stages(low);
    index_passes(low);
    status = pst_order_run(&run, &low->arena, err);
    low->end_ns = run.end_ns;
    return status;
}

/* --- orders ------------------------------------------------------------------------------------*/

/* Writes the lists of the plan. ret_start_ns, ret_end_ns: of its passes, or NULL. */
static pst_status lower_orders(struct pst_lowering low, uint64_t *const *ret_start_ns,
                               uint64_t *const *ret_end_ns, struct pst_error *err)
{
    struct pst_parts parts = {.plan = low.plan, .low = &low};
    uint32_t n_devices = low.plan->n_devices;
    pst_status status = pst_lowering_prepare(&low, err);

    PST_TRY(status, pst_lowering_guests_possible(&low, err));
    if (status == PST_OK) {
        uint32_t *none = pst_arena_array(&low.arena, n_devices, sizeof *none);

        parts.passes[PST_BODY] = low.orders;
        parts.n_passes[PST_BODY] = low.n_passes;
        parts.n_passes[PST_FILL] = parts.n_passes[PST_DRAIN] = none;
        status = pst_lowering_write(&parts, err);
    }
    for (uint32_t r = 0; status == PST_OK && ret_end_ns != NULL && r < n_devices; r++) {
        for (uint32_t i = 0; i < low.n_passes[r]; i++) {
            ret_end_ns[r][i] = low.end_ns[r][i];
            ret_start_ns[r][i] = low.end_ns[r][i] - pst_lowering_pass_ns(&low, &low.orders[r][i]);
        }
    }
    pst_arena_finish(&low.arena);
    return status;
}

pst_status pst_plan_lower_timed(struct pst_plan *plan, const struct pst_graph *graph,
                                const struct pst_cost_model *cost,
                                const struct pst_pass *const *orders, const uint32_t *n_passes,
                                uint64_t *const *ret_start_ns, uint64_t *const *ret_end_ns,
                                struct pst_error *err)
{
    const struct pst_lowering low = {.plan = plan,
                                     .graph = graph,
                                     .cost = cost,
                                     .orders = orders,
                                     .n_passes = n_passes,
                                     .training = true};

    return lower_orders(low, ret_start_ns, ret_end_ns, err);
}

pst_status pst_plan_lower(struct pst_plan *plan, const struct pst_graph *graph,
                          const struct pst_cost_model *cost, const struct pst_pass *const *orders,
                          const uint32_t *n_passes, bool training, struct pst_error *err)
{
    const struct pst_lowering low = {.plan = plan,
                                     .graph = graph,
                                     .cost = cost,
                                     .orders = orders,
                                     .n_passes = n_passes,
                                     .training = training};

    return lower_orders(low, NULL, NULL, err);
}

/* --- forward-only twin -------------------------------------------------------------------------*/

/* A pass is due when the last of its samples is: stages of one rank may differ in size. */
static void twin_orders(const struct pst_plan *twin, struct pst_arena *arena,
                        struct pst_pass **orders, uint32_t *n_passes)
{
    for (uint32_t r = 0; r < twin->n_devices; r++) {
        size_t n = 0;

        for (uint32_t s = 0; s < twin->n_stages; s++) {
            n += pst_plan_replica(&twin->stages[s], r) != PST_NONE ? twin->stages[s].n_microbatches
                                                                   : 0;
        }
        orders[r] = pst_arena_array(arena, n, sizeof **orders);
        for (uint32_t due = 1; due <= twin->batch && n_passes[r] < n; due++) {
            for (uint32_t s = 0; s < twin->n_stages; s++) {
                const struct pst_plan_stage *stage = &twin->stages[s];

                if (due % stage->microbatch_size == 0 && pst_plan_replica(stage, r) != PST_NONE) {
                    orders[r][n_passes[r]++] =
                        (struct pst_pass){PST_PASS_F, s, due / stage->microbatch_size - 1};
                }
            }
        }
    }
}

/* Stages of the twin on the groups of the plan. */
static pst_status add_twin_stages(const struct pst_plan *plan, struct pst_plan *twin,
                                  const uint32_t *group_of, uint32_t microbatch,
                                  struct pst_arena *arena, struct pst_error *err)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        const uint32_t size = microbatch > 0 ? microbatch : stage->microbatch_size;
        const uint32_t n = pst_plan_replicas(stage);
        uint32_t *groups = pst_arena_array(arena, n, sizeof *groups);

        for (uint32_t r = 0; r < n; r++) {
            groups[r] = group_of[stage->ranks[r * stage->tensor]];
        }
        pst_plan_add_stage(twin, stage->nodes, stage->n_nodes, groups, n, size, stage->k);
        twin->stages[s].weight_versions = stage->weight_versions;
        if (twin->batch % size != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "evaluation batch %u is not divisible by micro-batch size %u",
                            twin->batch, size);
        }
    }
    return PST_OK;
}

static void expand_twin(const struct pst_plan *plan, const struct pst_graph *graph,
                        struct pst_plan **io_twin)
{
    struct pst_plan *groups = *io_twin;

    if (pst_plan_tensor(plan) > 1) {
        pst_plan_expand(groups, graph, plan->n_devices, io_twin);
        pst_plan_destroy(groups);
    }
    pst_plan_copy_devices(*io_twin, plan);
}

pst_status pst_plan_forward_twin(const struct pst_plan *plan, const struct pst_graph *graph,
                                 const struct pst_cost_model *cost, uint32_t batch,
                                 uint32_t microbatch, struct pst_plan **ret_plan,
                                 struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_plan *twin = NULL;
    uint32_t *group_of = pst_arena_array(&arena, plan->n_devices, sizeof *group_of);
    const uint32_t n_groups = pst_plan_groups(plan, group_of);
    struct pst_pass **orders = pst_arena_array(&arena, n_groups, sizeof *orders);
    uint32_t *n_passes = pst_arena_array(&arena, n_groups, sizeof *n_passes);
    pst_status status;

    pst_plan_create(graph, batch, n_groups, &twin);
    status = add_twin_stages(plan, twin, group_of, microbatch, &arena, err);
    twin->optimizer_slots = plan->optimizer_slots;
    twin->copies = plan->copies;
    twin->zero = plan->zero;
    twin->prefetch = plan->prefetch;
    twin->version_rule = plan->version_rule; /* what lives all the time is the same */
    twin->deferred_step = plan->deferred_step;
    twin->kept_output = graph->logits;
    PST_TRY(status, pst_plan_connect(twin, graph, err));
    if (status == PST_OK) {
        twin_orders(twin, &arena, orders, n_passes);
        status = pst_plan_lower(twin, graph, cost, (const struct pst_pass *const *)orders, n_passes,
                                false, err);
    }
    if (status == PST_OK) {
        expand_twin(plan, graph, &twin);
        *ret_plan = twin;
        twin = NULL;
    }
    pst_plan_destroy(twin);
    pst_arena_finish(&arena);
    return status;
}
