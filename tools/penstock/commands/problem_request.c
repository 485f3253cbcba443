/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/problem_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/print_error.h"
#include "train/stop.h"

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
                                const char *command, const char *who, struct pst_error *err)
{
    const char *name = cli->arguments[0];
    size_t n = strlen(name);
    bool is_path = strchr(name, '/') != NULL || (n > 3 && strcmp(name + n - 3, ".so") == 0);
    pst_status st;

    request->id = is_path ? NULL : name;
    request->path = is_path ? name : NULL;
    request->time_limit_ns = (uint64_t)600 * 1000000000u;
    if (cli->n_sets > 0) {
        return pst_fail(err, PST_ERR_CONFIG, "usage",
                        "%s: there is no config to --set; --options gives %s its parameters",
                        command, who);
    }
    if (request->problem_file == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "usage", "%s: --problem is missing", command);
    }
    if (request->time_limit != NULL &&
        !pst_parse_time(request->time_limit, &request->time_limit_ns)) {
        return pst_fail(err, PST_ERR_CONFIG, "usage",
                        "%s: --time-limit is a time such as \"30 s\", not \"%s\"", command,
                        request->time_limit);
    }
    st = pst_problem_read(request->problem_file, &request->problem, err);
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
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? pst_stop_fail(err) : st;
}

int pst_cli_problem_no(const struct pst_cli_problem_request *request, const char *key,
                       const char *answer, const struct pst_error *err)
{
    struct pst_error none = {0};
    struct pst_json json;
    char *text;
    int code;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, key, request->id != NULL ? request->id : request->path);
    pst_json_bool(&json, answer, false);
    pst_error_add_json(&json, err);
    pst_json_end(&json, '}');
    text = pst_json_take(&json);
    printf("%s\n", text);
    free(text);
    code = pst_cli_end(PST_OK, true, &none);
    return code == 0 ? pst_error_exit_code(err) : code;
}
