/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions shared by the commands that ask a single strategy.
 */
#ifndef PST_COMMANDS_ASK_PLUGIN_H
#define PST_COMMANDS_ASK_PLUGIN_H

#include "ask/schedule_job.h"
#include "commands/options.h"
#include "ask/problem_file.h"
#include "reports/schedule_report.h"

/* Reads the value of --time-limit; text NULL: usual_ns. */
uint64_t pst_cli_read_limit(struct pst_cli *cli, const char *text, uint64_t usual_ns);

/* pst_cli_must after the file of --problem was read. */
void pst_cli_must_read_problem(struct pst_cli *cli, pst_status status);

/* Reads the plugin to ask, the first argument: its name (id) or file (path); and its time limit (10
   minutes if text is NULL). `who` ("the scheduler") is for messages. */
void pst_cli_read_plugin(struct pst_cli *cli, const char *who, const char *text,
                         uint64_t *ret_time_ns, const char **ret_id, const char **ret_path);

/* Returns the limits of the process in which a foreign plugin is asked; 0: no time limit. */
struct pst_worker_task pst_cli_limits(uint64_t time_ns);

/* Asks a scheduler; one that is not penstock's own in a process apart, for at most time_ns there
   (0: no limit). */
pst_status pst_cli_schedule_run(const struct pst_schedule_job *job, uint64_t time_ns,
                                struct pst_schedule_result *ret_result, struct pst_error *err);

/* One step of the answer as a file that PyTorch loads, passes alone. output.form, exit code 1,
   where there is no form for it; output.write. */
void pst_cli_write_order(struct pst_cli *cli, const char *file,
                         const struct pst_schedule_result *result);

/* Returns how wide and how colourful the answer may be on standard output. */
struct pst_schedule_page pst_cli_schedule_page(const struct pst_cli *cli);

/* 1 for every pass and for what is saved, in millionths; no latency. */
struct pst_order_question_costs pst_cli_unit_costs(void);

/* --- what puts a problem file to one plugin: `partition` and `memopt` --------------------------*/

/* The first three are filled by options; the rest by pst_cli_problem_read. */
struct pst_cli_problem_request {
    const char *problem_file, *options, *time_limit;
    uint64_t time_limit_ns;
    const char *id, *path; /* of the plugin: one of the two */
    struct pst_problem *problem;
};

/* Rows of a table of options, for `field` of the request. */
#define PST_CLI_PROBLEM_OPTIONS(field, what, who, one)                                              \
    {"problem", 'p', "FILE", what, PST_AT(field.problem_file), 0},                                  \
        {"options", 'O', "LIST", "parameters of the " who ": key=value,...", PST_AT(field.options), \
         0},                                                                                        \
    {                                                                                               \
        "time-limit", 0, "TIME", "time limit of " one " not shipped with penstock; 10 min",         \
            PST_AT(field.time_limit), 0                                                             \
    }

/* Reads the problem and lets --options take the place of its options. `who` ("the partitioner") is
   for messages. */
void pst_cli_problem_read(struct pst_cli *cli, struct pst_cli_problem_request *request,
                          const char *who);

/* Is there an answer? To --json "no" is one as well: {key: name, answer: false, "error": ...}. With
   another error the command ends; a parameter's names where it was written. */
bool pst_cli_problem_solved(struct pst_cli *cli, const struct pst_cli_problem_request *request,
                            pst_status status, const char *key, const char *answer);

#endif
