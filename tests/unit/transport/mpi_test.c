/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers of the `mpi` transport, what all processes do together, and what is said when something
 * goes wrong.
 */
#include "unit/transport/mpi_ranks.h"

/* --- transfers --- */

static uint8_t byte_of(uint32_t from, uint32_t to, uint64_t tag, uint64_t i)
{
    return (uint8_t)(from * 31u + to * 17u + tag * 7u + i * 13u + (i >> 11));
}

/* Tags of 64 bits that agree in their low or high halves; posted in opposite orders; sizes that are
   sent at once and sizes that are asked for. */
static void crossed(void)
{
    static const uint64_t sizes[] = {0, 1, 100, 5000, 300000, 3000000};
    enum { N = sizeof sizes / sizeof sizes[0] };
    uint32_t to = (me + 1) % n_ranks, from = (me + n_ranks - 1) % n_ranks;
    uint8_t *in[N], *out[N];
    pst_request sends[N], recvs[N];
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < N; i++) {
        uint32_t k = N - 1 - i;
        uint64_t tag = (uint64_t)i << 32 | 5, other = (uint64_t)k << 32 | 5;

        out[i] = malloc(sizes[i] + 1);
        in[k] = calloc(sizes[k] + 1, 1);
        for (uint64_t b = 0; b < sizes[i]; b++) {
            out[i][b] = byte_of(me, to, i, b);
        }
        EXPECT(post_send(ops, transport, me, to, tag, out[i], sizes[i], &sends[i]) == PST_OK);
        EXPECT(post_recv(ops, transport, me, from, other, in[k], sizes[k], &recvs[k]) == PST_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        EXPECT(ops->wait(transport, me, recvs[i], NULL) == PST_OK);
        EXPECT(ops->wait(transport, me, sends[i], NULL) == PST_OK);
        for (uint64_t b = 0; b < sizes[i]; b++) {
            wrong += in[i][b] != byte_of(from, me, i, b);
        }
        free(in[i]);
        free(out[i]);
    }
    EXPECT(wrong == 0);
}

/* Equal tags keep the order of posting, whichever side is late; many of them, so that message
   numbers come round. */
static void same_tag(void)
{
    enum { ROUNDS = 3000, DEPTH = 2 };
    pst_request requests[DEPTH];
    uint32_t values[DEPTH], wrong = 0, peer = me ^ 1;

    if (me > 1) {
        return;
    }
    for (uint32_t round = 0; round < ROUNDS; round += DEPTH) {
        if (round % 1000 == me * 500) {
            nap(2000);
        }
        for (uint32_t i = 0; i < DEPTH; i++) {
            values[i] = me == 0 ? round + i : 0;
            EXPECT(ops->post(transport, me, peer, me == 0, 9, &values[i], 4, &requests[i]) ==
                   PST_OK);
        }
        for (uint32_t i = 0; i < DEPTH; i++) {
            EXPECT(ops->wait(transport, me, requests[i], NULL) == PST_OK);
            wrong += values[i] != round + i;
        }
    }
    EXPECT(wrong == 0);
}

/* Every ordered pair at once, each rank in an order of its own. */
static void storm(void)
{
    enum { PER_PEER = 3, LENGTH = 700, MOST = MAX_RANKS * PER_PEER * 2 };
    static uint8_t buffers[MOST][LENGTH];
    uint32_t order[MOST], n = n_ranks * PER_PEER * 2, wrong = 0;
    uint64_t seed = 77 + me;
    pst_request requests[MOST];

    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t j = (uint32_t)(next_random(&seed) % (i + 1));

            order[i] = order[j];
            order[j] = i;
        }
        for (uint32_t k = 0; k < n; k++) {
            uint32_t i = order[k], tag = i / 2 % PER_PEER, peer = i / 2 / PER_PEER;

            if (peer == me) {
                continue;
            }
            for (uint32_t b = 0; b < LENGTH; b++) {
                buffers[i][b] = i % 2 ? byte_of(me, peer, tag + round, b) : 0;
            }
            EXPECT(ops->post(transport, me, peer, i % 2 == 1, tag, buffers[i], LENGTH,
                             &requests[i]) == PST_OK);
        }
        for (uint32_t i = 0; i < n; i++) {
            uint32_t tag = i / 2 % PER_PEER, peer = i / 2 / PER_PEER;

            if (peer == me) {
                continue;
            }
            EXPECT(ops->wait(transport, me, requests[i], NULL) == PST_OK);
            for (uint32_t b = 0; b < LENGTH && i % 2 == 0; b++) {
                wrong += buffers[i][b] != byte_of(peer, me, tag + round, b);
            }
        }
    }
    EXPECT(wrong == 0);
}

/* --- all processes --- */

static void exchanges(void)
{
    const uint64_t big = (UINT64_C(70) << 20) / n_ranks; /* more than goes in one go */
    uint32_t own[2] = {me, me * me}, all[MAX_RANKS][2];
    uint8_t *mine = malloc(big), *theirs = malloc(big * n_ranks);
    uint32_t wrong = 0;

    EXPECT(ops->processes->exchange(own, all, sizeof own, NULL) == PST_OK);
    for (uint32_t r = 0; r < n_ranks; r++) {
        EXPECT(all[r][0] == r && all[r][1] == r * r);
    }
    for (uint64_t i = 0; i < big; i++) {
        mine[i] = byte_of(me, 0, 3, i);
    }
    EXPECT(ops->processes->exchange(mine, theirs, big, NULL) == PST_OK);
    for (uint32_t r = 0; r < n_ranks; r++) {
        for (uint64_t i = 0; i < big; i += 101) {
            wrong += theirs[r * big + i] != byte_of(r, 0, 3, i);
        }
    }
    EXPECT(ops->processes->broadcast(mine, big, NULL) == PST_OK);
    for (uint64_t i = 0; i < big; i++) {
        wrong += mine[i] != byte_of(0, 0, 3, i);
    }
    EXPECT(wrong == 0);
    EXPECT(ops->processes->host(me)[0] != '\0');
    free(mine);
    free(theirs);
}

static void healthy(void)
{
    void (*const cases[])(void) = {exchanges, crossed, same_tag, storm};

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reopen(60 * SECOND, 0);
        cases[i]();
    }
}

/* --- what goes wrong --- */

/* Rank 1 expects another size: it is told so, and tells. */
static void misfit(void)
{
    static char bytes[200];
    struct pst_error err = {0};
    pst_request request;
    double none = 0;

    reopen(20 * SECOND, 0);
    if (me == 0) {
        EXPECT(post_send(ops, transport, 0, 1, 4, bytes, 100, &request) == PST_OK);
        ops->wait(transport, 0, request, &err);
        EXPECT(ops->sum(transport, 0, &none, 1, &err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.aborted") == 0);
        EXPECT(strstr(err.message, "rank 1 stopped the run: rank 0 sends 100 bytes") != NULL);
        EXPECT(err.exit_code == PST_EXIT_BUG); /* as that of rank 1 */
        EXPECT(post_send(ops, transport, 0, 1, 4, bytes, 100, &request) == PST_ERR_CANCELLED);
    } else {
        EXPECT(post_recv(ops, transport, 1, 0, 4, bytes, 90, &request) == PST_OK);
        EXPECT(ops->wait(transport, 1, request, &err) == PST_ERR_BUG);
        EXPECT(strcmp(err.kind, "transport.size") == 0);
        EXPECT(strstr(err.message, "100") != NULL && strstr(err.message, "90") != NULL);
        ops->abort(transport, 1, &err);
        pst_fail(&err, PST_ERR_IO, "output.write", "another reason");
        ops->abort(transport, 1, &err);
    }
}

/* Rank 1 never sends; rank 0 waits for it, and rank 2 for rank 0. */
static void stall(void)
{
    struct pst_error err = {0};
    pst_request request;
    char byte;

    reopen(me == 0 ? 2 * SECOND : 20 * SECOND, 0);
    if (me == 0) {
        EXPECT(post_recv(ops, transport, 0, 1, 6, &byte, 1, &request) == PST_OK);
        EXPECT(ops->wait(transport, 0, request, &err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.stalled") == 0);
        EXPECT(strstr(err.message, "device 1 (rank 1, host ") != NULL);
        EXPECT(strstr(err.message, "waiting for it: devices 0, 2.") != NULL);
        ops->abort(transport, 0, &err);
    } else if (me == 2) {
        EXPECT(post_recv(ops, transport, 2, 0, 6, &byte, 1, &request) == PST_OK);
        EXPECT(ops->wait(transport, 2, request, &err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.aborted") == 0);
    } else {
        uint8_t all[MAX_RANKS];

        EXPECT(ops->processes->exchange(&byte, all, 1, &err) == PST_ERR_CANCELLED);
    }
}

/* --- the program --- */

RANKS_TEST(test_one, "healthy", 2)
RANKS_TEST(test_eight, "healthy", 8)
RANKS_TEST(test_misfit, "misfit", 2)
RANKS_TEST(test_stall, "stall", 3)

/* Without a launcher, and before join. */
TEST(test_alone)
{
    const struct pst_transport_ops *alone = load_transport(PENSTOCK_PLUGIN_DIR "/transport-mpi.so");
    struct pst_transport_config config = {.n_ranks = 1, .stall_ns = SECOND};
    struct pst_transport *none = NULL;
    struct pst_error err = {0};
    uint32_t rank, n;

    assert_int_equal(alone->open(&config, &none, &err), PST_ERR_CONFIG);
    assert_int_equal(alone->processes->join("mpi", SECOND, 1, &rank, &n, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "not started by an MPI launcher"));
}

static const struct rank_case cases[] = {
    {"healthy", healthy}, {"misfit", misfit}, {"stall", stall}, {NULL, NULL}};

RANKS_MAIN(cases)
