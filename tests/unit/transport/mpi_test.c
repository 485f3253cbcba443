/* SPDX-License-Identifier: Apache-2.0
 *
 * The `mpi` transport: this program starts itself under the launcher, as so many ranks, and each of
 * them goes through the cases below. Sums are held against sums worked out here, bit for bit, in an
 * order that no other would give the same result as.
 */
#include "unit/transport/support.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static char own_path[512];
#undef PENSTOCK_BINARY
#define PENSTOCK_BINARY own_path
#include "../../support.h"

#include "mpi_rig.h"

#define SECOND UINT64_C(1000000000)

static const struct pst_transport_ops *ops;
static struct pst_transport *transport;
static uint32_t me, n_ranks;
static uint32_t failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            fprintf(stderr, "rank %u: %s:%d: %s\n", me, __FILE__, __LINE__, #condition);           \
        }                                                                                          \
    } while (0)

static void reopen(uint64_t stall_ns, uint32_t max_reductions)
{
    struct pst_transport_config config = {.n_ranks = n_ranks,
                                          .max_requests = 64,
                                          .max_reductions = max_reductions,
                                          .stall_ns = stall_ns};
    struct pst_error err = {0};

    ops->close(transport);
    transport = NULL;
    if (ops->open(&config, &transport, &err) != PST_OK) {
        fprintf(stderr, "rank %u: %s\n", me, err.message);
        exit(1);
    }
}

static void nap(uint64_t us)
{
    struct timespec time = {0, (long)(us * 1000)};

    nanosleep(&time, NULL);
}

/* --- transfers ---------------------------------------------------------------------------------
 */

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
        EXPECT(ops->send(transport, me, to, tag, out[i], sizes[i], &sends[i]) == PST_OK);
        EXPECT(ops->recv(transport, me, from, other, in[k], sizes[k], &recvs[k]) == PST_OK);
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
    enum { ROUNDS = 9000, DEPTH = 2 };
    pst_request requests[DEPTH];
    uint32_t values[DEPTH], wrong = 0, peer = me ^ 1;

    if (me > 1) {
        return;
    }
    for (uint32_t round = 0; round < ROUNDS; round += DEPTH) {
        if (round % 4000 == me * 2000) {
            nap(2000);
        }
        for (uint32_t i = 0; i < DEPTH; i++) {
            values[i] = me == 0 ? round + i : 0;
            EXPECT((me == 0 ? ops->send(transport, me, peer, 9, &values[i], 4, &requests[i])
                            : ops->recv(transport, me, peer, 9, &values[i], 4, &requests[i])) ==
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
            EXPECT((i % 2 ? ops->send(transport, me, peer, tag, buffers[i], LENGTH, &requests[i])
                          : ops->recv(transport, me, peer, tag, buffers[i], LENGTH,
                                      &requests[i])) == PST_OK);
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

/* --- sums --------------------------------------------------------------------------------------
 */

/* Numbers of very different size, so that every order of a sum has a result of its own. */
static float number(uint32_t round, uint32_t rank, uint32_t part, uint64_t i)
{
    uint64_t seed = round * 7919u + rank * 104729u + part * 1299709u + i;
    uint64_t bits = next_random(&seed);

    return (float)((double)(bits >> 40) / 16777216.0 - 0.5) * (float)(1 << (bits & 15));
}

static void sums_of(uint32_t n)
{
    double *values = calloc(n, sizeof *values);
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < n; i++) {
        values[i] = number(n, me, 0, i) * 1e-3 + 1e10 * number(n, me, 1, i);
    }
    EXPECT(ops->sum(transport, me, values, n, NULL) == PST_OK);
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;

        for (uint32_t r = 0; r < n_ranks; r++) {
            double term = number(n, r, 0, i) * 1e-3 + 1e10 * number(n, r, 1, i);

            sum = r == 0 ? term : sum + term;
        }
        wrong += memcmp(&sum, &values[i], sizeof sum) != 0;
    }
    EXPECT(wrong == 0);
    free(values);
}

static void sums(void)
{
    static const uint32_t lengths[] = {1, 7, 1000, 1025, 300001};

    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        sums_of(lengths[i]);
        EXPECT(ops->barrier(transport, me, NULL) == PST_OK);
    }
}

/* Members in an order that is not theirs; one of them brings two sources. */
static void reduce_of(uint64_t elems)
{
    uint32_t members[MAX_RANKS], order[MAX_RANKS + 1][2] = {{0, 1}}, n_order = 1, wrong = 0;
    float *mine[2] = {calloc(elems + 1, sizeof(float)), calloc(elems + 1, sizeof(float))};
    float *result = calloc(elems + 1, sizeof *result);

    for (uint32_t m = 0; m < n_ranks; m++) {
        members[m] = m;
    }
    for (uint32_t m = n_ranks; m-- > 0;) {
        order[n_order][0] = m;
        order[n_order++][1] = 0;
    }
    for (uint64_t i = 0; i < elems; i++) {
        mine[0][i] = number(3, me, 0, i);
        mine[1][i] = number(3, me, 1, i);
    }
    EXPECT(ops->reduce(transport, me, members, n_ranks, (const float *const *)mine, me == 0 ? 2 : 1,
                       (const uint32_t(*)[2])order, n_order, result, elems, NULL) == PST_OK);
    for (uint64_t i = 0; i < elems; i++) {
        float sum = number(3, 0, 1, i);

        for (uint32_t k = 1; k < n_order; k++) {
            sum += number(3, order[k][0], order[k][1], i);
        }
        wrong += memcmp(&sum, &result[i], sizeof sum) != 0;
        wrong += mine[0][i] != number(3, me, 0, i);
    }
    EXPECT(wrong == 0);
    free(mine[0]);
    free(mine[1]);
    free(result);
}

static void reductions(void)
{
    reduce_of(1);
    reduce_of(5);
    reduce_of(4001);
    reduce_of(1200007);
}

enum { PARTS = 4 };
static const uint64_t part_sizes[PARTS] = {1, 0, 200005, 1000};

static void fill_parts(struct pst_reduce_part *parts, uint32_t round)
{
    for (uint32_t p = 0; p < PARTS; p++) {
        parts[p].elems = part_sizes[p];
        parts[p].data = malloc((part_sizes[p] + 1) * sizeof(float));
        for (uint64_t i = 0; i < part_sizes[p]; i++) {
            parts[p].data[i] = number(round, me, p, i);
        }
    }
}

static void check_parts(struct pst_reduce_part *parts, const uint32_t *members, uint32_t n,
                        uint32_t round)
{
    uint32_t wrong = 0;

    for (uint32_t p = 0; p < PARTS; p++) {
        for (uint64_t i = 0; i < part_sizes[p]; i++) {
            float sum = number(round, members[0], p, i);

            for (uint32_t m = 1; m < n; m++) {
                sum += number(round, members[m], p, i);
            }
            wrong += memcmp(&sum, &parts[p].data[i], sizeof sum) != 0;
        }
        free(parts[p].data);
    }
    EXPECT(wrong == 0);
}

/* Groups that overlap, two of them posted at once; transfers go on beside them. */
static void replicas(void)
{
    struct pst_reduce_part parts[2][PARTS];
    uint32_t all[MAX_RANKS], pair[2] = {me | 1, me & ~1u};
    bool paired = (me | 1) < n_ranks;
    pst_request first, second = 0;

    for (uint32_t i = 0; i < n_ranks; i++) {
        all[i] = (5 * i + 3) % n_ranks; /* 5 is no divisor of what it is run with */
    }
    for (uint32_t round = 0; round < 6; round++) {
        fill_parts(parts[0], 2 * round);
        EXPECT(ops->all_reduce(transport, me, all, n_ranks, parts[0], PARTS, &first) == PST_OK);
        if (paired) {
            fill_parts(parts[1], 2 * round + 1);
            EXPECT(ops->all_reduce(transport, me, pair, 2, parts[1], PARTS, &second) == PST_OK);
        }
        crossed();
        EXPECT(ops->wait(transport, me, first, NULL) == PST_OK);
        check_parts(parts[0], all, n_ranks, 2 * round);
        if (paired) {
            EXPECT(ops->wait(transport, me, second, NULL) == PST_OK);
            check_parts(parts[1], pair, 2, 2 * round + 1);
        }
    }
}

/* --- all processes -----------------------------------------------------------------------------
 */

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
    void (*const cases[])(void) = {exchanges, crossed, same_tag, storm, sums, reductions, replicas};

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reopen(60 * SECOND, 2);
        cases[i]();
    }
}

/* --- what goes wrong ---------------------------------------------------------------------------
 */

/* Rank 1 expects another size: it is told so, and tells. */
static void misfit(void)
{
    static char bytes[200];
    struct pst_error err = {0};
    pst_request request;

    reopen(20 * SECOND, 0);
    if (me == 0) {
        EXPECT(ops->send(transport, 0, 1, 4, bytes, 100, &request) == PST_OK);
        ops->wait(transport, 0, request, &err);
        EXPECT(ops->barrier(transport, 0, &err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.aborted") == 0);
        EXPECT(strstr(err.message, "rank 1 stopped the run: other size") != NULL);
        EXPECT(ops->send(transport, 0, 1, 4, bytes, 100, &request) == PST_ERR_CANCELLED);
    } else {
        EXPECT(ops->recv(transport, 1, 0, 4, bytes, 90, &request) == PST_OK);
        EXPECT(ops->wait(transport, 1, request, &err) == PST_ERR_BUG);
        EXPECT(strcmp(err.kind, "transport.size") == 0);
        EXPECT(strstr(err.message, "100") != NULL && strstr(err.message, "90") != NULL);
        ops->abort(transport, 1, "other size");
        ops->abort(transport, 1, "another reason");
    }
}

static void misfit_sum(void)
{
    struct pst_error err = {0};
    double values[3] = {0};

    reopen(20 * SECOND, 0);
    EXPECT(ops->sum(transport, me, values, 2 + (me == 1), &err) == PST_ERR_BUG);
    EXPECT(strcmp(err.kind, "transport.size") == 0);
}

/* Rank 1 never sends; rank 0 waits for it, and rank 2 for rank 0. */
static void stall(void)
{
    struct pst_error err = {0};
    pst_request request;
    char byte;

    reopen(me == 0 ? SECOND : 20 * SECOND, 0);
    if (me == 0) {
        EXPECT(ops->recv(transport, 0, 1, 6, &byte, 1, &request) == PST_OK);
        EXPECT(ops->wait(transport, 0, request, &err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.stalled") == 0);
        EXPECT(strstr(err.message, "device 1 (rank 1, host ") != NULL);
        EXPECT(strstr(err.message, "waiting for it: devices 0, 2.") != NULL);
        ops->abort(transport, 0, err.message);
    } else if (me == 2) {
        EXPECT(ops->recv(transport, 2, 0, 6, &byte, 1, &request) == PST_OK);
        EXPECT(ops->wait(transport, 2, request, &err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.aborted") == 0);
    } else {
        uint8_t all[MAX_RANKS];

        EXPECT(ops->processes->exchange(&byte, all, 1, &err) == PST_ERR_CANCELLED);
    }
}

/* --- a rank, and the program -------------------------------------------------------------------
 */

static int rank_main(const char *name)
{
    uint64_t stall_ns = strcmp(name, "stall") == 0 ? SECOND : 60 * SECOND;
    uint8_t own, all[MAX_RANKS];
    bool present[MAX_RANKS], complete;
    struct pst_error err = {0};

    void *module = dlopen(PENSTOCK_PLUGIN_DIR "/transport-mpi.so", RTLD_NOW | RTLD_LOCAL);
    pst_transport_module_fn *function;

    if (module == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&function = dlsym(module, PST_TRANSPORT_MODULE_SYMBOL);
    ops = function();
    if (ops->processes->join(stall_ns, &me, &n_ranks, &err) != PST_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (strcmp(name, "healthy") == 0) {
        healthy();
    } else if (strcmp(name, "misfit") == 0) {
        misfit();
    } else if (strcmp(name, "misfit-sum") == 0) {
        misfit_sum();
    } else {
        stall();
    }
    ops->close(transport);
    own = failures > 0;
    complete = ops->processes->settle(&own, all, 1, 5 * SECOND, present);
    for (uint32_t r = 0; r < n_ranks; r++) {
        failures += !present[r] || all[r] != 0;
    }
    ops->processes->leave(failures > 0, complete);
    return failures > 0;
}

static void run_case(const char *name, uint32_t n)
{
    const char *args[] = {name, NULL};
    struct outcome outcome;

    mpi_rig_launch(n);
    outcome = support_run(args);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
}

static void test_one(void **state)
{
    (void)state;
    run_case("healthy", 2);
}

static void test_eight(void **state)
{
    (void)state;
    run_case("healthy", 8);
}

static void test_misfit(void **state)
{
    (void)state;
    run_case("misfit", 2);
    run_case("misfit-sum", 2);
}

static void test_stall(void **state)
{
    (void)state;
    run_case("stall", 3);
}

/* Without a launcher, and before join. */
static void test_alone(void **state)
{
    void *module = dlopen(PENSTOCK_PLUGIN_DIR "/transport-mpi.so", RTLD_NOW | RTLD_LOCAL);
    struct pst_transport_config config = {.n_ranks = 1, .stall_ns = SECOND};
    struct pst_transport *none = NULL;
    pst_transport_module_fn *function;
    struct pst_error err = {0};
    uint32_t rank, n;

    (void)state;
    assert_non_null(module);
    *(void **)&function = dlsym(module, PST_TRANSPORT_MODULE_SYMBOL);
    assert_int_equal(function()->open(&config, &none, &err), PST_ERR_CONFIG);
    assert_int_equal(function()->processes->join(SECOND, &rank, &n, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "not started by an MPI launcher"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),  cmocka_unit_test(test_one),   cmocka_unit_test(test_eight),
        cmocka_unit_test(test_misfit), cmocka_unit_test(test_stall),
    };

    if (argc > 1) {
        return rank_main(argv[1]);
    }
    assert_true(readlink("/proc/self/exe", own_path, sizeof own_path - 1) > 0);
    return mpi_rig_is_here() ? cmocka_run_group_tests(tests, NULL, NULL) : MPI_RIG_SKIP;
}
