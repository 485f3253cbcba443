/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts at a plan that fits. Whether a device has room is known only when its program is laid
 * out; if one has not, every stage is charged what its layout took beyond the estimate, and memory
 * is decided anew: on the same cuts as long as that helps, then on new ones.
 *
 * No price of one stage can be exact, so estimates need this. A price sees neither the gaps that a
 * layout leaves between buffers (half a percent of a peak is usual, a quarter is possible), nor
 * when other stages' transfers end, guests, what a real order holds beyond a chain of equal stages,
 * nor gradients that wait while operators run again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "planner/attempts.h"

#define MAX_ATTEMPTS 3   /* at cuts, in one way */
#define MAX_ROUNDS   2   /* on the same cuts */
#define MARGIN       100 /* part of the memory that a stage which fails again must spare */

pst_status pst_planned_lay_out(struct pst_planner *planner, struct pst_planned *planned,
                               struct pst_error *err)
{
    struct pst_plan *plan = planned->plan;
    pst_status status;

    planned->programs = pst_alloc(plan->n_devices, sizeof(struct pst_program *));
    status = pst_programs_create(plan, planner->in.graph, planner->in.cost,
                                 planner->in.job->slim ? PST_PROGRAM_SLIM : PST_PROGRAM_WHOLE,
                                 &planner->memos.layouts, planned->programs, err);
    if (status == PST_OK) {
        pst_programs_state_memory(planned->programs, plan);
    }
    return status;
}

static const char *named(struct pst_arena *arena, const struct pst_instance *instance)
{
    return pst_arena_printf(arena, "%s %s", instance->plugin->id, instance->plugin->version);
}

static void sign(const struct pst_planner *planner, struct pst_plan *plan)
{
    const struct pst_strategies *by = &planner->strategies;
    char *json = pst_config_to_json(planner->in.job->config);
    uint32_t i;

    plan->config_json = pst_arena_strdup(&plan->arena, json);
    free(json);
    plan->graph_digest = planner->in.graph->digest;
    plan->partitioner = named(&plan->arena, by->partitioner);
    plan->scheduler = named(&plan->arena, by->scheduler);
    plan->memopt = "";
    for (i = 0; i < by->n_memopt; i++) {
        plan->memopt = pst_arena_printf(&plan->arena, "%s%s%s", plan->memopt, i > 0 ? ", " : "",
                                        named(&plan->arena, by->memopt[by->turn_of[i]]));
    }
}

static pst_status copy_stages(const struct pst_planner *planner, const struct pst_plan *from,
                              struct pst_plan *plan, struct pst_error *err)
{
    for (uint32_t s = 0; s < from->n_stages; s++) {
        const struct pst_plan_stage *stage = &from->stages[s];

        pst_plan_add_stage(plan, stage->nodes, stage->n_nodes, stage->ranks, stage->n_ranks,
                           stage->microbatch_size, stage->k);
    }
    return pst_plan_connect(plan, planner->in.graph, err);
}

/* Copies the remarks that the partitioner made with its last answer into the plan's arena. */
static void keep_remarks(const struct pst_planner *planner, struct pst_planned *planned)
{
    const struct pst_cuts *cuts = planner->in.job->cuts;
    const struct pst_remarks *remarks =
        cuts != NULL ? &cuts->remarks : &planner->strategies.partitioner->remarks;

    planned->n_remarks = remarks->n;
    pst_remarks_copy(remarks, &planned->plan->arena, &planned->remarks);
}

pst_status pst_attempts_keep_cuts(struct pst_attempts *a, const struct pst_plan *plan,
                                  struct pst_error *err)
{
    pst_plan_destroy(a->cuts);
    a->cuts = pst_planner_empty(a->planner);
    return copy_stages(a->planner, plan, a->cuts, err);
}

pst_status pst_attempts_make(struct pst_attempts *a, bool same_cuts, struct pst_planned *planned,
                             struct pst_error *err)
{
    struct pst_planner *planner = a->planner;
    pst_status status;

    planned->plan = pst_planner_empty(planner);
    pst_memo_finish(&planner->memos.attempt); /* answers hold for one attempt */
    status = same_cuts ? copy_stages(planner, a->cuts, planned->plan, err)
                       : pst_planner_partition(planner, planned->plan, err);
    if (status == PST_OK && !same_cuts) { /* they stay where what follows finds no room */
        status = pst_attempts_keep_cuts(a, planned->plan, err);
    }
    PST_TRY(status, pst_planner_complete(planner, planned->plan, err));
    PST_TRY(status, pst_planned_lay_out(planner, planned, err));
    if (status == PST_OK) {
        keep_remarks(planner, planned);
        sign(planner, planned->plan);
    }
    return status;
}

pst_status pst_attempts_cut(struct pst_attempts *a, struct pst_error *err)
{
    struct pst_plan *plan = pst_planner_empty(a->planner);
    pst_status status;

    pst_memo_finish(&a->planner->memos.attempt);
    status = pst_planner_partition(a->planner, plan, err);
    PST_TRY(status, pst_attempts_keep_cuts(a, plan, err));
    pst_plan_destroy(plan);
    return status;
}

/* Bytes of the largest arena of a stage. lacking: plus what its device lacks to the largest one. */
static uint64_t arena_of(const struct pst_plan *plan, uint32_t stage, bool lacking)
{
    const struct pst_plan_stage *s = &plan->stages[stage];
    uint64_t most = 0;

    for (uint32_t r = 0; r < s->n_ranks; r++) {
        const struct pst_plan_device *device = &plan->devices[s->ranks[r]];
        uint64_t bytes = device->arena_bytes + (lacking ? device->lacks_bytes : 0);

        most = bytes > most ? bytes : most;
    }
    return most;
}

int64_t pst_attempts_excess(const struct pst_plan *plan, uint32_t stage)
{
    uint32_t n = 0;
    int64_t excess = (int64_t)arena_of(plan, stage, false);

    for (uint32_t t = 0; t < plan->n_stages; t++) {
        if (pst_plan_shares(&plan->stages[t], &plan->stages[stage])) {
            excess -= (int64_t)plan->stages[t].estimated_bytes;
            n++;
        }
    }
    return excess / (int64_t)n;
}

/* Stores for the next attempt how many micro-batches the stages held, and by how many bytes their
   devices exceeded the estimates. Other cuts and actions exceed them by other bytes, so a stage
   that does not fit again also gets a margin. */
static void learn(struct pst_attempts *a, const struct pst_planned *planned)
{
    struct pst_planner *planner = a->planner;
    const struct pst_plan *plan = planned->plan;
    bool again = a->n_learned++ > 0;

    planner->attempt.exceeded = true;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        int64_t excess = pst_attempts_excess(plan, s);

        if (excess > 0 || !again) {             /* later attempts become more careful, never less */
            planner->attempt.bias[s] += excess; /* estimates held the bias so far */
        }
        if (again && arena_of(plan, s, true) > a->limit) {
            planner->attempt.bias[s] += (int64_t)(a->limit / MARGIN);
        }
        if (plan->stages[s].in_flight > planner->attempt.counted[s]) {
            planner->attempt.counted[s] = plan->stages[s].in_flight;
        }
    }
    planner->attempt.capacity_bytes = plan->capacity_bytes;
}

static void keep_better(struct pst_attempts *a, struct pst_planned *planned)
{
    if (a->best->plan == NULL || a->need < pst_planned_need(a->best)) {
        pst_planned_finish(a->best);
        *a->best = *planned;
    } else {
        pst_planned_finish(planned);
    }
}

static pst_status attempt(struct pst_attempts *a, bool same_cuts, struct pst_error *err)
{
    struct pst_planned planned = {.plan = NULL};
    size_t n = same_cuts ? 0 : a->planner->in.graph->n_ops;

    memcpy(a->cut_bias, a->planner->attempt.bias, n * sizeof *a->cut_bias);
    pst_status status = pst_attempts_make(a, same_cuts, &planned, err);
    bool unchanged;

    if (status != PST_OK) {
        pst_planned_finish(&planned);
        return status;
    }
    unchanged = same_cuts && a->need == pst_planned_need(&planned);
    a->need = pst_planned_need(&planned);
    if (a->need > a->limit && planned.plan->spread_sends) {
        a->planner->attempt.tight = true; /* the same once more, which teaches nothing */
    } else if (a->need > a->limit && !unchanged) {
        learn(a, &planned);
    }
    keep_better(a, &planned);
    return PST_OK;
}

/* Plans again on the same cuts. The excess of a device changes with the actions, so it need not
   shrink each time. */
static pst_status plan_again(struct pst_attempts *a, struct pst_error *err)
{
    for (uint32_t round = 0; round < MAX_ROUNDS && a->need > a->limit; round++) {
        struct pst_error why = {.status = PST_OK};
        pst_status status = attempt(a, true, &why);

        if (status != PST_OK) {
            *err = status == PST_ERR_INFEASIBLE ? *err : why;
            return status == PST_ERR_INFEASIBLE ? PST_OK : status;
        }
    }
    return PST_OK;
}

pst_status pst_attempts_round(struct pst_attempts *a, struct pst_error *err)
{
    pst_status status = attempt(a, false, err);

    return status == PST_OK ? plan_again(a, err) : status;
}

bool pst_attempts_found(const struct pst_attempts *a)
{
    return a->best->plan != NULL && pst_planned_need(a->best) <= a->limit;
}

/* Repeats rounds, up to MAX_ATTEMPTS, until a plan fits or needs as much as the one before. */
static pst_status repeat(struct pst_attempts *a, struct pst_error *err)
{
    uint64_t last_need = 0;
    pst_status status = PST_OK;

    for (uint32_t n = 0; status == PST_OK && n < MAX_ATTEMPTS; n++) {
        status = pst_attempts_round(a, err);
        if (a->need <= a->limit || a->need == last_need) {
            break;
        }
        last_need = a->need;
    }
    return status;
}

/* Makes the plan of least memory on the last cuts. If it does not fit and there was no plan before,
   it is dropped: the strategies' own message is the better one. */
static pst_status take_least(struct pst_attempts *a, struct pst_error *err)
{
    bool none = a->best->plan == NULL;
    pst_status status;

    a->planner->attempt.least = true;
    status = attempt(a, true, err);
    a->planner->attempt.least = false;
    if (status == PST_OK && none) {
        status = plan_again(a, err); /* now it is known by how much the model is dearer */
    }
    if (none && a->best->plan != NULL && !pst_attempts_found(a)) {
        pst_planned_finish(a->best);
    }
    return status;
}

/*
 * Ways to a plan, each for when those before it found none that fits. Where stages share a device,
 * the partitioner gives each an equal part of it: UNDIVIDED lets a stage take the whole, and the
 * division among them is left to the prices of what it answers. The model that strategies are
 * charged by may be dearer than the layout turns out: DEARER plans for an eighth more than there
 * is, which shows that, or at least what takes the space; LEAST tries the plan that takes least.
 */
enum way { AS_CHARGED, UNDIVIDED, DEARER, LEAST, WAYS };

static pst_status try_way(struct pst_attempts *a, enum way way, struct pst_error *err)
{
    struct pst_planner *planner = a->planner;
    bool optimizes = planner->strategies.n_memopt > 0, none = a->best->plan == NULL;

    if (way == LEAST) {
        return optimizes && a->cuts != NULL ? take_least(a, err) : PST_ERR_INFEASIBLE;
    }
    if (way == UNDIVIDED) {
        none = none && optimizes && planner->devices.places.shared > 1;
        planner->attempt.undivided |= none;
    } else if (way == DEARER) {
        uint64_t more = planner->attempt.capacity_bytes / 8;

        none = none && more <= UINT64_MAX - planner->attempt.capacity_bytes;
        planner->attempt.capacity_bytes += none ? more : 0;
    }
    return none ? repeat(a, err) : PST_ERR_INFEASIBLE;
}

/* Resets the attempts to plan without the charge for micro-batches that wait for W. That charge is
   an upper bound; where it is too high, such a plan may fit. */
static void charge_less(struct pst_attempts *a)
{
    struct pst_planner *planner = a->planner;
    size_t n = planner->in.graph->n_ops;

    memset(planner->attempt.bias, 0, n * sizeof *planner->attempt.bias);
    memset(planner->attempt.counted, 0, n * sizeof *planner->attempt.counted);
    planner->attempt.capacity_bytes = a->limit;
    planner->attempt.undivided = false;
    planner->attempt.uncharged = true;
    a->n_learned = 0;
    pst_plan_destroy(a->cuts);
    a->cuts = NULL;
}

/* Tries all ways twice. err: of the first one, or of one that did not fail as infeasible. */
pst_status pst_attempts_find(struct pst_attempts *a, struct pst_error *err)
{
    bool none = false;

    for (uint32_t n = 0; n < 2 * WAYS && !pst_attempts_found(a); n++) {
        struct pst_error why = {.status = PST_OK};
        pst_status status;

        if (n == WAYS && !a->planner->attempt.charged) {
            break;
        }
        if (n == WAYS) {
            none = a->best->plan == NULL;
            charge_less(a);
        }
        status = try_way(a, n % WAYS, &why);
        if (status != PST_OK && (n == 0 || status != PST_ERR_INFEASIBLE)) {
            *err = why;
        }
        if (status != PST_OK && status != PST_ERR_INFEASIBLE) {
            return status;
        }
    }
    if (none && a->best->plan != NULL && !pst_attempts_found(a)) {
        pst_planned_finish(a->best);
    }
    return a->best->plan != NULL ? PST_OK : PST_ERR_INFEASIBLE;
}
