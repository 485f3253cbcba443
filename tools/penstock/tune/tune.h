/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest micro-batch that strategies can train (tune/largest.h); each trial is a full planning
 * run. The number of micro-batches of a step stays that of the config, so the batch grows along.
 * The result fits, and one sample more does not.
 */
#ifndef PST_TUNE_TUNE_H
#define PST_TUNE_TUNE_H

#include "tune/combinations.h"
#include "tune/trial.h"

/* How far a combination goes; what it comes to there is its record's trial. */
struct pst_tuned {
    uint32_t microbatch; /* the largest that fits; 0: not even one sample does */
    uint32_t n_trials;
    bool bounded; /* one more sample was tried, and `beyond` says why not */
    struct pst_error beyond;
    struct pst_trial common; /* at the largest size that all combinations can do; or open */
};

/* One combination and what came of it. Labels are the set's, which outlives it. */
struct pst_record {
    uint32_t combination; /* its number, over all configs of the command */
    const char *config;   /* path of its config */
    const char *method;   /* name of its triple of strategies, or NULL */
    const char *labels[PST_AXES];
    bool undivided;          /* pst_combination_undivided */
    struct pst_trial trial;  /* where the largest batch was sought: of that; where there is none of
                                one sample */
    struct pst_tuned *tuned; /* NULL: it was not sought */
    const struct pst_record *same_as; /* of a search: the first record that came to this plan,
                                         NULL: it is this one */
    struct pst_versus best;           /* beside the fastest of its config, */
    struct pst_versus baseline;       /* and the one that was named */
};
void pst_record_finish(struct pst_record *record);
/* Returns the error of a plugin that broke a rule (exit code 3) at one of the sizes, or NULL. */
const struct pst_error *pst_record_misdeed(const struct pst_record *record);

struct pst_tune_options {
    uint32_t n_microbatches; /* of a step */
    uint32_t limit;          /* largest size that is tried */
    bool keep_plan;
    bool (*cancelled)(void);
    void (*progress)(void *context, uint32_t microbatch); /* may be NULL */
    void *context;
};

/* Into record->trial and record->tuned. Errors, here and below: those of pst_trial_run. */
pst_status pst_tune_max_batch(const struct pst_combinations *set, uint32_t i,
                              const struct pst_tune_options *options, struct pst_record *record,
                              struct pst_error *err);

/* The combination at a given size, into record->tuned->common. */
pst_status pst_tune_at(const struct pst_combinations *set, uint32_t i, uint32_t microbatch,
                       const struct pst_tune_options *options, struct pst_record *record,
                       struct pst_error *err);
/* Where not even one sample fits: pst_trial_advise of that size. */
pst_status pst_tune_advise(const struct pst_combinations *set, uint32_t i,
                           const struct pst_tune_options *options, uint32_t *n_advised,
                           struct pst_record *record, struct pst_error *err);

#endif
