/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels: every ordered pair of ranks between which something is sent, with its sends and
 * receives in list order. Linear: receives are dealt out by sender first, so that one array of
 * peers, stamped by sender, finds the channel of each transfer.
 */
#include "plan/check/live.h"

#include <string.h>

struct place {
    uint32_t rank, instr;
};

struct peer {
    uint32_t stamp, channel;
};

/* Receives by sender, in order of receiver and list. */
static struct place *deal_receives(const struct pst_live *live, uint64_t **ret_first)
{
    struct pst_check *check = live->check;
    const struct pst_plan *plan = check->plan;
    uint64_t *first = pst_check_array(check, (uint64_t)plan->n_devices + 2, sizeof *first);
    if (first == NULL) {
        return NULL;
    }
    uint64_t n = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = 0; i < plan->devices[d].n_instrs; i++) {
            if (live->ranks[d].ops[i] == PST_I_RECV) {
                first[live->ranks[d].peer[i] + 2]++;
                n++;
            }
        }
    }
    struct place *places = pst_check_array(check, n + 1, sizeof *places);
    if (places == NULL) {
        return NULL;
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        first[d + 2] += first[d + 1];
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = 0; i < plan->devices[d].n_instrs; i++) {
            if (live->ranks[d].ops[i] == PST_I_RECV) {
                places[first[live->ranks[d].peer[i] + 1]++] = (struct place){d, i};
            }
        }
    }
    *ret_first = first;
    return places;
}

static uint32_t channel_to(struct pst_live *live, struct peer *peers, uint32_t from, uint32_t to,
                           uint32_t *n_channels)
{
    if (peers[to].stamp != from + 1) {
        peers[to] = (struct peer){from + 1, *n_channels};
        live->channels[*n_channels].from = from;
        live->channels[(*n_channels)++].to = to;
    }
    return peers[to].channel;
}

/* Numbers channels and the transfers on them. */
static bool number_transfers(struct pst_live *live, uint32_t *ret_n_channels)
{
    struct pst_check *check = live->check;
    uint64_t *first;
    struct place *places = deal_receives(live, &first);
    struct peer *peers = pst_check_array(check, live->plan->n_devices, sizeof *peers);
    if (places == NULL || peers == NULL) {
        return false;
    }
    uint32_t n_channels = 0;
    for (uint32_t from = 0; from < live->plan->n_devices; from++) {
        struct pst_live_rank *sender = &live->ranks[from];
        for (uint32_t i = 0; i < sender->n; i++) {
            if (sender->ops[i] == PST_I_SEND) {
                uint32_t c = channel_to(live, peers, from, sender->peer[i], &n_channels);
                sender->channel[i] = c;
                sender->sequence[i] = live->channels[c].n_sends++;
            }
        }
        for (uint64_t k = first[from]; k < first[from + 1]; k++) {
            struct pst_live_rank *receiver = &live->ranks[places[k].rank];
            uint32_t c = channel_to(live, peers, from, places[k].rank, &n_channels);
            receiver->channel[places[k].instr] = c;
            receiver->sequence[places[k].instr] = live->channels[c].n_recvs++;
        }
    }
    *ret_n_channels = n_channels;
    return true;
}

/* The k-th SEND of a channel goes with its k-th RECV. */
static void pair_ends(struct pst_live *live, const struct pst_live_channel *channel)
{
    const uint32_t *sends = &live->sends[channel->first_send];
    const uint32_t *recvs = &live->recvs[channel->first_recv];
    uint32_t *of_sender = live->ranks[channel->from].partner;
    uint32_t *of_receiver = live->ranks[channel->to].partner;
    for (uint32_t k = 0; k < channel->n_sends || k < channel->n_recvs; k++) {
        if (k < channel->n_sends) {
            of_sender[sends[k]] = k < channel->n_recvs ? recvs[k] : PST_NONE;
        }
        if (k < channel->n_recvs) {
            of_receiver[recvs[k]] = k < channel->n_sends ? sends[k] : PST_NONE;
        }
    }
}

static void fill_channels(struct pst_live *live, uint32_t n_channels)
{
    uint32_t n_sends = 0, n_recvs = 0;
    for (uint32_t c = 0; c < n_channels; c++) {
        live->channels[c].first_send = n_sends;
        live->channels[c].first_recv = n_recvs;
        n_sends += live->channels[c].n_sends;
        n_recvs += live->channels[c].n_recvs;
    }
    for (uint32_t d = 0; d < live->plan->n_devices; d++) {
        const struct pst_live_rank *rank = &live->ranks[d];
        for (uint32_t i = 0; i < rank->n; i++) {
            if (!pst_live_is_transfer(rank->ops[i])) {
                continue;
            }
            const struct pst_live_channel *channel = &live->channels[rank->channel[i]];
            if (rank->ops[i] == PST_I_SEND) {
                live->sends[channel->first_send + rank->sequence[i]] = i;
            } else {
                live->recvs[channel->first_recv + rank->sequence[i]] = i;
            }
        }
    }
    for (uint32_t c = 0; c < n_channels; c++) {
        pair_ends(live, &live->channels[c]);
    }
}

static bool make_ranks(struct pst_live *live)
{
    struct pst_check *check = live->check;
    uint64_t total = check->list_base[live->plan->n_devices];
    uint8_t *ops = pst_check_array(check, total + 1, sizeof *ops);
    uint8_t *open = pst_check_array(check, total + 1, sizeof *open);
    uint32_t *peer = pst_check_array(check, total + 1, sizeof *peer);
    uint32_t *partner = pst_check_array(check, total + 1, sizeof *partner);
    uint32_t *channel = pst_check_array(check, total + 1, sizeof *channel);
    uint32_t *sequence = pst_check_array(check, total + 1, sizeof *sequence);
    live->ranks = pst_check_array(check, live->plan->n_devices, sizeof *live->ranks);
    live->worklist = pst_check_array(check, live->plan->n_devices, sizeof(uint32_t));
    if (check->status != PST_OK) {
        return false;
    }
    for (uint32_t d = 0; d < live->plan->n_devices; d++) {
        live->ranks[d].list = live->plan->devices[d].body;
        live->ranks[d].n = live->plan->devices[d].n_instrs;
        live->ranks[d].ops = &ops[check->list_base[d]];
        live->ranks[d].open = &open[check->list_base[d]];
        live->ranks[d].peer = &peer[check->list_base[d]];
        live->ranks[d].partner = &partner[check->list_base[d]];
        live->ranks[d].channel = &channel[check->list_base[d]];
        live->ranks[d].sequence = &sequence[check->list_base[d]];
        for (uint32_t i = 0; i < live->ranks[d].n; i++) {
            live->ranks[d].ops[i] = live->ranks[d].list[i].op;
            live->ranks[d].peer[i] = live->ranks[d].list[i].peer;
        }
    }
    return true;
}

/* How many ranks meet in each reduction. */
static bool count_members(struct pst_live *live)
{
    const struct pst_plan *plan = live->plan;
    uint64_t n = (uint64_t)plan->n_stages + plan->n_ties + 1;
    live->arrived = pst_check_array(live->check, n, sizeof(uint32_t));
    live->n_members = pst_check_array(live->check, n, sizeof(uint32_t));
    uint32_t *seen = pst_check_array(live->check, plan->n_devices, sizeof *seen);
    if (live->check->status != PST_OK) {
        return false;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        live->n_members[s] = plan->stages[s].n_ranks;
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        for (uint32_t i = 0; i < plan->ties[t].n_stages; i++) {
            const struct pst_plan_stage *stage = &plan->stages[plan->ties[t].stages[i]];
            for (uint32_t r = 0; r < stage->n_ranks; r++) {
                live->n_members[plan->n_stages + t] += seen[stage->ranks[r]] != t + 1;
                seen[stage->ranks[r]] = t + 1;
            }
        }
    }
    live->n_members[n - 1] = plan->n_devices;
    return true;
}

bool pst_live_prepare(struct pst_live *live, struct pst_check *check)
{
    live->check = check;
    live->plan = check->plan;
    live->async_reductions = check->limits->async_reductions;
    uint64_t total = check->list_base[live->plan->n_devices];
    uint32_t n_channels = 0;
    uint64_t pairs = (uint64_t)live->plan->n_devices * live->plan->n_devices;
    live->channels =
        pst_check_array(check, (pairs < total ? pairs : total) + 1, sizeof *live->channels);
    live->sends = pst_check_array(check, total + 1, sizeof(uint32_t));
    live->recvs = pst_check_array(check, total + 1, sizeof(uint32_t));
    if (check->status != PST_OK || !make_ranks(live) || !count_members(live) ||
        !number_transfers(live, &n_channels)) {
        return false;
    }
    fill_channels(live, n_channels);
    return true;
}
