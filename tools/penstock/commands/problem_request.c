/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/problem_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "commands/commands.h"
#include "commands/print_error.h"

/* Parameters of the command line take the place of those in the file. */
static pst_status add_options(struct pst_cli_problem_request *request, struct pst_error *err)
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
    return st;
}

pst_status pst_cli_problem_read(struct pst_cli_problem_request *request, const struct pst_cli *cli,
                                const char *who, struct pst_error *err)
{
    pst_status st = pst_cli_read_solo(cli, who, request->time_limit, &request->time_limit_ns,
                                      &request->id, &request->path, err);

    if (st == PST_OK && request->problem_file == NULL) {
        st = pst_cli_usage(cli, err, "--problem is missing");
    }
    if (st == PST_OK) {
        st = pst_problem_read(request->problem_file, &request->problem, err);
    }
    if (st == PST_OK && request->options != NULL) {
        st = add_options(request, err);
    }
    return st;
}

pst_status pst_cli_problem_blame(const struct pst_cli_problem_request *request, pst_status st,
                                 struct pst_error *err)
{
    if (st == PST_ERR_CONFIG && err->file[0] == '\0' && strncmp(err->kind, "config.", 7) == 0) {
        snprintf(err->file, sizeof err->file, "%s",
                 request->options != NULL ? "--options" : request->problem_file);
    }
    return st;
}

pst_status pst_cli_problem_end(struct pst_cli_problem_request *request, struct pst_cli *cli,
                               pst_status st, const char *key, const char *answer,
                               struct pst_error *err)
{
    if (st == PST_ERR_INFEASIBLE && cli->json) {
        pst_json_string(&cli->answer, key, request->id != NULL ? request->id : request->path);
        pst_json_bool(&cli->answer, answer, false);
        pst_error_add_json(&cli->answer, err);
        cli->code = pst_error_exit_code(err);
        st = PST_OK;
    }
    pst_problem_destroy(request->problem);
    return st;
}
