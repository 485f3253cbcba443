/* SPDX-License-Identifier: Apache-2.0
 *
 * PASS3, COMM1, COMM2: what crosses a stage boundary. Both stages cut the samples of a step into
 * slices, one for each micro-batch and replica; where two slices overlap, those samples go from one
 * to the other, to each part of the receiver: through the memory of a rank that holds both, else by
 * one SEND and one RECV. It comes from the same part, or where the two have different numbers of
 * parts, each of which has all of it, from the part that is as far along among them.
 */
#include "prove/internal.h"

#include <string.h>

#include "base/util.h"

struct end {
    uint32_t stage, microbatch, place, rank;
};

struct overlap {
    uint32_t first, n;
    struct end from, to; /* along what moves */
};

/* How many parts receive each overlap of an edge. */
static uint32_t n_receivers(const struct pst_check *check, uint32_t e, bool act)
{
    const struct pst_plan_edge *edge = &check->plan->edges[e];
    return check->plan->stages[act ? edge->to : edge->from].tensor;
}

/* How many overlaps of the edge begin at samples 1 ... sample. */
static uint64_t overlap_index(const struct pst_check_cut *cut, uint32_t sample)
{
    if (cut->a == cut->b) {
        return sample / cut->a;
    }
    return (uint64_t)(sample / cut->a) + sample / cut->b - sample / cut->both;
}

/* slice: its number in the step, over all replicas. */
static struct end transfer_end(const struct pst_check *check, uint32_t stage, uint32_t slice,
                               uint32_t part)
{
    const struct pst_plan_stage *s = &check->plan->stages[stage];
    const uint32_t n = pst_plan_replicas(s);
    uint32_t place = (n == 1 ? 0 : slice % n) * s->tensor + part;
    return (struct end){stage, n == 1 ? slice : slice / n, place, s->ranks[place]};
}

/* Returns the samples that a part receives of the overlap that begins at `first`, or holds it. */
static struct overlap overlap_at(const struct pst_check *check, uint32_t e, bool act,
                                 uint32_t first, uint32_t part)
{
    const struct pst_plan_edge *edge = &check->plan->edges[e];
    const struct pst_check_cut *cut = &check->cuts[e];
    uint32_t slice_a = first / cut->a, slice_b = cut->b == cut->a ? slice_a : first / cut->b;
    uint64_t end_a = (slice_a + 1ull) * cut->a, end_b = (slice_b + 1ull) * cut->b;
    uint32_t sender = part * n_receivers(check, e, !act) / n_receivers(check, e, act);
    struct end a = transfer_end(check, edge->from, slice_a, act ? sender : part);
    struct end b = transfer_end(check, edge->to, slice_b, act ? part : sender);
    return (struct overlap){first, (uint32_t)((end_a < end_b ? end_a : end_b) - first), act ? a : b,
                            act ? b : a};
}

static void make_cut(const struct pst_check *check, const struct pst_plan_edge *edge,
                     struct pst_check_cut *cut)
{
    cut->a = pst_plan_samples(&check->plan->stages[edge->from]);
    cut->b = pst_plan_samples(&check->plan->stages[edge->to]);
    cut->both = cut->a / pst_gcd(cut->a, cut->b) * cut->b;
    cut->n_overlaps = overlap_index(cut, check->plan->batch);
}

static void make_table(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    check->edge_base = pst_check_array(check, (uint64_t)plan->n_edges + 1, sizeof(uint64_t));
    check->edge_grad = pst_check_array(check, (uint64_t)plan->n_edges + 1, sizeof(bool));
    check->cuts = pst_check_array(check, (uint64_t)plan->n_edges + 1, sizeof *check->cuts);
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        for (uint32_t i = 0; i < edge->n_tensors && !check->limits->forward_only; i++) {
            check->edge_grad[e] |= check->graph->tensors[edge->tensors[i]].needs_grad;
        }
        make_cut(check, edge, &check->cuts[e]);
        check->edge_base[e + 1] =
            check->edge_base[e] + check->cuts[e].n_overlaps *
                                      (n_receivers(check, e, true) + n_receivers(check, e, false));
    }
    uint64_t n = check->edge_base[plan->n_edges];
    check->transfers = pst_check_array(check, n + 1, sizeof *check->transfers);
    memset(check->transfers, 0xFF, n * sizeof *check->transfers);
}

/* The part that receives; 0 where that rank does not hold the stage. */
static uint32_t receiver_of(const struct pst_check *check, uint32_t rank,
                            const struct pst_instr *instr)
{
    const struct pst_plan_edge *edge = &check->plan->edges[instr->stage];
    const struct pst_plan_stage *stage =
        &check->plan->stages[instr->payload == PST_PAYLOAD_ACT ? edge->to : edge->from];
    uint32_t receiver = instr->op == PST_I_SEND ? instr->peer : rank;
    uint32_t place = stage->tensor > 1 ? pst_plan_place(stage, receiver) : 0;
    return place != PST_NONE ? place % stage->tensor : 0;
}

static uint64_t transfer_index(const struct pst_check *check, uint32_t rank,
                               const struct pst_instr *instr)
{
    const struct pst_check_cut *cut = &check->cuts[instr->stage];
    bool act = instr->payload == PST_PAYLOAD_ACT;
    uint64_t before = act ? 0 : cut->n_overlaps * n_receivers(check, instr->stage, true);
    return check->edge_base[instr->stage] + before +
           overlap_index(cut, instr->first_sample) * n_receivers(check, instr->stage, act) +
           receiver_of(check, rank, instr);
}

/* COMM1: is this transfer one that the plan needs at this end? Then where it goes in the table. */
static struct pst_check_transfer *expect_transfer(struct pst_check *check, uint32_t rank,
                                                  uint32_t at, const struct pst_instr *instr)
{
    if (instr->first_sample >= check->plan->batch ||
        instr->n_samples > check->plan->batch - instr->first_sample) {
        pst_check_instr(check, "COMM1", rank, at, ": of a batch that is never closed");
        return NULL;
    }
    if (pst_instr_moves_guest(instr)) {
        return pst_check_guest_transfer(check, rank, at, instr);
    }
    const struct pst_check_cut *cut = &check->cuts[instr->stage];
    bool act = instr->payload == PST_PAYLOAD_ACT, send = instr->op == PST_I_SEND;
    struct overlap overlap =
        overlap_at(check, instr->stage, act, instr->first_sample, receiver_of(check, rank, instr));
    const struct end *self = send ? &overlap.from : &overlap.to;
    const struct end *peer = send ? &overlap.to : &overlap.from;
    bool starts = instr->first_sample % cut->a == 0 || instr->first_sample % cut->b == 0;
    if ((act || check->edge_grad[instr->stage]) && starts && instr->n_samples == overlap.n &&
        self->rank == rank && peer->rank == instr->peer && self->rank != peer->rank) {
        return &check->transfers[transfer_index(check, rank, instr)];
    }
    if (!act && !check->edge_grad[instr->stage]) {
        pst_check_instr(check, "COMM1", rank, at, ": no gradient flows back on this edge");
    } else if (!starts || instr->n_samples != overlap.n) {
        pst_check_instr(check, "COMM1", rank, at,
                        ": samples %u+%u; the micro-batches of both ends meet in %u samples%s",
                        instr->first_sample, instr->n_samples, overlap.n,
                        starts ? "" : " from an earlier one on");
    } else {
        pst_check_instr(check, "COMM1", rank, at, ": expected device %u to %s device %u%s",
                        self->rank, send ? "send to" : "receive from", peer->rank,
                        self->rank == peer->rank ? ", where nothing is sent" : "");
    }
    return NULL;
}

/* All counts 0 again, in time linear in the list. */
static void forget_counts(const struct pst_plan_device *device, uint32_t *sends, uint32_t *recvs)
{
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        if (device->body[i].op == PST_I_SEND || device->body[i].op == PST_I_RECV) {
            sends[device->body[i].peer] = recvs[device->body[i].peer] = 0;
        }
    }
}

/* Enters every SEND and RECV; counts: [peer] how many there were on that channel, all 0. */
static void read_list(struct pst_check *check, uint32_t rank, uint32_t *sends, uint32_t *recvs)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        if (instr->op != PST_I_SEND && instr->op != PST_I_RECV) {
            continue;
        }
        bool send = instr->op == PST_I_SEND;
        uint32_t sequence = (send ? sends : recvs)[instr->peer]++;
        struct pst_check_transfer *transfer = expect_transfer(check, rank, i, instr);
        if (transfer == NULL) {
            continue;
        }
        uint32_t *place = send ? &transfer->send : &transfer->recv;
        if (*place != PST_NONE) {
            pst_check_instr(check, "COMM1", rank, i, " is there twice, first at %u", *place);
            continue;
        }
        *place = i;
        *(send ? &transfer->send_seq : &transfer->recv_seq) = sequence;
    }
    forget_counts(device, sends, recvs);
}

/* One direction of an overlap: from the pass that makes the rows to the pass that reads them. */
struct flow {
    const struct end *from, *to;
    uint32_t producer, consumer; /* in the lists of their ranks; may be PST_NONE */
    uint32_t edge, first, n;
    const char *payload;
};

static void check_local(struct pst_check *check, const struct flow *flow)
{
    if (flow->producer != PST_NONE && flow->consumer != PST_NONE &&
        flow->producer > flow->consumer) {
        pst_check_add(check, "PASS3", flow->to->rank, flow->consumer,
                      "stage %u, micro-batch %u reads %s of stage %u, micro-batch %u, which comes "
                      "later, at %u",
                      flow->to->stage, flow->to->microbatch, flow->payload, flow->from->stage,
                      flow->from->microbatch, flow->producer);
    }
}

static void check_remote(struct pst_check *check, const struct flow *flow,
                         const struct pst_check_transfer *transfer)
{
    if (transfer->send == PST_NONE || transfer->recv == PST_NONE) {
        bool send = transfer->send == PST_NONE;
        pst_check_add(check, "COMM1", send ? flow->from->rank : flow->to->rank, PST_NONE,
                      "no %s of edge %u, %s %u+%u, %s device %u", send ? "SEND" : "RECV",
                      flow->edge, flow->payload, flow->first, flow->n, send ? "to" : "from",
                      send ? flow->to->rank : flow->from->rank);
    }
    if (transfer->send != PST_NONE && flow->producer != PST_NONE &&
        transfer->send < flow->producer) {
        pst_check_add(check, "PASS3", flow->from->rank, transfer->send,
                      "SEND of edge %u, %s %u+%u, before the pass at %u that makes them",
                      flow->edge, flow->payload, flow->first, flow->n, flow->producer);
    }
    if (transfer->recv != PST_NONE && flow->consumer != PST_NONE) {
        uint32_t known = check->known[check->list_base[flow->to->rank] + transfer->recv];
        if (transfer->recv > flow->consumer || known == PST_NONE || known > flow->consumer) {
            pst_check_add(check, "PASS3", flow->to->rank, flow->consumer,
                          "stage %u, micro-batch %u does not wait for the RECV at %u of edge %u, "
                          "%s %u+%u",
                          flow->to->stage, flow->to->microbatch, transfer->recv, flow->edge,
                          flow->payload, flow->first, flow->n);
        }
    }
    if (transfer->send != PST_NONE && transfer->recv != PST_NONE &&
        transfer->send_seq != transfer->recv_seq) {
        pst_check_add(check, "COMM2", flow->to->rank, transfer->recv,
                      "received as number %u of the channel from device %u, sent as number %u "
                      "(there at %u)",
                      transfer->recv_seq, flow->from->rank, transfer->send_seq, transfer->send);
    }
}

static void check_flow(struct pst_check *check, const struct flow *flow,
                       const struct pst_check_transfer *transfer)
{
    if (flow->from->rank == flow->to->rank) {
        check_local(check, flow);
    } else {
        check_remote(check, flow, transfer);
    }
}

static void check_overlap(struct pst_check *check, uint32_t e, bool act, const struct overlap *o,
                          const struct pst_check_transfer *transfer)
{
    const struct pst_pass_row *from =
        pst_check_row(check, o->from.stage, o->from.microbatch, o->from.place);
    const struct pst_pass_row *to =
        pst_check_row(check, o->to.stage, o->to.microbatch, o->to.place);
    const struct flow flow = {
        &o->from, &o->to, act ? from->f : from->b,          act ? to->f : to->b, e,
        o->first, o->n,   act ? "activations" : "gradients"};
    if (act || check->edge_grad[e]) {
        check_flow(check, &flow, transfer);
    }
}

/* Returns how many samples it has, from the first on. */
static uint32_t check_receivers(struct pst_check *check, uint32_t e, bool act, uint32_t first,
                                const struct pst_check_transfer **transfers)
{
    struct overlap o = {0};
    for (uint32_t part = 0; part < n_receivers(check, e, act); part++) {
        o = overlap_at(check, e, act, first, part);
        check_overlap(check, e, act, &o, (*transfers)++);
    }
    return o.n;
}

static void check_edge(struct pst_check *check, uint32_t e)
{
    const struct pst_check_transfer *act = &check->transfers[check->edge_base[e]];
    const struct pst_check_transfer *grad =
        act + check->cuts[e].n_overlaps * n_receivers(check, e, true);
    for (uint32_t first = 0; first < check->plan->batch;) {
        check_receivers(check, e, true, first, &act);
        first += check_receivers(check, e, false, first, &grad);
    }
}

void pst_check_transfers(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint32_t *sends = pst_check_array(check, plan->n_devices, sizeof *sends);
    uint32_t *recvs = pst_check_array(check, plan->n_devices, sizeof *recvs);
    make_table(check);
    pst_check_guest_table(check);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        read_list(check, d, sends, recvs);
    }
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        check_edge(check, e);
    }
    pst_check_guests(check);
}

/* The transfer of a SEND or RECV that the rules have passed. */
static const struct pst_check_transfer *transfer_of(const struct pst_check *check, uint32_t rank,
                                                    const struct pst_instr *instr)
{
    if (!pst_instr_moves_guest(instr)) {
        return &check->transfers[transfer_index(check, rank, instr)];
    }
    return pst_check_guest_of(check, rank, instr);
}

/* COMM1 on buffers: both ends of every transfer list the same pieces. The table is filled. */
void pst_check_pieces(struct pst_check *check, const struct pst_check_moved *ranks)
{
    for (uint32_t d = 0; d < check->plan->n_devices; d++) {
        const struct pst_plan_device *device = &check->plan->devices[d];
        for (uint32_t i = 0; i < device->n_instrs; i++) {
            const struct pst_instr *instr = &device->body[i];
            if (instr->op != PST_I_SEND) {
                continue;
            }
            uint32_t recv = transfer_of(check, d, instr)->recv;
            const struct pst_check_moved *a = &ranks[d], *b = &ranks[instr->peer];
            uint32_t sent = a->first[i + 1] - a->first[i];
            uint32_t received = b->first[recv + 1] - b->first[recv];
            if (sent != received || sent == 0 ||
                memcmp(&a->bytes[a->first[i]], &b->bytes[b->first[recv]],
                       sent * sizeof *a->bytes) != 0) {
                pst_check_add(check, "COMM1", d, i,
                              "%u pieces are sent, device %u receives %u at %u, or their bytes "
                              "differ",
                              sent, instr->peer, received, recv);
            }
        }
    }
}
