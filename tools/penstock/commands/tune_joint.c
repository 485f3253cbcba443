/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/tune_joint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/signals.h"
#include "base/util.h"
#include "reports/compare_columns.h"
#include "reports/progress.h"
#include "tune/space.h"
#include "tune/trials.h"

/* When the search is to end, for a question that has no context. */
static uint64_t deadline_ns;

static bool is_over(void)
{
    return pst_stop_requested() || (deadline_ns > 0 && pst_now_ns() >= deadline_ns);
}

/* A trial that was begun before it was known whether the search comes to it. */
struct early {
    uint32_t point;
    bool wanted, done; /* the search has come to it; it has ended, as `trial`, */
    bool failed;       /* by an error that ends the search, if that comes to it */
    struct pst_trial trial;
};

/* One config's search. */
struct searching {
    struct pst_cli *cli;
    const struct pst_cli_sets *sets;
    struct pst_cli_joint *joint;
    struct pst_joint_search *search;
    uint32_t set, before;                 /* which it is; combinations of those before it */
    uint32_t best;                        /* combination; PST_NONE: there is none yet */
    struct pst_score score, score_before; /* of the best, of all and of the configs before */
    uint32_t n_open;                      /* points that the search waits for */
    bool through;                         /* no other will come */
    struct early *early;
    size_t n_early, early_room;
};

/* --- trials ------------------------------------------------------------------------------------*/

static char *config_of(void *context, uint32_t point)
{
    const struct searching *searching = context;

    return pst_combination_config(&searching->sets->sets[searching->set].combinations, point, 0, 0);
}

/* "best 812 samples/s: uniform, 1f1b, none, 4 devices, micro-batch 2; 3m10s left". */
static void show_progress(void *context, uint32_t point, uint32_t n_done)
{
    const struct searching *searching = context;
    const struct pst_trial *best = pst_tried_find(&searching->joint->tried, searching->best);
    const uint64_t now = pst_now_ns();
    struct pst_record name;
    char text[512] = "nothing fits yet", left[32] = "", eta[32];

    (void)point;
    (void)n_done;
    if (deadline_ns > now) {
        snprintf(left, sizeof left, "; %s left",
                 pst_format_eta(eta, (deadline_ns - now) / 1000000000));
    }
    if (best != NULL && best->state == PST_TRIAL_DONE) {
        pst_cli_record_name(searching->sets, searching->best, &name);
        snprintf(text, sizeof text, "best %.4g samples/s%s: %s, %s, %s, %s devices, micro-batch %s",
                 pst_trial_samples_per_second(best), left, name.labels[PST_AXIS_SCHEDULER],
                 name.labels[PST_AXIS_PARTITIONER], name.labels[PST_AXIS_MEMOPT],
                 name.labels[PST_AXIS_DEVICES], name.labels[PST_AXIS_MICROBATCH]);
    }
    pst_cli_progress_text(searching->cli, (uint32_t)searching->joint->tried.n,
                          searching->sets->n * searching->joint->budget, text);
}

/* Keeps the plan of the best trial alone. */
static void keep_better(struct searching *searching, uint32_t point, struct pst_trial *trial)
{
    const uint32_t combination = searching->before + point;
    const struct pst_score score = pst_goal_score(&searching->joint->goal, trial);
    const int order = pst_score_compare(&score, &searching->score);
    struct pst_trial *before = pst_tried_find(&searching->joint->tried, searching->best);

    if (searching->best != PST_NONE &&
        (order < 0 || (order == 0 && combination >= searching->best))) {
        free(trial->plan);
        trial->plan = NULL;
        return;
    }
    if (before != NULL && before != trial) {
        free(before->plan);
        before->plan = NULL;
    }
    searching->best = combination;
    searching->score = score;
}

/* Reports the trial of a point that the search waits for. */
static void report_trial(struct searching *searching, uint32_t point, struct pst_trial *trial)
{
    pst_joint_report(searching->search, point, pst_goal_score(&searching->joint->goal, trial));
    keep_better(searching, point, trial);
    searching->n_open--;
}

static void add_trial(struct searching *searching, uint32_t point, const struct pst_trial *trial)
{
    struct pst_tried *tried = &searching->joint->tried;

    pst_tried_add(tried, searching->before + point, trial);
    report_trial(searching, point, pst_tried_find(tried, searching->before + point));
}

static struct early *find_early(const struct searching *searching, uint32_t point)
{
    for (size_t i = 0; i < searching->n_early; i++) {
        if (searching->early[i].point == point) {
            return &searching->early[i];
        }
    }
    return NULL;
}

/* For a process that nobody needs: what the search may come to, while it waits. */
static bool guess_point(struct searching *searching, uint32_t *ret_point)
{
    uint32_t points[PST_JOINT_ROUND];
    const uint32_t n = pst_joint_guess(searching->search, points);

    for (uint32_t i = 0; i < n; i++) {
        if (find_early(searching, points[i]) == NULL &&
            pst_tried_find(&searching->joint->tried, searching->before + points[i]) == NULL) {
            pst_grow(&searching->early, &searching->early_room, searching->n_early,
                     sizeof *searching->early);
            searching->early[searching->n_early++] = (struct early){.point = points[i]};
            *ret_point = points[i];
            return true;
        }
    }
    return false;
}

/* Finds the next point to try, other than points in the file or begun early that did not fail. */
static bool next_point(void *context, uint32_t *ret_point)
{
    struct searching *searching = context;

    while (pst_joint_next(searching->search, ret_point)) {
        struct early *early = find_early(searching, *ret_point);
        struct pst_trial *trial =
            pst_tried_find(&searching->joint->tried, searching->before + *ret_point);

        searching->n_open++;
        if (trial != NULL) {
            report_trial(searching, *ret_point, trial);
        } else if (early == NULL || early->failed) {
            if (early != NULL) {
                early->wanted = true;
            }
            return true;
        } else if (early->done) {
            add_trial(searching, *ret_point, &early->trial);
            early->trial = (struct pst_trial){.state = PST_TRIAL_OPEN};
        } else {
            early->wanted = true;
        }
    }
    searching->through = searching->n_open == 0;
    return !searching->through && guess_point(searching, ret_point);
}

static bool is_through(void *context)
{
    const struct searching *searching = context;

    return searching->through;
}

static bool drops_point(void *context, uint32_t point)
{
    struct early *early = find_early(context, point);

    if (early == NULL || early->wanted) {
        return false;
    }
    early->failed = true;
    return true;
}

static pst_status take_trial(void *context, uint32_t point, const struct pst_trial *trial,
                             struct pst_error *err)
{
    struct searching *searching = context;
    struct early *early = find_early(searching, point);

    (void)err;
    if (early == NULL || early->wanted) {
        add_trial(searching, point, trial);
    } else {
        early->done = true;
        early->trial = *trial;
    }
    return PST_OK;
}

static void drop_early(struct searching *searching)
{
    for (size_t i = 0; i < searching->n_early; i++) {
        pst_trial_finish(&searching->early[i].trial);
    }
    free(searching->early);
    searching->early = NULL;
    searching->n_early = searching->early_room = 0;
}

static bool is_hopeless(void *context, uint32_t point, const struct pst_score *best)
{
    const struct searching *searching = context;
    const struct pst_cli_set *set = &searching->sets->sets[searching->set];
    const char *label = pst_combination_label(&set->combinations, point, PST_AXIS_DEVICES);
    unsigned long n = strtoul(label, NULL, 10);

    if (pst_score_compare(&searching->score_before, best) > 0) {
        best = &searching->score_before;
    }
    return pst_space_shares_nothing(&set->combinations, point) ||
           pst_bound_excludes(&set->bound, &searching->joint->goal, best, n > 0 ? (uint32_t)n : 1);
}

/* --- a config ----------------------------------------------------------------------------------*/

static void search_set(struct searching *searching)
{
    struct pst_cli *cli = searching->cli;
    struct pst_cli_joint *joint = searching->joint;
    struct pst_cli_set *set = &searching->sets->sets[searching->set];
    struct pst_joint asked = {
        .start = pst_space_start(&set->job.job, &set->combinations),
        .budget = joint->budget,
        .seed = joint->seed,
        .blind = joint->blind,
        .context = searching,
        .hopeless = is_hopeless,
    };
    const struct pst_trials trials = {
        .n = joint->budget,
        .n_jobs = joint->n_jobs == 0 ? pst_usable_cores() : joint->n_jobs,
        .options = {.keep_plan = joint->keep_plan,
                    .patience_ns = PST_CLI_PATIENCE_NS,
                    .cancelled = is_over},
        .context = searching,
        .next = next_point,
        .config = config_of,
        .begun = show_progress,
        .each = take_trial,
        .drops = drops_point,
        .through = is_through,
    };
    struct pst_joint_found found;
    pst_status status;

    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        const uint32_t factor = pst_combinations_factor(&set->combinations, a);

        if (factor > 1) {
            asked.coupled |= a >= PST_AXIS_DEVICES ? 1u << asked.n_dims : 0;
            asked.size[asked.n_dims] = factor;
            asked.group[asked.n_dims++] = pst_space_groups(&set->combinations, a);
        }
    }
    searching->score_before = searching->score;
    searching->n_open = 0;
    searching->through = false;
    searching->search = pst_joint_begin(&asked);
    status = pst_trials_run(&trials, &cli->err);
    pst_joint_end(searching->search, &found);
    drop_early(searching);
    pst_cli_must(cli, status == PST_ERR_CANCELLED && is_over() ? PST_OK : status);
    joint->found.n_points += found.n_points;
    joint->found.n_tried += found.n_tried;
    joint->found.n_hopeless += found.n_hopeless;
    joint->found.all &= found.all;
}

/* --- all ---------------------------------------------------------------------------------------*/

/* Digests all that decides trials: configs, values, profiles, plugins, this version. */
static struct pst_hash digest_of(const struct pst_cli_sets *sets,
                                 const struct pst_provenance *provenance)
{
    struct pst_hasher *hasher = pst_hasher_create();
    struct pst_hash digest;

    pst_hasher_add(hasher, PENSTOCK_VERSION, sizeof PENSTOCK_VERSION);
    for (uint32_t s = 0; s < sets->n; s++) {
        const struct pst_combinations *set = &sets->sets[s].combinations;
        const struct pst_provenance_config *from = &provenance->configs[s];
        char *base = json_dumps(set->base, JSON_COMPACT | JSON_SORT_KEYS);

        pst_hasher_add(hasher, base, strlen(base));
        free(base);
        for (uint32_t a = 0; a < PST_AXES; a++) {
            for (uint32_t i = 0; i < set->axes[a].n; i++) {
                const char *label = set->axes[a].values[i].label;

                pst_hasher_add(hasher, label, strlen(label) + 1);
            }
        }
        pst_hasher_add(hasher, from->profile_digest, strlen(from->profile_digest));
        for (uint32_t i = 0; i < from->n_plugins; i++) {
            pst_hasher_add(hasher, from->plugins[i].digest, strlen(from->plugins[i].digest));
        }
    }
    digest = pst_hasher_end(hasher);
    pst_hasher_destroy(hasher);
    return digest;
}

static int by_combination(const void *a, const void *b)
{
    const struct pst_tried_one *x = a, *y = b;

    return x->combination < y->combination ? -1 : x->combination > y->combination;
}

struct plan_of {
    const char *config;
    struct pst_hash digest;
    struct pst_record *record;
};

static int by_plan(const void *a, const void *b)
{
    const struct plan_of *x = a, *y = b;
    const int order = x->config != y->config ? strcmp(x->config, y->config)
                                             : memcmp(&x->digest, &y->digest, sizeof x->digest);

    return order != 0 ? order : x->record < y->record ? -1 : x->record > y->record;
}

/* Marks each record whose plan an earlier record of its config has, too. */
static void find_equals(struct pst_compare_result *result)
{
    struct plan_of *plans = pst_alloc((size_t)result->n + 1, sizeof *plans);
    uint32_t n = 0, first = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        struct pst_record *record = &result->records[i];

        if (record->trial.state == PST_TRIAL_DONE) {
            plans[n++] = (struct plan_of){record->config, record->trial.digest, record};
        }
    }
    qsort(plans, n, sizeof *plans, by_plan);
    for (uint32_t i = 1; i < n; i++) {
        if (plans[i].config == plans[first].config &&
            pst_hash_equal(&plans[i].digest, &plans[first].digest)) {
            plans[i].record->same_as = plans[first].record;
        } else {
            first = i;
        }
    }
    free(plans);
}

/* The trials are the records' then. */
static void make_records(const struct pst_cli_sets *sets, struct pst_tried *tried,
                         struct pst_compare_result *result)
{
    if (tried->n > 0) { /* a signal may end the search before its first trial */
        qsort(tried->all, tried->n, sizeof *tried->all, by_combination);
    }
    result->n = (uint32_t)tried->n;
    result->n_configs = sets->n;
    result->records = pst_alloc((size_t)result->n + 1, sizeof *result->records);
    for (uint32_t i = 0; i < result->n; i++) {
        pst_cli_record_name(sets, tried->all[i].combination, &result->records[i]);
        result->records[i].trial = tried->all[i].trial;
    }
    tried->n = 0;
    find_equals(result);
}

void pst_cli_joint_search(struct pst_cli *cli, const struct pst_cli_sets *sets,
                          struct pst_cli_joint *joint, struct pst_compare_result *result)
{
    const struct pst_hash digest = digest_of(sets, &result->provenance);
    struct searching searching = {.cli = cli, .sets = sets, .joint = joint, .best = PST_NONE};

    pst_cli_must(cli, pst_tried_open(&joint->tried, joint->resume, &digest, &cli->err));
    deadline_ns = joint->time_ns == 0 ? 0 : pst_now_ns() + joint->time_ns;
    joint->found = (struct pst_joint_found){.all = true};
    for (; searching.set < sets->n; searching.set++) {
        search_set(&searching);
        searching.before += sets->sets[searching.set].combinations.n;
    }
    pst_cli_progress(cli, 0, 0, NULL);
    make_records(sets, &joint->tried, result);
    joint->kept = pst_tried_finish(&joint->tried, &joint->lost);
    result->goal = joint->goal;
    result->searched = &joint->found;
}

/* --- the best few ------------------------------------------------------------------------------*/

struct finals {
    const struct pst_cli_sets *sets;
    const struct pst_goal *goal;
    struct pst_record *records;
    const uint32_t *order;
};

static char *finalist_config(void *context, uint32_t i)
{
    const struct finals *finals = context;

    return pst_cli_config(finals->sets, finals->records[finals->order[i]].combination);
}

/* Finalists may have come to one plan: the first of them stands for the others, and for what they
   stood for. */
static void unite_equals(const struct finals *finals, uint32_t n, struct pst_compare_result *result)
{
    for (uint32_t k = 1; k < n; k++) {
        struct pst_record *record = &finals->records[finals->order[k]], *first = NULL;

        for (uint32_t e = 0; e < k && first == NULL; e++) {
            struct pst_record *earlier = &finals->records[finals->order[e]];

            first = earlier->same_as == NULL && earlier->config == record->config &&
                            pst_hash_equal(&earlier->trial.digest, &record->trial.digest)
                        ? earlier
                        : NULL;
        }
        for (uint32_t i = 0; i < result->n && first != NULL; i++) {
            struct pst_record *one = &result->records[i];

            one->same_as = one == record || one->same_as == record ? first : one->same_as;
        }
    }
}

/* The new plan is at least as good, or the other stays. */
static pst_status take_finalist(void *context, uint32_t i, const struct pst_trial *trial,
                                struct pst_error *err)
{
    const struct finals *finals = context;
    struct pst_trial *old = &finals->records[finals->order[i]].trial, other = *trial;
    const struct pst_score was = pst_goal_score(finals->goal, old);
    const struct pst_score is = pst_goal_score(finals->goal, &other);

    (void)err;
    if (pst_score_compare(&is, &was) >= 0) {
        pst_trial_finish(old);
        *old = other;
    } else {
        pst_trial_finish(&other);
    }
    return PST_OK;
}

uint32_t pst_cli_joint_finish(struct pst_cli *cli, const struct pst_cli_sets *sets,
                              const struct pst_cli_joint *joint, struct pst_compare_result *result,
                              uint32_t *ret_order)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order);
    uint32_t n = pst_compare_plans(result, order);
    struct finals finals = {sets, &joint->goal, result->records, order};
    const struct pst_trials trials = {
        .n = n < joint->n_finalists ? n : joint->n_finalists,
        .n_jobs = joint->n_jobs == 0 ? pst_usable_cores() : joint->n_jobs,
        .options = {.keep_plan = true,
                    .faster = joint->goal.objective == PST_THROUGHPUT,
                    .cancelled = pst_stop_requested},
        .context = &finals,
        .config = finalist_config,
        .each = take_finalist,
    };
    pst_status status = PST_OK;

    if (trials.n > 0 && !pst_stop_requested()) {
        status = pst_trials_run(&trials, &cli->err);
        pst_cli_must(cli, status == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : status);
        unite_equals(&finals, trials.n, result);
    }
    n = pst_compare_plans(result, order);
    n = n < joint->n_finalists ? n : joint->n_finalists;
    memcpy(ret_order, order, n * sizeof *order);
    free(order);
    return n;
}
