/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers. Those posted one after the other wait for the first call of another kind, which sends
 * them on their way: as one group, or each in the lane of its edge. Between two ranks they match in
 * the order of posting, which is the same on both: that of the plan.
 */
#include "transport/nccl/module.h"

static pst_status post(struct pst_transport *transport, uint32_t index, uint32_t peer, bool is_send,
                       const void *data, uint64_t bytes, pst_request *ret_request)
{
    struct rank *rank = nccl_rank(transport, index);
    uint32_t id = rank != NULL ? rank->free_transfers : NCCL_NOBODY, lane;
    struct request *request;

    if (atomic_load(&transport->failed)) {
        return PST_ERR_CANCELLED;
    }
    lane = rank != NULL ? nccl_lane_of(rank, peer, is_send) : NCCL_NOBODY;
    if (id == NCCL_NOBODY || lane == NCCL_NOBODY || peer == index ||
        peer >= transport->config.n_ranks) {
        return PST_ERR_BUG;
    }
    request = &rank->requests[id];
    rank->free_transfers = request->next_free;
    *request = (struct request){
        .used = true, .is_send = is_send, .lane = lane, .peer = peer, .data = data, .bytes = bytes};
    rank->group[rank->n_group++] = id;
    *ret_request = id;
    return PST_OK;
}

pst_status nccl_send(struct pst_transport *transport, uint32_t rank, uint32_t to, uint64_t tag,
                     const void *data, uint64_t bytes, pst_request *ret_request)
{
    (void)tag;
    return post(transport, rank, to, true, data, bytes, ret_request);
}

pst_status nccl_recv(struct pst_transport *transport, uint32_t rank, uint32_t from, uint64_t tag,
                     void *data, uint64_t bytes, pst_request *ret_request)
{
    (void)tag;
    return post(transport, rank, from, false, data, bytes, ret_request);
}

/* Transfers [begin, end) of those that are being posted. */
static ncclResult_t issue(const struct rank *rank, const struct lane *lane, uint32_t begin,
                          uint32_t end)
{
    ncclResult_t result = ncclGroupStart(), over;

    for (uint32_t i = begin; i < end && result == ncclSuccess; i++) {
        const struct request *request = &rank->requests[rank->group[i]];
        int peer = nccl_is_edge(lane) ? 1 - lane->me : (int)request->peer;

        if (request->bytes == 0) {
            continue;
        }
        result = request->is_send ? ncclSend(request->data, request->bytes, ncclUint8, peer,
                                             lane->comm, lane->stream)
                                  : ncclRecv((void *)(uintptr_t)request->data, request->bytes,
                                             ncclUint8, peer, lane->comm, lane->stream);
    }
    over = ncclGroupEnd();
    return result != ncclSuccess ? result : over;
}

/* They are all of one lane. */
static pst_status launch(struct pst_transport *transport, uint32_t index, uint32_t begin,
                         uint32_t end)
{
    struct rank *rank = nccl_rank(transport, index);
    const struct request *first = &rank->requests[rank->group[begin]];
    uint32_t which = first->lane;
    struct lane *lane = &rank->lanes[which];
    struct ticket *ticket = nccl_ticket_open(transport, index, which, first->peer);
    ncclResult_t result = ncclSuccess;
    bool dead;
    pst_status status;

    if (ticket == NULL) {
        return PST_ERR_CANCELLED;
    }
    for (uint32_t i = begin; i < end; i++) {
        rank->requests[rank->group[i]].ticket = lane->next - 1;
    }
    pthread_mutex_lock(&rank->mutex);
    dead = lane->comm == NULL;
    if (!dead) {
        result = issue(rank, lane, begin, end);
    }
    pthread_mutex_unlock(&rank->mutex);
    if (dead) {
        return PST_ERR_CANCELLED;
    }
    if (result != ncclSuccess && result != ncclInProgress) {
        nccl_fail_nccl(transport, index, "sending and receiving", result);
        return PST_ERR_CANCELLED;
    }
    status = nccl_settle(transport, index, which, "sending and receiving");
    return status == PST_OK ? nccl_ticket_launch(transport, index, which, ticket) : status;
}

pst_status nccl_flush(struct pst_transport *transport, uint32_t index, struct pst_error *err)
{
    struct rank *rank = nccl_rank(transport, index);
    uint32_t n = rank->n_group, each = transport->edges != NULL ? 1 : n;
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < n && status == PST_OK; i += each) {
        status = launch(transport, index, i, i + each);
    }
    rank->n_group = 0;
    return status == PST_OK ? PST_OK : nccl_check(transport, index, err);
}

static void release(struct pst_transport *transport, struct rank *rank, pst_request id)
{
    struct request *request = &rank->requests[id];
    uint32_t *list = id < transport->config.max_requests ? &rank->free_transfers : &rank->free_sums;

    request->used = false;
    request->next_free = *list;
    *list = id;
}

pst_status nccl_wait(struct pst_transport *transport, uint32_t index, pst_request id,
                     struct pst_error *err)
{
    struct rank *rank = nccl_rank(transport, index);
    uint32_t n = transport->config.max_requests + transport->config.max_reductions;
    pst_status status = PST_OK;

    if (rank == NULL || id >= n || !rank->requests[id].used) {
        return pst_fail(err, PST_ERR_BUG, "transport.request", "rank %u waits for no request (%u)",
                        index, id);
    }
    for (uint32_t i = 0; i < rank->n_group && status == PST_OK; i++) {
        if (rank->group[i] == id) { /* it is not on its way yet */
            status = nccl_flush(transport, index, err);
        }
    }
    if (status == PST_OK) {
        status = nccl_ticket_wait(transport, index, rank->requests[id].lane,
                                  rank->requests[id].ticket, err);
    }
    release(transport, rank, id);
    return status;
}
