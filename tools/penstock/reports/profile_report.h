/* SPDX-License-Identifier: Apache-2.0
 *
 * A measured profile for people and tools: what kinds of operators take, how even the measurements
 * were, and what [cluster] would have said.
 */
#ifndef PST_REPORTS_PROFILE_REPORT_H
#define PST_REPORTS_PROFILE_REPORT_H

#include <stdio.h>

#include "base/json.h"
#include "measure/profile.h"

/* file: where it was written, or NULL. */
void pst_profile_report_print(const struct pst_session *session, const struct pst_profiled *profile,
                              const char *file, bool color, FILE *out);

/* Members of the object that is open. */
void pst_profile_report_json(const struct pst_session *session, const struct pst_profiled *profile,
                             const char *file, struct pst_json *json);

#endif
