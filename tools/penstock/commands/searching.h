/* SPDX-License-Identifier: Apache-2.0
 *
 * A sign of life while something takes its time: after a second, on a terminal, what it is and how
 * long it has been going on.
 */
#ifndef PST_COMMANDS_SEARCHING_H
#define PST_COMMANDS_SEARCHING_H

#include "commands/options.h"

#define PST_SEARCHING_PLAN "searching for a plan"

/* One thing at a time; what: a constant, "writing weights". It is silent with --json and --quiet,
   and where standard error is no terminal. */
void pst_searching_begin(const struct pst_cli *cli, const char *what);
/* Takes the line away. Nothing may be printed before; a command that fails does it itself. */
void pst_searching_end(void);

#endif
