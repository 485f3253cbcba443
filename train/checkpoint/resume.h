/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoint a run resumes from, and whether it is one for this job. All processes choose the
 * same checkpoint.
 */
#ifndef PST_CHECKPOINT_RESUME_H
#define PST_CHECKPOINT_RESUME_H

#include "checkpoint/checkpoint.h"
#include "job/training.h"
#include "session/session.h"

struct pst_resume_request {
    const char *from;  /* "auto", a step, or a path; NULL: a new run */
    bool allow_change; /* of seeds, data, batch, optimizer */
};

/*
 * Finds and opens the checkpoint that the run resumes from: for auto the newest of
 * checkpoint.folder; a path may also be such a folder. Each process verifies what its ranks will
 * read; if that fails, auto and a folder use the next older one. *ret_checkpoint NULL: auto found
 * none, which is logged. Collective. Errors, exit 2: checkpoint.none, checkpoint.damaged.
 */
pst_status pst_resume_open(const struct pst_session *session,
                           const struct pst_resume_request *request,
                           struct pst_checkpoint **ret_checkpoint, struct pst_error *err);

/*
 * checkpoint.mismatch (exit 2) unless the checkpoint is of this model, and of these seeds, data,
 * batch and optimizer or the request allows a change of them. Warns of what changes bits, once.
 * *ret_without_slots: the optimizer is another one, so its state starts at 0.
 */
pst_status pst_resume_fits(const struct pst_checkpoint *checkpoint,
                           const struct pst_session *session, uint64_t data_digest,
                           const struct pst_resume_request *request, bool *ret_without_slots,
                           struct pst_error *err);

#endif
