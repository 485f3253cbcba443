/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands, one file each. A command gets its own argv (argv[0] is its name) and returns the
 * exit code; it has printed its result or its error by then.
 */
#ifndef PST_COMMANDS_COMMANDS_H
#define PST_COMMANDS_COMMANDS_H

#include "commands/options.h"
#include "config/job.h"

extern const struct pst_command pst_commands[]; /* ended by a NULL name */

int pst_cmd_train(const struct pst_command *command, int argc, char **argv);
int pst_cmd_plan(const struct pst_command *command, int argc, char **argv);
int pst_cmd_simulate(const struct pst_command *command, int argc, char **argv);
int pst_cmd_compare(const struct pst_command *command, int argc, char **argv);
int pst_cmd_tune(const struct pst_command *command, int argc, char **argv);
int pst_cmd_profile(const struct pst_command *command, int argc, char **argv);
int pst_cmd_schedule(const struct pst_command *command, int argc, char **argv);
int pst_cmd_check(const struct pst_command *command, int argc, char **argv);
int pst_cmd_memopt(const struct pst_command *command, int argc, char **argv);
int pst_cmd_partition(const struct pst_command *command, int argc, char **argv);
int pst_cmd_export(const struct pst_command *command, int argc, char **argv);
int pst_cmd_import(const struct pst_command *command, int argc, char **argv);
int pst_cmd_plugins(const struct pst_command *command, int argc, char **argv);
int pst_cmd_doctor(const struct pst_command *command, int argc, char **argv);

/* The config of a command line with its --set applied, and the job in it. */
struct pst_cli_job {
    struct pst_config *config;
    struct pst_job job;
    bool has_job;
};

pst_status pst_cli_job_open(const char *path, const struct pst_cli *cli,
                            struct pst_cli_job *ret_job, struct pst_error *err);
/* The job inside a plan file. */
pst_status pst_cli_job_embedded(const char *file, struct pst_cli_job *ret_job,
                                struct pst_error *err);
/* Is it a plan, by its first character, rather than a config? false: or it cannot be read. */
bool pst_cli_is_plan(const char *path);

/* A session with a plan: `file` is a config, which is planned, or a plan, which brings its own
   config and takes no --set. Close the job in any case. run.stopped after a signal. */
struct pst_session;
pst_status pst_cli_session_open(const struct pst_cli *cli, const char *file,
                                struct pst_cli_job *ret_job, struct pst_session **ret_session,
                                struct pst_error *err);

/* Writes the session's plan to `file`, unless that is NULL, and tells about it. */
pst_status pst_cli_answer_plan(const struct pst_cli *cli, const struct pst_session *session,
                               const char *file, struct pst_error *err);

/* The index of `word` among the names, which NULL ends; else usage: "no WHAT", with the nearest. */
pst_status pst_cli_choose(const struct pst_command *command, const char *what, const char *word,
                          const char *const *names, uint32_t *ret_index, struct pst_error *err);
void pst_cli_job_close(struct pst_cli_job *job);

/* Writes a JSON text that was taken from a writer (NULL: out of memory) as one line, frees it. */
pst_status pst_cli_print_json(char *text, struct pst_error *err);

/* Sends standard output on its way. output.write, unless a reader went away: it had seen enough. */
pst_status pst_cli_flush(struct pst_error *err);

/* Ends a command: prints the error if there is one; a result that cannot be written is one too.
   err is NULL or unused when st is PST_OK. */
int pst_cli_end(pst_status st, bool json, struct pst_error *err);

#endif
