/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/ask_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/signals.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/print_error.h"
#include "commands/terminal.h"
#include "exchange/torch_csv.h"
#include "host/apart.h"
#include "host/search.h"
#include "host/shipped.h"

uint64_t pst_cli_read_limit(struct pst_cli *cli, const char *text, uint64_t usual_ns)
{
    uint64_t time_ns = usual_ns;

    if (text != NULL && !pst_parse_time(text, &time_ns)) {
        pst_cli_usage(cli, "--time-limit must be a time such as \"30 s\", not \"%s\"", text);
    }
    return time_ns;
}

void pst_cli_read_plugin(struct pst_cli *cli, const char *who, const char *text,
                         uint64_t *ret_time_ns, const char **ret_id, const char **ret_path)
{
    const char *name = cli->arguments[0];
    bool is_path = pst_search_is_file(name);

    *ret_id = is_path ? NULL : name;
    *ret_path = is_path ? name : NULL;
    *ret_time_ns = pst_cli_read_limit(cli, text, (uint64_t)600 * 1000000000u);
    if (cli->n_sets > 0) {
        pst_cli_usage(cli, "there is no config for --set; give the parameters of %s with --options",
                      who);
    }
}

void pst_cli_must_read_problem(struct pst_cli *cli, pst_status status)
{
    if (status != PST_OK && strcmp(cli->err.kind, "input.syntax") == 0) {
        pst_error_hint(&cli->err, "--problem needs a penstock-problem file");
    }
    pst_cli_must(cli, status);
}

struct pst_worker_task pst_cli_limits(uint64_t time_ns)
{
    return (struct pst_worker_task){.time_limit_ns = time_ns,
                                    .memory_limit_bytes = pst_worker_default_memory(),
                                    .cancelled = pst_stop_requested,
                                    .time_limit_name = "--time-limit"};
}

pst_status pst_cli_schedule_run(const struct pst_schedule_job *job, uint64_t time_ns,
                                struct pst_schedule_result *ret_result, struct pst_error *err)
{
    const struct pst_worker_task limits = pst_cli_limits(time_ns);
    bool foreign = false;
    pst_status status =
        pst_plugin_is_foreign("scheduler", job->id, job->path, NULL, time_ns, &foreign, err);

    if (status == PST_OK) {
        status = pst_schedule_job_run(job, foreign ? &limits : NULL, pst_stop_requested, ret_result,
                                      err);
    }
    return status;
}

struct pst_schedule_page pst_cli_schedule_page(const struct pst_cli *cli)
{
    return (struct pst_schedule_page){
        .width = pst_terminal_width(), .color = cli->color, .utf8 = pst_terminal_utf8()};
}

struct pst_order_question_costs pst_cli_unit_costs(void)
{
    return (struct pst_order_question_costs){
        .forward_ns = PST_SCHEDULE_SCALE,
        .backward_input_ns = PST_SCHEDULE_SCALE,
        .backward_weight_ns = PST_SCHEDULE_SCALE,
        .saved_bytes = PST_SCHEDULE_SCALE,
        .saved_weight_bytes = PST_SCHEDULE_SCALE,
        .limit_bytes = UINT64_MAX,
    };
}

void pst_cli_write_order(struct pst_cli *cli, const char *file,
                         const struct pst_schedule_result *result)
{
    char *text = NULL;

    pst_cli_must(cli, pst_torch_csv_of_answer(&result->asked, &result->answer, PST_TORCH_COMPUTE,
                                              &text, &cli->err));
    pst_cli_must(cli, pst_file_write(file, text, strlen(text), &cli->err));
    free(text);
}

/* Parameters of the command line take the place of those in the file. */
static void add_options(struct pst_cli *cli, const char *list, struct pst_problem *problem)
{
    struct pst_config *config = NULL;
    json_t *given;
    char *text;
    pst_status status = pst_config_from_list(list, &config, &cli->err);

    if (status != PST_OK && strcmp(cli->err.file, "--set") == 0) {
        snprintf(cli->err.file, sizeof cli->err.file, "--options");
    }
    pst_cli_must(cli, status);
    text = pst_config_to_json(config);
    given = json_loads(text, 0, NULL);
    if (problem->options == NULL) {
        problem->options = json_object();
    }
    if (given == NULL || problem->options == NULL ||
        json_object_update(problem->options, given) != 0) {
        pst_out_of_memory();
    }
    json_decref(given);
    free(text);
    pst_config_destroy(config);
}

void pst_cli_problem_read(struct pst_cli *cli, struct pst_cli_problem_request *request,
                          const char *who)
{
    pst_cli_read_plugin(cli, who, request->time_limit, &request->time_limit_ns, &request->id,
                        &request->path);
    if (request->problem_file == NULL) {
        pst_cli_usage(cli, "--problem is missing");
    }
    pst_cli_must_read_problem(
        cli, pst_problem_read(request->problem_file, &request->problem, &cli->err));
    if (request->options != NULL) {
        add_options(cli, request->options, request->problem);
    }
}

bool pst_cli_problem_solved(struct pst_cli *cli, const struct pst_cli_problem_request *request,
                            pst_status status, const char *key, const char *answer)
{
    struct pst_error *err = &cli->err;

    if (status == PST_ERR_CONFIG && err->file[0] == '\0' && strncmp(err->kind, "config.", 7) == 0) {
        snprintf(err->file, sizeof err->file, "%s",
                 request->options != NULL ? "--options" : request->problem_file);
    }
    if (status == PST_ERR_INFEASIBLE && cli->json) {
        pst_json_string(&cli->answer, key, request->id != NULL ? request->id : request->path);
        pst_json_bool(&cli->answer, answer, false);
        pst_error_add_json(&cli->answer, err);
        cli->code = pst_error_exit_code(err);
        return false;
    }
    pst_cli_must(cli, status);
    return true;
}
