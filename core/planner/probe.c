/* SPDX-License-Identifier: Apache-2.0
 *
 * A job planned with other amounts of memory than there is: whether one does, and the least.
 */
#include <time.h>

#include "base/util.h"
#include "planner/advise.h"
#include "planner/smallest.h"
#include "planner/state.h"

struct probes {
    const struct pst_search *search;
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

uint64_t pst_planner_worked_ns(void)
{
    struct timespec time = {0, 0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

bool pst_planner_is_late(uint64_t deadline_ns, uint64_t work_end_ns)
{
    return (deadline_ns != UINT64_MAX && pst_now_ns() >= deadline_ns) ||
           (work_end_ns != 0 && pst_planner_worked_ns() >= work_end_ns);
}

static bool stopped(void *context)
{
    const struct pst_search *search = ((struct probes *)context)->search;

    return (search->cancelled != NULL && search->cancelled()) ||
           pst_planner_is_late(search->deadline_ns, search->work_end_ns);
}

static uint64_t probe(struct probes *probes, const struct pst_search *asked, uint64_t memory)
{
    struct pst_planned planned = {.plan = NULL};
    uint64_t bytes;

    if (!pst_planner_probe(asked, memory, false, &planned)) {
        return UINT64_MAX;
    }
    bytes = pst_planned_need(&planned);
    if (bytes <= pst_cluster_capacity(probes->search->cluster)) {
        *probes->found = planned;
    } else {
        pst_planned_finish(&planned);
    }
    return bytes;
}

static uint64_t need(void *context, uint64_t memory, uint64_t worth)
{
    struct probes *probes = context;
    struct pst_search asked = *probes->search;

    asked.worth_bytes = worth;
    return probe(probes, &asked, memory);
}

/* The plan that takes least on its tightest cuts. */
static uint64_t need_of_tightest(struct probes *probes, bool few)
{
    struct pst_search asked = *probes->search;

    asked.tightest = true;
    asked.few = few;
    asked.fit_bytes = pst_cluster_capacity(asked.cluster);
    return probe(probes, &asked, 0);
}

uint32_t pst_planner_probes(const struct pst_search *search)
{
    const struct pst_job_train *train = &search->job->train;
    uint64_t work = (uint64_t)search->graph->n_ops * (uint64_t)(train->batch / train->microbatch);

    return pst_smallest_plans(work);
}

uint64_t pst_planner_smallest(const struct pst_search *search, uint64_t need_bytes,
                              struct pst_planned *ret_planned)
{
    struct probes probes = {search, ret_planned};
    const struct pst_smallest asked = {.need = need,
                                       .stopped = stopped,
                                       .context = &probes,
                                       .capacity = pst_cluster_capacity(search->cluster),
                                       .most = pst_planner_probes(search)};

    if (asked.most > 0) {
        uint64_t tightest =
            need_of_tightest(&probes, search->few || asked.most < PST_SMALLEST_MOST);

        need_bytes = tightest < need_bytes ? tightest : need_bytes;
    }
    return pst_smallest_find(&asked, need_bytes);
}
