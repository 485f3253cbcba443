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
#include "train/stop.h"

#define LIMIT      65536u
#define LIMIT_MOST 1048576u /* of train.batch */
#define JOBS_MOST  1024u

enum objective { THROUGHPUT = 0, MAX_BATCH = 1 };

struct request {
    const char *objective_text, *file;
    uint32_t objective, limit, n_jobs; /* 0: not given */
    char *plan;                        /* of the best so far */
    double speed;
    uint32_t record; /* whose that is */
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

/* Takes the plan of a record over if it is better than the one before. Of equal ones the first
   counts, in whatever order they come. */
static void keep_better(struct request *request, struct pst_trial *trial, uint32_t record,
                        double value)
{
    if (trial->plan != NULL && (request->plan == NULL || value > request->speed ||
                                (!(value < request->speed) && record < request->record))) {
        free(request->plan);
        request->plan = trial->plan;
        request->speed = value;
        request->record = record;
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
    keep_better(context, trial, i, pst_trial_samples_per_second(trial));
    return PST_OK;
}

static void tune_throughput(struct pst_cli *cli, struct pst_cli_sets *sets, struct request *request)
{
    struct pst_compare_result result = {.run = false};
    struct pst_cli_trials trials = {
        .options = {.keep_plan = request->file != NULL, .faster = true},
        .n_jobs = request->n_jobs,
        .each = keep_fastest,
        .context = request,
        .last_resort = true,
    };

    for (uint32_t s = 0; s < sets->n; s++) {
        pst_combinations_all_sizes(&sets->sets[s].combinations,
                                   (uint32_t)sets->sets[s].job.job.train.batch);
    }
    pst_cli_records(sets, &result);
    pst_cli_try_all(cli, sets, &trials, &result);
    write_best(cli, request);
    pst_cli_answer_records(cli, &result);
}

/* --- largest batch -----------------------------------------------------------------------------*/

/* Of every combination in turn: how far it goes; a common size; with how much memory one sample
   would fit, where none does. */
struct round {
    enum { AS_FAR, AT_COMMON, ADVISE } kind;
    struct request *request;
    struct pst_trial_advice advice; /* that there may still be */
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
    pst_status st = PST_OK;

    if (round->kind == AS_FAR) {
        st = pst_tune_max_batch(set, visit->i, &options, record, err);
    } else if (round->kind == ADVISE) {
        st = pst_tune_advise(set, visit->i, &options, &round->advice, record, err);
    } else if (record->tuned->microbatch > 0) {
        st = pst_tune_at(set, visit->i, visit->result->common, &options, record, err);
    }
    keep_better(request, &record->trial, visit->at, record->trial.batch);
    return st;
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
    struct pst_compare_result result = {.max_batch = true};
    struct round round = {.kind = AS_FAR, .request = request};

    for (uint32_t s = 0; s < sets->n; s++) {
        pst_combinations_one_size(&sets->sets[s].combinations);
    }
    pst_cli_records(sets, &result);
    pst_cli_visit_all(cli, sets, &result, search, &round);
    if (common_size(&result) == 0) {
        round.kind = ADVISE;
        pst_trial_advice_init(false, &round.advice);
        pst_cli_visit_all(cli, sets, &result, search, &round);
    }
    if (result.n > 1 && !pst_stop_requested() && common_size(&result) > 0) {
        result.common = common_size(&result);
        round.kind = AT_COMMON;
        pst_cli_visit_all(cli, sets, &result, search, &round);
    }
    write_best(cli, request);
    pst_cli_answer_records(cli, &result);
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
    {"jobs", 'j', "N", "throughput: processes that plan; as many as there are cores",
     PST_AT(n_jobs), JOBS_MOST},
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
