/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands, one file each: a row with its options and what it does. What they share is below.
 */
#ifndef PST_COMMANDS_COMMANDS_H
#define PST_COMMANDS_COMMANDS_H

#include "commands/options.h"
#include "config/job.h"

extern const struct pst_command pst_cmd_train, pst_cmd_plan, pst_cmd_simulate, pst_cmd_compare,
    pst_cmd_tune, pst_cmd_profile, pst_cmd_schedule, pst_cmd_partition, pst_cmd_memopt,
    pst_cmd_evaluate, pst_cmd_generate, pst_cmd_export, pst_cmd_import, pst_cmd_check,
    pst_cmd_plugins, pst_cmd_doctor;

/* In a command: its options, rows into that type. */
#define PST_CLI_OPTIONS(rows, type)                                                                \
    .options = (rows), .n_options = sizeof(rows) / sizeof *(rows), .request_size = sizeof(type)

/* The config of a command line with its --set applied, the job in it, what was made of that. */
struct pst_cli_job {
    struct pst_config *config;
    struct pst_job job;
    struct pst_session *session; /* or NULL */
};

/* Does it begin as a plan does, rather than a config? false: or it cannot be read. */
bool pst_cli_is_plan_file(const char *path);
void pst_cli_job_open(struct pst_cli *cli, const char *path, struct pst_cli_job *ret_job);
/* The job inside a plan file. */
void pst_cli_job_embedded(struct pst_cli *cli, const char *file, struct pst_cli_job *ret_job);

/* A session with a plan: `file` is a config, which is planned, or a plan, which brings its own
   config and takes no --set. whole: programs, too, as pst_sim_timeline and executors take them. */
void pst_cli_job_planned(struct pst_cli *cli, const char *file, bool whole,
                         struct pst_cli_job *ret_job);
void pst_cli_job_close(struct pst_cli_job *job);

/* Measures, where that is wanted and not done yet: pst_calibrate. samples: of the largest
   micro-batch that will be planned. On standard error it says what it does. */
pst_status pst_cli_calibrate(const struct pst_cli *cli, struct pst_session *session,
                             uint32_t samples, struct pst_error *err);

/* Plans the session's job, or reads the plan file unless that is NULL. */
void pst_cli_plan(struct pst_cli *cli, struct pst_session *session, const char *plan_file);

/* Writes the session's plan to `file`, unless that is NULL, and reports it. */
void pst_cli_answer_plan(struct pst_cli *cli, const struct pst_session *session, const char *file);

/* Ends the program unless status is PST_OK, as a command that fails does: cli->err is told in the
   form that was asked for. What the command holds goes with the process. */
void pst_cli_must(struct pst_cli *cli, pst_status status);
/* Refuses to be one of several processes of a launcher; `does` says what the command does in one.
 */
void pst_cli_must_be_alone(struct pst_cli *cli, const char *does);
/* So it does with usage, "COMMAND: FORMAT ...". */
_Noreturn void pst_cli_usage(struct pst_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The index of `word` among the names, which NULL ends; else usage: "no WHAT", with the nearest. */
uint32_t pst_cli_choose(struct pst_cli *cli, const char *what, const char *word,
                        const char *const *names);

/* Sends standard output on its way. output.write, unless a reader went away: it had seen enough. */
pst_status pst_cli_flush(struct pst_error *err);

/* The exit code of a command that worked, unless its result cannot be written: that is told. */
int pst_cli_end(int code);

#endif
