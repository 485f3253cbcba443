/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of a rank, and with config.edges: a communicator of two ranks for each pair of them, one
 * for each direction.
 *
 * Why lists that the checker has run to their end (LIVE2, sends of a rank one queue and receives
 * another, no message held between them) run to their end here:
 *
 *   order    A lane holds the transfers of one edge in the order of the list, which is the same at
 *            both ends (COMM2): each waits for those before it on its edge alone, and so for no
 *            more than the checker had it wait for.
 *   groups   None: a transfer is a kernel of its own, and ends when it has moved.
 *   streams  A transfer begins behind what the list has before it, and what the list has behind a
 *            wait begins behind the transfer. Nothing else is between streams, as long as each has
 *            a hardware queue of its own: there are 32 (device-cuda asks for them), so the edges
 *            of a rank are at most NCCL_EDGES.
 *   room     A kernel of NCCL that has begun keeps its blocks until its peer has come. All that
 *            can have begun at once, one of each lane, get at most half of the multiprocessors, a
 *            block on each, without clusters, which would have to find theirs together. The
 *            rank's own kernels end whatever happens, so they go on in the other half, and lanes
 *            are in front of them by their priority. A communicator has as many blocks at all of
 *            its ends, and NCCL rounds up to a power of two: what they are follows from what all
 *            ranks know, the smallest GPU and the most edges, and is a power of two.
 *   launches NCCL can put what communicators of a GPU are asked for into one order
 *            (NCCL_LAUNCH_ORDER_IMPLICIT), which would be the one queue again: it is refused.
 *   host     It waits for no kernel: communicators are not blocking, their links are made before
 *            the first step, nothing is allocated in between, and a ring of tickets that is full
 *            has one in it that the list has waited for. One thread of the process at a time calls
 *            NCCL for a GPU.
 *
 * The remaining risk is a call of CUDA that waits for the whole GPU. Loading a kernel on its first
 * use can be one, so all are loaded at the start (module.c); the watch ends a run that makes no
 * progress for any reason.
 *
 * Communicators are made one after the other in one order on all ranks, pairs that begin with an
 * even rank first: whoever waits for the first of those that nobody has made yet is not alone.
 *
 * Source: the NCCL 2.28 documentation (several communicators, environment variables), the CUDA
 * programming guide (CUDA_DEVICE_MAX_CONNECTIONS, lazy loading).
 */
#include "transport/nccl/module.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MOST_CTAS 4u

bool nccl_meets(const struct pst_transport *transport, uint32_t index, uint32_t other,
                uint32_t what)
{
    const struct pst_transport_config *config = &transport->config;

    return config->meets == NULL ||
           (config->meets(config->meets_context, index, other) & what) != 0;
}

/* --- which there are ---------------------------------------------------------------------------*/

/* Calls add for each, in the order of all. */
static void each_edge(struct pst_transport *transport,
                      void (*add)(struct pst_transport *transport, struct edge edge))
{
    uint32_t n = transport->config.n_ranks;

    for (uint32_t odd = 0; odd < 2; odd++) {
        for (uint32_t a = odd; a < n; a += 2) {
            for (uint32_t b = a + 1; b < n; b++) {
                if (nccl_meets(transport, a, b, PST_MEETS_TRANSFER)) {
                    add(transport, (struct edge){a, b});
                    add(transport, (struct edge){b, a});
                }
            }
        }
    }
}

static void count(struct pst_transport *transport, struct edge edge)
{
    (void)edge;
    transport->n_edges++;
}

static void keep(struct pst_transport *transport, struct edge edge)
{
    transport->edges[transport->n_edges++] = edge;
}

static pst_status check_edges(struct pst_transport *transport, struct pst_error *err)
{
    const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");

    if (order != NULL && order[0] != '\0' && strcmp(order, "0") != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "NCCL_LAUNCH_ORDER_IMPLICIT=%s makes the transfers of all edges wait in "
                        "one queue, which run.p2p = \"edge\" is meant to avoid: unset it",
                        order);
    }
    for (uint32_t r = 0; r < transport->config.n_ranks; r++) {
        uint32_t n = 0;

        for (uint32_t e = 0; e < transport->n_edges; e++) {
            n += transport->edges[e].from == r || transport->edges[e].to == r;
        }
        if (n > NCCL_EDGES) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "device %u has %u edges to and from others; with run.p2p = \"edge\" it "
                            "can have %u, because a GPU has no more queues",
                            r, n, NCCL_EDGES);
        }
        if (n > transport->most_edges) {
            transport->most_edges = n;
            transport->busiest = r;
        }
    }
    return PST_OK;
}

pst_status nccl_edges_find(struct pst_transport *transport, struct pst_error *err)
{
    transport->n_ids = LANE_TRANSFERS + 1;
    if (!transport->config.edges) {
        return PST_OK;
    }
    each_edge(transport, count);
    transport->edges = pst_alloc((size_t)transport->n_edges + 1, sizeof *transport->edges);
    transport->n_edges = 0;
    each_edge(transport, keep);
    transport->n_ids = LANE_TRANSFERS + transport->n_edges;
    return check_edges(transport, err);
}

/* --- lanes -------------------------------------------------------------------------------------*/

static bool is_end(const struct edge *edge, uint32_t index)
{
    return edge->from == index || edge->to == index;
}

static void init_lane(struct lane *lane, uint32_t n_tickets)
{
    lane->n_tickets = n_tickets;
    lane->tickets = pst_alloc(n_tickets, sizeof *lane->tickets);
}

void nccl_lanes_init(const struct pst_transport *transport, uint32_t index, struct rank *rank)
{
    const struct pst_transport_config *config = &transport->config;
    uint32_t n = LANE_TRANSFERS + (transport->edges == NULL);
    const struct lane whole = {.n = (int)config->n_ranks, .me = (int)index};

    for (uint32_t e = 0; e < transport->n_edges; e++) {
        n += is_end(&transport->edges[e], index);
    }
    rank->lanes = pst_alloc(n, sizeof *rank->lanes);
    rank->n_lanes = LANE_TRANSFERS;
    rank->lanes[LANE_SUMS] = whole;
    init_lane(&rank->lanes[LANE_SUMS], 2 * config->max_meetings + 8);
    if (transport->edges == NULL) {
        rank->lanes[rank->n_lanes] = whole;
        rank->lanes[rank->n_lanes].id = LANE_TRANSFERS;
        init_lane(&rank->lanes[rank->n_lanes++], 2 * config->max_requests + 8);
    }
    for (uint32_t e = 0; e < transport->n_edges; e++) {
        struct edge edge = transport->edges[e];

        if (!is_end(&edge, index)) {
            continue;
        }
        rank->lanes[rank->n_lanes] =
            (struct lane){.id = LANE_TRANSFERS + e, .n = 2, .me = edge.to == index, .edge = edge};
        init_lane(&rank->lanes[rank->n_lanes++], config->max_requests + 8);
    }
}

void nccl_lanes_finish(struct rank *rank)
{
    for (uint32_t l = 0; rank->lanes != NULL && l < rank->n_lanes; l++) {
        free(rank->lanes[l].tickets);
    }
    free(rank->lanes);
}

uint32_t nccl_lane_of(const struct rank *rank, uint32_t peer, bool is_send)
{
    for (uint32_t l = LANE_TRANSFERS; l < rank->n_lanes; l++) {
        const struct lane *lane = &rank->lanes[l];

        if (!nccl_is_edge(lane) ||
            (peer == (is_send ? lane->edge.to : lane->edge.from) && lane->me == !is_send)) {
            return l;
        }
    }
    return NCCL_NOBODY;
}

/* --- room on the GPUs --------------------------------------------------------------------------*/

static pst_status fail_room(struct pst_transport *transport, uint32_t index, uint32_t processors)
{
    struct pst_error why = {0};

    pst_fail(&why, PST_ERR_UNSUPPORTED, "machine.missing",
             "device %u has %u edges to and from others; with run.p2p = \"edge\" it can have %u if "
             "the smallest GPU has %u multiprocessors",
             transport->busiest, transport->most_edges, processors / 4, processors);
    nccl_fail(transport, index, &why);
    return PST_ERR_CANCELLED;
}

/* Collects the number of multiprocessors of each rank's GPU in `all`. */
static pst_status tell_processors(struct pst_transport *transport, uint32_t index, double *all)
{
    struct pst_error why = {0};
    int processors = 0;
    cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                               nccl_rank(transport, index)->ordinal);

    if (error != cudaSuccess) {
        nccl_fail_cuda(transport, index, "asking for multiprocessors", error);
        return PST_ERR_CANCELLED;
    }
    all[index] = processors;
    if (transport->control_ops->sum(transport->control, index, all, transport->config.n_ranks,
                                    &why) != PST_OK) {
        nccl_fail(transport, index, &why);
        return PST_ERR_CANCELLED;
    }
    return PST_OK;
}

pst_status nccl_edges_room(struct pst_transport *transport, uint32_t index)
{
    const uint32_t n = transport->config.n_ranks;
    double *all, least;
    pst_status status;

    if (transport->n_edges == 0) {
        return PST_OK;
    }
    all = pst_alloc(n, sizeof *all);
    status = tell_processors(transport, index, all);
    least = all[0];
    for (uint32_t r = 1; r < n; r++) {
        least = all[r] < least ? all[r] : least;
    }
    free(all);
    if (status == PST_OK && transport->most_edges > (uint32_t)least / 4) {
        return fail_room(transport, index, (uint32_t)least);
    }
    nccl_rank(transport, index)->room = (uint32_t)least;
    return status;
}

/* The largest power of two that is at most n; n > 0. */
static int rounded(uint32_t n)
{
    return 1 << (31 - __builtin_clz(n));
}

/* A quarter of the multiprocessors is for sums, and one for all edges together. */
void nccl_lane_config(const struct pst_transport *transport, uint32_t index, uint32_t which,
                      ncclConfig_t *ret_config)
{
    uint32_t quarter = nccl_rank(transport, index)->room / 4, each;

    ret_config->blocking = 0;
    if (transport->n_edges == 0) {
        return; /* sums and one queue: NCCL knows best */
    }
    each = quarter / transport->most_edges;
    ret_config->cgaClusterSize = 0;
    ret_config->minCTAs = 1;
    ret_config->maxCTAs = rounded(which == LANE_SUMS ? quarter
                                  : each < MOST_CTAS ? each
                                                     : MOST_CTAS);
}
