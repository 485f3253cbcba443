/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers. Those posted one after the other wait for the first call of another kind, which sends
 * them on their way: as one group, or each in the lane of its edge. Between two ranks they match in
 * the order of posting, which is the same on both: that of the plan.
 */
#include "transport/nccl/module.h"

pst_status nccl_post(struct pst_transport *transport, uint32_t index, uint32_t peer, bool is_send,
                     uint64_t tag, void *data, uint64_t bytes, pst_request *ret_request)
{
    struct rank *rank = nccl_rank(transport, index);
    struct request *request;
    uint32_t lane;

    (void)tag; /* they match in the order of posting */
    if (atomic_load(&transport->failed)) {
        return PST_ERR_CANCELLED;
    }
    lane = rank != NULL ? nccl_lane_of(rank, peer, is_send) : NCCL_NOBODY;
    request = lane != NCCL_NOBODY && peer != index && peer < transport->config.n_ranks
                  ? requests_pop(&rank->free_transfers)
                  : NULL;
    if (request == NULL) {
        return PST_ERR_BUG;
    }
    *request = (struct request){
        .used = true, .is_send = is_send, .lane = lane, .peer = peer, .data = data, .bytes = bytes};
    *ret_request = (pst_request)(request - rank->requests);
    rank->group[rank->n_group++] = *ret_request;
    return PST_OK;
}

/* Transfers [begin, end) of those that are being posted. */
struct range {
    const struct rank *rank;
    uint32_t begin, end;
};

static ncclResult_t issue(const struct lane *lane, void *of)
{
    const struct range *range = of;
    ncclResult_t result = ncclSuccess;

    for (uint32_t i = range->begin; i < range->end && result == ncclSuccess; i++) {
        const struct request *request = &range->rank->requests[range->rank->group[i]];
        int peer = nccl_is_edge(lane) ? 1 - lane->me : (int)request->peer;

        if (request->bytes == 0) {
            continue;
        }
        result = request->is_send ? ncclSend(request->data, request->bytes, ncclUint8, peer,
                                             lane->comm, lane->stream)
                                  : ncclRecv(request->data, request->bytes, ncclUint8, peer,
                                             lane->comm, lane->stream);
    }
    return result;
}

/* They are all of one lane. */
static pst_status launch(struct pst_transport *transport, uint32_t index, uint32_t begin,
                         uint32_t end)
{
    struct rank *rank = nccl_rank(transport, index);
    const struct request *first = &rank->requests[rank->group[begin]];
    uint32_t which = first->lane;
    struct ticket *ticket = nccl_ticket_open(transport, index, which, first->peer);
    struct range range = {rank, begin, end};
    pst_status status;

    if (ticket == NULL) {
        return PST_ERR_CANCELLED;
    }
    for (uint32_t i = begin; i < end; i++) {
        rank->requests[rank->group[i]].ticket = rank->lanes[which].next - 1;
    }
    status = nccl_group(transport, index, which, "sending and receiving", issue, &range);
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
    rank->requests[id].used = false;
    requests_push(id < transport->config.max_requests ? &rank->free_transfers : &rank->free_sums,
                  &rank->requests[id]);
}

pst_status nccl_wait(struct pst_transport *transport, uint32_t index, pst_request id,
                     struct pst_error *err)
{
    struct rank *rank = nccl_rank(transport, index);
    uint32_t n = transport->config.max_requests + transport->config.max_meetings;
    pst_status status = PST_OK;

    if (rank == NULL || id >= n || !rank->requests[id].used) {
        return stall_fail_request(index, "request", id, err);
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
