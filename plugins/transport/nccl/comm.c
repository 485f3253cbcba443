/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators of a rank: making them, the first exchange over every link, asking whether they are
 * through, and their end.
 */
#include "transport/nccl/module.h"

#ifndef NCCL_CLOSE_NS
#define NCCL_CLOSE_NS UINT64_C(5000000000)
#endif

static pst_status fail_slow(struct pst_transport *transport, uint32_t index, const char *doing)
{
    struct pst_error why = {0};

    pst_fail(&why, PST_ERR_CANCELLED, "run.stalled",
             "run stalled: device %u has waited %.3g s for NCCL, %s", index,
             (double)transport->config.stall_ns / 1e9, doing);
    pst_error_hint(&why, "another rank has not joined; NCCL_DEBUG=INFO prints what NCCL does");
    nccl_fail(transport, index, &why);
    return PST_ERR_CANCELLED;
}

pst_status nccl_settle(struct pst_transport *transport, uint32_t index, uint32_t lane,
                       const char *doing)
{
    struct rank *rank = nccl_rank(transport, index);
    uint64_t begin = 0;

    for (;;) {
        ncclResult_t state = ncclSuccess, result = ncclSuccess;
        bool dead;

        pthread_mutex_lock(&rank->mutex);
        dead = rank->lanes[lane].comm == NULL;
        if (!dead) {
            result = ncclCommGetAsyncError(rank->lanes[lane].comm, &state);
        }
        pthread_mutex_unlock(&rank->mutex);
        if (dead || atomic_load(&transport->failed)) {
            return PST_ERR_CANCELLED;
        }
        result = result != ncclSuccess ? result : state;
        if (result == ncclSuccess) {
            return PST_OK;
        }
        if (result != ncclInProgress) {
            nccl_fail_nccl(transport, index, doing, result);
            return PST_ERR_CANCELLED;
        }
        if (begin == 0) {
            begin = pst_now_ns();
        } else if (pst_now_ns() - begin > transport->config.stall_ns) {
            return fail_slow(transport, index, doing);
        }
        nccl_pause(begin);
    }
}

pst_status nccl_group(struct pst_transport *transport, uint32_t index, uint32_t which,
                      const char *doing, nccl_post_fn *post, void *of)
{
    struct rank *rank = nccl_rank(transport, index);
    const struct lane *lane = &rank->lanes[which];
    ncclResult_t result = ncclSuccess, end;
    bool dead;

    pthread_mutex_lock(&rank->mutex);
    dead = lane->comm == NULL;
    if (!dead) {
        result = ncclGroupStart();
        result = result == ncclSuccess ? post(lane, of) : result;
        end = ncclGroupEnd();
        result = result != ncclSuccess ? result : end;
    }
    pthread_mutex_unlock(&rank->mutex);
    if (dead) {
        return PST_ERR_CANCELLED;
    }
    if (result != ncclSuccess && result != ncclInProgress) {
        nccl_fail_nccl(transport, index, doing, result);
        return PST_ERR_CANCELLED;
    }
    return nccl_settle(transport, index, which, doing);
}

/* --- making ------------------------------------------------------------------------------------*/

static cudaError_t make_lane(struct lane *lane, int priority)
{
    cudaError_t error =
        cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking, priority);

    for (uint32_t i = 0; i < lane->n_tickets && error == cudaSuccess; i++) {
        error = cudaEventCreateWithFlags(&lane->tickets[i].ready, cudaEventDisableTiming);
        if (error == cudaSuccess) {
            error = cudaEventCreateWithFlags(&lane->tickets[i].done, cudaEventDisableTiming);
        }
        if (error == cudaSuccess && nccl_is_edge(lane)) {
            error = cudaEventCreateWithFlags(&lane->tickets[i].asked, cudaEventDisableTiming);
        }
    }
    return error;
}

static pst_status join(struct pst_transport *transport, uint32_t index, uint32_t which)
{
    struct rank *rank = nccl_rank(transport, index);
    struct lane *lane = &rank->lanes[which];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t result;

    nccl_lane_config(transport, index, which, &config);
    pthread_mutex_lock(&rank->mutex);
    result =
        ncclCommInitRankConfig(&lane->comm, lane->n, transport->ids[lane->id], lane->me, &config);
    pthread_mutex_unlock(&rank->mutex);
    if (result != ncclSuccess && result != ncclInProgress) {
        nccl_fail_nccl(transport, index, "meeting the other ranks", result);
        return PST_ERR_CANCELLED;
    }
    return nccl_settle(transport, index, which, "meeting the other ranks");
}

static ncclResult_t greet_all(const struct pst_transport *transport, uint32_t index, uint32_t what,
                              const struct lane *lane, float *words)
{
    ncclResult_t result = ncclSuccess;

    for (uint32_t other = 0; other < transport->config.n_ranks && result == ncclSuccess; other++) {
        if (other == index || !nccl_meets(transport, index, other, what)) {
            continue;
        }
        result = ncclSend(words, 1, ncclFloat32, (int)other, lane->comm, lane->stream);
        if (result == ncclSuccess) {
            result =
                ncclRecv(words + 1 + other, 1, ncclFloat32, (int)other, lane->comm, lane->stream);
        }
    }
    return result;
}

struct greeting {
    const struct pst_transport *transport;
    uint32_t index, which;
    float *words;
};

static ncclResult_t greet(const struct lane *lane, void *of)
{
    const struct greeting *greeting = of;
    float *words = greeting->words;

    if (!nccl_is_edge(lane)) {
        return greet_all(greeting->transport, greeting->index,
                         greeting->which == LANE_SUMS ? PST_MEETS_SUM : PST_MEETS_TRANSFER, lane,
                         words);
    }
    return lane->edge.from == greeting->index
               ? ncclSend(words, 1, ncclFloat32, 1 - lane->me, lane->comm, lane->stream)
               : ncclRecv(words + 1, 1, ncclFloat32, 1 - lane->me, lane->comm, lane->stream);
}

/* NCCL connects two ranks when they first have to do with each other, which takes the host: it is
   done here: over all links of a lane at once, in the order of the ranks; of edges, one after the
   other in the order of all of them. */
static pst_status warm_up(struct pst_transport *transport, uint32_t index, uint32_t which,
                          float *words)
{
    struct greeting greeting = {transport, index, which, words};
    struct ticket *ticket = nccl_ticket_open(transport, index, which, index);
    pst_status status;

    if (ticket == NULL) {
        return PST_ERR_CANCELLED;
    }
    status = nccl_group(transport, index, which, "connecting", greet, &greeting);
    return status == PST_OK ? nccl_ticket_launch(transport, index, which, ticket) : status;
}

/* With others, or terms of its own alone. */
static bool sums(const struct pst_transport *transport, uint32_t index)
{
    for (uint32_t other = 0; other < transport->config.n_ranks; other++) {
        if (nccl_meets(transport, index, other, PST_MEETS_SUM)) {
            return true;
        }
    }
    return false;
}

/* The words of a lane's first exchange: its own, and one from each rank. */
static size_t words_of(const struct pst_transport *transport)
{
    return (size_t)transport->config.n_ranks + 1;
}

static pst_status attach_memory(struct pst_transport *transport, uint32_t index)
{
    struct rank *rank = nccl_rank(transport, index);
    cudaError_t error = cudaMalloc((void **)&rank->words,
                                   rank->n_lanes * words_of(transport) * sizeof *rank->words);

    if (error == cudaSuccess && sums(transport, index)) {
        rank->scratch_elems = NCCL_SCRATCH_ELEMS;
        error = cudaMalloc((void **)&rank->scratch, rank->scratch_elems * sizeof *rank->scratch);
    }
    if (error != cudaSuccess) {
        nccl_fail_cuda(transport, index, "making room for sums over ranks", error);
        return PST_ERR_CANCELLED;
    }
    return PST_OK;
}

static pst_status attach(struct pst_transport *transport, uint32_t index)
{
    struct rank *rank = nccl_rank(transport, index);
    int lowest = 0, highest = 0;
    cudaError_t error = cudaSetDevice(rank->ordinal);
    pst_status status;

    if (error == cudaSuccess) {
        error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    }
    for (uint32_t l = 0; l < rank->n_lanes && error == cudaSuccess; l++) {
        error = make_lane(&rank->lanes[l], highest);
    }
    if (error != cudaSuccess) {
        nccl_fail_cuda(transport, index, "opening streams", error);
        return PST_ERR_CANCELLED;
    }
    status = nccl_edges_room(transport, index);
    status = status == PST_OK ? attach_memory(transport, index) : status;
    for (uint32_t l = 0; l < rank->n_lanes && status == PST_OK; l++) {
        status = join(transport, index, l);
    }
    pthread_mutex_lock(&rank->mutex);
    rank->attached = status == PST_OK;
    pthread_mutex_unlock(&rank->mutex);
    for (uint32_t l = 0; l < rank->n_lanes && status == PST_OK; l++) {
        status = warm_up(transport, index, l, rank->words + l * words_of(transport));
    }
    return status;
}

pst_status nccl_attach(struct pst_transport *transport, uint32_t index, struct pst_error *err)
{
    const struct pst_transport_config *config = &transport->config;
    struct rank *rank = nccl_rank(transport, index);
    pst_status status;

    rank->compute = config->device->stream(config->devices[index], &rank->ordinal);
    if (rank->compute == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "run.transport = \"nccl\" is for run.device = \"cuda\"");
    }
    if (attach(transport, index) == PST_OK && nccl_register(transport, index) == PST_OK) {
        return PST_OK;
    }
    status = nccl_check(transport, index, err);
    return status != PST_OK ? status : PST_ERR_CANCELLED; /* a lane ended while it was made */
}

/* --- the end -----------------------------------------------------------------------------------*/

/* Success: all that was asked for has gone out. */
static ncclResult_t state_of(const struct lane *lane)
{
    ncclResult_t state = ncclSuccess, result;

    if (lane->comm == NULL) {
        return ncclSuccess;
    }
    result = ncclCommGetAsyncError(lane->comm, &state);
    return result != ncclSuccess ? result : state;
}

static void destroy_comms(struct rank *rank, uint64_t end_ns)
{
    const uint64_t begin = pst_now_ns();

    for (uint32_t l = 0; l < rank->n_lanes; l++) {
        struct lane *lane = &rank->lanes[l];
        ncclResult_t state = nccl_knows(lane) ? ncclInternalError : state_of(lane);

        while (state == ncclInProgress && pst_now_ns() < end_ns) {
            nccl_pause(begin);
            state = state_of(lane);
        }
        if (state == ncclSuccess && lane->comm != NULL) {
            ncclCommDestroy(lane->comm);
            lane->comm = NULL;
        }
    }
}

static void end_comms(struct pst_transport *transport)
{
    uint64_t end_ns = pst_now_ns() + NCCL_CLOSE_NS;

    for (uint32_t r = 0; r < transport->n_ready; r++) { /* all begin: each may wait for others */
        struct rank *rank = &transport->ranks[r];

        for (uint32_t l = 0; l < rank->n_lanes && rank->attached; l++) {
            if (rank->lanes[l].comm != NULL && !nccl_knows(&rank->lanes[l])) {
                ncclCommFinalize(rank->lanes[l].comm);
            }
        }
    }
    for (uint32_t r = 0; r < transport->n_ready; r++) {
        if (transport->ranks[r].attached) {
            destroy_comms(&transport->ranks[r], end_ns);
        }
    }
    nccl_abort_all(transport); /* what does not end by itself, or tells of an error */
}

static void destroy_lane(struct lane *lane)
{
    if (lane->stream != NULL) {
        cudaStreamDestroy(lane->stream);
    }
    for (uint32_t i = 0; i < lane->n_tickets; i++) {
        cudaEvent_t *events[] = {&lane->tickets[i].ready, &lane->tickets[i].done,
                                 &lane->tickets[i].asked};

        for (uint32_t e = 0; e < sizeof events / sizeof events[0]; e++) {
            if (*events[e] != NULL) {
                cudaEventDestroy(*events[e]);
            }
        }
    }
}

void nccl_detach(struct pst_transport *transport)
{
    if (atomic_load(&transport->failed)) {
        nccl_abort_all(transport);
    }
    end_comms(transport);
    for (uint32_t r = 0; r < transport->n_ready && !transport->spins; r++) {
        struct rank *rank = &transport->ranks[r];

        if (rank->compute == NULL) {
            continue;
        }
        cudaSetDevice(rank->ordinal); /* or not: handles know their device */
        for (uint32_t l = 0; l < rank->n_lanes; l++) {
            destroy_lane(&rank->lanes[l]);
        }
        cudaFree(rank->words);
        cudaFree(rank->scratch);
    }
}
