/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock simulate CONFIG|PLAN`: the lists of a plan against the cost model of [cluster].
 */
#include <stdio.h>

#include "base/signals.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/searching.h"
#include "commands/terminal.h"
#include "page/page.h"
#include "reports/sim_report.h"
#include "reports/timeline_text.h"
#include "session/session.h"

/* The request of the command line. */
struct request {
    uint32_t n_steps; /* 0: not given */
    struct pst_cli_outputs outputs;
    const char *report;
};

/* Curves of memory take far more room than all else. */
static bool shows_memory(const struct pst_cli *cli, const struct request *request)
{
    bool shown = cli->json || request->outputs.trace != NULL;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        shown |= request->outputs.figures[f] != NULL;
    }
    return shown;
}

static void simulate(struct pst_cli *cli, void *asked)
{
    const struct request *request = asked;
    struct pst_timeline *timeline = NULL;
    struct pst_sim_result result;
    char digest[PST_CLI_DIGEST];
    struct pst_trace_meta meta = {NULL};
    struct pst_cli_job job;
    const struct pst_session *session;
    const struct pst_program *const *programs;
    const bool memory = shows_memory(cli, request);

    if (request->report != NULL) {
        pst_cli_must(cli, pst_file_write_check(request->report, &cli->err));
    }
    pst_cli_job_planned(cli, cli->arguments[0], memory || request->report != NULL, &job);
    session = job.session;
    programs = (const struct pst_program *const *)session->planned.programs;
    pst_stop_grace(0);
    pst_searching_begin(cli, "simulating");
    pst_cli_must(cli, pst_sim_timeline(session->planned.plan, session->graph, session->shown,
                                       request->n_steps == 0 ? 1 : request->n_steps,
                                       session->simulated.period_ns, memory ? programs : NULL,
                                       &timeline, &result, &cli->err));
    pst_searching_end();
    if (request->outputs.trace != NULL) {
        meta = pst_cli_trace_meta(session, cli->arguments[0], digest);
    }
    pst_cli_write_outputs(cli, &request->outputs, timeline, &meta);
    if (request->report != NULL) {
        pst_cli_must(cli, pst_page_write_plan(session, "simulate", cli->arguments[0],
                                              request->report, &cli->err));
    }
    if (cli->json) {
        pst_sim_report_json(session, timeline, &result, &cli->answer);
    } else {
        pst_sim_report_print(session, timeline, &result, cli->color, stdout);
        putchar('\n');
        pst_report_timeline(stdout, timeline, pst_terminal_width(), cli->color,
                            pst_terminal_utf8());
    }
    pst_timeline_destroy(timeline);
    pst_cli_job_close(&job);
}

static const struct pst_option options[] = {
    {"steps", 'n', "N", "number of steps to simulate; 1", PST_AT(n_steps), 10000},
    PST_CLI_TIMELINE_OPTIONS(outputs),
    {"report", 0, "FILE", "write an HTML page: tables, timeline, stages", PST_AT(report), 0},
};

const struct pst_command pst_cmd_simulate = {
    .name = "simulate",
    .arguments = "CONFIG|PLAN",
    .summary = "Predicts the time of a plan without running it",
    .text = "Simulates the plan's instruction lists with the cost model of [cluster]: step time, "
            "waits,\nmemory over time. A config is planned first.",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = simulate,
};
