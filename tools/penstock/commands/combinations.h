/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions shared by the commands that try combinations: configs, progress, a folder of plans.
 */
#ifndef PST_COMMANDS_COMBINATIONS_H
#define PST_COMMANDS_COMBINATIONS_H

#include "commands/commands.h"
#include "reports/compare_report.h"
#include "tune/bound.h"

struct pst_cli_set {
    struct pst_cli_job job;
    struct pst_combinations combinations;
    struct pst_bound bound;
};

struct pst_cli_sets {
    uint32_t n;
    struct pst_cli_set *sets; /* one per config of the command line */
};

/* read: pst_combinations_read, or another one of that kind. */
void pst_cli_sets_open(struct pst_cli *cli,
                       pst_status (*read)(const struct pst_job *job,
                                          struct pst_combinations *ret_set, struct pst_error *err),
                       struct pst_cli_sets *ret_sets);
void pst_cli_sets_close(struct pst_cli_sets *sets);

/* Prints the table or the records and frees the result. Sets the exit code: that of a signal, 3 if
   a plugin broke a rule, 1 if no combination is good. */
void pst_cli_answer_records(struct pst_cli *cli, struct pst_compare_result *result);

/* Prints a line on standard error, on a terminal and unless quiet, over the one before; NULL erases
   it. */
void pst_cli_progress(const struct pst_cli *cli, uint32_t done, uint32_t all,
                      const struct pst_record *next);
/* Like pst_cli_progress, but with the caller's text. */
void pst_cli_progress_text(const struct pst_cli *cli, uint32_t done, uint32_t all,
                           const char *text);

/* A record for every combination of the sets, in their order. */
void pst_cli_records(const struct pst_cli_sets *sets, struct pst_compare_result *result);

/* Combination `number` of all sets: names it, which an open record is for. */
void pst_cli_record_name(const struct pst_cli_sets *sets, uint32_t number,
                         struct pst_record *ret_record);
/* The set that it is of, and its number there. */
const struct pst_cli_set *pst_cli_set_of(const struct pst_cli_sets *sets, uint32_t number,
                                         uint32_t *ret_i);
/* The config of a combination, as pst_combination_config; free() it. */
char *pst_cli_config(const struct pst_cli_sets *sets, uint32_t number);

/* Whose record `at` is: combination i of the set. */
struct pst_cli_visit {
    struct pst_cli *cli;
    const struct pst_cli_set *set;
    uint32_t i, at;
    struct pst_compare_result *result;
    struct pst_record *record;
};
typedef pst_status pst_cli_visitor(void *context, const struct pst_cli_visit *visit,
                                   struct pst_error *err);
/* To every record in turn, until the last, a failure, which ends the command, or a signal, which
   leaves the others open. */
void pst_cli_visit_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                       struct pst_compare_result *result, pst_cli_visitor *visit, void *context);

/*
 * Tries every combination of the sets, for which there are records. Then says of those that do not
 * fit with how much memory they would, as far as pst_trial_advise goes. Then runs what is done for
 * so many rounds, in which all have their turn, and compares. each sees every record once it is
 * planned, and may take its plan where nothing is run.
 */
struct pst_cli_trials {
    struct pst_trial_options options;
    uint32_t n_jobs;            /* processes that plan; 0: as many as there are cores */
    uint32_t n_rounds, n_steps; /* of runs; 0: none */
    const char *baseline;       /* what to compare with, or NULL */
    pst_status (*each)(void *context, const struct pst_compare_result *result, uint32_t i,
                       struct pst_error *err);
    void *context;
    bool last_resort; /* what would do is said only if nothing fits, and of the smallest sizes */
    uint32_t n_advised; /* that may still get advice */
};
/* The last two parts of this. */
void pst_cli_advise(struct pst_cli *cli, const struct pst_cli_sets *sets,
                    struct pst_cli_trials *trials, struct pst_compare_result *result);
void pst_cli_run_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                     struct pst_cli_trials *trials, struct pst_compare_result *result);
void pst_cli_try_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                     struct pst_cli_trials *trials, struct pst_compare_result *result);

#endif
