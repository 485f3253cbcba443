/* SPDX-License-Identifier: Apache-2.0
 *
 * The mpi transport with buffers of devices: addresses that nothing on the host may touch, reached
 * through the device's own copies alone, on the rank's thread. What it copies to and from is pinned
 * memory of the device as far as it was told what there will be, and none of that is touched once
 * it has let go.
 */
#include <sys/mman.h>

#include "unit/transport/mpi_ranks.h"

#include "unit/transport/sums.h"

enum { ELEMS = 5000, MOST = 4 * ELEMS };

struct pst_device {
    uint32_t rank;
};

static float near[MOST];        /* what the addresses stand for, */
static char *far = (char *)16u; /* which begin where nothing is */
static pthread_t owner;
static uint32_t n_copies, n_outside; /* outside: of those, not from or to pinned memory */
static char *pinned;
static uint64_t pinned_bytes;
static struct pst_transport_needs needs;
static bool out_of_memory;
static uint32_t n_notes;

static void count_copy(const void *host, uint64_t bytes)
{
    const char *at = host;

    n_copies++;
    n_outside += pinned == NULL || at < pinned || at + bytes > pinned + pinned_bytes;
}

static void *near_of(const void *address)
{
    return (char *)near + ((const char *)address - far);
}

static float *far_of(uint64_t elem)
{
    return (float *)(void *)(far + elem * sizeof(float));
}

static void upload(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    EXPECT(device->rank == me && pthread_equal(pthread_self(), owner));
    count_copy(src, bytes);
    memcpy(near_of(dst), src, bytes);
}

static void download(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    EXPECT(device->rank == me && pthread_equal(pthread_self(), owner));
    count_copy(dst, bytes);
    memcpy(dst, near_of(src), bytes);
}

static pst_status pin(struct pst_device *device, uint64_t bytes, void **ret_base,
                      struct pst_error *err)
{
    EXPECT(device->rank == me && pthread_equal(pthread_self(), owner) && pinned == NULL &&
           bytes > 0);
    if (out_of_memory) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory", "nothing can be pinned");
    }
    *ret_base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(*ret_base != MAP_FAILED);
    pinned = *ret_base;
    pinned_bytes = bytes;
    return PST_OK;
}

static struct pst_transport_needs tell_needs(void *context, uint32_t rank)
{
    EXPECT(rank == me);
    return needs;
}

static void note(const char *text)
{
    EXPECT(strcmp(text, "nothing can be pinned") == 0);
    n_notes++;
}

/* As a device that is closed: whoever touches what it had pinned ends with a fault. */
static void unpin(void)
{
    if (pinned != NULL) {
        mprotect(pinned, pinned_bytes, PROT_NONE);
    }
    pinned = NULL;
}

static void reopen_apart(void)
{
    static const struct pst_device_ops far_device = {
        .upload = upload, .download = download, .pinned = pin};
    static struct pst_device device, *devices[64];
    const struct pst_transport_memory memory = {.needs = tell_needs};
    struct pst_transport_config config = {.n_ranks = n_ranks,
                                          .max_requests = 8,
                                          .max_meetings = 2,
                                          .stall_ns = 60 * SECOND,
                                          .note = note,
                                          .device = &far_device,
                                          .devices = devices,
                                          .memory = &memory};
    struct pst_error err = {0};

    owner = pthread_self();
    device.rank = me;
    devices[me] = &device;
    ops->close(transport);
    transport = NULL;
    n_copies = n_outside = 0;
    if (ops->open(&config, &transport, &err) != PST_OK) {
        fprintf(stderr, "rank %u: %s\n", me, err.message);
        exit(1);
    }
    n_notes = 0;
    EXPECT(ops->attach(transport, me, &err) == PST_OK);
    EXPECT(n_notes == out_of_memory);
}

static void let_go(void)
{
    EXPECT(ops->detach(transport, me));
    unpin();
}

static float value(uint32_t rank, uint64_t i)
{
    return (rank % 2 == 0 ? 1.0e7f : 0.3f) * (1.0f + (float)(i % 61)) + (float)rank;
}

/* What is sent is what it was when it was posted; sizes grow and shrink. */
static void exchange_sizes(void)
{
    static const uint64_t sizes[] = {7, ELEMS, 0, 300};
    uint32_t other = me ^ 1u;
    struct pst_error err = {0};

    for (uint32_t step = 0; step < 8; step++) {
        uint64_t n = sizes[step % 4], bytes = n * sizeof(float);
        pst_request sent, received;

        for (uint64_t i = 0; i < n; i++) {
            near[i] = value(me, i + step);
            near[ELEMS + i] = -1;
        }
        EXPECT(post_send(ops, transport, me, other, step, far_of(0), bytes, &sent) == PST_OK);
        EXPECT(post_recv(ops, transport, me, other, step, far_of(ELEMS), bytes, &received) ==
               PST_OK);
        for (uint64_t i = 0; i < n; i++) {
            near[i] = -2;
            EXPECT(near[ELEMS + i] == -1);
        }
        EXPECT(ops->wait(transport, me, received, &err) == PST_OK);
        EXPECT(ops->wait(transport, me, sent, &err) == PST_OK);
        for (uint64_t i = 0; i < n; i++) {
            EXPECT(near[ELEMS + i] == value(other, i + step) && near[i] == -2);
        }
    }
    EXPECT(n_copies == 12);
}

/* Told of all of it; of no more than the smaller ones, of which the first step alone comes before
   both have grown; of one at once, where there are two; of nothing. */
static void transfers(void)
{
    static const struct pst_transport_needs cases[] = {
        {.transfers = 2, .transfer_bytes = ELEMS * sizeof(float)},
        {.transfers = 2, .transfer_bytes = 300 * sizeof(float)},
        {.transfers = 1, .transfer_bytes = ELEMS * sizeof(float)},
        {0},
    };
    static const uint32_t outside[] = {0, 10, 6, 12};

    for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        needs = cases[c];
        reopen_apart();
        exchange_sizes();
        EXPECT(n_outside == outside[c]);
        let_go();
    }
}

static void sum_up(void)
{
    static const uint32_t all[] = {1, 0, 2};
    static const uint32_t order[][2] = {{1, 0}, {2, 0}, {0, 1}, {0, 0}};
    const struct pst_meet_part parts[] = {
        {.dst = far_of(0), .elems = 3, .owner = PST_NONE},
        {.dst = far_of(3), .elems = ELEMS - 3, .owner = PST_NONE}};
    const void *src[] = {far_of(ELEMS), far_of(2 * ELEMS)};
    const struct pst_meet_part tied = {
        .src = src, .dst = far_of(3 * ELEMS), .elems = ELEMS, .owner = PST_NONE};
    const struct pst_meeting replicas = sum_in_place(all, 3, parts, 2);
    struct pst_error err = {0};
    pst_request request;

    for (uint64_t i = 0; i < ELEMS; i++) {
        near[i] = value(me, i);
        near[ELEMS + i] = value(me + 3, i);
        near[2 * ELEMS + i] = value(me + 6, i);
    }
    EXPECT(ops->meet(transport, me, &replicas, &request) == PST_OK);
    EXPECT(ops->wait(transport, me, request, &err) == PST_OK);
    EXPECT(sum_in_order(ops, transport, me, all, 3, order, 4, me == 1 ? 2 : 1, &tied, &err) ==
           PST_OK);
    for (uint64_t i = 0; i < ELEMS; i++) {
        float first = value(1, i), second = value(3, i);

        first += value(0, i);
        first += value(2, i);
        second += value(5, i);
        second += value(7, i);
        second += value(4, i);
        EXPECT(near[i] == first);
        EXPECT(near[3 * ELEMS + i] == second);
        EXPECT(near[ELEMS + i] == value(me + 3, i));
    }
}

/* A sum that goes to ranks 0 and 2, and a gather from these, of an odd number of bytes. */
static void owners(void)
{
    static const uint32_t all[] = {2, 0, 1};
    struct pst_meet_part parts[] = {{.dst = far_of(0), .elems = ELEMS, .owner = 1},
                                    {.dst = far_of(ELEMS), .elems = 3, .owner = 0}};
    struct pst_meeting meeting = sum_in_place(all, 3, parts, 2);
    uint8_t *bytes = (uint8_t *)near;
    struct pst_error err = {0};
    pst_request request;

    for (uint64_t i = 0; i < ELEMS + 3; i++) {
        near[i] = value(me, i);
    }
    n_copies = 0;
    EXPECT(ops->meet(transport, me, &meeting, &request) == PST_OK);
    EXPECT(ops->wait(transport, me, request, &err) == PST_OK);
    EXPECT(n_copies == 2u + (me != 1));
    for (uint64_t i = 0; i < ELEMS + 3; i++) {
        float sum = value(2, i);

        sum += value(0, i);
        sum += value(1, i);
        EXPECT(me != (i < ELEMS ? 0 : 2) || near[i] == sum);
    }
    for (uint64_t i = 0; i < ELEMS + 3; i++) {
        bytes[i] = (uint8_t)(10 * me + i % 7);
    }
    meeting.kind = PST_MEET_GATHER;
    parts[1].dst = far + ELEMS;
    parts[0].elems = ELEMS - 1;
    EXPECT(ops->meet(transport, me, &meeting, &request) == PST_OK);
    EXPECT(ops->wait(transport, me, request, &err) == PST_OK);
    EXPECT(n_copies == 4u + (me != 1)); /* what is its own goes down, what is not comes up */
    for (uint64_t i = 0; i < ELEMS + 3; i++) {
        EXPECT(bytes[i] == 10 * (i < ELEMS - 1 ? 0 : i < ELEMS ? me : 2) + i % 7);
    }
}

/* 20 + j bytes from each rank to rank j, an address every 32; nothing else is copied. */
static void exchange(void)
{
    static const uint32_t all[] = {0, 1, 2};
    struct pst_meet_part parts[9];
    struct pst_meeting meeting = sum_in_place(all, 3, parts, 9);
    uint8_t *bytes = (uint8_t *)near;
    const void *src[3];
    struct pst_error err = {0};
    pst_request request;

    for (uint32_t p = 0; p < 9; p++) {
        const uint32_t from = p / 3, to = p % 3;

        src[to] = far + 32ull * to;
        parts[p] =
            (struct pst_meet_part){.src = from == me ? &src[to] : NULL,
                                   .dst = to == me ? (void *)(far + 1000 + 32ull * from) : NULL,
                                   .elems = 20 + to,
                                   .owner = from,
                                   .to = to};
    }
    for (uint32_t i = 0; i < 2000; i++) {
        bytes[i] = i < 96 ? (uint8_t)(60 * me + i) : 0xEE;
    }
    meeting.kind = PST_MEET_EXCHANGE;
    n_copies = 0;
    EXPECT(ops->meet(transport, me, &meeting, &request) == PST_OK);
    EXPECT(ops->wait(transport, me, request, &err) == PST_OK);
    EXPECT(n_copies == 6);
    for (uint32_t i = 0; i < 96; i++) {
        EXPECT(bytes[i] == 60 * me + i);
        EXPECT(bytes[1000 + i] ==
               (i % 32 < 20 + me ? (uint8_t)(60 * (i / 32) + 32 * me + i % 32) : 0xEE));
    }
}

/* Elements of other types; added up on the host. */
static void other_types(void)
{
    static const uint32_t all[] = {2, 0, 1}, dtypes[] = {PST_BF16, PST_F64};
    const struct pst_meet_part part = {.dst = far_of(0), .elems = ELEMS, .owner = PST_NONE};
    struct pst_meeting meeting = sum_in_place(all, 3, &part, 1);
    struct pst_error err = {0};
    pst_request request;

    for (uint32_t k = 0; k < 2; k++) {
        meeting.dtype = dtypes[k];
        for (uint64_t i = 0; i < ELEMS; i++) {
            put_element(dtypes[k], near, i, typed_number(dtypes[k], k, me, 0, i));
        }
        EXPECT(ops->meet(transport, me, &meeting, &request) == PST_OK);
        EXPECT(ops->wait(transport, me, request, &err) == PST_OK);
        for (uint64_t i = 0; i < ELEMS; i++) {
            EXPECT(get_element(dtypes[k], near, i) == typed_sum(dtypes[k], k, all, 3, 0, i));
        }
    }
}

static void sums(void)
{
    /* Two sources and the result. */
    needs = (struct pst_transport_needs){
        .meetings = 1, .meeting_bytes = 3 * ELEMS * sizeof(float), .meeting_buffers = 3};
    reopen_apart();
    sum_up();
    EXPECT(n_copies > 0 && n_outside == 0);
    owners();
    exchange();
    other_types();
    EXPECT(n_outside == 0);
    let_go();
    needs.meeting_bytes = ELEMS * sizeof(float); /* enough for the parts alone: 2 down, 2 up */
    reopen_apart();
    sum_up();
    EXPECT(n_outside == n_copies - 4);
    let_go();
}

/* MPI does not give back a message that nobody takes, once it has been given it. */
static void let_go_early(void)
{
    if (ops->detach(transport, me)) {
        unpin();
    } else {
        EXPECT(me == 0);
        pinned = NULL;
    }
}

/* What is under way when it has to let go: a receive and a sum that nobody else posts, and a
   message that is too large to be out of hand at once. The next run begins anew. */
static void ends_early(void)
{
    const struct pst_meet_part part = {.dst = far_of(0), .elems = ELEMS, .owner = PST_NONE};
    uint32_t other = me ^ 1u;
    pst_request unused;

    needs = (struct pst_transport_needs){.transfers = 2,
                                         .transfer_bytes = MOST * sizeof(float),
                                         .meetings = 1,
                                         .meeting_bytes = ELEMS * sizeof(float),
                                         .meeting_buffers = 1};
    for (uint32_t round = 0; round < 3; round++) {
        static const uint32_t both[] = {0, 1};

        reopen_apart();
        EXPECT(post_recv(ops, transport, me, other, 7, far_of(0), 100, &unused) == PST_OK);
        if (me == 0) {
            EXPECT(post_send(ops, transport, me, other, 8, far_of(0), MOST * sizeof(float),
                             &unused) == PST_OK);
            const struct pst_meeting meeting = sum_in_place(both, 2, &part, 1);

            EXPECT(ops->meet(transport, me, &meeting, &unused) == PST_OK);
        }
        EXPECT(n_outside == 0);
        let_go_early();
    }
    reopen_apart();
    exchange_sizes();
    let_go();
}

/* It is slower then, no more. */
static void nothing_pinned(void)
{
    needs = (struct pst_transport_needs){.transfers = 2, .transfer_bytes = ELEMS * sizeof(float)};
    out_of_memory = true;
    reopen_apart();
    exchange_sizes();
    EXPECT(n_outside == n_copies);
    let_go();
    out_of_memory = false;
    reopen_apart();
    exchange_sizes();
    EXPECT(n_outside == 0);
    let_go();
}

static const struct rank_case cases[] = {{"transfers", transfers},
                                         {"sums", sums},
                                         {"ends_early", ends_early},
                                         {"nothing_pinned", nothing_pinned},
                                         {NULL, NULL}};

RANKS_TEST(test_transfers, "transfers", 2)
RANKS_TEST(test_sums, "sums", 3)
RANKS_TEST(test_ends_early, "ends_early", 2)
RANKS_TEST(test_nothing_pinned, "nothing_pinned", 2)

RANKS_MAIN(cases)
