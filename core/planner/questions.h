/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins may ask the host: pst.cost/1, pst.ask/1, pst.profile/1, pst.eval/1, pst.rng/1. A
 * question is held against the rules; prices and in-flight counts are remembered.
 */
#ifndef PST_PLANNER_QUESTIONS_H
#define PST_PLANNER_QUESTIONS_H

#include "host/plugin_host.h"

struct pst_planner;

/* The tables behind the host's extensions; `planner` is kept. */
void pst_questions_context(struct pst_planner *planner, struct pst_host_context *ret_context);
/* Who answers a plugin. */
struct pst_planner *pst_questions_planner(const struct pst_host *host);

#endif
