/* SPDX-License-Identifier: Apache-2.0
 *
 * A job planned with other amounts of memory than there is: whether one does, and the least.
 */
#include "tune/advise.h"
#include "tune/smallest.h"

struct probes {
    const struct pst_advice *advice;
    struct pst_planned *found; /* fits into what there is */
};

bool pst_probe(const struct pst_search *search, uint64_t memory, bool brief,
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

bool pst_advice_is_over(const struct pst_advice *advice)
{
    const struct pst_search *search = &advice->search;

    return (search->cancelled != NULL && search->cancelled()) ||
           pst_search_is_late(search->deadline_ns) || *search->work >= advice->most;
}

static bool stopped(void *probes)
{
    return pst_advice_is_over(((struct probes *)probes)->advice);
}

static uint64_t probe(struct probes *probes, const struct pst_search *asked, uint64_t memory)
{
    struct pst_planned planned = {.plan = NULL};
    uint64_t bytes;

    if (!pst_probe(asked, memory, false, &planned)) {
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

static uint64_t need(void *context, uint64_t memory, uint64_t worth)
{
    struct probes *probes = context;
    struct pst_search asked = probes->advice->search;

    asked.worth_bytes = worth;
    asked.clock = NULL; /* as above; who plans with what is found comes here, too */
    return probe(probes, &asked, memory);
}

/* The plan that takes least on its tightest cuts. */
static uint64_t need_of_tightest(struct probes *probes, bool few)
{
    struct pst_search asked = probes->advice->search;
    struct pst_tightest wanted = {probes->advice, few, pst_cluster_capacity(asked.cluster)};

    asked.clock = NULL;
    asked.attempts = pst_tightest_attempts;
    asked.context = &wanted;
    return probe(probes, &asked, 0);
}

uint32_t pst_probes(const struct pst_search *search)
{
    const struct pst_job_train *train = &search->job->train;
    uint64_t work = (uint64_t)search->graph->n_ops * (uint64_t)(train->batch / train->microbatch);

    return pst_smallest_plans(work);
}

uint64_t pst_least_memory(const struct pst_advice *advice, uint64_t need_bytes,
                          struct pst_planned *ret_planned)
{
    struct probes probes = {advice, ret_planned};
    const struct pst_smallest asked = {.need = need,
                                       .stopped = stopped,
                                       .context = &probes,
                                       .capacity = pst_cluster_capacity(advice->search.cluster),
                                       .most = pst_probes(&advice->search)};

    if (asked.most > 0) {
        uint64_t tightest =
            need_of_tightest(&probes, advice->few || asked.most < PST_SMALLEST_MOST);

        need_bytes = tightest < need_bytes ? tightest : need_bytes;
    }
    return pst_smallest_find(&asked, need_bytes);
}
