/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/calibration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/hash.h"
#include "base/mpi_environment.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "data/data_plugin.h"
#include "host/search.h"
#include "loop/emulate.h"
#include "models/costed/costed_file.h"
#include "models/costed/costed_profile.h"

/* Whoever says one of these describes devices. */
static const char *const speeds[] = {
    "flops",         "bf16_flops",        "efficiency",    "memory_bandwidth", "launch_overhead",
    "host_overhead", "transfer_overhead", "step_overhead", "softmax_traffic",  "loss_traffic"};
/* These are no matter of measuring. */
static const char *const sizes[] = {"devices", "memory", "reserve"};

static bool is_said(const struct pst_job *job, const char *key)
{
    return job->cluster != NULL && pst_config_get(job->cluster, key) != NULL;
}

bool pst_calibration_is_wanted(const struct pst_session *session)
{
    const struct pst_job *job = session->job;

    for (uint32_t i = 0; pst_cluster_tables[i] != NULL; i++) {
        if (is_said(job, pst_cluster_tables[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        if (is_said(job, speeds[i])) {
            return false;
        }
    }
    return job->profile.measure == PST_MEASURE_AUTO && getenv("PENSTOCK_NO_PROFILE") == NULL &&
           job->profile.file[0] == '\0' && !session->chooses && session->graph->costed == NULL &&
           !pst_session_has_no_data(session) && !pst_launched_as_several();
}

bool pst_calibration_reads_data(const struct pst_session *session)
{
    bool foreign;
    struct pst_error unused;

    return pst_data_is_foreign(session->job, &foreign, &unused) == PST_OK && !foreign;
}

/* --- the files ---------------------------------------------------------------------------------*/

static void add(struct pst_hasher *hasher, const char *text)
{
    pst_hasher_add(hasher, text, strlen(text) + 1);
}

static void add_machine(struct pst_hasher *hasher, const struct pst_session *session)
{
    char text[512] = "";

    add(hasher, PENSTOCK_VERSION " with the host's part");
    gethostname(text, sizeof text - 1);
    add(hasher, text);
    pst_machine_processor(text, sizeof text);
    add(hasher, text);
    text[0] = '\0';
    session->device_ops->describe(text, sizeof text); /* with the versions of its libraries */
    add(hasher, text);
}

static void add_job(struct pst_hasher *hasher, const struct pst_session *session)
{
    const struct pst_job *job = session->job;
    const uint64_t numbers[] = {session->graph->digest, session->device_config.threads,
                                job->run.dtype,         session->device_config.share,
                                job->train.optimizer,   session->graph->n_ops,
                                pst_usable_cores()};

    add(hasher, job->run.device);
    add(hasher, job->run.transport);
    add(hasher, job->run.kernels);
    add(hasher, pst_calibration_reads_data(session) ? job->training->data.kind : "not read");
    pst_hasher_add(hasher, numbers, sizeof numbers);
}

static char *file_of(const struct pst_session *session, const char *ending)
{
    struct pst_hasher *hasher = pst_hasher_create();
    char digits[PST_HASH_TEXT], *name, *path;
    struct pst_hash hash;

    add_machine(hasher, session);
    add_job(hasher, session);
    hash = pst_hasher_end(hasher);
    pst_hasher_destroy(hasher);
    name = pst_printf("profiles/%s.%s", pst_hash_text(&hash, digits), ending);
    path = pst_cache_path(name);
    free(name);
    return path;
}

char *pst_calibration_profile_file(const struct pst_session *session)
{
    return file_of(session, "json");
}

char *pst_calibration_cluster_file(const struct pst_session *session)
{
    return file_of(session, "toml");
}

/* --- taking it ---------------------------------------------------------------------------------*/

static pst_status take_times(struct pst_session *session, const char *file, struct pst_error *err)
{
    struct pst_costed *profile = NULL;
    const uint32_t *nodes = NULL;
    pst_status status = pst_costed_read(file, &profile, err);

    PST_TRY(status, pst_profile_bind(profile, session->graph, &session->arena, &nodes, err));
    if (status != PST_OK) {
        pst_costed_destroy(profile);
        return status;
    }
    pst_costed_destroy(session->profile);
    session->profile = profile;
    session->cost.profile = profile;
    session->cost.profile_nodes = nodes;
    return PST_OK;
}

static bool is_size(const char *key)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(key, sizes[i]) == 0) {
            return true;
        }
    }
    return false;
}

pst_status pst_calibration_read(struct pst_session *session, struct pst_error *err)
{
    const char *file = session->job->profile.file;
    pst_status status = take_times(session, file, err);

    if (status != PST_OK && err != NULL && err->file[0] == '\0') {
        snprintf(err->file, sizeof err->file, "%s", file);
    }
    return status;
}

/* Sets the keys of [cluster] that the config leaves out and the file has. */
static pst_status take_cluster(struct pst_session *session, const char *file, struct pst_error *err)
{
    struct pst_config *config = NULL;
    struct pst_config_node *said;
    struct pst_cluster known;
    pst_status status = pst_config_load(file, NULL, 0, &config, err);

    if (status != PST_OK) {
        return status;
    }
    said = pst_config_get(config->root, "cluster");
    status = pst_params_fill(pst_cluster_params, pst_cluster_n_params, sizeof(struct pst_param),
                             said, "[cluster]", NULL, &session->arena, &known, err);
    for (uint32_t i = 0; status == PST_OK && said != NULL && i < pst_cluster_n_params; i++) {
        const struct pst_param *row = &pst_cluster_params[i];

        if (!is_size(row->key) && pst_config_get(said, row->key) != NULL &&
            !is_said(session->job, row->key)) {
            memcpy((char *)&session->cluster + row->offset, (const char *)&known + row->offset,
                   sizeof(uint64_t)); /* as large as all of its fields */
        }
    }
    pst_config_destroy(config);
    return status;
}

/* Others may not say what this machine can do. */
static bool is_trusted(const char *file)
{
    struct pst_arena arena = {0};
    struct pst_error err;
    const char *path;
    const bool trusted =
        pst_search_trusted(&arena, file, "measurements are read", false, &path, &err) == PST_OK;

    if (!trusted) {
        pst_log(PST_LOG_WARN, "profile", "kept measurements are not used: %s", err.message);
    }
    pst_arena_finish(&arena);
    return trusted;
}

void pst_calibration_load(struct pst_session *session)
{
    struct pst_error err = {.status = PST_OK};
    char *profile, *cluster;
    pst_status status;

    if (!pst_calibration_is_wanted(session)) {
        return;
    }
    profile = pst_calibration_profile_file(session);
    cluster = pst_calibration_cluster_file(session);
    if (profile != NULL && access(profile, F_OK) == 0 && access(cluster, F_OK) == 0 &&
        is_trusted(profile) && is_trusted(cluster)) {
        status = take_cluster(session, cluster, &err);
        PST_TRY(status, take_times(session, profile, &err));
        session->calibrated = status == PST_OK;
        pst_session_times_taken(session);
        pst_log(PST_LOG_INFO, "profile", "%s: %s", profile,
                status == PST_OK ? "its times are used" : err.message);
    }
    free(profile);
    free(cluster);
}
