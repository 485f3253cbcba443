/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/commands.h"

#include "commands/outputs.h"
#include "figures/stage_figure.h"
#include "train/session.h"
#include "train/stop.h"

static pst_status draw(const struct pst_session *session,
                       const struct pst_cli_stage_outputs *outputs, struct pst_error *err)
{
    pst_status st = PST_OK;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF && st == PST_OK; f++) {
        if (outputs->figures[f] != NULL) {
            st = pst_stage_figure_write_plan(session, outputs->figures[f],
                                             (enum pst_figure_format)f, err);
        }
    }
    return st;
}

int pst_cmd_plan(const struct pst_command *command, int argc, char **argv)
{
    const char *file = NULL;
    struct pst_cli_stage_outputs stages = {{NULL}};
    const struct pst_option options[] = {
        {"output", 'o', "FILE", "write the plan there", NULL, &file},
        PST_CLI_STAGE_OPTIONS(stages, "stages-"),
    };
    bool json = pst_options_want_json(argc, argv);
    struct pst_session *session = NULL;
    struct pst_cli_job job = {0};
    struct pst_error err = {0};
    struct pst_cli cli;
    pst_status st = pst_options_parse(command, options, sizeof options / sizeof *options, argc,
                                      argv, &cli, &err);

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    pst_stop_install();
    st = pst_options_arguments(command, &cli, 1, 1, &err);
    if (st == PST_OK) {
        st = pst_cli_job_open(cli.arguments[0], &cli, &job, &err);
    }
    if (st == PST_OK) {
        st = pst_session_create(&job.job, &session, &err);
    }
    if (st == PST_OK) {
        st = pst_session_plan(session, job.job.run.plan, pst_stop_requested, &err);
    }
    if (st == PST_OK) {
        st = draw(session, &stages, &err);
        st = st != PST_OK ? st : pst_cli_answer_plan(&cli, session, file, &err);
    } else if (st == PST_ERR_CANCELLED && pst_stop_requested()) {
        st = pst_stop_fail(&err);
    }
    pst_session_destroy(session);
    pst_cli_job_close(&job);
    return pst_cli_end(st, cli.json, &err);
}
