/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/combinations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "train/stop.h"

pst_status pst_cli_sets_open(const struct pst_cli *cli, struct pst_cli_sets *ret_sets,
                             struct pst_error *err)
{
    struct pst_cli_sets sets = {.sets = calloc(cli->n_arguments, sizeof *sets.sets)};
    pst_status st = sets.sets == NULL ? pst_fail_nomem(err) : PST_OK;

    while (st == PST_OK && sets.n < cli->n_arguments) {
        struct pst_cli_set *set = &sets.sets[sets.n];

        st = pst_cli_job_open(cli->arguments[sets.n], cli, &set->job, err);
        if (st == PST_OK) {
            st = pst_combinations_read(&set->job.job, &set->combinations, err);
            sets.n++;
            sets.n_combinations += st == PST_OK ? set->combinations.n : 0;
        }
    }
    if (st != PST_OK) {
        pst_cli_sets_close(&sets);
        return st;
    }
    *ret_sets = sets;
    return PST_OK;
}

void pst_cli_sets_close(struct pst_cli_sets *sets)
{
    for (uint32_t i = 0; i < sets->n; i++) {
        pst_combinations_finish(&sets->sets[i].combinations);
        pst_cli_job_close(&sets->sets[i].job);
    }
    free(sets->sets);
    memset(sets, 0, sizeof *sets);
}

void pst_cli_record(const struct pst_cli_set *set, uint32_t i, struct pst_compare_record *record)
{
    record->config = set->combinations.path;
    record->method = pst_combination_method(&set->combinations, i);
    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        record->labels[a] = pst_combination_label(&set->combinations, i, a);
    }
}

void pst_cli_progress(const struct pst_cli *cli, uint32_t done, uint32_t all,
                      const struct pst_compare_record *next)
{
    char text[512];
    uint32_t width = pst_terminal_width();
    uint32_t filled = all == 0 ? 0 : (uint32_t)((uint64_t)20 * done / all);

    if (cli->verbosity < 0 || isatty(STDERR_FILENO) != 1) {
        return;
    }
    if (next == NULL) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
        return;
    }
    snprintf(text, sizeof text, "[%.*s%*s] %u of %u: %s, %s, %s, %s devices, micro-batch %s",
             (int)filled, "####################", (int)(20 - filled), "", done, all,
             next->labels[PST_AXIS_PARTITIONER], next->labels[PST_AXIS_SCHEDULER],
             next->labels[PST_AXIS_MEMOPT], next->labels[PST_AXIS_DEVICES],
             next->labels[PST_AXIS_MICROBATCH]);
    fprintf(stderr, "\r\033[K%.*s", (int)(width > 1 ? width - 1 : 79), text);
    fflush(stderr);
}

static pst_status try_one(const struct pst_cli_set *set, uint32_t i,
                          const struct pst_trial_options *options, struct pst_trial *ret_trial,
                          struct pst_error *err)
{
    struct pst_trial_options with_stop = *options;
    char *config = pst_combination_config(&set->combinations, i, 0, 0);
    pst_status st;

    with_stop.cancelled = pst_stop_requested;
    st = config == NULL ? pst_fail_nomem(err) : pst_trial_run(config, &with_stop, ret_trial, err);
    free(config);
    return st;
}

pst_status pst_cli_try_all(const struct pst_cli *cli, const struct pst_cli_sets *sets,
                           const struct pst_cli_trials *trials, struct pst_compare_result *result,
                           struct pst_error *err)
{
    pst_status st = PST_OK;
    uint32_t at = 0;

    result->records = calloc(sets->n_combinations, sizeof *result->records);
    if (result->records == NULL) {
        return pst_fail_nomem(err);
    }
    result->n = sets->n_combinations;
    result->n_configs = sets->n;
    for (uint32_t s = 0; s < sets->n; s++) {
        for (uint32_t i = 0; i < sets->sets[s].combinations.n; i++, at++) {
            struct pst_compare_record *record = &result->records[at];

            pst_cli_record(&sets->sets[s], i, record);
            if (st != PST_OK || pst_stop_requested()) {
                continue;
            }
            pst_cli_progress(cli, at, result->n, record);
            st = try_one(&sets->sets[s], i, &trials->options, &record->trial, err);
            if (st == PST_OK && trials->each != NULL) {
                st = trials->each(trials->context, result, at, err);
            }
        }
    }
    pst_cli_progress(cli, at, result->n, NULL);
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : st;
}

void pst_cli_trials_finish(struct pst_compare_result *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        pst_trial_finish(&result->records[i].trial);
    }
    free(result->records);
    memset(result, 0, sizeof *result);
}

pst_status pst_cli_answer_trials(const struct pst_cli *cli, const struct pst_compare_result *result,
                                 struct pst_error *err)
{
    return cli->json ? pst_cli_print_json(pst_compare_report_json(result), err)
                     : pst_compare_report_print(result, cli->color, stdout, err);
}

int pst_cli_trials_code(const struct pst_compare_result *result)
{
    uint32_t n_done = 0;
    bool misbehaved = false;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_trial *trial = &result->records[i].trial;

        n_done += trial->state == PST_TRIAL_DONE;
        misbehaved |= trial->state == PST_TRIAL_FAILED && pst_error_exit_code(&trial->why) == 3;
    }
    if (pst_stop_requested()) {
        return 128 + pst_stop_signal();
    }
    return misbehaved ? 3 : n_done == 0;
}
