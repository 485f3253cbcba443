/* SPDX-License-Identifier: Apache-2.0 */
#include "train/gpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/report.h"
#include "host/plugin_host.h"
#include "train/session.h"

struct gpu {
    char name[32];
};

/* Only devices of a machine have names. */
static bool wants_one_each(const struct pst_session *session)
{
    return pst_module_has("transport", session->job->run.transport, PST_MODULE_IN_STREAMS) &&
           session->device_ops->identity != NULL;
}

static struct gpu gpu_of(const struct pst_session *session, uint32_t rank, uint32_t n_ranks)
{
    struct pst_device_config config = session->device_config;
    struct gpu gpu = {""};

    config.index = rank;
    config.first_rank = n_ranks == 1 ? rank : 0;
    config.n_ranks = n_ranks;
    session->device_ops->identity(&config, gpu.name, sizeof gpu.name);
    return gpu;
}

static bool same(const struct gpu *a, const struct gpu *b)
{
    return a->name[0] != '\0' && strcmp(a->name, b->name) == 0;
}

/* The first two of n ranks on one host that have the same GPU; false: there are none. */
static bool find_meeting(const struct pst_team *team, const struct gpu *gpus, uint32_t n,
                         uint32_t *ret_rank, uint32_t *ret_other)
{
    for (uint32_t rank = 1; rank < n; rank++) {
        for (uint32_t other = 0; other < rank; other++) {
            if (same(&gpus[other], &gpus[rank]) &&
                (team->ops == NULL || strcmp(team->ops->host(other), team->ops->host(rank)) == 0)) {
                *ret_rank = rank;
                *ret_other = other;
                return true;
            }
        }
    }
    return false;
}

pst_status pst_session_check_gpus(const struct pst_session *session, struct pst_error *err)
{
    const uint32_t n = (uint32_t)session->cluster.devices;
    uint32_t rank, other;
    struct gpu *gpus;
    pst_status status = PST_OK;

    if (!wants_one_each(session) || session->transport_ops->processes != NULL) {
        return PST_OK;
    }
    gpus = pst_alloc(n, sizeof *gpus);
    for (rank = 0; rank < n; rank++) {
        gpus[rank] = gpu_of(session, rank, n);
    }
    if (find_meeting(&session->team, gpus, n, &rank, &other)) { /* `rank` ranks have one each */
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                          "transport %s wants a GPU for each rank, and ranks %u and %u would both "
                          "have GPU %s; take run.transport = \"threads\" with run.share = %u, or "
                          "%u device%s",
                          session->job->run.transport, other, rank, gpus[rank].name,
                          (n + rank - 1) / rank, rank, rank == 1 ? "" : "s");
    }
    free(gpus);
    return pst_config_place(session->job->config, "run", "transport", status, err);
}

pst_status pst_team_check_gpus(const struct pst_team *team, const struct pst_session *session,
                               struct pst_error *err)
{
    struct gpu mine, *gpus;
    uint32_t rank, other;
    pst_status status;

    if (team->ops == NULL || !wants_one_each(session)) {
        return PST_OK;
    }
    mine = gpu_of(session, team->rank, 1);
    gpus = pst_alloc(team->n, sizeof *gpus);
    status = team->ops->exchange(&mine, gpus, sizeof mine, err);
    if (status == PST_OK && find_meeting(team, gpus, team->n, &rank, &other)) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                          "transport %s wants a GPU for each rank, and ranks %u and %u (host %s) "
                          "would both have GPU %s; start as many processes on a host as it has "
                          "GPUs, or take run.transport = \"mpi\"",
                          session->job->run.transport, other, rank, team->ops->host(rank),
                          gpus[rank].name);
        pst_config_place(session->job->config, "run", "transport", status, err);
    }
    free(gpus);
    return status;
}
