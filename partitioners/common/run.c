/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame around the search of planners with one rank per stage: the problem, the number of
 * stages, micro-batch sizes, the answer.
 */
#include <math.h>

#include "ranges.h"

double part_chain_score(const struct part_problem *problem, uint32_t size, double longest_ns,
                        double sum_ns)
{
    if (problem->figures.reference != 0) {
        return longest_ns / size;
    }
    return sum_ns + (double)(problem->batch / size - 1) * longest_ns;
}

struct run {
    const struct part_ranges *ranges;
    uint32_t n_stages, size; /* size 0: nothing fits so far */
    double score;
    uint32_t *cuts, *tried;
};

static pst_status try_sizes(struct run *run, part_size_fn *try, void *impl)
{
    const struct pst_partition_in *in = run->ranges->problem->in;
    pst_status failed = PST_OK;
    uint32_t i;

    for (i = 0; i < in->n_micro_batches; i++) {
        struct call_region region;
        double score = 0;
        pst_status status;

        call_enter(&region);
        status = try(impl, run->ranges, run->n_stages, in->micro_batches[i], run->score, &score,
                     run->tried);
        call_leave(&region);
        if (status == PST_ERR_INFEASIBLE) {
            failed = status;
        } else if (status != PST_OK) {
            return status;
        } else if (score < run->score) {
            uint32_t *spare = run->cuts;

            run->score = score;
            run->size = in->micro_batches[i];
            run->cuts = run->tried;
            run->tried = spare;
        }
    }
    return run->size == 0 ? failed : PST_OK;
}

static pst_status run_chain(const struct part_problem *problem, uint32_t n_stages,
                            part_size_fn *try, void *impl, struct pst_partition_out *out)
{
    struct part_ranges ranges;
    struct run run = {.ranges = &ranges, .n_stages = n_stages, .score = INFINITY};
    pst_status status = PST_OK;

    part_ranges_init(problem, &ranges);
    CALL_TAKE(run.cuts, (size_t)n_stages + 1);
    CALL_TAKE(run.tried, (size_t)n_stages + 1);
    status = try_sizes(&run, try, impl);
    if (status == PST_OK) {
        struct part_chain_shape shape = {n_stages, run.size, 1, false};

        part_chain_answer(problem, &shape, run.cuts, out);
    }
    return status;
}

pst_status part_chain_run(const struct pst_host *host, const struct pst_partition_in *in,
                          part_size_fn *try, void *impl, struct pst_partition_out *out)
{
    struct part_problem problem;
    uint32_t n_stages = in->n_stages;
    pst_status status = PST_OK;

    part_problem_read(host, in, &problem);
    if (n_stages == 0) {
        n_stages = in->n_devices < problem.n ? in->n_devices : problem.n;
    }
    if (problem.degrees[0] != 1) {
        status =
            pst_failf(host, PST_ERR_UNSUPPORTED,
                      "every stage gets one device, and 1 is not among the numbers of replicas "
                      "allowed; add it, or use a partitioner that makes replicas");
    } else if (n_stages > problem.n) {
        status = part_too_few_nodes(host, n_stages, problem.n);
    } else {
        status = run_chain(&problem, n_stages, try, impl, out);
    }
    return status;
}
