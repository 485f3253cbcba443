/* SPDX-License-Identifier: Apache-2.0
 *
 * Four ranks of the `threads` transport on links with times. Clocks are plain numbers that nobody
 * waits for, so every time is exact: a message of b bytes takes 100 + b ns.
 */
#ifndef PENSTOCK_TESTS_WIRE_RIG_H
#define PENSTOCK_TESTS_WIRE_RIG_H

#include "base/util.h"

#include "unit/transport/support.h"

enum { LATENCY = 100, RANKS = 4, REQUESTS = 16 };

struct world {
    const struct pst_transport_ops *ops;
    struct pst_transport *transport;
    uint64_t clocks[RANKS];
    struct pst_device *devices[RANKS]; /* each is its clock */
    uint32_t node_size;                /* 0: one node */
    struct pst_meet_bytes met;         /* of the last meeting */
};

static struct world world;

static inline uint64_t now(struct pst_device *device)
{
    return *(uint64_t *)(void *)device;
}

static inline void advance(struct pst_device *device, uint64_t ns)
{
    uint64_t *clock = (uint64_t *)(void *)device;

    *clock = ns > *clock ? ns : *clock;
}

/* Tags from 100 on are of further pieces of a message. */
static inline struct pst_transfer_time transfer(void *context, uint32_t from, uint32_t to,
                                                uint64_t tag, uint64_t bytes)
{
    return (struct pst_transfer_time){bytes + LATENCY, LATENCY, tag >= 100};
}

static inline uint64_t meeting_ns(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                                  uint32_t n_ranks)
{
    bool far = n_ranks == 2 && ranks[0] / 2 != ranks[1] / 2 && world.node_size > 0;

    __atomic_store_n(&world.met.added, bytes.added,
                     __ATOMIC_RELAXED); /* sums may be asked at once */
    __atomic_store_n(&world.met.copied, bytes.copied, __ATOMIC_RELAXED);
    return 1000 * n_ranks + bytes.added + (far ? 50000 : 0);
}

static inline uint32_t node(void *context, uint32_t rank)
{
    uint32_t size = world.node_size;

    return size > 0 ? rank / size : 0;
}

static inline void open_world(uint32_t node_size, bool hollow, uint64_t stall_ns)
{
    static struct pst_device_ops device = {.now = now, .advance = advance};
    struct pst_transport_times times = {
        .transfer = transfer, .meeting_ns = meeting_ns, .node = node};
    struct pst_transport_config config = {.n_ranks = RANKS,
                                          .max_requests = REQUESTS,
                                          .max_meetings = 2,
                                          .stall_ns = stall_ns,
                                          .device = &device,
                                          .devices = world.devices,
                                          .times = &times};

    world = (struct world){.ops = load_threads(), .node_size = node_size};
    for (uint32_t r = 0; r < RANKS; r++) {
        world.devices[r] = (struct pst_device *)(void *)&world.clocks[r];
    }
    device.flags = hollow ? PST_DEVICE_NO_DATA : 0;
    assert_int_equal(world.ops->open(&config, &world.transport, NULL), PST_OK);
}

static char scratch[1 << 16];

static inline pst_request send_at(uint64_t at, uint32_t from, uint32_t to, uint64_t tag,
                                  uint64_t bytes)
{
    pst_request request;

    world.clocks[from] = at;
    assert_int_equal(post_send(world.ops, world.transport, from, to, tag, scratch, bytes, &request),
                     PST_OK);
    return request;
}

static inline pst_request recv_at(uint64_t at, uint32_t to, uint32_t from, uint64_t tag,
                                  uint64_t bytes)
{
    pst_request request;

    world.clocks[to] = at;
    assert_int_equal(post_recv(world.ops, world.transport, to, from, tag,
                               scratch + sizeof scratch / 2, bytes, &request),
                     PST_OK);
    return request;
}

/* The transfer had the link in this time, and whoever waited for it is there or later. */
static inline void expect_times(uint32_t rank, pst_request request, uint64_t start, uint64_t end)
{
    struct pst_error err = {0};
    uint64_t began, ended, before = world.clocks[rank];

    assert_ok(world.ops->wait(world.transport, rank, request, &err), &err);
    world.ops->span(world.transport, rank, &began, &ended);
    if (began != start || ended != end) {
        fail_msg("rank %u: from %llu to %llu, not from %llu to %llu", rank,
                 (unsigned long long)began, (unsigned long long)ended, (unsigned long long)start,
                 (unsigned long long)end);
    }
    assert_int_equal(world.clocks[rank], end > before ? end : before);
}

#endif
