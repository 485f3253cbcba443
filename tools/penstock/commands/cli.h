/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: finds the subcommand, runs it, prints a failure in the form that was asked for,
 * returns the exit code. Only main() exits.
 */
#ifndef PST_COMMANDS_CLI_H
#define PST_COMMANDS_CLI_H

int pst_cli_run(int argc, char **argv);

#endif
