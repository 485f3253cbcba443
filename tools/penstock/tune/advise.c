/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning as the program does it, and what it says after a search that found nothing within the
 * memory: what takes the space, and what would do. All of it is found by planning again, with more
 * memory, with a memory optimizer that recomputes, with ZeRO 1, 2 or 3 or without gathers ahead, so
 * that what is said is true. How often depends on the job alone: by counts, not by time.
 */
#include "tune/advise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/json.h"
#include "base/saturate.h"
#include "base/util.h"
#include "host/caps.h"
#include "host/search.h"
#include "host/shipped.h"
#include "tune/smallest.h"
#include "planner/state.h"

#define PROBES         6 /* halvings of the interval in which the least memory lies */
#define MAX_CANDIDATES 8
#define MAX_SHOWN      16        /* stages */
#define PLANS          6         /* as many as without a limit is what advice may take */
#define PLANS_LARGE    2         /* the same of a job that is too large for a search */
#define LEAST_WORK     2400000u  /* of a small job, so that the search ends by itself */
#define HUGE_WORK      60000000u /* of a plan whose job is not planned once more in pieces */

/* Returns a device's memory for plans, as all amounts here; 0: no limit. */
static uint64_t limit_of(const struct pst_search *search)
{
    const uint64_t capacity = pst_cluster_capacity(search->cluster);

    return capacity == UINT64_MAX ? 0 : capacity;
}

/* --- plans with other amounts of memory than there is ------------------------------------------*/

struct probes {
    const struct pst_advice *advice;
    struct pst_planned *found; /* fits into what there is */
};

/* A plan with that much memory, 0: any amount, or search->worth_bytes where that is more. brief: no
   trials, and of schedulers that search for long an order in haste. */
static bool probe_with(const struct pst_search *search, uint64_t memory, bool brief,
                       struct pst_planned *ret_planned)
{
    struct pst_cluster cluster = *search->cluster;
    struct pst_search changed = *search;
    struct pst_job job = *search->job;
    struct pst_arena arena = {0};
    struct pst_error unused;
    uint64_t unused_need;
    bool is_plan;

    cluster.memory = memory;
    cluster.reserve = 0;
    changed.cluster = &cluster;
    if (brief) {
        changed.clock = NULL; /* does it fit: how fast it is does not matter */
        pst_hasten(&arena, &job);
        changed.job = &job;
    }
    is_plan = pst_search_plan(&changed, ret_planned, &unused_need, &unused) == PST_OK;
    pst_arena_finish(&arena);
    return is_plan;
}

static bool is_over(const struct pst_advice *advice)
{
    const struct pst_search *search = &advice->search;

    return (search->cancelled != NULL && search->cancelled()) ||
           pst_search_is_late(search->deadline_ns) || *search->work >= advice->most;
}

static bool stopped(void *probes)
{
    return is_over(((struct probes *)probes)->advice);
}

/* A scheduler that searches for seconds gives its orders in haste: there are dozens of probes. */
static uint64_t probe_memory(struct probes *probes, const struct pst_search *asked, uint64_t memory)
{
    struct pst_planned planned = {.plan = NULL};
    struct pst_search changed = *asked;
    struct pst_job job = *asked->job;
    struct pst_arena arena = {0};
    uint64_t bytes;
    bool is_plan;

    if (probes->advice->few) {
        pst_hasten(&arena, &job);
        changed.job = &job;
    }
    is_plan = probe_with(&changed, memory, false, &planned);
    pst_arena_finish(&arena);
    if (!is_plan) {
        return UINT64_MAX;
    }
    bytes = pst_planned_need(&planned);
    if (bytes <= pst_cluster_capacity(probes->advice->search.cluster)) {
        *probes->found = planned;
    } else {
        pst_planned_finish(&planned);
    }
    return bytes;
}

static uint64_t need_for(void *context, uint64_t memory, uint64_t worth)
{
    struct probes *probes = context;
    struct pst_search asked = probes->advice->search;

    asked.worth_bytes = worth; /* with the clock: a partitioner's trials may find cuts that fit */
    return probe_memory(probes, &asked, memory);
}

/* The plan that takes least on its tightest cuts. */
static uint64_t need_of_tightest(struct probes *probes, bool few)
{
    struct pst_search asked = probes->advice->search;
    struct pst_tightest wanted = {probes->advice, few, pst_cluster_capacity(asked.cluster)};

    asked.clock = NULL;
    asked.attempts = pst_tightest_attempts;
    asked.context = &wanted;
    return probe_memory(probes, &asked, 0);
}

/* The number of plans that a search for the least memory may make; 0: the job is too large. */
static uint32_t n_probes(const struct pst_search *search)
{
    const struct pst_job_train *train = &search->job->train;
    uint64_t work = (uint64_t)search->graph->n_ops * (uint64_t)(train->batch / train->microbatch);

    return pst_smallest_plans(work);
}

/*
 * The least bytes per device with which a plan was found; need: what the plan without a limit
 * takes. The amounts of memory that are tried depend on the job alone, and the search ends early
 * with a plan that fits into what there is: then *ret_planned, zeroed before, has it. Otherwise
 * planning with as much as is returned finds a plan, and where probes suffice with one byte less
 * none. Once the advice is over it finds one at once with as much.
 */
static uint64_t least_by_probes(struct pst_advice *advice, uint64_t need_bytes,
                                struct pst_planned *ret_planned)
{
    struct probes probes = {advice, ret_planned};
    const struct pst_smallest asked = {.need = need_for,
                                       .stopped = stopped,
                                       .context = &probes,
                                       .capacity = pst_cluster_capacity(advice->search.cluster),
                                       .most = n_probes(&advice->search)};

    if (asked.most > 0) {
        uint64_t tightest =
            need_of_tightest(&probes, advice->few || asked.most < PST_SMALLEST_MOST);

        need_bytes = tightest < need_bytes ? tightest : need_bytes;
    }
    return pst_smallest_find(&asked, need_bytes, &advice->ended);
}

/* --- what would do -----------------------------------------------------------------------------*/

static bool works_with(const struct pst_search *search, uint64_t memory, bool brief)
{
    struct pst_planned planned = {.plan = NULL};
    bool ok = probe_with(search, memory, brief, &planned);

    if (ok) {
        pst_planned_finish(&planned);
    }
    return ok;
}

/* Returns some memory that is enough for a job that is too large for a search; 0: none was found.
   `found`, `need`: the needs of the best plan so far, and of the one made without a limit. */
static uint64_t some_memory(const struct pst_search *search, uint64_t found, uint64_t need)
{
    /* The last: what strategies are charged by may be a little dearer than layouts turn out. */
    const uint64_t tries[] = {found, need, pst_sat_add(need, need / 8), pst_sat_mul(2, need)};

    for (uint32_t i = found == 0 ? 1 : 0; i < 4; i++) {
        if (works_with(search, tries[i], true) && works_with(search, tries[i], false)) {
            return tries[i];
        }
    }
    return 0;
}

/* About the least memory that is enough: more than `low`, which is not; 0: none was found. */
static uint64_t least_memory(const struct pst_advice *advice, uint64_t low, uint64_t need)
{
    const struct pst_search *search = &advice->search;
    const uint64_t tries[] = {need, pst_sat_add(need, need / 8), pst_sat_mul(2, need)};
    uint64_t high = 0;

    for (uint32_t i = 0; i < 3 && high == 0; i++) {
        high = works_with(search, tries[i], true) ? tries[i] : 0;
    }
    for (uint32_t i = 0; i < PROBES && high > low + 1 && n_probes(search) > 0 && !is_over(advice);
         i++) {
        uint64_t middle = low + (high - low) / 2;

        if (works_with(search, middle, true)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

/* Returns the need of a plan with so much memory (0: no limit), or UINT64_MAX if there is none. */
static uint64_t need_of(const struct pst_search *search, uint64_t memory)
{
    struct pst_planned planned = {.plan = NULL};
    uint64_t need = UINT64_MAX;

    if (probe_with(search, memory, true, &planned)) {
        need = pst_planned_need(&planned);
        pst_planned_finish(&planned);
    }
    return need;
}

static bool is_used(const struct pst_job *job, const char *id)
{
    for (uint32_t i = 0; i < job->n_memopt; i++) {
        const struct pst_config_node *use = pst_config_get(job->memopt[i], "use");

        if (use != NULL && use->kind == PST_CONFIG_STRING && strcmp(use->value.string, id) == 0) {
            return true;
        }
    }
    return false;
}

/* The table of a [[memopt]] that names the file. NULL: out of memory. */
static struct pst_config *table_of(const char *id, const char *path)
{
    struct pst_config *config = NULL;
    struct pst_json json;
    char *text;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "use", id);
    pst_json_string(&json, "path", path);
    pst_json_end(&json, '}');
    text = pst_json_take(&json);
    if (text != NULL && pst_config_from_json(text, &config, NULL) != PST_OK) {
        config = NULL;
    }
    free(text);
    return config;
}

/* The result of a change of the job. Less memory is better; then the shorter step. */
struct outcome {
    uint64_t need, step_ns; /* UINT64_MAX: more than wanted; not known */
};

static bool is_better(const struct outcome *a, const struct outcome *b)
{
    return a->need != b->need ? a->need < b->need : a->step_ns < b->step_ns;
}

/* Does it fit as things are? Then how long a step takes, if the caller of the planner can tell. */
static bool fits_now(const struct pst_search *search, struct outcome *ret_outcome)
{
    uint64_t limit = limit_of(search);
    struct pst_planned planned = {.plan = NULL};
    struct pst_error unused;

    if (!probe_with(search, limit, true, &planned)) {
        return false;
    }
    *ret_outcome = (struct outcome){limit, UINT64_MAX};
    if (search->clock != NULL) {
        search->clock(planned.plan, search->graph, search->cost, false, &ret_outcome->step_ns,
                      &unused);
    }
    pst_planned_finish(&planned);
    return true;
}

/* A job with this memory optimizer in the place of its own. */
struct changed {
    struct pst_job job;
    struct pst_advice advice;
    struct pst_config *config;
};

/* False: it is none to recommend. Else finish by pst_config_destroy(config). */
static bool apply_change(const struct pst_advice *advice, const char *id, const char *path,
                         struct changed *changed)
{
    const struct pst_plugin *plugin = NULL;

    if (pst_plugin_open(path, "memopt", id, &plugin, NULL) != PST_OK ||
        !pst_caps_has(plugin->provides, "recompute") ||
        pst_caps_has(plugin->provides, "exhaustive")) {
        return false;
    }
    changed->config = table_of(id, path);
    if (changed->config == NULL) {
        return false;
    }
    changed->job = *advice->search.job;
    changed->job.memopt[0] = changed->config->root;
    changed->job.n_memopt = 1;
    changed->advice = *advice;
    changed->advice.search.job = &changed->job;
    return true;
}

/* Tries another memory optimizer. need UINT64_MAX: more than `enough`, or it is not usable. */
static struct outcome need_with(const struct pst_advice *advice, const char *id, const char *path,
                                uint64_t enough)
{
    struct outcome outcome = {UINT64_MAX, UINT64_MAX};
    uint64_t limit = limit_of(&advice->search), need;
    struct changed changed;

    if (!apply_change(advice, id, path, &changed)) {
        return outcome;
    }
    if (!fits_now(&changed.advice.search, &outcome) && enough > limit) {
        need = need_of(&changed.advice.search, enough == UINT64_MAX ? 0 : enough);
        need = need < enough ? least_memory(&changed.advice, limit, need) : UINT64_MAX;
        outcome.need = need == 0 || need >= enough ? UINT64_MAX : need;
    }
    pst_config_destroy(changed.config);
    return outcome;
}

/* All this was tried in brief: is it true of the whole search, too? */
static bool confirms(const struct pst_advice *advice, const char *id, const char *path,
                     uint64_t memory)
{
    struct changed changed;
    bool ok = apply_change(advice, id, path, &changed);

    if (ok) {
        ok = works_with(&changed.advice.search, memory, false);
        pst_config_destroy(changed.config);
    }
    return ok;
}

/* The program's own memory optimizer with which the least memory is enough, of several the one of
   the shortest step; UINT64_MAX: none helps. */
static uint64_t best_memopt(const struct pst_advice *advice, uint64_t enough, char ret_id[64])
{
    struct pst_arena arena = {0};
    const char *kind, *id, *best_path = NULL;
    char *pattern = pst_arena_printf(&arena, "%s/memopt-*.so", pst_search_home(&arena));
    struct outcome best = {UINT64_MAX, UINT64_MAX};
    uint32_t tried = 0;
    glob_t found;

    if (pst_glob(pattern, 0, &found) != 0) {
        pst_arena_finish(&arena);
        return UINT64_MAX;
    }
    for (size_t i = 0; i < found.gl_pathc && tried < MAX_CANDIDATES && !is_over(advice); i++) {
        const char *path = found.gl_pathv[i];
        struct pst_shipped shipped;
        struct outcome outcome;

        if (!pst_search_split(&arena, strrchr(path, '/') + 1, &kind, &id) ||
            is_used(advice->search.job, id)) {
            continue;
        }
        pst_shipped_find(path, &shipped);
        if (!shipped.is) {
            continue;
        }
        outcome = need_with(advice, id, path, enough < best.need ? enough : best.need);
        tried += outcome.need != UINT64_MAX;
        if (is_better(&outcome, &best)) {
            best = outcome;
            best_path = path;
            snprintf(ret_id, 64, "%s", id);
        }
    }
    if (best_path != NULL && !confirms(advice, ret_id, best_path, best.need)) {
        best.need = UINT64_MAX;
    }
    globfree(&found);
    pst_arena_finish(&arena);
    return best.need;
}

/* Finds a plan with less than there is for each replica to keep, or to gather ahead: the least of
   ZeRO that fits, gathers ahead before none. Returns its keys; NULL: there is none. */
static const char *find_pieces(const struct pst_search *search, char keys[64],
                               struct pst_planned *ret_planned)
{
    const struct pst_job_parallel *own = &search->job->parallel;
    const int64_t most = pst_job_meets(search->job) ? 3 : 1;
    const uint64_t limit = limit_of(search);
    struct pst_search changed = *search;
    struct pst_job job = *search->job;

    changed.job = &job;
    for (int64_t zero = own->zero; zero <= most; zero++) {
        for (uint32_t ahead = zero > own->zero ? 0 : 1; ahead < 2; ahead++) {
            job.parallel.zero = zero;
            job.parallel.prefetch = ahead == 0 ? own->prefetch : 0;
            if ((ahead == 0 || (zero >= 2 && own->prefetch > 0)) &&
                works_with(&changed, limit, true) &&
                probe_with(&changed, limit, false, ret_planned)) {
                snprintf(keys, 64, "parallel.zero = %d%s", (int)zero,
                         ahead == 0 ? "" : ", parallel.prefetch = 0");
                return zero > own->zero ? keys : strstr(keys, "parallel.prefetch");
            }
        }
    }
    return NULL;
}

/* Adds to a hint what the job needs where replicas keep the optimizer's state in pieces, or
   gradients or weights, too, or gather nothing ahead, if that fits. Of a job without replicas the
   planner says at once that they have none. */
static void say_pieces(const struct pst_search *search, char *text, size_t size)
{
    const uint64_t limit = limit_of(search), reserve = search->cluster->reserve;
    const size_t length = strlen(text);
    struct pst_planned planned = {.plan = NULL};
    char need[32], memory[32], room[64];
    const char *keys = find_pieces(search, room, &planned);

    if (keys == NULL) {
        return;
    }
    if (search->cluster->n_kinds > 0) {
        snprintf(text + length, size - length, "%s would fit; ", keys);
    } else {
        snprintf(text + length, size - length, "%s would need %s of %s; ", keys,
                 pst_format_bytes(need, pst_sat_add(pst_planned_need(&planned), reserve)),
                 pst_format_bytes(memory, pst_sat_add(limit, reserve)));
    }
    pst_planned_finish(&planned);
}

/* Reports the least that each stage of the plan needs; stages of one device add up. */
static void say_least(const struct pst_plan *plan, const uint64_t *least, struct pst_error *err)
{
    char text[32];

    pst_error_detail(err, "the least memory of stages cut like this%s%s:",
                     plan->memopt[0] == '\0' ? "" : ", by memopt ", plan->memopt);
    for (uint32_t s = 0; s < plan->n_stages && s < MAX_SHOWN; s++) {
        if (least[s] == 0 || least[s] == UINT64_MAX) {
            pst_error_detail(err, "%s not known", s == 0 ? "" : ",");
        } else {
            pst_error_detail(err, "%s %s", s == 0 ? "" : ",", pst_format_bytes(text, least[s]));
        }
    }
    pst_error_detail(err, "%s\n", plan->n_stages > MAX_SHOWN ? ", ..." : "");
}

/* Nobody has so few bytes: the unit is missing, as in memory = 16. */
#define NO_UNIT 1024

static void say_unit(uint64_t limit, uint64_t enough, bool ended, struct pst_error *err)
{
    char text[32];

    snprintf(err->message, sizeof err->message,
             "no plan found that fits: cluster.memory is %llu bytes, and at %s %llu bytes (%s) "
             "are needed",
             (unsigned long long)limit, ended ? "most" : "least", (unsigned long long)enough,
             pst_format_bytes(text, enough));
    pst_error_hint(err, "is \"%llu GiB\" meant?", (unsigned long long)limit);
    err->enough_bytes = enough;
}

static uint64_t find_smallest(const struct pst_cluster *cluster)
{
    uint64_t smallest = UINT64_MAX;

    for (uint32_t r = 0; r < (uint64_t)cluster->devices; r++) {
        const uint64_t capacity = pst_cluster_capacity_of(cluster, r);

        smallest = capacity < smallest ? capacity : smallest;
    }
    return smallest;
}

static void say_enough(const struct pst_advice *advice, uint64_t enough, struct pst_error *err)
{
    const struct pst_search *search = &advice->search;
    uint64_t limit = limit_of(search), worth = enough == 0 ? UINT64_MAX : enough - enough / 16;
    const uint64_t reserve = search->cluster->reserve;
    const bool mixed = search->cluster->n_kinds > 0; /* no one amount would do for all devices */
    char id[64] = "", rest[256] = "";
    uint64_t with = UINT64_MAX;

    if (enough != 0 && !mixed && limit <= NO_UNIT) {
        say_unit(pst_sat_add(limit, reserve), pst_sat_add(enough, reserve), advice->ended, err);
        return;
    }
    with = advice->few ? UINT64_MAX : best_memopt(advice, worth, id);
    if (with == limit) {
        snprintf(rest, sizeof rest, "memopt.use = \"%s\" would fit; ", id);
    } else if (with != UINT64_MAX && !mixed) {
        snprintf(rest, sizeof rest, "%llu with memopt.use = \"%s\"; ",
                 (unsigned long long)pst_sat_add(with, reserve), id);
    }
    if (!advice->few && !advice->huge) {
        say_pieces(search, rest, sizeof rest);
    }
    snprintf(rest + strlen(rest), sizeof rest - strlen(rest),
             "%smore devices or a smaller train.microbatch need less per device",
             advice->ended && enough != 0 ? PST_SMALLEST_ENDED "; " : "");
    if (enough != 0 && !mixed) {
        pst_error_enough(err, "cluster.memory", pst_sat_add(enough, reserve), rest);
    } else if (mixed && find_smallest(search->cluster) <= NO_UNIT) {
        pst_error_hint(err, "is \"%llu GiB\" meant?",
                       (unsigned long long)find_smallest(search->cluster));
    } else {
        pst_error_hint(err, "%s", rest);
    }
}

/* Does the scheduler search so long that a plan is not to be asked for in passing? */
static bool is_slow(const struct pst_job *job)
{
    const struct pst_plugin *plugin;

    return pst_job_plugin(job, job->scheduler, "scheduler", &plugin, NULL) == PST_OK &&
           pst_caps_has(plugin->provides, "exhaustive");
}

/* With a plan at hand that takes more than there is; enough: an amount that would do, 0: none. */
static void explain(const struct pst_advice *advice, uint64_t enough,
                    const struct pst_planned *planned, const uint64_t *least, struct pst_error *err)
{
    const struct pst_search *search = &advice->search;

    if (search->job->advice == PST_ADVICE_MEMORY) {
        pst_error_enough(err, "cluster.memory", pst_sat_add(enough, search->cluster->reserve),
                         advice->ended ? PST_SMALLEST_ENDED : "");
        return;
    }
    if (err->details[0] == '\0') {
        pst_error_detail(err, "with unlimited memory, the plan would be:\n");
        pst_planned_table(planned, search->graph, err);
    }
    say_least(planned->plan, least, err);
    say_enough(advice, enough, err);
}

/* By the job alone, whatever memory there is: else what is said to be enough would not be found
   again. unlimited: what the plan takes that is not short of anything. */
static void limit_work(struct pst_advice *advice, uint64_t unlimited)
{
    const uint32_t plans = n_probes(&advice->search) > 0 ? PLANS : PLANS_LARGE;
    const uint64_t most = pst_sat_mul(plans, unlimited);

    advice->few = is_slow(advice->search.job);
    advice->huge = unlimited > HUGE_WORK;
    advice->most = advice->work + (most > LEAST_WORK ? most : LEAST_WORK);
}

/*
 * After a search that was refused with *err, with `found` as its *ret_need: if memory is what is
 * missing, adds to err->details and err->hint. Returns err->status; PST_ERR_CANCELLED, when the
 * user stops it; or PST_OK and a plan, where planning with another amount found one that fits after
 * all.
 */
static pst_status advise(struct pst_advice *advice, uint64_t found, struct pst_planned *ret_planned,
                         struct pst_error *err)
{
    const struct pst_search *search = &advice->search;
    struct pst_planned planned = {.plan = NULL}, smaller = {.plan = NULL};
    struct pst_search asked = *search;
    uint64_t limit = limit_of(search), before = advice->work, need, enough;
    uint64_t *least = pst_alloc(search->graph->n_ops, sizeof *least);
    pst_status status = err->status;

    asked.least_bytes = least;
    if (limit == 0 ||
        (search->job->advice == PST_ADVICE_MEMORY && n_probes(&asked) < PST_SMALLEST_MOST) ||
        !probe_with(&asked, 0, true, &planned)) {
        free(least);
        return status; /* memory is not what is missing, or the job too large */
    }
    asked.least_bytes = NULL;
    limit_work(advice, advice->work - before);
    enough = need = pst_planned_need(&planned);
    if (need > limit) {
        enough = least_by_probes(advice, need, &smaller);
    } else if (probe_with(&asked, 0, false, &smaller) && pst_planned_need(&smaller) > limit) {
        pst_planned_finish(&smaller); /* the brief one fits */
    }
    if (smaller.plan != NULL || need <= limit) {
        /* The strategies see less in what there is than in another amount. */
        *ret_planned = smaller.plan != NULL ? smaller : planned;
        ret_planned->plan->capacity_bytes = limit;
        status = PST_OK;
    } else if (search->cancelled != NULL && search->cancelled()) {
        status = pst_fail(err, PST_ERR_CANCELLED, "run.cancelled", "planning was stopped");
    } else {
        enough = n_probes(&asked) > 0 ? enough : some_memory(&asked, found, need);
        explain(advice, enough, &planned, least, err);
    }
    if (ret_planned->plan != planned.plan) {
        pst_planned_finish(&planned);
    }
    free(least);
    return status;
}

/* --- the named plugins first; then, as the job's advice says, more -----------------------------*/

uint64_t pst_step_of(pst_planner_clock *clock, const struct pst_planned *planned,
                     const struct pst_graph *graph, const struct pst_cost_model *cost)
{
    struct pst_error unused;
    uint64_t ns = UINT64_MAX;

    return clock != NULL && clock(planned->plan, graph, cost, false, &ns, &unused) == PST_OK
               ? ns
               : UINT64_MAX;
}

pst_status pst_tune_plan(const struct pst_job *job, struct pst_graph *graph,
                         const struct pst_cluster *cluster, const struct pst_cost_model *cost,
                         pst_planner_clock *clock, bool (*cancelled)(void),
                         struct pst_planned *ret_planned, struct pst_error *err)
{
    struct pst_planned planned = {.plan = NULL};
    struct pst_advice advice = {.few = false};
    struct pst_error unused;
    uint64_t found = 0;
    bool faster = job->advice == PST_ADVICE_FASTER && clock != NULL;
    pst_status status;

    err = err == NULL ? &unused : err;
    pst_search_begin(job, graph, cluster, cost, clock, cancelled, &advice.search);
    advice.search.work = &advice.work;
    advice.search.attempts = faster ? pst_recut_attempts : NULL;
    status = pst_search_plan(&advice.search, &planned, &found, err);
    if (status == PST_OK && faster) {
        pst_try_slower_links(&advice.search, &planned);
    } else if (status != PST_OK && pst_smallest_may_help(err) &&
               (job->advice == PST_ADVICE_ALL || job->advice == PST_ADVICE_MEMORY)) {
        status = advise(&advice, found, &planned, err);
    }
    pst_search_end(&advice.search, &planned);
    if (status == PST_OK) {
        *ret_planned = planned;
    }
    return status;
}
