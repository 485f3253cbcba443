/* SPDX-License-Identifier: Apache-2.0
 *
 * transport-nccl.so: choosing the control, opening, closing, the table. Linked with libnccl and
 * libcudart, never with libcuda: it loads where there is no driver, and says so.
 */
#include "transport/nccl/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/kernels_early.h"
#include "base/memory.h"
#include "base/mpi_environment.h"

#ifndef NCCL_CONTROL_FOLDER
#define NCCL_CONTROL_FOLDER "" /* from that of this module */
#endif

const struct pst_transport_ops *nccl_control;
static char control_why[384];

/* --- the control -------------------------------------------------------------------------------*/

/* The module of another transport, from the folder that this one is in. It stays for good, as all
   modules do. */
static void load_control(const char *id)
{
    char path[4096];
    const char *slash;
    Dl_info info;
    pst_transport_module_fn *entry = NULL;
    void *module;

    if (dladdr((void *)(uintptr_t)&load_control, &info) == 0 || info.dli_fname == NULL ||
        (slash = strrchr(info.dli_fname, '/')) == NULL) {
        snprintf(control_why, sizeof control_why, "cannot find the folder that this module is in");
        return;
    }
    snprintf(path, sizeof path, "%.*s" NCCL_CONTROL_FOLDER "/transport-%s.so",
             (int)(slash - info.dli_fname), info.dli_fname, id);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module != NULL) {
        *(void **)&entry = dlsym(module, PST_TRANSPORT_MODULE_SYMBOL);
    }
    if (entry == NULL) {
        snprintf(control_why, sizeof control_why, "it needs transport \"%s\": %.300s", id,
                 dlerror());
        return;
    }
    nccl_control = entry();
}

static pst_status nccl_probe(char *ret_why, size_t why_size)
{
    int n = 0, version = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if (nccl_control == NULL) {
        snprintf(ret_why, why_size, "%s", control_why);
        return PST_ERR_UNSUPPORTED;
    }
    if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&version) == cudaSuccess &&
        version == 0) {
        snprintf(ret_why, why_size, "no NVIDIA driver on this machine (%s)",
                 cudaGetErrorName(error));
        return PST_ERR_UNSUPPORTED;
    }
    if (error != cudaSuccess || n == 0) {
        snprintf(ret_why, why_size, "no GPU can be used: %s",
                 error == cudaSuccess ? "the driver reports none" : cudaGetErrorString(error));
        return PST_ERR_UNSUPPORTED;
    }
    if (ncclGetVersion(&version) != ncclSuccess || version < NCCL_VERSION(2, 18, 0)) {
        snprintf(ret_why, why_size, "NCCL %d is too old, 2.18 is needed", version);
        return PST_ERR_UNSUPPORTED;
    }
    if (why_size > 0) {
        ret_why[0] = '\0';
    }
    return PST_OK;
}

/* --- opening -----------------------------------------------------------------------------------*/

static void init_rank(const struct pst_transport *transport, uint32_t index, struct rank *rank)
{
    const struct pst_transport_config *config = &transport->config;
    uint32_t n_transfers = config->max_requests, n_sums = config->max_meetings;

    rank->requests = pst_alloc(n_transfers + n_sums, sizeof *rank->requests);
    rank->group = pst_alloc(config->max_requests, sizeof *rank->group);
    nccl_lanes_init(transport, index, rank);
    requests_fill(&rank->free_transfers, rank->requests, n_transfers, sizeof *rank->requests);
    requests_fill(&rank->free_sums, rank->requests + n_transfers, n_sums, sizeof *rank->requests);
    rank->waits_for = NCCL_NOBODY;
    pthread_mutex_init(&rank->mutex, NULL);
}

static void destroy(struct pst_transport *transport)
{
    for (uint32_t r = 0; r < transport->n_ready; r++) {
        struct rank *rank = &transport->ranks[r];

        free(rank->requests);
        free(rank->group);
        nccl_lanes_finish(rank);
        pthread_mutex_destroy(&rank->mutex);
    }
    if (transport->control != NULL) {
        transport->control_ops->close(transport->control);
    }
    pthread_mutex_destroy(&transport->mutex);
    pthread_cond_destroy(&transport->wake);
    free(transport->ranks);
    free(transport->edges);
    free(transport->ids);
    free(transport);
}

static void nccl_close(struct pst_transport *transport)
{
    if (transport != NULL) {
        nccl_watch_stop(transport);
        nccl_detach(transport);
        destroy(transport);
    }
}

static struct pst_transport *create(const struct pst_transport_config *config)
{
    struct pst_transport *transport = pst_alloc(1, sizeof *transport);

    pthread_mutex_init(&transport->mutex, NULL);
    stall_init_wake(&transport->wake);
    transport->config = *config;
    transport->config.memory = NULL; /* copied */
    transport->memory = *config->memory;
    transport->config.max_requests = config->max_requests > 0 ? config->max_requests : 1;
    transport->control_ops = nccl_control;
    return transport;
}

static pst_status make_ids(struct pst_transport *transport, struct pst_error *err)
{
    ncclResult_t result = ncclSuccess;

    for (uint32_t i = 0; i < transport->n_ids && result == ncclSuccess; i++) {
        result = ncclGetUniqueId(&transport->ids[i]);
    }
    if (result != ncclSuccess) {
        pst_fail(err, PST_ERR_DEVICE, "run.device", "ncclGetUniqueId: %s: %.300s",
                 ncclGetErrorString(result), ncclGetLastError(NULL));
        if (err != NULL) {
            err->exit_code = 4;
        }
        return PST_ERR_DEVICE;
    }
    return PST_OK;
}

/* Ranks of this process, and what the ranks need to find each other. */
static pst_status meet(struct pst_transport *transport, struct pst_error *err)
{
    const struct pst_transport_processes *processes = transport->control_ops->processes;
    pst_status status = nccl_edges_find(transport, err);

    transport->first = processes != NULL ? processes->rank() : 0;
    transport->n_local = processes != NULL ? 1 : transport->config.n_ranks;
    if (status == PST_OK) {
        transport->ids = pst_alloc(transport->n_ids, sizeof *transport->ids);
    }
    if (status == PST_OK && transport->first == 0) {
        status = make_ids(transport, err);
    }
    return status != PST_OK || processes == NULL
               ? status
               : processes->broadcast(transport->ids, transport->n_ids * sizeof *transport->ids,
                                      err);
}

static pst_status open_parts(struct pst_transport *transport, struct pst_error *err)
{
    struct pst_transport_config config = transport->config;
    pst_status status;

    config.max_requests = 1; /* of the control */
    config.max_meetings = 0;
    status = transport->control_ops->open(&config, &transport->control, err);
    if (status == PST_OK) {
        status = meet(transport, err);
    }
    if (status != PST_OK) {
        return status;
    }
    transport->ranks = pst_alloc(transport->n_local, sizeof *transport->ranks);
    for (; transport->n_ready < transport->n_local; transport->n_ready++) {
        init_rank(transport, transport->first + transport->n_ready,
                  &transport->ranks[transport->n_ready]);
    }
    return nccl_watch_start(transport)
               ? PST_OK
               : pst_fail(err, PST_ERR_NOMEM, "machine.threads", "cannot start a thread");
}

/* Collective, where ranks are processes. */
static pst_status nccl_open(const struct pst_transport_config *config,
                            struct pst_transport **ret_transport, struct pst_error *err)
{
    struct pst_transport *transport;
    pst_status status;

    if (config->memory == NULL || config->device->stream == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "run.transport = \"nccl\" is for run.device = \"cuda\"");
    }
    if (config->n_ranks == 0 || config->stall_ns == 0 || config->times != NULL) {
        return pst_fail(err, PST_ERR_BUG, "transport.config",
                        "transport nccl: %u ranks with a stall limit of %llu ns", config->n_ranks,
                        (unsigned long long)config->stall_ns);
    }
    transport = create(config);
    status = open_parts(transport, err);
    if (status != PST_OK) {
        nccl_close(transport);
        return status;
    }
    *ret_transport = transport;
    return PST_OK;
}

/* --- what the control does ---------------------------------------------------------------------*/

static pst_status nccl_sum(struct pst_transport *transport, uint32_t rank, double *values,
                           uint32_t n, struct pst_error *err)
{
    pst_status status = nccl_flush(transport, rank, err);

    status = status == PST_OK
                 ? transport->control_ops->sum(transport->control, rank, values, n, err)
                 : status;
    if (status == PST_OK) {
        struct rank *self = nccl_rank(transport, rank);

        transport->control_ops->span(transport->control, rank, &self->start_ns, &self->end_ns);
    }
    return status;
}

static void nccl_span(const struct pst_transport *transport, uint32_t rank, uint64_t *ret_start_ns,
                      uint64_t *ret_end_ns)
{
    *ret_start_ns = nccl_rank(transport, rank)->start_ns;
    *ret_end_ns = nccl_rank(transport, rank)->end_ns;
}

static struct pst_transport_ops nccl_ops = {
    .size = sizeof nccl_ops,
    .id = "nccl",
    .takes_memory = true,
    .ordered = true,
    .probe = nccl_probe,
    .open = nccl_open,
    .close = nccl_close,
    .attach = nccl_attach,
    .detach = nccl_let_go,
    .post = nccl_post,
    .flush = nccl_flush,
    .wait = nccl_wait,
    .sum = nccl_sum,
    .meet = nccl_meet,
    .abort = nccl_fail,
    .check = nccl_check,
    .span = nccl_span,
};

PST_EXPORT const struct pst_transport_ops *pst_transport_module(void);

/* One process for each GPU where a launcher has started this one; else it drives all of them. */
const struct pst_transport_ops *pst_transport_module(void)
{
    pst_load_kernels_early();
    if (nccl_control == NULL) {
        load_control(pst_launched_size() != NULL ? "mpi" : "threads");
        nccl_ops.processes = nccl_control != NULL ? nccl_control->processes : NULL;
    }
    return &nccl_ops;
}
