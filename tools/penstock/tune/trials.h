/* SPDX-License-Identifier: Apache-2.0
 *
 * Many configs planned and simulated, over the cores of this machine: in processes that are copies
 * of this one, each of which takes the next config when it is through with one.
 */
#ifndef PST_TUNE_TRIALS_H
#define PST_TUNE_TRIALS_H

#include "tune/trial.h"

struct pst_trials {
    uint32_t n;      /* at most */
    uint32_t n_jobs; /* processes; 1: this one alone, as where this one has several threads */
    struct pst_trial_options options;
    void *context;
    /* The trial to begin next; false: none before another one has ended. NULL: they are 0 ... n -
       1, in this order. */
    bool (*next)(void *context, uint32_t *ret_i);
    /* The config of trial i, by what *context was at the beginning, as pst_trial_run reads it; it
       is freed. Called in whichever process tries it. */
    char *(*config)(void *context, uint32_t i);
    /* Trial i is begun, so many are through. May be NULL. */
    void (*begun)(void *context, uint32_t i, uint32_t n_done);
    /* Trial i, which is now the callee's. Those of several processes come as they end. An error
       ends it all. */
    pst_status (*each)(void *context, uint32_t i, const struct pst_trial *trial,
                       struct pst_error *err);
    /* Trial i has an error that ends it all: true where nobody needs it, and it is forgotten. NULL:
       all are needed. */
    bool (*drops)(void *context, uint32_t i);
    /* Nothing that is being tried is needed any more. NULL: all of it is. */
    bool (*through)(void *context);
};

/*
 * It ends when nothing is being tried and there is no next trial. What each comes to does not
 * depend on n_jobs, but where plugins run apart and the clock takes the patience. A signal, or
 * options.cancelled, ends it as PST_ERR_CANCELLED, with what has ended by then. Errors: those of
 * pst_trial_run, of the first trial that has one; those of each(); machine.missing where there can
 * be no process.
 */
pst_status pst_trials_run(const struct pst_trials *trials, struct pst_error *err);

#endif
