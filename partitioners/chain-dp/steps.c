/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several cuts makes the shortest step is known when the step is simulated: slow links and
 * schedulers that put W apart hide more or less than a bottleneck tells.
 */
#include <math.h>
#include <string.h>

#include "chain_dp.h"
#include "steps.h"

/* Every stage once with its transfers, the slowest one for each other micro-batch. */
static void guess(void *chain_, const uint32_t *cuts, double *ret_ns)
{
    struct chain *chain = chain_;
    uint64_t sum_ns = 0, most_ns = 0;
    uint32_t s;

    *ret_ns = INFINITY;
    for (s = 0; s < chain->n_stages; s++) {
        struct range_price price;

        chain_price(chain, s, cuts[s], cuts[s + 1], &price);
        if (!price.fits) {
            return;
        }
        sum_ns += price.period_ns + 2 * price.in_ns;
        most_ns = price.cost_ns > most_ns ? price.cost_ns : most_ns;
    }
    *ret_ns =
        (double)sum_ns + (double)(chain->in->batch / chain->microbatch_size - 1) * (double)most_ns;
}

/* Do transfers take so little that the cut is about the same however they count? */
static void is_quick(struct chain *chain, const uint32_t *cuts, bool *ret_quick)
{
    uint64_t period_ns = 0, link_ns = 0;
    uint32_t s;

    for (s = 0; s < chain->n_stages; s++) {
        struct range_price price;

        chain_price(chain, s, cuts[s], cuts[s + 1], &price);
        period_ns = price.period_ns > period_ns ? price.period_ns : period_ns;
        link_ns = price.in_ns + price.out_ns > link_ns ? price.in_ns + price.out_ns : link_ns;
    }
    *ret_quick = link_ns < period_ns / 20;
}

/* The best cut if transfers counted otherwise. */
static pst_status search_as(struct chain *chain, uint32_t as, uint32_t *ret_cuts)
{
    struct chain_answer answer = {.cuts = ret_cuts};
    uint32_t comm = chain->comm;
    pst_status status;

    chain->comm = as;
    status = chain_search(chain, &answer);
    chain->comm = comm;
    return status;
}

/* Moves the borders of the best cut by `as`; the result replaces `cuts` if it is shorter. */
static pst_status try_as(struct part_steps *steps, uint32_t as, uint32_t *cuts, double *step_ns)
{
    uint32_t *others = call_alloc((size_t)steps->n_stages + 1, sizeof *others);
    double other_ns;
    pst_status status = search_as(steps->impl, as, others);

    if (status == PST_OK) {
        part_steps_value(steps, others, &other_ns);
    }
    if (status == PST_OK && !isinf(other_ns)) {
        part_steps_move(steps, others, &other_ns);
    }
    if (status == PST_OK && other_ns < *step_ns) {
        *step_ns = other_ns;
        memcpy(cuts, others, ((size_t)steps->n_stages + 1) * sizeof *cuts);
    }
    return status;
}

/* As many nodes in each stage, the larger ones last: a cut that anybody would try first, so one
   trial more than the others are granted tells whether it is shorter, and then it goes on. */
static void try_even(struct part_steps *steps, uint32_t *cuts, double *step_ns)
{
    uint32_t *even = call_alloc((size_t)steps->n_stages + 1, sizeof *even);
    uint32_t n = steps->n_stages, rest = steps->n % n, s;
    double even_ns;

    even[0] = 0;
    for (s = 0; s < n; s++) {
        even[s + 1] = even[s] + steps->n / n + (s >= n - rest ? 1 : 0);
    }
    guess(steps->impl, even, &even_ns);
    if (isinf(even_ns)) {
        return;
    }
    steps->left = steps->work > steps->left ? steps->work : steps->left;
    part_steps_value(steps, even, &even_ns);
    if (even_ns < *step_ns) {
        part_steps_refill(steps);
        part_steps_move(steps, even, &even_ns);
        *step_ns = even_ns;
        memcpy(cuts, even, ((size_t)n + 1) * sizeof *cuts);
    }
}

pst_status chain_shorten(struct chain *chain, uint32_t *cuts)
{
    struct part_steps steps = {.host = chain->host,
                               .n = chain->n,
                               .n_stages = chain->n_stages,
                               .batch = chain->in->batch,
                               .size = chain->microbatch_size,
                               .impl = chain,
                               .guess = guess};
    double step_ns;
    uint32_t as;
    bool quick;
    pst_status status = PST_OK;

    if (!part_steps_init(&steps)) {
        return PST_OK;
    }
    part_steps_value(&steps, cuts, &step_ns);
    if (isinf(step_ns)) {
        return PST_OK; /* what does not fit is the host's to mend */
    }
    is_quick(chain, cuts, &quick);
    part_steps_move(&steps, cuts, &step_ns);
    for (as = COMM_NONE; status == PST_OK && !quick && as <= COMM_MAX; as++) {
        if (as != chain->comm) {
            status = try_as(&steps, as, cuts, &step_ns);
        }
    }
    if (status == PST_OK) {
        try_even(&steps, cuts, &step_ns);
    }
    return status;
}
