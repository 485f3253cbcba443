/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock partition NAME --problem FILE`: a partitioner on its own, on a costed graph.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "cli/print_error.h"
#include "cli/solo.h"
#include "plugin/solo_partition.h"
#include "report/partition_report.h"
#include "report/stage_figure.h"
#include "train/isolate.h"
#include "train/stop.h"

/* What the command line asks for. */
struct request {
    const char *problem_file, *options, *time_limit;
    uint64_t time_limit_ns;
    struct pst_cli_stage_outputs outputs;
    struct pst_problem *problem;
    struct pst_partition_job job;
};

/* Parameters of the command line take the place of those in the file. */
static pst_status add_options(struct request *request, struct pst_error *err)
{
    struct pst_config *config = NULL;
    struct pst_problem *problem = request->problem;
    json_t *given = NULL;
    char *text = NULL;
    pst_status st = pst_config_from_list(request->options, &config, err);

    if (st != PST_OK) {
        if (strcmp(err->file, "--set") == 0) {
            snprintf(err->file, sizeof err->file, "--options");
        }
        return st;
    }
    text = pst_config_to_json(config);
    given = text == NULL ? NULL : json_loads(text, 0, NULL);
    if (problem->options == NULL) {
        problem->options = json_object();
    }
    if (given == NULL || problem->options == NULL ||
        json_object_update(problem->options, given) != 0) {
        st = pst_fail_nomem(err);
    }
    json_decref(given);
    free(text);
    pst_config_destroy(config);
    return st;
}

static pst_status read_request(struct request *request, const struct pst_cli *cli,
                               struct pst_error *err)
{
    const char *name = cli->arguments[0];
    size_t n = strlen(name);
    bool is_path = strchr(name, '/') != NULL || (n > 3 && strcmp(name + n - 3, ".so") == 0);
    pst_status st;

    request->job.id = is_path ? NULL : name;
    request->job.path = is_path ? name : NULL;
    request->time_limit_ns = (uint64_t)600 * 1000000000u;
    if (cli->n_sets > 0) {
        return pst_fail(err, PST_ERR_CONFIG, "usage",
                        "partition: there is no config to --set; --options gives the partitioner "
                        "its parameters");
    }
    if (request->problem_file == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "usage", "partition: --problem is missing");
    }
    if (request->time_limit != NULL &&
        !pst_parse_time(request->time_limit, &request->time_limit_ns)) {
        return pst_fail(err, PST_ERR_CONFIG, "usage",
                        "partition: --time-limit is a time such as \"30 s\", not \"%s\"",
                        request->time_limit);
    }
    st = pst_problem_read(request->problem_file, &request->problem, err);
    if (st == PST_OK && request->options != NULL) {
        st = add_options(request, err);
    }
    request->job.problem = request->problem;
    return st;
}

/* One strategy from elsewhere, and all of them run in a process apart. */
static pst_status find_foreign(const struct request *request, bool *ret_foreign,
                               struct pst_error *err)
{
    const struct pst_problem *problem = request->problem;
    const struct {
        const char *kind, *name;
    } others[] = {{"scheduler", problem->scheduler}, {"memopt", problem->memopt}};
    pst_status st =
        pst_cli_is_foreign("partitioner", request->job.id, request->job.path, ret_foreign, err);

    for (size_t i = 0; st == PST_OK && i < sizeof others / sizeof others[0]; i++) {
        const char *name = others[i].name;
        bool foreign, is_path = name != NULL && strchr(name, '/') != NULL;

        if (problem->planned && name != NULL) {
            st = pst_cli_is_foreign(others[i].kind, is_path ? NULL : name, is_path ? name : NULL,
                                    &foreign, err);
            *ret_foreign = *ret_foreign || (st == PST_OK && foreign);
        }
    }
    return st;
}

static pst_status ask(const struct request *request, struct pst_partition_result *ret_result,
                      struct pst_error *err)
{
    const struct pst_solo_limits limits = {.time_ns = request->time_limit_ns,
                                           .memory_bytes = pst_isolate_default_memory(),
                                           .cancelled = pst_stop_requested};
    bool foreign;
    pst_status st = find_foreign(request, &foreign, err);

    if (st == PST_OK) {
        st = foreign ? pst_partition_solo_run_apart(&request->job, &limits, ret_result, err)
                     : pst_partition_solo_run(&request->job, pst_stop_requested, ret_result, err);
    }
    if (st == PST_ERR_CONFIG && err->file[0] == '\0' && strncmp(err->kind, "config.", 7) == 0) {
        snprintf(err->file, sizeof err->file, "%s",
                 request->options != NULL ? "--options" : request->problem_file);
    }
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? pst_stop_fail(err) : st;
}

static pst_status draw(const struct request *request, const struct pst_partition_result *result,
                       struct pst_error *err)
{
    pst_status st = PST_OK;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF && st == PST_OK; f++) {
        if (request->outputs.figures[f] != NULL) {
            st = pst_stage_figure_write_partition(request->problem, result,
                                                  request->outputs.figures[f],
                                                  (enum pst_figure_format)f, err);
        }
    }
    return st;
}

/* "No" is an answer as well. */
static void tell_infeasible(const struct request *request, const struct pst_error *err)
{
    const char *name = request->job.id != NULL ? request->job.id : request->job.path;
    struct pst_json json;
    char *text;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "partitioner", name);
    pst_json_bool(&json, "feasible", false);
    pst_error_add_json(&json, err);
    pst_json_end(&json, '}');
    text = pst_json_take(&json);
    printf("%s\n", text == NULL ? "{\"feasible\":false}" : text);
    free(text);
}

int pst_cmd_partition(const struct pst_command *command, int argc, char **argv)
{
    struct request request = {.problem_file = NULL};
    const struct pst_option options[] = {
        {"problem", 'p', "FILE", "costed graph, devices and what is asked", NULL,
         &request.problem_file},
        {"options", 'o', "LIST", "parameters of the partitioner: key=value,...", NULL,
         &request.options},
        {"time-limit", 0, "TIME", "for a partitioner that is not penstock's own; 10 min", NULL,
         &request.time_limit},
        PST_CLI_STAGE_OPTIONS(request.outputs, ""),
    };
    bool json = pst_options_want_json(argc, argv);
    struct pst_partition_result result = {.n_stages = 0};
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
        st = read_request(&request, &cli, &err);
    }
    if (st == PST_OK) {
        st = ask(&request, &result, &err);
    }
    if (st == PST_OK) {
        st = draw(&request, &result, &err);
    }
    if (st == PST_OK && cli.json) {
        st = pst_cli_print_json(pst_partition_report_json(request.problem, &result), &err);
    } else if (st == PST_OK) {
        pst_partition_report_print(request.problem, &result, cli.color, stdout);
    }
    if (st == PST_ERR_INFEASIBLE && cli.json) {
        tell_infeasible(&request, &err);
        code = pst_cli_end(PST_OK, true, &err);
        code = code == 0 ? pst_error_exit_code(&err) : code;
    } else {
        code = pst_cli_end(st, cli.json, &err);
    }
    pst_partition_result_finish(&result);
    pst_problem_destroy(request.problem);
    return code;
}
