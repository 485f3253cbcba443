/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings, as the communicator sees them: the one at the head of each lane's queue moves. First
 * its members tell each other what they have; a small one is told with it, and a sum is added up by
 * each of them. A large one goes in rounds: each member gets all terms of its share of the
 * elements, adds them up and, unless it is the share's owner, sends the result to the others. Of a
 * gather there are no terms: each sends what it owns, of an exchange to each other what is for that
 * one. An element is added up in the order of the terms, left to right, wherever that is done, so
 * its bits are those of every other transport.
 */
#include "transport/mpi/module.h"

#include <stdlib.h>
#include <string.h>

#define STAGE_BYTES ((uint64_t)4 << 20) /* of all members and terms, about */
#define LEAST_SHARE 64u

static bool is_inline(const struct sum *sum)
{
    uint32_t most = 0;

    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        uint32_t n = mpi_terms_of(sum, m);

        most = n > most ? n : most;
    }
    /* All members get the same with a head, of an exchange each other blocks. */
    return sum->meeting.kind != PST_MEET_EXCHANGE && sum->elems <= MPI_INLINE / sum->size &&
           sum->elems * sum->size * most <= MPI_INLINE;
}

static struct staging *staging_of(struct world *world, const struct sum *sum)
{
    return &world->lanes[sum->meeting.lane].staging;
}

/* Room for a receive from each member and, behind these, a send to each. */
static bool make_requests(struct world *world, const struct sum *sum)
{
    struct staging *staging = staging_of(world, sum);
    uint32_t n = 2 * sum->meeting.n_members;
    MPI_Request *more;

    if (n > staging->n_room) {
        more = realloc(staging->requests, n * sizeof *more);
        if (more == NULL) {
            staging->n_requests = 0;
            mpi_give_up_memory(world);
            return false;
        }
        staging->requests = more;
        staging->n_room = n;
    }
    for (uint32_t i = 0; i < n; i++) {
        staging->requests[i] = MPI_REQUEST_NULL;
    }
    staging->n_requests = n;
    return true;
}

static void receive(struct world *world, const struct sum *sum, uint32_t member, int tag, char *to,
                    uint64_t bytes)
{
    if (bytes > 0) {
        mpi_ok(world,
               MPI_Irecv(to, (int)bytes, MPI_BYTE, (int)sum->meeting.members[member],
                         tag + sum->meeting.lane, world->comm,
                         &staging_of(world, sum)->requests[member]),
               "MPI_Irecv");
    }
}

static void send(struct world *world, const struct sum *sum, uint32_t member, int tag,
                 const char *from, uint64_t bytes)
{
    if (bytes > 0) {
        mpi_ok(world,
               MPI_Isend(from, (int)bytes, MPI_BYTE, (int)sum->meeting.members[member],
                         tag + sum->meeting.lane, world->comm,
                         &staging_of(world, sum)->requests[sum->meeting.n_members + member]),
               "MPI_Isend");
    }
}

static struct sum_head *head_of(struct world *world, const struct sum *sum, uint32_t member)
{
    return (struct sum_head *)(void *)(staging_of(world, sum)->heads + member * MPI_HEAD);
}

static void begin(struct world *world, struct sum *sum)
{
    char *own = (char *)head_of(world, sum, sum->me);
    size_t bytes = sizeof(struct sum_head);

    sum->phase = SUM_HEADS;
    sum->n_mine = mpi_terms_of(sum, sum->me);
    memcpy(own, &sum->mine, sizeof sum->mine);
    if (is_inline(sum)) {
        for (uint32_t t = 0; t < sum->n_mine; t++) {
            mpi_sum_read(sum, t, inorder_all(&sum->meeting, INORDER_ANY), own + bytes);
            bytes += sum->elems * sum->size;
        }
        if (sum->n_terms == 0) {
            mpi_sum_read(sum, 0, inorder_all(&sum->meeting, sum->me), own + bytes);
            bytes += inorder_all(&sum->meeting, sum->me).n * sum->size;
        }
    }
    if (!make_requests(world, sum)) {
        return;
    }
    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        if (m != sum->me) {
            receive(world, sum, m, TAG_MEET_HEAD, (char *)head_of(world, sum, m), MPI_HEAD);
            send(world, sum, m, TAG_MEET_HEAD, own, bytes);
        }
    }
}

static bool all_ended(struct world *world, struct sum *sum)
{
    struct staging *staging = staging_of(world, sum);

    for (uint32_t i = 0; i < staging->n_requests; i++) {
        if (!mpi_ended(world, &staging->requests[i])) {
            atomic_store(&sum->missing, sum->meeting.members[i % sum->meeting.n_members]);
            return false;
        }
    }
    return true;
}

/* Adds up a term of each row in turn: `rows` are where the next one of each member is. */
static void add_up(const struct sum *sum, const char **rows, uint64_t n, char *to)
{
    for (uint32_t t = 0; t < sum->n_terms; t++) {
        const char **row = &rows[inorder_member(&sum->meeting, t)];

        inorder_add(to, *row, t, sum->n_terms, n, sum->meeting.dtype);
        *row += n * sum->size;
    }
}

static void end_sum(struct world *world, struct sum *sum, uint32_t state)
{
    struct sum_lane *lane = &world->lanes[sum->meeting.lane];

    requests_shift(&lane->queue);
    lane->begun = false;
    sum->end_ns = pst_now_ns();
    mpi_publish(world, &sum->state, state);
}

/* --- rounds ------------------------------------------------------------------------------------*/

/* Layout of the staging of a round: the result of this rank, or what it brings, with room for wide
   elements; received terms, member after member; own terms to send, member after member; the
   results of the others. */
struct round {
    char *result, *terms, *own, *others;
    const char **rows; /* of each member among the terms */
};

static struct inorder_cursor share_of(const struct sum *sum, uint32_t member)
{
    return inorder_cut(&sum->meeting, &sum->round, member);
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static bool lay_out(struct world *world, const struct sum *sum, struct round *ret_round)
{
    struct staging *staging = staging_of(world, sum);
    uint64_t n_rows = (uint64_t)sum->n_terms + (uint64_t)sum->n_mine * sum->meeting.n_members +
                      sum->meeting.n_members;
    size_t pointers = whole_lines(sum->meeting.n_members * sizeof(char *));
    size_t row = (size_t)sum->round.share * sum->size, bytes;
    size_t ahead = pointers + whole_lines(sum->n_terms > 0 ? (size_t)sum->round.share *
                                                                 inorder_wide(sum->meeting.dtype)
                                                           : row);

    if (__builtin_mul_overflow(n_rows, row, &bytes) || bytes > SIZE_MAX - ahead ||
        (uint64_t)sum->n_terms * row > MPI_PIECE) {
        mpi_give_up(world, "run.device", "a sum over too many replicas");
        return false;
    }
    if (bytes + ahead > staging->room) {
        free(staging->bytes);
        staging->bytes = malloc(bytes + ahead);
        staging->room = staging->bytes != NULL ? bytes + ahead : 0;
    }
    if (staging->bytes == NULL) {
        mpi_give_up_memory(world);
        return false;
    }
    ret_round->rows = (const char **)(void *)staging->bytes;
    ret_round->result = staging->bytes + pointers;
    ret_round->terms = staging->bytes + ahead;
    ret_round->own = ret_round->terms + sum->n_terms * row;
    ret_round->others = ret_round->own + (size_t)sum->n_mine * sum->meeting.n_members * row;
    return true;
}

/* Every member gets this rank's terms of its share, and this rank all terms of its own. */
static void begin_round(struct world *world, struct sum *sum)
{
    uint64_t each = STAGE_BYTES / sum->size / (sum->n_terms + sum->meeting.n_members);
    uint64_t mine;
    struct round round;
    char *at;

    sum->phase = SUM_TERMS;
    each = each < LEAST_SHARE ? LEAST_SHARE : each;
    if (!inorder_next_round(&sum->meeting, each, 1, &sum->round)) {
        end_sum(world, sum, REQUEST_DONE);
        return;
    }
    mine = share_of(sum, sum->me).n;
    if (!lay_out(world, sum, &round) || !make_requests(world, sum)) {
        return;
    }
    at = round.terms;
    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        uint64_t bytes = mpi_terms_of(sum, m) * mine * sum->size;

        round.rows[m] = at;
        if (m != sum->me) {
            receive(world, sum, m, TAG_MEET, at, bytes);
        }
        at += bytes;
    }
    at = round.own;
    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        struct inorder_cursor share = share_of(sum, m);
        char *to = m == sum->me ? (char *)(uintptr_t)round.rows[m] : at;

        for (uint32_t t = 0; t < sum->n_mine; t++) {
            mpi_sum_read(sum, t, share, to + t * share.n * sum->size);
        }
        if (m != sum->me) {
            send(world, sum, m, TAG_MEET, at, sum->n_mine * share.n * sum->size);
            at += sum->n_mine * share.n * sum->size;
        }
    }
}

/* Each member gets its blocks of what this rank has of the round, this rank its own at once. */
static void send_blocks(struct world *world, const struct sum *sum, const struct round *round)
{
    const struct inorder_cursor mine = share_of(sum, sum->me);
    char *at = round->result;

    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        char *from_m = round->others + m * sum->round.share;
        uint64_t bytes;

        if (m == sum->me) {
            mpi_sum_pick(mine, m, from_m);
            continue;
        }
        bytes = mpi_sum_pick(mine, m, at);
        receive(world, sum, m, TAG_MEET, from_m, inorder_received(share_of(sum, m), sum->me));
        send(world, sum, m, TAG_MEET, at, bytes);
        at += bytes;
    }
}

static void send_results(struct world *world, struct sum *sum)
{
    struct inorder_cursor mine = share_of(sum, sum->me);
    bool tells = inorder_tells(&sum->meeting, &sum->round);
    struct round round;

    sum->phase = SUM_RESULTS;
    if (!lay_out(world, sum, &round) || !make_requests(world, sum)) {
        return;
    }
    if (sum->meeting.kind == PST_MEET_EXCHANGE) {
        send_blocks(world, sum, &round);
        return;
    }
    if (sum->n_terms == 0) {
        mpi_sum_read(sum, 0, mine, round.result);
    } else if (mine.n > 0) {
        add_up(sum, round.rows, mine.n, round.result);
    }
    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        if (m != sum->me && tells) {
            receive(world, sum, m, TAG_MEET, round.others + m * sum->round.share * sum->size,
                    share_of(sum, m).n * sum->size);
            send(world, sum, m, TAG_MEET, round.result, mine.n * sum->size);
        }
    }
}

static void end_round(struct world *world, struct sum *sum)
{
    const bool tells = inorder_tells(&sum->meeting, &sum->round);
    const bool exchanges = sum->meeting.kind == PST_MEET_EXCHANGE;
    struct round round;

    if (!lay_out(world, sum, &round)) {
        return;
    }
    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        if (m == sum->me ? exchanges || sum->n_terms > 0 : tells) {
            mpi_sum_write(sum, share_of(sum, m),
                          m == sum->me && !exchanges
                              ? round.result
                              : round.others + m * sum->round.share * sum->size);
        }
    }
    begin_round(world, sum);
}

/* --- the queue ---------------------------------------------------------------------------------*/

/* Everything came with the heads. */
static void end_inline(struct world *world, struct sum *sum)
{
    _Alignas(16) char result[2 * MPI_INLINE]; /* wide elements: at most twice as many bytes */

    for (uint32_t t = 0; t < sum->n_terms && sum->elems > 0; t++) {
        uint32_t m = inorder_member(&sum->meeting, t), nth = 0;
        const char *row;

        for (uint32_t i = 0; i < t; i++) {
            nth += inorder_member(&sum->meeting, i) == m;
        }
        row = (const char *)(head_of(world, sum, m) + 1) + nth * sum->elems * sum->size;
        inorder_add(result, row, t, sum->n_terms, sum->elems, sum->meeting.dtype);
    }
    if (sum->n_terms > 0) {
        mpi_sum_write(sum, inorder_all(&sum->meeting, INORDER_ANY), result);
    }
    for (uint32_t m = 0; m < sum->meeting.n_members && sum->n_terms == 0; m++) {
        mpi_sum_write(sum, inorder_all(&sum->meeting, m),
                      (const char *)(head_of(world, sum, m) + 1));
    }
    end_sum(world, sum, REQUEST_DONE);
}

/* All heads are here: do the members agree? */
static void meet(struct world *world, struct sum *sum)
{
    sum->start_ns = pst_now_ns();
    for (uint32_t m = 0; m < sum->meeting.n_members; m++) {
        const struct sum_head *head = head_of(world, sum, m);

        if (head->elems != sum->mine.elems || head->shape != sum->mine.shape ||
            head->n_terms != sum->mine.n_terms) {
            sum->peer = sum->meeting.members[m];
            sum->theirs = *head;
            end_sum(world, sum, REQUEST_BAD);
            return;
        }
    }
    if (is_inline(sum)) {
        end_inline(world, sum);
    } else {
        begin_round(world, sum);
    }
}

void mpi_sums_take(struct world *world, struct request_queue *inbox)
{
    struct sum *sum;

    while ((sum = requests_shift(inbox)) != NULL) {
        requests_append(&world->lanes[sum->meeting.lane].queue, sum);
    }
}

static bool progress(struct world *world, struct sum_lane *lane)
{
    struct sum *sum = (struct sum *)lane->queue.first;

    if (sum == NULL || atomic_load(&world->aborted)) {
        return false;
    }
    if (!lane->begun) {
        lane->begun = true;
        begin(world, sum);
        return true;
    }
    if (!all_ended(world, sum)) {
        return false;
    }
    if (sum->phase == SUM_HEADS) {
        meet(world, sum);
    } else if (sum->phase == SUM_TERMS) {
        send_results(world, sum);
    } else {
        end_round(world, sum);
    }
    return true;
}

bool mpi_sums_progress(struct world *world)
{
    bool any = false;

    for (uint32_t lane = 0; lane < PST_MEET_LANES; lane++) {
        any = progress(world, &world->lanes[lane]) || any;
    }
    return any;
}

static bool drop(struct world *world, struct sum_lane *lane)
{
    struct staging *staging = &lane->staging;
    bool dropped = true;

    for (uint32_t i = 0; lane->begun && i < staging->n_requests; i++) {
        dropped = mpi_drop(world, &staging->requests[i], i < staging->n_requests / 2) && dropped;
    }
    lane->queue = (struct request_queue){0};
    lane->begun = false;
    if (dropped) {
        free(staging->bytes);
    }
    free(staging->requests);
    staging->bytes = NULL;
    staging->requests = NULL;
    staging->room = staging->n_room = staging->n_requests = 0;
    return dropped;
}

bool mpi_sums_drop(struct world *world)
{
    bool dropped = true;

    for (uint32_t lane = 0; lane < PST_MEET_LANES; lane++) {
        dropped = drop(world, &world->lanes[lane]) && dropped;
    }
    return dropped;
}
