/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning runs search with linear memory and ask the job's scheduler and memory optimizer about
 * the result; what does not fit in truth is planned again with less.
 */
#include <math.h>
#include <stdio.h>

#include "sequence.h"
#include "trial.h"

enum { ATTEMPTS = 8 };

/* So many take about a second. A search that took longer is not doubled. */
#define PASSES_FEW UINT64_C(1000000)

static void remark_table(const struct part_problem *p, const struct gp_answer *a)
{
    char text[2048];
    size_t used = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; i < a->table.n && used + 128 < sizeof text; i++) {
        const struct gp_try *t = &a->table.tries[i];
        const char *gap = i == 0 ? "" : "; ";
        char size[24] = "per stage";
        int n;

        if (t->b != 0) {
            snprintf(size, sizeof size, "%u", t->b);
        }
        if (t->skipped || (!t->result.found && t->b != a->b)) {
            n = snprintf(text + used, sizeof text - used, "%s%s: %s", gap, size,
                         t->skipped ? "no better" : "does not fit");
        } else {
            const struct part_value *v = t->b == a->b ? &a->value : &t->result.value;

            n = v->step_ns == PART_STEP_UNKNOWN
                    ? snprintf(text + used, sizeof text - used, "%s%s: T %.6g us, %.6g B", gap,
                               size, v->bottleneck_ns / 1000, v->peak_bytes)
                    : snprintf(text + used, sizeof text - used,
                               "%s%s: T %.6g us, step %.6g us, %.6g B", gap, size,
                               v->bottleneck_ns / 1000, v->step_ns / 1000, v->peak_bytes);
        }
        used += n > 0 ? (size_t)n : 0;
    }
    part_remark_text(p, "sizes", text);
}

static void remark(const struct part_problem *p, const struct gp_answer *a)
{
    part_remark_number(p, "probes", (double)a->probes);
    part_remark_number(p, "states", (double)a->states);
    part_remark_number(p, "depth", a->value.depth);
    part_remark_number(p, "idle_devices", p->n_devices - (double)a->value.devices);
    if (a->lower_ns > 0 && a->lower_ns < INFINITY) {
        part_remark_number(p, "gap", fmax(1, a->value.bottleneck_ns / a->lower_ns));
    }
    if (a->bound_ns > 0 && a->bound_ns < INFINITY) {
        part_remark_number(p, "family_gap", fmax(1, a->value.bottleneck_ns / a->bound_ns));
    }
    part_remark_flag(p, "family_optimum", a->family_optimum);
    part_remark_flag(p, "optimal",
                     a->lower_ns > 0 && a->value.bottleneck_ns <= a->lower_ns * (1 + 1e-9));
    part_remark_flag(p, "series_parallel", a->series_parallel);
    part_remark_flag(p, "budget_spent", a->has_expired);
    if (a->in_row) {
        part_remark_flag(p, "in_row", true);
    }
    part_remark_text(p, "source", a->source);
    if (a->tried > 0) {
        part_remark_number(p, "simulated", a->tried);
    }
    remark_table(p, a);
}

/* Schedulers with a fixed number of stages: the slowest are halved until there are as many. */
static void fill_up(const struct part_problem *p, struct gp_answer *a)
{
    uint32_t wanted = p->in != NULL ? p->in->n_stages : 0, s, i;
    uint32_t *room = call_alloc((size_t)p->n + p->n_devices + 1, sizeof *room);
    struct part_plan plan = {0};

    if (wanted > a->plan.n_stages) {
        for (s = 0; s < a->plan.n_stages; s++) {
            room[p->n + s] = a->plan.stages[s].d;
            for (i = 0; i < a->plan.stages[s].n_nodes; i++) {
                room[a->plan.stages[s].nodes[i]] = s;
            }
        }
        part_sequence_plan(p, room, a->plan.n_stages, room + p->n, a->plan.stages[0].b, wanted,
                           &plan);
        part_plan_finish(&a->plan);
        a->plan = plan;
    }
}

/* Bytes of one stage by the linear model. */
static double linear_bytes(const struct part_problem *p, const struct part_plan *plan, uint32_t s,
                           double peak_bytes)
{
    struct part_value value;

    part_plan_value(plan, p, false, &value);
    return value.worst == s ? value.worst_bytes : peak_bytes;
}

static pst_status say_too_large(const struct part_problem *p, const struct gp_answer *a)
{
    const struct part_stage *stage = &a->plan.stages[a->value.worst];
    uint32_t i, large = stage->nodes[0];

    for (i = 0; i < stage->n_nodes; i++) {
        uint32_t v = stage->nodes[i];

        if (p->weight_bytes[v] * p->weight_multiplier + p->saved_bytes[v] * stage->b >
            p->weight_bytes[large] * p->weight_multiplier + p->saved_bytes[large] * stage->b) {
            large = v;
        }
    }
    return pst_failf(
        p->host, PST_ERR_INFEASIBLE,
        "a stage of %u nodes, the largest \"%s\", is charged %.0f bytes at micro-batch size %u, a "
        "device has %.0f; use more devices, smaller micro-batches, or a memory "
        "optimizer that saves more",
        stage->n_nodes, part_node_name(p, large), a->value.worst_bytes, stage->b,
        (double)p->in->capacity_bytes);
}

/* Does the plan hold by the job's own prices? Else less memory to plan with. */
static void verify(struct part_problem *p, struct gp_answer *a, bool *ret_holds)
{
    double has = (double)p->in->capacity_bytes, linear;

    fill_up(p, a);
    *ret_holds = false;
    part_plan_value(&a->plan, p, true, &a->value);
    *ret_holds = a->value.fits;
    if (!a->value.fits) {
        linear = linear_bytes(p, &a->plan, a->value.worst, a->value.worst_bytes);
        linear = fmin(linear, p->capacity_bytes);
        p->capacity_bytes = fmin(0.98 * linear, linear - (a->value.worst_bytes - has));
        if (!(p->capacity_bytes > 0.1 * linear)) {
            p->capacity_bytes = 0.5 * linear;
        }
    }
}

/* A stage may also run as far ahead as in a row of stages, where memory allows it. */
static void try_row(struct part_problem *p, bool chain, struct gp_answer *answer)
{
    struct gp_answer row = {.candidates = answer->candidates, .chains = answer->chains};
    bool found;

    part_plan_copy(&answer->plan, &row.plan);
    p->in_row = true;
    gp_trial_best(p, chain, &row, &found);
    answer->tried += row.tried;
    answer->candidates = row.candidates;
    answer->chains = row.chains;
    answer->in_row = found && row.value.step_ns < answer->value.step_ns * (1 - 1e-9);
    if (answer->in_row) {
        answer->plan = row.plan;
        answer->value = row.value;
        answer->b = row.b;
    }
    p->in_row = answer->in_row;
}

/* Does it matter to the plan what sums inside a node take? */
static bool has_sums_in_nodes(const struct part_problem *p, const struct part_plan *plan)
{
    uint32_t s;

    for (s = 0; p->node_sync_bytes_per_s > 0 && s < plan->n_stages; s++) {
        if (plan->stages[s].d > 1 && plan->stages[s].d <= p->figures.node_size) {
            return true;
        }
    }
    return false;
}

/* Once more, as though sums inside a node were as slow as between nodes: plans with fewer replicas
   come up, and other hills. The trials say which answer is better. */
static pst_status try_slow_sums(struct part_problem *p, const struct gp_options *options,
                                struct gp_answer *answer)
{
    double rate = p->node_sync_bytes_per_s;
    struct gp_answer slow;
    bool found = false;
    pst_status status;

    p->node_sync_bytes_per_s = 0;
    status = gp_solve(p, options, &slow);
    if (status == PST_OK && slow.found) {
        gp_trial_best(p, false, &slow, &found);
        answer->tried += slow.tried;
    }
    p->node_sync_bytes_per_s = rate;
    if (found && slow.value.step_ns < answer->value.step_ns * (1 - 1e-9)) {
        answer->plan = slow.plan;
        answer->b = slow.b;
        part_plan_value(&answer->plan, p, true, &answer->value);
        answer->value.step_ns = slow.value.step_ns;
    }
    return status;
}

static pst_status solve_once(struct part_problem *p, const struct gp_options *options,
                             struct gp_answer *answer, bool *ret_holds)
{
    pst_status status = gp_solve(p, options, answer);

    *ret_holds = true;
    if (status != PST_OK || !answer->found ||
        (p->figures.reference != 0 && !answer->candidates.wanted)) {
        return status;
    }
    *ret_holds = false;
    if (answer->candidates.wanted) {
        gp_trial_best(p, options->force_chain, answer, ret_holds);
        if (*ret_holds && p->figures.reference != 0 && !p->in_row) {
            try_row(p, options->force_chain, answer);
        }
        if (*ret_holds && answer->tried > 0 && answer->passes < PASSES_FEW &&
            has_sums_in_nodes(p, &answer->plan) && !options->force_chain && !answer->has_expired) {
            status = try_slow_sums(p, options, answer);
        }
    }
    if (!*ret_holds) {
        verify(p, answer, ret_holds);
    }
    return status;
}

/* Again and again with less memory, until the plan holds or there is none. Keeps the last plan. */
static pst_status insist(struct part_problem *p, const struct gp_options *options,
                         struct gp_answer *answer, bool *ret_holds)
{
    double capacity = p->capacity_bytes;
    struct gp_answer next = {0};
    uint32_t i;
    pst_status status = PST_OK;

    *ret_holds = false;
    for (i = 0; status == PST_OK && !*ret_holds && i < ATTEMPTS; i++) {
        status = solve_once(p, options, &next, ret_holds);
        if (status == PST_OK && !next.found) {
            *ret_holds = false;
            break;
        }
        *answer = next;
        next = (struct gp_answer){0};
    }
    p->capacity_bytes = capacity;
    return status;
}

pst_status gp_plan_for(struct part_problem *problem, const struct gp_options *options,
                       struct pst_partition_out *out)
{
    struct gp_options chain = *options;
    struct gp_answer answer = {0};
    bool holds;
    pst_status status = insist(problem, options, &answer, &holds);

    if (status == PST_OK && answer.found && !holds && !options->force_chain) {
        chain.force_chain = true; /* as a scheduler of chains counts */
        status = insist(problem, &chain, &answer, &holds);
    }
    if (status == PST_OK && !answer.found) {
        status = part_infeasible(problem, problem->sizes[0]);
    } else if (status == PST_OK && !holds) {
        status = say_too_large(problem, &answer);
    } else if (status == PST_OK) {
        remark(problem, &answer);
        part_plan_answer(&answer.plan, problem, out);
    }
    return status;
}
