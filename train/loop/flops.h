/* SPDX-License-Identifier: Apache-2.0
 *
 * Model FLOPs utilization: what a step computes over what the devices could in its time (Chowdhery
 * et al., "PaLM", 2022, appendix B).
 */
#ifndef PST_LOOP_FLOPS_H
#define PST_LOOP_FLOPS_H

#include "session/session.h"

/* Operations of one step: forward and backward of the model, each once; what is computed again to
   save memory does not count. After pst_session_plan. */
double pst_session_step_flops(const struct pst_session *session);
/* Operations per second of all devices of the plan together, at their peak in run.dtype: what
   [cluster] says, or the device of itself. 0: neither does. */
double pst_session_peak_flops(const struct pst_session *session);

#endif
