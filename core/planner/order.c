/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's question, from the plan's stages, edges and memory actions; and its answer.
 */

#include "plan/order_eval.h"
#include "plan/pass_rows.h"
#include "host/caps.h"
#include "planner/order_question.h"
#include "planner/state.h"

struct question {
    struct pst_order_question asked;
    uint32_t *device_of;  /* [rank] logical device */
    uint64_t *work_bytes; /* of each device: most that one pass takes */
};

/* Between B and W there may be more than before B: gradients, what was replayed. Where the
   scheduler has such a time as much is charged from F on. */
static void charge_late(struct pst_schedule_stage *row, uint64_t late_bytes, bool split)
{
    if (late_bytes > row->saved_bytes && split) {
        row->saved_bytes = late_bytes;
    }
    row->saved_weight_bytes = late_bytes < row->saved_bytes ? late_bytes : row->saved_bytes;
}

/* Off the room goes what is there in any case. That the largest pass is charged as if all else were
   held beside it covers the buffers of transfers for the most part. Where a layout has shown that
   it does not, and the order is the scheduler's to choose, they count as in prices. The view is the
   one that was built last. */
static void charge_room(const struct pst_planner *planner, const struct pst_plan *plan, uint32_t s,
                        struct pst_stage_view *view, uint64_t *room)
{
    const struct pst_plan_stage *stage = &plan->stages[s];

    view->stage = s;
    view->n_stages = plan->n_stages;
    view->in_flight = stage->in_flight;
    if (planner->attempt.exceeded &&
        pst_caps_has(planner->strategies.scheduler->plugin->provides, "within-memory")) {
        pst_view_transfers(planner, pst_plan_samples(stage), stage->n_microbatches, view);
    }
    if (*room != UINT64_MAX) {
        *room = *room > view->static_bytes ? *room - view->static_bytes : 0;
    }
}

/* As many rows as copies of a stage, one chain after the other. */
static void fill_copies(const struct pst_plan *plan, uint32_t s,
                        const struct pst_schedule_stage *row, struct question *q)
{
    for (uint32_t c = 0; c < plan->copies; c++) {
        struct pst_schedule_stage *copy = &q->asked.stages[c * plan->n_stages + s];

        *copy = *row;
        copy->device = q->device_of[pst_plan_copy_ranks(plan, &plan->stages[s], c)[0]];
    }
}

/* Adds the time in which passes wait for meetings of replicas. Of both backwards in one it is W's
   that B alone does not have. */
static void add_meetings(const struct pst_planner *planner, const struct pst_plan *plan, uint32_t s,
                         bool split, struct pst_times *times)
{
    uint64_t ns[PST_I_BW + 1], w;

    pst_stage_waits(plan, planner->in.graph, planner->in.cost, s, ns);
    w = split ? ns[PST_I_W] : ns[PST_I_BW] > ns[PST_I_B] ? ns[PST_I_BW] - ns[PST_I_B] : 0;
    times->forward_ns = pst_sat_add_ns(times->forward_ns, ns[PST_I_F]);
    times->backward_input_ns = pst_sat_add_ns(times->backward_input_ns, ns[PST_I_B]);
    times->backward_weight_ns = pst_sat_add_ns(times->backward_weight_ns, w);
}

/* Operators, and the meetings of replicas inside passes. */
static void time_stage(const struct pst_planner *planner, const struct pst_plan *plan, uint32_t s,
                       bool split, struct pst_times *ret_times)
{
    const struct pst_plan_stage *stage = &plan->stages[s];
    struct pst_cost_at at;

    pst_cost_stage(pst_cost_on(planner->in.cost, stage->ranks, stage->n_ranks, &at), stage->nodes,
                   stage->n_nodes, pst_plan_samples(stage), ret_times);
    add_meetings(planner, plan, s, split, ret_times);
}

/* Costs of one stage, and the room that it leaves for activations. */
static pst_status fill_stage(struct pst_planner *planner, const struct pst_plan *plan, uint32_t s,
                             struct question *q, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &plan->stages[s];
    const struct pst_stage_question question = pst_planner_question(plan, s);
    struct pst_schedule_stage made, *row = &made;
    uint32_t samples = pst_plan_samples(stage);
    struct pst_stage_view view;
    const struct pst_stage_node *nodes;
    struct pst_times times;
    uint64_t work = 0;
    uint32_t *replayed = pst_arena_array(&q->asked.arena, stage->n_nodes, sizeof *replayed);
    bool split;
    uint32_t i;
    pst_status status =
        pst_planner_splits(planner, plan->n_stages, stage->n_microbatches, &split, err);

    if (status != PST_OK) {
        return status;
    }
    nodes = pst_view_build(planner, &question, &view);
    pst_plan_replayed(stage, planner->in.graph, replayed);
    time_stage(planner, plan, s, split, &times);
    *row = (struct pst_schedule_stage){
        .microbatch_size = stage->microbatch_size / plan->copies,
        .n_microbatches = stage->n_microbatches,
        .k = stage->k,
        .forward_ns = times.forward_ns,
        .backward_input_ns = times.backward_input_ns,
        .backward_weight_ns = times.backward_weight_ns,
        .saved_bytes = view.input_bytes,
        .input_bytes = view.input_bytes,
    };
    for (i = 0; i < view.n_nodes; i++) {
        const struct pst_stage_node *node = &nodes[i];
        uint64_t most = node->forward_work_bytes > node->backward_work_bytes
                            ? node->forward_work_bytes
                            : node->backward_work_bytes;

        row->replay_ns += node->forward_ns * replayed[i];
        if (stage->actions[i] == PST_ACTION_KEEP) {
            row->saved_bytes += node->saved_bytes;
        } else if (replayed[i] > 0) {
            most += node->saved_bytes;
        }
        work = most > work ? most : work;
    }
    row->backward_input_ns += row->replay_ns;
    charge_late(row, pst_view_late_bytes(planner, stage->n_nodes, samples), split);
    fill_copies(plan, s, row, q);
    for (uint32_t c = 0; c < plan->copies; c++) {
        uint32_t device = q->asked.stages[c * plan->n_stages + s].device;

        if (work > q->work_bytes[device]) {
            q->work_bytes[device] = work;
        }
        charge_room(planner, plan, s, &view, &q->asked.activation_bytes[device]);
    }
    return PST_OK;
}

/* Samples of a micro-batch of `from` that go over one link: those of one rank, or fewer where more
   ranks share them. */
static uint32_t samples_a_link(const struct pst_plan_stage *from, const struct pst_plan_stage *to)
{
    uint32_t n = to->n_ranks > from->n_ranks ? to->n_ranks : from->n_ranks;

    return (from->microbatch_size + n - 1) / n;
}

static void fill_links(const struct pst_cost_model *cost, const struct pst_plan *plan,
                       struct pst_order_question *asked)
{
    for (uint32_t i = 0; i < plan->n_edges * plan->copies; i++) {
        const struct pst_plan_edge *edge = &plan->edges[i % plan->n_edges];
        const struct pst_plan_stage *from = &plan->stages[edge->from];
        const struct pst_plan_stage *to = &plan->stages[edge->to];
        uint32_t copy = i / plan->n_edges;

        asked->links[i] = (struct pst_schedule_link){
            .from = copy * plan->n_stages + edge->from,
            .to = copy * plan->n_stages + edge->to,
            .transfer_ns = pst_cost_transfer_ns(
                cost, edge->bytes_per_sample * samples_a_link(from, to),
                pst_plan_copy_ranks(plan, from, copy)[0], pst_plan_copy_ranks(plan, to, copy)[0]),
        };
    }
    pst_order_question_connect(asked);
}

/* Logical devices, and the rank that stands for each. */
static uint32_t find_devices(struct question *q, const struct pst_plan *plan, uint32_t *first_rank)
{
    uint32_t n;

    q->device_of = pst_arena_array(&q->asked.arena, plan->n_devices, sizeof *q->device_of);
    n = pst_plan_logical(plan, q->device_of);
    for (uint32_t r = plan->n_devices; r-- > 0;) {
        first_rank[q->device_of[r]] = r;
    }
    return n;
}

static pst_status make_question(struct question *q, struct pst_planner *planner,
                                const struct pst_plan *plan, bool limited, struct pst_error *err)
{
    uint32_t *first_rank = pst_arena_array(&planner->arena, plan->n_devices, sizeof *first_rank);
    uint32_t s, d, n_devices = find_devices(q, plan, first_rank);
    pst_status status = PST_OK;

    planner->devices.first_rank = first_rank;
    pst_order_question_alloc(&q->asked, n_devices, plan->n_stages * plan->copies,
                             plan->n_edges * plan->copies);
    q->work_bytes = pst_arena_array(&q->asked.arena, n_devices, sizeof *q->work_bytes);
    for (uint32_t r = 0; limited && r < plan->n_devices; r++) { /* the smallest of its ranks */
        uint64_t *room = &q->asked.activation_bytes[q->device_of[r]];
        uint64_t of = pst_planner_capacity(planner, &r, 1);

        *room = of < *room ? of : *room;
    }
    for (s = 0; status == PST_OK && s < plan->n_stages; s++) {
        status = fill_stage(planner, plan, s, q, err);
    }
    for (d = 0; d < n_devices; d++) { /* one pass at a time works */
        uint64_t *room = &q->asked.activation_bytes[d];

        if (*room != UINT64_MAX) {
            *room = *room > q->work_bytes[d] ? *room - q->work_bytes[d] : 0;
        }
    }
    if (status == PST_OK) {
        fill_links(planner->in.cost, plan, &q->asked);
        q->asked.in.slices = planner->in.graph->slices;
        q->asked.in.barrier = plan->version_rule == PST_VERSION_SYNC && plan->barrier;
    }
    return status;
}

/* A pass of a copy is one of its stage: which copy, the device says. */
static void join_copies(const struct pst_plan *plan, struct pst_orders *orders)
{
    for (uint32_t d = 0; plan->copies > 1 && d < orders->n_devices; d++) {
        for (uint32_t i = 0; i < orders->n_passes[PST_BODY][d]; i++) {
            orders->passes[PST_BODY][d][i].stage %= plan->n_stages;
        }
    }
}

/* From logical devices to ranks: each runs the list of its logical device. */
static void spread_to_ranks(const struct question *q, const struct pst_plan *plan,
                            struct pst_orders *orders)
{
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        struct pst_pass **passes = pst_arena_array(&orders->arena, plan->n_devices, sizeof *passes);
        uint32_t *n = pst_arena_array(&orders->arena, plan->n_devices, sizeof *n);

        for (uint32_t r = 0; orders->passes[part] != NULL && r < plan->n_devices; r++) {
            passes[r] = orders->passes[part][q->device_of[r]];
            n[r] = orders->n_passes[part][q->device_of[r]];
        }
        orders->passes[part] = passes;
        orders->n_passes[part] = n;
    }
    orders->n_devices = plan->n_devices;
}

/* Warns where the scheduler says other times than an evaluation of its answer. An order that cannot
   be satisfied is for the lowering to explain. */
static void check_claim(const struct pst_instance *scheduler, const struct pst_schedule_in *in,
                        const struct pst_orders *orders)
{
    struct pst_order_eval eval;
    struct pst_error unused;

    if (scheduler->claim.size != 0 &&
        pst_order_evaluate(in, (const struct pst_pass *const *)orders->passes[PST_BODY],
                           orders->n_passes[PST_BODY], &eval, &unused) == PST_OK) {
        pst_claim_check(scheduler->plugin->id, &scheduler->claim, eval.makespan_ns, eval.span_ns,
                        1e3);
        pst_order_eval_finish(&eval);
    }
}

static pst_status ask_scheduler(struct pst_planner *planner, struct pst_plan *plan, bool limited,
                                struct pst_orders *ret_orders, struct pst_error *err)
{
    /* Trials rank cuts; a scheduler that searches for seconds would do so for each of them. */
    const struct pst_strategies *all = &planner->strategies;
    struct pst_instance *scheduler =
        planner->asked != NULL && all->hasty != NULL ? all->hasty : all->scheduler;
    struct question q = {.device_of = NULL};
    struct pst_orders_count held;
    pst_status status = make_question(&q, planner, plan, limited, err);

    PST_TRY(status, pst_orders_ask(scheduler, &q.asked.in, &plan->asynchronous, &planner->pending,
                                   ret_orders, err));
    if (status == PST_OK && ret_orders->split) {
        status = pst_caps_require(scheduler->plugin, "split-backward", "B and W passes", err);
    }
    if (status == PST_OK) {
        held = pst_orders_count(ret_orders, &q.asked.in, &q.asked.arena);
        for (uint32_t s = 0; s < q.asked.in.n_stages; s++) {
            struct pst_plan_stage *stage = &plan->stages[s % plan->n_stages];

            stage->in_flight = s < plan->n_stages || held.most[s] > stage->in_flight
                                   ? held.most[s]
                                   : stage->in_flight;
        }
        if (!ret_orders->asynchronous) {
            check_claim(scheduler, &q.asked.in, ret_orders);
        }
        if (planner->asked == NULL && plan->copies == 1) {
            planner->faults.held = pst_held_judge(scheduler, &q.asked.in, ret_orders);
        }
        join_copies(plan, ret_orders);
        spread_to_ranks(&q, plan, ret_orders);
    }
    pst_order_question_finish(&q.asked);
    return status;
}

static bool may_save(const struct pst_strategies *strategies)
{
    for (uint32_t i = 0; i < strategies->n_memopt; i++) {
        const char *const *provides = strategies->memopt[i]->plugin->provides;

        if (pst_caps_has(provides, "recompute") || pst_caps_has(provides, "offload")) {
            return true;
        }
    }
    return false;
}

/* A scheduler without room for its order says no and not by how much. Where actions can make room
   it is asked for the order as if there were enough, and the layout tells what is missing. */
pst_status pst_planner_order(struct pst_planner *planner, struct pst_plan *plan,
                             struct pst_orders *ret_orders, struct pst_error *err)
{
    const struct pst_strategies *strategies = &planner->strategies;
    struct pst_error why = {.status = PST_OK};
    pst_status status = ask_scheduler(planner, plan, true, ret_orders, &why);

    if (status == PST_ERR_INFEASIBLE && planner->attempt.capacity_bytes != UINT64_MAX &&
        may_save(strategies) &&
        !pst_caps_has(strategies->scheduler->plugin->provides, "within-memory")) {
        return ask_scheduler(planner, plan, false, ret_orders, err);
    }
    if (status != PST_OK && err != NULL) {
        *err = why;
    }
    return status;
}
