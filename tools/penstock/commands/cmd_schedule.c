/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock schedule NAME`: a scheduler on its own, on numbers instead of a model.
 */
#include <stdio.h>

#include "commands/commands.h"
#include "commands/schedule_limit.h"
#include "commands/schedule_request.h"
#include "commands/solo.h"
#include "train/stop.h"

static pst_status write_files(const struct pst_schedule_request *request,
                              const struct pst_schedule_figures *figures, struct pst_error *err)
{
    pst_status st = pst_cli_write_outputs(&request->outputs, figures->timeline, err);

    if (st == PST_OK && request->csv != NULL) {
        st = pst_cli_write_order(request->csv, figures->result, err);
    }
    return st;
}

static pst_status tell(const struct pst_schedule_request *request,
                       const struct pst_solo_result *result, const struct pst_cli *cli,
                       struct pst_error *err)
{
    struct pst_schedule_page page = pst_cli_schedule_page(cli);
    struct pst_schedule_figures figures;
    struct pst_schedule_units units;
    char title[160];
    pst_status st;

    page.in_samples = request->problem_file != NULL;
    pst_schedule_request_units(request, result, &units, title, sizeof title);
    st = pst_schedule_figures_init(result, request->n_steps, &units, &figures, err);
    if (st != PST_OK) {
        return st;
    }
    st = pst_schedule_limit_check(request, &figures, err);
    if (st == PST_OK) {
        st = write_files(request, &figures, err);
    }
    if (st == PST_OK && cli->json) {
        st = pst_cli_print_json(pst_schedule_report_json(&figures, page.in_samples), err);
    } else if (st == PST_OK) {
        pst_schedule_report_print(&figures, &page, stdout);
    }
    pst_schedule_figures_finish(&figures);
    return st;
}

int pst_cmd_schedule(const struct pst_command *command, int argc, char **argv)
{
    struct pst_schedule_request request = {.n_steps = 1};
    const struct pst_option options[] = {
        {"devices", 'd', "P", "devices", NULL, &request.devices},
        {"microbatches", 'm', "M", "micro-batches of a step", NULL, &request.microbatches},
        {"cost", 0, "LIST", "of one device's share of the model: f=1,b=1,w=1", NULL, &request.cost},
        {"comm", 0, "C", "latency between two devices; 0", NULL, &request.comm},
        {"aw", 0, "X", "part of a saved activation that W alone needs; 1", NULL, &request.aw},
        {"memory-limit", 0, "X", "micro-batches of a device's share that it may hold", NULL,
         &request.memory_limit},
        {"options", 'o', "LIST", "parameters of the scheduler: key=value,...", NULL,
         &request.options},
        {"steps", 'n', "N", "so many steps, or batches of an asynchronous schedule; 1", NULL,
         &request.steps},
        {"barrier", 0, NULL, "tell the scheduler that a step costs its makespan", &request.barrier,
         NULL},
        {"problem", 0, "FILE", "stages and links of their own instead of equal shares", NULL,
         &request.problem_file},
        {"time-limit", 0, "TIME", "for a scheduler that is not penstock's own; 10 min", NULL,
         &request.time_limit},
        PST_CLI_OUTPUT_OPTIONS(request.outputs),
        {"csv" /* the form */, 0, "FILE", "write the order as PyTorch's schedule CSV", NULL,
         &request.csv},
    };
    bool json = pst_options_want_json(argc, argv);
    struct pst_solo_result result = {.scale = 1};
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
        st = pst_schedule_request_read(&request, &cli, &err);
    }
    if (st == PST_OK) {
        st = pst_cli_solo_run(&request.job, request.time_limit_ns, &result, &err);
        st = st == PST_ERR_INFEASIBLE ? pst_schedule_limit_explain(&request, &err) : st;
    }
    if (st == PST_OK) {
        st = tell(&request, &result, &cli, &err);
    }
    pst_solo_result_finish(&result);
    pst_schedule_request_finish(&request);
    return pst_cli_end(st, cli.json, &err);
}
