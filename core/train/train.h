/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop: steps, evaluations on held-out data, a piece of generated text at the end, and
 * what is said about them.
 */
#ifndef PST_TRAIN_TRAIN_H
#define PST_TRAIN_TRAIN_H

#include <stdio.h>

#include "exec/exec.h"
#include "exec/record.h"
#include "train/data.h"
#include "train/session.h"

struct pst_run_report; /* train/output.h */

struct pst_train_options {
    bool json;      /* JSON lines on `out`, nothing else there (docs/commands.md) */
    FILE *out;      /* results; NULL: nowhere */
    FILE *progress; /* a sign of life; NULL: none */
    /* What happened in the last steps, as many as output.trace_steps says, from a run that made at
       least one. NULL: nothing is recorded. */
    pst_status (*trace)(void *context, const struct pst_timeline *timeline, struct pst_error *err);
    void *trace_context;
    /* The whole run, at its end; NULL: nobody asks. */
    void (*done)(void *context, const struct pst_run_report *report);
    void *done_context;
};

/*
 * Runs the session's plan on the data (hollow devices: NULL) to the end of train.steps. A signal
 * (stop.h) ends it after the steps in flight, without a final evaluation: the results so far are
 * reported, then PST_ERR_CANCELLED with exit code 130 or 143 comes back. Other errors:
 * machine.memory (exit 4) before the first step, run.non-finite and run.* (exit 1).
 */
pst_status pst_train_run(struct pst_session *session, const struct pst_data *data,
                         const struct pst_train_options *options, struct pst_error *err);

#endif
