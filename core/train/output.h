/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run says about itself: JSON lines for tools, or lines for people.
 */
#ifndef PST_TRAIN_OUTPUT_H
#define PST_TRAIN_OUTPUT_H

#include "train/progress.h"
#include "train/train.h"

struct pst_train_output {
    const struct pst_train_options *options;
    struct pst_progress progress;
    bool broken;     /* `out` takes nothing any more, so nothing is written there */
    int write_errno; /* why; 0 where a reader went away, which is no failure */
};

struct pst_step_report {
    uint64_t step;    /* 1 for the first */
    uint64_t samples; /* of this step */
    uint64_t tokens;  /* samples x rows */
    uint64_t peak_bytes;
    double lr;
    struct pst_step_result result;
};

/* The whole run, at its end. */
struct pst_run_report {
    uint64_t steps, tokens_per_step, total_ns;
    double first_loss, final_loss;
    double eval_loss; /* NaN: nothing was held out, or the run was stopped */
    uint32_t n_devices;
    const uint64_t *peak_bytes, *predicted_peak_bytes;
    const uint64_t *copy_bytes, *copy_stall_ns; /* per device, of one step: offloaded, and waited
                                                   for copies; NULL: nothing is offloaded */
    uint64_t step_ns, predicted_step_ns;        /* median; simulated */
    const char *sample;                         /* generated text, or NULL */
    double scale; /* of emulated devices: wall time of a second; 0: they are real */
    int signal;   /* that ended the run, or 0 */
};

void pst_train_output_init(struct pst_train_output *output, const struct pst_train_options *options,
                           const struct pst_job *job);
void pst_train_output_step(struct pst_train_output *output, const struct pst_step_report *report);
void pst_train_output_eval(struct pst_train_output *output, uint64_t step, double loss);
void pst_train_output_done(struct pst_train_output *output, const struct pst_run_report *report);

#endif
