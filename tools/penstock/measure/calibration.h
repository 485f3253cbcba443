/* SPDX-License-Identifier: Apache-2.0
 *
 * Measurements of a model on this machine, kept for later plans: the times of its operators (a
 * costed graph, as `penstock profile -o` writes) and a [cluster] section (`-c`). They replace what
 * a config leaves out. If none are kept, a program measures (measure/calibrate.h).
 */
#ifndef PST_MEASURE_CALIBRATION_H
#define PST_MEASURE_CALIBRATION_H

#include "job/training.h"
#include "session/session.h"

/* Would measured times be used? Where the job asks for them (profile.measure), has no others, its
   [cluster] says nothing about the speed of devices, its operators run on this machine and are
   known before the plan is, and this process is alone: processes of one run must agree. */
bool pst_calibration_is_wanted(const struct pst_session *session);

/* Is the job's data read to measure the host's part? A data plugin that is not penstock's own is
   run only by commands that need its samples, and by `penstock profile`. */
bool pst_calibration_reads_data(const struct pst_session *session);

/* Files of this model, device, optimizer, machine and version; free() both. NULL: no folder is
   known for them. The second has the name of the first with another ending. */
char *pst_calibration_profile_file(const struct pst_session *session);
char *pst_calibration_cluster_file(const struct pst_session *session);

/* The session gets the times of [profile] file. Errors: those of pst_costed_read and
   pst_profile_bind. */
pst_status pst_calibration_read(struct pst_session *session, struct pst_error *err);

/* Takes what is kept, where it is wanted; larger micro-batches than were measured go on with the
   last slope. What cannot be read, or is of something else, counts as not there. Sets
   session->calibrated. */
void pst_calibration_load(struct pst_session *session);

#endif
