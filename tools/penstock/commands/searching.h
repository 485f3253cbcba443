/* SPDX-License-Identifier: Apache-2.0
 *
 * A sign of life while a plan is searched for: after a second, on a terminal, how long it takes.
 */
#ifndef PST_COMMANDS_SEARCHING_H
#define PST_COMMANDS_SEARCHING_H

#include "commands/options.h"

/* One search at a time. It is silent with --json and --quiet, and where standard error is no
   terminal. */
void pst_searching_begin(const struct pst_cli *cli);
/* For the planner, which asks again and again: is it to stop? Any thread. */
bool pst_searching_stops(void);
/* Takes the line away. */
void pst_searching_end(void);

#endif
