/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated run for people and tools: time, who waits for what, memory.
 */
#ifndef PST_REPORTS_SIM_REPORT_H
#define PST_REPORTS_SIM_REPORT_H

#include <stdio.h>

#include "base/json.h"
#include "session/session.h"
#include "sim/sim.h"

/* "all devices 79.9 %, busiest device 1.2 %": returns text. */
#define PST_IDLE_TEXT 64
char *pst_report_idle_text(struct pst_idle idle, char text[PST_IDLE_TEXT]);

/* Summary, and a row per device. */
void pst_sim_report_print(const struct pst_session *session, const struct pst_timeline *timeline,
                          const struct pst_sim_result *result, bool color, FILE *out);

/* Members of the object that is open: every span and every point of memory, too. */
void pst_sim_report_json(const struct pst_session *session, const struct pst_timeline *timeline,
                         const struct pst_sim_result *result, struct pst_json *json);

#endif
