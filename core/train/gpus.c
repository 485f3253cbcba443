/* SPDX-License-Identifier: Apache-2.0
 *
 * Some transports have one rank on each GPU and say so late, when they are attached. Here it is
 * found out before a plan is searched. Others copy within a GPU and are asked for nothing.
 */
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

/* Of a run in one process `rank` ranks have one each. */
static pst_status fail(const struct pst_session *session, const char *gpu, uint32_t n,
                       uint32_t rank, uint32_t other, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    const char *transport = session->job->run.transport;

    if (team->ops == NULL) {
        pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                 "transport %s wants a GPU for each rank, and ranks %u and %u would both have GPU "
                 "%s; take run.transport = \"threads\" with run.share = %u, or %u device%s",
                 transport, other, rank, gpu, (n + rank - 1) / rank, rank, rank == 1 ? "" : "s");
    } else {
        pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                 "transport %s wants a GPU for each rank, and ranks %u and %u (host %s) would both "
                 "have GPU %s; start as many processes on a host as it has GPUs, or take "
                 "run.transport = \"mpi\"",
                 transport, other, rank, team->ops->host(rank), gpu);
    }
    return pst_config_place(session->job->config, "run", "transport", PST_ERR_UNSUPPORTED, err);
}

pst_status pst_session_check_gpus(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    const uint32_t n = team->ops != NULL ? team->n : (uint32_t)session->cluster.devices;
    pst_status status = PST_OK;
    uint32_t rank, other;
    struct gpu *gpus;

    if (!wants_one_each(session) ||
        (team->ops == NULL && session->transport_ops->processes != NULL)) {
        return PST_OK;
    }
    gpus = pst_alloc(n, sizeof *gpus);
    if (team->ops != NULL) {
        struct gpu mine = gpu_of(session, team->rank, 1);

        status = team->ops->exchange(&mine, gpus, sizeof mine, err);
    }
    for (rank = 0; team->ops == NULL && rank < n; rank++) {
        gpus[rank] = gpu_of(session, rank, n);
    }
    if (status == PST_OK && find_meeting(team, gpus, n, &rank, &other)) {
        status = fail(session, gpus[rank].name, n, rank, other, err);
    }
    free(gpus);
    return status;
}
