/* SPDX-License-Identifier: Apache-2.0
 *
 * What most commands begin with, a session that has a plan, and what some end with: that plan.
 */
#include <stdio.h>

#include "commands/commands.h"
#include "reports/plan_report.h"
#include "train/session.h"
#include "train/stop.h"

pst_status pst_cli_session_open(const struct pst_cli *cli, const char *file,
                                struct pst_cli_job *ret_job, struct pst_session **ret_session,
                                struct pst_error *err)
{
    bool is_plan = pst_cli_is_plan(file);
    struct pst_session *session = NULL;
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
        st = pst_session_create_for_planning(&ret_job->job, &session, err);
    }
    if (st == PST_OK) {
        st = pst_session_plan(session, is_plan ? file : ret_job->job.run.plan, pst_stop_requested,
                              err);
    }
    if (st == PST_OK) {
        *ret_session = session;
        return PST_OK;
    }
    pst_session_destroy(session);
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? pst_stop_fail(err) : st;
}

pst_status pst_cli_answer_plan(const struct pst_cli *cli, const struct pst_session *session,
                               const char *file, struct pst_error *err)
{
    pst_status st = PST_OK;

    if (file != NULL) {
        st = pst_plan_write(session->planned.plan, session->graph, file, err);
    }
    if (st != PST_OK) {
        return st;
    }
    if (cli->json) {
        return pst_cli_print_json(pst_plan_report_json(session, file), err);
    }
    pst_plan_report_print(session, file, cli->color, stdout);
    return PST_OK;
}
