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
    const char *objective_text, *file;
    uint32_t objective, limit; /* limit 0: not given */
    char *plan;                /* of the best so far */
    double speed;
};

/* Where a search is: what the line on the terminal shows. */
struct place {
    const struct pst_cli *cli;
    const struct pst_compare_record *names;
    uint32_t done, all;
};

static void read_request(struct pst_cli *cli, struct request *request)
{
    static const char *const objectives[] = {"throughput", "max-batch", NULL};

    if (request->objective_text != NULL) {
        request->objective = pst_cli_choose(cli, "objective", request->objective_text, objectives);
    }
    if (request->limit > 0 && request->objective != MAX_BATCH) {
        pst_cli_usage(cli, "--limit is of --objective max-batch alone");
    }
    request->limit = request->limit == 0 ? LIMIT : request->limit;
    if (request->file != NULL) {
        pst_cli_must(cli, pst_file_write_check(request->file, &cli->err));
    }
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

static void write_best(struct pst_cli *cli, const struct request *request)
{
    if (request->file != NULL && request->plan != NULL) {
        pst_cli_must(
            cli, pst_file_write(request->file, request->plan, strlen(request->plan), &cli->err));
    }
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

static void tune_throughput(struct pst_cli *cli, struct pst_cli_sets *sets, struct request *request)
{
    struct pst_compare_result result = {.run = false};
    struct pst_cli_trials trials = {
        .options = {.keep_plan = request->file != NULL, .faster = true},
        .each = keep_fastest,
        .context = request,
        .last_resort = true,
    };

    for (uint32_t s = 0; s < sets->n; s++) {
        pst_combinations_all_sizes(&sets->sets[s].combinations,
                                   (uint32_t)sets->sets[s].job.job.train.batch);
    }
    pst_cli_try_all(cli, sets, &trials, &result);
    write_best(cli, request);
    pst_cli_trials_end(cli, &result);
}

/* --- largest batch -----------------------------------------------------------------------------*/

static void show_place(void *context, uint32_t microbatch)
{
    struct place *place = context;
    struct pst_compare_record names = *place->names;
    char size[16];

    snprintf(size, sizeof size, "%u", microbatch);
    names.labels[PST_AXIS_MICROBATCH] = size;
    pst_cli_progress(place->cli, place->done, place->all, &names);
}

static struct pst_tune_options options_of(const struct pst_job *job, const struct request *request,
                                          struct place *place)
{
    uint32_t n = (uint32_t)(job->train.batch / job->train.microbatch);

    return (struct pst_tune_options){
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

/* Of every combination in turn: how far it goes; a common size; with how much memory one sample
   would fit, where none does. */
enum round { AS_FAR, AT_COMMON, ADVISE };

static void tune_all(struct pst_cli *cli, const struct pst_cli_sets *sets, struct request *request,
                     enum round round, struct pst_tune_result *result)
{
    struct place place = {.cli = cli, .all = result->n};
    struct pst_trial_advice advice;
    pst_status st = PST_OK;

    pst_trial_advice_init(&advice);
    for (; place.done < result->n && st == PST_OK && !pst_stop_requested(); place.done++) {
        struct pst_tune_record *record = &result->records[place.done];
        struct pst_tuned *tuned = &record->tuned;
        uint32_t i;
        const struct pst_cli_set *set = pst_cli_sets_at(sets, place.done, &i);
        struct pst_tune_options options = options_of(&set->job.job, request, &place);

        place.names = &record->names;
        if (round == AS_FAR) {
            st = pst_tune_max_batch(&set->combinations, i, &options, tuned, &cli->err);
            record->tried = st == PST_OK;
        } else if (round == ADVISE) {
            st = pst_tune_advise(&set->combinations, i, &options, &advice, tuned, &cli->err);
        } else if (tuned->microbatch > 0) {
            options.keep_plan = false;
            st = pst_tune_at(&set->combinations, i, result->common, &options, tuned, &cli->err);
        }
        keep_better(request, &tuned->best, tuned->best.batch);
    }
    pst_cli_sets_ended(cli, st);
}

static void end(struct pst_cli *cli, struct pst_tune_result *result)
{
    bool misbehaved = false;

    if (cli->json) {
        pst_tune_report_json(result, &cli->answer);
    } else {
        pst_tune_report_print(result, cli->color, stdout);
    }
    for (uint32_t i = 0; i < result->n; i++) {
        misbehaved |= pst_tuned_misdeed(&result->records[i].tuned) != NULL;
    }
    cli->code = pst_cli_sets_code(misbehaved, common_size(result) > 0);
    for (uint32_t i = 0; i < result->n; i++) {
        pst_tuned_finish(&result->records[i].tuned);
    }
    free(result->records);
}

static void tune_max_batch(struct pst_cli *cli, struct pst_cli_sets *sets, struct request *request)
{
    struct pst_tune_result result = {.n_configs = sets->n};

    for (uint32_t s = 0; s < sets->n; s++) {
        pst_combinations_one_size(&sets->sets[s].combinations);
    }
    result.n = pst_cli_sets_count(sets);
    result.records = pst_alloc(result.n, sizeof *result.records);
    for (uint32_t at = 0; at < result.n; at++) {
        pst_cli_name(sets, at, &result.records[at].names);
    }
    tune_all(cli, sets, request, AS_FAR, &result);
    if (!pst_stop_requested() && common_size(&result) == 0) {
        tune_all(cli, sets, request, ADVISE, &result);
    }
    if (result.n > 1 && !pst_stop_requested() && common_size(&result) > 0) {
        result.common = common_size(&result);
        tune_all(cli, sets, request, AT_COMMON, &result);
    }
    write_best(cli, request);
    end(cli, &result);
}

static void tune(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    struct pst_cli_sets sets;

    read_request(cli, request);
    pst_cli_sets_open(cli, &sets);
    (request->objective == MAX_BATCH ? tune_max_batch : tune_throughput)(cli, &sets, request);
    pst_cli_sets_close(&sets);
    free(request->plan);
}

static const struct pst_option options[] = {
    {"objective", 0, "NAME", "throughput (the default) or max-batch", PST_AT(objective_text), 0},
    {"limit", 0, "N", "max-batch: samples of a micro-batch to stop at; 65536", PST_AT(limit),
     LIMIT_MOST},
    {"output", 'o', "FILE", "write the best plan", PST_AT(file), 0},
};

const struct pst_command pst_cmd_tune = {
    .name = "tune",
    .arguments = "CONFIG...",
    .summary = "Searches the fastest plan, or the largest batch that fits",
    .text =
        "Over the combinations that [compare] lists. --objective throughput: all of them at every "
        "size\nof micro-batches, simulated. --objective max-batch: how many samples a micro-batch "
        "can "
        "have in\nthe devices' memory, by doubling and bisection, with as many micro-batches as "
        "the "
        "config has.\n-o writes the best plan.",
    .words = {1, UINT32_MAX},
    PST_CLI_OPTIONS(options, struct request),
    .heeds_signals = true,
    .run = tune,
};
