/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop: steps, evaluations on held-out data, a piece of generated text at the end.
 */
#ifndef PST_LOOP_TRAIN_H
#define PST_LOOP_TRAIN_H

#include <stdio.h>

#include "checkpoint/resume.h"
#include "checkpoint/saver.h"
#include "data/data.h"
#include "exec/exec.h"
#include "exec/record.h"
#include "sim/usage.h"

struct pst_step_report {
    uint64_t step;    /* 1 for the first */
    uint64_t samples; /* of this step */
    uint64_t tokens;  /* samples x rows */
    uint64_t peak_bytes;
    double lr;
    double scale; /* of emulated devices: wall time of a second; 0: they are real */
    double mfu;   /* of the devices' peak (flops.h); NaN: it is not known */
    struct pst_step_result result;
};

/* The whole run, at its end. */
struct pst_run_report {
    uint64_t steps, tokens_per_step, total_ns; /* steps that this run made, */
    uint64_t first_step;                       /* steps before those */
    uint64_t skipped;                          /* of them without an update */
    double first_loss, final_loss;
    double eval_loss; /* NaN: nothing was held out, or the run was stopped */
    uint32_t n_devices;
    const uint64_t *peak_bytes, *predicted_peak_bytes;
    const uint64_t *copy_bytes, *copy_stall_ns; /* per device, of one step: offloaded, and waited
                                                   for copies; NULL: nothing is offloaded */
    uint64_t step_ns, predicted_step_ns;        /* median; simulated */
    double mfu;                                 /* of the median step; NaN: it is not known */
    const struct pst_usage *usage; /* per device, of the last usage_steps steps; NULL: the run was
                                      stopped before they came */
    uint64_t usage_steps;
    const char *sample;    /* generated text, or NULL */
    double accuracy;       /* of the last evaluation, where the listener scores and targets are
                              classes: part of the targets that the largest logit names; else NaN */
    uint64_t eval_samples; /* that the last evaluation had */
    double scale;          /* of emulated devices: wall time of a second; 0: they are real */
    int signal;            /* that ended the run, or 0 */
};

/* Callbacks of a run; each may be NULL. */
struct pst_train_listener {
    void *context;
    bool scores; /* evaluations count right answers, too, in small batches */
    void (*step)(void *context, const struct pst_step_report *report);
    void (*eval)(void *context, uint64_t step, double loss);
    /* A checkpoint was saved, or was not. */
    void (*saved)(void *context, const struct pst_save_report *report);
    /* The run resumes from that step. */
    void (*resumed)(void *context, const char *path, uint64_t step);
    /* The whole run, at its end. */
    void (*done)(void *context, const struct pst_run_report *report);
    /* The timeline of the last output.trace_steps steps, if the run made at least one. */
    pst_status (*trace)(void *context, const struct pst_timeline *timeline, struct pst_error *err);
};

/*
 * Runs the session's plan on the data (devices without data: NULL) to the end of train.steps. It
 * starts with the session's values, or resumes from a checkpoint. With 0 steps, which a command may
 * set, it makes only the evaluation and the text of the end; without data, the text alone. With a
 * folder for checkpoints it saves as [checkpoint] says, and the last step; with resume NULL it is a
 * new run that saves nothing. A signal (signals.h) ends it after the steps in flight, without a
 * final evaluation: the results so far are reported, then PST_ERR_CANCELLED with exit code 130 or
 * 143 comes back. Other errors: those of resume.h and saver.h; machine.memory (exit 4) before the
 * first step, run.non-finite and run.* (exit 1).
 */
pst_status pst_train_run(struct pst_session *session, const struct pst_data *data,
                         const struct pst_resume_request *resume,
                         const struct pst_train_listener *listener, struct pst_error *err);

#endif
