/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over ranks whose bits do not depend on who adds. Every member gets all terms of its share of
 * the elements, adds them up in their order, and sends the result to the others unless it is the
 * share's owner: as many bytes as a ring moves, for sums of one term each. NCCL's own all-reduce
 * and reduce-scatter promise no order. Sums that do not fit into the scratch memory are done in
 * rounds. A gather is the last step alone, from buffer to buffer. All of it is in one lane, and
 * only who waits for the ticket waits for it; there is none for PST_MEET_PARTS. Nothing but f32 is
 * added up.
 */
#include "transport/common/inorder.h"
#include "transport/nccl/module.h"

#define ALIGN_ELEMS 64u

struct sum {
    struct pst_transport *transport;
    uint32_t rank;
    const struct pst_meeting *meeting;
    uint32_t me, n_terms, size; /* size: of an element */
    struct inorder_round round;
    float *scratch; /* a row for each term */
    struct lane *lane;
    ncclResult_t result; /* what went wrong first */
    cudaError_t error;
};

/* The elements of the round that a member adds up, or brings. */
static struct inorder_cursor share_of(const struct sum *sum, uint32_t member)
{
    return inorder_cut(sum->meeting, &sum->round, member);
}

/* --- pieces: what to do with the elements of a share, wherever they lie ------------------------*/

#define RESULT UINT32_MAX /* in place of a source */

typedef void piece_fn(struct sum *sum, uint32_t peer, void *data, float *scratch, uint64_t n);

static ncclDataType_t type_of(const struct sum *sum)
{
    return sum->meeting->kind == PST_MEET_SUM ? ncclFloat32 : ncclUint8;
}

static void send_piece(struct sum *sum, uint32_t peer, void *data, float *scratch, uint64_t n)
{
    (void)scratch;
    if (sum->result == ncclSuccess) {
        sum->result =
            ncclSend(data, n, type_of(sum), (int)peer, sum->lane->comm, sum->lane->stream);
    }
}

static void recv_piece(struct sum *sum, uint32_t peer, void *data, float *scratch, uint64_t n)
{
    (void)scratch;
    if (sum->result == ncclSuccess) {
        sum->result =
            ncclRecv(data, n, type_of(sum), (int)peer, sum->lane->comm, sum->lane->stream);
    }
}

static void send_scratch(struct sum *sum, uint32_t peer, void *data, float *scratch, uint64_t n)
{
    (void)data;
    send_piece(sum, peer, scratch, NULL, n);
}

static void recv_scratch(struct sum *sum, uint32_t peer, void *data, float *scratch, uint64_t n)
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

static void copy_in(struct sum *sum, uint32_t peer, void *data, float *scratch, uint64_t n)
{
    (void)peer;
    copy(sum, scratch, data, n);
}

static void copy_out(struct sum *sum, uint32_t peer, void *data, float *scratch, uint64_t n)
{
    (void)peer;
    copy(sum, data, scratch, n);
}

/* Both ends of a transfer cut it at the same places: those of the parts. */
static void each_piece(struct sum *sum, uint32_t peer, uint32_t source,
                       struct inorder_cursor cursor, float *scratch, piece_fn *piece)
{
    struct inorder_piece next;

    while (inorder_next_piece(&cursor, &next)) {
        const void *data = source == RESULT ? next.part->dst : inorder_brought(next.part, source);

        piece(sum, peer, (char *)(uintptr_t)data + next.at * sum->size, scratch, next.n);
        scratch = scratch != NULL ? scratch + next.n : NULL;
    }
}

/* --- a round -----------------------------------------------------------------------------------*/

/* Each member gets this rank's terms of its share, and this rank all terms of its own. */
static ncclResult_t exchange_terms(const struct lane *lane, void *of)
{
    struct sum *sum = of;

    (void)lane;
    sum->result = ncclSuccess;
    for (uint32_t m = 0; m < sum->meeting->n_members; m++) {
        for (uint32_t t = 0; m != sum->me && t < sum->n_terms; t++) {
            float *scratch = sum->scratch + t * sum->round.share;

            if (inorder_member(sum->meeting, t) == sum->me) {
                each_piece(sum, sum->meeting->members[m], inorder_source(sum->meeting, t),
                           share_of(sum, m), NULL, send_piece);
            }
            if (inorder_member(sum->meeting, t) == m) {
                each_piece(sum, sum->meeting->members[m], RESULT, share_of(sum, sum->me), scratch,
                           recv_scratch);
            }
        }
    }
    return sum->result;
}

static ncclResult_t exchange_results(const struct lane *lane, void *of)
{
    struct sum *sum = of;
    bool added = sum->n_terms > 0;

    (void)lane;
    sum->result = ncclSuccess;
    for (uint32_t m = 0; m < sum->meeting->n_members; m++) {
        if (m != sum->me) {
            each_piece(sum, sum->meeting->members[m], RESULT, share_of(sum, sum->me),
                       added ? sum->scratch : NULL, added ? send_scratch : send_piece);
            each_piece(sum, sum->meeting->members[m], RESULT, share_of(sum, m), NULL, recv_piece);
        }
    }
    return sum->result;
}

static void add_up(struct sum *sum)
{
    struct inorder_cursor share = share_of(sum, sum->me);

    for (uint32_t t = 0; t < sum->n_terms; t++) {
        if (inorder_member(sum->meeting, t) == sum->me) {
            each_piece(sum, 0, inorder_source(sum->meeting, t), share,
                       sum->scratch + t * sum->round.share, copy_in);
        }
    }
    for (uint32_t t = 1; t < sum->n_terms && sum->error == cudaSuccess; t++) {
        sum->error =
            nccl_add(sum->scratch, sum->scratch + t * sum->round.share, share.n, sum->lane->stream);
    }
    each_piece(sum, 0, RESULT, share, sum->scratch, copy_out);
}

static pst_status run_round(struct sum *sum)
{
    const char *const doing = sum->n_terms > 0 ? "a sum over ranks" : "a gather over ranks";
    pst_status status = PST_OK;

    if (sum->n_terms > 0) {
        status = nccl_group(sum->transport, sum->rank, LANE_SUMS, doing, exchange_terms, sum);
    }
    if (status != PST_OK) {
        return status;
    }
    if (sum->n_terms > 0) {
        add_up(sum);
    }
    if (sum->error != cudaSuccess) { /* before others take it for a sum */
        nccl_fail_cuda(sum->transport, sum->rank, doing, sum->error);
        return PST_ERR_CANCELLED;
    }
    return inorder_tells(sum->meeting, &sum->round)
               ? nccl_group(sum->transport, sum->rank, LANE_SUMS, doing, exchange_results, sum)
               : PST_OK;
}

/* All rounds into the lane. On success its ticket is *ret_ticket. */
static pst_status run(struct sum *sum, uint64_t *ret_ticket)
{
    struct rank *rank = nccl_rank(sum->transport, sum->rank);
    uint64_t room = sum->n_terms > 0
                        ? rank->scratch_elems / sum->n_terms / ALIGN_ELEMS * ALIGN_ELEMS
                        : UINT64_MAX;
    uint32_t peer = sum->meeting->members[sum->me == 0 && sum->meeting->n_members > 1];
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
    while (status == PST_OK && inorder_next_round(sum->meeting, room, ALIGN_ELEMS, &sum->round)) {
        status = run_round(sum);
    }
    return status == PST_OK ? nccl_ticket_launch(sum->transport, sum->rank, LANE_SUMS, ticket)
                            : status;
}

pst_status nccl_meet(struct pst_transport *transport, uint32_t index,
                     const struct pst_meeting *meeting, pst_request *ret_request)
{
    struct sum sum = {.transport = transport, .rank = index, .meeting = meeting};
    struct rank *rank = nccl_rank(transport, index);
    struct request *request = rank != NULL ? (struct request *)rank->free_sums : NULL;
    pst_status status;

    if (atomic_load(&transport->failed)) {
        return PST_ERR_CANCELLED;
    }
    if (request == NULL || !inorder_takes(meeting, index, transport->config.n_ranks, &sum.me) ||
        !inorder_is_f32(meeting) || meeting->kind == PST_MEET_EXCHANGE ||
        meeting->lane != PST_MEET_SUMS || nccl_flush(transport, index, NULL) != PST_OK) {
        return atomic_load(&transport->failed) ? PST_ERR_CANCELLED : PST_ERR_BUG;
    }
    sum.n_terms = inorder_terms(meeting);
    sum.size = pst_meeting_size(meeting);
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
