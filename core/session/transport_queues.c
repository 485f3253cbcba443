/* SPDX-License-Identifier: Apache-2.0
 *
 * Which queues the transfers of a device have. NCCL runs what it is asked for in the order of a
 * stream, where a send waits for its receive: with one communicator a device has one queue for
 * both, which some lists never get through (LIVE2); with one for each edge none waits for another.
 */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "host/plugin_host.h"

static bool waits_in_a_queue(const struct pst_session *session)
{
    return pst_module_has("transport", session->job->run.transport, PST_MODULE_IN_STREAMS);
}

bool pst_session_edges(const struct pst_session *session)
{
    return waits_in_a_queue(session) &&
           (session->edges || session->job->run.p2p == PST_RUN_P2P_EDGE);
}

struct pst_check_limits pst_session_limits(const struct pst_session *session)
{
    /* A message waits for its receive. Only in one queue do sends wait for receives of the same
       rank; with one for each edge they wait for less than the separate queues that are checked. */
    return (struct pst_check_limits){
        .channel_capacity = 0, .ordered = waits_in_a_queue(session) && !pst_session_edges(session)};
}

static bool breaks_live2(const struct pst_check_report *report)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (strcmp(report->violations[i].rule, "LIVE2") == 0) {
            return true;
        }
    }
    return false;
}

static const struct pst_graph *graph_of(const struct pst_session *session,
                                        const struct pst_plan *plan)
{
    return plan == session->eval_plan ? pst_session_eval_graph(session) : session->graph;
}

bool pst_session_choose_queues(struct pst_session *session, const struct pst_plan *plan,
                               bool forward_only)
{
    struct pst_check_limits limits = pst_session_limits(session);
    struct pst_check_report *report;
    struct pst_error why = {0};
    pst_status status = PST_ERR_BUG; /* not checked */

    if (!limits.ordered || session->job->run.p2p != PST_RUN_P2P_AUTO) {
        return false;
    }
    report = pst_alloc(1, sizeof *report);
    limits.forward_only = forward_only;
    if (plan->asynchronous) { /* a part may leave transfers open in front of those of the next */
        session->edges = true;
    } else {
        status = pst_judge_check(plan, graph_of(session, plan), &limits, NULL, report, &why);
    }
    session->edges = session->edges || breaks_live2(report);
    free(report);
    if (session->edges) {
        pst_log(PST_LOG_INFO, "plan",
                "one queue of transfers is too few for the lists: each edge has one");
    }
    return status == PST_OK;
}

static pst_status refuse_asynchronous(const struct pst_session *session, struct pst_error *err)
{
    pst_fail(err, PST_ERR_CONFIG, "plan.mismatch",
             "run.transport = \"%s\" has one queue for sends and receives with run.p2p = "
             "\"ordered\"; the lists of an asynchronous scheduler leave transfers open from one "
             "batch to the next, and need a queue for each edge",
             session->job->run.transport);
    pst_error_hint(err, PST_QUEUE_HINT);
    return PST_ERR_CONFIG;
}

/* Strategies and what lowers their answer know nothing of transports; one that has a single queue
   for sends and receives cannot run every list. */
pst_status pst_session_fits_queues(struct pst_session *session, const struct pst_plan *plan,
                                   bool forward_only, struct pst_error *err)
{
    const bool runs = (session->judged && plan == session->planned.plan) ||
                      pst_session_choose_queues(session, plan, forward_only);
    struct pst_check_limits limits = pst_session_limits(session);
    struct pst_check_report *report;
    pst_status status;

    if (!waits_in_a_queue(session)) {
        return PST_OK;
    }
    if (limits.ordered && plan->asynchronous) {
        return refuse_asynchronous(session, err);
    }
    if (runs) {
        return PST_OK;
    }
    report = pst_alloc(1, sizeof *report);
    limits.forward_only = forward_only;
    status = pst_judge_check(plan, graph_of(session, plan), &limits, NULL, report, err);
    if (report->n_violations > 0) {
        pst_error_prefix(err, "run.transport = \"%s\"", session->job->run.transport);
        pst_error_hint(err, limits.ordered ? PST_QUEUE_HINT : "use another scheduler");
        if (err != NULL) {
            err->exit_code = 2;
        }
    }
    free(report);
    return status;
}
