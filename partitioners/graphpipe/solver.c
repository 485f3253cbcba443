/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chain.h"
#include "solver.h"

/* Work of operators, as a weight on paths. */
static int64_t *work_of(const struct part_problem *p)
{
    int64_t *work = call_alloc((size_t)p->n + 1, sizeof *work);
    uint32_t v;

    for (v = 0; v < p->n; v++) {
        double ns = p->n_samples > 0 ? p->forward_ns[v] + p->backward_ns[v] : 0;

        work[v] = ns < 1e12 ? llround(ns * 1000) : INT64_C(1000000000000000);
    }
    return work;
}

static pst_status refuse(const struct part_problem *p, const struct gp_tree *tree)
{
    char names[256];
    size_t used = 0;
    uint32_t i;

    for (i = 0; i < 3 && i < tree->n_kernel; i++) {
        int n = snprintf(names + used, sizeof names - used, "%s\"%.60s\"", i == 0 ? "" : ", ",
                         part_node_name(p, tree->kernel[i]));

        used += n > 0 ? (size_t)n : 0;
    }
    return pst_failf(p->host, PST_ERR_UNSUPPORTED,
                     "the graph is not series-parallel: %u operators cannot be reduced (%s%s); use "
                     "sp = \"auto\", which rewrites them",
                     tree->n_kernel, names, tree->n_kernel > 3 ? ", ..." : "");
}

/* A plan of a table. */
struct choice {
    uint32_t b;
    struct gp_result *result; /* NULL: none */
};

/* share: by how much T may be larger */
static void prefer_short(const struct gp_result *best, double share, struct gp_try *t,
                         struct gp_result *r, const struct part_problem *p, struct choice *fast)
{
    if (r->found && r->value.bottleneck_ns <= best->value.bottleneck_ns * (1 + share)) {
        gp_result_step(p, r);
        if (r->value.step_ns < fast->result->value.step_ns * (1 - 1e-12)) {
            *fast = (struct choice){t->b, r};
        }
    }
}

static struct choice least(const struct gp_table *table)
{
    struct choice best = {0};
    uint32_t i;

    for (i = 0; i < table->n; i++) {
        struct gp_try *t = &table->tries[i];

        if (t->result.found &&
            (best.result == NULL || part_value_better(&t->result.value, &best.result->value))) {
            best = (struct choice){t->b, &t->result};
        }
    }
    return best;
}

/* Which of the sizes with plans: the least T, but where the difference is smaller than what
   warming up takes, the shortest step. Where stages have sizes of their own it is T alone. Where a
   search by the reference model goes beyond the family the shortest step of the least T: no
   sequence of stages is to have a smaller one. */
static void choose(const struct part_problem *p, const struct gp_options *options,
                   const struct gp_table *table, struct choice *ret_choice)
{
    struct choice best = least(table), fast = best;
    double share;
    uint32_t i;

    if (best.result != NULL) {
        gp_result_step(p, best.result);
    }
    if (best.result != NULL && best.result->value.step_ns < INFINITY && !options->per_stage) {
        share = options->refine && p->figures.reference != 0
                    ? 1e-12
                    : 1 - best.result->value.bottleneck_ns * p->batch / best.result->value.step_ns;
        for (i = 0; i < table->n; i++) {
            struct gp_try *t = &table->tries[i];

            prefer_short(best.result, share, t, &t->result, p, &fast);
            prefer_short(best.result, share, t, &t->fast, p, &fast);
        }
    }
    *ret_choice = fast;
}

/* Orders as well, where blocks are not the whole truth or have nothing to offer. */
static void add_orders(const struct part_problem *p, const struct gp_tree *tree,
                       struct gp_watch *watch, struct gp_answer *answer)
{
    const struct gp_result *family = least(&answer->table).result;
    uint32_t i;

    if (tree->reduced && tree->n_blocks > 0 && family != NULL) {
        return;
    }
    for (i = 0; i < answer->table.n; i++) {
        struct gp_try *t = &answer->table.tries[i];

        if (t->b != 0) {
            bool found = t->result.found;
            double before = t->result.value.bottleneck_ns;

            gp_orders(p, t->b, 4, watch, &t->result);
            if (t->result.found && (!found || t->result.value.bottleneck_ns < before)) {
                answer->source = "orders";
                t->skipped = false;
            }
        }
    }
}

static void take(struct gp_answer *answer, struct choice chosen)
{
    uint32_t i;

    answer->lower_ns = INFINITY;
    answer->bound_ns = INFINITY;
    answer->family_optimum = true;
    for (i = 0; i < answer->table.n; i++) {
        const struct gp_result *r = &answer->table.tries[i].result;

        answer->probes += r->probes;
        answer->states += r->states;
        if (r->probes > 0 && r->lower_ns > 0) {
            answer->lower_ns = fmin(answer->lower_ns, r->lower_ns);
            answer->bound_ns = fmin(answer->bound_ns, r->bound_ns);
            answer->family_optimum = answer->family_optimum && r->proven;
        }
    }
    if (isinf(answer->lower_ns)) {
        answer->lower_ns = 0; /* operators without work */
    }
    if (chosen.result != NULL) {
        answer->found = true;
        answer->b = chosen.b;
        answer->plan = chosen.result->plan;
        answer->value = chosen.result->value;
        chosen.result->plan = (struct part_plan){0};
    }
}

/* All sizes, and with per_stage one more that stands for a size of each stage's own; nothing known
   about any. */
static void empty_table(const struct part_problem *p, bool per_stage, struct gp_table *table)
{
    uint32_t i;

    table->n = p->n_sizes + per_stage;
    CALL_TAKE(table->tries, table->n);
    for (i = 0; i < p->n_sizes; i++) {
        table->tries[i].b = p->sizes[i];
    }
}

static bool has_degree(const struct part_problem *p, uint32_t b)
{
    uint32_t k;

    for (k = 0; k < p->n_degrees && b % p->degrees[k] != 0; k++) {
    }
    return k < p->n_degrees;
}

/* A larger size must do better than all smaller ones, so most searches end with their first probe.
   A size for each stage must do better than all. */
static void sweep(const struct part_problem *p, const struct gp_options *options,
                  const struct gp_tree *tree, struct gp_watch *watch, struct gp_table *table)
{
    double least = INFINITY;
    uint32_t i;

    for (i = 0; i < table->n; i++) {
        struct gp_try *t = &table->tries[i];

        if (t->b == 0 || has_degree(p, t->b)) {
            gp_search_size(p, tree, options, t->b, least, watch, &t->result);
        }
        if (t->result.found && t->result.value.bottleneck_ns < least * (1 - 1e-12)) {
            least = t->result.value.bottleneck_ns;
            continue;
        }
        t->skipped = least < INFINITY;
        if (t->result.found) {
            part_plan_finish(&t->result.plan);
            t->result.found = false;
        }
    }
}

static void solve_blocks(const struct part_problem *p, const struct gp_options *options,
                         const struct gp_tree *tree, struct gp_watch *watch,
                         struct gp_answer *answer)
{
    bool nested_too_deeply = tree->n_blocks == 0;

    empty_table(p, options->per_stage && !nested_too_deeply, &answer->table);
    if (!nested_too_deeply) {
        sweep(p, options, tree, watch, &answer->table);
    }
    answer->series_parallel = tree->series_parallel;
    add_orders(p, tree, watch, answer);
}

static void solve_chain(const struct part_problem *p, struct gp_watch *watch,
                        struct gp_answer *answer)
{
    uint32_t i;

    empty_table(p, false, &answer->table);
    answer->source = "chain";
    for (i = 0; i < answer->table.n; i++) {
        struct gp_result *r = &answer->table.tries[i].result;
        struct part_costs costs = {0};

        gp_orders(p, p->sizes[i], 1, watch, r);
        part_costs_init(p, p->sizes[i], &costs);
        gp_candidates_cuts(&answer->chains, p, &costs, PART_ORDER_INDEX);
    }
}

void gp_tree_of(const struct part_problem *p, uint32_t rule, struct gp_tree *ret_tree)
{
    int64_t *work = work_of(p);

    memset(ret_tree, 0, sizeof *ret_tree);
    gp_tree_init(ret_tree, p, work, rule);
}

static uint32_t rule_of(const struct gp_options *options)
{
    return options->sp == GP_SP_AUTO ? GP_SP_FLEXIBLE : options->sp;
}

static pst_status solve_graph(const struct part_problem *p, const struct gp_options *options,
                              struct gp_watch *watch, struct gp_answer *answer)
{
    uint32_t rule = rule_of(options);
    struct gp_tree tree;

    gp_tree_of(p, rule, &tree);
    if (rule == GP_SP_REQUIRE && tree.n_kernel > 0) {
        return refuse(p, &tree);
    }
    solve_blocks(p, options, &tree, watch, answer);
    answer->exact_blocks = tree.reduced;
    return PST_OK;
}

pst_status gp_solve(const struct part_problem *problem, const struct gp_options *options,
                    struct gp_answer *ret_answer)
{
    struct choice chosen;
    struct gp_watch watch;
    pst_status status;

    *ret_answer = (struct gp_answer){.source = "family",
                                     .candidates = {.wanted = options->refine && options->by_step},
                                     .chains = {.wanted = options->refine && options->by_step}};
    gp_watch_start(&watch, problem, options->time_limit_s);
    if (options->force_chain) {
        solve_chain(problem, &watch, ret_answer);
    } else {
        status = solve_graph(problem, options, &watch, ret_answer);
        if (status != PST_OK) {
            return status;
        }
        if (options->refine) {
            gp_beyond(problem, options, rule_of(options), &watch, ret_answer);
        }
    }
    choose(problem, options, &ret_answer->table, &chosen);
    take(ret_answer, chosen);
    ret_answer->has_expired = watch.has_expired;
    ret_answer->family_optimum =
        ret_answer->family_optimum && ret_answer->exact_blocks && !watch.has_expired;
    return PST_OK;
}
