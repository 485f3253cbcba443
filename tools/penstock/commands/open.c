/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of most commands, a job and a session that has a plan; and the end of some, the
 * report of that plan.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/link.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/text.h"
#include "commands/commands.h"
#include "commands/searching.h"
#include "reports/plan_report.h"
#include "session/session.h"
#include "tune/advise.h"
#include "tune/config_paths.h"

bool pst_cli_is_plan_file(const char *path)
{
    FILE *file = fopen(path, "re");
    int c = ' ';

    if (file == NULL) {
        pst_heed_no_memory();
    }
    while (file != NULL && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
        c = fgetc(file);
    }
    if (file != NULL) {
        fclose(file);
    }
    return c == '{';
}

static void open_job(struct pst_cli *cli, struct pst_config *config, struct pst_cli_job *ret_job)
{
    *ret_job = (struct pst_cli_job){.config = config};
    cli->config = config;
    pst_cli_must(cli, pst_job_read(config, &ret_job->job, &cli->err));
    ret_job->job.planner = pst_tune_plan;
}

void pst_cli_job_open(struct pst_cli *cli, const char *path, struct pst_cli_job *ret_job)
{
    struct pst_config *config = NULL;
    char word[PST_SHELL_TEXT];
    pst_status status;

    status = pst_config_load(path, cli->sets, cli->n_sets, &config, &cli->err);
    if (status != PST_OK && strcmp(cli->err.file, path) == 0 && pst_cli_is_plan_file(path)) {
        pst_fail_at(&cli->err, PST_ERR_CONFIG, "config.syntax", path, 0, 0,
                    "this is JSON, perhaps a plan, and not a config");
        pst_error_hint(&cli->err, "a plan is run by penstock train CONFIG --plan %s",
                       pst_text_for_shell(word, path));
    }
    pst_cli_must(cli, status);
    open_job(cli, config, ret_job);
}

void pst_cli_job_embedded(struct pst_cli *cli, const char *file, struct pst_cli_job *ret_job)
{
    struct pst_config *config = NULL;
    char *text = NULL, *folder = pst_link_folder(file), *moved;

    pst_cli_must(cli, pst_plan_read_config(file, &text, &cli->err));
    moved = pst_config_paths_move(text, folder, PST_PATHS_ONLY_THERE);
    pst_cli_must(cli, pst_config_from_json(moved, &config, &cli->err));
    free(moved);
    free(folder);
    free(text);
    open_job(cli, config, ret_job);
}

void pst_cli_job_close(struct pst_cli_job *job)
{
    pst_session_destroy(job->session);
    pst_job_finish(&job->job);
    pst_config_destroy(job->config);
}

void pst_cli_job_planned(struct pst_cli *cli, const char *file, bool whole,
                         struct pst_cli_job *ret_job)
{
    bool is_plan = pst_cli_is_plan_file(file);

    if (is_plan && cli->n_sets > 0) {
        pst_status status =
            pst_fail(&cli->err, PST_ERR_CONFIG, "usage",
                     "--set changes a config, but %s is a plan, which contains its config", file);

        pst_error_hint(&cli->err, "plan the changed config: penstock plan CONFIG --set … -o FILE");
        pst_cli_must(cli, status);
    }
    (is_plan ? pst_cli_job_embedded : pst_cli_job_open)(cli, file, ret_job);
    ret_job->job.slim = !whole;
    pst_cli_must(cli, pst_session_create_for_planning(&ret_job->job, &ret_job->session, &cli->err));
    if (!is_plan) {
        pst_cli_must(cli, pst_cli_calibrate(cli, ret_job->session,
                                            (uint32_t)ret_job->job.train.microbatch, &cli->err));
    }
    pst_cli_plan(cli, ret_job->session, is_plan ? file : ret_job->job.run.plan);
}

void pst_cli_plan(struct pst_cli *cli, struct pst_session *session, const char *plan_file)
{
    pst_status status;

    pst_searching_begin(cli, PST_SEARCHING_PLAN);
    status = pst_session_plan(session, plan_file, pst_stop_requested, &cli->err);
    pst_searching_end();
    pst_cli_must(cli, status);
}

void pst_cli_answer_plan(struct pst_cli *cli, const struct pst_session *session, const char *file)
{
    if (file != NULL) {
        pst_cli_must(cli, pst_plan_write(session->planned.plan, session->graph, file, &cli->err));
    }
    if (cli->json) {
        pst_plan_report_json(session, file, &cli->answer);
    } else {
        pst_plan_report_print(session, file, cli->color, stdout);
    }
}
