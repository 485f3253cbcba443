/* SPDX-License-Identifier: Apache-2.0
 *
 * After a partitioner's answer that no device has the memory for: with how much there would be one.
 */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "tune/smallest.h"
#include "tune/partition_advise.h"

#define MOST_NS    10000000000u /* that looking for the least may take */
#define MAX_SHOWN  16           /* stages */
#define OTHER_WAYS "more devices or smaller micro_batches need less per device"

struct advice {
    const struct pst_problem_job *job;
    const struct pst_worker_task *limits;
    bool (*cancelled)(void);
    uint64_t deadline_ns;
    uint64_t least; /* that a result takes */
    struct pst_partition_result best;
};

static bool wants_end(const struct advice *a)
{
    return a->cancelled != NULL && a->cancelled();
}

static bool stopped(void *context)
{
    return wants_end(context) || pst_now_ns() >= ((struct advice *)context)->deadline_ns;
}

/* Partitions with this memory on each device; 0: with any. Ends at a->deadline_ns; 0: never. */
static pst_status try_memory(const struct advice *a, uint64_t memory,
                             struct pst_partition_result *ret_result, struct pst_error *err)
{
    struct pst_problem problem = *a->job->problem;
    const struct pst_problem_job job = {a->job->id, a->job->path, &problem, a->deadline_ns};
    struct pst_worker_task limits = a->limits == NULL ? (struct pst_worker_task){0} : *a->limits;
    uint64_t now = pst_now_ns();

    problem.memory_bytes = memory == 0 ? INFINITY : (double)memory;
    if (a->deadline_ns != 0 &&
        (limits.time_limit_ns == 0 || a->deadline_ns < now + limits.time_limit_ns)) {
        limits.time_limit_ns = a->deadline_ns > now ? a->deadline_ns - now : 1;
    }
    return pst_problem_partition(&job, a->limits == NULL ? NULL : &limits, a->cancelled, ret_result,
                                 err);
}

static uint64_t keep_best(struct advice *a, struct pst_partition_result *result)
{
    uint64_t bytes =
        result->least_bytes < 1.8e19 ? (uint64_t)ceil(result->least_bytes) : UINT64_MAX;

    if (bytes < a->least) {
        pst_partition_result_finish(&a->best);
        a->best = *result;
        a->least = bytes;
    } else {
        pst_partition_result_finish(result);
    }
    return bytes;
}

static uint64_t bytes_needed(void *context, uint64_t memory, uint64_t worth)
{
    struct advice *a = context;
    struct pst_partition_result result;

    (void)worth; /* what is accepted takes no more than was said */
    return try_memory(a, memory, &result, NULL) == PST_OK ? keep_best(a, &result) : UINT64_MAX;
}

static void add_hint(const struct advice *a, uint64_t enough, bool ended, struct pst_error *err)
{
    const struct pst_partition_result *best = &a->best;
    char text[32];

    if (err->details[0] == '\0') {
        pst_error_detail(err, "with that memory, its stages would need:");
        for (uint32_t s = 0; s < best->n_stages && s < MAX_SHOWN; s++) {
            pst_error_detail(err, "%s %s", s == 0 ? "" : ",",
                             pst_format_bytes(text, (uint64_t)ceil(best->stages[s].memory_bytes)));
        }
        pst_error_detail(err, "%s\n", best->n_stages > MAX_SHOWN ? ", ..." : "");
    }
    pst_error_enough(err, "memory_bytes", enough,
                     ended ? PST_SMALLEST_ENDED "; " OTHER_WAYS : OTHER_WAYS);
}

static pst_status fail_stopped(struct pst_error *err)
{
    return pst_fail(err, PST_ERR_CANCELLED, "run.cancelled", "planning was stopped");
}

pst_status pst_problem_partition_advise(const struct pst_problem_job *job,
                                        const struct pst_worker_task *limits,
                                        bool (*cancelled)(void),
                                        struct pst_partition_result *ret_result,
                                        struct pst_error *err)
{
    const struct pst_problem *problem = job->problem;
    struct advice a = {.job = job, .limits = limits, .cancelled = cancelled, .least = UINT64_MAX};
    struct pst_partition_result any;
    struct pst_error why = {.status = PST_OK};
    uint64_t enough;
    bool ended;
    pst_status status;
    struct pst_smallest search = {
        .need = bytes_needed,
        .stopped = stopped,
        .context = &a,
        .most = pst_smallest_plans((uint64_t)problem->graph->n_nodes * problem->n_devices)};

    if (isinf(problem->memory_bytes)) {
        return err->status; /* memory is not what is missing */
    }
    status = try_memory(&a, 0, &any, &why);
    if (status == PST_ERR_INFEASIBLE && strcmp(why.message, err->message) != 0) {
        pst_error_hint(err, "more memory does not help: %s", why.message);
    }
    if (status != PST_OK) {
        return wants_end(&a) ? fail_stopped(err) : err->status;
    }
    a.deadline_ns = pst_now_ns() + MOST_NS;
    search.capacity = (uint64_t)problem->memory_bytes;
    enough = pst_smallest_find(&search, keep_best(&a, &any), &ended);
    if (a.least <= search.capacity) {
        *ret_result = a.best;
        return PST_OK;
    }
    if (wants_end(&a)) {
        pst_partition_result_finish(&a.best);
        return fail_stopped(err);
    }
    if (a.least != UINT64_MAX) {
        add_hint(&a, enough, ended, err);
    }
    pst_partition_result_finish(&a.best);
    return err->status;
}
