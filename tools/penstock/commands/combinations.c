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

/* What is wrong with the config whatever is compared is said once, and where it stands. */
static void check_base(struct pst_cli *cli, const struct pst_cli_set *set)
{
    struct pst_session *session = NULL;
    struct pst_trial trial = {.state = PST_TRIAL_OPEN};
    pst_status st = pst_session_create_for_planning(&set->job.job, &session, &cli->err);

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

uint32_t pst_cli_sets_count(const struct pst_cli_sets *sets)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < sets->n; i++) {
        n += sets->sets[i].combinations.n;
    }
    return n;
}

const struct pst_cli_set *pst_cli_sets_at(const struct pst_cli_sets *sets, uint32_t at,
                                          uint32_t *ret_i)
{
    const struct pst_cli_set *set = sets->sets;

    while (at >= set->combinations.n) {
        at -= set->combinations.n;
        set++;
    }
    *ret_i = at;
    return set;
}

void pst_cli_name(const struct pst_cli_sets *sets, uint32_t at, struct pst_compare_record *record)
{
    uint32_t i;
    const struct pst_combinations *combinations = &pst_cli_sets_at(sets, at, &i)->combinations;

    record->config = combinations->path;
    record->method = pst_combination_method(combinations, i);
    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        record->labels[a] = pst_combination_label(combinations, i, a);
    }
}

void pst_cli_sets_ended(struct pst_cli *cli, pst_status st)
{
    pst_cli_progress(cli, 0, 0, NULL);
    pst_cli_must(cli, st == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : st);
}

int pst_cli_sets_code(bool misbehaved, bool any)
{
    return pst_stop_requested() ? 128 + pst_stop_signal() : misbehaved ? 3 : !any;
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

    if (trials->last_resort && is_one_done(result)) {
        return PST_OK;
    }
    pst_trial_advice_init(&advice);
    for (uint32_t at = 0; at < result->n && st == PST_OK && !pst_stop_requested(); at++) {
        uint32_t i;
        const struct pst_cli_set *set = pst_cli_sets_at(sets, at, &i);
        struct pst_compare_record *record = &result->records[at];

        if (!pst_trial_was_refused(&record->trial) ||
            (trials->last_resort && !has_smallest_size(set, i))) {
            continue;
        }
        pst_cli_progress(cli, at, result->n, record);
        st = try_one(set, i, &trials->options, &advice, &record->trial, err);
        if (st == PST_OK && record->trial.state == PST_TRIAL_DONE) {
            st = trials->each(trials->context, result, at, err);
        }
    }
    return st;
}

void pst_cli_try_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                     const struct pst_cli_trials *trials, struct pst_compare_result *result)
{
    pst_status st = PST_OK;

    result->n = pst_cli_sets_count(sets);
    result->n_configs = sets->n;
    result->records = pst_alloc(result->n, sizeof *result->records);
    for (uint32_t at = 0; at < result->n; at++) {
        pst_cli_name(sets, at, &result->records[at]);
    }
    for (uint32_t at = 0; at < result->n && st == PST_OK && !pst_stop_requested(); at++) {
        struct pst_compare_record *record = &result->records[at];
        uint32_t i;
        const struct pst_cli_set *set = pst_cli_sets_at(sets, at, &i);

        pst_cli_progress(cli, at, result->n, record);
        st = try_one(set, i, &trials->options, NULL, &record->trial, &cli->err);
        if (st == PST_OK) {
            st = trials->each(trials->context, result, at, &cli->err);
        }
    }
    if (st == PST_OK && !pst_stop_requested()) {
        st = advise_all(cli, sets, trials, result, &cli->err);
    }
    pst_cli_sets_ended(cli, st);
}

void pst_cli_trials_end(struct pst_cli *cli, struct pst_compare_result *result)
{
    bool misbehaved = false;

    if (cli->json) {
        pst_compare_report_json(result, &cli->answer);
    } else {
        pst_compare_report_print(result, cli->color, stdout);
    }
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_trial *trial = &result->records[i].trial;

        misbehaved |= trial->state == PST_TRIAL_FAILED && pst_error_exit_code(&trial->why) == 3;
    }
    cli->code = pst_cli_sets_code(misbehaved, is_one_done(result));
    for (uint32_t i = 0; i < result->n; i++) {
        pst_trial_finish(&result->records[i].trial);
    }
    free(result->records);
}
