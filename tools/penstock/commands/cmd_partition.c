/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock partition NAME --problem FILE`: a partitioner on its own, on a costed graph.
 */
#include <stdio.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/solo.h"
#include "planner/problem_partition.h"
#include "tune/partition_advise.h"
#include "tune/smallest.h"
#include "reports/partition_report.h"
#include "figures/stage_figure.h"
#include "train/isolate.h"
#include "train/stop.h"

/* What the command line asks for. */
struct request {
    struct pst_cli_problem_request asked;
    struct pst_cli_outputs outputs;
};

/* One strategy from elsewhere, and all of them run in a process apart. */
static pst_status find_foreign(const struct request *request, bool *ret_foreign,
                               struct pst_error *err)
{
    const struct pst_problem *problem = request->asked.problem;
    const struct {
        const char *kind, *name;
    } others[] = {{"scheduler", problem->scheduler}, {"memopt", problem->memopt}};
    pst_status st = pst_plugin_is_foreign("partitioner", request->asked.id, request->asked.path,
                                          ret_foreign, err);

    for (size_t i = 0; st == PST_OK && i < sizeof others / sizeof others[0]; i++) {
        const char *name = others[i].name;
        bool is_path = name != NULL && strchr(name, '/') != NULL;

        if (problem->planned && name != NULL) {
            st = pst_plugin_is_foreign(others[i].kind, is_path ? NULL : name, is_path ? name : NULL,
                                       ret_foreign, err);
        }
    }
    return st;
}

static pst_status ask(const struct request *request, struct pst_partition_result *ret_result,
                      struct pst_error *err)
{
    const struct pst_problem_job job = {
        .id = request->asked.id, .path = request->asked.path, .problem = request->asked.problem};
    const struct pst_worker_task limits = pst_cli_limits(request->asked.time_limit_ns);
    bool foreign = false;
    pst_status st = find_foreign(request, &foreign, err);

    if (st == PST_OK) {
        st = pst_problem_partition(&job, foreign ? &limits : NULL, pst_stop_requested, ret_result,
                                   err);
    }
    if (pst_smallest_may_help(st)) {
        st = pst_problem_partition_advise(&job, foreign ? &limits : NULL, pst_stop_requested,
                                          ret_result, err);
    }
    return pst_cli_problem_blame(&request->asked, st, err);
}

static pst_status draw(const struct request *request, const struct pst_partition_result *result,
                       struct pst_error *err)
{
    pst_status st = PST_OK;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF && st == PST_OK; f++) {
        if (request->outputs.figures[f] != NULL) {
            st = pst_stage_figure_write_partition(request->asked.problem, result,
                                                  request->outputs.figures[f],
                                                  (enum pst_figure_format)f, err);
        }
    }
    return st;
}

static pst_status partition(struct pst_cli *cli, void *asked, struct pst_error *err)
{
    struct request *request = asked;
    struct pst_partition_result result = {.n_stages = 0};
    pst_status st = pst_cli_problem_read(&request->asked, cli, "the partitioner", err);

    if (st == PST_OK && request->asked.problem->no_devices) {
        st = pst_fail_at(err, PST_ERR_CONFIG, "config.key", request->asked.problem_file, 0, 0,
                         "\"devices\" is missing");
    }
    if (st == PST_OK) {
        st = ask(request, &result, err);
    }
    if (st == PST_OK) {
        st = draw(request, &result, err);
    }
    if (st == PST_OK && cli->json) {
        pst_partition_report_json(request->asked.problem, &result, &cli->answer);
    } else if (st == PST_OK) {
        pst_partition_report_print(request->asked.problem, &result, cli->color, stdout);
    }
    pst_partition_result_finish(&result);
    return pst_cli_problem_end(&request->asked, cli, st, "partitioner", "feasible", err);
}

static const struct pst_option options[] = {
    PST_CLI_PROBLEM_OPTIONS(asked, "costed graph, devices and what is asked", "partitioner",
                            "a partitioner"),
    PST_CLI_FIGURE_OPTIONS(outputs, "", "draw the stages and their edges there"),
};

const struct pst_command pst_cmd_partition = {
    .name = "partition",
    .arguments = "NAME|FILE",
    .summary = "Shows what a partitioner does, on its own",
    .text = "Cuts a costed graph into stages for the devices of a problem file, and says what they "
            "take "
            "by\nthe reference cost model: time per sample, memory, a simulated step. A NAME is an "
            "id, a "
            "FILE a\nplugin with a slash in its path.",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .heeds_signals = true,
    .run = partition,
};
