/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that NCCL is told of beforehand, so that a network card reads and writes it in place and
 * no kernel copies it to and from buffers. It has to be so at both ends of a transfer or at none:
 * either all ranks register what transfers name, with every communicator that leads to another
 * host, or nobody does.
 *
 * Between GPUs of one host NCCL would take only memory that it has allocated itself, whose size it
 * rounds up, and arenas are as large as planned: nothing is gained there, and nothing registered.
 * NCCL_LOCAL_REGISTER=0 turns all of it off. An aborted communicator forgets what it knew.
 *
 * Source: the NCCL 2.28 documentation (user buffer registration).
 */
#include <stdio.h>
#include <string.h>

#include "transport/nccl/module.h"

#define SECOND UINT64_C(1000000000)

#ifndef NCCL_GAINS_AT_HOME
#define NCCL_GAINS_AT_HOME false /* the double has no network */
#endif

/* NCCL has them from 2.19 on. */
extern ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes,
                                     void **handle) __attribute__((weak));
extern ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle) __attribute__((weak));

static bool differ(const struct pst_transport *transport, uint32_t a, uint32_t b)
{
    const struct pst_transport_processes *processes = transport->control_ops->processes;

    return NCCL_GAINS_AT_HOME ||
           (processes != NULL && strcmp(processes->host(a), processes->host(b)) != 0);
}

/* Does the lane lead to another host? The same on all its ranks. */
static bool gains(const struct pst_transport *transport, const struct lane *lane)
{
    bool found = false;

    if (nccl_is_edge(lane)) {
        return differ(transport, lane->edge.from, lane->edge.to);
    }
    for (uint32_t r = 1; r < transport->config.n_ranks; r++) {
        found = found || differ(transport, 0, r);
    }
    return found;
}

static bool any_gains(const struct pst_transport *transport)
{
    const struct lane all = {.n = (int)transport->config.n_ranks};

    return ncclCommRegister != NULL && ncclCommDeregister != NULL &&
           transport->memory.region != NULL && gains(transport, &all);
}

static ncclResult_t register_lane(struct rank *rank, struct lane *lane, void *region,
                                  uint64_t bytes)
{
    void *pieces[PIECES] = {region, lane == &rank->lanes[LANE_SUMS] ? rank->scratch : NULL};
    const uint64_t sizes[PIECES] = {bytes, rank->scratch_elems * sizeof *rank->scratch};
    ncclResult_t result = ncclSuccess;

    pthread_mutex_lock(&rank->mutex);
    for (uint32_t p = 0; p < PIECES && result == ncclSuccess && lane->comm != NULL; p++) {
        if (pieces[p] != NULL) {
            result = ncclCommRegister(lane->comm, pieces[p], sizes[p], &lane->registered[p]);
            lane->registered[p] = result == ncclSuccess ? lane->registered[p] : NULL;
        }
    }
    pthread_mutex_unlock(&rank->mutex);
    return result;
}

static void drop(struct pst_transport *transport, uint32_t index)
{
    struct rank *rank = nccl_rank(transport, index);

    pthread_mutex_lock(&rank->mutex);
    for (uint32_t l = 0; l < rank->n_lanes; l++) {
        struct lane *lane = &rank->lanes[l];

        for (uint32_t p = 0; p < PIECES; p++) {
            if (lane->registered[p] != NULL && lane->comm != NULL &&
                !atomic_load(&transport->failed)) {
                ncclCommDeregister(lane->comm, lane->registered[p]);
                lane->registered[p] = NULL;
            }
        }
    }
    pthread_mutex_unlock(&rank->mutex);
}

static bool is_idle(struct rank *rank)
{
    bool idle = true;

    pthread_mutex_lock(&rank->mutex);
    for (uint32_t l = 0; l < rank->n_lanes; l++) {
        nccl_lane_retire(&rank->lanes[l]);
        idle = idle && rank->lanes[l].first == rank->lanes[l].next;
    }
    pthread_mutex_unlock(&rank->mutex);
    return idle;
}

/* Waits a second more than the stall limit, so that the watch ends a stalled run first. */
bool nccl_deregister(struct pst_transport *transport, uint32_t index)
{
    const uint64_t begin = pst_now_ns(), end_ns = begin + transport->config.stall_ns + SECOND;
    struct rank *rank = nccl_rank(transport, index);
    bool idle = is_idle(rank);

    while (!idle && !atomic_load(&transport->failed) && pst_now_ns() < end_ns) {
        nccl_pause(begin);
        idle = is_idle(rank);
    }
    if (idle) { /* else its communicators will be aborted */
        drop(transport, index);
    }
    return idle;
}

static void note(const struct pst_transport *transport, uint32_t index, uint64_t bytes,
                 ncclResult_t own, double n_failed)
{
    char text[160];

    if (transport->config.note == NULL) {
        return;
    }
    if (n_failed > 0) {
        snprintf(text, sizeof text,
                 "rank %u: memory is not registered with NCCL: %.0f ranks cannot (here: %s)", index,
                 n_failed, ncclGetErrorString(own));
    } else {
        snprintf(text, sizeof text, "rank %u: %llu bytes are registered with NCCL", index,
                 (unsigned long long)bytes);
    }
    transport->config.note(text);
}

pst_status nccl_register(struct pst_transport *transport, uint32_t index)
{
    struct rank *rank = nccl_rank(transport, index);
    ncclResult_t result = ncclSuccess;
    struct pst_error why = {0};
    uint64_t bytes = 0;
    double failed;
    void *region;

    if (!any_gains(transport)) {
        return PST_OK;
    }
    region = transport->memory.region(transport->memory.context, index, &bytes);
    for (uint32_t l = 0; l < rank->n_lanes && result == ncclSuccess; l++) {
        if (gains(transport, &rank->lanes[l])) {
            result = register_lane(rank, &rank->lanes[l], region, bytes);
        }
    }
    failed = result != ncclSuccess;
    if (transport->control_ops->sum(transport->control, index, &failed, 1, &why) != PST_OK) {
        nccl_fail(transport, index, &why);
        return PST_ERR_CANCELLED;
    }
    if (failed > 0) {
        drop(transport, index);
    }
    note(transport, index, bytes, result, failed);
    return PST_OK;
}
