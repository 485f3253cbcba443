/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/combinations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "commands/terminal.h"
#include "measure/others.h"
#include "planner/planner.h"
#include "session/degrees.h"
#include "tune/trials.h"
#include "tune/baseline.h"

/* Returns the largest micro-batch that is compared. */
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

/* Of these a model's operators are. */
struct form {
    uint32_t slices, parts;
    bool sequence;
};

static bool is_new(const struct form *forms, uint32_t n, const struct form *form)
{
    for (uint32_t i = 0; i < n; i++) {
        if (forms[i].slices == form->slices && forms[i].parts == form->parts &&
            forms[i].sequence == form->sequence) {
            return false;
        }
    }
    return true;
}

static struct form form_of(const struct pst_job *job)
{
    return (struct form){pst_job_slices(job),
                         pst_degrees_are_chosen(job) ? 0 : job->parallel.tensors[0],
                         job->parallel.sequence};
}

/* Operators of slices of sequences are others, of whole sequences where the config has slices, and
   of other parts, so each form is measured, too, and bounds the step; forms[0 ... *n - 1] were, and
   there may be one more. The trial says what is wrong with a combination. */
static void calibrate_form(struct pst_cli *cli, struct pst_cli_set *set, uint32_t i,
                           struct form *forms, uint32_t *n)
{
    char *text = pst_combination_config(&set->combinations, i, 0, 0);
    struct pst_config *config = NULL;
    struct pst_job job = {.config = NULL};
    struct pst_session *session = NULL;
    struct pst_error ignored = {0};
    struct form form = {0};
    pst_status status = pst_config_from_json(text, &config, &ignored);

    PST_TRY(status, pst_job_read(config, &job, &ignored));
    if (status == PST_OK) {
        form = form_of(&job);
    }
    if (status == PST_OK && is_new(forms, *n, &form) &&
        pst_session_create_for_planning(&job, &session, &ignored) == PST_OK) {
        pst_cli_must(cli, pst_cli_calibrate(cli, session, largest_size(set), &cli->err));
        if (*n == 0) {
            pst_bound_find(session, &set->bound);
        } else {
            pst_bound_lower(session, &set->bound);
        }
        forms[(*n)++] = form;
    }
    pst_session_destroy(session);
    pst_job_finish(&job);
    pst_config_destroy(config);
    free(text);
}

/* From one value of an axis to the next. */
static uint32_t stride_of(const struct pst_combinations *set, enum pst_axis_kind axis)
{
    uint32_t stride = 1;

    for (uint32_t a = axis + 1; a < PST_AXES; a++) {
        stride *= pst_combinations_factor(set, a);
    }
    return stride;
}

/* Every scheduler, or method, with every number of parts, with and without rows of tokens; the
   numbers divide some numbers of devices. own: the form of the config itself was measured. */
static void calibrate_forms(struct pst_cli *cli, struct pst_cli_set *set, bool own)
{
    const struct pst_combinations *of = &set->combinations;
    const uint32_t n_schedulers = of->axes[PST_AXIS_SCHEDULER].n;
    const uint32_t n_devices = of->axes[PST_AXIS_DEVICES].n,
                   n_degrees = stride_of(of, PST_AXIS_TENSOR - 1);
    struct form *forms = pst_alloc((size_t)n_schedulers * n_degrees + 1, sizeof *forms);
    uint32_t n = 0;

    if (own) {
        forms[n++] = form_of(&set->job.job);
    }
    for (uint32_t k = 0; k < n_schedulers * n_degrees; k++) {
        const uint32_t i = k / n_degrees * stride_of(of, PST_AXIS_SCHEDULER) + k % n_degrees;

        for (uint32_t d = 0; d < (n_degrees > 1 ? n_devices : 1); d++) {
            calibrate_form(cli, set, i + d * stride_of(of, PST_AXIS_DEVICES), forms, &n);
        }
    }
    free(forms);
}

static bool chooses_degrees(const struct pst_combinations *of, uint32_t i)
{
    char *text = pst_combination_config(of, i, 0, 0);
    struct pst_config *config = NULL;
    struct pst_job job = {.config = NULL};
    struct pst_error ignored = {0};
    pst_status status = pst_config_from_json(text, &config, &ignored);
    bool chooses;

    PST_TRY(status, pst_job_read(config, &job, &ignored));
    chooses = status == PST_OK && pst_degrees_are_chosen(&job);
    pst_job_finish(&job);
    pst_config_destroy(config);
    free(text);
    return chooses;
}

/* Does a combination have a list of degrees, and a partitioner that chooses of it? */
static bool any_chooses(const struct pst_cli_set *set)
{
    const struct pst_axis *tensors = &set->combinations.axes[PST_AXIS_TENSOR];
    bool has_list = set->job.job.parallel.n_tensors > 1, chooses = false;

    for (uint32_t k = 0; k < tensors->n; k++) {
        has_list = has_list || json_is_string(tensors->values[k].value);
    }
    for (uint32_t i = 0; has_list && i < set->combinations.n && !chooses; i++) {
        chooses = chooses_degrees(&set->combinations, i);
    }
    return chooses;
}

/* Times that are measured cannot be compared with those that [cluster] describes, which is all that
   there is where degrees are chosen. */
static void describe_all(const struct pst_cli_sets *sets)
{
    bool chooses = false;

    for (uint32_t i = 0; i < sets->n; i++) {
        chooses = chooses || any_chooses(&sets->sets[i]);
    }
    if (chooses && getenv("PENSTOCK_NO_PROFILE") == NULL) {
        pst_log(PST_LOG_WARN, "profile",
                "all times are those that [cluster] describes: where a partitioner chooses of a "
                "list of parallel.tensor, operators are not measured");
        setenv("PENSTOCK_NO_PROFILE", "1", 1); /* for processes apart, too */
    }
}

/* Reports an error of the config once, at its position, if all combinations have it. Measures the
   operators once. */
static void check_base(struct pst_cli *cli, struct pst_cli_set *set)
{
    struct pst_session *session = NULL;
    struct pst_trial trial = {.state = PST_TRIAL_OPEN};
    pst_status status = pst_session_create_for_planning(&set->job.job, &session, &cli->err);

    if (status == PST_OK) {
        pst_cli_must(cli, pst_cli_calibrate(cli, session, largest_size(set), &cli->err));
        pst_bound_find(session, &set->bound);
        calibrate_forms(cli, set, true);
    }
    pst_session_destroy(session);
    if (status != PST_OK) {
        const struct pst_trial_options options = {.cancelled = pst_stop_requested};
        char *config = pst_combination_config(&set->combinations, 0, 0, 0);

        pst_trial_run(config, &options, &trial, &trial.why);
        free(config);
        if (strcmp(trial.why.message, cli->err.message) == 0) {
            pst_cli_must(cli, status); /* else it is of what the combinations put in its place */
        }
        pst_trial_finish(&trial);
        calibrate_forms(cli, set, false);
    }
}

void pst_cli_sets_open(struct pst_cli *cli,
                       pst_status (*read)(const struct pst_job *job,
                                          struct pst_combinations *ret_set, struct pst_error *err),
                       struct pst_cli_sets *ret_sets)
{
    *ret_sets = (struct pst_cli_sets){.n = cli->n_arguments,
                                      .sets = pst_alloc(cli->n_arguments, sizeof *ret_sets->sets)};
    for (uint32_t i = 0; i < ret_sets->n; i++) {
        struct pst_cli_set *set = &ret_sets->sets[i];

        pst_cli_job_open(cli, cli->arguments[i], &set->job);
        pst_cli_must(cli, read(&set->job.job, &set->combinations, &cli->err));
    }
    describe_all(ret_sets);
    for (uint32_t i = 0; i < ret_sets->n; i++) {
        check_base(cli, &ret_sets->sets[i]);
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

void pst_cli_progress_text(const struct pst_cli *cli, uint32_t done, uint32_t all, const char *text)
{
    char line[512];
    uint32_t width = pst_terminal_width();
    uint32_t filled = all == 0 ? 0 : (uint32_t)((uint64_t)20 * done / all);

    if (cli->verbosity < 0 || isatty(STDERR_FILENO) != 1) {
        return;
    }
    if (text == NULL) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
        return;
    }
    snprintf(line, sizeof line, "[%.*s%*s] %u of %u: %s", (int)filled, "####################",
             (int)(20 - filled), "", done, all, text);
    fputs("\r\033[K", stderr);
    pst_text_printf(stderr, "%.*s", (int)(width > 1 ? width - 1 : 79), line);
    fflush(stderr);
}

void pst_cli_progress(const struct pst_cli *cli, uint32_t done, uint32_t all,
                      const struct pst_record *next)
{
    char text[512];

    if (next == NULL) {
        pst_cli_progress_text(cli, done, all, NULL);
        return;
    }
    snprintf(text, sizeof text, "%s, %s, %s, %s devices, micro-batch %s",
             next->labels[PST_AXIS_PARTITIONER], next->labels[PST_AXIS_SCHEDULER],
             next->labels[PST_AXIS_MEMOPT], next->labels[PST_AXIS_DEVICES],
             next->labels[PST_AXIS_MICROBATCH]);
    pst_cli_progress_text(cli, done, all, text);
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

const struct pst_cli_set *pst_cli_set_of(const struct pst_cli_sets *sets, uint32_t number,
                                         uint32_t *ret_i)
{
    const struct pst_cli_set *set = sets->sets;

    while (number >= set->combinations.n) {
        number -= set->combinations.n;
        set++;
    }
    *ret_i = number;
    return set;
}

char *pst_cli_config(const struct pst_cli_sets *sets, uint32_t number)
{
    uint32_t i;
    const struct pst_cli_set *set = pst_cli_set_of(sets, number, &i);

    return pst_combination_config(&set->combinations, i, 0, 0);
}

void pst_cli_record_name(const struct pst_cli_sets *sets, uint32_t number,
                         struct pst_record *ret_record)
{
    uint32_t i;
    const struct pst_combinations *set = &pst_cli_set_of(sets, number, &i)->combinations;

    *ret_record = (struct pst_record){.combination = number, .config = set->path};
    ret_record->method = pst_combination_method(set, i);
    ret_record->undivided = pst_combination_undivided(set, i);
    for (enum pst_axis_kind a = 0; a < PST_AXES; a++) {
        ret_record->labels[a] = pst_combination_label(set, i, a);
    }
}

void pst_cli_records(const struct pst_cli_sets *sets, struct pst_compare_result *result)
{
    result->n = 0;
    result->n_configs = sets->n;
    for (uint32_t s = 0; s < sets->n; s++) {
        result->n += sets->sets[s].combinations.n;
    }
    result->records = pst_alloc(result->n, sizeof *result->records);
    for (uint32_t at = 0; at < result->n; at++) {
        pst_cli_record_name(sets, at, &result->records[at]);
    }
}

void pst_cli_visit_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                       struct pst_compare_result *result, pst_cli_visitor *visit, void *context)
{
    struct pst_cli_visit to = {.cli = cli, .result = result};
    pst_status status = PST_OK;

    for (; to.at < result->n && status == PST_OK && !pst_stop_requested(); to.at++) {
        to.record = &result->records[to.at];
        to.set = pst_cli_set_of(sets, to.record->combination, &to.i);
        status = visit(context, &to, &cli->err);
    }
    pst_cli_progress(cli, 0, 0, NULL);
    pst_cli_must(cli, status == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : status);
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

/* As it was asked for. */
static bool is_one_good(const struct pst_compare_result *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        if (pst_goal_score(&result->goal, &result->records[i].trial).state == PST_SCORE_GOOD) {
            return true;
        }
    }
    return false;
}

/* Below what was printed. */
static void tell_stopped(struct pst_cli *cli)
{
    if (pst_stop_requested() && cli->verbosity >= 0) {
        pst_stop_fail(&cli->err);
        fflush(stdout);
        pst_text_printf(stderr, "penstock: %s; the results so far are above\n", cli->err.message);
    }
}

void pst_cli_answer_records(struct pst_cli *cli, struct pst_compare_result *result)
{
    bool misbehaved = false;

    if (cli->json) {
        pst_compare_report_json(result, &cli->answer);
    } else {
        pst_compare_report_print(result, cli->color, stdout);
        tell_stopped(cli);
    }
    for (uint32_t i = 0; i < result->n; i++) {
        misbehaved |= pst_record_misdeed(&result->records[i]) != NULL;
    }
    cli->code = pst_stop_requested() ? 128 + pst_stop_signal()
                : misbehaved         ? 3
                                     : !is_one_good(result);
    for (uint32_t i = 0; i < result->n; i++) {
        pst_record_finish(&result->records[i]);
    }
    free(result->records);
}

/* --- trials ------------------------------------------------------------------------------------*/

/* The context of the callbacks of pst_trials_run. */
struct trying {
    struct pst_cli *cli;
    const struct pst_cli_sets *sets;
    struct pst_cli_trials *trials;
    struct pst_compare_result *result;
};

static char *config_of(void *context, uint32_t at)
{
    const struct trying *trying = context;

    return pst_cli_config(trying->sets, trying->result->records[at].combination);
}

static void show_begun(void *context, uint32_t i, uint32_t n_done)
{
    const struct trying *trying = context;

    pst_cli_progress(trying->cli, n_done, trying->result->n, &trying->result->records[i]);
}

static pst_status keep_trial(void *context, uint32_t i, const struct pst_trial *trial,
                             struct pst_error *err)
{
    const struct trying *trying = context;

    trying->result->records[i].trial = *trial;
    return trying->trials->each(trying->trials->context, trying->result, i, err);
}

static void plan_all(struct trying *trying)
{
    const struct pst_trials trials = {
        .n = trying->result->n,
        .n_jobs = trying->trials->n_jobs == 0 ? pst_usable_cores() : trying->trials->n_jobs,
        .options = trying->trials->options,
        .context = trying,
        .config = config_of,
        .begun = show_begun,
        .each = keep_trial,
    };
    pst_status status = pst_trials_run(&trials, &trying->cli->err);

    pst_cli_progress(trying->cli, 0, 0, NULL);
    pst_cli_must(trying->cli,
                 status == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : status);
}

/* Finds the memory that a combination needs, if it does not fit. */
static pst_status advise_record(void *context, const struct pst_cli_visit *visit,
                                struct pst_error *err)
{
    struct pst_cli_trials *trials = context;
    struct pst_trial *trial = &visit->record->trial;
    pst_status status;
    char *config;

    if (!pst_trial_was_refused(trial) ||
        (trials->last_resort && !has_smallest_size(visit->set, visit->i))) {
        return PST_OK;
    }
    pst_cli_progress(visit->cli, visit->at, visit->result->n, visit->record);
    config = pst_combination_config(&visit->set->combinations, visit->i, 0, 0);
    status = pst_trial_advise(config, &trials->options, &trials->n_advised, trial, err);
    free(config);
    return status == PST_OK && trial->state == PST_TRIAL_DONE
               ? trials->each(trials->context, visit->result, visit->at, err)
               : status;
}

void pst_cli_advise(struct pst_cli *cli, const struct pst_cli_sets *sets,
                    struct pst_cli_trials *trials, struct pst_compare_result *result)
{
    if (!trials->last_resort || !is_one_done(result)) {
        trials->n_advised = pst_trial_n_advised(is_one_done(result));
        pst_cli_visit_all(cli, sets, result, advise_record, trials);
    }
}

/* Every round begins with another record, and every other one goes the other way round: what
   changes in the course of a round, such as the clock of the processor, meets all. */
static uint32_t turn_of(uint32_t turn, uint32_t round, const struct pst_cli_trials *trials,
                        uint32_t n)
{
    uint32_t at = (turn + (uint32_t)((uint64_t)round * n / trials->n_rounds)) % n;

    return round % 2 == 0 ? at : n - 1 - at;
}

void pst_cli_run_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                     struct pst_cli_trials *trials, struct pst_compare_result *result)
{
    struct trying trying = {cli, sets, trials, result};
    const uint64_t all = (uint64_t)trials->n_rounds * result->n;
    struct pst_others others;
    pst_status status = PST_OK;

    pst_others_begin(&others);
    for (uint64_t at = 0; at < all && status == PST_OK && !pst_stop_requested(); at++) {
        const uint32_t round = (uint32_t)(at / result->n);
        const uint32_t i = turn_of((uint32_t)(at % result->n), round, trials, result->n);
        struct pst_trial *trial = &result->records[i].trial;

        if (trial->state == PST_TRIAL_DONE && trial->n_rounds == round) {
            char *config = config_of(&trying, i);

            pst_cli_progress(cli, (uint32_t)at, (uint32_t)all, &result->records[i]);
            status = pst_trial_measure(config, trials->n_steps, trial, &cli->err);
            free(config);
        }
    }
    pst_cli_progress(cli, 0, 0, NULL);
    result->provenance.others = pst_others_share(&others);
    for (uint32_t i = 0; i < result->n; i++) { /* planned, and not run any more */
        struct pst_trial *trial = &result->records[i].trial;

        trial->state =
            trial->state == PST_TRIAL_DONE && !trial->ran ? PST_TRIAL_OPEN : trial->state;
    }
    pst_cli_must(cli, status == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : status);
}

void pst_cli_try_all(struct pst_cli *cli, const struct pst_cli_sets *sets,
                     struct pst_cli_trials *trials, struct pst_compare_result *result)
{
    struct trying trying = {cli, sets, trials, result};

    trials->options.cancelled = pst_stop_requested;
    trials->options.keep_plan |= trials->n_rounds > 0;
    plan_all(&trying);
    pst_cli_advise(cli, sets, trials, result);
    if (trials->n_rounds > 0) {
        pst_cli_run_all(cli, sets, trials, result);
    }
    pst_versus_all(result->records, result->n, trials->baseline);
}
