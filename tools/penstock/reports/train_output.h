/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of a run: JSON lines for tools, or lines for people; and the files of output.log and
 * output.tensorboard.
 */
#ifndef PST_REPORTS_TRAIN_OUTPUT_H
#define PST_REPORTS_TRAIN_OUTPUT_H

#include "loop/train.h"
#include "reports/event_file.h"
#include "reports/progress.h"

struct pst_train_output {
    bool json; /* JSON lines on `out`, nothing else there (docs/commands.md) */
    FILE *out; /* results; NULL: nowhere */
    const struct pst_job_train *train;
    struct pst_record_file log; /* the JSON lines, too */
    struct pst_event_file events;
    struct pst_progress progress;
    struct pst_sample_unit unit; /* of rates for people */
    bool broken;                 /* `out` takes nothing any more, so nothing is written there */
    int write_errno;             /* why; 0 where a reader went away, which is no failure */
};

/* progress: where a sign of life goes; NULL: nowhere. */
void pst_train_output_init(struct pst_train_output *output, const struct pst_job *job, bool json,
                           FILE *out, FILE *progress);
/* Opens the files that the job asks for; before a plan is searched. PST_ERR_IO: output.write. */
pst_status pst_train_output_open(struct pst_train_output *output, const struct pst_job *job,
                                 struct pst_error *err);
/* The first line of the log, of a run that begins now. */
void pst_train_output_begin(struct pst_train_output *output, const struct pst_session *session);
/* Tells the output of steps, evaluations and the end. */
void pst_train_output_listen(struct pst_train_output *output, struct pst_train_listener *listener);
/* Closes the files. After a run that ended so: output.write where the results, or records of the
 * files, could not be written. Else `status`. */
pst_status pst_train_output_end(struct pst_train_output *output, pst_status status,
                                struct pst_error *err);

#endif
