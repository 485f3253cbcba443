/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock simulate CONFIG|PLAN`: the lists of a plan against the cost model of [cluster].
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/terminal.h"
#include "reports/sim_report.h"
#include "reports/timeline_text.h"
#include "train/session.h"
#include "train/stop.h"

#define STEPS_MOST 10000u

/* What the command line asks for. */
struct request {
    const char *steps_text;
    struct pst_cli_outputs outputs;
    uint32_t n_steps;
};

static pst_status read_request(struct request *request, struct pst_error *err)
{
    const char *text = request->steps_text;
    char *end = NULL;

    request->n_steps = 1;
    if (text != NULL) {
        unsigned long n;

        errno = 0;
        n = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
        if (n < 1 || n > STEPS_MOST || *end != '\0' || errno != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "usage",
                            "--steps must be a number from 1 to %u, not \"%s\"", STEPS_MOST, text);
        }
        request->n_steps = (uint32_t)n;
    }
    return PST_OK;
}

static pst_status answer(const struct pst_session *session, const struct request *request,
                         const struct pst_cli *cli, struct pst_error *err)
{
    struct pst_timeline *timeline = NULL;
    struct pst_sim_result result;
    pst_status st = pst_sim_timeline(
        session->planned.plan, session->graph, &session->cost, request->n_steps,
        (const struct pst_program *const *)session->planned.programs, &timeline, &result, err);

    if (st == PST_OK) {
        st = pst_cli_write_outputs(&request->outputs, timeline, err);
    }
    if (st == PST_OK && cli->json) {
        st = pst_cli_print_json(pst_sim_report_json(session->planned.plan, timeline, &result), err);
    } else if (st == PST_OK) {
        pst_sim_report_print(session, timeline, &result, cli->color, stdout);
        putchar('\n');
        pst_report_timeline(stdout, timeline, pst_terminal_width(), cli->color,
                            pst_terminal_utf8());
    }
    pst_timeline_destroy(timeline);
    return st;
}

int pst_cmd_simulate(const struct pst_command *command, int argc, char **argv)
{
    struct request request = {0};
    const struct pst_option options[] = {
        {"steps", 'n', "N", "simulate so many steps; 1 where it is not given", NULL,
         &request.steps_text},
        PST_CLI_OUTPUT_OPTIONS(request.outputs),
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
        st = read_request(&request, &err);
    }
    if (st == PST_OK) {
        st = pst_cli_session_open(&cli, cli.arguments[0], &job, &session, &err);
    }
    if (st == PST_OK) {
        st = answer(session, &request, &cli, &err);
    }
    pst_session_destroy(session);
    pst_cli_job_close(&job);
    return pst_cli_end(st, cli.json, &err);
}
