/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock tune CONFIG...`: the best combination of strategies, their parameters, micro-batches,
 * devices, replicas and zero.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/util.h"
#include "commands/fill_gallery.h"
#include "commands/print_error.h"
#include "commands/tune_joint.h"
#include "page/page.h"
#include "reports/compare_columns.h"
#include "tune/space.h"
#include "tune/toml_text.h"
#include "tune/baseline.h"

#define LIMIT       65536u
#define LIMIT_MOST  1048576u /* of train.batch */
#define JOBS_MOST   1024u
#define TRIALS      1000u
#define TRIALS_MOST 20000u
#define ROWS        10u /* of tables, unless they are to be wide */
#define TOP         3u  /* combinations that are run */
#define TOP_MOST    20u
#define FINALISTS   4u
#define STEPS       20u
#define ROUNDS      3u

struct request {
    const char *objective_text, *file, *floor_text, *time_text, *seed_text, *resume, *report;
    uint32_t limit, n_jobs, n_trials, top; /* 0: not given */
    bool run, blind;
    struct pst_goal goal;
    uint64_t seed, time_ns;
    uint32_t n_shown;    /* plans that are planned again */
    char *plan, *config; /* max-batch: of the best so far */
    double size;
};

static double read_number(struct pst_cli *cli, const char *option, const char *text)
{
    char *end;
    double number = text == NULL ? 0 : strtod(text, &end);

    if (text != NULL && (*end != '\0' || end == text || !(number >= 0) || number > 1e18)) {
        pst_cli_usage(cli, "%s must be a number from 0, not \"%s\"", option, text);
    }
    return number;
}

static void read_files(struct pst_cli *cli, const struct request *request)
{
    const char *const files[] = {request->file, request->report};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i] != NULL) {
            pst_cli_must(cli, pst_file_write_check(files[i], &cli->err));
        }
    }
    if (request->file != NULL && pst_toml_is_name(request->file) && cli->n_arguments > 1) {
        pst_cli_usage(cli, "-o %s holds one config: for several configs write a plan (.json)",
                      request->file);
    }
}

/* Options that one of the two ways of searching has no use for. */
static void refuse_others(struct pst_cli *cli, const struct request *request)
{
    const bool largest = request->goal.objective == PST_MAX_BATCH;
    const struct {
        bool given;
        const char *name;
    } others[] = {{request->n_trials > 0, "--trials"},
                  {request->time_text != NULL, "--time-limit"},
                  {request->seed_text != NULL, "--seed"},
                  {request->resume != NULL, "--resume"},
                  {request->floor_text != NULL, "--min-throughput"},
                  {request->run, "--run"},
                  {request->blind, "--random"},
                  {request->report != NULL, "--report"}};

    for (size_t i = 0; largest && i < sizeof others / sizeof *others; i++) {
        if (others[i].given) {
            pst_cli_usage(cli, "%s is not for --objective max-batch", others[i].name);
        }
    }
    if (request->limit > 0 && !largest) {
        pst_cli_usage(cli, "--limit needs --objective max-batch");
    }
    if (request->top > 0 && !request->run) {
        pst_cli_usage(cli, "--top needs --run");
    }
}

static void read_request(struct pst_cli *cli, struct request *request)
{
    if (request->objective_text != NULL) {
        request->goal.objective = (enum pst_objective)pst_cli_choose(
            cli, "objective", request->objective_text, pst_objective_names);
    }
    refuse_others(cli, request);
    if (request->run) {
        pst_cli_must_be_alone(cli, "runs every combination");
    }
    request->limit = request->limit == 0 ? LIMIT : request->limit;
    request->goal.floor = read_number(cli, "--min-throughput", request->floor_text);
    request->seed = (uint64_t)read_number(cli, "--seed", request->seed_text);
    if (request->time_text != NULL &&
        (!pst_parse_time(request->time_text, &request->time_ns) || request->time_ns == 0)) {
        pst_cli_usage(cli, "--time-limit must be a time such as \"5 min\", not \"%s\"",
                      request->time_text);
    }
    request->top = request->top == 0 ? TOP : request->top;
    request->n_shown = request->report != NULL                    ? PST_PAGE_TIMELINES
                       : request->run && request->top > FINALISTS ? request->top
                                                                  : FINALISTS;
    read_files(cli, request);
}

static void write_text(struct pst_cli *cli, const char *file, const char *text)
{
    pst_cli_must(cli, pst_file_write(file, text, strlen(text), &cli->err));
}

/* The plan of the best, or its config with the plan beside it. */
static void write_best(struct pst_cli *cli, const char *file, const char *config, const char *plan)
{
    char *beside, *text;

    if (file == NULL || plan == NULL) {
        return;
    }
    if (!pst_toml_is_name(file)) {
        write_text(cli, file, plan);
        return;
    }
    beside = pst_printf("%.*s.plan.json", (int)(strlen(file) - strlen(".toml")), file);
    text = pst_toml_of_config(config, file, beside);
    write_text(cli, beside, plan);
    write_text(cli, file, text);
    free(text);
    free(beside);
}

/* --- largest batch -----------------------------------------------------------------------------*/

/* Takes the plan of a record over if it is better than the one before. */
static void keep_better(struct request *request, const struct pst_cli_visit *visit)
{
    struct pst_trial *trial = &visit->record->trial;

    if (trial->plan != NULL && (request->plan == NULL || trial->batch > request->size)) {
        free(request->plan);
        free(request->config);
        request->plan = trial->plan;
        request->config = pst_combination_config(&visit->set->combinations, visit->i,
                                                 trial->microbatch, trial->batch);
        request->size = trial->batch;
    } else {
        free(trial->plan);
    }
    trial->plan = NULL;
}

/* A round over all combinations: it finds the largest size, tries a common size, or finds the
   memory that one sample needs, if none fits. */
struct round {
    enum { AS_FAR, AT_COMMON, ADVISE } kind;
    struct request *request;
    uint32_t n_advised; /* that may still get advice */
};

static void show_size(void *context, uint32_t microbatch)
{
    const struct pst_cli_visit *visit = context;
    struct pst_record names = *visit->record;
    char size[16];

    snprintf(size, sizeof size, "%u", microbatch);
    names.labels[PST_AXIS_MICROBATCH] = size;
    pst_cli_progress(visit->cli, visit->at, visit->result->n, &names);
}

static pst_status search(void *context, const struct pst_cli_visit *visit, struct pst_error *err)
{
    struct round *round = context;
    struct request *request = round->request;
    const struct pst_job_train *train = &visit->set->job.job.train;
    const struct pst_combinations *set = &visit->set->combinations;
    struct pst_record *record = visit->record;
    uint32_t n = (uint32_t)(train->batch / train->microbatch);
    const struct pst_tune_options options = {
        .n_microbatches = n,
        .limit = request->limit < LIMIT_MOST / n ? request->limit : LIMIT_MOST / n,
        .keep_plan = request->file != NULL && round->kind != AT_COMMON,
        .cancelled = pst_stop_requested,
        .progress = show_size,
        .context = (void *)(uintptr_t)visit,
    };
    pst_status status = PST_OK;

    if (round->kind == AS_FAR) {
        status = pst_tune_max_batch(set, visit->i, &options, record, err);
    } else if (round->kind == ADVISE) {
        status = pst_tune_advise(set, visit->i, &options, &round->n_advised, record, err);
    } else if (record->tuned->microbatch > 0) {
        status = pst_tune_at(set, visit->i, visit->result->common, &options, record, err);
    }
    keep_better(request, visit);
    return status;
}

/* The size that all can do that can do anything. */
static uint32_t common_size(const struct pst_compare_result *result)
{
    uint32_t common = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_tuned *tuned = result->records[i].tuned;
        uint32_t size = tuned == NULL ? 0 : tuned->microbatch;

        common = size > 0 && (common == 0 || size < common) ? size : common;
    }
    return common;
}

static void tune_max_batch(struct pst_cli *cli, struct pst_cli_sets *sets, struct request *request)
{
    struct pst_compare_result result = {.goal.objective = PST_MAX_BATCH};
    struct round round = {.kind = AS_FAR, .request = request};

    for (uint32_t s = 0; s < sets->n; s++) {
        pst_combinations_one_size(&sets->sets[s].combinations);
    }
    pst_cli_records(sets, &result);
    pst_cli_visit_all(cli, sets, &result, search, &round);
    if (common_size(&result) == 0) {
        round.kind = ADVISE;
        round.n_advised = pst_trial_n_advised(false);
        pst_cli_visit_all(cli, sets, &result, search, &round);
    }
    if (result.n > 1 && !pst_stop_requested() && common_size(&result) > 0) {
        result.common = common_size(&result);
        round.kind = AT_COMMON;
        pst_cli_visit_all(cli, sets, &result, search, &round);
    }
    write_best(cli, request->file, request->config, request->plan);
    pst_cli_answer_records(cli, &result);
}

/* --- the whole space ---------------------------------------------------------------------------*/

/* The best of the result with its plan, which the best of what came from a file may still lack. */
static void write_joint(struct pst_cli *cli, const struct request *request,
                        const struct pst_cli_sets *sets, const struct pst_compare_result *result)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order);
    const struct pst_record *best;
    char *config;

    if (request->file != NULL && pst_compare_order(result, order) > 0) {
        best = &result->records[order[0]];
        config = pst_cli_config(sets, best->combination);
        if (best->trial.plan == NULL) {
            pst_log(
                PST_LOG_WARN, "tune",
                "%s: not written, because the best combination is not planned again after a signal",
                request->file);
        } else if (pst_goal_score(&result->goal, &best->trial).state == PST_SCORE_GOOD) {
            write_best(cli, request->file, config, best->trial.plan);
        }
        free(config);
    }
    free(order);
}

static void write_page(struct pst_cli *cli, const struct request *request,
                       const struct pst_cli_sets *sets, const struct pst_compare_result *result)
{
    struct pst_gallery gallery;
    const struct pst_page page = {"tune", cli->arguments[0], result, &gallery};

    if (request->report == NULL) {
        return;
    }
    pst_gallery_begin(&gallery, result->n, PST_PAGE_TIMELINES);
    pst_cli_fill_gallery(cli, sets, result, &gallery);
    pst_cli_must(cli, pst_page_write(&page, request->report, &cli->err));
    pst_gallery_finish(&gallery);
}

/* Runs the first n records in `order` and drops the others. */
static void run_best(struct pst_cli *cli, const struct pst_cli_sets *sets, const uint32_t *order,
                     uint32_t n, struct pst_compare_result *result)
{
    struct pst_cli_trials trials = {.n_rounds = ROUNDS, .n_steps = STEPS};
    struct pst_record *few = pst_alloc((size_t)n + 1, sizeof *few);

    for (uint32_t k = 0; k < n; k++) {
        few[k] = result->records[order[k]];
        result->records[order[k]] = (struct pst_record){.combination = 0};
    }
    for (uint32_t i = 0; i < result->n; i++) {
        pst_record_finish(&result->records[i]);
    }
    free(result->records);
    result->records = few;
    result->n = n;
    result->run = true;
    result->searched = NULL;
    pst_cli_run_all(cli, sets, &trials, result);
}

/* A combination that fits after all needs nothing more. */
static pst_status keep_advised(void *context, const struct pst_compare_result *result, uint32_t i,
                               struct pst_error *err)
{
    (void)context;
    (void)result;
    (void)i;
    (void)err;
    return PST_OK;
}

/* The search is whole, its record for --resume is not. */
static void tell_lost(struct pst_cli *cli, const struct pst_error *lost)
{
    if (cli->json) {
        pst_error_add_json(&cli->answer, lost);
        cli->code = cli->code > 0 ? cli->code : pst_error_exit_code(lost);
    } else {
        const int code = pst_print_error(lost, false);

        cli->code = cli->code > 0 ? cli->code : code;
    }
}

static void tune_joint(struct pst_cli *cli, struct pst_cli_sets *sets, struct request *request)
{
    struct pst_compare_result result = {.n_rows = cli->wide ? 0 : ROWS, .wide = cli->wide};
    struct pst_cli_joint joint = {
        .goal = request->goal,
        .budget = request->n_trials == 0 ? TRIALS : request->n_trials,
        .n_jobs = request->n_jobs,
        .seed = request->seed,
        .blind = request->blind,
        .time_ns = request->time_ns,
        .n_finalists = request->n_shown,
        .resume = request->resume,
        .keep_plan = request->file != NULL,
    };
    struct pst_cli_trials advice = {
        .options = {.cancelled = pst_stop_requested, .patience_ns = PST_CLI_PATIENCE_NS},
        .last_resort = true};
    uint32_t order[PST_PAGE_TIMELINES + TOP_MOST], n;

    pst_provenance_begin(&result.provenance);
    for (uint32_t s = 0; s < sets->n; s++) {
        pst_provenance_add(&result.provenance, &sets->sets[s].job.job, &sets->sets[s].combinations);
    }
    pst_cli_joint_search(cli, sets, &joint, &result);
    advice.each = keep_advised;
    pst_cli_advise(cli, sets, &advice, &result);
    n = pst_cli_joint_finish(cli, sets, &joint, &result, order);
    if (request->run && n > 0 && !pst_stop_requested()) {
        run_best(cli, sets, order, n < request->top ? n : request->top, &result);
    }
    pst_versus_all(result.records, result.n, NULL);
    write_joint(cli, request, sets, &result);
    write_page(cli, request, sets, &result);
    pst_cli_answer_records(cli, &result);
    pst_provenance_finish(&result.provenance);
    if (joint.kept != PST_OK) {
        tell_lost(cli, &joint.lost);
    }
}

static void tune(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    const bool largest = request->objective_text != NULL &&
                         strcmp(request->objective_text, pst_objective_names[PST_MAX_BATCH]) == 0;
    struct pst_cli_sets sets;

    read_request(cli, request);
    pst_cli_sets_open(cli, largest ? pst_space_read_listed : pst_space_read, &sets);
    (largest ? tune_max_batch : tune_joint)(cli, &sets, request);
    pst_cli_sets_close(&sets);
    free(request->plan);
    free(request->config);
}

static const struct pst_option options[] = {
    {"objective", 0, "NAME", "throughput (the default), max-batch, memory or devices",
     PST_AT(objective_text), 0},
    {"min-throughput", 0, "RATE", "minimum samples per second", PST_AT(floor_text), 0},
    {"trials", 0, "N", "combinations of a config to try; 1000", PST_AT(n_trials), TRIALS_MOST},
    {"time-limit", 0, "TIME", "start no trial after this time; none", PST_AT(time_text), 0},
    {"seed", 0, "N", "random seed; 0", PST_AT(seed_text), 0},
    {"random", 0, NULL, "random search, as a baseline", PST_AT(blind), 0},
    {"resume", 0, "FILE", "record the trials in this file, and resume from it", PST_AT(resume), 0},
    {"run", 'r', NULL, "also run the best", PST_AT(run), 0},
    {"top", 0, "N", "number of combinations to run; 3", PST_AT(top), TOP_MOST},
    {"limit", 0, "N", "max-batch: maximum samples of a micro-batch; 65536", PST_AT(limit),
     LIMIT_MOST},
    {"jobs", 'j', "N", "processes that plan; one per core", PST_AT(n_jobs), JOBS_MOST},
    {"output", 'o', "FILE", "write the best as a config (.toml) or a plan", PST_AT(file), 0},
    {"report", 0, "FILE", "write an HTML page: tables, figures, timelines", PST_AT(report), 0},
};

const struct pst_command pst_cmd_tune = {
    .name = "tune",
    .arguments = "CONFIG...",
    .summary = "Searches for the best strategies, parameters, micro-batches and devices",
    .text = "Searches the combinations that [tune] lists, else those of [compare], else all: "
            "every\npartitioner, scheduler and memory optimizer with their parameters, "
            "micro-batches, devices,\nreplicas and parallel.zero. If there are few, all are "
            "tried. --objective max-batch finds how\nmany samples of a micro-batch fit in the "
            "devices' memory, by doubling and bisection; the number\nof micro-batches is the "
            "config's. Ctrl-C keeps the results so far. Exit code 1 if no combination\nfits.",
    .words = {1, UINT32_MAX},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = tune,
};
