/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory optimizers that decide about all devices at once (pst.memopt-global/1): what they are
 * told, and what becomes of their answer. Buffers must fit without gaps between them, which shows
 * only when programs are laid out; so where they do not, the question is asked again with less
 * capacity.
 */
#include <string.h>

#include "host/call.h"
#include "host/caps.h"
#include "planner/global.h"

#define MAX_ROUNDS 6

/* One optimizer's question and its answer. */
struct ask {
    struct pst_global_out out;
    struct pst_planner *planner;
    struct pst_instance *instance;
    struct pst_plan *plan;
    struct pst_global_question *question;
    uint32_t **keeper; /* [stage][micro-batch] device that is to keep it, or PST_NONE */
    uint8_t **actions; /* [stage][position] */
    bool *chosen;      /* [stage] its nodes are */
    bool refused;
};

/* --- the answer --------------------------------------------------------------------------------*/

static pst_status refuse_move(struct ask *ask, const struct pst_global_move *move, const char *why)
{
    ask->refused = true;
    return pst_planner_illegal(&ask->planner->pending, ask->instance,
                               "stage %u, micro-batch %u to device %u: %s", move->stage,
                               move->microbatch, move->device, why);
}

/* Which nodes go: of the first move of a stage; the others must say the same. */
static const char *choose_nodes(struct ask *ask, const struct pst_global_move *move)
{
    const struct pst_global_stage *stage = &ask->question->stages[move->stage];
    uint8_t *actions = ask->actions[move->stage];
    uint32_t next = 0;
    bool any = false;

    for (uint32_t i = 0; i < stage->view->n_nodes; i++) {
        bool named = next < move->n_positions && move->positions[next] == i;
        bool goes = move->n_positions == 0 ? stage->move_bytes[i] > 0 : named;

        next += named;
        if (goes && stage->move_bytes[i] == 0) {
            return "one of its nodes has nothing to move, or must keep it";
        }
        if (ask->chosen[move->stage] && goes != (actions[i] == PST_ACTION_PEER)) {
            return "other nodes than before; all moves of a stage take the same";
        }
        actions[i] = goes ? PST_ACTION_PEER : actions[i];
        any |= goes;
    }
    ask->chosen[move->stage] = true;
    return next < move->n_positions ? "positions that do not ascend, or do not exist"
           : !any                   ? "nothing of it can be moved"
                                    : NULL;
}

static const char *find_fault(const struct ask *ask, const struct pst_global_move *move)
{
    const struct pst_global_question *q = ask->question;
    const struct pst_global_stage *stage;
    const uint32_t *at;

    if (move->stage >= q->in.n_stages || move->device >= q->in.n_devices) {
        return "no such stage or device";
    }
    stage = &q->stages[move->stage];
    if (move->microbatch >= stage->n_microbatches) {
        return "there is no such micro-batch";
    }
    if (move->device == stage->device || !pst_global_are_alike(q, move->device, stage->device)) {
        return "it must be another device, with as many ranks and parts";
    }
    if (ask->keeper[move->stage][move->microbatch] != PST_NONE) {
        return "it is already on another device";
    }
    at = q->at[move->stage] + 2 * (size_t)move->microbatch;
    return at[1] < at[0] + 3 ? "its backward pass is fewer than three passes after its F" : NULL;
}

static pst_status take_move(struct pst_global_out *out, const struct pst_global_move *move)
{
    struct ask *ask = out->impl;
    const char *fault;
    pst_status status;

    if (ask->refused) {
        return ask->planner->pending.status;
    }
    if (!PST_HAS(move, positions)) {
        ask->refused = true;
        return pst_planner_illegal(&ask->planner->pending, ask->instance,
                                   "a move whose size is not set");
    }
    fault = move->n_positions > 0 && move->positions == NULL ? "there are no positions"
                                                             : find_fault(ask, move);
    fault = fault == NULL ? choose_nodes(ask, move) : fault;
    if (fault != NULL) {
        return refuse_move(ask, move, fault);
    }
    status = pst_caps_require(ask->instance->plugin, "peer", "peer", &ask->planner->pending);
    ask->refused = status != PST_OK;
    ask->keeper[move->stage][move->microbatch] = move->device;
    return status;
}

/* The answer into the plan. */
static void keep_answer(const struct ask *ask)
{
    struct pst_plan *plan = ask->plan;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        struct pst_plan_stage *stage = &plan->stages[s];
        struct pst_plan_guest *guests =
            pst_arena_array(&plan->arena, stage->n_microbatches, sizeof *guests);
        uint8_t *actions = pst_arena_array(&plan->arena, stage->n_nodes, 1);
        uint32_t n = 0;

        for (uint32_t j = 0; j < stage->n_microbatches; j++) {
            if (ask->keeper[s][j] != PST_NONE) {
                guests[n++] =
                    (struct pst_plan_guest){j, ask->question->first_rank[ask->keeper[s][j]]};
            }
        }
        memcpy(actions, ask->actions[s], stage->n_nodes);
        stage->actions = actions;
        stage->guests = guests;
        stage->n_guests = n;
    }
}

/* Starts an answer with the decisions of earlier optimizers. */
static void start_answer(struct ask *ask, struct pst_arena *arena)
{
    const struct pst_plan *plan = ask->plan;

    ask->keeper = pst_arena_array(arena, plan->n_stages, sizeof(uint32_t *));
    ask->actions = pst_arena_array(arena, plan->n_stages, sizeof(uint8_t *));
    ask->chosen = pst_arena_array(arena, plan->n_stages, sizeof *ask->chosen);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        ask->keeper[s] = pst_arena_none(arena, stage->n_microbatches);
        ask->actions[s] = pst_arena_copy(arena, stage->actions, stage->n_nodes, 1);
        for (uint32_t i = 0; i < stage->n_guests; i++) {
            ask->keeper[s][stage->guests[i].microbatch] =
                ask->question->device_of[stage->guests[i].rank];
        }
        ask->chosen[s] = stage->n_guests > 0;
    }
}

/* --- the run -----------------------------------------------------------------------------------*/

static pst_status call_optimizer(struct ask *ask, struct pst_error *err)
{
    struct pst_planner *planner = ask->planner;
    pst_status status;

    status = pst_call_global(ask->instance, &ask->question->in, &ask->out);
    if (status == PST_OK && ask->refused) {
        status = planner->pending.status;
    }
    status = pst_instance_blame(ask->instance, &planner->pending, status, "plan", err);
    if (status == PST_OK) {
        keep_answer(ask);
    }
    return status;
}

/* Devices whose buffers take more than they have are told of less; false: there is none, or nothing
   that could be told. */
static bool tell_less(struct pst_global_question *q, const struct pst_planner *planner,
                      const uint64_t *arena_bytes)
{
    bool any = false;

    for (uint32_t r = 0; r < q->n_ranks; r++) {
        uint64_t *told = &q->devices[q->device_of[r]].capacity_bytes;
        uint64_t capacity_bytes = pst_planner_capacity(planner, &r, 1);

        if (arena_bytes[r] > capacity_bytes) {
            uint64_t excess = arena_bytes[r] - capacity_bytes;

            *told = *told > excess ? *told - excess : 0;
            any = true;
        }
    }
    return any;
}

/* Asks one optimizer, until what it says fits or it says that nothing does. */
static pst_status ask_one(struct pst_planner *planner, uint32_t i, struct pst_plan *plan,
                          const struct pst_orders *orders, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_global_question question = {0};
    uint64_t *arena_bytes = pst_arena_array(&arena, plan->n_devices, sizeof *arena_bytes);
    pst_status status = pst_scheduler_blame(
        planner->strategies.scheduler->plugin->id,
        pst_global_question_init(&question, planner, plan, orders, &arena, err), err);
    bool again = status == PST_OK, moved = false;
    struct ask before = {.plan = plan, .question = &question};

    if (status == PST_OK) {
        start_answer(&before, &arena);
    }
    for (uint32_t round = 0; status == PST_OK && again && round < MAX_ROUNDS; round++) {
        struct ask ask = {.planner = planner,
                          .instance = planner->strategies.memopt[i],
                          .plan = plan,
                          .question = &question};
        struct pst_error why = {.status = PST_OK};

        ask.out = (struct pst_global_out){.size = sizeof ask.out, .impl = &ask, .move = take_move};
        if (round > 0) {
            keep_answer(&before);
        }
        start_answer(&ask, &arena);
        status = call_optimizer(&ask, &why);
        if (status != PST_OK && why.status != PST_OK && err != NULL) {
            *err = why;
        }
        moved = false;
        for (uint32_t s = 0; s < plan->n_stages; s++) {
            moved |= plan->stages[s].n_guests > 0;
        }
        again = false;
        if (status == PST_OK && moved && planner->attempt.capacity_bytes != UINT64_MAX) {
            status = pst_global_arenas(&planner->in, plan, orders, arena_bytes, err);
            again = status == PST_OK && tell_less(&question, planner, arena_bytes);
        }
    }
    pst_arena_finish(&arena);
    return status;
}

pst_status pst_planner_global(struct pst_planner *planner, struct pst_plan *plan,
                              const struct pst_orders *orders, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < planner->strategies.n_memopt; i++) {
        const struct pst_plugin *plugin = planner->strategies.memopt[i]->plugin;
        const struct pst_memopt_global *f = plugin->get_interface(PST_MEMOPT_GLOBAL);

        if (f == NULL || !PST_CAN(f, plan)) {
            continue;
        }
        if (plan->asynchronous) {
            status =
                pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                         "memopt \"%s\" leaves bytes on other devices, which needs a synchronous "
                         "schedule; the steps of scheduler \"%s\" overlap",
                         plugin->id, planner->strategies.scheduler->plugin->id);
        } else {
            status = ask_one(planner, i, plan, orders, err);
        }
    }
    return status;
}
