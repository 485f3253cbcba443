/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: finds the subcommand, runs it, prints a failure in the form that was asked for.
 * A command that fails ends there, from any depth: what it holds goes with the process.
 */
#ifndef PST_COMMANDS_CLI_H
#define PST_COMMANDS_CLI_H

/* The exit code; a failure does not return. */
int pst_cli_run(int argc, char **argv);
/* exit(), but for a device that stands still, which that would wait for. */
_Noreturn void pst_cli_leave(int code);
/* From now on an exit() is the program's own: MPI may call it, too. */
void pst_cli_leaves(void);

#endif
