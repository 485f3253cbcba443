/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/commands.h"

#include "base/util.h"
#include "commands/outputs.h"
#include "figures/stage_figure.h"
#include "page/page.h"
#include "session/session.h"

struct request {
    const char *file, *report;
    struct pst_cli_outputs stages;
};

static void plan(struct pst_cli *cli, void *asked)
{
    const struct request *request = asked;
    struct pst_cli_job job;

    if (request->report != NULL) {
        pst_cli_must(cli, pst_file_write_check(request->report, &cli->err));
    }
    pst_cli_job_open(cli, cli->arguments[0], &job);
    job.job.slim = request->report == NULL;
    pst_cli_must(cli, pst_session_create(&job.job, NULL, &job.session, &cli->err));
    pst_cli_must(
        cli, pst_cli_calibrate(cli, job.session, (uint32_t)job.job.train.microbatch, &cli->err));
    pst_cli_plan(cli, job.session, job.job.run.plan);
    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        if (request->stages.figures[f] != NULL) {
            pst_cli_must(cli, pst_stage_figure_write_plan(job.session, request->stages.figures[f],
                                                          (enum pst_figure_format)f, &cli->err));
        }
    }
    if (request->report != NULL) {
        pst_cli_must(cli, pst_page_write_plan(job.session, "plan", cli->arguments[0],
                                              request->report, &cli->err));
    }
    pst_cli_answer_plan(cli, job.session, request->file);
    pst_cli_job_close(&job);
}

static const struct pst_option options[] = {
    {"output", 'o', "FILE", "write the plan", PST_AT(file), 0},
    PST_CLI_FIGURE_OPTIONS(stages, "stages-", "draw the stages and their edges as SVG"),
    {"report", 0, "FILE", "write an HTML page: tables, timeline, stages", PST_AT(report), 0},
};

const struct pst_command pst_cmd_plan = {
    .name = "plan",
    .arguments = "CONFIG",
    .summary = "Searches for a plan and shows its cost",
    .text = "Prints stages, memory and the predicted time of a step; -o writes the plan to a file.",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = plan,
};
