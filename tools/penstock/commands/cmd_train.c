/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "reports/plan_report.h"
#include "exchange/trace.h"
#include "sim/sim.h"
#include "train/emulate.h"
#include "train/gpus.h"
#include "train/session.h"
#include "train/stop.h"
#include "train/train.h"

/* The run, and what was predicted of as many steps from rest, laid over it. */
static pst_status write_trace(void *context, const struct pst_timeline *timeline,
                              struct pst_error *err)
{
    const struct pst_session *session = context;
    struct pst_timeline *predicted = NULL;
    struct pst_sim_result result;
    struct pst_trace_meta meta = {0};
    char sharing[256];
    pst_status st = pst_sim_timeline(
        session->planned.plan, session->graph, &session->cost, timeline->n_steps,
        (const struct pst_program *const *)session->planned.programs, &predicted, &result, err);

    if (st == PST_OK) {
        meta.predicted = predicted;
        meta.sharing = pst_session_sharing(session, sharing, sizeof sharing);
        st = pst_trace_write(timeline, session->job->output.trace, &meta, err);
        pst_timeline_destroy(predicted);
    }
    return st;
}

static pst_status run(struct pst_session *session, const struct pst_data *data,
                      const char *plan_file, const struct pst_cli *cli, bool *ret_started,
                      struct pst_error *err)
{
    bool first = pst_team_is_first(&session->team);
    struct pst_train_options options = {
        .json = cli->json,
        .out = first ? stdout : NULL,
        .progress = cli->verbosity < 0 || !first ? NULL : stderr,
        .trace = session->job->output.trace[0] != '\0' ? write_trace : NULL,
        .trace_context = session,
    };
    pst_status st = options.trace == NULL || !first
                        ? PST_OK
                        : pst_file_write_check(session->job->output.trace, err);

    if (st == PST_OK) {
        st = pst_team_plan(&session->team, session, plan_file, pst_stop_requested, err);
    }
    if (st == PST_ERR_CANCELLED && pst_stop_requested()) {
        return pst_stop_fail(err);
    }
    if (st == PST_OK && first && !cli->json && cli->verbosity >= 0) {
        pst_plan_report_print(session, NULL, cli->color, stdout);
        fputc('\n', stdout);
        st = st == PST_OK ? pst_cli_flush(err) : st;
    }
    *ret_started = st == PST_OK;
    return st == PST_OK ? pst_train_run(session, data, &options, err) : st;
}

/* All but joining the other processes and leaving them. */
static pst_status work(const struct pst_job *job, const struct pst_team *team,
                       const char *plan_file, const struct pst_cli *cli, bool *ret_started,
                       struct pst_error *err)
{
    struct pst_session *session = NULL;
    struct pst_data *data = NULL;
    pst_status st = pst_session_create_in(team, job, &session, err);

    if (st == PST_OK) {
        st = pst_team_check_device(team, session, err);
    }
    if (st == PST_OK) {
        st = pst_team_check_gpus(team, session, err);
    }
    if (st == PST_OK && !pst_session_is_hollow(session)) {
        st = pst_data_create(job, session->graph, &data, err);
    }
    if (st == PST_OK) {
        st = run(session, data, plan_file == NULL ? job->run.plan : plan_file, cli, ret_started,
                 err);
    }
    pst_data_destroy(data);
    pst_session_destroy(session);
    return st;
}

static int end(pst_status st, bool started, const struct pst_cli *cli, struct pst_error *err)
{
    if (started && strcmp(err->kind, "run.stopped") == 0) {
        /* An ordinary end: the results are out. */
        fprintf(stderr, "penstock: %s\n", err->message);
        return err->exit_code;
    }
    return pst_cli_end(st, cli->json, err);
}

int pst_cmd_train(const struct pst_command *command, int argc, char **argv)
{
    const char *plan_file = NULL;
    const struct pst_option options[] = {
        {"plan", 'p', "FILE", "run this plan instead of searching one", NULL, &plan_file},
    };
    bool json = pst_options_want_json(argc, argv), started = false, prints;
    struct pst_team team = {.n = 1};
    struct pst_cli_job job = {0};
    struct pst_error err = {0};
    struct pst_cli cli;
    int code;
    pst_status st = pst_options_parse(command, options, 1, argc, argv, &cli, &err);

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    pst_stop_install();
    st = pst_options_arguments(command, &cli, 1, 1, &err);
    if (st == PST_OK) {
        st = pst_cli_job_open(cli.arguments[0], &cli, &job, &err);
    }
    if (st == PST_OK) {
        st = pst_team_join(&job.job, plan_file, &team, &err);
    }
    if (st == PST_OK) {
        st = work(&job.job, &team, plan_file, &cli, &started, &err);
    }
    st = pst_team_settle(&team, st, &err, &prints);
    pst_cli_job_close(&job);
    code = prints ? end(st, started, &cli, &err) : st == PST_OK ? 0 : pst_error_exit_code(&err);
    pst_team_leave(&team, code);
    return code;
}
