/* SPDX-License-Identifier: Apache-2.0
 *
 * Guests: a micro-batch leaves behind its F, beside the next pass, and comes back beside the pass
 * before its backward pass, so that its bytes are away in all passes between. Both ways are
 * transfers like others, in the one order of all transfers, which therefore makes no cycle.
 */
#include "plan/lower.h"

uint32_t pst_lowering_running_at(const struct pst_lowering *low, uint32_t rank, uint64_t time)
{
    uint32_t lo = 0, hi = low->n_passes[rank];

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (low->end_ns[rank][mid] > time) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return lo;
}

/* The passes of a micro-batch in the order of its rank. */
static uint32_t forward_at(const struct pst_lowering *low, uint32_t s, uint32_t microbatch)
{
    return low->at[PST_PASS_F][low->base[s] + microbatch];
}

static uint32_t backward_at(const struct pst_lowering *low, uint32_t s, uint32_t microbatch)
{
    return pst_lowering_backward(low, low->base[s] + microbatch);
}

static pst_status possible(const struct pst_lowering *low, uint32_t s,
                           const struct pst_plan_guest *guest, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &low->plan->stages[s];
    uint32_t forward, backward, own;

    if (guest->microbatch >= stage->n_microbatches || guest->rank >= low->plan->n_devices ||
        pst_lowering_holds(low, guest->rank, s) ||
        pst_plan_guest_rank(low->plan, stage, guest, 0) == PST_NONE) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "micro-batch %u of stage %u cannot be a guest of device %u, which must be "
                        "another one with as many replicas",
                        guest->microbatch, s, guest->rank);
    }
    forward = forward_at(low, s, guest->microbatch);
    backward = backward_at(low, s, guest->microbatch);
    own = stage->ranks[0];
    if (backward < forward + 3 || low->end_ns[own][backward - 2] >= low->end_ns[own][backward]) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "micro-batch %u of stage %u has no time to be a guest elsewhere: its "
                        "backward pass must come three passes or more behind its forward pass",
                        guest->microbatch, s);
    }
    return PST_OK;
}

pst_status pst_lowering_guests_possible(struct pst_lowering *low, struct pst_error *err)
{
    pst_status st = PST_OK;

    low->guest_bytes = pst_arena_array(&low->arena, low->plan->n_stages, sizeof *low->guest_bytes);
    if (low->guest_bytes == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < low->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &low->plan->stages[s];
        uint32_t *tensors, n;

        if (stage->n_guests > 0) {
            if (!pst_plan_guest_tensors(stage, low->graph, &low->arena, &tensors, &n)) {
                return pst_fail_nomem(err);
            }
            low->guest_bytes[s] = pst_plan_guest_bytes(stage, low->graph, tensors, n);
        }
        for (uint32_t i = 0; st == PST_OK && low->training && i < stage->n_guests; i++) {
            st = possible(low, s, &stage->guests[i], err);
        }
    }
    return st;
}

pst_status pst_lowering_no_guests(const struct pst_plan *plan, struct pst_error *err)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            if (plan->stages[s].actions[i] == PST_ACTION_PEER) {
                return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                                "stage %u is to leave bytes to other devices in an asynchronous "
                                "schedule; this version keeps, recomputes or offloads there",
                                s);
            }
        }
    }
    return PST_OK;
}

static uint64_t leaves_ns(const struct pst_lowering *low, uint32_t own, uint32_t forward,
                          uint32_t other, uint64_t bytes)
{
    uint64_t leave_ns = low->end_ns[own][forward];
    uint32_t running = pst_lowering_running_at(low, other, leave_ns);

    return pst_plan_guest_leaves(leave_ns, low->end_ns[own][forward + 1],
                                 running < low->n_passes[other] ? low->end_ns[other][running]
                                                                : leave_ns,
                                 pst_cost_transfer_ns(low->cost, bytes, own, other));
}

/* Of one replica of a stage, each of whose guests has so many bytes. */
static void add_pair(struct pst_lowering *low, uint32_t s, const struct pst_plan_guest *guest,
                     uint32_t replica, uint64_t bytes)
{
    const struct pst_plan_stage *stage = &low->plan->stages[s];
    uint32_t own = stage->ranks[replica];
    uint32_t other = pst_plan_guest_rank(low->plan, stage, guest, replica);
    uint32_t forward = forward_at(low, s, guest->microbatch);
    uint32_t backward = backward_at(low, s, guest->microbatch);
    struct pst_transfer *rows = &low->transfers[low->n_transfers];

    rows[0] = (struct pst_transfer){.time_ns = leaves_ns(low, own, forward, other, bytes),
                                    .from_rank = own,
                                    .from_pass = forward,
                                    .to_rank = other,
                                    .to_pass = PST_NONE,
                                    .edge = s,
                                    .first_sample =
                                        pst_plan_first_sample(stage, replica, guest->microbatch),
                                    .n_samples = pst_plan_samples(stage),
                                    .guest = low->n_guests,
                                    .payload = PST_PAYLOAD_EVICT};
    rows[1] = rows[0];
    rows[1].time_ns = low->end_ns[own][backward - 2];
    rows[1].from_rank = other;
    rows[1].from_pass = PST_NONE;
    rows[1].to_rank = own;
    rows[1].to_pass = backward;
    rows[1].payload = PST_PAYLOAD_LOAD;
}

void pst_lowering_add_guests(struct pst_lowering *low, bool count_only)
{
    low->n_guests = 0;
    for (uint32_t s = 0; s < low->plan->n_stages && low->training; s++) {
        const struct pst_plan_stage *stage = &low->plan->stages[s];

        for (uint32_t i = 0; i < stage->n_guests; i++) {
            for (uint32_t r = 0; r < stage->n_ranks; r++) {
                if (!count_only) {
                    add_pair(low, s, &stage->guests[i], r, low->guest_bytes[s]);
                }
                low->n_transfers += 2;
                low->n_guests++;
            }
        }
    }
}

bool pst_lowering_index_guests(struct pst_lowering *low)
{
    low->evict_at = pst_arena_array(&low->arena, (size_t)low->n_guests + 1, sizeof *low->evict_at);
    for (uint32_t i = 0; low->evict_at != NULL && i < low->n_transfers; i++) {
        if (low->transfers[i].payload == PST_PAYLOAD_EVICT) {
            low->evict_at[low->transfers[i].guest] = i;
        }
    }
    return low->evict_at != NULL;
}

/* The next RECV of a guest's bytes on the rank that stands before pass `gap`: it comes before the
   pass and may take the place of what has left. */
static uint32_t next_arrival(const struct pst_lowering *low, uint32_t rank, uint32_t i,
                             uint32_t gap)
{
    for (i++; i < low->n_transfers; i++) {
        const struct pst_transfer *t = &low->transfers[i];

        if (t->to_rank == rank ? t->recv_gap > gap : t->from_rank == rank && t->send_gap > gap) {
            return PST_NONE;
        }
        if (t->to_rank == rank && t->payload >= PST_PAYLOAD_EVICT && t->recv_gap == gap) {
            return i;
        }
    }
    return PST_NONE;
}

/* A SEND has run beside the pass that stands behind it: the next one waits for it, and so does what
   comes in before that. */
static void join_send(const struct pst_lowering *low, uint32_t rank, uint32_t i,
                      const uint32_t *pass_at, const uint32_t *transfer_at, uint32_t norm,
                      struct pst_wait_pair *pairs, uint32_t *n)
{
    uint32_t n_passes = low->n_passes[rank], gap = low->transfers[i].send_gap;
    uint32_t join = gap < n_passes ? gap + 1 : n_passes;
    uint32_t arrival = next_arrival(low, rank, i, join);

    if (arrival != PST_NONE) {
        pairs[(*n)++] = (struct pst_wait_pair){transfer_at[arrival], transfer_at[i]};
    }
    if (join < n_passes) {
        pairs[(*n)++] = (struct pst_wait_pair){pass_at[join], transfer_at[i]};
    } else if (norm != PST_NONE) {
        pairs[(*n)++] = (struct pst_wait_pair){norm, transfer_at[i]};
    }
}

void pst_lowering_guest_waits(const struct pst_lowering *low, uint32_t rank, uint32_t i,
                              const uint32_t *pass_at, const uint32_t *transfer_at, uint32_t norm,
                              struct pst_wait_pair *pairs, uint32_t *n)
{
    const struct pst_transfer *t = &low->transfers[i];
    bool evict = t->payload == PST_PAYLOAD_EVICT;

    if (t->from_rank == rank) {
        uint32_t source = evict ? pass_at[t->from_pass] : transfer_at[low->evict_at[t->guest]];

        pairs[(*n)++] = (struct pst_wait_pair){transfer_at[i], source};
        join_send(low, rank, i, pass_at, transfer_at, norm, pairs, n);
    } else if (t->to_rank == rank && !evict) {
        pairs[(*n)++] = (struct pst_wait_pair){pass_at[t->to_pass], transfer_at[i]};
    }
}
