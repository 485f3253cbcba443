/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/schedule_limit.h"

#include <stdio.h>

#include "base/util.h"
#include "commands/solo.h"
#include "train/stop.h"

/* The scheduler's answer under some limit. */
struct trial {
    bool works;
    char id[64];
    uint32_t n_devices, n_microbatches;
    uint64_t peak;  /* bytes */
    uint64_t grain; /* every peak is a multiple of so many bytes */
    uint64_t parts; /* bytes of a millionth of a unit */
};

struct limits {
    uint64_t least; /* millionths of a unit; UINT64_MAX: not known */
    struct trial trial;
};

static pst_status note_peak(const struct pst_schedule_request *request,
                            const struct pst_solo_result *result, struct trial *trial,
                            struct pst_error *err)
{
    uint32_t n_batches = result->answer.asynchronous ? request->n_steps : 1, d;
    struct pst_solo_stream stream = {.passes = NULL};
    struct pst_order_eval eval = {.n_devices = 0};
    pst_status st =
        pst_solo_evaluate(&result->answer, &result->solo.in, n_batches, &stream, &eval, err);

    trial->peak = 0;
    for (d = 0; d < eval.n_devices; d++) {
        trial->peak = eval.peak_bytes[d] > trial->peak ? eval.peak_bytes[d] : trial->peak;
    }
    pst_order_eval_finish(&eval);
    pst_solo_stream_finish(&stream);
    return st;
}

static void note_instance(const struct pst_solo_result *result, struct trial *trial)
{
    trial->n_devices = result->solo.in.n_devices;
    trial->n_microbatches = result->solo.stages[0].n_microbatches;
    trial->parts = result->scale / PST_SOLO_SCALE;
    trial->grain = 0;
    for (uint32_t s = 0; s < result->solo.in.n_stages; s++) {
        const struct pst_schedule_stage *stage = &result->solo.stages[s];

        trial->grain = pst_gcd(trial->grain, stage->saved_bytes);
        trial->grain = pst_gcd(trial->grain, stage->saved_weight_bytes);
    }
    snprintf(trial->id, sizeof trial->id, "%s", result->id);
}

/* `limit`: millionths; UINT64_MAX: none. Not to work is no error. */
static pst_status attempt(const struct pst_schedule_request *request, uint64_t limit,
                          struct trial *trial, struct pst_error *err)
{
    struct pst_solo_result result = {.scale = 1};
    struct pst_solo_job job = request->job;
    pst_status st;

    job.costs.limit_bytes = limit;
    job.again = false;
    trial->works = false;
    st = pst_cli_solo_run(&job, request->time_limit_ns, &result, err);
    if (pst_stop_requested()) { /* some then answer with what they have */
        pst_solo_result_finish(&result);
        return pst_stop_fail(err);
    }
    if (st == PST_OK) {
        note_instance(&result, trial);
        st = note_peak(request, &result, trial, err);
        trial->works = st == PST_OK &&
                       (limit >= UINT64_MAX / trial->parts || trial->peak <= limit * trial->parts);
    }
    pst_solo_result_finish(&result);
    return st == PST_ERR_INFEASIBLE ? PST_OK : st;
}

static uint64_t limit_of(const struct trial *trial, uint64_t n_grains)
{
    return (n_grains * trial->grain + trial->parts - 1) / trial->parts;
}

/* Less than this no order needs: every device holds one micro-batch on all its stages when the last
   stage has it. */
static uint64_t floor_of(const struct pst_schedule_request *request)
{
    uint64_t refused = request->job.costs.limit_bytes;

    return refused < PST_SOLO_SCALE ? PST_SOLO_SCALE : refused;
}

/* Some limit that works, in grains; what fails below it into *low. 0: none was found. */
static pst_status find_high(const struct pst_schedule_request *request, struct trial *trial,
                            uint64_t *low, uint64_t *ret_high, struct pst_error *err)
{
    uint64_t high = trial->peak / trial->grain, step = 1;
    uint64_t most = (uint64_t)trial->n_microbatches * trial->parts * PST_SOLO_SCALE / trial->grain;
    pst_status st = PST_OK;

    *ret_high = 0;
    while (st == PST_OK && *ret_high == 0 && high > *low && high <= most) {
        st = attempt(request, limit_of(trial, high), trial, err);
        if (trial->works) {
            *ret_high = high;
        } else {
            *low = high;
            high += step;
            step *= 2;
        }
    }
    return st;
}

/* Between what fails and what works. A fixed order fails just below its peak, so that comes first.
 */
static pst_status narrow(const struct pst_schedule_request *request, uint64_t low, uint64_t high,
                         struct limits *limits, struct pst_error *err)
{
    struct trial *trial = &limits->trial;
    bool first = true;
    pst_status st = PST_OK;

    while (st == PST_OK && high - low > 1) {
        uint64_t middle = first ? high - 1 : low + (high - low) / 2;

        first = false;
        st = attempt(request, limit_of(trial, middle), trial, err);
        if (trial->works) {
            high = middle;
        } else {
            low = middle;
        }
    }
    if (st == PST_OK) {
        limits->least = limit_of(trial, high);
    }
    return st;
}

static pst_status find_least(const struct pst_schedule_request *request, struct limits *limits,
                             struct pst_error *err)
{
    uint64_t refused = request->job.costs.limit_bytes, low, high;
    struct trial *trial = &limits->trial;
    pst_status st = PST_OK;

    limits->least = UINT64_MAX;
    if (refused < PST_SOLO_SCALE) {
        st = attempt(request, PST_SOLO_SCALE, trial, err);
        if (st == PST_OK && trial->works) {
            limits->least = PST_SOLO_SCALE;
            return PST_OK;
        }
    }
    if (st == PST_OK) {
        st = attempt(request, UINT64_MAX, trial, err);
    }
    if (st != PST_OK || !trial->works || trial->grain == 0) {
        return st;
    }
    low = floor_of(request) * trial->parts / trial->grain;
    st = find_high(request, trial, &low, &high, err);
    return st == PST_OK && high != 0 ? narrow(request, low, high, limits, err) : st;
}

static bool is_asked(const struct pst_schedule_request *request)
{
    return request->problem_file == NULL && request->job.costs.limit_bytes != UINT64_MAX;
}

static double units(uint64_t millionths)
{
    return (double)millionths / PST_SOLO_SCALE;
}

pst_status pst_schedule_limit_explain(const struct pst_schedule_request *request,
                                      struct pst_error *err)
{
    struct limits limits = {.least = UINT64_MAX};
    struct pst_error why = {.status = PST_OK};
    pst_status st = PST_OK;

    if (is_asked(request)) {
        st = find_least(request, &limits, &why);
    }
    if (st == PST_ERR_CANCELLED) {
        *err = why;
        return st;
    }
    if (st != PST_OK || limits.least == UINT64_MAX) {
        return PST_ERR_INFEASIBLE;
    }
    pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
             "scheduler \"%s\" finds no order of %u micro-batch%s on %u device%s within "
             "--memory-limit %.15g; the smallest that works is %.15g",
             limits.trial.id, limits.trial.n_microbatches,
             limits.trial.n_microbatches == 1 ? "" : "es", limits.trial.n_devices,
             limits.trial.n_devices == 1 ? "" : "s", units(request->job.costs.limit_bytes),
             units(limits.least));
    err->enough_memory_limit = units(limits.least);
    return PST_ERR_INFEASIBLE;
}

static pst_status fail_over(const struct pst_schedule_request *request,
                            const struct pst_schedule_figures *f, uint32_t device,
                            struct pst_error *err)
{
    uint64_t room = f->stream.in.activation_bytes[device], peak = f->eval.peak_bytes[device];
    double unit = f->bytes_per_unit > 0 ? f->bytes_per_unit : 1;
    struct limits limits = {.least = UINT64_MAX};
    char what[64] = "another scheduler may need less";
    pst_status st = is_asked(request) ? find_least(request, &limits, err) : PST_OK;

    if (st == PST_ERR_CANCELLED) {
        return st;
    }
    if (st == PST_OK && limits.least != UINT64_MAX) {
        snprintf(what, sizeof what, "the smallest that works is %.15g", units(limits.least));
    }
    pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
             "scheduler \"%s\" holds %.15g%s on device %u, more than %s %.15g; %s", f->result->id,
             (double)peak / unit,
             request->problem_file == NULL ? ""
             : request->problem.has_bytes  ? " bytes"
                                           : " samples",
             device, is_asked(request) ? "--memory-limit" : "its memory_bytes,",
             (double)room / unit, what);
    err->enough_memory_limit = limits.least == UINT64_MAX ? 0 : units(limits.least);
    return PST_ERR_INFEASIBLE;
}

pst_status pst_schedule_limit_check(const struct pst_schedule_request *request,
                                    const struct pst_schedule_figures *figures,
                                    struct pst_error *err)
{
    uint64_t most = 0;
    uint32_t device = PST_NONE;

    for (uint32_t d = 0; d < figures->eval.n_devices; d++) {
        uint64_t peak = figures->eval.peak_bytes[d];

        if (peak > figures->stream.in.activation_bytes[d] && peak > most) {
            most = peak;
            device = d;
        }
    }
    return device == PST_NONE ? PST_OK : fail_over(request, figures, device, err);
}
