/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels: every ordered pair of ranks between which something is sent. Linear: receives are dealt
 * out by sender first, so that one array of peers, stamped by sender, finds those of each channel.
 */
#include "prove/deadlock.h"

/* The receives of a rank from the sender that is looked at. */
struct peer {
    uint32_t stamp;
    uint32_t first, next, end; /* rows; the next SEND goes with `next` */
};

/* Rows by sender, in order of receiver and list: those from rank d are [first[d], first[d + 1]). */
static uint64_t *deal_receives(struct pst_live *live)
{
    struct pst_check *check = live->check;
    uint32_t n_ranks = live->plan->n_devices;
    uint64_t *first = pst_check_array(check, (uint64_t)n_ranks + 2, sizeof *first);
    for (uint32_t d = 0; d < n_ranks; d++) {
        const struct pst_live_rank *rank = &live->ranks[d];
        for (uint32_t i = 0; i < rank->n; i++) {
            if (rank->list[i].op == PST_I_RECV) {
                first[rank->list[i].peer + 2]++;
                live->n_recvs++;
            }
        }
    }
    live->recvs = pst_check_array(check, (uint64_t)live->n_recvs + 1, sizeof *live->recvs);
    for (uint32_t d = 0; d < n_ranks; d++) {
        first[d + 2] += first[d + 1];
    }
    for (uint32_t d = 0; d < n_ranks; d++) {
        const struct pst_live_rank *rank = &live->ranks[d];
        for (uint32_t i = 0; i < rank->n; i++) {
            if (rank->list[i].op == PST_I_RECV) {
                live->recvs[first[rank->list[i].peer + 1]++] = (struct pst_live_recv){d, i};
            }
        }
    }
    return first;
}

static struct peer *peer_of(struct peer *peers, uint32_t rank, uint32_t from, uint32_t row)
{
    if (peers[rank].stamp != from + 1) {
        peers[rank] = (struct peer){from + 1, row, row, row};
    }
    return &peers[rank];
}

/* The k-th SEND of a channel goes with its k-th RECV. */
static void pair_ends(struct pst_live *live)
{
    uint64_t *first = deal_receives(live);
    struct peer *peers = pst_check_array(live->check, live->plan->n_devices, sizeof *peers);
    for (uint32_t from = 0; from < live->plan->n_devices; from++) {
        struct pst_live_rank *sender = &live->ranks[from];
        for (uint32_t row = (uint32_t)first[from]; row < first[from + 1]; row++) {
            const struct pst_live_recv *recv = &live->recvs[row];
            peer_of(peers, recv->rank, from, row)->end = row + 1;
            live->ranks[recv->rank].partner[recv->instr] = PST_NONE;
        }
        for (uint32_t i = 0; i < sender->n; i++) {
            if (sender->list[i].op != PST_I_SEND) {
                continue;
            }
            struct peer *peer = peer_of(peers, sender->list[i].peer, from, live->n_recvs);
            uint32_t row = peer->next++;
            sender->row[i] = row;
            sender->sequence[i] = row - peer->first;
            sender->partner[i] = PST_NONE;
            if (row < peer->end) {
                sender->partner[i] = live->recvs[row].instr;
                live->ranks[sender->list[i].peer].partner[live->recvs[row].instr] = i;
            }
        }
    }
}

static void make_ranks(struct pst_live *live)
{
    struct pst_check *check = live->check;
    live->ranks = pst_check_array(check, live->plan->n_devices, sizeof *live->ranks);
    live->worklist = pst_check_array(check, live->plan->n_devices, sizeof(uint32_t));
    for (uint32_t d = 0; d < live->plan->n_devices; d++) {
        struct pst_live_rank *rank = &live->ranks[d];
        rank->list = live->plan->devices[d].body;
        rank->n = live->plan->devices[d].n_instrs;
        rank->open = pst_check_array(check, rank->n, sizeof *rank->open);
        rank->partner = pst_check_array(check, rank->n, sizeof *rank->partner);
        rank->sequence = pst_check_array(check, rank->n, sizeof *rank->sequence);
        rank->row = pst_check_array(check, rank->n, sizeof *rank->row);
    }
}

/* Numbers of sums of a tie: one for each part, or for each part of each piece, and more where
   others have more parts. */
static uint32_t sums_of(const struct pst_live *live, uint32_t tie)
{
    return live->tie_first[tie + 1] - live->tie_first[tie];
}

static bool tie_is_cut(const struct pst_live *live, uint32_t tie)
{
    return sums_of(live, tie) > live->n_parts;
}

uint32_t pst_live_meeting_of(const struct pst_live *live, const struct pst_instr *instr,
                             uint32_t rank)
{
    const struct pst_plan *plan = live->plan;
    const uint32_t n_parts = live->n_parts;
    const uint32_t part = pst_check_part(live->check, rank);
    if (instr->op == PST_I_MERGE) {
        const uint32_t replica = pst_plan_replica(&plan->stages[instr->stage], rank);
        return live->merge_first[instr->stage] + (replica != PST_NONE ? replica : 0);
    }
    if (instr->op != PST_I_TIE) {
        return instr->op == PST_I_NORM     ? live->tie_first[plan->n_ties]
               : instr->op == PST_I_GATHER ? (plan->n_stages + instr->stage) * n_parts + part
                                           : instr->stage * n_parts + part;
    }
    const struct pst_plan_tie *tie = &plan->ties[instr->stage];
    for (uint32_t s = 0; tie_is_cut(live, instr->stage) && s < tie->n_stages; s++) {
        uint32_t place = pst_plan_place(&plan->stages[tie->stages[s]], rank);
        if (place != PST_NONE) {
            return live->tie_first[instr->stage] + place;
        }
    }
    return live->tie_first[instr->stage] + part;
}

/* The ranks with this part of all stages of a tie, or those that have one piece. */
static void find_members(struct pst_live *live, uint32_t tie, uint32_t number, uint32_t *seen)
{
    const struct pst_plan_tie *members = &live->plan->ties[tie];
    uint32_t id = live->tie_first[tie] + number;
    bool cut = tie_is_cut(live, tie);
    uint32_t *ranks = pst_check_array(live->check, cut ? members->n_stages : live->plan->n_devices,
                                      sizeof *ranks);
    for (uint32_t i = 0; i < members->n_stages; i++) {
        const struct pst_plan_stage *stage = &live->plan->stages[members->stages[i]];
        uint32_t end = number >= (cut ? stage->n_ranks : stage->tensor) ? 0
                       : cut                                            ? number + 1
                                                                        : stage->n_ranks;
        for (uint32_t r = number; r < end; r += stage->tensor) {
            if (seen[stage->ranks[r]] != id) {
                ranks[live->meetings[id].n++] = stage->ranks[r];
            }
            seen[stage->ranks[r]] = id;
        }
    }
    live->meetings[id].ranks = ranks;
}

/* The replicas of a stage, part by part. */
static void make_stage(struct pst_live *live, uint32_t s)
{
    const struct pst_plan_stage *stage = &live->plan->stages[s];
    const uint32_t n = pst_plan_replicas(stage);
    for (uint32_t part = 0; part < stage->tensor; part++) {
        uint32_t *ranks = pst_check_array(live->check, n, sizeof *ranks);
        for (uint32_t r = 0; r < n; r++) {
            ranks[r] = stage->ranks[r * stage->tensor + part];
        }
        live->meetings[s * live->n_parts + part] =
            live->meetings[(live->plan->n_stages + s) * live->n_parts + part] =
                (struct pst_live_meeting){ranks, n, 0};
    }
    for (uint32_t r = 0; r < n; r++) { /* MERGE: the parts of each replica */
        live->meetings[live->merge_first[s] + r] =
            (struct pst_live_meeting){&stage->ranks[r * stage->tensor], stage->tensor, 0};
    }
}

/* Who meets in each reduction. seen: [rank] the last meeting of a tie that it is of. */
static void make_meetings(struct pst_live *live)
{
    const struct pst_plan *plan = live->plan;
    uint32_t *all = pst_check_array(live->check, plan->n_devices, sizeof *all);
    uint32_t *seen = pst_check_array(live->check, plan->n_devices, sizeof *seen);
    live->tie_first = pst_check_array(live->check, (uint64_t)plan->n_ties + 1, sizeof(uint32_t));
    live->tie_first[0] = 2 * plan->n_stages * live->n_parts;
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        bool cut = pst_check_cuts_tie(plan, t);
        live->tie_first[t + 1] =
            live->tie_first[t] +
            (cut ? pst_plan_replicas(&plan->stages[plan->ties[t].stages[0]]) : 1) * live->n_parts;
    }
    live->n_meetings = live->tie_first[plan->n_ties] + 1;
    live->merge_first = pst_check_array(live->check, plan->n_stages, sizeof(uint32_t));
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        live->merge_first[s] = live->n_meetings;
        live->n_meetings += pst_plan_replicas(&plan->stages[s]);
    }
    live->meetings = pst_check_array(live->check, live->n_meetings, sizeof *live->meetings);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        make_stage(live, s);
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        for (uint32_t m = 0; m < sums_of(live, t); m++) {
            find_members(live, t, m, seen);
        }
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        all[d] = d;
    }
    live->meetings[live->tie_first[plan->n_ties]] =
        (struct pst_live_meeting){all, plan->n_devices, 0};
}

void pst_live_prepare(struct pst_live *live, struct pst_check *check)
{
    live->check = check;
    live->plan = check->plan;
    live->n_parts = pst_check_tensor(check);
    live->async_reductions = check->limits->async_reductions;
    make_ranks(live);
    make_meetings(live);
    pair_ends(live);
}
