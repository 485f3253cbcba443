/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock evaluate` and `penstock generate`: weights that are there, the pipeline forward only.
 * Both are the end of a training run without its steps.
 */
#include "commands/cli.h"
#include "commands/commands.h"

#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "base/signals.h"
#include "base/text.h"
#include "commands/print_error.h"
#include "commands/searching.h"
#include "data/data_plugin.h"
#include "generate/generate.h"
#include "loop/initial_values.h"
#include "loop/emulate.h"
#include "loop/train.h"
#include "session/session.h"

struct request {
    const char *from, *prompt, *temperature, *plan_file, *seed;
    uint32_t length, top_k, batches;
    bool writes; /* text, rather than losses */
    struct pst_cli *cli;
};

/* Makes the job generate text or compute losses instead of training. */
static void adapt_job(struct request *request, struct pst_job *job)
{
    struct pst_job_loop *loop = &job->training->loop;
    const char *end;

    loop->steps = 0;
    loop->sample = request->writes ? request->length > 0 ? request->length : 100 : 0;
    loop->eval_batches = request->writes ? 0 : loop->eval_batches;
    loop->prompt = request->prompt != NULL ? request->prompt : loop->prompt;
    loop->top_k = request->top_k > 0 ? request->top_k : loop->top_k;
    job->training->output.trace = "";
    if (request->temperature != NULL &&
        (!pst_number_parse(request->temperature, &end, &loop->temperature) || *end != '\0' ||
         loop->temperature < 0)) {
        pst_cli_usage(request->cli, "--temperature must be a number from 0, not \"%s\"",
                      request->temperature);
    }
    if (request->seed != NULL &&
        (!pst_number_parse_int(request->seed, &job->train.seed) || job->train.seed < 0)) {
        pst_cli_usage(request->cli, "--seed must be a whole number from 0, not \"%s\"",
                      request->seed);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

static void answer_loss(struct pst_json *json, const struct pst_run_report *report, bool classes,
                        bool as_json)
{
    double perplexity = exp(report->eval_loss);

    if (as_json) {
        pst_json_number(json, "loss", report->eval_loss);
        pst_json_number(json, "perplexity", classes ? perplexity : NAN);
        pst_json_real(json, "accuracy", report->accuracy, 9);
        pst_json_uint(json, "samples", report->eval_samples);
        return;
    }
    printf("loss       %.6f\n", report->eval_loss);
    if (classes) {
        printf("perplexity %.6g\n", perplexity);
    }
    if (isfinite(report->accuracy)) {
        printf("accuracy   %.4f\n", report->accuracy);
    }
    printf("samples    %llu\n", (unsigned long long)report->eval_samples);
}

struct telling {
    const struct request *request;
    bool classes; /* targets are classes: perplexity means something */
};

static void keep_result(void *context, const struct pst_run_report *report)
{
    const struct telling *telling = context;
    struct pst_cli *cli = telling->request->cli;

    if (report->signal != 0) {
        return;
    }
    if (!telling->request->writes) {
        answer_loss(&cli->answer, report, telling->classes, cli->json);
    } else if (cli->json) {
        pst_json_string(&cli->answer, "text", report->sample);
    } else {
        pst_text_print(stdout, report->sample);
        putchar('\n');
    }
}

/* --- the run ---------------------------------------------------------------------------------- */

static pst_status plan_and_run(struct request *request, struct pst_session *session,
                               const struct pst_data *data, struct pst_error *err)
{
    struct telling telling = {.request = request};
    const bool first = pst_team_is_first(&session->team);
    struct pst_train_listener listener = {
        .context = &telling, .scores = !request->writes, .done = first ? keep_result : NULL};
    struct pst_sample_shape shape;
    pst_status status = pst_sample_shape_of(session->graph, &shape, err);

    if (status == PST_OK) {
        telling.classes = shape.classes > 0;
        pst_searching_begin(request->cli, PST_SEARCHING_PLAN);
        status =
            pst_team_plan(&session->team, session,
                          request->plan_file == NULL ? session->job->run.plan : request->plan_file,
                          pst_stop_requested, err);
        pst_searching_end();
    }
    if (status == PST_ERR_CANCELLED && pst_stop_requested()) {
        return pst_stop_fail(err);
    }
    if (status == PST_OK && request->writes) {
        status = pst_session_decode(session, err);
    }
    return status == PST_OK ? pst_train_run(session, data, NULL, &listener, err) : status;
}

/* What to set depends on the kind: a plugin alone knows what it holds out. */
static pst_status fail_nothing_held(const char *kind, struct pst_error *err)
{
    return pst_data_is_built_in(kind)
               ? pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "there are no held-out data: set data.valid or data.valid_fraction")
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "data \"%s\" holds nothing out, so there is nothing to evaluate", kind);
}

static pst_status open_data(struct request *request, struct pst_session *session,
                            struct pst_job *job, struct pst_data **ret_data, struct pst_error *err)
{
    struct pst_sample_shape shape;
    uint64_t held;
    pst_status status;

    if (request->writes) {
        status = pst_sample_shape_of(session->graph, &shape, err);
        return status == PST_OK ? pst_generate_check(session->graph, &shape, err) : status;
    }
    status = pst_data_create(job, session->graph, ret_data, err);
    if (status != PST_OK) {
        return status;
    }
    held = pst_data_samples(*ret_data, PST_SPLIT_VALID);
    if (held == 0) {
        return fail_nothing_held(job->training->data.kind, err);
    }
    if (request->batches > 0) {
        job->training->loop.eval_batches = request->batches;
    } else if (held != UINT64_MAX) {
        job->training->loop.eval_batches = INT64_MAX;
    } else if (job->training->loop.eval_batches == 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "data \"%s\" has no end, and train.eval_batches is 0; set --batches",
                        job->training->data.kind);
    }
    return PST_OK;
}

static pst_status run_forward(struct request *request, struct pst_job *job,
                              const struct pst_team *team, struct pst_error *err)
{
    struct pst_session *session = NULL;
    struct pst_begin *begin = NULL;
    struct pst_data *data = NULL;
    pst_status status = pst_session_create(job, team, &session, err);

    PST_TRY(status, pst_session_check_runs(session, err));
    PST_TRY(status, pst_team_check_device(team, session, err));
    if (status == PST_OK && pst_session_has_no_data(session)) {
        status = pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "device %s computes nothing; set another run.device", job->run.device);
    }
    PST_TRY(status, open_data(request, session, job, &data, err));
    PST_TRY(status, pst_begin_session(request->from, session, &begin, err));
    PST_TRY(status, plan_and_run(request, session, data, err));
    pst_data_destroy(data);
    pst_session_destroy(session);
    pst_begin_close(begin);
    return status;
}

static void run(struct pst_cli *cli, struct request *request)
{
    struct pst_team team = {.n = 1};
    struct pst_cli_job job;
    bool prints;
    pst_status status;

    request->cli = cli;
    if (request->from == NULL) {
        pst_cli_usage(cli, "--from FOLDER is missing: the weights");
    }
    pst_cli_job_open(cli, cli->arguments[0], &job);
    adapt_job(request, &job.job);
    status = pst_team_join(&job.job, request->plan_file, &team, &cli->err);
    if (status == PST_OK) {
        status = run_forward(request, &job.job, &team, &cli->err);
        pst_config_name(status == PST_OK ? NULL : job.config, &cli->err);
    }
    status = pst_team_settle(&team, status, &cli->err, &prints);
    pst_cli_job_close(&job);
    if (status != PST_OK) {
        cli->told = true;
        cli->code = prints ? pst_print_error(&cli->err, cli->json) : pst_error_exit_code(&cli->err);
    }
    pst_cli_leaves();
    pst_team_leave(&team, cli->code);
}

static void evaluate(struct pst_cli *cli, void *asked)
{
    run(cli, asked);
}

static void generate(struct pst_cli *cli, void *asked)
{
    ((struct request *)asked)->writes = true;
    run(cli, asked);
}

#define FROM                                                                                       \
    {                                                                                              \
        "from", 0, "FOLDER", "weights: a checkpoint, or published weights (safetensors)",          \
            PST_AT(from), 0                                                                        \
    }
#define PLAN                                                                                       \
    {                                                                                              \
        "plan", 'p', "FILE", "run this plan instead of searching for one", PST_AT(plan_file), 0    \
    }

static const struct pst_option evaluate_options[] = {
    FROM,
    PLAN,
    {"batches", 0, "N", "batches to evaluate, spread over the held-out data; all", PST_AT(batches),
     100000000},
};

const struct pst_command pst_cmd_evaluate = {
    .name = "evaluate",
    .arguments = "CONFIG",
    .summary = "Reports loss, perplexity and accuracy on held-out data",
    .text = "Runs the plan of CONFIG forward only, over the held-out data of [data].",
    .words = {1, 1},
    PST_CLI_OPTIONS(evaluate_options, struct request),
    .handles_signals = true,
    .run = evaluate,
};

static const struct pst_option generate_options[] = {
    FROM,
    PLAN,
    {"prompt", 0, "TEXT", "beginning of the text; train.prompt", PST_AT(prompt), 0},
    {"length", 0, "N", "tokens to add; 100", PST_AT(length), 1000000},
    {"temperature", 0, "T",
     "sampling temperature, 0: always the likeliest token; train.temperature", PST_AT(temperature),
     0},
    {"top-k", 0, "K", "sample from the K likeliest tokens; train.top_k", PST_AT(top_k), 16777216},
    {"seed", 0, "S", "seed of the sampling; train.seed", PST_AT(seed), 0},
};

const struct pst_command pst_cmd_generate = {
    .name = "generate",
    .arguments = "CONFIG",
    .summary = "Generates text with a language model",
    .text = "Runs the plan of CONFIG forward only, once for each token. Tokens are bytes, or those "
            "of\ndata.tokenizer.",
    .words = {1, 1},
    PST_CLI_OPTIONS(generate_options, struct request),
    .handles_signals = true,
    .run = generate,
};
