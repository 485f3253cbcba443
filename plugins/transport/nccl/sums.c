/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over ranks whose bits do not depend on who adds. Every member gets all terms of its share of
 * the elements, adds them up in their order, and sends the result to the others: as many bytes as a
 * ring moves, for sums of one term each. NCCL's own all-reduce promises no order. Sums that do not
 * fit into the scratch memory are done in rounds. All of it is in one lane, and only who waits for
 * the ticket waits for it.
 */
#include "transport/common/inorder.h"
#include "transport/nccl/module.h"

#define ALIGN_ELEMS 64u

struct sum {
    struct pst_transport *transport;
    uint32_t rank;
    const uint32_t *members;
    uint32_t n_members, me, n_terms;
    const uint32_t (*order)[2];          /* NULL: one term of each member in turn, */
    const struct pst_reduce_part *parts; /* which is these, in place */
    const float *const *src;             /* with `order` */
    float *dst;
    uint64_t elems, at, share; /* of a round: elements behind it; of a member */
    float *scratch;            /* a row for each term */
    struct lane *lane;
    ncclResult_t result; /* what went wrong first */
    cudaError_t error;
};

/* The elements of the round that a member adds up. */
static uint64_t share_of(const struct sum *sum, uint32_t member, uint64_t *ret_begin)
{
    return inorder_share(sum->elems, sum->at, sum->share, member, ret_begin);
}

/* --- pieces: what to do with elements [at, at + n) of a row, wherever they lie -----------------*/

typedef void piece_fn(struct sum *sum, uint32_t peer, float *data, float *scratch, uint64_t n);

static void send_piece(struct sum *sum, uint32_t peer, float *data, float *scratch, uint64_t n)
{
    (void)scratch;
    if (sum->result == ncclSuccess) {
        sum->result = ncclSend(data, n, ncclFloat32, (int)peer, sum->lane->comm, sum->lane->stream);
    }
}

static void recv_piece(struct sum *sum, uint32_t peer, float *data, float *scratch, uint64_t n)
{
    (void)scratch;
    if (sum->result == ncclSuccess) {
        sum->result = ncclRecv(data, n, ncclFloat32, (int)peer, sum->lane->comm, sum->lane->stream);
    }
}

static void send_scratch(struct sum *sum, uint32_t peer, float *data, float *scratch, uint64_t n)
{
    (void)data;
    send_piece(sum, peer, scratch, NULL, n);
}

static void recv_scratch(struct sum *sum, uint32_t peer, float *data, float *scratch, uint64_t n)
{
    (void)data;
    recv_piece(sum, peer, scratch, NULL, n);
}

static void copy(struct sum *sum, float *to, const float *from, uint64_t n)
{
    if (sum->error == cudaSuccess) {
        sum->error =
            cudaMemcpyAsync(to, from, n * sizeof *to, cudaMemcpyDeviceToDevice, sum->lane->stream);
    }
}

static void copy_in(struct sum *sum, uint32_t peer, float *data, float *scratch, uint64_t n)
{
    (void)peer;
    copy(sum, scratch, data, n);
}

static void copy_out(struct sum *sum, uint32_t peer, float *data, float *scratch, uint64_t n)
{
    (void)peer;
    copy(sum, data, scratch, n);
}

/* Both ends of a transfer cut it at the same places: those of the parts. whole: NULL, or where all
   elements lie in one. */
static void each_piece(struct sum *sum, uint32_t peer, float *whole, uint64_t at, uint64_t n,
                       float *scratch, piece_fn *piece)
{
    struct inorder_cursor cursor = {sum->parts, at, n};
    struct pst_reduce_part part;

    if (sum->order != NULL) {
        if (n > 0) {
            piece(sum, peer, whole == NULL ? NULL : whole + at, scratch, n);
        }
        return;
    }
    while (inorder_next_piece(&cursor, &part)) {
        piece(sum, peer, part.data, scratch, part.elems);
        scratch += part.elems;
    }
}

/* --- a round -----------------------------------------------------------------------------------*/

static float *source_of(const struct sum *sum, uint32_t term)
{
    return sum->order == NULL ? NULL : (float *)(uintptr_t)sum->src[sum->order[term][1]];
}

/* Each member gets this rank's terms of its share, and this rank all terms of its own. */
static ncclResult_t exchange_terms(const struct lane *lane, void *of)
{
    struct sum *sum = of;

    (void)lane;
    sum->result = ncclSuccess;
    for (uint32_t m = 0; m < sum->n_members; m++) {
        uint64_t theirs, ours, n = share_of(sum, m, &theirs), mine = share_of(sum, sum->me, &ours);

        for (uint32_t t = 0; m != sum->me && t < sum->n_terms; t++) {
            float *scratch = sum->scratch + t * sum->share;

            if (inorder_member(sum->order, t) == sum->me) {
                each_piece(sum, sum->members[m], source_of(sum, t), theirs, n, NULL, send_piece);
            }
            if (inorder_member(sum->order, t) == m) {
                each_piece(sum, sum->members[m], NULL, ours, mine, scratch, recv_scratch);
            }
        }
    }
    return sum->result;
}

static ncclResult_t exchange_results(const struct lane *lane, void *of)
{
    struct sum *sum = of;

    (void)lane;
    sum->result = ncclSuccess;
    for (uint32_t m = 0; m < sum->n_members; m++) {
        uint64_t theirs, ours, n = share_of(sum, m, &theirs), mine = share_of(sum, sum->me, &ours);

        if (m != sum->me) {
            each_piece(sum, sum->members[m], NULL, ours, mine, sum->scratch, send_scratch);
            each_piece(sum, sum->members[m], sum->dst, theirs, n, NULL, recv_piece);
        }
    }
    return sum->result;
}

static void add_up(struct sum *sum)
{
    uint64_t ours, n = share_of(sum, sum->me, &ours);

    for (uint32_t t = 0; t < sum->n_terms; t++) {
        if (inorder_member(sum->order, t) == sum->me) {
            each_piece(sum, 0, source_of(sum, t), ours, n, sum->scratch + t * sum->share, copy_in);
        }
    }
    for (uint32_t t = 1; t < sum->n_terms && sum->error == cudaSuccess; t++) {
        sum->error = nccl_add(sum->scratch, sum->scratch + t * sum->share, n, sum->lane->stream);
    }
    each_piece(sum, 0, sum->dst, ours, n, sum->scratch, copy_out);
}

static pst_status run_round(struct sum *sum)
{
    const char *const doing = "a sum over ranks";
    pst_status status =
        nccl_group(sum->transport, sum->rank, LANE_SUMS, doing, exchange_terms, sum);

    if (status != PST_OK) {
        return status;
    }
    add_up(sum);
    if (sum->error != cudaSuccess) { /* before others take it for a sum */
        nccl_fail_cuda(sum->transport, sum->rank, doing, sum->error);
        return PST_ERR_CANCELLED;
    }
    return nccl_group(sum->transport, sum->rank, LANE_SUMS, doing, exchange_results, sum);
}

/* All rounds into the lane. On success its ticket is *ret_ticket. */
static pst_status run(struct sum *sum, uint64_t *ret_ticket)
{
    struct rank *rank = nccl_rank(sum->transport, sum->rank);
    uint64_t room = rank->scratch_elems / sum->n_terms / ALIGN_ELEMS * ALIGN_ELEMS;
    uint32_t peer = sum->members[sum->me == 0 && sum->n_members > 1];
    struct ticket *ticket;
    pst_status status = PST_OK;

    if (rank->scratch == NULL || room == 0) {
        return PST_ERR_BUG;
    }
    ticket = nccl_ticket_open(sum->transport, sum->rank, LANE_SUMS, peer);
    if (ticket == NULL) {
        return PST_ERR_CANCELLED;
    }
    sum->scratch = rank->scratch;
    sum->lane = &rank->lanes[LANE_SUMS];
    *ret_ticket = sum->lane->next - 1;
    for (; sum->at < sum->elems && status == PST_OK; sum->at += sum->n_members * sum->share) {
        uint64_t even = inorder_even_share(sum->elems - sum->at, sum->n_members);

        even = (even + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
        sum->share = even < room ? even : room;
        status = run_round(sum);
    }
    return status == PST_OK ? nccl_ticket_launch(sum->transport, sum->rank, LANE_SUMS, ticket)
                            : status;
}

/* --- calls -------------------------------------------------------------------------------------*/

pst_status nccl_all_reduce(struct pst_transport *transport, uint32_t index, const uint32_t *members,
                           uint32_t n_members, const struct pst_reduce_part *parts,
                           uint32_t n_parts, pst_request *ret_request)
{
    struct rank *rank = nccl_rank(transport, index);
    struct sum sum = {.transport = transport,
                      .rank = index,
                      .members = members,
                      .n_members = n_members,
                      .me = inorder_position(members, n_members, index),
                      .n_terms = n_members,
                      .parts = parts};
    struct request *request = rank != NULL ? (struct request *)rank->free_sums : NULL;
    pst_status status;

    if (atomic_load(&transport->failed)) {
        return PST_ERR_CANCELLED;
    }
    if (request == NULL || sum.me == n_members || nccl_flush(transport, index, NULL) != PST_OK) {
        return atomic_load(&transport->failed) ? PST_ERR_CANCELLED : PST_ERR_BUG;
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        sum.elems += parts[p].elems;
    }
    status = run(&sum, &request->ticket);
    if (status != PST_OK) {
        return status;
    }
    requests_pop(&rank->free_sums);
    request->used = true;
    request->lane = LANE_SUMS;
    *ret_request = (pst_request)(request - rank->requests);
    return PST_OK;
}

pst_status nccl_reduce(struct pst_transport *transport, uint32_t index, const uint32_t *members,
                       uint32_t n_members, const float *const *src, uint32_t n_src,
                       const uint32_t (*order)[2], uint32_t n_order, float *dst, uint64_t elems,
                       struct pst_error *err)
{
    struct sum sum = {.transport = transport,
                      .rank = index,
                      .members = members,
                      .n_members = n_members,
                      .me = inorder_position(members, n_members, index),
                      .n_terms = n_order,
                      .order = order,
                      .src = src,
                      .dst = dst,
                      .elems = elems};
    uint64_t ticket = 0;
    pst_status status = nccl_flush(transport, index, err);

    for (uint32_t i = 0; i < n_order && status == PST_OK; i++) {
        if (order[i][0] >= n_members || (order[i][0] == sum.me && order[i][1] >= n_src)) {
            status = PST_ERR_BUG;
        }
    }
    if (status == PST_ERR_BUG || sum.me == n_members || n_order == 0) {
        return pst_fail(err, PST_ERR_BUG, "transport.members",
                        "rank %u takes part in a reduction of %u members and %u terms that is none",
                        index, n_members, n_order);
    }
    status = status == PST_OK ? run(&sum, &ticket) : status;
    if (status == PST_ERR_BUG) {
        return pst_fail(err, status, "transport.config", "rank %u: no room for sums of %u terms",
                        index, n_order);
    }
    return status == PST_OK ? nccl_ticket_wait(transport, index, LANE_SUMS, ticket, err)
                            : nccl_check(transport, index, err);
}
