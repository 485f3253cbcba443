/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several cuts makes the shortest step is known when the step is simulated: slow links and
 * schedulers that put W apart hide more or less than a bottleneck tells.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/ext/trial.h>

#include "borders.h"
#include "chain_dp.h"

/* Of all trials together, tenths of a second: a pass is lowered and simulated in about a
   microsecond, what an operator keeps and sends takes some. */
#define WORK_MAX UINT64_C(200000)

enum { WORK_OF_NODE = 4 };

struct steps {
    struct chain *chain;
    const struct pst_trial *trial;
    uint64_t work, left; /* of one trial; of all that remain */
};

/* Every stage once with its transfers, the slowest one for each other micro-batch. */
static pst_status guess(void *steps_, const uint32_t *cuts, double *ret_ns)
{
    const struct steps *steps = steps_;
    struct chain *chain = steps->chain;
    uint64_t sum_ns = 0, most_ns = 0;
    uint32_t s;

    *ret_ns = INFINITY;
    for (s = 0; s < chain->n_stages; s++) {
        struct range_price price;
        pst_status st = chain_price(chain, s, cuts[s], cuts[s + 1], &price);

        if (st != PST_OK || !price.fits) {
            return st;
        }
        sum_ns += price.period_ns + 2 * price.in_ns;
        most_ns = price.cost_ns > most_ns ? price.cost_ns : most_ns;
    }
    *ret_ns =
        (double)sum_ns + (double)(chain->in->batch / chain->microbatch_size - 1) * (double)most_ns;
    return PST_OK;
}

/* Takes the stages of an answer down. */
struct notes {
    struct pst_partition_out out;
    struct pst_stage_decl *stages;
    uint32_t n, *ranks;
};

static pst_status note(struct pst_partition_out *out, const struct pst_stage_decl *stage)
{
    struct notes *notes = out->impl;

    notes->ranks[notes->n] = *stage->ranks;
    notes->stages[notes->n] = *stage;
    notes->stages[notes->n].ranks = &notes->ranks[notes->n];
    notes->n++;
    return PST_OK;
}

static pst_status simulate(void *steps_, const uint32_t *cuts, double *ret_ns)
{
    struct steps *steps = steps_;
    const struct chain *chain = steps->chain;
    struct notes notes = {.out = {.size = sizeof notes.out, .impl = &notes, .stage = note}};
    struct pst_trial_value value = {.size = sizeof value};
    pst_status st = PST_ERR_NOMEM;

    *ret_ns = INFINITY;
    if (steps->work > steps->left) {
        return PST_OK;
    }
    if (chain->host->cancelled(chain->host)) {
        return PST_ERR_CANCELLED;
    }
    steps->left -= steps->work;
    notes.stages = calloc(chain->n_stages, sizeof *notes.stages);
    notes.ranks = calloc(chain->n_stages, sizeof *notes.ranks);
    if (notes.stages != NULL && notes.ranks != NULL) {
        st = chain_answer(chain, cuts, &notes.out);
    }
    if (st == PST_OK) {
        st = steps->trial->step(chain->host, notes.stages, notes.n, &value);
    }
    if (st == PST_OK && value.fits != 0) {
        *ret_ns = (double)value.step_ns;
    }
    free(notes.stages);
    free(notes.ranks);
    return st;
}

/* Do transfers take so little that the cut is about the same however they count? */
static pst_status is_quick(struct chain *chain, const uint32_t *cuts, bool *ret_quick)
{
    uint64_t period_ns = 0, link_ns = 0;
    uint32_t s;

    for (s = 0; s < chain->n_stages; s++) {
        struct range_price price;
        pst_status st = chain_price(chain, s, cuts[s], cuts[s + 1], &price);

        if (st != PST_OK) {
            return st;
        }
        period_ns = price.period_ns > period_ns ? price.period_ns : period_ns;
        link_ns = price.in_ns + price.out_ns > link_ns ? price.in_ns + price.out_ns : link_ns;
    }
    *ret_quick = link_ns < period_ns / 20;
    return PST_OK;
}

/* The best cut if transfers counted otherwise. */
static pst_status search_as(struct chain *chain, uint32_t as, uint32_t *ret_cuts)
{
    struct chain_answer answer = {.cuts = ret_cuts};
    uint32_t comm = chain->comm;
    pst_status st;

    chain->comm = as;
    st = chain_search(chain, &answer);
    chain->comm = comm;
    return st;
}

/* What moving borders makes of that cut takes the place of `cuts` if it is shorter. */
static pst_status try_as(const struct part_borders *borders, uint32_t as, uint32_t *cuts,
                         double *step_ns)
{
    struct steps *steps = borders->impl;
    uint32_t *others = calloc((size_t)borders->n_stages + 1, sizeof *others);
    double other_ns;
    pst_status st = others == NULL ? PST_ERR_NOMEM : search_as(steps->chain, as, others);

    if (st == PST_OK) {
        st = simulate(steps, others, &other_ns);
    }
    if (st == PST_OK && !isinf(other_ns)) {
        st = part_borders_move(borders, others, &other_ns);
    }
    if (st == PST_OK && other_ns < *step_ns) {
        *step_ns = other_ns;
        memcpy(cuts, others, ((size_t)borders->n_stages + 1) * sizeof *cuts);
    }
    free(others);
    return st;
}

pst_status chain_shorten(struct chain *chain, uint32_t *cuts)
{
    struct steps steps = {.chain = chain,
                          .trial = chain->host->get_extension(chain->host, PST_TRIAL),
                          .work = 2 * (uint64_t)chain->n_stages *
                                      (chain->in->batch / chain->microbatch_size) +
                                  WORK_OF_NODE * (uint64_t)chain->n,
                          .left = WORK_MAX};
    const struct part_borders borders = {.n = chain->n,
                                         .n_stages = chain->n_stages,
                                         .impl = &steps,
                                         .guess = guess,
                                         .step = simulate};
    double step_ns;
    uint32_t as;
    bool quick;
    pst_status st;

    if (steps.trial == NULL) {
        return PST_OK;
    }
    st = simulate(&steps, cuts, &step_ns);
    if (st != PST_OK || isinf(step_ns)) {
        return st; /* what does not fit is the host's to mend */
    }
    st = is_quick(chain, cuts, &quick);
    if (st == PST_OK) {
        st = part_borders_move(&borders, cuts, &step_ns);
    }
    for (as = COMM_NONE; st == PST_OK && !quick && as <= COMM_MAX; as++) {
        if (as != chain->comm) {
            st = try_as(&borders, as, cuts, &step_ns);
        }
    }
    return st;
}
