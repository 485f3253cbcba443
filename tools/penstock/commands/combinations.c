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
    st = advice == NULL ? pst_trial_run(config, &with_stop, trial, err)
                        : pst_trial_advise(config, &with_stop, advice, trial, err);
    free(config);
    return st;
}

/* Of the largest micro-batch that is compared. */
static uint32_t largest_size(const struct pst_cli_set *set)
{
    const struct pst_axis *sizes = &set->combinations.axes[PST_AXIS_MICROBATCH];
    unsigned long most = 1;

    for (uint32_t k = 0; k < sizes->n; k++) {
        unsigned long size = strtoul(sizes->values[k].label, NULL, 10);

        most = size > most ? size : most;
    }
    return (uint32_t)most;
}

/* What is wrong with the config whatever is compared is said once, and where it stands. What its
   operators take is measured once. */
static void check_base(struct pst_cli *cli, const struct pst_cli_set *set)
{
    struct pst_session *session = NULL;
    struct pst_trial trial = {.state = PST_TRIAL_OPEN};
    pst_status st = pst_session_create_for_planning(&set->job.job, &session, &cli->err);

    if (st == PST_OK) {
        pst_cli_must(cli, pst_cli_calibrate(cli, session, largest_size(set), &cli->err));
    }
    pst_session_destroy(session);
    if (st != PST_OK) {
        try_one(set, 0, &(struct pst_trial_options){.keep_plan = false}, NULL, &trial, &trial.why);
        if (strcmp(trial.why.message, cli->err.message) == 0) {
            pst_cli_must(cli, st); /* else it is of what the combinations put in its place */
        }
        pst_trial_finish(&trial);
    }
}

void pst_cli_sets_open(struct pst_cli *cli, struct pst_cli_sets *ret_sets)
{
    *ret_sets = (struct pst_cli_sets){.n = cli->n_arguments,
                                      .sets = pst_alloc(cli->n_arguments, sizeof *ret_sets->sets)};
    for (uint32_t i = 0; i < ret_sets->n; i++) {
        struct pst_cli_set *set = &ret_sets->sets[i];

        pst_cli_job_open(cli, cli->arguments[i], &set->job);
        pst_cli_must(cli, pst_combinations_read(&set->job.job, &set->combinations, &cli->err));
        check_base(cli, set);
    }
}

void pst_cli_sets_close(struct pst_cli_sets *sets)
{
    for (uint32_t i = 0; i < sets->n; i++) {
        pst_combinations_finish(&sets->sets[i].combinations);
        pst_cli_job_close(&sets->sets[i].job);
    }
    free(sets->sets);
}

void pst_cli_progress(const struct pst_cli *cli, uint32_t done, uint32_t all,
                      const struct pst_record *next)
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

/* --- records -----------------------------------------------------------------------------------*/

void pst_cli_records(const struct pst_cli_sets *sets, struct pst_compare_result *result)
{
    uint32_t at = 0;

    result->n = 0;
    result->n_configs = sets->n;
    for (uint32_t s = 0; s < sets->n; s++) {
        result->n += sets->sets[s].combinations.n;
    }
    result->records = pst_alloc(result->n, sizeof *result->records);
    for (uint32_t s = 0; s < sets->n; s++) {
        const struct pst_combinations *set = &sets->sets[s].combinations;

        for (uint32_t i = 0; i < set->n; i++) {
            struct pst_record *record = &result->records[at++];

            record->config = set->path;
            record->method = pst_combination_method(set, i);
            for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
                record->labels[a] = pst_combination_label(set, i, a);
            }
        }
    }
}

void pst_cli_visit_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                       struct pst_compare_result *result, pst_cli_visitor *visit, void *context)
{
    struct pst_cli_visit to = {.cli = cli, .set = sets->sets, .result = result};
    pst_status st = PST_OK;

    for (; to.at < result->n && st == PST_OK && !pst_stop_requested(); to.at++, to.i++) {
        if (to.i == to.set->combinations.n) {
            to.set++;
            to.i = 0;
        }
        to.record = &result->records[to.at];
        st = visit(context, &to, &cli->err);
    }
    pst_cli_progress(cli, 0, 0, NULL);
    pst_cli_must(cli, st == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : st);
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

void pst_cli_answer_records(struct pst_cli *cli, struct pst_compare_result *result)
{
    bool misbehaved = false;

    if (cli->json) {
        pst_compare_report_json(result, &cli->answer);
    } else {
        pst_compare_report_print(result, cli->color, stdout);
    }
    for (uint32_t i = 0; i < result->n; i++) {
        misbehaved |= pst_record_misdeed(&result->records[i]) != NULL;
    }
    cli->code = pst_stop_requested() ? 128 + pst_stop_signal()
                : misbehaved         ? 3
                                     : !is_one_done(result);
    for (uint32_t i = 0; i < result->n; i++) {
        pst_record_finish(&result->records[i]);
    }
    free(result->records);
}

/* --- trials ------------------------------------------------------------------------------------*/

static pst_status try_record(void *context, const struct pst_cli_visit *visit,
                             struct pst_error *err)
{
    const struct pst_cli_trials *trials = context;
    pst_status st;

    pst_cli_progress(visit->cli, visit->at, visit->result->n, visit->record);
    st = try_one(visit->set, visit->i, &trials->options, NULL, &visit->record->trial, err);
    return st == PST_OK ? trials->each(trials->context, visit->result, visit->at, err) : st;
}

/* What would do, of what does not fit. */
static pst_status advise_record(void *context, const struct pst_cli_visit *visit,
                                struct pst_error *err)
{
    struct pst_cli_trials *trials = context;
    struct pst_trial *trial = &visit->record->trial;
    pst_status st;

    if (!pst_trial_was_refused(trial) ||
        (trials->last_resort && !has_smallest_size(visit->set, visit->i))) {
        return PST_OK;
    }
    pst_cli_progress(visit->cli, visit->at, visit->result->n, visit->record);
    st = try_one(visit->set, visit->i, &trials->options, &trials->advice, trial, err);
    return st == PST_OK && trial->state == PST_TRIAL_DONE
               ? trials->each(trials->context, visit->result, visit->at, err)
               : st;
}

void pst_cli_try_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                     struct pst_cli_trials *trials, struct pst_compare_result *result)
{
    pst_cli_records(sets, result);
    pst_cli_visit_all(cli, sets, result, try_record, trials);
    if (!trials->last_resort || !is_one_done(result)) {
        pst_trial_advice_init(&trials->advice);
        pst_cli_visit_all(cli, sets, result, advise_record, trials);
    }
}
