/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/cli.h"
#include "commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/signals.h"
#include "base/text.h"
#include "base/util.h"
#include "commands/outputs.h"
#include "commands/print_error.h"
#include "commands/searching.h"
#include "loop/initial_values.h"
#include "loop/emulate.h"
#include "loop/train.h"
#include "reports/plan_report.h"
#include "reports/train_output.h"
#include "session/session.h"
#include "sim/sim.h"

struct request {
    const char *plan_file, *resume;
    bool allow_change;
};

/* The context of its listener. */
struct training {
    struct pst_train_output output; /* first: what listens to steps takes it for its own */
    const struct pst_session *session;
    const char *plan_file; /* or "" */
};

/* The run, and what was predicted of as many steps from rest, laid over it. */
static pst_status write_trace(void *context, const struct pst_timeline *timeline,
                              struct pst_error *err)
{
    const struct training *training = context;
    const struct pst_session *session = training->session;
    struct pst_timeline *predicted = NULL;
    struct pst_sim_result result;
    char digest[PST_CLI_DIGEST];
    struct pst_trace_meta meta;
    char sharing[256];
    uint64_t period_ns = session->shown == &session->here ? session->simulated.period_ns : 0;
    pst_status status = pst_sim_timeline(
        session->planned.plan, session->graph, &session->here, timeline->n_steps, period_ns,
        (const struct pst_program *const *)session->planned.programs, &predicted, &result, err);

    if (status == PST_OK) {
        meta = pst_cli_trace_meta(session,
                                  training->plan_file[0] != '\0' ? training->plan_file
                                                                 : session->job->config->path,
                                  digest);
        meta.predicted = predicted;
        meta.sharing = pst_session_sharing(session, sharing, sizeof sharing);
        status = pst_trace_write(timeline, session->job->training->output.trace, &meta, err);
        pst_timeline_destroy(predicted);
    }
    return status;
}

/* The files that the run is to write can be written. */
static pst_status open_outputs(struct training *training, struct pst_error *err)
{
    const struct pst_job *job = training->session->job;
    pst_status status = pst_train_output_open(&training->output, job, err);

    return status == PST_OK && job->training->output.trace[0] != '\0'
               ? pst_file_write_check(job->training->output.trace, err)
               : status;
}

static pst_status plan_session(struct pst_session *session, const char *plan_file,
                               const struct pst_cli *cli, struct pst_error *err)
{
    bool prints = pst_team_is_first(&session->team) && !cli->json && cli->verbosity >= 0;
    pst_status status;

    pst_searching_begin(cli, PST_SEARCHING_PLAN);
    status = pst_team_plan(&session->team, session, plan_file, pst_stop_requested, err);
    pst_searching_end();
    if (status != PST_OK && strcmp(err->kind, "input.syntax") == 0 &&
        strcmp(err->file, plan_file) == 0 && !pst_cli_is_plan_file(plan_file)) {
        pst_error_hint(err, "a plan is wanted: penstock plan CONFIG -o FILE writes one");
    }
    if (status == PST_ERR_CANCELLED && pst_stop_requested()) {
        return pst_stop_fail(err);
    }
    if (status == PST_OK && prints) {
        pst_plan_report_print(session, NULL, cli->color, stdout);
        fputc('\n', stdout);
        status = pst_cli_flush(err);
    }
    return status;
}

static pst_status run_session(struct pst_session *session, const struct pst_data *data,
                              const struct request *request, const struct pst_cli *cli,
                              bool *ret_started, struct pst_error *err)
{
    const char *plan_file =
        request->plan_file == NULL ? session->job->run.plan : request->plan_file;
    const struct pst_resume_request resume = {request->resume, request->allow_change};
    bool first = pst_team_is_first(&session->team);
    struct training training = {.session = session, .plan_file = plan_file};
    struct pst_train_listener listener = {
        .trace = session->job->training->output.trace[0] != '\0' ? write_trace : NULL};
    pst_status status;

    pst_train_output_init(&training.output, session->job, cli->json, first ? stdout : NULL,
                          cli->verbosity < 0 || !first ? NULL : stderr);
    pst_train_output_listen(&training.output, &listener);
    status = first ? open_outputs(&training, err) : PST_OK;
    PST_TRY(status, plan_session(session, plan_file, cli, err));
    *ret_started = status == PST_OK;
    if (status == PST_OK) {
        pst_train_output_begin(&training.output, session);
        status = pst_train_run(session, data, &resume, &listener, err);
    }
    return pst_train_output_end(&training.output, status, err);
}

/* Long texts take their time to encode: a line says so. */
static pst_status open_data(const struct pst_session *session, const struct pst_cli *cli,
                            struct pst_data **ret_data, struct pst_error *err)
{
    const struct pst_job *job = session->job;

    if (job->training->data.tokenizer[0] != '\0' && pst_team_is_first(&session->team) &&
        cli->verbosity >= 0) {
        pst_text_printf(stderr, "reading data, by %s\n", job->training->data.tokenizer);
    }
    return pst_data_create(job, session->graph, ret_data, err);
}

/* All but joining the other processes and leaving them. */
static pst_status train_in_team(const struct pst_job *job, const struct pst_team *team,
                                const struct request *request, const struct pst_cli *cli,
                                bool *ret_started, struct pst_error *err)
{
    struct pst_session *session = NULL;
    struct pst_begin *begin = NULL;
    struct pst_data *data = NULL;
    pst_status status = pst_session_create(job, team, &session, err);

    PST_TRY(status, pst_session_check_runs(session, err));
    PST_TRY(status, pst_team_check_device(team, session, err));
    if (status == PST_OK && job->training->loop.init[0] != '\0' &&
        !pst_session_has_no_data(session)) {
        status = pst_config_place(job->config, "train", "init",
                                  pst_begin_session(job->training->loop.init, session, &begin, err),
                                  err);
    }
    PST_TRY(status, pst_cli_calibrate(cli, session, (uint32_t)job->train.microbatch, err));
    if (status == PST_OK && !pst_session_has_no_data(session)) {
        status = open_data(session, cli, &data, err);
    }
    PST_TRY(status, run_session(session, data, request, cli, ret_started, err));
    pst_data_destroy(data);
    pst_session_destroy(session);
    pst_begin_close(begin);
    return status;
}

/* One process tells how the run ended; a stop is an ordinary end: the results are out. */
static int report_end(pst_status status, bool started, const struct pst_cli *cli)
{
    const struct pst_error *err = &cli->err;

    if (started && strcmp(err->kind, "run.stopped") == 0) {
        pst_text_printf(stderr, "penstock: %s%s%s\n", err->message,
                        err->hint[0] == '\0' ? "" : "; ", err->hint);
        return err->exit_code;
    }
    return status == PST_OK ? pst_cli_end(0) : pst_print_error(err, cli->json);
}

static void train(struct pst_cli *cli, void *asked)
{
    const struct request *request = asked;
    struct pst_team team = {.n = 1};
    struct pst_cli_job job;
    bool started = false, prints;
    pst_status status;

    pst_cli_job_open(cli, cli->arguments[0], &job);
    status = pst_team_join(&job.job, request->plan_file, &team, &cli->err);
    if (status == PST_OK) {
        status = train_in_team(&job.job, &team, request, cli, &started, &cli->err);
        pst_config_name(status == PST_OK ? NULL : job.config, &cli->err);
    }
    status = pst_team_settle(&team, status, &cli->err, &prints);
    pst_cli_job_close(&job);
    cli->told = true;
    cli->code = prints             ? report_end(status, started, cli)
                : status == PST_OK ? 0
                                   : pst_error_exit_code(&cli->err);
    pst_cli_leaves();
    pst_team_leave(&team, cli->code);
}

static const struct pst_option options[] = {
    {"plan", 'p', "FILE", "run this plan instead of searching for one", PST_AT(plan_file), 0},
    {"resume", 0, "auto|STEP|PATH",
     "resume from the newest checkpoint, from that of a step, or from a folder", PST_AT(resume), 0},
    {"allow-change", 0, NULL, "resume with other seeds, data, batch or optimizer",
     PST_AT(allow_change), 0},
};

const struct pst_command pst_cmd_train = {
    .name = "train",
    .arguments = "CONFIG",
    .summary = "Trains a model, after planning if there is no plan",
    .text = "Progress goes to standard error, the result to standard output. The first SIGINT, "
            "SIGTERM\nor SIGHUP ends the run after the current step; SIGUSR1 saves a checkpoint "
            "and continues.",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = train,
};
