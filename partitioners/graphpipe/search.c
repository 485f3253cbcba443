/* SPDX-License-Identifier: Apache-2.0
 *
 * The least T by bisection between what is proven impossible and the T of the best plan found.
 * Every stage has a T of its own, so there are finitely many values, and the search ends exactly: a
 * probe that fails also says which T is the least that could change its mind.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "search.h"

/* Depths are told apart for the sake of the plan, where memory does not ask for it, up to this. */
#define MOST_CELLS 200000
/* From here on a chain is left to the solver for orders. */
#define LONG_CHAIN 500

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void gp_watch_start(struct gp_watch *watch, const struct part_problem *problem, double limit_s)
{
    *watch = (struct gp_watch){.problem = problem};
    if (limit_s > 0) {
        watch->until_s = now_s() + limit_s;
    }
}

bool gp_watch_stop(void *watch_)
{
    struct gp_watch *watch = watch_;

    call_go_on(watch->problem->host);
    if (watch->until_s > 0 && now_s() > watch->until_s) {
        watch->has_expired = true;
    }
    return watch->has_expired;
}

void gp_result_step(const struct part_problem *p, struct gp_result *r)
{
    if (!r->found || r->value.step_ns != PART_STEP_UNKNOWN) {
        return;
    }
    part_plan_value(&r->plan, p, false, &r->value);
}

struct hunt {
    const struct gp_options *options;
    struct gp_probe probe;
    struct gp_levels levels;
    struct gp_costs costs;
    int64_t low, high; /* no plan of at most low; the best has high, or must be below it */
    int64_t found;     /* T of the last plan */
    uint64_t probes;
    bool relaxed; /* one level stands for all depths, as though each were the least */
    struct gp_result *result;
};

/* Depths that matter: beyond, a stage holds the whole batch, or there are no more stages. */
static uint32_t count_depths(const struct part_problem *p, uint32_t b)
{
    uint32_t n = p->n_devices, batches = p->batch / b;

    n = batches < n ? batches : n;
    n = p->n < n ? p->n : n;
    return n == 0 ? 1 : n;
}

/* Is memory no matter, because all operators on one device at the largest depth would fit? */
static bool is_ample(const struct part_problem *p, uint32_t b)
{
    double weight = 0, saved = 0, workspace = 0;
    uint64_t in_flight = (uint64_t)b * count_depths(p, b);
    uint32_t v;

    for (v = 0; v < p->n; v++) {
        weight += p->weight_bytes[v];
        saved += p->saved_bytes[v];
        workspace = fmax(workspace, p->workspace_bytes[v]);
    }
    return part_fits(p, part_memory(p, weight, saved, workspace, 1, in_flight));
}

static void hunt_init(struct hunt *h, const struct part_problem *problem,
                      const struct gp_tree *tree, const struct gp_options *options, uint32_t b,
                      struct gp_watch *watch)
{
    if (b == 0) {
        gp_levels_init_general(&h->levels, problem->sizes, problem->n_sizes, options->ks,
                               options->n_ks, problem->batch);
    } else if (options->max_depth > 0) {
        gp_levels_init_depths(&h->levels, b, problem->batch, options->max_depth + 1);
    } else {
        h->relaxed = !is_ample(problem, b) && count_depths(problem, b) > 1;
        gp_levels_init_depths(&h->levels, b, problem->batch, 1);
        if (!h->relaxed) {
            /* stands for all depths */
            h->levels.in_flight[0] = (uint64_t)b * count_depths(problem, b);
        }
    }
    gp_costs_init(&h->costs, problem, tree, &h->levels);
    gp_probe_init(&h->probe, &h->costs, &h->levels, options->grouping);
    h->probe.max_depth = options->max_depth;
    h->probe.stop = gp_watch_stop;
    h->probe.stop_context = watch;
    h->probe.max_states = options->max_states > 0 ? options->max_states : UINT64_MAX;
}

/* Keeps the plan of the probe at hand if it is better in truth. For graphs that the two rules
   reduce the search sees the truth; else bytes of edges across synchronisations may be off. */
static void keep(struct hunt *h)
{
    struct part_plan plan = {0};
    struct part_value value = {0};
    bool judged = !h->costs.tree->reduced, better;

    gp_probe_plan(&h->probe, &plan, &h->found);
    if (judged) {
        part_plan_rank(&plan, h->costs.problem, &value);
    }
    better = !judged || (value.legal && value.fits &&
                         (!h->result->found || part_value_better(&value, &h->result->value)));
    if (better) {
        part_plan_finish(&h->result->plan);
        h->result->plan = plan;
        h->result->value = value;
        h->result->found = true;
    } else {
        part_plan_finish(&plan);
    }
}

/* One probe; moves low or high. */
static void try(struct hunt *h, int64_t limit, bool *ret_found)
{
    gp_probe_run(&h->probe, limit, ret_found);
    h->probes++;
    if (!*ret_found) {
        h->low = h->probe.next - 1 > limit ? h->probe.next - 1 : limit;
        return;
    }
    keep(h);
    h->high = h->found;
}

/* From the lower bound up in growing steps until there is a plan. */
static void climb(struct hunt *h, bool *ret_found)
{
    int64_t limit = h->low + 1, step = h->low / 64 + 1;
    uint32_t misses = 0;

    *ret_found = false;
    while (!*ret_found && h->low + 1 < h->high) {
        if (limit >= h->high) {
            limit = h->high - 1;
        }
        if (h->probe.limited && ++misses == 3) {
            limit = h->high - 1; /* it may be memory that says no */
        }
        try(h, limit, ret_found);
        limit = h->low > limit ? h->low : limit;
        limit = limit > INT64_MAX / 2 - step ? INT64_MAX - 1 : limit + step;
        step = step > INT64_MAX / 4 ? step : 2 * step;
    }
}

static void descend(struct hunt *h, const struct gp_options *options)
{
    uint32_t certificates = 0;
    bool found;

    while (h->low + 1 < h->high) {
        int64_t gap = h->high - h->low, limit;

        if (!options->exact && (double)gap <= options->tolerance * (double)h->high) {
            break;
        }
        if (gap <= h->high / 512 && certificates < 3) {
            limit = h->high - 1;
            certificates++;
        } else {
            limit = h->low + gap / 2;
        }
        try(h, limit, &found);
    }
}

static void set_depths(struct hunt *h, uint32_t n)
{
    struct gp_group group = h->levels.groups[0];

    gp_levels_init_depths(&h->levels, group.b, h->costs.problem->batch, n);
    h->levels.groups[0].first_lane = group.first_lane;
    h->levels.groups[0].n_lanes = group.n_lanes;
}

/*
 * The plan of the least T, whichever way the search went: by one more probe. Where memory did not
 * tell depths apart it does so now, since of plans with the same T a flat one holds less.
 */
static void finish(struct hunt *h)
{
    const struct part_problem *p = h->costs.problem;
    uint32_t depths = count_depths(p, h->levels.groups[0].b);
    bool found;

    if (h->levels.simple && h->options->max_depth == 0 && h->levels.n < depths &&
        (uint64_t)p->n * depths <= MOST_CELLS) {
        set_depths(h, depths);
    }
    gp_probe_run(&h->probe, h->high, &found);
    if (found) {
        keep(h);
    }
}

static void search(struct hunt *h, const struct gp_options *options, bool *ret_found)
{
    climb(h, ret_found);
    if (*ret_found) {
        descend(h, options);
    }
}

/*
 * First as though every stage were a last one, which holds least: without depths a probe takes a
 * fraction of the time, and no plan is below the least T then. Mostly there is one of that T whose
 * true depths fit as well.
 */
static void search_relaxed(struct hunt *h, const struct gp_options *options, bool *ret_found)
{
    int64_t high = h->high, least;
    bool possible;

    search(h, options, &possible);
    *ret_found = false;
    part_plan_finish(&h->result->plan);
    h->result->found = false;
    if (!possible) {
        return;
    }
    least = h->high;
    h->high = high;
    set_depths(h, count_depths(h->costs.problem, h->levels.groups[0].b));
    try(h, least, ret_found);
    if (!*ret_found) {
        search(h, options, ret_found);
        return;
    }
    descend(h, options);
}

static pst_status hunt_run(void *hunt)
{
    struct hunt *h = hunt;
    bool found;

    if (h->relaxed) {
        search_relaxed(h, h->options, &found);
    } else {
        search(h, h->options, &found);
    }
    h->result->proven = h->low + 1 >= h->high;
    if (found) {
        finish(h);
    }
    return PST_OK;
}

/* One long row of operators, no branch anywhere. */
static bool is_long_chain(const struct gp_tree *tree)
{
    const struct gp_block *root = &tree->blocks[tree->n_blocks - 1];
    uint32_t i;

    if (root->n_ops < LONG_CHAIN || !tree->reduced) {
        return false;
    }
    for (i = 0; i < root->n_kids; i++) {
        if (tree->blocks[tree->kids[root->first_kid + i]].kind != GP_EDGE) {
            return false;
        }
    }
    return true;
}

void gp_search_size(const struct part_problem *problem, const struct gp_tree *tree,
                    const struct gp_options *options, uint32_t b, double below_ns,
                    struct gp_watch *watch, struct gp_result *ret_result)
{
    struct hunt h = {.result = ret_result, .options = options};
    double most, least;
    struct call_region region;
    bool exact;
    pst_status status;

    memset(ret_result, 0, sizeof *ret_result);
    if (b != 0 && is_long_chain(tree)) {
        gp_search_chain(problem, b, options->max_depth, below_ns, ret_result, &exact);
        if (exact) {
            return;
        }
    }
    call_enter(&region);
    hunt_init(&h, problem, tree, options, b, watch);
    most = below_ns / h.costs.ns_per_tick * (1 - 1e-12);
    least = options->above_ns / h.costs.ns_per_tick * (1 - 1e-12);
    h.low = h.costs.lower_bound - 1;
    h.low = least > (double)h.low ? (int64_t)least : h.low;
    h.high = most < 9e18 ? (int64_t)ceil(most) : INT64_MAX;
    ret_result->lower_ns = (double)h.costs.lower_bound * h.costs.ns_per_tick;
    /* Ends itself when time or states are spent; what it found until then stands. */
    status = call_try(hunt_run, &h);
    if (status == PST_ERR_CANCELLED) {
        call_go_on(problem->host);
        watch->has_expired = true;
    } else {
        call_check(status);
    }
    if (ret_result->found) {
        part_plan_rank(&ret_result->plan, problem, &ret_result->value);
    }
    ret_result->bound_ns = (double)(h.low + 1) * h.costs.ns_per_tick;
    ret_result->probes = h.probes;
    ret_result->states = h.probe.n_states;
    call_keep(ret_result->plan.stages);
    call_leave(&region);
}
