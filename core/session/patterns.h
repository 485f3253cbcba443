/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of a job, such as "h.*.attn", that name operators or parameters.
 */
#ifndef PENSTOCK_SESSION_PATTERNS_H
#define PENSTOCK_SESSION_PATTERNS_H

#include "graph/graph.h"

/* Refuses a pattern of the list that matches none of the names of the model's `what`. `where`: what
   gives the patterns. Errors: config.value. */
pst_status pst_patterns_check(const char *patterns, const struct pst_graph *model, bool operators,
                              const char *where, struct pst_error *err);

#endif
