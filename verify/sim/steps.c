/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulations of several steps and what they amount to.
 *
 * The time of a step settles: once the ranks enter a step with the same delays between them as an
 * earlier one, and entered the steps before both alike too, everything repeats.
 * Where the pipeline is drained every so many steps, as many make up what may repeat.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/sim.h"
#include "sim/state.h"

#define STEADY_STEPS 4   /* more than the fill of a pipeline takes */
#define QUICK_STEPS  4   /* that must do for a comparison */
#define SETTLE_FIRST 8   /* steps that are tried first to find what repeats */
#define SETTLE_MOST  128 /* beyond these the slope of the second half counts */
#define STRETCH_MOST                                                                               \
    32 /* steps between drains that are simulated; what a drain costs is the same                  \
          in longer stretches */

/* A simulation of n steps: of the plan itself, or of an asynchronous one that is written out. */
struct steps {
    const struct pst_plan *plan;
    uint32_t n_steps, drain_every;
    struct pst_plan *unrolled;
    struct pst_sim sim;
    uint64_t *begins; /* [boundary * n_devices + rank] when a rank came to the end of a step */
    uint32_t n_boundaries;
    uint64_t total_ns, span_ns;
    void (*sink)(void *context, const struct pst_sim *sim, uint32_t rank);
    void *context;
};

static bool is_compute(uint32_t op)
{
    return op <= PST_I_R || op == PST_I_STEP;
}

/* From the first pass to the last pass or update of the first step. */
static uint64_t span_of(const struct steps *steps, const struct pst_sim_rank *run, uint32_t rank)
{
    const struct pst_plan_device *device = &steps->plan->devices[rank];
    bool drained = steps->n_steps == 1 || steps->drain_every == 1;
    uint32_t n = steps->plan->asynchronous
                     ? device->n_fill + (drained ? device->n_drain : device->n_instrs)
                     : run->n;
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (is_compute(run->list[i].op)) {
            first = run->start[i] < first ? run->start[i] : first;
            last = pst_later(last, run->end[i]);
        }
    }
    return last > first ? last - first : 0;
}

/* When the rank came to the parts of an asynchronous plan that close batches. */
static void note_parts(struct steps *steps, const struct pst_sim_rank *run, uint32_t rank)
{
    const struct pst_plan_device *device = &steps->plan->devices[rank];
    uint32_t every = steps->drain_every;
    uint64_t at = device->n_fill;
    for (uint32_t b = 0; b < steps->n_boundaries; b++) {
        bool drained = every > 0 && (b + 1) % every == 0;
        steps->begins[(size_t)b * steps->plan->n_devices + rank] =
            at < run->n ? run->posted[at] : run->latest;
        at += drained ? (uint64_t)device->n_drain + device->n_fill : device->n_instrs;
    }
}

static void note_boundary(void *context, const struct pst_sim *sim, uint32_t rank)
{
    struct steps *steps = context;
    const struct pst_sim_rank *run = &sim->ranks[rank];
    steps->total_ns = pst_later(steps->total_ns, run->latest);
    if (run->number == 0) {
        steps->span_ns = pst_later(steps->span_ns, span_of(steps, run, rank));
    }
    if (steps->plan->asynchronous) {
        note_parts(steps, run, rank);
    }
    if (steps->sink != NULL) {
        steps->sink(steps->context, sim, rank);
    }
}

static void steps_finish(struct steps *steps)
{
    pst_arena_finish(&steps->sim.arena);
    pst_plan_destroy(steps->unrolled);
}

/* finish in any case. */
static pst_status steps_run(struct steps *steps, const struct pst_plan *plan,
                            const struct pst_graph *graph, const struct pst_cost_model *cost,
                            uint32_t n_steps, uint32_t drain_every, struct pst_error *err)
{
    struct pst_sim *sim = &steps->sim;
    pst_status status = PST_OK;
    steps->plan = plan;
    steps->n_steps = steps->n_boundaries = n_steps;
    steps->drain_every = drain_every;
    sim->sink = note_boundary;
    sim->context = steps;
    if (plan->asynchronous) {
        status = pst_plan_unroll(plan, n_steps, drain_every, &steps->unrolled, err);
    }
    if (status != PST_OK) {
        return status;
    }
    pst_sim_init(sim, plan->asynchronous ? steps->unrolled : plan, graph, cost,
                 plan->asynchronous ? 1 : n_steps, err);
    steps->begins =
        plan->asynchronous
            ? pst_arena_array(&sim->arena, (size_t)plan->n_devices * n_steps, sizeof *steps->begins)
            : sim->begins;
    return pst_sim_finish_all(sim);
}

/* Passes and updates between two boundaries. */
static void add_work(const struct steps *steps, struct pst_sim_result *result)
{
    for (uint32_t d = 0; d < steps->plan->n_devices; d++) {
        const struct pst_plan_device *device = &steps->plan->devices[d];
        uint64_t ns = 0;
        for (uint32_t i = 0; i < device->n_instrs; i++) {
            if (is_compute(device->body[i].op)) {
                ns = pst_sat_add_ns(ns,
                                    pst_sim_compute_ns(&steps->sim.durations, &device->body[i], d));
            }
        }
        result->work_ns = pst_later(result->work_ns, ns);
        result->all_work_ns = pst_sat_add_ns(result->all_work_ns, ns);
    }
}

struct pst_idle pst_sim_idle(const struct pst_sim_result *result)
{
    return pst_idle_of(result->period_ns, result->n_devices, result->all_work_ns, result->work_ns);
}

/* --- the steady state ------------------------------------------------------------------------- */

/* Did the ranks come to boundary i as they came to boundary j, but for a shift? */
static bool are_alike(const struct steps *steps, uint32_t i, uint32_t j)
{
    uint32_t n = steps->plan->n_devices;
    const uint64_t *a = &steps->begins[(size_t)i * n], *b = &steps->begins[(size_t)j * n];
    for (uint32_t d = 1; d < n; d++) {
        if (b[d] - a[d] != b[0] - a[0]) {
            return false;
        }
    }
    return true;
}

static uint64_t slope_of(const struct steps *steps, uint32_t i, uint32_t j)
{
    uint32_t n = steps->plan->n_devices;
    uint64_t most = 0;
    for (uint32_t d = 0; d < n; d++) {
        most = pst_later(most, steps->begins[(size_t)j * n + d] - steps->begins[(size_t)i * n + d]);
    }
    return (most + (j - i) - 1) / (j - i);
}

/* Steps from one drain to the next; those that may repeat are as many, or a multiple. */
static uint32_t stretch_of(const struct steps *steps)
{
    return steps->drain_every == 0 ? 1 : steps->drain_every;
}

/* False: nothing repeats yet. */
static bool find_period(const struct steps *steps, uint64_t *ret_period_ns)
{
    uint32_t last = steps->n_boundaries - 1, stretch = stretch_of(steps);
    for (uint32_t i = last; i > stretch;) {
        i -= stretch;
        if (are_alike(steps, i, last) && are_alike(steps, i - 1, last - 1)) {
            *ret_period_ns = slope_of(steps, i, last);
            return true;
        }
    }
    return false;
}

static bool repeats(void *context, uint32_t n_begun)
{
    struct steps *steps = context;
    uint64_t unused;

    steps->n_boundaries = n_begun;
    return n_begun >= QUICK_STEPS && find_period(steps, &unused);
}

/* At most STRETCH_MOST steps between drains. */
static pst_status settle_steps(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, uint32_t drain_every,
                               uint64_t *ret_period_ns, struct pst_error *err)
{
    pst_status status = PST_OK;
    bool found = false;
    uint32_t n = SETTLE_FIRST;
    while (n < 2 * drain_every + 2) {
        n *= 2;
    }
    for (; n <= SETTLE_MOST && !found && status == PST_OK; n *= 2) {
        struct steps steps = {.sim.suffices = plan->asynchronous ? NULL : repeats};
        status = steps_run(&steps, plan, graph, cost, n, drain_every, err);
        if (status == PST_OK) {
            found = find_period(&steps, ret_period_ns);
            if (!found && n == SETTLE_MOST) {
                uint32_t stretch = stretch_of(&steps);
                *ret_period_ns = slope_of(&steps, n - 1 - (n / 2 - 1) / stretch * stretch, n - 1);
            }
        }
        steps_finish(&steps);
    }
    return status;
}

/* The step that one more costs. Of long stretches: what it costs without drains, and a share of
   what a drain adds. */
static pst_status find_step(const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost, uint64_t *ret_period_ns,
                            struct pst_error *err)
{
    uint64_t every = plan->drain_every, drained = 0;
    pst_status status = PST_OK;
    if (every <= STRETCH_MOST) {
        return settle_steps(plan, graph, cost, plan->drain_every, ret_period_ns, err);
    }
    status = settle_steps(plan, graph, cost, STRETCH_MOST, &drained, err);
    PST_TRY(status, settle_steps(plan, graph, cost, 0, ret_period_ns, err));
    if (status == PST_OK && drained > *ret_period_ns) {
        uint64_t added = (drained - *ret_period_ns) * STRETCH_MOST;
        *ret_period_ns += (added + every - 1) / every;
    }
    return status;
}

/* --- runs ------------------------------------------------------------------------------------- */

static pst_status run_steps(struct steps *steps, const struct pst_plan *plan,
                            const struct pst_graph *graph, const struct pst_cost_model *cost,
                            uint32_t n_steps, bool with_period, struct pst_sim_result *ret_result,
                            struct pst_error *err)
{
    struct pst_sim_result result = {.n_steps = n_steps > 0 ? n_steps : 1,
                                    .n_devices = plan->n_devices,
                                    .n_used = pst_plan_used_devices(plan)};
    pst_status status = steps_run(steps, plan, graph, cost, result.n_steps, plan->drain_every, err);
    if (status == PST_OK) {
        result.total_ns = steps->total_ns;
        result.span_ns = steps->span_ns;
        add_work(steps, &result);
        result.period_ns = steps->total_ns / result.n_steps;
        if (with_period && plan->n_devices > 0) {
            status = find_step(plan, graph, cost, &result.period_ns, err);
        }
        result.period_ns = pst_sat_add_ns(result.period_ns, pst_sim_host_ns(cost, plan));
    }
    if (status == PST_OK) {
        *ret_result = result;
    }
    steps_finish(steps);
    return status;
}

pst_status pst_sim_steps(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint32_t n_steps,
                         struct pst_sim_result *ret_result, struct pst_error *err)
{
    struct steps steps = {0};
    return run_steps(&steps, plan, graph, cost, n_steps, true, ret_result, err);
}

pst_status pst_sim_quick(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint64_t *ret_period_ns,
                         struct pst_error *err)
{
    struct steps steps = {0};
    pst_status status;
    if (plan->asynchronous || plan->n_devices == 0) {
        struct pst_sim_result result;
        status = pst_sim_steps(plan, graph, cost, 1, &result, err);
        if (status == PST_OK) {
            *ret_period_ns = result.period_ns;
        }
        return status;
    }
    status = steps_run(&steps, plan, graph, cost, QUICK_STEPS, 0, err);
    if (status == PST_OK && !find_period(&steps, ret_period_ns)) {
        *ret_period_ns = slope_of(&steps, QUICK_STEPS / 2 - 1, QUICK_STEPS - 1);
    }
    *ret_period_ns = pst_sat_add_ns(*ret_period_ns, pst_sim_host_ns(cost, plan));
    steps_finish(&steps);
    return status;
}

/* --- timelines -------------------------------------------------------------------------------- */

static pst_status record_steps(struct pst_sim_record *record, const struct pst_graph *graph,
                               bool with_period, struct pst_sim_result *ret_result,
                               struct pst_error *err)
{
    struct steps steps = {.sink = pst_sim_record_run, .context = record};
    pst_status status;
    pst_timeline_create(record->plan->n_devices, &record->timeline);
    record->timeline->slices = record->plan->slices;
    record->known = pst_alloc(graph->n_ops + 1u, sizeof *record->known);
    status = run_steps(&steps, record->plan, graph, record->cost, record->n_steps, with_period,
                       ret_result, err);
    free(record->known);
    if (status != PST_OK) {
        pst_timeline_destroy(record->timeline);
        return status;
    }
    pst_timeline_finish_build(record->timeline);
    return PST_OK;
}

/* Adds the usage of n steps to that of each rank, or takes it away. */
static pst_status add_usage(const struct pst_sim_record *record, const struct pst_graph *graph,
                            uint32_t n_steps, bool negative, struct pst_usage *usage,
                            struct pst_error *err)
{
    struct pst_sim_record other = *record;
    struct pst_sim_result result;
    pst_status status;
    other.n_steps = n_steps;
    other.programs = NULL;
    status = record_steps(&other, graph, false, &result, err);
    for (uint32_t r = 0; r < record->plan->n_devices && status == PST_OK; r++) {
        const struct pst_usage of = pst_timeline_usage(other.timeline, r);
        usage[r].busy_ns += negative ? -of.busy_ns : of.busy_ns;
        usage[r].exposed_ns += negative ? -of.exposed_ns : of.exposed_ns;
        usage[r].stall_ns += negative ? -of.stall_ns : of.stall_ns;
    }
    if (status == PST_OK) {
        pst_timeline_destroy(other.timeline);
    }
    return status;
}

/* Asynchronous: a simulation of 2n steps minus one of n steps gives n steady steps. */
static pst_status find_steady_step(const struct pst_sim_record *record,
                                   const struct pst_graph *graph,
                                   const struct pst_sim_result *result, struct pst_error *err)
{
    const struct pst_plan *plan = record->plan;
    struct pst_timeline *timeline = record->timeline;
    uint32_t n = record->n_steps;
    struct pst_usage *usage =
        pst_arena_array(&timeline->arena, plan->n_devices + 1u, sizeof *usage);
    pst_status status = PST_OK;
    if (plan->asynchronous) {
        n = plan->drain_every > 0 && plan->drain_every <= STRETCH_MOST ? (uint32_t)plan->drain_every
                                                                       : STEADY_STEPS;
        status = add_usage(record, graph, 2 * n, false, usage, err);
        PST_TRY(status, add_usage(record, graph, n, true, usage, err));
    }
    for (uint32_t r = 0; r < plan->n_devices && status == PST_OK; r++) {
        usage[r] = plan->asynchronous ? usage[r] : pst_timeline_usage(timeline, r);
        usage[r].busy_ns /= n;
        usage[r].stall_ns /= n;
        usage[r].idle_ns =
            result->period_ns > usage[r].busy_ns ? result->period_ns - usage[r].busy_ns : 0;
        usage[r].exposed_ns =
            usage[r].exposed_ns / n < usage[r].idle_ns ? usage[r].exposed_ns / n : usage[r].idle_ns;
    }
    timeline->step = (struct pst_steady_step){result->period_ns, pst_sim_idle(result), usage};
    timeline->drains = plan->asynchronous;
    return status;
}

pst_status pst_sim_timeline(const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost, uint32_t n_steps, uint64_t period_ns,
                            const struct pst_program *const *programs,
                            struct pst_timeline **ret_timeline, struct pst_sim_result *ret_result,
                            struct pst_error *err)
{
    struct pst_sim_record record = {
        .plan = plan, .n_steps = n_steps > 0 ? n_steps : 1, .programs = programs, .cost = cost};
    struct pst_sim_result result = {0};
    pst_status status = record_steps(&record, graph, period_ns == 0, &result, err);
    if (status != PST_OK) {
        return status;
    }
    result.period_ns = period_ns == 0 ? result.period_ns : period_ns;
    pst_timeline_describe(record.timeline, plan, "simulation", result.n_steps);
    status = find_steady_step(&record, graph, &result, err);
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

static void copy_out(void *context, const struct pst_sim *sim, uint32_t rank)
{
    const struct arrays *arrays = context;
    const struct pst_sim_rank *run = &sim->ranks[rank];
    size_t bytes = run->n * sizeof(uint64_t);
    if (arrays->start != NULL && arrays->start[rank] != NULL && bytes > 0) {
        memcpy(arrays->start[rank], run->start, bytes);
    }
    if (arrays->end != NULL && arrays->end[rank] != NULL && bytes > 0) {
        memcpy(arrays->end[rank], run->end, bytes);
    }
}

pst_status pst_sim_run(const struct pst_plan *plan, const struct pst_graph *graph,
                       const struct pst_cost_model *cost, uint64_t *const *ret_start,
                       uint64_t *const *ret_end, uint64_t *ret_makespan_ns, struct pst_error *err)
{
    struct arrays arrays = {ret_start, ret_end};
    struct steps steps = {.sink = plan->asynchronous ? NULL : copy_out, .context = &arrays};
    struct pst_sim_result result;
    pst_status status = run_steps(&steps, plan, graph, cost, 1, false, &result, err);
    if (status == PST_OK) {
        *ret_makespan_ns = result.total_ns;
    }
    return status;
}
