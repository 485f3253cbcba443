/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of the `mpi` transport, held against sums worked out here, bit for bit, in an order that no
 * other would give the same result as.
 */
#include <dlfcn.h>

#include "unit/transport/mpi_ranks.h"

#include "base/machine.h"

#include "unit/transport/exchange.h"
#include "unit/transport/lanes.h"

/* --- sums --- */

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
    }
}

/* Members in an order that is not theirs; one of them brings two sources. */
static void reduce_of(uint64_t elems)
{
    uint32_t members[MAX_RANKS], order[MAX_RANKS + 1][2] = {{0, 1}}, n_order = 1, wrong = 0;
    float *mine[2] = {calloc(elems + 1, sizeof(float)), calloc(elems + 1, sizeof(float))};
    float *result = calloc(elems + 1, sizeof *result);
    const struct pst_meet_part part = {
        .src = (const void *const *)mine, .dst = result, .elems = elems, .owner = PST_NONE};

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
    EXPECT(sum_in_order(ops, transport, me, members, n_ranks, (const uint32_t(*)[2])order, n_order,
                        me == 0 ? 2 : 1, &part, NULL) == PST_OK);
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

/* A message round the ring. */
static void pass_on(uint32_t round)
{
    uint32_t values[2] = {1000 * round + me, 0}, from = (me + n_ranks - 1) % n_ranks;
    pst_request send, recv;

    EXPECT(post_send(ops, transport, me, (me + 1) % n_ranks, 1, &values[0], 4, &send) == PST_OK);
    EXPECT(post_recv(ops, transport, me, from, 1, &values[1], 4, &recv) == PST_OK);
    EXPECT(ops->wait(transport, me, send, NULL) == PST_OK);
    EXPECT(ops->wait(transport, me, recv, NULL) == PST_OK);
    EXPECT(values[1] == 1000 * round + from);
}

/* Groups that overlap, two of them posted at once; transfers go on beside them. */
static void replicas(void)
{
    struct pst_meet_part parts[2][PARTS];
    uint32_t all[MAX_RANKS], pair[2] = {me | 1, me & ~1u};
    bool paired = (me | 1) < n_ranks;
    const struct pst_meeting of_all = sum_in_place(all, n_ranks, parts[0], PARTS);
    const struct pst_meeting of_pair = sum_in_place(pair, 2, parts[1], PARTS);
    pst_request first, second = 0;

    for (uint32_t i = 0; i < n_ranks; i++) {
        all[i] = (5 * i + 3) % n_ranks; /* 5 is no divisor of what it is run with */
    }
    for (uint32_t round = 0; round < 6; round++) {
        fill_parts(parts[0], me, 2 * round);
        EXPECT(ops->meet(transport, me, &of_all, &first) == PST_OK);
        if (paired) {
            fill_parts(parts[1], me, 2 * round + 1);
            EXPECT(ops->meet(transport, me, &of_pair, &second) == PST_OK);
        }
        pass_on(round);
        EXPECT(ops->wait(transport, me, first, NULL) == PST_OK);
        EXPECT(wrong_in_parts(parts[0], all, n_ranks, 2 * round) == 0);
        if (paired) {
            EXPECT(ops->wait(transport, me, second, NULL) == PST_OK);
            EXPECT(wrong_in_parts(parts[1], pair, 2, 2 * round + 1) == 0);
        }
    }
}

static void healthy(void)
{
    void (*const cases[])(void) = {sums, reductions, replicas};

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reopen(60 * SECOND, 2);
        cases[i]();
    }
}

static struct ranked self_of(uint32_t max_meetings)
{
    reopen(60 * SECOND, max_meetings);
    return (struct ranked){.ops = ops, .transport = transport, .rank = me, .n_ranks = n_ranks};
}

/* Told with the heads; in one round; in several. */
static void owners(void)
{
    static const uint64_t sizes[] = {10, 5003, 1500007};

    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct ranked self = self_of(2);

        EXPECT(owned_meet(&self, OWNED_CASES, sizes[i], NULL) == 0);
        EXPECT(owned_misuse(&self) == 0);
    }
}

/* Bytes of messages that are longer than heads and signs of life. The transport calls this instead
   of the library's function, since the program exports it; types of MPI pass through as they are.
 */
enum { LONG_MESSAGE = 4096 };

static uint64_t sent_bytes;

int MPI_Isend(const void *data, int n, void *type, int to, int tag, void *comm, void *request);

int MPI_Isend(const void *data, int n, void *type, int to, int tag, void *comm, void *request)
{
    static int (*isend)(const void *, int, void *, int, int, void *, void *);

    if (isend == NULL) {
        *(void **)&isend = dlsym(RTLD_DEFAULT, "PMPI_Isend");
    }
    sent_bytes += n >= LONG_MESSAGE ? (uint64_t)n : 0;
    return isend(data, n, type, to, tag, comm, request);
}

/* Each block is sent once, to its receiver alone. */
static void exchange_sends(uint64_t base)
{
    static struct exchange one;
    uint64_t expected = 0;
    pst_request request;

    exchange_fill(&one, me, n_ranks, base);
    for (uint32_t p = 0; p < one.meeting.n_parts; p++) {
        const struct pst_meet_part *part = &one.parts[p];

        expected += part->owner == one.me && part->to != one.me ? part->elems : 0;
    }
    sent_bytes = 0;
    EXPECT(ops->meet(transport, me, &one.meeting, &request) == PST_OK);
    EXPECT(ops->wait(transport, me, request, NULL) == PST_OK);
    EXPECT(exchange_wrong(&one) == 0);
    EXPECT(sent_bytes == expected && expected >= base);
}

/* In one round; in several, whose ends cut blocks. */
static void exchange(void)
{
    const struct ranked self = self_of(2);

    EXPECT(exchange_both(&self, 1) == 0);
    EXPECT(exchange_both(&self, 5003) == 0);
    EXPECT(exchange_both(&self, 200009) == 0);
    exchange_sends(5003);
    EXPECT(exchange_misuse(&self) == 0);
}

/* Meetings of replicas inside passes go on and end while the rank does something else. */
static void beside(void)
{
    enum { ELEMS = 1500007 }; /* several rounds */
    static const uint32_t members[] = {0, 1};
    const uint64_t until = pst_now_ns() + 50 * SECOND;
    float *data[2] = {calloc(ELEMS, sizeof(float)), calloc(ELEMS, sizeof(float))};
    struct pst_meet_part parts[2];
    pst_request requests[2];

    reopen(60 * SECOND, 2);
    for (uint32_t k = 0; k < 2; k++) {
        struct pst_meeting meeting = sum_in_place(members, 2, &parts[k], 1);

        meeting.lane = PST_MEET_ROWS;
        parts[k] = (struct pst_meet_part){.dst = data[k], .elems = ELEMS, .owner = PST_NONE};
        data[k][ELEMS - 1] = (float)(1 + me);
        EXPECT(ops->meet(transport, me, &meeting, &requests[k]) == PST_OK);
    }
    while (pst_now_ns() < until && *(volatile float *)&data[1][ELEMS - 1] != 3) {
        nap(1000);
    }
    EXPECT(pst_now_ns() < until);
    for (uint32_t k = 0; k < 2; k++) {
        EXPECT(ops->wait(transport, me, requests[k], NULL) == PST_OK);
        EXPECT(data[k][ELEMS - 1] == 3);
        free(data[k]);
    }
}

static void lanes(void)
{
    const struct ranked self = self_of(LANES_OPEN);

    EXPECT(lanes_places(&self, PST_MEET_SUMS) == 0);
    EXPECT(lanes_places(&self, PST_MEET_ROWS) == 0);
    EXPECT(lanes_apart(&self) == 0);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        EXPECT(lanes_mixed(&self, seed) == 0);
    }
}

static void by_hand(void)
{
    const struct ranked self = self_of(1);

    EXPECT(wrong_by_hand(&self) == 0);
}

/* Rank 1 comes to nothing, rank 2 to the parts alone, rank 0 to a sum, too. */
static void stall(void)
{
    static const uint32_t members[] = {0, 1, 2};
    float data[2] = {0};
    const struct pst_meet_part part[2] = {{.dst = &data[0], .elems = 1, .owner = PST_NONE},
                                          {.dst = &data[1], .elems = 1, .owner = PST_NONE}};
    const struct pst_meeting sum = sum_in_place(members, 3, &part[0], 1);
    struct pst_meeting parts = sum_in_place(members, 3, &part[1], 1);
    struct pst_error err = {0};
    pst_request request = 0;
    uint8_t byte = 0, all[MAX_RANKS];

    reopen(me == 0 ? 2 * SECOND : 20 * SECOND, 1);
    parts.lane = PST_MEET_PARTS;
    parts.name = "sum over parts";
    if (me == 1) {
        EXPECT(ops->processes->exchange(&byte, all, 1, &err) == PST_ERR_CANCELLED);
        return;
    }
    EXPECT(me != 0 || ops->meet(transport, me, &sum, &request) == PST_OK);
    EXPECT(ops->meet(transport, me, &parts, &request) == PST_OK);
    EXPECT(ops->wait(transport, me, request, &err) == PST_ERR_CANCELLED);
    EXPECT(strcmp(err.kind, me == 0 ? "run.stalled" : "run.aborted") == 0);
    EXPECT(strstr(err.message, "device 1 (rank 1, host ") != NULL);
    EXPECT(strstr(err.message, "waiting for it: devices 0, 2.") != NULL);
    EXPECT(strstr(err.message, "in a sum over parts among 3 devices") != NULL);
    ops->abort(transport, me, &err);
}

static void misfit(void)
{
    struct pst_error err = {0};
    double values[3] = {0};

    for (uint32_t which = 0; which <= OWNED_UNLIKE; which++) {
        const struct ranked self = self_of(1);

        EXPECT((which < OWNED_UNLIKE ? owned_unlike(&self, which, &err)
                                     : exchange_unlike(&self, &err)) == PST_ERR_BUG);
        EXPECT(strcmp(err.kind, "transport.size") == 0);
        err = (struct pst_error){0};
    }
    reopen(20 * SECOND, 0);
    EXPECT(ops->sum(transport, me, values, 2 + (me == 1), &err) == PST_ERR_BUG);
    EXPECT(strcmp(err.kind, "transport.size") == 0);
}

RANKS_TEST(test_two, "healthy", 2)
RANKS_TEST(test_three, "healthy", 3)
RANKS_TEST(test_eight, "healthy", 8)
RANKS_TEST(test_owners_of_one, "owners", 1)
RANKS_TEST(test_owners_of_two, "owners", 2)
RANKS_TEST(test_owners_of_three, "owners", 3)
RANKS_TEST(test_owners_of_four, "owners", 4)
RANKS_TEST(test_owners_of_five, "owners", 5)
RANKS_TEST(test_exchange_of_two, "exchange", 2)
RANKS_TEST(test_exchange_of_three, "exchange", 3)
RANKS_TEST(test_exchange_of_four, "exchange", 4)
RANKS_TEST(test_beside, "beside", 2)
RANKS_TEST(test_lanes_of_two, "lanes", 2)
RANKS_TEST(test_lanes_of_three, "lanes", 3)
RANKS_TEST(test_lanes_of_five, "lanes", 5)
RANKS_TEST(test_types, "by_hand", 3)
RANKS_TEST(test_misfit, "misfit", 2)
RANKS_TEST(test_stall, "stall", 3)

static const struct rank_case cases[] = {
    {"healthy", healthy}, {"owners", owners},     {"beside", beside},
    {"lanes", lanes},     {"exchange", exchange}, {"by_hand", by_hand},
    {"misfit", misfit},   {"stall", stall},       {NULL, NULL}};

RANKS_MAIN(cases)
