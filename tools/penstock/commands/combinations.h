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
    uint32_t n;
    struct pst_cli_set *sets; /* one per config of the command line */
};

void pst_cli_sets_open(struct pst_cli *cli, struct pst_cli_sets *ret_sets);
void pst_cli_sets_close(struct pst_cli_sets *sets);

/* The combinations of all sets, one behind the other: how many; whose number `at` is, and which of
   its own; what it is called. */
uint32_t pst_cli_sets_count(const struct pst_cli_sets *sets);
const struct pst_cli_set *pst_cli_sets_at(const struct pst_cli_sets *sets, uint32_t at,
                                          uint32_t *ret_i);
void pst_cli_name(const struct pst_cli_sets *sets, uint32_t at, struct pst_compare_record *record);

/* After trials that ended with st: a signal leaves the others open and is no error. Takes the line
   of the progress away. */
void pst_cli_sets_ended(struct pst_cli *cli, pst_status st);
/* What the exit code says once the results are out: that of a signal, 3 where a plugin misbehaved,
   1 where nothing is done. */
int pst_cli_sets_code(bool misbehaved, bool any);

/* A line on standard error, on a terminal and unless quiet, drawn over the one before; NULL
   takes it away. */
void pst_cli_progress(const struct pst_cli *cli, uint32_t done, uint32_t all,
                      const struct pst_compare_record *next);

/*
 * Tries every combination of the sets in their order, until the last or a signal. Then says of
 * those that do not fit with how much memory they would, of as many as pst_trial_advise allows.
 * result: zeroed but for `run`. each sees every record once it is tried.
 */
struct pst_cli_trials {
    struct pst_trial_options options;
    pst_status (*each)(void *context, const struct pst_compare_result *result, uint32_t i,
                       struct pst_error *err);
    void *context;
    bool last_resort; /* what would do is said only if nothing fits, and of the smallest sizes */
};
void pst_cli_try_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                     const struct pst_cli_trials *trials, struct pst_compare_result *result);

/* Answers with the table or the records; the exit code; frees the result. */
void pst_cli_trials_end(struct pst_cli *cli, struct pst_compare_result *result);

#endif
