/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that a run begins with, wherever they come from: published ones, or those of a
 * checkpoint. The rest (optimizer, steps, data) begins anew; to go on is another thing.
 */
#ifndef PST_LOOP_INITIAL_VALUES_H
#define PST_LOOP_INITIAL_VALUES_H

#include "job/training.h"
#include "exec/exec.h"
#include "graph/graph.h"
#include "session/session.h"

struct pst_begin;

/*
 * path: a checkpoint; a folder of checkpoints, of which the newest that is whole is taken; or
 * published weights (pst_weights_open). tell: warn of what is left out. Job and graph must outlive
 * it. *graph may become that of a part of the model later (pst_session_divide); values of
 * parameters are always whole. Errors (exit 2):
 * those of pst_weights_open and pst_checkpoint_open; weights.mismatch with the first ten parameters
 * that differ.
 */
pst_status pst_begin_open(const char *path, const struct pst_job *job,
                          struct pst_graph *const *graph, bool tell, struct pst_begin **ret_begin,
                          struct pst_error *err);
void pst_begin_close(struct pst_begin *begin); /* accepts NULL */

/* Parameters and running statistics; as long as it is open. */
const struct pst_exec_source *pst_begin_source(const struct pst_begin *begin);

/* Opens what a run of the session begins with, and gives it to the session: pst_begin_open. Close
   it after the run. */
pst_status pst_begin_session(const char *path, struct pst_session *session,
                             struct pst_begin **ret_begin, struct pst_error *err);

struct pst_checkpoint;
/* The checkpoint of a path, which is one or has several; *ret NULL: neither. `falls_back`: where
   the newest one is damaged, an older one is taken, with a warning; else a hint names that. */
pst_status pst_begin_find_checkpoint(const char *path, bool falls_back,
                                     struct pst_checkpoint **ret_checkpoint, struct pst_error *err);

#endif
