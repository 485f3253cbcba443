/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock tune CONFIG...`: the fastest plan, or the largest batch, over the combinations that
 * [compare] lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "commands/combinations.h"
#include "reports/tune_report.h"
#include "train/stop.h"

#define LIMIT      65536u
#define LIMIT_MOST 1048576u /* of train.batch */

enum objective { THROUGHPUT = 0, MAX_BATCH = 1 };

struct request {
    const char *objective_text, *limit_text, *file;
    uint32_t objective, limit;
    char *plan; /* of the best so far */
    double speed;
};

/* Where a search is: what the line on the terminal shows. */
struct place {
    const struct pst_cli *cli;
    const struct pst_compare_record *names;
    uint32_t done, all;
    char size[16];
};

static pst_status read_request(const struct pst_command *command, struct request *request,
                               struct pst_error *err)
{
    static const char *const objectives[] = {"throughput", "max-batch", NULL};
    const char *text = request->limit_text;
    char *end = NULL;

    if (request->objective_text != NULL) {
        pst_status st = pst_cli_choose(command, "objective", request->objective_text, objectives,
                                       &request->objective, err);

        if (st != PST_OK) {
            return st;
        }
    }
    request->limit = LIMIT;
    if (text != NULL) {
        unsigned long n = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;

        if (n < 1 || n > LIMIT_MOST || *end != '\0') {
            return pst_fail(err, PST_ERR_CONFIG, "usage",
                            "--limit must be a number from 1 to %u, not \"%s\"", LIMIT_MOST, text);
        }
        if (request->objective != MAX_BATCH) {
            return pst_fail(err, PST_ERR_CONFIG, "usage",
                            "--limit is of --objective max-batch alone");
        }
        request->limit = (uint32_t)n;
    }
    return request->file == NULL ? PST_OK : pst_file_write_check(request->file, err);
}

/* Takes the plan of a trial over if it is better than the one before. */
static void keep_better(struct request *request, struct pst_trial *trial, double value)
{
    if (trial->plan != NULL && (request->plan == NULL || value > request->speed)) {
        free(request->plan);
        request->plan = trial->plan;
        request->speed = value;
    } else {
        free(trial->plan);
    }
    trial->plan = NULL;
}

static pst_status write_best(const struct request *request, struct pst_error *err)
{
    return request->file == NULL || request->plan == NULL
               ? PST_OK
               : pst_file_write(request->file, request->plan, strlen(request->plan), err);
}

/* --- throughput --------------------------------------------------------------------------------*/

static pst_status keep_fastest(void *context, const struct pst_compare_result *result, uint32_t i,
                               struct pst_error *err)
{
    struct pst_trial *trial = &result->records[i].trial;

    (void)err;
    keep_better(context, trial, pst_trial_samples_per_second(trial));
    return PST_OK;
}

static pst_status tune_throughput(const struct pst_cli *cli, struct pst_cli_sets *sets,
                                  struct request *request, int *ret_code, struct pst_error *err)
{
    struct pst_compare_result result = {.run = false};
    struct pst_cli_trials trials = {
        .options = {.keep_plan = request->file != NULL, .faster = true},
        .each = keep_fastest,
        .context = request,
        .last_resort = true,
    };
    pst_status st = PST_OK;

    sets->n_combinations = 0;
    for (uint32_t s = 0; s < sets->n && st == PST_OK; s++) {
        st = pst_combinations_all_sizes(&sets->sets[s].combinations,
                                        (uint32_t)sets->sets[s].job.job.train.batch, err);
        sets->n_combinations += sets->sets[s].combinations.n;
    }
    if (st == PST_OK) {
        st = pst_cli_try_all(cli, sets, &trials, &result, err);
    }
    if (st == PST_OK) {
        st = write_best(request, err);
    }
    if (st == PST_OK) {
        st = pst_cli_answer_trials(cli, &result, err);
    }
    *ret_code = pst_cli_trials_code(&result);
    pst_cli_trials_finish(&result);
    return st;
}

/* --- largest batch -----------------------------------------------------------------------------*/

static void show_place(void *context, uint32_t microbatch)
{
    struct place *place = context;
    struct pst_compare_record names = *place->names;

    snprintf(place->size, sizeof place->size, "%u", microbatch);
    names.labels[PST_AXIS_MICROBATCH] = place->size;
    pst_cli_progress(place->cli, place->done, place->all, &names);
}

static void set_options(const struct pst_job *job, const struct request *request,
                        struct place *place, struct pst_tune_options *options)
{
    uint32_t n = (uint32_t)(job->train.batch / job->train.microbatch);

    *options = (struct pst_tune_options){
        .n_microbatches = n,
        .limit = request->limit < LIMIT_MOST / n ? request->limit : LIMIT_MOST / n,
        .keep_plan = request->file != NULL,
        .cancelled = pst_stop_requested,
        .progress = show_place,
        .context = place,
    };
}

/* The size that all can do that can do anything. */
static uint32_t common_size(const struct pst_tune_result *result)
{
    uint32_t common = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        uint32_t size = result->records[i].tuned.microbatch;

        common = size > 0 && (common == 0 || size < common) ? size : common;
    }
    return common;
}

/* Every combination, first as far as it goes (common: 0), then at the common size. */
static pst_status tune_all(const struct pst_cli *cli, const struct pst_cli_sets *sets,
                           struct request *request, uint32_t common, struct pst_tune_result *result,
                           struct pst_error *err)
{
    struct place place = {.cli = cli, .all = result->n};
    pst_status st = PST_OK;

    for (uint32_t s = 0; s < sets->n; s++) {
        const struct pst_cli_set *set = &sets->sets[s];
        struct pst_tune_options options;

        set_options(&set->job.job, request, &place, &options);
        for (uint32_t i = 0; i < set->combinations.n; i++, place.done++) {
            struct pst_tune_record *record = &result->records[place.done];

            pst_cli_record(set, i, &record->names);
            place.names = &record->names;
            if (st != PST_OK || pst_stop_requested()) {
                continue;
            }
            if (common > 0 && record->tuned.microbatch > 0) {
                options.keep_plan = false;
                st = pst_tune_at(&set->combinations, i, common, &options, &record->tuned, err);
            } else if (common == 0) {
                st = pst_tune_max_batch(&set->combinations, i, &options, &record->tuned, err);
                record->tried = st == PST_OK;
                keep_better(request, &record->tuned.best, record->tuned.best.batch);
            }
        }
    }
    pst_cli_progress(cli, place.done, result->n, NULL);
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : st;
}

/* Nothing fits, not even one sample: with how much memory it would. */
static pst_status advise_all(const struct pst_cli_sets *sets, struct request *request,
                             struct pst_tune_result *result, struct pst_error *err)
{
    struct pst_trial_advice advice;
    struct pst_tune_record *record = result->records;
    pst_status st = PST_OK;

    pst_trial_advice_init(&advice);
    for (uint32_t s = 0; s < sets->n; s++) {
        const struct pst_cli_set *set = &sets->sets[s];
        struct pst_tune_options options;

        set_options(&set->job.job, request, NULL, &options);
        for (uint32_t i = 0; i < set->combinations.n; i++, record++) {
            if (st == PST_OK && !pst_stop_requested()) {
                st = pst_tune_advise(&set->combinations, i, &options, &advice, &record->tuned, err);
                keep_better(request, &record->tuned.best, record->tuned.best.batch);
            }
        }
    }
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? PST_OK : st;
}

static int tune_code(const struct pst_tune_result *result)
{
    bool misbehaved = false;

    for (uint32_t i = 0; i < result->n; i++) {
        misbehaved |= pst_tuned_misdeed(&result->records[i].tuned) != NULL;
    }
    if (pst_stop_requested()) {
        return 128 + pst_stop_signal();
    }
    return misbehaved ? 3 : common_size(result) == 0;
}

static pst_status tune_max_batch(const struct pst_cli *cli, struct pst_cli_sets *sets,
                                 struct request *request, int *ret_code, struct pst_error *err)
{
    struct pst_tune_result result = {.n_configs = sets->n};
    pst_status st = PST_OK;

    for (uint32_t s = 0; s < sets->n; s++) {
        pst_combinations_one_size(&sets->sets[s].combinations);
        result.n += sets->sets[s].combinations.n;
    }
    result.records = pst_alloc(result.n, sizeof *result.records);
    st = tune_all(cli, sets, request, 0, &result, err);
    if (st == PST_OK && !pst_stop_requested() && common_size(&result) == 0) {
        st = advise_all(sets, request, &result, err);
    }
    result.common =
        st == PST_OK && result.n > 1 && !pst_stop_requested() ? common_size(&result) : 0;
    if (result.common > 0) {
        st = tune_all(cli, sets, request, result.common, &result, err);
    }
    if (st == PST_OK) {
        st = write_best(request, err);
    }
    if (st == PST_OK) {
        if (cli->json) {
            st = pst_cli_print_json(pst_tune_report_json(&result), err);
        } else {
            pst_tune_report_print(&result, cli->color, stdout);
        }
    }
    *ret_code = tune_code(&result);
    for (uint32_t i = 0; i < result.n; i++) {
        pst_tuned_finish(&result.records[i].tuned);
    }
    free(result.records);
    return st;
}

static pst_status tune(const struct pst_cli *cli, struct request *request, int *ret_code,
                       struct pst_error *err)
{
    struct pst_cli_sets sets;
    pst_status st = pst_cli_sets_open(cli, &sets, err);

    if (st != PST_OK) {
        return st;
    }
    st = request->objective == MAX_BATCH ? tune_max_batch(cli, &sets, request, ret_code, err)
                                         : tune_throughput(cli, &sets, request, ret_code, err);
    pst_cli_sets_close(&sets);
    return st;
}

int pst_cmd_tune(const struct pst_command *command, int argc, char **argv)
{
    struct request request = {.objective = THROUGHPUT};
    const struct pst_option options[] = {
        {"objective", 0, "NAME", "throughput (the default) or max-batch", NULL,
         &request.objective_text},
        {"limit", 0, "N", "max-batch: samples of a micro-batch to stop at; 65536", NULL,
         &request.limit_text},
        {"output", 'o', "FILE", "write the best plan", NULL, &request.file},
    };
    bool json = pst_options_want_json(argc, argv);
    struct pst_error err = {0};
    struct pst_cli cli;
    int code = 0, ended;
    pst_status st = pst_options_parse(command, options, sizeof options / sizeof *options, argc,
                                      argv, &cli, &err);

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    pst_stop_install();
    st = pst_options_arguments(command, &cli, 1, UINT32_MAX, &err);
    if (st == PST_OK) {
        st = read_request(command, &request, &err);
    }
    if (st == PST_OK) {
        st = tune(&cli, &request, &code, &err);
    }
    free(request.plan);
    ended = pst_cli_end(st, cli.json, &err);
    return ended != 0 ? ended : code;
}
