/* SPDX-License-Identifier: Apache-2.0
 *
 * The session's plan: searched or read, checked, timed, held against the memory that there is.
 */
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/saturate.h"
#include "base/util.h"
#include "planner/state.h"
#include "session/degrees.h"
#include "session/groups.h"
#include "session/isolate.h"
#include "plan/gathers.h"

/* Simulates a step of the session's plan with these costs. */
static pst_status predict(struct pst_session *session, const struct pst_cost_model *cost,
                          struct pst_error *err)
{
    pst_status status =
        pst_judge_steps(session->planned.plan, session->graph, cost, 1, &session->simulated, err);

    session->predicted_ns = status == PST_OK ? session->simulated.period_ns : session->predicted_ns;
    return status;
}

static void slow_device(double ratio, struct pst_cluster *device)
{
    device->flops /= ratio;
    device->bf16_flops /= ratio;
    device->memory_bandwidth = (uint64_t)((double)device->memory_bandwidth / ratio);
    device->launch_overhead = (uint64_t)((double)device->launch_overhead * ratio);
    device->host_overhead = (uint64_t)((double)device->host_overhead * ratio);
    device->transfer_overhead = (uint64_t)((double)device->transfer_overhead * ratio);
    device->step_overhead = (uint64_t)((double)device->step_overhead * ratio);
}

/* A described device has a core for each of its threads. One with fewer takes longer; what was
   measured took as long as that. */
static void slow_down(const struct pst_session *session, double ratio, struct pst_cluster *cluster)
{
    if (ratio > 1 && session->profile == NULL) {
        slow_device(ratio, cluster);
        for (uint32_t k = 0; k < cluster->n_kinds; k++) {
            slow_device(ratio, &cluster->kinds[k]);
        }
    }
}

/* [cluster] describes devices that compute side by side; on a machine with fewer cores than they
   have threads they take turns. A costed graph is of another machine. */
static bool shares_cores(struct pst_session *session)
{
    const uint32_t n_devices = session->planned.plan->n_devices;

    session->threads = 0;
    session->cores = 0;
    if (pst_session_side_by_side(session) > 0) {
        session->threads = n_devices * session->device_config.threads;
        session->cores = pst_usable_cores();
    }
    return session->threads > session->cores;
}

pst_status pst_session_predict(struct pst_session *session, struct pst_error *err)
{
    struct pst_plan *plan = session->planned.plan;
    uint32_t threads = session->device_config.threads;
    pst_status status;
    bool meets;

    pst_doing("timing", "the plan");
    status = predict(session, &session->cost, err);
    plan->step_ns = session->here_ns = session->predicted_ns;
    plan->times = pst_session_times_name(session);
    pst_cluster_copy(&session->cluster, &session->arena, &session->here_cluster);
    session->shown = &session->cost;
    session->here = session->cost;
    session->here.cluster = &session->here_cluster;
    session->here.meets_in_waits = pst_session_meets_in_waits(session);
    meets = plan->prefetch > 0 && session->here.meets_in_waits != session->cost.meets_in_waits;
    if ((!shares_cores(session) && !meets) || status != PST_OK) {
        return status;
    }
    slow_down(session, (double)threads / (double)session->cores, &session->here_cluster);
    session->here.side_by_side = pst_session_side_by_side(session);
    if (session->profile == NULL) {
        return pst_predict_step(plan, session->graph, &session->here, false, &session->here_ns,
                                err);
    }
    session->shown = &session->here;
    status = predict(session, session->shown, err);
    session->here_ns = session->predicted_ns;
    return status;
}

/* A plan that was searched for groups of unlike sizes states no memory of their ranks. */
static bool states_memory(const struct pst_session *session, const struct pst_plan *plan)
{
    bool stated = session->given || session->graph->degree_of == NULL;

    for (uint32_t r = 0; r < plan->n_devices; r++) {
        stated |= plan->devices[r].arena_bytes > 0;
    }
    return stated;
}

/* Programs are for lists that are proven. */
pst_status pst_session_judge(struct pst_session *session, struct pst_planned *planned,
                             struct pst_check_report *ret_report, struct pst_error *err)
{
    struct pst_check_report *own = ret_report == NULL ? pst_alloc(1, sizeof *own) : NULL;
    struct pst_check_report *report = own != NULL ? own : ret_report;
    struct pst_check_limits limits;
    pst_status status;

    pst_doing("proving", "the plan");
    pst_session_choose_queues(session, planned->plan, false);
    limits = pst_session_limits(session);
    limits.cost = &session->cost;
    status = pst_judge_check(planned->plan, session->graph, &limits, NULL, report, err);
    if (status == PST_OK) {
        planned->programs = pst_alloc(planned->plan->n_devices, sizeof(struct pst_program *));
        status = pst_programs_create(planned->plan, session->graph, &session->cost,
                                     session->job->slim ? PST_PROGRAM_SLIM : PST_PROGRAM_WHOLE,
                                     NULL, planned->programs, err);
    }
    if (status == PST_OK && !states_memory(session, planned->plan)) {
        pst_programs_state_memory(planned->programs, planned->plan);
    }
    PST_TRY(status,
            pst_judge_check(planned->plan, session->graph, &limits,
                            (const struct pst_program *const *)planned->programs, report, err));
    free(own);
    session->judged = status == PST_OK;
    if (session->judged) {
        pst_programs_state_memory(planned->programs, planned->plan);
    }
    return status;
}

/* Is a plan from a file one for this job? */
static pst_status match_job(const struct pst_session *session, const char *file,
                            struct pst_error *err)
{
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_job *job = session->job;

    if (plan->batch != pst_graph_samples(session->graph, (uint32_t)job->train.batch)) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan is for a batch of %u samples, train.batch is %lld",
                           plan->batch / session->graph->slices, (long long)job->train.batch);
    }
    if (plan->slices > 1 && plan->stages[0].microbatch_size != (uint32_t)job->train.microbatch) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan has slices of %u sequences side by side, train.microbatch is "
                           "%lld",
                           plan->stages[0].microbatch_size, (long long)job->train.microbatch);
    }
    if (plan->optimizer_slots != pst_job_optimizer_slots(job)) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan was made for another optimizer: it keeps %u values per "
                           "parameter, train.optimizer takes %u; plan again",
                           plan->optimizer_slots, pst_job_optimizer_slots(job));
    }
    if (plan->zero != (uint64_t)job->parallel.zero) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan was made with parallel.zero = %u, here it is %lld; plan again",
                           plan->zero, (long long)job->parallel.zero);
    }
    if (plan->prefetch != pst_gathers_prefetch(job->parallel.zero, job->parallel.prefetch)) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan was made with parallel.prefetch = %u, here it is %lld; plan "
                           "again",
                           plan->prefetch, (long long)job->parallel.prefetch);
    }
    if (plan->n_devices > (uint32_t)session->cluster.devices) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan is for %u devices, cluster.devices is %lld", plan->n_devices,
                           (long long)session->cluster.devices);
    }
    if (!plan->barrier && pst_planner_barrier(job)) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", file, 0, 0,
                           "the plan was made without the norm of all gradients, which train.clip, "
                           "train.on_non_finite = \"skip\" and parallel.zero need; plan again");
    }
    return PST_OK;
}

pst_status pst_session_read(struct pst_session *session, const char *plan_file,
                            struct pst_error *err)
{
    char *text = NULL;
    size_t length = 0;
    pst_status status;

    pst_doing("reading the plan", plan_file);
    status = pst_file_read(plan_file, PST_PLAN_FILE_BYTES, "input.path", &text, &length, err);
    PST_TRY(status, pst_degrees_adopt(session, plan_file, text, length, err));
    PST_TRY(status,
            pst_plan_parse(plan_file, text, length, session->graph, &session->planned.plan, err));
    free(text);
    PST_TRY(status, pst_groups_check_nodes(session, err));
    return status;
}

static pst_status use_file(struct pst_session *session, const char *plan_file,
                           struct pst_error *err)
{
    struct pst_check_report *report;
    pst_status status = pst_session_read(session, plan_file, err);

    session->given = status == PST_OK;
    PST_TRY(status, match_job(session, plan_file, err));
    if (status != PST_OK) {
        return status;
    }
    report = pst_alloc(1, sizeof *report);
    status = pst_session_judge(session, &session->planned, report, err);
    if (report->n_violations > 0 && err != NULL) {
        err->exit_code = 2;
        snprintf(err->file, sizeof err->file, "%s", plan_file);
        if (pst_session_limits(session).ordered &&
            strcmp(report->violations[0].rule, "LIVE2") == 0) {
            pst_error_hint(err, PST_QUEUE_HINT);
        }
    }
    free(report);
    return status;
}

/* The program that takes more memory: that of training or that of evaluation. */
static const struct pst_program *largest_program(const struct pst_session *session, uint32_t rank)
{
    const struct pst_program *train = session->planned.programs[rank];
    const struct pst_program *eval =
        session->eval_programs != NULL ? session->eval_programs[rank] : train;

    return eval->arena_bytes > train->arena_bytes ? eval : train;
}

uint64_t pst_session_peak(const struct pst_session *session, uint32_t rank)
{
    return largest_program(session, rank)->arena_bytes;
}

const char *pst_session_capacity_text(const struct pst_session *session, uint32_t rank, char *text,
                                      size_t size)
{
    struct pst_cluster room;
    const struct pst_cluster *cluster = pst_cluster_on(&session->cluster, &rank, 1, &room);
    char plan[32], all[32], reserve[32];

    pst_format_bytes(plan, pst_cluster_capacity(cluster));
    if (cluster->memory == 0) {
        snprintf(text, size, "no limit");
    } else if (cluster->reserve == 0) {
        snprintf(text, size, "%s", plan);
    } else {
        snprintf(text, size, "%s of %s, %s are reserved", plan,
                 pst_format_bytes(all, cluster->memory),
                 pst_format_bytes(reserve, cluster->reserve));
    }
    return text;
}

/* Refuses a plan that does not fit, with what takes the space and what would do. */
static pst_status check_memory(const struct pst_session *session, struct pst_error *err)
{
    static const char others[] = "use a memory optimizer, or make micro-batches smaller";
    const struct pst_cluster *cluster = &session->cluster;
    uint64_t need_most = 0, most;
    uint32_t worst = 0;
    char need[32], have[96];

    for (uint32_t rank = 0; rank < session->planned.plan->n_devices; rank++) {
        uint64_t of =
            pst_sat_add(pst_session_peak(session, rank), pst_cluster_lacks(cluster, rank));

        worst = of > need_most ? rank : worst;
        need_most = of > need_most ? of : need_most;
    }
    most = pst_session_peak(session, worst);
    if (most <= pst_cluster_capacity_of(cluster, worst)) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
             "the plan needs %s on device %u%s; the device has %s", pst_format_bytes(need, most),
             worst, most > session->planned.programs[worst]->arena_bytes ? " in evaluation" : "",
             pst_session_capacity_text(session, worst, have, sizeof have));
    if (cluster->n_kinds > 0) {
        pst_error_hint(err, "give device %u more memory, %s", worst, others);
    } else if (session->given) {
        pst_error_enough(err, "cluster.memory", pst_sat_add(most, session->cluster.reserve),
                         others);
    } else { /* with more memory there may be another plan */
        pst_error_hint(err, "raise cluster.memory, %s", others);
    }
    pst_program_explain(largest_program(session, worst), err);
    return PST_ERR_INFEASIBLE;
}

/* Where each micro-batch makes an update, no loss is the mean over the tokens of a step. */
static pst_status check_loss(const struct pst_session *session, struct pst_error *err)
{
    if (session->graph->token_batch == 0 ||
        session->planned.plan->version_rule != PST_VERSION_STASHED ||
        session->planned.plan->stages[0].n_microbatches == 1) {
        return PST_OK;
    }
    pst_fail(
        err, PST_ERR_CONFIG, "config.value",
        "train.loss_over = \"token\" is the mean over a whole step, and this scheduler updates "
        "weights after every micro-batch; set it to \"sample\", or use a scheduler that updates "
        "once a step");
    return pst_config_place(session->job->config, "train", "loss_over", PST_ERR_CONFIG, err);
}

static pst_status time_and_fit(struct pst_session *session, struct pst_error *err)
{
    pst_status status = check_loss(session, err);

    PST_TRY(status, pst_session_predict(session, err));

    return status == PST_OK ? check_memory(session, err) : status;
}

pst_status pst_session_plan(struct pst_session *session, const char *plan_file,
                            bool (*cancelled)(void), struct pst_error *err)
{
    pst_status status;

    if (plan_file != NULL && plan_file[0] != '\0') {
        status = use_file(session, plan_file, err);
    } else {
        pst_doing("searching", "a plan");
        status = pst_isolate_search(session, cancelled, err);
    }
    PST_TRY(status, pst_session_fits_queues(session, session->planned.plan, false, err));
    return status == PST_OK ? time_and_fit(session, err) : status;
}

pst_status pst_session_adopt(struct pst_session *session, const char *text, struct pst_error *err)
{
    static const char name[] = "the plan of rank 0";
    const size_t length = strlen(text);
    pst_status status = pst_degrees_adopt(session, name, text, length, err);

    PST_TRY(status,
            pst_plan_parse(name, text, length, session->graph, &session->planned.plan, err));
    PST_TRY(status, pst_session_judge(session, &session->planned, NULL, err));
    return status == PST_OK ? time_and_fit(session, err) : status;
}

pst_status pst_session_decode(struct pst_session *session, struct pst_error *err)
{
    struct pst_plan *plan = session->planned.plan;
    const uint32_t slices = session->graph->slices, token_batch = session->graph->token_batch;
    bool whole = true; /* each stage sees all tokens */
    pst_status status;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        whole = whole && plan->stages[s].n_ranks == 1;
    }
    if (!whole || !pst_device_is_host(session->device_ops)) {
        return PST_OK;
    }
    pst_graph_join(session->graph);
    if (!pst_graph_decode(session->graph)) {
        status = pst_graph_mean_tokens(session->graph, token_batch, err);
        return status == PST_OK ? pst_graph_slice(session->graph, slices, err) : status;
    }
    session->decodes = true;
    plan->slices = 1;
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        pst_program_destroy(session->planned.programs[i]);
        session->planned.programs[i] = NULL;
    }
    return pst_programs_create(plan, session->graph, &session->cost, PST_PROGRAM_WHOLE, NULL,
                               session->planned.programs, err);
}

pst_status pst_session_twin(struct pst_session *session, uint32_t batch, bool whole,
                            struct pst_error *err)
{
    struct pst_cost_model cost = session->cost;
    struct pst_groups groups;
    pst_status status = whole ? pst_session_make_whole(session, &cost, err) : PST_OK;

    cost.graph = pst_session_eval_graph(session);
    pst_groups_describe(session, cost.side_by_side, &groups);
    if (status == PST_OK) {
        status = pst_plan_forward_twin(session->planned.plan, cost.graph,
                                       cost.graph->parts > 1 ? &groups.cost : &cost, batch,
                                       session->decodes ? batch : 0, &session->eval_plan, err);
    }
    PST_TRY(status, pst_session_fits_queues(session, session->eval_plan, true, err));
    if (status == PST_OK) {
        session->eval_programs =
            pst_alloc(session->eval_plan->n_devices, sizeof(struct pst_program *));
        status = pst_programs_create(session->eval_plan, cost.graph, &cost, PST_PROGRAM_WHOLE, NULL,
                                     session->eval_programs, err);
    }
    return status == PST_OK ? check_memory(session, err) : status;
}

/* Arenas are filled on creation, so memory that the host does not have would end the process in the
   middle of it: better to say so first. */
static void add_elems(void *context, const struct pst_state_key *key, uint64_t first,
                      uint64_t elems)
{
    (void)key;
    (void)first;
    *(uint64_t *)context += elems;
}

/* Bytes that copies of a rank's state take in host memory. */
static uint64_t bytes_of_copies(const struct pst_session *session, uint32_t rank)
{
    uint64_t elems = 0;

    pst_exec_state_of(session->planned.plan, session->planned.programs[rank], add_elems, &elems);
    return elems * sizeof(float);
}

pst_status pst_session_check_host(const struct pst_session *session, struct pst_error *err)
{
    uint64_t available = pst_host_available_bytes(), needed = 0, offloaded = 0, copies = 0;
    uint64_t limit = session->job->run.host_memory;
    char need[32], have[32];

    for (uint32_t rank = 0; rank < session->planned.plan->n_devices; rank++) {
        offloaded += pst_team_are_near(&session->team, session->team.rank, rank)
                         ? session->planned.plan->devices[rank].host_bytes
                         : 0;
    }
    if (limit > 0 && offloaded > limit) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "the plan offloads %s to host memory, run.host_memory is %s",
                        pst_format_bytes(need, offloaded), pst_format_bytes(have, limit));
    }
    needed = offloaded;
    for (uint32_t rank = 0; rank < session->planned.plan->n_devices; rank++) {
        if (pst_team_are_near(&session->team, session->team.rank, rank)) {
            needed += pst_device_is_host(session->device_ops) ? pst_session_peak(session, rank) : 0;
            copies += session->saves ? bytes_of_copies(session, rank) : 0;
        }
    }
    needed += copies;
    if (!pst_device_is_host(session->device_ops) && copies == 0) {
        return PST_OK;
    }
    if (needed <= available) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_NOMEM, "machine.memory", "%s take %s together, this machine has %s left",
             copies > 0 ? "the devices and the copies for checkpoints" : "the devices",
             pst_format_bytes(need, needed), pst_format_bytes(have, available));
    pst_error_hint(err, "use a smaller model or micro-batch, or a memory optimizer%s",
                   copies > 0 ? "; or save nothing: checkpoint.folder = \"\"" : "");
    return PST_ERR_NOMEM;
}
