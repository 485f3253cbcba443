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

#define STEPS_MOST 1000000u

struct request {
    bool run;
    uint32_t n_steps; /* of a run; 0: not given */
    const char *csv, *plans;
};

static void read_request(struct pst_cli *cli, const struct request *request)
{
    if (request->n_steps > 0 && !request->run) {
        pst_cli_usage(cli, "--steps is of a run: add --run");
    }
    if (request->plans != NULL && mkdir(request->plans, 0777) != 0 && errno != EEXIST) {
        pst_cli_must(cli,
                     pst_fail(&cli->err, PST_ERR_IO, "output.write",
                              "cannot make the folder %s: %s", request->plans, strerror(errno)));
    }
    if (request->csv != NULL) {
        pst_cli_must(cli, pst_file_write_check(request->csv, &cli->err));
    }
}

/* FOLDER/0007.json for record 7. */
static pst_status keep_plan(void *context, const struct pst_compare_result *result, uint32_t i,
                            struct pst_error *err)
{
    const struct request *request = context;
    struct pst_trial *trial = &result->records[i].trial;
    struct pst_arena arena = {0};
    pst_status st;

    if (trial->plan == NULL) {
        return PST_OK;
    }
    st = pst_file_write(pst_arena_printf(&arena, "%s/%04u.json", request->plans, i), trial->plan,
                        strlen(trial->plan), err);
    pst_arena_finish(&arena);
    free(trial->plan);
    trial->plan = NULL;
    return st;
}

static void write_csv(struct pst_cli *cli, const char *file,
                      const struct pst_compare_result *result)
{
    char *text = pst_compare_report_csv(result);

    pst_cli_must(cli, pst_file_write(file, text, strlen(text), &cli->err));
    free(text);
}

static void compare(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    struct pst_compare_result result = {.run = request->run};
    struct pst_cli_trials trials = {
        .options = {.run_steps = !request->run           ? 0
                                 : request->n_steps == 0 ? 20
                                                         : request->n_steps,
                    .keep_plan = request->plans != NULL},
        .each = keep_plan,
        .context = request,
    };
    struct pst_cli_sets sets;

    read_request(cli, request);
    pst_cli_sets_open(cli, &sets);
    pst_cli_try_all(cli, &sets, &trials, &result);
    if (request->csv != NULL) {
        write_csv(cli, request->csv, &result);
    }
    pst_cli_answer_records(cli, &result);
    pst_cli_sets_close(&sets);
}

static const struct pst_option options[] = {
    {"run", 'r', NULL, "run each combination for some steps, too", PST_AT(run), 0},
    {"steps", 'n', "N", "steps of a run; 20 where it is not given", PST_AT(n_steps), STEPS_MOST},
    {"output", 'o', "FILE", "write the table as comma-separated values", PST_AT(csv), 0},
    {"plans", 0, "FOLDER", "write the plan of each combination there", PST_AT(plans), 0},
};

const struct pst_command pst_cmd_compare = {
    .name = "compare",
    .arguments = "CONFIG...",
    .summary = "Puts combinations of strategies side by side",
    .text = "Every partitioner, scheduler, memory optimizer, number of devices and size of "
            "micro-batches\n"
            "that [compare] lists, each with each: planned, simulated, with --run also run. The "
            "fastest\n"
            "comes first; what does not fit or go together is listed with its reason. Ctrl-C keeps "
            "what "
            "is\ndone. Exit code 1 if nothing can be compared.",
    .words = {1, UINT32_MAX},
    PST_CLI_OPTIONS(options, struct request),
    .heeds_signals = true,
    .run = compare,
};
