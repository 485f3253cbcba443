/* SPDX-License-Identifier: Apache-2.0
 *
 * The mpi transport with buffers of devices: addresses that nothing on the host may touch, reached
 * through the device's own copies alone, on the rank's thread.
 */
#include "unit/transport/mpi_ranks.h"

enum { ELEMS = 5000, MOST = 4 * ELEMS };

static float near[MOST];        /* what the addresses stand for, */
static char *far = (char *)16u; /* which begin where nothing is */
static pthread_t owner;
static uint32_t n_copies;

static void *near_of(const void *address)
{
    return (char *)near + ((const char *)address - far);
}

static float *far_of(uint64_t elem)
{
    return (float *)(void *)(far + elem * sizeof(float));
}

static void upload(void *context, uint32_t rank, void *dst, const void *src, uint64_t bytes)
{
    (void)context;
    EXPECT(rank == me && pthread_equal(pthread_self(), owner));
    n_copies++;
    memcpy(near_of(dst), src, bytes);
}

static void download(void *context, uint32_t rank, void *dst, const void *src, uint64_t bytes)
{
    (void)context;
    EXPECT(rank == me && pthread_equal(pthread_self(), owner));
    n_copies++;
    memcpy(dst, near_of(src), bytes);
}

static void reopen_apart(void)
{
    const struct pst_transport_memory memory = {.upload = upload, .download = download};
    struct pst_transport_config config = {.n_ranks = n_ranks,
                                          .max_requests = 8,
                                          .max_reductions = 2,
                                          .stall_ns = 60 * SECOND,
                                          .memory = &memory};
    struct pst_error err = {0};

    owner = pthread_self();
    ops->close(transport);
    transport = NULL;
    if (ops->open(&config, &transport, &err) != PST_OK) {
        fprintf(stderr, "rank %u: %s\n", me, err.message);
        exit(1);
    }
}

static float value(uint32_t rank, uint64_t i)
{
    return (rank % 2 == 0 ? 1.0e7f : 0.3f) * (1.0f + (float)(i % 61)) + (float)rank;
}

/* What is sent is what it was when it was posted; sizes grow and shrink. */
static void transfers(void)
{
    static const uint64_t sizes[] = {7, ELEMS, 0, 300};
    uint32_t other = me ^ 1u;
    struct pst_error err = {0};

    reopen_apart();
    for (uint32_t step = 0; step < 8; step++) {
        uint64_t n = sizes[step % 4], bytes = n * sizeof(float);
        pst_request sent, received;

        for (uint64_t i = 0; i < n; i++) {
            near[i] = value(me, i + step);
            near[ELEMS + i] = -1;
        }
        EXPECT(ops->send(transport, me, other, step, far_of(0), bytes, &sent) == PST_OK);
        EXPECT(ops->recv(transport, me, other, step, far_of(ELEMS), bytes, &received) == PST_OK);
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

static void sums(void)
{
    static const uint32_t all[] = {1, 0, 2};
    static const uint32_t order[][2] = {{1, 0}, {2, 0}, {0, 1}, {0, 0}};
    const struct pst_reduce_part parts[] = {{far_of(0), 3}, {far_of(3), ELEMS - 3}};
    const float *src[] = {far_of(ELEMS), far_of(2 * ELEMS)};
    struct pst_error err = {0};
    pst_request request;

    reopen_apart();
    for (uint64_t i = 0; i < ELEMS; i++) {
        near[i] = value(me, i);
        near[ELEMS + i] = value(me + 3, i);
        near[2 * ELEMS + i] = value(me + 6, i);
    }
    EXPECT(ops->all_reduce(transport, me, all, 3, parts, 2, &request) == PST_OK);
    EXPECT(ops->wait(transport, me, request, &err) == PST_OK);
    EXPECT(ops->reduce(transport, me, all, 3, src, me == 1 ? 2 : 1, order, 4, far_of(3 * ELEMS),
                       ELEMS, &err) == PST_OK);
    for (uint64_t i = 0; i < ELEMS; i++) {
        float replicas = value(1, i), tied = value(3, i);

        replicas += value(0, i);
        replicas += value(2, i);
        tied += value(5, i);
        tied += value(7, i);
        tied += value(4, i);
        EXPECT(near[i] == replicas);
        EXPECT(near[3 * ELEMS + i] == tied);
        EXPECT(near[ELEMS + i] == value(me + 3, i));
    }
    EXPECT(ops->barrier(transport, me, &err) == PST_OK);
}

static const struct rank_case cases[] = {{"transfers", transfers}, {"sums", sums}, {NULL, NULL}};

static void test_transfers(void **state)
{
    (void)state;
    run_case("transfers", 2);
}

static void test_sums(void **state)
{
    (void)state;
    run_case("sums", 3);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_transfers),
                                          cmocka_unit_test(test_sums)};

RANKS_MAIN(cases, tests)
