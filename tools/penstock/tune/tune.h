/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest micro-batch that strategies can train (train/largest.h), every step a full planning
 * run. The number of micro-batches of a step stays that of the config, so the batch grows along.
 * What is found fits, and one sample more does not.
 */
#ifndef PST_TUNE_TUNE_H
#define PST_TUNE_TUNE_H

#include "tune/combine.h"
#include "tune/trial.h"

struct pst_tuned {
    uint32_t microbatch; /* the largest that fits; 0: not even one sample does */
    uint32_t n_trials;
    bool bounded;          /* one more sample was tried, and `beyond` says why not */
    struct pst_trial best; /* at the largest; where there is none: why the smallest does not do */
    struct pst_error beyond;
    struct pst_trial common; /* at the largest size that all combinations can do; or open */
};

struct pst_tune_options {
    uint32_t n_microbatches; /* of a step */
    uint32_t limit;          /* largest size that is tried */
    bool keep_plan;
    bool (*cancelled)(void);
    void (*progress)(void *context, uint32_t microbatch); /* may be NULL */
    void *context;
};

/* Errors: those of pst_trial_run. Finish *ret_tuned after PST_OK. */
pst_status pst_tune_max_batch(const struct pst_combinations *set, uint32_t i,
                              const struct pst_tune_options *options, struct pst_tuned *ret_tuned,
                              struct pst_error *err);

/* The combination at a given size, into ret_tuned->common. */
pst_status pst_tune_at(const struct pst_combinations *set, uint32_t i, uint32_t microbatch,
                       const struct pst_tune_options *options, struct pst_tuned *tuned,
                       struct pst_error *err);
/* Where not even one sample fits: pst_trial_advise of that size. */
pst_status pst_tune_advise(const struct pst_combinations *set, uint32_t i,
                           const struct pst_tune_options *options, struct pst_trial_advice *advice,
                           struct pst_tuned *tuned, struct pst_error *err);
/* What a plugin did wrong at one of these sizes (exit code 3), or NULL. */
const struct pst_error *pst_tuned_misdeed(const struct pst_tuned *tuned);
void pst_tuned_finish(struct pst_tuned *tuned);

#endif
