/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock compare CONFIG...`: every combination that [compare] lists, side by side.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "commands/combinations.h"
#include "train/stop.h"

#define STEPS_MOST 1000000u

struct request {
    bool run;
    const char *steps_text, *csv, *plans;
    uint32_t n_steps; /* of a run */
};

static pst_status read_request(struct request *request, struct pst_error *err)
{
    const char *text = request->steps_text;
    char *end = NULL;

    request->n_steps = 20;
    if (text != NULL) {
        unsigned long n = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;

        if (n < 1 || n > STEPS_MOST || *end != '\0') {
            return pst_fail(err, PST_ERR_CONFIG, "usage",
                            "--steps must be a number from 1 to %u, not \"%s\"", STEPS_MOST, text);
        }
        request->n_steps = (uint32_t)n;
        if (!request->run) {
            return pst_fail(err, PST_ERR_CONFIG, "usage", "--steps is of a run: add --run");
        }
    }
    if (request->plans != NULL && mkdir(request->plans, 0777) != 0 && errno != EEXIST) {
        return pst_fail(err, PST_ERR_IO, "output.write", "cannot make the folder %s: %s",
                        request->plans, strerror(errno));
    }
    return request->csv == NULL ? PST_OK : pst_file_write_check(request->csv, err);
}

/* FOLDER/0007.json for record 7. */
static pst_status write_plan(const char *folder, uint32_t i, struct pst_trial *trial,
                             struct pst_error *err)
{
    size_t size = strlen(folder) + 32;
    char *path = malloc(size);
    pst_status st;

    if (path == NULL) {
        return pst_fail_nomem(err);
    }
    snprintf(path, size, "%s/%04u.json", folder, i);
    st = pst_file_write(path, trial->plan, strlen(trial->plan), err);
    free(path);
    free(trial->plan);
    trial->plan = NULL;
    return st;
}

static pst_status keep_plan(void *context, const struct pst_compare_result *result, uint32_t i,
                            struct pst_error *err)
{
    const struct request *request = context;
    struct pst_trial *trial = &result->records[i].trial;

    return trial->plan == NULL ? PST_OK : write_plan(request->plans, i, trial, err);
}

static pst_status write_csv(const char *file, const struct pst_compare_result *result,
                            struct pst_error *err)
{
    char *text = pst_compare_report_csv(result);
    pst_status st =
        text == NULL ? pst_fail_nomem(err) : pst_file_write(file, text, strlen(text), err);

    free(text);
    return st;
}

static pst_status compare(const struct pst_cli *cli, struct request *request, int *ret_code,
                          struct pst_error *err)
{
    struct pst_compare_result result = {.run = request->run};
    struct pst_cli_trials trials = {
        .options = {.run_steps = request->run ? request->n_steps : 0,
                    .keep_plan = request->plans != NULL},
        .each = keep_plan,
        .context = request,
    };
    struct pst_cli_sets sets;
    pst_status st = pst_cli_sets_open(cli, &sets, err);

    if (st != PST_OK) {
        return st;
    }
    st = pst_cli_try_all(cli, &sets, &trials, &result, err);
    if (st == PST_OK && request->csv != NULL) {
        st = write_csv(request->csv, &result, err);
    }
    if (st == PST_OK) {
        st = pst_cli_answer_trials(cli, &result, err);
    }
    *ret_code = pst_cli_trials_code(&result);
    pst_cli_trials_finish(&result);
    pst_cli_sets_close(&sets);
    return st;
}

int pst_cmd_compare(const struct pst_command *command, int argc, char **argv)
{
    struct request request = {0};
    const struct pst_option options[] = {
        {"run", 'r', NULL, "run each combination for some steps, too", &request.run, NULL},
        {"steps", 'n', "N", "steps of a run; 20 where it is not given", NULL, &request.steps_text},
        {"output", 'o', "FILE", "write the table as comma-separated values", NULL, &request.csv},
        {"plans", 0, "FOLDER", "write the plan of each combination there", NULL, &request.plans},
    };
    bool json = pst_options_want_json(argc, argv);
    struct pst_error err = {0};
    struct pst_cli cli;
    int code = 0, ended;
    pst_status st = pst_options_parse(command, options, sizeof options / sizeof *options, argc,
                                      argv, &cli, &err);

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    pst_stop_install();
    st = pst_options_arguments(command, &cli, 1, UINT32_MAX, &err);
    if (st == PST_OK) {
        st = read_request(&request, &err);
    }
    if (st == PST_OK) {
        st = compare(&cli, &request, &code, &err);
    }
    ended = pst_cli_end(st, cli.json, &err);
    return ended != 0 ? ended : code;
}
