/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock schedule NAME`: a scheduler on its own, on numbers instead of a model.
 */
#include <stdio.h>

#include "commands/commands.h"
#include "commands/schedule_limit.h"
#include "commands/schedule_request.h"
#include "commands/solo.h"

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
                       const struct pst_solo_result *result, struct pst_cli *cli,
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
        pst_schedule_report_json(&figures, page.in_samples, &cli->answer);
    } else if (st == PST_OK) {
        pst_schedule_report_print(&figures, &page, stdout);
    }
    pst_schedule_figures_finish(&figures);
    return st;
}

static pst_status schedule(struct pst_cli *cli, void *asked, struct pst_error *err)
{
    struct pst_schedule_request *request = asked;
    struct pst_solo_result result = {.scale = 1};
    pst_status st = pst_schedule_request_read(request, cli, err);

    if (st == PST_OK) {
        st = pst_cli_solo_run(&request->job, request->time_limit_ns, &result, err);
        st = st == PST_ERR_INFEASIBLE ? pst_schedule_limit_explain(request, err) : st;
    }
    if (st == PST_OK) {
        st = tell(request, &result, cli, err);
    }
    pst_solo_result_finish(&result);
    pst_schedule_request_finish(request);
    return st;
}

#define AT(field) offsetof(struct pst_schedule_request, field)

static const struct pst_option options[] = {
    {"devices", 'd', "P", "devices", AT(n_devices), 65536},
    {"microbatches", 'm', "M", "micro-batches of a step", AT(n_microbatches), 1000000},
    {"cost", 0, "LIST", "of one device's share of the model: f=1,b=1,w=1", AT(cost), 0},
    {"comm", 0, "C", "latency between two devices; 0", AT(comm), 0},
    {"aw", 0, "X", "part of a saved activation that W alone needs; 1", AT(aw), 0},
    {"memory-limit", 0, "X", "micro-batches of a device's share that it may hold", AT(memory_limit),
     0},
    {"options", 'o', "LIST", "parameters of the scheduler: key=value,...", AT(options), 0},
    {"steps", 'n', "N", "so many steps, or batches of an asynchronous schedule; 1", AT(n_steps),
     100000},
    {"barrier", 0, NULL, "tell the scheduler that a step costs its makespan", AT(barrier), 0},
    {"problem", 0, "FILE", "stages and links of their own instead of equal shares",
     AT(problem_file), 0},
    {"time-limit", 0, "TIME", "for a scheduler that is not penstock's own; 10 min", AT(time_limit),
     0},
    PST_CLI_TIMELINE_OPTIONS(struct pst_schedule_request, outputs),
    {"csv" /* the form */, 0, "FILE", "write the order as PyTorch's schedule CSV", AT(csv), 0},
};

const struct pst_command pst_cmd_schedule = {
    .name = "schedule",
    .arguments = "NAME|FILE",
    .summary = "Shows what a scheduler does, on its own",
    .text =
        "Prints makespan, span, bubble, peaks and a timeline for equal shares of a model on so "
        "many\n"
        "devices. Costs count per pass of one micro-batch through a device's whole share: with v "
        "stages\non a device each costs 1/v of it. A NAME is an id, a FILE a plugin with a slash "
        "in "
        "its path.",
    .min_words = 1,
    .max_words = 1,
    PST_CLI_OPTIONS(options),
    .request_size = sizeof(struct pst_schedule_request),
    .heeds_signals = true,
    .run = schedule,
};
