/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulations of several steps and what they amount to.
 *
 * Without a barrier the time of a step settles: once the ranks enter a step with the same delays
 * between them as an earlier one, and entered the steps before both alike too, everything repeats.
 */
#include <stdio.h>
#include <string.h>

#include "sim/sim.h"
#include "sim/state.h"

#define SETTLE_FIRST 8   /* steps that are tried first to find what repeats */
#define SETTLE_MOST  128 /* beyond these the slope of the second half counts */

static uint64_t max_ns(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* --- figures ---------------------------------------------------------------------------------- */

/* A sink that notes figures, and hands on. */
struct tally {
    uint64_t total_ns, span_ns;
    pst_status (*sink)(void *context, const struct pst_sim *sim, uint32_t rank,
                       const struct pst_sim_visit *visit);
    void *context;
};

static bool is_compute(uint32_t op)
{
    return op <= PST_I_R || op == PST_I_STEP;
}

static uint64_t span_of(const struct pst_sim_visit *visit)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = 0; i < visit->list->n; i++) {
        if (is_compute(visit->list->instrs[i].op)) {
            first = visit->start[i] < first ? visit->start[i] : first;
            last = max_ns(last, visit->end[i]);
        }
    }
    return last > first ? last - first : 0;
}

static pst_status note(void *context, const struct pst_sim *sim, uint32_t rank,
                       const struct pst_sim_visit *visit)
{
    struct tally *tally = context;
    tally->total_ns = max_ns(tally->total_ns, visit->latest);
    if (visit->number == 0) {
        tally->span_ns = max_ns(tally->span_ns, span_of(visit));
    }
    return tally->sink == NULL ? PST_OK : tally->sink(tally->context, sim, rank, visit);
}

static uint64_t work_of(const struct pst_sim *sim)
{
    uint64_t most = 0;
    for (uint32_t d = 0; d < sim->plan->n_devices; d++) {
        const struct pst_plan_device *device = &sim->plan->devices[d];
        uint64_t ns = 0;
        for (uint32_t i = 0; i < device->n_instrs; i++) {
            if (is_compute(device->body[i].op)) {
                ns = pst_sim_add_ns(ns, pst_sim_compute_ns(&sim->durations, &device->body[i]));
            }
        }
        most = max_ns(most, ns);
    }
    return most;
}

/* --- the steady state ------------------------------------------------------------------------- */

/* Did the ranks enter visit i as they entered visit j, but for a shift? */
static bool alike(const struct pst_sim *sim, uint32_t i, uint32_t j)
{
    uint32_t n = sim->plan->n_devices;
    const uint64_t *a = &sim->begins[(size_t)i * n], *b = &sim->begins[(size_t)j * n];
    for (uint32_t d = 1; d < n; d++) {
        if (b[d] - a[d] != b[0] - a[0]) {
            return false;
        }
    }
    return true;
}

static uint64_t slope(const struct pst_sim *sim, uint32_t i, uint32_t j)
{
    uint32_t n = sim->plan->n_devices;
    uint64_t most = 0;
    for (uint32_t d = 0; d < n; d++) {
        most = max_ns(most, sim->begins[(size_t)j * n + d] - sim->begins[(size_t)i * n + d]);
    }
    return (most + (j - i) - 1) / (j - i);
}

/* False: nothing repeats yet. Visits from `from` on are whole steps behind one another. */
static bool find_period(const struct pst_sim *sim, uint64_t *ret_period_ns)
{
    uint32_t last = sim->n_visits - 1, from = sim->plan->asynchronous ? 1 : 0;
    for (uint32_t i = last; i-- > from + 1;) {
        if (alike(sim, i, last) && alike(sim, i - 1, last - 1)) {
            *ret_period_ns = slope(sim, i, last);
            return true;
        }
    }
    return false;
}

static pst_status settle(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint64_t *ret_period_ns,
                         struct pst_error *err)
{
    pst_status status = PST_OK;
    bool found = false;
    for (uint32_t n = SETTLE_FIRST; n <= SETTLE_MOST && !found && status == PST_OK; n *= 2) {
        struct pst_sim sim = {0};
        status = pst_sim_init(&sim, plan, graph, cost, n, err);
        status = status == PST_OK ? pst_sim_finish_all(&sim) : status;
        if (status == PST_OK) {
            found = find_period(&sim, ret_period_ns);
            if (!found && n == SETTLE_MOST) {
                *ret_period_ns = slope(&sim, sim.n_visits / 2, sim.n_visits - 1);
            }
        }
        pst_arena_finish(&sim.arena);
    }
    return status;
}

/* --- runs ------------------------------------------------------------------------------------- */

static pst_status run(const struct pst_plan *plan, const struct pst_graph *graph,
                      const struct pst_cost_model *cost, uint32_t n_steps, bool with_period,
                      struct tally *tally, struct pst_sim_result *ret_result, struct pst_error *err)
{
    struct pst_sim sim = {.sink = note, .context = tally};
    struct pst_sim_result result = {.n_steps = n_steps > 0 ? n_steps : 1};
    pst_status status = pst_sim_init(&sim, plan, graph, cost, result.n_steps, err);
    status = status == PST_OK ? pst_sim_finish_all(&sim) : status;
    if (status == PST_OK) {
        result.total_ns = tally->total_ns;
        result.span_ns = tally->span_ns;
        result.work_ns = work_of(&sim);
        result.period_ns = tally->total_ns / result.n_steps;
        if (with_period && !sim.barrier && plan->n_devices > 0) {
            status = settle(plan, graph, cost, &result.period_ns, err);
        }
    }
    if (status == PST_OK) {
        *ret_result = result;
    }
    pst_arena_finish(&sim.arena);
    return status;
}

pst_status pst_sim_steps(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint32_t n_steps,
                         struct pst_sim_result *ret_result, struct pst_error *err)
{
    struct tally tally = {0};
    return run(plan, graph, cost, n_steps, true, &tally, ret_result, err);
}

/* "rank 2 (stage 2, 6)" */
static void name_rank(const struct pst_plan *plan, uint32_t rank, char *text, size_t size)
{
    int used = snprintf(text, size, "rank %u", rank);
    uint32_t n = 0;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t r = 0; r < plan->stages[s].n_ranks; r++) {
            if (plan->stages[s].ranks[r] == rank && used + 16 < (int)size) {
                used += snprintf(text + used, size - (size_t)used, "%s%u",
                                 n++ == 0 ? " (stage " : ", ", s);
            }
        }
    }
    if (n > 0 && used + 1 < (int)size) {
        snprintf(text + used, size - (size_t)used, ")");
    }
}

static const char *title(struct pst_arena *arena, const struct pst_plan *plan)
{
    uint32_t n = 0;
    const char *scheduler = plan->scheduler != NULL ? plan->scheduler : "";
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        n = plan->stages[s].n_microbatches > n ? plan->stages[s].n_microbatches : n;
    }
    return pst_arena_printf(arena, "%.*s%s%u devices, %u micro-batches",
                            (int)strcspn(scheduler, " "), scheduler,
                            scheduler[0] != '\0' ? ", " : "", plan->n_devices, n);
}

static pst_status describe(struct pst_timeline *timeline, const struct pst_plan *plan,
                           uint32_t n_steps, struct pst_error *err)
{
    timeline->kind = "simulation";
    timeline->title = title(&timeline->arena, plan);
    timeline->n_stages = plan->n_stages;
    timeline->n_steps = n_steps;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        struct pst_timeline_rank *row = &timeline->ranks[d];
        name_rank(plan, d, row->name, sizeof row->name);
        row->capacity_bytes = plan->capacity_bytes;
    }
    return timeline->title == NULL ? pst_fail_nomem(err) : PST_OK;
}

pst_status pst_sim_timeline(const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost, uint32_t n_steps,
                            const struct pst_program *const *programs,
                            struct pst_timeline **ret_timeline, struct pst_sim_result *ret_result,
                            struct pst_error *err)
{
    struct pst_sim_record record = {.programs = plan->asynchronous ? NULL : programs};
    struct tally tally = {.sink = pst_sim_record_visit, .context = &record};
    struct pst_sim_result result = {0};
    pst_status status = pst_timeline_create(plan->n_devices, &record.timeline, err);
    if (status == PST_OK) {
        status = pst_sim_memory_create(graph, cost, &record.memory, err);
    }
    if (status == PST_OK) {
        status = run(plan, graph, cost, n_steps, true, &tally, &result, err);
    }
    if (status == PST_OK) {
        pst_timeline_finish_build(record.timeline);
        status = describe(record.timeline, plan, result.n_steps, err);
    }
    pst_sim_memory_destroy(record.memory);
    if (status != PST_OK) {
        pst_timeline_destroy(record.timeline);
        return status;
    }
    *ret_timeline = record.timeline;
    *ret_result = result;
    return PST_OK;
}

/* --- one step --------------------------------------------------------------------------------- */

struct arrays {
    uint64_t *const *start, *const *end;
};

static pst_status copy_out(void *context, const struct pst_sim *sim, uint32_t rank,
                           const struct pst_sim_visit *visit)
{
    const struct arrays *arrays = context;
    size_t bytes = visit->list->n * sizeof(uint64_t);
    (void)sim;
    if (arrays->start != NULL && arrays->start[rank] != NULL && bytes > 0) {
        memcpy(arrays->start[rank], visit->start, bytes);
    }
    if (arrays->end != NULL && arrays->end[rank] != NULL && bytes > 0) {
        memcpy(arrays->end[rank], visit->end, bytes);
    }
    return PST_OK;
}

pst_status pst_sim_run(const struct pst_plan *plan, const struct pst_graph *graph,
                       const struct pst_cost_model *cost, uint64_t *const *ret_start,
                       uint64_t *const *ret_end, uint64_t *ret_makespan_ns, struct pst_error *err)
{
    struct arrays arrays = {ret_start, ret_end};
    struct tally tally = {.sink = plan->asynchronous ? NULL : copy_out, .context = &arrays};
    struct pst_sim_result result;
    pst_status status = run(plan, graph, cost, 1, false, &tally, &result, err);
    if (status == PST_OK) {
        *ret_makespan_ns = result.total_ns;
    }
    return status;
}
