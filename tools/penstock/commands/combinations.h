/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that try combinations share: their configs, a sign of life, a folder of plans.
 */
#ifndef PST_COMMANDS_COMBINATIONS_H
#define PST_COMMANDS_COMBINATIONS_H

#include "commands/commands.h"
#include "reports/compare_report.h"

struct pst_cli_set {
    struct pst_cli_job job;
    struct pst_combinations combinations;
};

struct pst_cli_sets {
    uint32_t n, n_combinations; /* of all */
    struct pst_cli_set *sets;   /* one per config of the command line */
};

pst_status pst_cli_sets_open(const struct pst_cli *cli, struct pst_cli_sets *ret_sets,
                             struct pst_error *err);
void pst_cli_sets_close(struct pst_cli_sets *sets);

/* Names a record after combination i of a set. */
void pst_cli_record(const struct pst_cli_set *set, uint32_t i, struct pst_compare_record *record);

/* A line on standard error, on a terminal and unless quiet, drawn over the one before; NULL
   takes it away. */
void pst_cli_progress(const struct pst_cli *cli, uint32_t done, uint32_t all,
                      const struct pst_compare_record *next);

/*
 * Tries every combination of the sets in their order, until the last or a signal, which leaves the
 * others open and is no error. Then says of those that do not fit with how much memory they would,
 * of as many as pst_trial_advise allows. result: zeroed but for `run`; finish it in
 * any case. each (may be NULL) sees every record once it is tried.
 */
struct pst_cli_trials {
    struct pst_trial_options options;
    pst_status (*each)(void *context, const struct pst_compare_result *result, uint32_t i,
                       struct pst_error *err);
    void *context;
    bool last_resort; /* what would do is said only if nothing fits, and of the smallest sizes */
};
pst_status pst_cli_try_all(const struct pst_cli *cli, const struct pst_cli_sets *sets,
                           const struct pst_cli_trials *trials, struct pst_compare_result *result,
                           struct pst_error *err);
void pst_cli_trials_finish(struct pst_compare_result *result);

/* Answers with the table or the records. */
pst_status pst_cli_answer_trials(const struct pst_cli *cli, const struct pst_compare_result *result,
                                 struct pst_error *err);

/* What the exit code says once the results are out: 1 where nothing is done, 3 where a plugin
   misbehaved, that of a signal. */
int pst_cli_trials_code(const struct pst_compare_result *result);

#endif
