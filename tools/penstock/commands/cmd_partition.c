/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock partition NAME --problem FILE`: a partitioner on its own, on a costed graph.
 */
#include <stdio.h>

#include "ask/problem_partition.h"
#include "base/signals.h"
#include "commands/ask_plugin.h"
#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/searching.h"
#include "figures/stage_figure.h"
#include "host/search.h"
#include "reports/partition_report.h"
#include "session/isolate.h"
#include "tune/partition_advise.h"
#include "tune/smallest.h"

/* The request of the command line. */
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
    pst_status status = pst_plugin_is_foreign("partitioner", request->asked.id, request->asked.path,
                                              NULL, request->asked.time_limit_ns, ret_foreign, err);

    for (size_t i = 0; status == PST_OK && i < sizeof others / sizeof others[0]; i++) {
        const char *name = others[i].name;
        bool is_path = name != NULL && pst_search_is_file(name);

        if (problem->planned && name != NULL) {
            status =
                pst_plugin_is_foreign(others[i].kind, is_path ? NULL : name, is_path ? name : NULL,
                                      NULL, request->asked.time_limit_ns, ret_foreign, err);
        }
    }
    return status;
}

static pst_status ask(const struct request *request, struct pst_partition_result *ret_result,
                      struct pst_error *err)
{
    const struct pst_problem_job job = {
        .id = request->asked.id, .path = request->asked.path, .problem = request->asked.problem};
    const struct pst_worker_task limits = pst_cli_limits(request->asked.time_limit_ns);
    bool foreign = false;
    pst_status status = find_foreign(request, &foreign, err);

    if (status == PST_OK) {
        status = pst_problem_partition(&job, foreign ? &limits : NULL, pst_stop_requested,
                                       ret_result, err);
    }
    if (status != PST_OK && pst_smallest_may_help(err)) {
        status = pst_problem_partition_advise(&job, foreign ? &limits : NULL, pst_stop_requested,
                                              ret_result, err);
    }
    return status;
}

static void answer(struct pst_cli *cli, const struct request *request,
                   const struct pst_partition_result *result)
{
    const struct pst_problem *problem = request->asked.problem;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        if (request->outputs.figures[f] != NULL) {
            pst_cli_must(
                cli, pst_stage_figure_write_partition(problem, result, request->outputs.figures[f],
                                                      (enum pst_figure_format)f, &cli->err));
        }
    }
    if (cli->json) {
        pst_partition_report_json(problem, result, &cli->answer);
    } else {
        pst_partition_report_print(problem, result, cli->color, stdout);
    }
}

static void partition(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    struct pst_partition_result result = {.n_stages = 0};
    pst_status status;

    pst_cli_problem_read(cli, &request->asked, "the partitioner");
    if (request->asked.problem->no_devices) {
        pst_cli_must(cli, pst_fail_at(&cli->err, PST_ERR_CONFIG, "config.key",
                                      request->asked.problem_file, 0, 0, "\"devices\" is missing"));
    }
    pst_searching_begin(cli, "asking the partitioner");
    status = ask(request, &result, &cli->err);
    pst_searching_end();
    if (pst_cli_problem_solved(cli, &request->asked, status, "partitioner", "feasible")) {
        answer(cli, request, &result);
    }
    pst_partition_result_finish(&result);
    pst_problem_destroy(request->asked.problem);
}

static const struct pst_option options[] = {
    PST_CLI_PROBLEM_OPTIONS(asked, "costed graph, devices and settings", "partitioner",
                            "a partitioner"),
    PST_CLI_FIGURE_OPTIONS(outputs, "", "draw the stages and their edges as SVG"),
};

const struct pst_command pst_cmd_partition = {
    .name = "partition",
    .arguments = "NAME|FILE",
    .summary = "Runs a partitioner alone and shows its stages",
    .text = "Cuts a costed graph into stages for the devices of a problem file, and shows their "
            "cost by\nthe reference cost model: time per sample, memory, a simulated step. A NAME "
            "is an id, a\nFILE a path that ends in .so or begins with / or a dot.",
    .asks = "partitioner",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = partition,
};
