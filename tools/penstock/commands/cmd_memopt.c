/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock memopt NAME --problem FILE`: a memory optimizer on its own, on a costed graph.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/print_error.h"
#include "commands/problem_request.h"
#include "planner/problem_memopt.h"
#include "figures/memopt_figure.h"
#include "reports/memopt_report.h"
#include "train/isolate.h"
#include "train/stop.h"

/* After a refusal with *err that says how much would do: asks again with that, and takes it back
   where it does not. Returns err->status; PST_ERR_CANCELLED. */
static pst_status confirm(const struct pst_problem_job *job, const struct pst_worker_task *limits,
                          struct pst_error *err)
{
    struct pst_problem problem = *job->problem;
    const struct pst_problem_job asked = {.id = job->id, .path = job->path, .problem = &problem};
    struct pst_memopt_result result;
    struct pst_error why;
    pst_status st;

    if (err->enough_bytes == 0) {
        return err->status;
    }
    problem.memory_bytes = (double)err->enough_bytes;
    st = pst_problem_memopt(&asked, limits, pst_stop_requested, &result, &why);
    if (st == PST_OK) {
        pst_memopt_result_finish(&result);
    } else if (st == PST_ERR_CANCELLED) {
        *err = why;
    } else {
        pst_error_hint(err, "it names a capacity that it cannot do with");
        err->enough_bytes = 0;
    }
    return err->status;
}

static pst_status ask(const struct pst_cli_problem_request *request,
                      struct pst_memopt_result *ret_result, struct pst_error *err)
{
    const struct pst_problem_job job = {
        .id = request->id, .path = request->path, .problem = request->problem};
    const struct pst_worker_task limits = pst_cli_limits(request->time_limit_ns);
    bool foreign = false;
    pst_status st = pst_plugin_is_foreign("memopt", request->id, request->path, &foreign, err);

    if (st == PST_OK) {
        st =
            pst_problem_memopt(&job, foreign ? &limits : NULL, pst_stop_requested, ret_result, err);
    }
    if (st == PST_ERR_INFEASIBLE) {
        st = confirm(&job, foreign ? &limits : NULL, err);
    }
    return pst_cli_problem_blame(request, st, err);
}

static pst_status draw(const struct pst_cli_outputs *outputs,
                       const struct pst_memopt_result *result, struct pst_error *err)
{
    struct pst_timeline *timeline = NULL;
    bool wanted = false;
    pst_status st;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        wanted |= outputs->figures[f] != NULL;
    }
    if (!wanted) {
        return PST_OK;
    }
    pst_memopt_timeline(result, &timeline);
    st = pst_cli_write_outputs(outputs, timeline, err);
    pst_timeline_destroy(timeline);
    return st;
}

int pst_cmd_memopt(const struct pst_command *command, int argc, char **argv)
{
    struct pst_cli_problem_request request = {.problem_file = NULL};
    struct pst_cli_outputs outputs = {.trace = NULL};
    const struct pst_option options[] = {
        {"problem", 'p', "FILE", "costed graph and what its stage has", NULL,
         &request.problem_file},
        {"options", 'o', "LIST", "parameters of the memory optimizer: key=value,...", NULL,
         &request.options},
        {"time-limit", 0, "TIME", "for an optimizer that is not penstock's own; 10 min", NULL,
         &request.time_limit},
        {"svg", 0, "FILE", "draw the memory of the stage there", NULL,
         &outputs.figures[PST_FIGURE_SVG]},
        {"png", 0, "FILE", "the same as pixels", NULL, &outputs.figures[PST_FIGURE_PNG]},
        {"pdf", 0, "FILE", "the same as a page", NULL, &outputs.figures[PST_FIGURE_PDF]},
    };
    bool json = pst_options_want_json(argc, argv);
    struct pst_memopt_result result = {.n_events = 0};
    struct pst_error err = {0};
    struct pst_cli cli;
    pst_status st = pst_options_parse(command, options, sizeof options / sizeof *options, argc,
                                      argv, &cli, &err);
    int code;

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    pst_stop_install();
    st = pst_options_arguments(command, &cli, 1, 1, &err);
    if (st == PST_OK) {
        st = pst_cli_problem_read(&request, &cli, "memopt", "the memory optimizer", &err);
    }
    if (st == PST_OK) {
        st = ask(&request, &result, &err);
    }
    if (st == PST_OK) {
        st = draw(&outputs, &result, &err);
    }
    if (st == PST_OK && cli.json) {
        st = pst_cli_print_json(pst_memopt_report_json(&result), &err);
    } else if (st == PST_OK) {
        pst_memopt_report_print(&result, cli.color, stdout);
    }
    if (st == PST_ERR_INFEASIBLE && cli.json) {
        code = pst_cli_problem_no(&request, "memopt", "fits", &err);
    } else {
        code = pst_cli_end(st, cli.json, &err);
    }
    pst_memopt_result_finish(&result);
    pst_problem_destroy(request.problem);
    return code;
}
