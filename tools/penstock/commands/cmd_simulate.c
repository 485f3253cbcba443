/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock simulate CONFIG|PLAN`: the lists of a plan against the cost model of [cluster].
 */
#include <stdio.h>

#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/terminal.h"
#include "reports/sim_report.h"
#include "reports/timeline_text.h"
#include "train/session.h"

/* What the command line asks for. */
struct request {
    uint32_t n_steps; /* 0: not given */
    struct pst_cli_outputs outputs;
};

static pst_status answer(const struct pst_session *session, const struct request *request,
                         struct pst_cli *cli, struct pst_error *err)
{
    struct pst_timeline *timeline = NULL;
    struct pst_sim_result result;
    pst_status st = pst_sim_timeline(session->planned.plan, session->graph, &session->cost,
                                     request->n_steps == 0 ? 1 : request->n_steps,
                                     (const struct pst_program *const *)session->planned.programs,
                                     &timeline, &result, err);

    if (st == PST_OK) {
        st = pst_cli_write_outputs(&request->outputs, timeline, err);
    }
    if (st == PST_OK && cli->json) {
        pst_sim_report_json(session->planned.plan, timeline, &result, &cli->answer);
    } else if (st == PST_OK) {
        pst_sim_report_print(session, timeline, &result, cli->color, stdout);
        putchar('\n');
        pst_report_timeline(stdout, timeline, pst_terminal_width(), cli->color,
                            pst_terminal_utf8());
    }
    pst_timeline_destroy(timeline);
    return st;
}

static pst_status simulate(struct pst_cli *cli, void *request, struct pst_error *err)
{
    struct pst_cli_job job = {0};
    pst_status st = pst_cli_job_planned(cli, cli->arguments[0], &job, err);

    if (st == PST_OK) {
        st = answer(job.session, request, cli, err);
    }
    pst_cli_job_close(&job);
    return st;
}

static const struct pst_option options[] = {
    {"steps", 'n', "N", "simulate so many steps; 1 where it is not given", PST_AT(n_steps), 10000},
    PST_CLI_TIMELINE_OPTIONS(outputs),
};

const struct pst_command pst_cmd_simulate = {
    .name = "simulate",
    .arguments = "CONFIG|PLAN",
    .summary = "Times a plan without running it",
    .text = "Runs the plan's instruction lists against the cost model of [cluster]: step time, who "
            "waits,\nmemory over time. A config is planned first.",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .heeds_signals = true,
    .run = simulate,
};
