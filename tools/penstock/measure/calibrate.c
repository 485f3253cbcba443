/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/calibrate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cache.h"
#include "base/util.h"
#include "host/search.h"
#include "measure/calibration.h"
#include "measure/describe.h"
#include "measure/others.h"
#include "models/costed/costed_file.h"

/* As much as tells operators apart by a few percent; `penstock profile` takes its time. */
#define ROUNDS   10u
#define WARMUPS  3u
#define LEAST_NS 60000000u
#define GROUP_NS 3000000000u
/* The times that [cluster] predicts may be several times too short. */
#define MOST_SECONDS 20.0
#define FEWEST       4u /* runs of an operator that takes long: one to warm up, three measured */

/* --- is it worth it? ---------------------------------------------------------------------------*/

static double op_seconds(const struct pst_session *session, uint32_t op, uint32_t samples)
{
    struct pst_cost_model described = session->cost;
    struct pst_times times;

    described.profile = NULL;
    pst_cost_op(&described, op, samples, &times);
    return ((double)times.forward_ns + (double)times.backward_input_ns +
            (double)times.backward_weight_ns) /
           1e9;
}

/* Estimates how long measuring lasts. Operators that are alike count once: up to PST_MEASURE_TWINS
   of them share the rounds. */
static double estimate(const struct pst_session *session, const struct pst_profile_request *request)
{
    const struct pst_graph *graph = session->graph;
    struct pst_arena arena = {0};
    uint32_t *kinds = pst_arena_array(&arena, graph->n_ops + 1u, sizeof *kinds), n = 0;
    double seconds = 0;

    for (uint32_t op = 0; op < graph->n_ops; op++) {
        uint32_t k = 0;

        while (k < n && !pst_measure_alike(graph, kinds[k], op)) {
            k++;
        }
        if (k < n) {
            continue;
        }
        kinds[n++] = op;
        for (uint32_t i = 0; i < request->n_sizes; i++) {
            seconds += FEWEST * op_seconds(session, op, request->sizes[i]);
        }
    }
    pst_arena_finish(&arena);
    return seconds;
}

static void choose_sizes(const struct pst_session *session, uint32_t samples,
                         struct pst_profile_request *request)
{
    struct pst_job job = *session->job;

    job.train.microbatch = samples;
    pst_profile_sizes(&job, request);
}

/* --- files -------------------------------------------------------------------------------------*/

static pst_status write_cluster(const struct pst_session *session,
                                const struct pst_profiled *profile, const char *file,
                                struct pst_error *err)
{
    struct pst_described described;
    pst_status status = pst_describe(session, profile, &described, err);
    char *text;

    if (status == PST_OK) {
        text = pst_described_toml(&described, session, profile);
        status = pst_file_write(file, text, strlen(text), err);
        free(text);
    }
    return status;
}

/* Makes the file writable by its owner alone. A file that others can write is not read again. */
static pst_status make_trusted(const char *file, struct pst_error *err)
{
    struct pst_arena arena = {0};
    const char *path;
    pst_status status =
        chmod(file, 0644) == 0
            ? pst_search_trusted(&arena, file, "measurements are read", false, &path, err)
            : pst_fail(err, PST_ERR_IO, "output.write", "%s: %s", file, strerror(errno));

    pst_arena_finish(&arena);
    return status == PST_OK ? PST_OK : PST_ERR_IO;
}

/* The profile last: where it is, the other file is, too. */
static pst_status keep(const struct pst_session *session, const struct pst_profiled *profile,
                       struct pst_error *err)
{
    char *cluster = pst_calibration_cluster_file(session);
    char *file = pst_calibration_profile_file(session);
    pst_status status = pst_cache_make(file, "nothing is kept for later commands", err);
    size_t length = 0;
    char *text;

    PST_TRY(status, write_cluster(session, profile, cluster, err));
    if (status == PST_OK) {
        text = pst_costed_write(profile->graph, &length);
        status = pst_file_write(file, text, length, err);
        free(text);
    }
    PST_TRY(status, make_trusted(cluster, err));
    PST_TRY(status, make_trusted(file, err));
    free(cluster);
    free(file);
    return status;
}

/* Later commands do not use a measurement that other programs disturbed; they measure again. */
static pst_status keep_somewhere(const struct pst_session *session,
                                 const struct pst_profiled *profile,
                                 const struct pst_calibrate_listener *listener, bool *ret_kept,
                                 struct pst_error *err)
{
    const bool held_up = profile->held_up && profile->others > PST_OTHERS_MANY;
    pst_status status = held_up ? PST_ERR_IO : keep(session, profile, err);

    *ret_kept = status == PST_OK && !pst_cache_stands_in();
    if (status != PST_ERR_IO) { /* where it could not be written, another folder may do */
        return status;
    }
    if (!held_up && listener->unkept != NULL) {
        listener->unkept(listener->context, err->message);
    }
    status = pst_cache_stand_in(err);
    return status == PST_OK ? keep(session, profile, err) : status;
}

static void tell_disturbed(const struct pst_session *session, const struct pst_profiled *profile,
                           bool kept, const struct pst_calibrate_listener *listener)
{
    char *file = kept ? pst_calibration_profile_file(session) : NULL;

    if (profile->others > PST_OTHERS_MANY && listener->disturbed != NULL) {
        listener->disturbed(listener->context, profile->others, file);
    }
    free(file);
}

/* --- measuring ---------------------------------------------------------------------------------*/

static pst_status run(struct pst_session *session, const struct pst_profile_request *request,
                      const struct pst_calibrate_listener *listener, struct pst_error *err)
{
    struct pst_profiled profile;
    bool kept = false;
    pst_status status = PST_OK;

    if (session->transport_ops == NULL) {
        status = pst_session_load_transport(session->job, &session->transport_ops, err);
    }
    if (status != PST_OK) {
        return status;
    }
    status = pst_profile_run(session, request, &profile, err);
    if (status == PST_OK) {
        status = keep_somewhere(session, &profile, listener, &kept, err);
        if (status == PST_OK) {
            tell_disturbed(session, &profile, kept, listener);
        }
        pst_profile_finish(&profile);
    }
    return status;
}

static void skip(const struct pst_calibrate_listener *listener, const char *why)
{
    if (listener->skipped != NULL) {
        listener->skipped(listener->context, why);
    }
}

static pst_status measure(struct pst_session *session, const struct pst_profile_request *request,
                          double seconds, const struct pst_calibrate_listener *listener,
                          struct pst_error *err)
{
    pst_status status;

    if (listener->begins != NULL) {
        listener->begins(listener->context, session, seconds);
    }
    status = run(session, request, listener, err);
    if (status == PST_ERR_CANCELLED && listener->cancelled != NULL && listener->cancelled()) {
        return status;
    }
    if (status != PST_OK) {
        skip(listener, err->message);
    }
    return PST_OK;
}

pst_status pst_calibrate(struct pst_session *session, uint32_t samples,
                         const struct pst_calibrate_listener *listener, struct pst_error *err)
{
    struct pst_profile_request request = {.rounds = ROUNDS,
                                          .warmups = WARMUPS,
                                          .least_ns = LEAST_NS,
                                          .group_ns = GROUP_NS,
                                          .reads_data = pst_calibration_reads_data(session),
                                          .progress = listener->progress,
                                          .context = listener->context,
                                          .cancelled = listener->cancelled};
    struct pst_error why = {.status = PST_OK};
    char text[160], time[32];
    double seconds;
    pst_status status;

    if (!pst_calibration_is_wanted(session)) {
        return PST_OK;
    }
    choose_sizes(session, samples, &request);
    if (session->calibrated && session->profile->batch >= request.sizes[request.n_sizes - 1]) {
        return PST_OK;
    }
    seconds = estimate(session, &request);
    if (seconds > MOST_SECONDS && session->calibrated) {
        return PST_OK; /* smaller ones were measured */
    }
    if (seconds > MOST_SECONDS) {
        snprintf(text, sizeof text, "its operators would take about %s here",
                 pst_format_ns(time, (uint64_t)(seconds < 1e9 ? seconds * 1e9 : 1e18)));
        skip(listener, text);
        return PST_OK;
    }
    status = measure(session, &request, seconds, listener, &why);
    if (status != PST_OK) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    pst_calibration_load(session);
    return PST_OK;
}
