/* SPDX-License-Identifier: Apache-2.0
 *
 * The least memory that a job can do with, found by planning with other amounts of it. Strategies
 * and layouts are heuristics: an amount may do where a greater one does not. So the amounts that
 * are tried depend on the job alone, not on what memory there is. Whatever of it is enough, all
 * above is, too: the plan that was found for less serves there.
 */

#include "base/util.h"
#include "plugin/advise.h"
#include "plugin/state.h"

#define MAX_PROBES 64   /* plans that a small job is worth */
#define FEW_PROBES 12   /* that one of some thousand passes of operators is */
#define SMALL_WORK 4000 /* operators x micro-batches */
#define MAX_WORK   20000
#define FINE       64 /* part of an amount in which its limit is sought by halving */

struct smallest {
    const struct pst_search *search;
    uint64_t best; /* what the plan that takes least needs */
    uint64_t refused[MAX_PROBES];
    uint32_t n_refused, n_probes;
    struct pst_planned *found; /* fits into what there is */
};

bool pst_planner_probe(const struct pst_search *search, uint64_t memory, bool brief,
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
    changed.brief = brief;
    if (brief) {
        changed.clock = NULL; /* does it fit: how fast it is does not matter */
        pst_planner_hasten(&arena, &job);
        changed.job = &job;
    }
    is_plan = pst_planner_try(&changed, ret_planned, &unused_need, &unused) == PST_OK;
    if (!is_plan && !brief) {
        pst_planner_rival(&changed, &is_plan, ret_planned, &unused);
    }
    pst_arena_finish(&arena);
    return is_plan;
}

/* More than `bytes` are known not to be enough: the greatest such amount below the best. */
static uint64_t low_of(const struct smallest *s)
{
    uint64_t low = 0;

    for (uint32_t i = 0; i < s->n_refused; i++) {
        low = s->refused[i] < s->best && s->refused[i] > low ? s->refused[i] : low;
    }
    return low;
}

static bool stopped(const struct pst_search *search)
{
    return (search->cancelled != NULL && search->cancelled()) ||
           (search->deadline_ns != UINT64_MAX && pst_now_ns() >= search->deadline_ns);
}

/* Plans for so much memory. What is found may take more, for layouts are not what estimates say:
   less than the best so far is good enough. Returns whether there is such a plan. */
static bool look(struct smallest *s, uint64_t memory)
{
    struct pst_search asked = *s->search;
    struct pst_planned planned = {.plan = NULL};
    bool is_plan;
    uint64_t need;

    asked.worth_bytes = s->best - 1;
    is_plan = pst_planner_probe(&asked, memory, false, &planned);
    need = is_plan ? pst_planned_need(&planned) : UINT64_MAX;
    s->n_probes++;
    if (need > memory && !stopped(s->search)) {
        s->refused[s->n_refused++] = memory;
    }
    if (!is_plan) {
        return false;
    }
    s->best = need < s->best ? need : s->best;
    if (need <= pst_cluster_capacity(s->search->cluster)) {
        *s->found = planned;
    } else {
        pst_planned_finish(&planned);
    }
    return true;
}

/* The plan that takes least on its tightest cuts. */
static void look_for_tightest(struct smallest *s, uint32_t most)
{
    struct pst_search asked = *s->search;
    struct pst_planned planned = {.plan = NULL};
    uint64_t need;

    asked.tightest = true;
    asked.few = most < MAX_PROBES;
    asked.fit_bytes = pst_cluster_capacity(s->search->cluster);
    if (!pst_planner_probe(&asked, 0, false, &planned)) {
        return;
    }
    need = pst_planned_need(&planned);
    s->best = need < s->best ? need : s->best;
    if (need <= asked.fit_bytes) {
        *s->found = planned;
    } else {
        pst_planned_finish(&planned);
    }
}

static bool goes_on(const struct smallest *s, uint32_t most)
{
    return s->found->plan == NULL && s->n_probes < most && !stopped(s->search);
}

/* The very next amount below the best. What needs the best may have been found with more memory:
   planned for with just that, it can come to less. Returns whether it went down. */
static bool step_down(struct smallest *s, uint32_t most)
{
    uint64_t best = s->best;

    if (!look(s, best - 1) && goes_on(s, most)) {
        look(s, best);
    }
    return s->best < best;
}

/* Halves what lies between enough and not enough; then steps down. */
static void close_in(struct smallest *s, uint32_t most)
{
    while (goes_on(s, most)) {
        uint64_t low = low_of(s), rest = s->best - low;

        if (rest > s->best / FINE && rest > 1) {
            look(s, low + rest / 2);
        } else if (rest <= 1 || !step_down(s, most)) {
            return;
        }
    }
}

uint32_t pst_planner_probes(const struct pst_search *search)
{
    const struct pst_job_train *train = &search->job->train;
    uint64_t work = (uint64_t)search->graph->n_ops * (uint64_t)(train->batch / train->microbatch);

    return search->few || work > MAX_WORK ? 0 : work > SMALL_WORK ? FEW_PROBES : MAX_PROBES;
}

uint64_t pst_planner_smallest(const struct pst_search *search, uint64_t need,
                              struct pst_planned *ret_planned)
{
    struct smallest s = {.search = search, .best = need, .found = ret_planned};
    uint32_t most = pst_planner_probes(search);
    bool again = true;

    if (most > 0) {
        look_for_tightest(&s, most);
    }
    while (again && goes_on(&s, most)) {
        close_in(&s, most);
        again = false;
        /* What was refused may have been refused by chance: further below, in growing steps. */
        for (uint32_t part = 64; part >= 4 && !again && goes_on(&s, most); part /= 2) {
            again = look(&s, s.best - s.best / part);
        }
    }
    return s.best;
}
