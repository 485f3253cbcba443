/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects failures. A kernel of NCCL that waits for a peer spins for ever, and nothing on the host
 * would notice: so a thread looks at the first ticket of each lane. It counts as waiting from when
 * the compute stream has let it go and the lane has come to it; in the lane of an edge, from when
 * the compute stream waits for it, too.
 */
#include "transport/nccl/module.h"

#include <stdio.h>

#define SHORT_NS UINT64_C(1000000)
#define LONG_NS  UINT64_C(50000000)

/* --- the end of a run --------------------------------------------------------------------------*/

void nccl_fail(struct pst_transport *transport, uint32_t rank, const struct pst_error *why)
{
    bool first;

    pthread_mutex_lock(&transport->mutex);
    first = !atomic_load(&transport->failed);
    if (first) {
        transport->why = *why;
        transport->failed_rank = rank;
        atomic_store(&transport->failed, true);
        pthread_cond_signal(&transport->wake);
    }
    pthread_mutex_unlock(&transport->mutex);
    if (first) {
        transport->control_ops->abort(transport->control,
                                      rank == NCCL_NOBODY ? transport->first : rank, why);
    }
}

void nccl_fail_nccl(struct pst_transport *transport, uint32_t rank, const char *doing,
                    ncclResult_t result)
{
    const char *more = ncclGetLastError(NULL);
    struct pst_error why = {0};

    pst_fail(&why, PST_ERR_DEVICE, "run.device", "rank %u, %s: NCCL: %s%s%.300s", rank, doing,
             ncclGetErrorString(result), more != NULL && more[0] != '\0' ? ": " : "",
             more != NULL ? more : "");
    why.exit_code = 1;
    nccl_fail(transport, rank, &why);
}

void nccl_fail_cuda(struct pst_transport *transport, uint32_t rank, const char *doing,
                    cudaError_t error)
{
    struct pst_error why = {0};

    pst_fail(&why, PST_ERR_DEVICE, "run.device", "rank %u, %s: %s: %s", rank, doing,
             cudaGetErrorName(error), cudaGetErrorString(error));
    why.exit_code = 1;
    nccl_fail(transport, rank, &why);
}

pst_status nccl_check(struct pst_transport *transport, uint32_t rank, struct pst_error *err)
{
    const struct pst_error *why = &transport->why;

    if (!atomic_load(&transport->failed)) {
        return PST_OK;
    }
    if (rank == transport->failed_rank || transport->failed_rank == NCCL_NOBODY) {
        if (err != NULL) {
            *err = *why;
        }
        return why->status;
    }
    return stall_fail_aborted(transport->failed_rank, why->message, err);
}

/* --- who waits for whom ------------------------------------------------------------------------*/

/* The end of the chain that begins with a rank of this process. */
static uint32_t last_of(const struct pst_transport *transport, uint32_t rank)
{
    for (uint32_t i = 0; i < transport->n_local; i++) {
        const struct rank *at = nccl_rank(transport, rank);

        if (at == NULL || at->waits_for == NCCL_NOBODY) {
            break;
        }
        rank = at->waits_for;
    }
    return rank;
}

static void list_waiting(const struct pst_transport *transport, uint32_t for_whom, char *text,
                         size_t size)
{
    text[0] = '\0';
    for (uint32_t r = transport->first; r < transport->first + transport->n_local; r++) {
        if (r != for_whom && last_of(transport, r) == for_whom) {
            stall_list_device(text, size, r);
        }
    }
}

static void fail_stalled(struct pst_transport *transport, uint32_t index, uint32_t peer,
                         const char *what)
{
    const struct pst_transport_processes *processes = transport->control_ops->processes;
    uint32_t last = last_of(transport, index);
    char doing[NCCL_WHAT] = "", waiting[192], culprit[NCCL_WHAT + 64], text[NCCL_WHAT + 64];
    struct pst_error why = {0};

    snprintf(text, sizeof text, "for device %u at %s", peer,
             what[0] != '\0' ? what : "a transfer or sum");
    if (processes != NULL) {
        processes->stalled(peer, text, &why);
        nccl_fail(transport, index, &why);
        return;
    }
    if (transport->config.doing != NULL) {
        transport->config.doing(transport->config.doing_context, last, doing, sizeof doing);
    }
    list_waiting(transport, last, waiting, sizeof waiting);
    snprintf(culprit, sizeof culprit, "device %u is in %s", last,
             doing[0] != '\0' ? doing : "nothing that it reports");
    stall_fail_chain(culprit, waiting, index, transport->config.stall_ns, text, stall_hint, &why);
    nccl_fail(transport, index, &why);
}

/* --- looking -----------------------------------------------------------------------------------*/

/* Is there anything in the lane of an edge that the compute stream waits for? A transfer may be
   posted long before its peer has any reason to come. */
static bool is_asked_for(struct lane *lane)
{
    for (uint64_t t = lane->first; t < lane->next; t++) {
        const struct ticket *ticket = nccl_ticket(lane, t);

        if (ticket->wanted && cudaEventQuery(ticket->asked) == cudaSuccess) {
            return true;
        }
    }
    return false;
}

/* A lane's first ticket, where it waits for its peers: since when. Under the rank's mutex. */
static const struct ticket *look_at_lane(struct lane *lane, uint64_t now, cudaError_t *ret_error)
{
    struct ticket *ticket;
    cudaError_t error = nccl_lane_retire(lane);

    if (error != cudaSuccess) {
        *ret_error = error;
        return NULL;
    }
    if (lane->first == lane->next) {
        return NULL;
    }
    ticket = nccl_ticket(lane, lane->first);
    if (!ticket->launched || cudaEventQuery(ticket->ready) != cudaSuccess ||
        (nccl_is_edge(lane) && ticket->since_ns == 0 && !is_asked_for(lane))) {
        return NULL;
    }
    ticket->since_ns = ticket->since_ns == 0 ? now : ticket->since_ns;
    return ticket;
}

/* A thread that has chosen no GPU has a context made on the first one: half a GiB there for each
   process of a machine. */
static cudaError_t choose_gpu(struct pst_transport *transport, const struct rank *rank)
{
    if (transport->chosen || !rank->attached) {
        return cudaSuccess;
    }
    transport->chosen = true;
    return cudaSetDevice(rank->ordinal);
}

static void look_at_rank(struct pst_transport *transport, uint32_t index)
{
    struct rank *rank = nccl_rank(transport, index);
    uint64_t now = pst_now_ns();
    const struct ticket *longest = NULL;
    struct ticket stalled = {.since_ns = 0};
    ncclResult_t bad = ncclSuccess;
    cudaError_t error;

    pthread_mutex_lock(&rank->mutex);
    error = choose_gpu(transport, rank);
    for (uint32_t l = 0; l < rank->n_lanes && rank->attached && error == cudaSuccess; l++) {
        ncclResult_t state = ncclSuccess;
        const struct ticket *ticket = look_at_lane(&rank->lanes[l], now, &error);

        if (ticket != NULL && (longest == NULL || ticket->since_ns < longest->since_ns)) {
            longest = ticket;
        }
        if (rank->lanes[l].comm != NULL &&
            ncclCommGetAsyncError(rank->lanes[l].comm, &state) == ncclSuccess &&
            state != ncclSuccess && state != ncclInProgress) {
            bad = state;
        }
    }
    rank->waits_for = longest != NULL ? longest->peer : NCCL_NOBODY;
    if (longest != NULL && now - longest->since_ns > transport->config.stall_ns) {
        stalled = *longest;
    }
    pthread_mutex_unlock(&rank->mutex);
    if (transport->control_ops->processes != NULL) {
        transport->control_ops->processes->waits(rank->waits_for);
    }
    if (error != cudaSuccess) {
        nccl_fail_cuda(transport, index, NCCL_UNDER_WAY, error);
    } else if (bad != ncclSuccess) {
        nccl_fail_nccl(transport, index, NCCL_UNDER_WAY, bad);
    } else if (stalled.since_ns != 0) {
        fail_stalled(transport, index, stalled.peer, stalled.what);
    }
}

static void look(struct pst_transport *transport)
{
    struct pst_error why = {0};

    if (transport->control_ops->check(transport->control, transport->first, &why) != PST_OK) {
        nccl_fail(transport, NCCL_NOBODY, &why); /* in another process */
    }
    for (uint32_t i = 0; i < transport->n_local && !atomic_load(&transport->failed); i++) {
        look_at_rank(transport, transport->first + i);
    }
}

static void *watch(void *argument)
{
    struct pst_transport *transport = argument;
    uint64_t each = transport->config.stall_ns / 64;

    each = each < SHORT_NS ? SHORT_NS : each > LONG_NS ? LONG_NS : each;
    pthread_mutex_lock(&transport->mutex);
    while (!transport->quit && !atomic_load(&transport->failed)) {
        uint64_t at = pst_now_ns() + each;
        struct timespec until = pst_timespec(at);

        pthread_cond_timedwait(&transport->wake, &transport->mutex, &until);
        if (!transport->quit && !atomic_load(&transport->failed)) {
            pthread_mutex_unlock(&transport->mutex);
            look(transport);
            pthread_mutex_lock(&transport->mutex);
        }
    }
    pthread_mutex_unlock(&transport->mutex);
    if (atomic_load(&transport->failed)) {
        nccl_abort_all(transport);
    }
    atomic_store(&transport->through, true);
    return NULL;
}

bool nccl_watch_start(struct pst_transport *transport)
{
    transport->watches = pthread_create(&transport->watch, NULL, watch, transport) == 0;
    return transport->watches;
}

void nccl_watch_stop(struct pst_transport *transport)
{
    if (!transport->watches) {
        return;
    }
    pthread_mutex_lock(&transport->mutex);
    transport->quit = true;
    pthread_cond_signal(&transport->wake);
    pthread_mutex_unlock(&transport->mutex);
    pthread_join(transport->watch, NULL);
    transport->watches = false;
}
