/* SPDX-License-Identifier: Apache-2.0
 *
 * The session's plan: searched or read, checked, timed, held against the memory that there is.
 */
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "train/isolate.h"

static pst_status make_programs(const struct pst_session *session, const struct pst_plan *plan,
                                uint32_t keep_output, struct pst_program ***ret_programs,
                                struct pst_error *err)
{
    struct pst_program **programs = calloc(plan->n_devices, sizeof(struct pst_program *));
    pst_status st = PST_OK;

    if (programs == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t rank = 0; rank < plan->n_devices && st == PST_OK; rank++) {
        st = pst_program_create(plan, session->graph, &session->cost, rank, keep_output,
                                &programs[rank], err);
    }
    if (st != PST_OK) {
        for (uint32_t rank = 0; rank < plan->n_devices; rank++) {
            pst_program_destroy(programs[rank]);
        }
        free(programs);
        return st;
    }
    *ret_programs = programs;
    return PST_OK;
}

struct pst_check_limits pst_session_limits(const struct pst_session *session)
{
    /* A message waits for its receive. Only on NCCL do sends wait for receives of the same rank. */
    return (struct pst_check_limits){.channel_capacity = 0,
                                     .ordered = strcmp(session->job->run.transport, "nccl") == 0};
}

pst_status pst_session_read_plan(struct pst_session *session, const char *plan_file,
                                 struct pst_error *err)
{
    return pst_plan_read(plan_file, session->graph, &session->planned.plan, err);
}

pst_status pst_session_judge(struct pst_session *session, struct pst_check_report *ret_report,
                             struct pst_error *err)
{
    struct pst_planned *planned = &session->planned;
    struct pst_check_limits limits = pst_session_limits(session);
    pst_status st = pst_plan_check(planned->plan, session->graph, &limits, NULL, ret_report, err);

    if (st == PST_OK) {
        st = make_programs(session, planned->plan, PST_NONE, &planned->programs, err);
    }
    if (st == PST_OK) {
        st = pst_plan_check(planned->plan, session->graph, &limits,
                            (const struct pst_program *const *)planned->programs, ret_report, err);
    }
    return st;
}

uint32_t pst_session_optimizer_slots(const struct pst_job *job)
{
    uint32_t optimizer = job->train.optimizer;

    return optimizer == PST_SGD ? 0 : optimizer == PST_MOMENTUM ? 1 : 2;
}

static bool has_norm(const struct pst_plan *plan)
{
    for (uint32_t i = 0; i < plan->devices[0].n_instrs; i++) {
        if (plan->devices[0].body[i].op == PST_I_NORM) {
            return true;
        }
    }
    return false;
}

/* Is a plan from a file one for this job? */
static pst_status match(const struct pst_session *session, const char *file, struct pst_error *err)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_job *job = session->job;

    if (plan->batch != (uint32_t)job->train.batch) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan is for a batch of %u samples, train.batch is %lld",
                           plan->batch, (long long)job->train.batch);
    }
    if (plan->optimizer_slots != pst_session_optimizer_slots(job)) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan was made for another optimizer: it keeps %u values per "
                           "parameter, train.optimizer takes %u; plan again",
                           plan->optimizer_slots, pst_session_optimizer_slots(job));
    }
    if (plan->n_devices > (uint32_t)session->cluster.devices) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan is for %u devices, cluster.devices is %lld", plan->n_devices,
                           (long long)session->cluster.devices);
    }
    if (!has_norm(plan) && (job->train.clip > 0 || job->train.on_non_finite != 0)) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan was made without the norm of all gradients, which train.clip "
                           "and train.on_non_finite = \"skip\" need; plan again");
    }
    return PST_OK;
}

static pst_status use_file(struct pst_session *session, const char *plan_file,
                           struct pst_error *err)
{
    struct pst_check_report *report;
    pst_status st = pst_session_read_plan(session, plan_file, err);

    if (st == PST_OK) {
        st = match(session, plan_file, err);
    }
    if (st != PST_OK) {
        return st;
    }
    report = calloc(1, sizeof *report);
    if (report == NULL) {
        return pst_fail_nomem(err);
    }
    st = pst_session_judge(session, report, err);
    if (report->n_violations > 0 && err != NULL) {
        err->exit_code = 2;
        snprintf(err->file, sizeof err->file, "%s", plan_file);
    }
    free(report);
    return st;
}

uint64_t pst_session_peak(const struct pst_session *session, uint32_t rank)
{
    uint64_t peak = session->planned.programs[rank]->arena_bytes;

    if (session->eval_programs != NULL && session->eval_programs[rank]->arena_bytes > peak) {
        peak = session->eval_programs[rank]->arena_bytes;
    }
    return peak;
}

static void explain(const struct pst_session *session, uint32_t rank, struct pst_error *err)
{
    const struct pst_program *program = session->planned.programs[rank];

    if (session->eval_programs != NULL &&
        session->eval_programs[rank]->arena_bytes > program->arena_bytes) {
        program = session->eval_programs[rank];
    }
    pst_program_explain(program, session->graph, err);
}

/* Refuses a plan that does not fit, with what takes the space and what would do. */
static pst_status fits(const struct pst_session *session, struct pst_error *err)
{
    uint64_t capacity = session->cluster.memory, most = 0;
    uint32_t worst = 0;
    char need[32], have[32];

    for (uint32_t rank = 0; rank < session->planned.plan->n_devices; rank++) {
        uint64_t peak = pst_session_peak(session, rank);

        worst = peak > most ? rank : worst;
        most = peak > most ? peak : most;
    }
    if (capacity == 0 || most <= capacity) {
        return PST_OK;
    }
    pst_fail(
        err, PST_ERR_INFEASIBLE, "plan.infeasible",
        "the plan takes %s%s on device %u, which has %s; it fits from cluster.memory = %llu on",
        pst_format_bytes(need, most),
        most > session->planned.programs[worst]->arena_bytes ? ", in evaluation," : "", worst,
        pst_format_bytes(have, capacity), (unsigned long long)most);
    pst_error_hint(err, "raise cluster.memory, use a memory optimizer, or make micro-batches "
                        "smaller");
    explain(session, worst, err);
    return PST_ERR_INFEASIBLE;
}

/* Strategies and what lowers their answer know nothing of transports; one that has a single queue
   for sends and receives cannot run every list. */
static pst_status fits_transport(const struct pst_session *session, const struct pst_plan *plan,
                                 bool forward_only, struct pst_error *err)
{
    struct pst_check_limits limits = pst_session_limits(session);
    struct pst_check_report *report;
    pst_status st;

    if (!limits.ordered) {
        return PST_OK;
    }
    if (plan->asynchronous) {
        pst_fail(err, PST_ERR_CONFIG, "plan.mismatch",
                 "run.transport = \"%s\" has one queue for sends and receives; the lists of an "
                 "asynchronous scheduler leave transfers open from one batch to the next, and take "
                 "a queue for each: take transport \"threads\" or \"mpi\", or another scheduler",
                 session->job->run.transport);
        return PST_ERR_CONFIG;
    }
    report = calloc(1, sizeof *report);
    if (report == NULL) {
        return pst_fail_nomem(err);
    }
    limits.forward_only = forward_only;
    st = pst_plan_check(plan, session->graph, &limits, NULL, report, err);
    if (report->n_violations > 0) {
        pst_error_prefix(err, "run.transport = \"%s\"", session->job->run.transport);
        pst_error_hint(err, "take another scheduler, or transport \"threads\" or \"mpi\"");
        if (err != NULL) {
            err->exit_code = 2;
        }
    }
    free(report);
    return st;
}

pst_status pst_session_plan(struct pst_session *session, const char *plan_file,
                            bool (*cancelled)(void), struct pst_error *err)
{
    pst_status st;

    if (plan_file != NULL && plan_file[0] != '\0') {
        st = use_file(session, plan_file, err);
    } else {
        st = pst_isolate_search(session, cancelled, err);
    }
    st = st == PST_OK ? fits_transport(session, session->planned.plan, false, err) : st;
    if (st != PST_OK) {
        return st;
    }
    st = pst_session_predict(session, err);
    return st == PST_OK ? fits(session, err) : st;
}

pst_status pst_session_adopt(struct pst_session *session, const char *text, struct pst_error *err)
{
    struct pst_check_report *report = calloc(1, sizeof *report);
    pst_status st = report == NULL ? pst_fail_nomem(err)
                                   : pst_plan_parse("the plan of rank 0", text, strlen(text),
                                                    session->graph, &session->planned.plan, err);

    if (st == PST_OK) {
        st = pst_session_judge(session, report, err);
    }
    free(report);
    if (st == PST_OK) {
        st = pst_session_predict(session, err);
    }
    return st == PST_OK ? fits(session, err) : st;
}

pst_status pst_session_twin(struct pst_session *session, uint32_t batch, struct pst_error *err)
{
    pst_status st = pst_plan_forward_twin(session->planned.plan, session->graph, &session->cost,
                                          batch, &session->eval_plan, err);

    if (st == PST_OK) {
        st = fits_transport(session, session->eval_plan, true, err);
    }
    if (st == PST_OK) {
        st = make_programs(session, session->eval_plan, session->graph->logits,
                           &session->eval_programs, err);
    }
    return st == PST_OK ? fits(session, err) : st;
}
