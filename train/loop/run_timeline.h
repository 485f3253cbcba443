/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline of a run: what the recorder of the executor has, as spans.
 */
#ifndef PST_LOOP_RUN_TIMELINE_H
#define PST_LOOP_RUN_TIMELINE_H

#include "exec/record.h"
#include "sim/timeline.h"

/*
 * Makes a timeline of kind "run" that begins with the first recorded start; times are divided by
 * `scale`. Call it while nothing is in flight. PST_ERR_BUG: no step was run. Destroy the timeline.
 */
pst_status pst_run_timeline(const struct pst_recorder *recorder, double scale,
                            struct pst_timeline **ret_timeline, struct pst_error *err);

#endif
