/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in the lanes of a rank. Tickets of a lane end in the order in which they were opened; the
 * watch takes those that have ended out of the ring.
 */
#include "transport/nccl/module.h"

#include <sched.h>

#define LOOK_NS 50000u /* so long it looks all the time, */
#define NAP_NS  20000u /* then so often */

cudaError_t nccl_lane_retire(struct lane *lane)
{
    cudaError_t error = cudaSuccess;

    while (lane->first < lane->next && nccl_ticket(lane, lane->first)->launched) {
        error = cudaEventQuery(nccl_ticket(lane, lane->first)->done);
        if (error != cudaSuccess) {
            break;
        }
        lane->first++;
    }
    if (error == cudaErrorNotReady) {
        cudaGetLastError(); /* no error, but where it is kept the next launch would tell it */
        error = cudaSuccess;
    }
    return error;
}

void nccl_pause(uint64_t since_ns)
{
    const struct timespec nap = {0, NAP_NS};

    if (pst_now_ns() - since_ns < LOOK_NS) {
        sched_yield();
    } else {
        nanosleep(&nap, NULL);
    }
}

/* Room in the ring; false: the run has ended. */
static bool make_room(struct pst_transport *transport, uint32_t index, struct lane *lane)
{
    struct rank *rank = nccl_rank(transport, index);
    const uint64_t begin = pst_now_ns();

    for (;;) {
        cudaError_t error;
        bool room;

        pthread_mutex_lock(&rank->mutex);
        error = nccl_lane_retire(lane);
        room = lane->next - lane->first < lane->n_tickets;
        pthread_mutex_unlock(&rank->mutex);
        if (error != cudaSuccess) {
            nccl_fail_cuda(transport, index, NCCL_UNDER_WAY, error);
            return false;
        }
        if (room || atomic_load(&transport->failed)) {
            return room;
        }
        nccl_pause(begin); /* the host is a whole ring ahead */
    }
}

struct ticket *nccl_ticket_open(struct pst_transport *transport, uint32_t index, uint32_t which,
                                uint32_t peer)
{
    struct rank *rank = nccl_rank(transport, index);
    struct lane *lane = &rank->lanes[which];
    struct ticket *ticket;
    cudaError_t error;

    if (atomic_load(&transport->failed) || !make_room(transport, index, lane)) {
        return NULL;
    }
    ticket = nccl_ticket(lane, lane->next);
    ticket->peer = peer;
    ticket->launched = ticket->wanted = false;
    ticket->since_ns = 0;
    ticket->posted_ns = pst_now_ns();
    ticket->what[0] = '\0';
    if (transport->config.doing != NULL) {
        transport->config.doing(transport->config.doing_context, index, ticket->what,
                                sizeof ticket->what);
    }
    error = cudaEventRecord(ticket->ready, rank->compute);
    if (error == cudaSuccess) {
        error = cudaStreamWaitEvent(lane->stream, ticket->ready, 0);
    }
    if (error != cudaSuccess) {
        nccl_fail_cuda(transport, index, "posting", error);
        return NULL;
    }
    pthread_mutex_lock(&rank->mutex);
    lane->next++;
    pthread_mutex_unlock(&rank->mutex);
    return ticket;
}

pst_status nccl_ticket_launch(struct pst_transport *transport, uint32_t index, uint32_t which,
                              struct ticket *ticket)
{
    struct rank *rank = nccl_rank(transport, index);
    struct lane *lane = &rank->lanes[which];
    cudaError_t error = cudaEventRecord(ticket->done, lane->stream);

    if (error != cudaSuccess) {
        nccl_fail_cuda(transport, index, "posting", error);
        return PST_ERR_CANCELLED;
    }
    pthread_mutex_lock(&rank->mutex);
    ticket->launched = true;
    pthread_mutex_unlock(&rank->mutex);
    return PST_OK;
}

static cudaError_t ask_for(struct rank *rank, const struct lane *lane, struct ticket *ticket)
{
    cudaError_t error = cudaSuccess;

    if (nccl_is_edge(lane) && !ticket->wanted) {
        error = cudaEventRecord(ticket->asked, rank->compute);
        pthread_mutex_lock(&rank->mutex);
        ticket->wanted = error == cudaSuccess;
        pthread_mutex_unlock(&rank->mutex);
    }
    return error != cudaSuccess ? error : cudaStreamWaitEvent(rank->compute, ticket->done, 0);
}

pst_status nccl_ticket_wait(struct pst_transport *transport, uint32_t index, uint32_t which,
                            uint64_t number, struct pst_error *err)
{
    struct rank *rank = nccl_rank(transport, index);
    struct lane *lane = &rank->lanes[which];
    struct ticket *ticket = nccl_ticket(lane, number);
    bool over;
    pst_status status = nccl_check(transport, index, err);
    cudaError_t error = cudaSuccess;

    if (status != PST_OK) {
        return status;
    }
    pthread_mutex_lock(&rank->mutex);
    over = number < lane->first; /* and its place may be another's by now */
    rank->start_ns = over ? rank->start_ns : ticket->posted_ns;
    pthread_mutex_unlock(&rank->mutex);
    if (!over) { /* on this thread alone places are given away */
        error = ask_for(rank, lane, ticket);
    }
    rank->end_ns = pst_now_ns();
    if (error != cudaSuccess) {
        nccl_fail_cuda(transport, index, "waiting", error);
        return nccl_check(transport, index, err);
    }
    return PST_OK;
}
