/* SPDX-License-Identifier: Apache-2.0
 *
 * What most commands begin with, a job and a session that has a plan, and what some end with: that
 * plan.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/searching.h"
#include "reports/plan_report.h"
#include "train/session.h"
#include "tune/advise.h"

/* Reads the job of the config that is there, unless that failed with st. */
static pst_status open_job(pst_status st, struct pst_cli_job *job, struct pst_error *err)
{
    if (st == PST_OK) {
        st = pst_job_read(job->config, &job->job, err);
        job->job.planner = pst_tune_plan;
        job->has_job = st == PST_OK;
    }
    if (st != PST_OK) {
        pst_cli_job_close(job);
    }
    return st;
}

pst_status pst_cli_job_open(const char *path, const struct pst_cli *cli,
                            struct pst_cli_job *ret_job, struct pst_error *err)
{
    memset(ret_job, 0, sizeof *ret_job);
    return open_job(pst_config_load(path, cli->sets, cli->n_sets, &ret_job->config, err), ret_job,
                    err);
}

pst_status pst_cli_job_embedded(const char *file, struct pst_cli_job *ret_job,
                                struct pst_error *err)
{
    char *text = NULL;
    pst_status st;

    memset(ret_job, 0, sizeof *ret_job);
    st = pst_plan_read_config(file, &text, err);
    if (st == PST_OK) {
        st = pst_config_from_json(text, &ret_job->config, err);
    }
    free(text);
    return open_job(st, ret_job, err);
}

void pst_cli_job_close(struct pst_cli_job *job)
{
    pst_session_destroy(job->session);
    if (job->has_job) {
        pst_job_finish(&job->job);
    }
    pst_config_destroy(job->config);
    memset(job, 0, sizeof *job);
}

/* Is it a plan, by its first character, rather than a config? false: or it cannot be read. */
static bool is_plan_file(const char *path)
{
    FILE *file = fopen(path, "re");
    int c = ' ';

    while (file != NULL && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
        c = fgetc(file);
    }
    if (file != NULL) {
        fclose(file);
    }
    return c == '{';
}

pst_status pst_cli_job_planned(const struct pst_cli *cli, const char *file,
                               struct pst_cli_job *ret_job, struct pst_error *err)
{
    bool is_plan = is_plan_file(file);
    pst_status st;

    if (is_plan && cli->n_sets > 0) {
        pst_fail(err, PST_ERR_CONFIG, "usage",
                 "--set changes a config, and %s is a plan that holds its own", file);
        pst_error_hint(err, "plan the changed config: penstock plan CONFIG --set … -o FILE");
        return PST_ERR_CONFIG;
    }
    st = is_plan ? pst_cli_job_embedded(file, ret_job, err)
                 : pst_cli_job_open(file, cli, ret_job, err);
    if (st == PST_OK) {
        st = pst_session_create_for_planning(&ret_job->job, &ret_job->session, err);
    }
    if (st == PST_OK) {
        st = pst_cli_plan(cli, ret_job->session, is_plan ? file : ret_job->job.run.plan, err);
    }
    return st;
}

pst_status pst_cli_plan(const struct pst_cli *cli, struct pst_session *session,
                        const char *plan_file, struct pst_error *err)
{
    pst_status st;

    pst_searching_begin(cli);
    st = pst_session_plan(session, plan_file, pst_searching_stops, err);
    pst_searching_end();
    return st;
}

pst_status pst_cli_answer_plan(struct pst_cli *cli, const struct pst_session *session,
                               const char *file, struct pst_error *err)
{
    pst_status st =
        file == NULL ? PST_OK : pst_plan_write(session->planned.plan, session->graph, file, err);

    if (st == PST_OK && cli->json) {
        pst_plan_report_json(session, file, &cli->answer);
    } else if (st == PST_OK) {
        pst_plan_report_print(session, file, cli->color, stdout);
    }
    return st;
}
