/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/combinations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "commands/terminal.h"
#include "train/session.h"
#include "train/stop.h"

/* advice NULL: a first try; else one that does not fit, again for what would do. */
static pst_status try_one(const struct pst_cli_set *set, uint32_t i,
                          const struct pst_trial_options *options, struct pst_trial_advice *advice,
                          struct pst_trial *trial, struct pst_error *err)
{
    struct pst_trial_options with_stop = *options;
    char *config = pst_combination_config(&set->combinations, i, 0, 0);
    pst_status st;

    with_stop.cancelled = pst_stop_requested;
    st = config == NULL   ? pst_fail_nomem(err)
         : advice == NULL ? pst_trial_run(config, &with_stop, trial, err)
                          : pst_trial_advise(config, &with_stop, advice, trial, err);
    free(config);
    return st;
}

/* What is wrong with the config whatever is compared is said once, and where it stands. */
static pst_status check_base(const struct pst_cli_set *set, struct pst_error *err)
{
    struct pst_session *session = NULL;
    struct pst_trial trial;
    struct pst_error why = {.status = PST_OK}, unused;
    pst_status st = pst_session_create_for_planning(&set->job.job, &session, &why);
    bool same = false;

    pst_session_destroy(session);
    if (st == PST_OK) {
        return PST_OK;
    }
    if (try_one(set, 0, &(struct pst_trial_options){.keep_plan = false}, NULL, &trial, &unused) ==
        PST_OK) {
        same = strcmp(trial.why.message, why.message) == 0;
        pst_trial_finish(&trial);
    } else {
        same = strcmp(unused.message, why.message) == 0;
    }
    if (!same) {
        return PST_OK; /* of what the combinations put in its place */
    }
    *err = why;
    return st;
}

pst_status pst_cli_sets_open(const struct pst_cli *cli, struct pst_cli_sets *ret_sets,
                             struct pst_error *err)
{
    struct pst_cli_sets sets = {.sets = pst_alloc(cli->n_arguments, sizeof *sets.sets)};
    pst_status st = PST_OK;

    while (st == PST_OK && sets.n < cli->n_arguments) {
        struct pst_cli_set *set = &sets.sets[sets.n];

        st = pst_cli_job_open(cli->arguments[sets.n], cli, &set->job, err);
        if (st == PST_OK) {
            st = pst_combinations_read(&set->job.job, &set->combinations, err);
            sets.n++;
            sets.n_combinations += st == PST_OK ? set->combinations.n : 0;
            st = st == PST_OK ? check_base(set, err) : st;
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

static bool has_smallest_size(const struct pst_cli_set *set, uint32_t i)
{
    const struct pst_axis *sizes = &set->combinations.axes[PST_AXIS_MICROBATCH];
    const char *label = pst_combination_label(&set->combinations, i, PST_AXIS_MICROBATCH);

    for (uint32_t k = 0; k < sizes->n; k++) {
        if (strtoul(sizes->values[k].label, NULL, 10) < strtoul(label, NULL, 10)) {
            return false;
        }
    }
    return true;
}

static bool is_one_done(const struct pst_compare_result *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        if (result->records[i].trial.state == PST_TRIAL_DONE) {
            return true;
        }
    }
    return false;
}

/* What would do, of what does not fit. */
static pst_status advise_all(const struct pst_cli *cli, const struct pst_cli_sets *sets,
                             const struct pst_cli_trials *trials, struct pst_compare_result *result,
                             struct pst_error *err)
{
    struct pst_trial_advice advice;
    pst_status st = PST_OK;
    uint32_t at = 0;

    if (trials->last_resort && is_one_done(result)) {
        return PST_OK;
    }
    pst_trial_advice_init(&advice);
    for (uint32_t s = 0; s < sets->n; s++) {
        const struct pst_cli_set *set = &sets->sets[s];

        for (uint32_t i = 0; i < set->combinations.n; i++, at++) {
            struct pst_compare_record *record = &result->records[at];

            if (st != PST_OK || pst_stop_requested() || !pst_trial_was_refused(&record->trial) ||
                (trials->last_resort && !has_smallest_size(set, i))) {
                continue;
            }
            pst_cli_progress(cli, at, result->n, record);
            st = try_one(set, i, &trials->options, &advice, &record->trial, err);
            if (st == PST_OK && record->trial.state == PST_TRIAL_DONE && trials->each != NULL) {
                st = trials->each(trials->context, result, at, err);
            }
        }
    }
    return st;
}

pst_status pst_cli_try_all(const struct pst_cli *cli, const struct pst_cli_sets *sets,
                           const struct pst_cli_trials *trials, struct pst_compare_result *result,
                           struct pst_error *err)
{
    pst_status st = PST_OK;
    uint32_t at = 0;

    result->records = pst_alloc(sets->n_combinations, sizeof *result->records);
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
            st = try_one(&sets->sets[s], i, &trials->options, NULL, &record->trial, err);
            if (st == PST_OK && trials->each != NULL) {
                st = trials->each(trials->context, result, at, err);
            }
        }
    }
    if (st == PST_OK && !pst_stop_requested()) {
        st = advise_all(cli, sets, trials, result, err);
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
    if (cli->json) {
        return pst_cli_print_json(pst_compare_report_json(result), err);
    }
    pst_compare_report_print(result, cli->color, stdout);
    return PST_OK;
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
