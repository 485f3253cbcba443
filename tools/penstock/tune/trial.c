/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "train/emulate.h"
#include "train/session.h"
#include "train/train.h"
#include "tune/advise.h"

#define ADVISED   8            /* trials of a command, each some dozens of plans of a small job */
#define ADVICE_NS 20000000000u /* for all of them */

double pst_trial_samples_per_second(const struct pst_trial *trial)
{
    uint64_t ns = trial->ran ? trial->measured_ns : trial->sim.period_ns;

    return trial->state != PST_TRIAL_DONE || ns == 0 ? 0 : 1e9 * trial->batch / (double)ns;
}

uint64_t pst_trial_most_bytes(const struct pst_trial *trial)
{
    uint64_t most = 0;

    for (uint32_t d = 0; trial->arena_bytes != NULL && d < trial->n_devices; d++) {
        most = trial->arena_bytes[d] > most ? trial->arena_bytes[d] : most;
    }
    return most;
}

void pst_trial_finish(struct pst_trial *trial)
{
    free(trial->arena_bytes);
    free(trial->plan);
    memset(trial, 0, sizeof *trial);
}

static enum pst_trial_state state_of(const struct pst_error *why)
{
    if (strcmp(why->kind, "plan.infeasible") == 0) {
        return PST_TRIAL_NO_FIT;
    }
    if (strcmp(why->kind, "plan.mismatch") == 0 || strncmp(why->kind, "config.", 7) == 0) {
        return PST_TRIAL_MISMATCH;
    }
    return PST_TRIAL_FAILED;
}

/* What ends everything rather than this one trial: the user, a wrong name, this process itself. A
   plugin that takes too long is an outcome, as is a loss that is not finite. */
static bool is_no_outcome(pst_status st, const struct pst_trial_options *options,
                          const struct pst_error *why)
{
    return (st == PST_ERR_CANCELLED && options->cancelled != NULL && options->cancelled()) ||
           strcmp(why->kind, "run.stalled") == 0 || strcmp(why->kind, "plugin.not-found") == 0 ||
           strcmp(why->kind, "config.key") == 0 ||
           (st == PST_ERR_NOMEM && strcmp(why->kind, "machine.memory") == 0);
}

static void note_run(void *context, const struct pst_run_report *report)
{
    struct pst_trial *trial = context;

    trial->ran = true;
    trial->measured_ns = report->step_ns;
    trial->final_loss = report->final_loss;
    trial->peaks_equal = true;
    for (uint32_t d = 0; d < report->n_devices; d++) {
        trial->peaks_equal &= report->peak_bytes[d] == report->predicted_peak_bytes[d];
    }
}

static pst_status run(struct pst_session *session, struct pst_trial *trial, struct pst_error *err)
{
    struct pst_train_listener listener = {.context = trial, .done = note_run};
    struct pst_data *data = NULL;
    pst_status st = PST_OK;

    if (!pst_session_is_hollow(session)) {
        st = pst_data_create(session->job, session->graph, &data, err);
    }
    if (st == PST_OK) {
        st = pst_train_run(session, data, NULL, &listener, err);
    }
    pst_data_destroy(data);
    return st;
}

static pst_status take_plan(const struct pst_session *session, bool keep, struct pst_trial *trial,
                            struct pst_error *err)
{
    const struct pst_plan *plan = session->planned.plan;

    trial->n_stages = plan->n_stages;
    trial->n_devices = plan->n_devices;
    trial->capacity_bytes = plan->capacity_bytes;
    trial->search_seconds = session->planned.search_seconds;
    trial->predicted_ns = session->predicted_ns;
    trial->arena_bytes = pst_alloc(plan->n_devices, sizeof *trial->arena_bytes);
    trial->plan = keep ? pst_plan_to_json(plan, session->graph) : NULL;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        trial->arena_bytes[d] = plan->devices[d].arena_bytes;
    }
    return pst_sim_steps(plan, session->graph, &session->cost, 1, &trial->sim, err);
}

static pst_status try_job(struct pst_job *job, const struct pst_trial_options *options,
                          struct pst_trial *trial, struct pst_error *err)
{
    struct pst_session *session = NULL;
    pst_status st;

    if (pst_exec_is_stuck()) {
        return pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
                        "a device stands still since an earlier run of this process");
    }
    job->planner = pst_tune_plan;
    job->advice = options->advice_ns > 0 ? PST_ADVICE_MEMORY
                  : options->faster      ? PST_ADVICE_FASTER
                                         : PST_ADVICE_NONE;
    if (options->advice_ns > 0 &&
        (job->plugins.time_limit == 0 || options->advice_ns < job->plugins.time_limit)) {
        job->plugins.time_limit = options->advice_ns;
    }
    trial->batch = (uint32_t)job->train.batch;
    trial->microbatch = (uint32_t)job->train.microbatch;
    if (options->run_steps > 0) {
        job->train.steps = options->run_steps;
        job->train.sample = 0;
        job->output.trace = "";
        st = pst_session_create(job, NULL, &session, err);
        st = st == PST_OK ? pst_session_check_runs(session, err) : st;
    } else {
        st = pst_session_create_for_planning(job, &session, err);
    }
    if (st == PST_OK) {
        st = pst_session_plan(session, job->run.plan, options->cancelled, err);
    }
    if (st == PST_OK) {
        st = take_plan(session, options->keep_plan, trial, err);
    }
    if (st == PST_OK && options->show != NULL) {
        st = options->show(options->show_context, session, err);
    }
    if (st == PST_OK && options->run_steps > 0) {
        st = run(session, trial, err);
    }
    pst_session_destroy(session);
    return st;
}

pst_status pst_trial_run(const char *config_json, const struct pst_trial_options *options,
                         struct pst_trial *ret_trial, struct pst_error *err)
{
    struct pst_trial trial = {.state = PST_TRIAL_DONE};
    struct pst_config *config = NULL;
    struct pst_job job = {0};
    pst_status st = pst_config_from_json(config_json, &config, &trial.why);
    bool has_job = false;

    if (st == PST_OK) {
        st = pst_job_read(config, &job, &trial.why);
        has_job = st == PST_OK;
    }
    if (st == PST_OK) {
        st = try_job(&job, options, &trial, &trial.why);
    }
    if (has_job) {
        pst_job_finish(&job);
    }
    pst_config_destroy(config);
    if (st != PST_OK && is_no_outcome(st, options, &trial.why)) {
        if (err != NULL) {
            *err = trial.why;
        }
        pst_trial_finish(&trial);
        return st;
    }
    if (st != PST_OK) {
        trial.state = state_of(&trial.why);
    }
    *ret_trial = trial;
    return PST_OK;
}

bool pst_trial_was_refused(const struct pst_trial *trial)
{
    return trial->state == PST_TRIAL_NO_FIT || trial->state == PST_TRIAL_MISMATCH;
}

void pst_trial_advice_init(struct pst_trial_advice *advice)
{
    *advice = (struct pst_trial_advice){ADVISED, pst_now_ns() + ADVICE_NS};
}

pst_status pst_trial_advise(const char *config_json, const struct pst_trial_options *options,
                            struct pst_trial_advice *advice, struct pst_trial *trial,
                            struct pst_error *err)
{
    struct pst_trial_options asked = *options;
    struct pst_trial again;
    struct pst_error why = {.status = PST_OK};
    uint64_t now = pst_now_ns();
    pst_status st;
    bool helps;

    if (!pst_trial_was_refused(trial) || advice->n_left == 0 || now >= advice->deadline_ns) {
        return PST_OK;
    }
    asked.advice_ns = advice->deadline_ns - now;
    st = pst_trial_run(config_json, &asked, &again, &why);
    if (st != PST_OK) {
        if (err != NULL) {
            *err = why;
        }
        return st;
    }
    helps = again.state == PST_TRIAL_DONE || again.why.enough_bytes > 0;
    advice->n_left -= helps || trial->state == PST_TRIAL_NO_FIT;
    if (!helps) {
        pst_trial_finish(&again);
        return PST_OK;
    }
    pst_trial_finish(trial);
    *trial = again;
    return PST_OK;
}
