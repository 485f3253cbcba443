/* SPDX-License-Identifier: Apache-2.0
 *
 * A partition through the hands of a scheduler and a memory optimizer: what each stage holds, what
 * becomes of its saved tensors, the order of all passes, the time of a step. Repeated where the
 * order holds more than was promised.
 */
#include <stdlib.h>
#include <string.h>

#include "ask/problem_state.h"
#include "base/memory.h"
#include "host/caps.h"
#include "planner/blame.h"
#include "planner/schedule_intake.h"

#define ATTEMPTS 4

struct arrangement {
    struct pst_planner *planner;
    const struct pst_problem *problem;
    struct pst_rcm *rcm;
    struct pst_partition_result *answer;
    uint32_t *versions;         /* [n_stages] */
    uint64_t *left;             /* [n_devices] bytes */
    uint64_t *room;             /* [n_devices] bytes for activations */
    struct pst_problem_run run; /* on logical devices */
};

/* --- what was answered must be something that the scheduler takes ------------------------------*/

static pst_status check_sizes(const struct arrangement *a, struct pst_error *err)
{
    const struct pst_partition_result *answer = a->answer;
    pst_status status = PST_OK;

    for (uint32_t s = 0; status == PST_OK && s < answer->n_stages; s++) {
        uint32_t b = answer->stages[s].microbatch_size;

        if (a->problem->mini_batch % b != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "micro_batches: schedulers need sizes that divide the mini-batch of "
                            "%u, and %u does not",
                            a->problem->mini_batch, b);
        }
        status = pst_order_question_check_microbatches(a->planner->strategies.scheduler,
                                                       &a->planner->devices.topology,
                                                       a->problem->mini_batch / b, err);
        if (status == PST_OK && b != answer->stages[0].microbatch_size) {
            status =
                pst_caps_require(a->planner->strategies.scheduler->plugin, "per-stage-microbatch",
                                 "stages with micro-batches of different sizes", err);
        }
    }
    return status;
}

/* --- in flight ---------------------------------------------------------------------------------*/

static pst_status ask_in_flight(struct arrangement *a, struct pst_error *err)
{
    const struct pst_problem_run *run = &a->run;
    struct pst_successor *next = pst_alloc((size_t)run->n_edges + 1, sizeof *next);
    uint32_t e = run->n_edges;
    pst_status status = PST_OK;

    for (uint32_t s = run->n_stages; status == PST_OK && s-- > 0;) {
        struct pst_partition_stage *stage = &a->answer->stages[s];
        struct pst_held held = {.size = sizeof held};
        const struct pst_place place = pst_problem_run_place(run, s, &e, next);

        status = pst_planner_held(a->planner, &place, &held, err);
        stage->in_flight = held.microbatches;
        a->versions[s] = held.weight_versions;
    }
    free(next);
    return status;
}

/* --- memory ------------------------------------------------------------------------------------*/

/* Its passes take what the reference model says, and B what the memory optimizer adds. What is left
   of its device for activations is all but weights and the largest workspace. */
static void take_costs(const struct arrangement *a, uint32_t s, const struct pst_stage_value *value)
{
    struct pst_partition_stage *stage = &a->answer->stages[s];
    const struct pst_rcm_stage asked = pst_partition_rcm(stage);
    uint64_t *left = &a->left[stage->device], *room = &a->room[stage->device];
    struct pst_rcm_cost cost;
    double bytes;

    pst_rcm_cost(a->rcm, &asked, &cost);
    memcpy(stage->pass_ns, cost.pass_ns, sizeof stage->pass_ns);
    stage->pass_ns[1] += (double)value->extra_ns;
    stage->compute_ns = stage->pass_ns[0] + stage->pass_ns[1] + stage->pass_ns[2];
    stage->reduce_ns = pst_rcm_allreduce_ns(a->problem, cost.weight_bytes, stage->n_ranks);
    stage->memory_bytes = (double)value->peak_bytes;
    if (*room != UINT64_MAX) {
        bytes = (a->problem->weight_multiplier + a->versions[s] - 1.0) * cost.weight_bytes +
                cost.workspace_bytes;
        *room = (double)*room > bytes ? *room - (uint64_t)bytes : 0;
        *left -= value->peak_bytes;
    }
}

/* Returns the bytes that a micro-batch keeps, its input included; at least 1, so that it counts. */
static uint64_t kept_bytes(const struct pst_stage_view *view, const struct pst_replay_list *replays)
{
    struct pst_stage_value value = {.size = sizeof value};
    uint64_t bytes = view->input_bytes, kept;

    if (replays->n > 0) {
        pst_evaluate_replays(view, replays->at, replays->n, &value, &kept);
        bytes += kept;
    }
    for (uint32_t i = 0; i < view->n_nodes && replays->n == 0; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, i);

        bytes += node->action == PST_ACTION_KEEP ? node->saved_bytes : 0;
    }
    return bytes > 0 ? bytes : 1;
}

static pst_status decide_stage(struct arrangement *a, uint32_t s, struct pst_error *err)
{
    struct pst_partition_stage *stage = &a->answer->stages[s];
    const struct pst_stage_question question = {.size = sizeof question,
                                                .nodes = stage->nodes,
                                                .n_nodes = stage->n_nodes,
                                                .stage = s,
                                                .n_stages = a->answer->n_stages,
                                                .microbatch_size = stage->microbatch_size,
                                                .n_ranks = stage->n_ranks,
                                                .in_flight = stage->in_flight,
                                                .weight_versions = a->versions[s],
                                                .capacity_bytes = a->left[stage->device]};
    struct pst_stage_value value;
    struct pst_stage_view view;
    pst_status status = pst_planner_settle(a->planner, &question, &view, &value, err);

    if (status != PST_OK) {
        return status;
    }
    stage->kept_bytes = kept_bytes(&view, &a->planner->replays);
    take_costs(a, s, &value);
    return PST_OK;
}

static pst_status decide_memory(struct arrangement *a, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t d = 0; d < a->run.n_devices; d++) {
        a->left[d] = a->room[d] = a->planner->attempt.capacity_bytes;
    }
    for (uint32_t s = 0; status == PST_OK && s < a->run.n_stages; s++) {
        status = decide_stage(a, s, err);
    }
    return status;
}

/* --- order and time ----------------------------------------------------------------------------*/

/* Batches that run into each other: what one more of them adds. */
static pst_status time_stream(struct arrangement *a, const struct pst_orders *orders,
                              const struct pst_order_question *fine, double scale,
                              struct pst_error *err)
{
    double ns[2] = {0, 0};
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < 2; i++) {
        struct pst_batches stream;

        status = pst_batches_unroll(orders, &fine->in, 4 + i, &stream, err);
        if (status == PST_OK) {
            status = pst_problem_run_time(&a->run, &stream.in, scale, stream.passes,
                                          stream.n_passes, &ns[i], err);
            pst_batches_finish(&stream);
        }
    }
    a->answer->step_ns = ns[1] - ns[0];
    return status;
}

static pst_status time_order(struct arrangement *a, const struct pst_orders *orders,
                             struct pst_error *err)
{
    double scale = pst_problem_run_scale(&a->run, 5);
    struct pst_order_question fine = {.stages = NULL};
    pst_status status;

    pst_problem_run_state(&a->run, scale, &fine);
    status = orders->asynchronous
                 ? time_stream(a, orders, &fine, scale, err)
                 : pst_problem_run_time(&a->run, &fine.in, scale, orders->passes[PST_BODY],
                                        orders->n_passes[PST_BODY], &a->answer->step_ns, err);
    pst_order_question_finish(&fine);
    return pst_scheduler_blame(a->planner->strategies.scheduler->plugin->id, status, err);
}

/* *ret_again: it holds more than was promised, which is noted. */
static pst_status ask_order(struct arrangement *a, bool *ret_again, struct pst_error *err)
{
    uint32_t n = a->run.n_stages;
    struct pst_orders_count held;
    struct pst_order_question question = {.stages = NULL};
    struct pst_orders orders;
    pst_status status;

    pst_problem_run_state(&a->run, 1.0, &question);
    memcpy(question.activation_bytes, a->room, a->run.n_devices * sizeof *a->room);
    status =
        pst_orders_ask(a->planner->strategies.scheduler, &question.in, NULL, NULL, &orders, err);
    *ret_again = false;
    if (status == PST_OK) {
        held = pst_orders_count(&orders, &question.in, &question.arena);
    }
    for (uint32_t s = 0; status == PST_OK && s < n; s++) {
        if (held.at_peak[s] > a->answer->stages[s].in_flight) {
            a->planner->attempt.counted[s] = held.at_peak[s];
            *ret_again = true;
        }
    }
    if (status == PST_OK && !*ret_again) {
        status = time_order(a, &orders, err);
    }
    pst_orders_finish(&orders);
    pst_order_question_finish(&question);
    return status;
}

static pst_status attempt(struct arrangement *a, bool *ret_again, struct pst_error *err)
{
    pst_status status = ask_in_flight(a, err);

    PST_TRY(status, decide_memory(a, err));
    return status == PST_OK ? ask_order(a, ret_again, err) : status;
}

/* On logical devices, with room for what is found out. */
static void begin_stages(struct arrangement *a, struct pst_arena *arena)
{
    struct pst_partition_result *answer = a->answer;
    uint32_t n = answer->n_stages, n_devices = pst_devices_under(&a->planner->devices, n);
    bool open = a->planner->devices.places.n_stages == 0;

    a->versions = pst_arena_array(arena, n, sizeof *a->versions);
    a->left = pst_arena_array(arena, n_devices, sizeof *a->left);
    a->room = pst_arena_array(arena, n_devices, sizeof *a->room);
    for (uint32_t s = 0; s < n; s++) {
        struct pst_partition_stage *stage = &answer->stages[s];

        stage->device = open ? s : pst_places_device(&a->planner->devices.places, stage->ranks[0]);
    }
    a->run = (struct pst_problem_run){
        .problem = a->problem, .n_devices = n_devices, .n_stages = n, .stages = answer->stages};
    a->run.edges = pst_problem_connect(a->problem->graph, answer, arena, &a->run.n_edges);
}

pst_status pst_problem_arrange(struct pst_problem_planner *self,
                               struct pst_partition_result *answer, struct pst_error *err)
{
    struct arrangement a = {.planner = &self->planner,
                            .problem = self->cost.problem,
                            .rcm = &self->rcm,
                            .answer = answer};
    struct pst_arena arena = {0};
    bool again = true;
    pst_status status = check_sizes(&a, err);

    if (status == PST_OK) {
        begin_stages(&a, &arena);
    }
    for (uint32_t i = 0; status == PST_OK && again && i < ATTEMPTS; i++) {
        status = attempt(&a, &again, err);
    }
    if (status == PST_OK && again) {
        status =
            pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                     "scheduler \"%s\" holds more micro-batches than it says, however many it is "
                     "given",
                     a.planner->strategies.scheduler->plugin->id);
    }
    pst_arena_finish(&arena);
    return status;
}
