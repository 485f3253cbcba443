/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/tune.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tune/largest.h"

/* One search. */
struct search {
    const struct pst_combinations *set;
    uint32_t combination;
    const struct pst_tune_options *options;
    struct pst_trial *best;
    struct pst_tuned *tuned;
    struct pst_error *err;
    uint32_t beyond; /* size that tuned->beyond is about */
};

void pst_record_finish(struct pst_record *record)
{
    if (record->tuned != NULL) {
        pst_trial_finish(&record->tuned->common);
        free(record->tuned);
        record->tuned = NULL;
    }
    pst_trial_finish(&record->trial);
}

const struct pst_error *pst_record_misdeed(const struct pst_record *record)
{
    const struct pst_tuned *tuned = record->tuned;
    const struct pst_error *const whys[] = {
        record->trial.state == PST_TRIAL_FAILED ? &record->trial.why : NULL,
        tuned != NULL && tuned->bounded ? &tuned->beyond : NULL,
        tuned != NULL && tuned->common.state == PST_TRIAL_FAILED ? &tuned->common.why : NULL};

    for (size_t i = 0; i < sizeof whys / sizeof whys[0]; i++) {
        if (whys[i] != NULL && pst_error_exit_code(whys[i]) == 3) {
            return whys[i];
        }
    }
    return NULL;
}

/* faster: whether it fits is known; how fast it can be is not. */
static pst_status try_size(const struct search *search, uint32_t microbatch, bool faster,
                           struct pst_trial *ret_trial)
{
    const struct pst_tune_options *options = search->options;
    struct pst_trial_options trial = {
        .keep_plan = options->keep_plan, .faster = faster, .cancelled = options->cancelled};
    char *config = pst_combination_config(search->set, search->combination, microbatch,
                                          microbatch * options->n_microbatches);
    pst_status status;

    if (options->progress != NULL) {
        options->progress(options->context, microbatch);
    }
    status = pst_trial_run(config, &trial, ret_trial, search->err);
    free(config);
    return status;
}

/* Keeps what is best so far, and why the size closest above it does not do. */
static pst_status step(void *context, uint32_t microbatch, bool *ret_fits)
{
    struct search *search = context;
    struct pst_tuned *tuned = search->tuned;
    struct pst_trial trial;
    pst_status status = try_size(search, microbatch, false, &trial);

    if (status != PST_OK) {
        return status;
    }
    tuned->n_trials++;
    *ret_fits = trial.state == PST_TRIAL_DONE;
    if (*ret_fits || tuned->n_trials == 1) {
        pst_trial_finish(search->best);
        *search->best = trial;
        tuned->microbatch = *ret_fits ? microbatch : 0;
        return PST_OK;
    }
    if (search->beyond <= tuned->microbatch || microbatch < search->beyond) {
        search->beyond = microbatch;
        tuned->beyond = trial.why;
    }
    pst_trial_finish(&trial);
    return PST_OK;
}

static pst_status search_all(struct search *search)
{
    struct pst_tuned *tuned = search->tuned;
    const struct pst_largest largest = {search->options->limit, step, search};
    uint32_t size = 0;
    pst_status status = pst_largest_search(&largest, &size, &tuned->bounded);

    if (status == PST_OK && tuned->bounded && search->beyond != size + 1) {
        bool fits; /* it did not, when something smaller was to be explained */

        status = step(search, size + 1, &fits);
    }
    return status;
}

/* The plan at the largest size once more, now for the shortest step. */
static pst_status quicken(struct search *search)
{
    struct pst_trial faster;
    pst_status status;

    if (search->tuned->microbatch == 0) {
        return PST_OK;
    }
    status = try_size(search, search->tuned->microbatch, true, &faster);
    if (status == PST_OK && faster.state == PST_TRIAL_DONE) {
        pst_trial_finish(search->best);
        *search->best = faster;
    } else if (status == PST_OK) {
        pst_trial_finish(&faster);
    }
    return status;
}

pst_status pst_tune_max_batch(const struct pst_combinations *set, uint32_t i,
                              const struct pst_tune_options *options, struct pst_record *record,
                              struct pst_error *err)
{
    struct pst_tuned *tuned = pst_alloc(1, sizeof *tuned);
    struct search search = {set, i, options, &record->trial, tuned, err, 0};
    pst_status status;

    record->tuned = tuned;
    status = search_all(&search);
    PST_TRY(status, quicken(&search));
    if (status != PST_OK) {
        pst_record_finish(record);
    }
    return status;
}

pst_status pst_tune_at(const struct pst_combinations *set, uint32_t i, uint32_t microbatch,
                       const struct pst_tune_options *options, struct pst_record *record,
                       struct pst_error *err)
{
    const struct search search = {set, i, options, &record->trial, record->tuned, err, 0};

    return try_size(&search, microbatch, true, &record->tuned->common);
}

pst_status pst_tune_advise(const struct pst_combinations *set, uint32_t i,
                           const struct pst_tune_options *options, uint32_t *n_advised,
                           struct pst_record *record, struct pst_error *err)
{
    const struct pst_trial_options trial = {.keep_plan = options->keep_plan,
                                            .cancelled = options->cancelled};
    char *config;
    pst_status status;

    if (record->tuned->microbatch > 0) {
        return PST_OK;
    }
    config = pst_combination_config(set, i, 1, options->n_microbatches);
    status = pst_trial_advise(config, &trial, n_advised, &record->trial, err);
    free(config);
    record->tuned->microbatch = record->trial.state == PST_TRIAL_DONE ? 1 : 0;
    return status;
}
