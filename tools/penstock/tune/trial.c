/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/signals.h"
#include "base/util.h"
#include "loop/emulate.h"
#include "loop/train.h"
#include "session/isolate.h"
#include "session/session.h"
#include "tune/advise.h"
#include "tune/significance.h"

#define GLANCE_NS 10000000u

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
    free(trial->plan);
    free(trial->step_ns);
    pst_arena_finish(&trial->arena);
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

/* Returns true if the error ends all trials rather than this one: by the user, a wrong name, this
   process itself. A plugin that takes too long is an outcome, as is a loss that is not finite. */
static bool is_no_outcome(pst_status status, bool (*cancelled)(void), const struct pst_error *why)
{
    return (status == PST_ERR_CANCELLED && cancelled != NULL && cancelled()) ||
           strcmp(why->kind, "run.stalled") == 0 || strcmp(why->kind, "plugin.not-found") == 0 ||
           strcmp(why->kind, "config.key") == 0 || strcmp(why->kind, "machine.process") == 0 ||
           (status == PST_ERR_NOMEM && strcmp(why->kind, "machine.memory") == 0);
}

static void keep_remarks(const struct pst_planned *planned, struct pst_trial *trial)
{
    trial->n_remarks = planned->n_remarks;
    trial->remarks = pst_arena_array(&trial->arena, planned->n_remarks, sizeof *trial->remarks);
    for (uint32_t i = 0; i < planned->n_remarks; i++) {
        struct pst_partition_remark *remark = &trial->remarks[i];

        *remark = planned->remarks[i];
        remark->key = pst_arena_strdup(&trial->arena, remark->key);
        remark->text = pst_arena_strdup(&trial->arena, remark->text);
    }
}

void pst_trial_take(const struct pst_session *session, bool keep, struct pst_trial *trial)
{
    const struct pst_plan *plan = session->planned.plan;

    trial->batch = (uint32_t)session->job->train.batch;
    trial->microbatch = (uint32_t)session->job->train.microbatch;
    trial->n_stages = plan->n_stages;
    trial->n_devices = plan->n_devices;
    trial->capacity_bytes = plan->capacity_bytes;
    trial->cores = session->threads > session->cores ? session->cores : 0;
    trial->in_turn = session->shown == &session->here;
    trial->search_seconds = session->planned.search_seconds;
    trial->predicted_ns = session->here_ns;
    trial->arena_bytes =
        pst_arena_array(&trial->arena, plan->n_devices, sizeof *trial->arena_bytes);
    trial->digest = pst_plan_digest(plan);
    trial->plan = keep ? pst_plan_to_json(plan, session->graph) : NULL;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        trial->arena_bytes[d] = plan->devices[d].arena_bytes;
    }
    keep_remarks(&session->planned, trial);
    trial->sim = session->simulated;
}

/* The limits of the trial in this process, for a callback without a context. They count processor
   time, which other users of the machine do not change. */
static struct {
    bool (*cancelled)(void);
    uint64_t end_ns, next_ns; /* of the processor; when to ask for that again, which is slow */
    bool is_out;
} patience;

static bool is_out_of_patience(void)
{
    const uint64_t now = pst_now_ns();

    if (now >= patience.next_ns) {
        patience.next_ns = now + GLANCE_NS;
        patience.is_out |= pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID) >= patience.end_ns;
    }
    return patience.is_out || (patience.cancelled != NULL && patience.cancelled());
}

static pst_status give_up(uint64_t limit, struct pst_error *err)
{
    char time[32];
    pst_status status = pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                                 "planning takes longer than %s, too long for a search",
                                 pst_format_ns(time, limit));

    pst_error_hint(err, "\"penstock plan\" has no such limit");
    return status;
}

static pst_status plan_trial(struct pst_job *job, const struct pst_trial_options *options,
                             struct pst_trial *trial, struct pst_error *err)
{
    struct pst_session *session = NULL;
    struct pst_error unused;
    bool apart = false, hurries;
    uint64_t limit = 0;
    pst_status status;

    if (options->patience_ns > 0) { /* a plugin that is not there is told below */
        pst_isolate_is_wanted(job, &apart, &unused);
        limit = apart ? options->patience_ns : 0;
    }
    patience.cancelled = options->cancelled;
    patience.end_ns = options->patience_ns > 0
                          ? pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + options->patience_ns
                          : UINT64_MAX;
    patience.is_out = false;

    job->planner = pst_tune_plan;
    job->advice = options->advice   ? PST_ADVICE_MEMORY
                  : options->faster ? PST_ADVICE_FASTER
                                    : PST_ADVICE_NONE;
    hurries = limit > 0 && (job->plugins.time_limit == 0 || limit < job->plugins.time_limit);
    job->plugins.time_limit = hurries ? limit : job->plugins.time_limit;
    trial->batch = (uint32_t)job->train.batch;
    trial->microbatch = (uint32_t)job->train.microbatch;
    status = pst_session_create_for_planning(job, &session, err);
    PST_TRY(status, pst_session_plan(session, job->run.plan, is_out_of_patience, err));
    if (status == PST_OK) {
        pst_trial_take(session, options->keep_plan, trial);
    }
    pst_session_destroy(session);
    if (status != PST_OK && hurries && strcmp(err->kind, "plugin.timeout") == 0) {
        status = give_up(limit, err);
    } else if (status == PST_ERR_CANCELLED && patience.is_out) {
        status = give_up(options->patience_ns, err);
    }
    return status;
}

/* The job of a config: what is done with it, and the end of both. */
static pst_status with_job(const char *config_json,
                           pst_status (*act)(struct pst_job *job, void *context,
                                             struct pst_error *err),
                           void *context, struct pst_error *err)
{
    struct pst_config *config = NULL;
    struct pst_job job = {0};
    pst_status status = pst_config_from_json(config_json, &config, err);

    if (status == PST_OK) {
        status = pst_job_read(config, &job, err);
        if (status == PST_OK) {
            status = act(&job, context, err);
            pst_job_finish(&job);
        }
    }
    pst_config_destroy(config);
    return status;
}

struct planning {
    const struct pst_trial_options *options;
    struct pst_trial *trial;
};

static pst_status plan_job(struct pst_job *job, void *context, struct pst_error *err)
{
    const struct planning *planning = context;

    return plan_trial(job, planning->options, planning->trial, err);
}

pst_status pst_trial_run(const char *config_json, const struct pst_trial_options *options,
                         struct pst_trial *ret_trial, struct pst_error *err)
{
    struct pst_trial trial = {.state = PST_TRIAL_DONE};
    struct planning planning = {options, &trial};
    pst_status status = with_job(config_json, plan_job, &planning, &trial.why);

    if (status != PST_OK && is_no_outcome(status, options->cancelled, &trial.why)) {
        if (err != NULL) {
            *err = trial.why;
        }
        pst_trial_finish(&trial);
        return status;
    }
    if (status != PST_OK) {
        trial.state = state_of(&trial.why);
    }
    *ret_trial = trial;
    return PST_OK;
}

/* --- a look at the plan ------------------------------------------------------------------------*/

struct looking {
    const struct pst_trial *trial;
    pst_status (*show)(void *context, const struct pst_session *session, struct pst_error *err);
    void *context;
};

static pst_status show_plan(struct pst_job *job, void *context, struct pst_error *err)
{
    const struct looking *looking = context;
    struct pst_session *session = NULL;
    pst_status status = pst_session_create_for_planning(job, &session, err);

    PST_TRY(status, pst_session_adopt(session, looking->trial->plan, err));
    PST_TRY(status, looking->show(looking->context, session, err));
    pst_session_destroy(session);
    return status;
}

pst_status pst_trial_look(const char *config_json, const struct pst_trial *trial,
                          pst_status (*show)(void *context, const struct pst_session *session,
                                             struct pst_error *err),
                          void *context, struct pst_error *err)
{
    struct looking looking = {trial, show, context};

    return with_job(config_json, show_plan, &looking, err);
}

/* --- rounds ------------------------------------------------------------------------------------*/

/* One round that is running. */
struct round {
    struct pst_trial *trial;
    uint32_t n_steps, n_warm;
    uint64_t *step_ns; /* [n_steps] */
    double final_loss;
    bool peaks_equal;
};

static void note_step(void *context, const struct pst_step_report *report)
{
    struct round *round = context;

    if (report->step > round->n_warm) {
        round->step_ns[report->step - round->n_warm - 1] = report->result.ns;
    }
}

static void note_run(void *context, const struct pst_run_report *report)
{
    struct round *round = context;

    round->final_loss = report->final_loss;
    round->peaks_equal = true;
    for (uint32_t d = 0; d < report->n_devices; d++) {
        round->peaks_equal &= report->peak_bytes[d] == report->predicted_peak_bytes[d];
    }
}

static pst_status run_round(struct pst_session *session, struct round *round, struct pst_error *err)
{
    const struct pst_train_listener listener = {
        .context = round, .step = note_step, .done = note_run};
    struct pst_data *data = NULL;
    pst_status status = PST_OK;

    if (!pst_session_has_no_data(session)) {
        status = pst_data_create(session->job, session->graph, &data, err);
    }
    PST_TRY(status, pst_train_run(session, data, NULL, &listener, err));
    pst_data_destroy(data);
    return status;
}

static pst_status run_job(struct pst_job *job, void *context, struct pst_error *err)
{
    struct round *round = context;
    struct pst_session *session = NULL;
    pst_status status;

    if (pst_exec_is_stuck()) {
        return pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
                        "a device has been stuck since an earlier run of this process");
    }
    job->training->loop.steps = round->n_warm + round->n_steps;
    job->training->loop.sample = 0;
    job->training->output.trace = "";
    if (round->trial->n_rounds > 0) {
        job->training->loop.eval_batches = 0; /* that it fits the first round has shown */
    }
    status = pst_session_create(job, NULL, &session, err);
    PST_TRY(status, pst_session_check_runs(session, err));
    PST_TRY(status, pst_session_adopt(session, round->trial->plan, err));
    PST_TRY(status, run_round(session, round, err));
    pst_session_destroy(session);
    return status;
}

/* The figures of all rounds so far. */
static void sum_up_rounds(struct pst_trial *trial)
{
    double *medians = pst_alloc(2 * (size_t)trial->n_rounds, sizeof *medians);
    double *logs = medians + trial->n_rounds, mean = 0, half;

    for (uint32_t r = 0; r < trial->n_rounds; r++) {
        logs[r] = log(medians[r] = pst_trial_round_ns(trial, r));
        mean += logs[r] / trial->n_rounds;
    }
    trial->measured_ns = (uint64_t)pst_median(medians, trial->n_rounds);
    if (trial->n_rounds > 1) {
        half = pst_interval_half(logs, trial->n_rounds);
        trial->low_ns = (uint64_t)exp(mean - half);
        trial->high_ns = (uint64_t)fmin(exp(mean + half), 0x1p63);
    }
    free(medians);
}

double pst_trial_round_ns(const struct pst_trial *trial, uint32_t round)
{
    double *steps = pst_alloc(trial->n_steps, sizeof *steps), median;

    for (uint32_t i = 0; i < trial->n_steps; i++) {
        steps[i] = (double)trial->step_ns[(size_t)round * trial->n_steps + i];
    }
    median = fmax(pst_median(steps, trial->n_steps), 1);
    free(steps);
    return median;
}

pst_status pst_trial_measure(const char *config_json, uint32_t n_steps, struct pst_trial *trial,
                             struct pst_error *err)
{
    const size_t before = (size_t)trial->n_rounds * n_steps;
    struct round round = {.trial = trial, .n_steps = n_steps, .n_warm = (n_steps + 4) / 5};
    struct pst_error why = {.status = PST_OK};
    pst_status status;

    trial->step_ns = pst_resize(trial->step_ns, before + n_steps, sizeof *trial->step_ns);
    round.step_ns = trial->step_ns + before;
    status = with_job(config_json, run_job, &round, &why);
    if (status != PST_OK && is_no_outcome(status, pst_stop_requested, &why)) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    if (status != PST_OK) {
        trial->state = state_of(&why);
        trial->why = why;
        return PST_OK;
    }
    trial->ran = true;
    trial->n_steps = n_steps;
    trial->peaks_equal = round.peaks_equal && (trial->n_rounds == 0 || trial->peaks_equal);
    trial->final_loss = round.final_loss;
    trial->n_rounds++;
    sum_up_rounds(trial);
    return PST_OK;
}

/* --- what would do -----------------------------------------------------------------------------*/

bool pst_trial_was_refused(const struct pst_trial *trial)
{
    return trial->state == PST_TRIAL_NO_FIT || trial->state == PST_TRIAL_MISMATCH;
}

uint32_t pst_trial_n_advised(bool something_fits)
{
    return something_fits ? 3 : 8;
}

pst_status pst_trial_advise(const char *config_json, const struct pst_trial_options *options,
                            uint32_t *n_advised, struct pst_trial *trial, struct pst_error *err)
{
    struct pst_trial_options asked = *options;
    struct pst_trial again;
    struct pst_error why = {.status = PST_OK};
    pst_status status;
    bool helps;

    if (!pst_trial_was_refused(trial) || *n_advised == 0) {
        return PST_OK;
    }
    asked.advice = true;
    status = pst_trial_run(config_json, &asked, &again, &why);
    if (status != PST_OK) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    helps = again.state == PST_TRIAL_DONE || again.why.enough_bytes > 0;
    --*n_advised;
    if (!helps) {
        pst_trial_finish(&again);
        return PST_OK;
    }
    pst_trial_finish(trial);
    *trial = again;
    return PST_OK;
}
