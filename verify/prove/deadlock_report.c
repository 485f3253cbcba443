/* SPDX-License-Identifier: Apache-2.0
 *
 * LIVE4: where a run stopped. A blocked queue waits for one other queue (or for something that no
 * list holds), so following the first of them leads into a cycle, if there is one.
 */
#include "prove/deadlock.h"

#include <stdio.h>

static const char *const kind_names[PST_LIVE_QUEUES] = {"list", "sends", "receives", "reductions"};

struct node {
    uint32_t rank;
    enum pst_live_queue kind;
};

struct reporter {
    struct pst_live *live;
    uint32_t *missing; /* [reduction] a rank that has not come, plus 1; 0: not looked up */
};

#define NOWHERE ((struct node){PST_NONE, PST_LIVE_LIST})

/* Where the queue stands; PST_NONE where it has nothing to do. Ordered: SENDs and RECVs are one
   queue. */
static uint32_t head_of(const struct reporter *reporter, struct node node)
{
    struct pst_live_rank *rank = &reporter->live->ranks[node.rank];
    if (node.kind == PST_LIVE_LIST) {
        return rank->pc < rank->n ? rank->pc : PST_NONE;
    }
    if (node.kind == PST_LIVE_SUMS || !reporter->live->ordered) {
        return pst_live_head(rank, node.kind);
    }
    for (uint32_t i = rank->group; node.kind == PST_LIVE_SENDS && i < rank->group_end; i++) {
        if (rank->open[i] != 0) {
            return i < rank->pc ? i : PST_NONE;
        }
    }
    return PST_NONE;
}

static struct node queue_of(const struct reporter *reporter, uint32_t rank, uint32_t op)
{
    enum pst_live_queue kind = pst_live_queue_of(op);
    return (struct node){rank, kind == PST_LIVE_SUMS ? kind
                               : kind == PST_LIVE_RECVS && !reporter->live->ordered
                                   ? kind
                                   : PST_LIVE_SENDS};
}

static bool is_here(const struct pst_live *live, uint32_t rank, uint32_t id)
{
    struct pst_live_rank *self = &live->ranks[rank];
    uint32_t at = pst_live_head(self, PST_LIVE_SUMS);
    return self->arrived && at != PST_NONE &&
           pst_live_meeting_of(live, &self->list[at], rank) == id;
}

/* A member that has not come to the meeting. */
static uint32_t find_missing(const struct pst_live *live, uint32_t id)
{
    const struct pst_live_meeting *meeting = &live->meetings[id];
    uint32_t i = 0;
    while (i < meeting->n && is_here(live, meeting->ranks[i], id)) {
        i++;
    }
    return i < meeting->n ? meeting->ranks[i] : PST_NONE;
}

static struct node next_of_reduction(struct reporter *reporter, const struct pst_instr *instr,
                                     uint32_t rank)
{
    struct pst_live *live = reporter->live;
    uint32_t id = pst_live_meeting_of(live, instr, rank);
    if (reporter->missing[id] == 0) {
        uint32_t missing = find_missing(live, id);
        reporter->missing[id] = missing == PST_NONE ? PST_NONE : missing + 1;
    }
    if (reporter->missing[id] == PST_NONE) {
        return NOWHERE;
    }
    struct node node = {reporter->missing[id] - 1, PST_LIVE_SUMS};
    if (head_of(reporter, node) == PST_NONE) {
        node.kind = PST_LIVE_LIST;
    }
    return head_of(reporter, node) == PST_NONE ? NOWHERE : node;
}

static struct node next_of_transfer(const struct reporter *reporter, struct node node, uint32_t at)
{
    const struct pst_live *live = reporter->live;
    const struct pst_live_rank *self = &live->ranks[node.rank];
    uint32_t peer = self->list[at].peer, partner = self->partner[at];
    if (live->ordered && self->pc < self->group_end) {
        return (struct node){node.rank, PST_LIVE_LIST}; /* the rest of its group is not posted */
    }
    if (partner == PST_NONE) {
        return NOWHERE;
    }
    if (partner >= live->ranks[peer].pc) {
        return (struct node){peer, PST_LIVE_LIST};
    }
    return queue_of(reporter, peer, live->ranks[peer].list[partner].op);
}

/* The list of a rank that has not come to the pass. */
static struct node next_of_pass(const struct reporter *reporter, struct node node)
{
    uint32_t awaited = pst_live_awaited(reporter->live, node.rank);
    return awaited != PST_NONE ? (struct node){awaited, PST_LIVE_LIST} : NOWHERE;
}

/* Returns the queue that the blocked queue waits for. */
static struct node next_of(struct reporter *reporter, struct node node)
{
    const struct pst_live_rank *rank = &reporter->live->ranks[node.rank];
    uint32_t at = head_of(reporter, node);
    if (node.kind == PST_LIVE_SUMS) {
        return next_of_reduction(reporter, &rank->list[at], node.rank);
    }
    if (node.kind != PST_LIVE_LIST) {
        return next_of_transfer(reporter, node, at);
    }
    if (rank->n_waited < rank->list[at].n_waits) {
        return queue_of(reporter, node.rank, rank->list[rank->list[at].waits[rank->n_waited]].op);
    }
    if (pst_check_meets(reporter->live->check, &rank->list[at])) {
        return next_of_pass(reporter, node);
    }
    return (struct node){node.rank, PST_LIVE_SUMS}; /* the list stays at its own reduction */
}

static void report_node(struct reporter *reporter, struct node node)
{
    const struct pst_live_rank *rank = &reporter->live->ranks[node.rank];
    uint32_t at = head_of(reporter, node);
    struct node next = next_of(reporter, node);
    char self[64], other[64];
    pst_check_describe(&rank->list[at], self);
    uint32_t there = next.rank == PST_NONE ? PST_NONE : head_of(reporter, next);
    if (there == PST_NONE) {
        pst_check_add(reporter->live->check, "LIVE4", node.rank, at,
                      "%s: %s waits for an instruction in no list", kind_names[node.kind], self);
        return;
    }
    pst_check_describe(&reporter->live->ranks[next.rank].list[there], other);
    pst_check_add(reporter->live->check, "LIVE4", node.rank, at,
                  "%s: %s waits for the %s of device %u, which are at %u, %s",
                  kind_names[node.kind], self, kind_names[next.kind], next.rank, there, other);
}

static void report_cycle(struct reporter *reporter, struct node start)
{
    char text[200];
    size_t used = 0;
    struct node node = start;
    do {
        char self[64];
        const struct pst_live_rank *rank = &reporter->live->ranks[node.rank];
        uint32_t at = head_of(reporter, node);
        int n = snprintf(text + used, sizeof text - used, "%sdevice %u %s at %u, %s",
                         used == 0 ? "" : " -> ", node.rank, kind_names[node.kind], at,
                         pst_check_describe(&rank->list[at], self));
        if (n < 0 || (size_t)n >= sizeof text - used) {
            snprintf(text + (used < sizeof text - 8 ? used : sizeof text - 8), 8, " -> ...");
            break;
        }
        used += (size_t)n;
        node = next_of(reporter, node);
    } while (node.rank != start.rank || node.kind != start.kind);
    pst_check_add(reporter->live->check, "LIVE4", PST_NONE, PST_NONE, "cycle: %s", text);
}

/* Follows what each queue waits for; walk[node] is the number of the walk that came by. */
static void find_cycle(struct reporter *reporter, uint32_t *walk)
{
    uint32_t n_devices = reporter->live->plan->n_devices, n_walks = 0;
    for (uint32_t d = 0; d < n_devices; d++) {
        for (enum pst_live_queue kind = 0; kind < PST_LIVE_QUEUES; kind++) {
            struct node node = {d, kind};
            n_walks++;
            while (node.rank != PST_NONE && head_of(reporter, node) != PST_NONE &&
                   walk[node.rank * PST_LIVE_QUEUES + node.kind] == 0) {
                walk[node.rank * PST_LIVE_QUEUES + node.kind] = n_walks;
                node = next_of(reporter, node);
            }
            if (node.rank != PST_NONE && head_of(reporter, node) != PST_NONE &&
                walk[node.rank * PST_LIVE_QUEUES + node.kind] == n_walks) {
                report_cycle(reporter, node);
                return;
            }
        }
    }
}

void pst_live_report(struct pst_live *live)
{
    const struct pst_plan *plan = live->plan;
    struct reporter reporter = {
        live,
        pst_check_array(live->check, live->n_meetings, sizeof(uint32_t)),
    };
    uint32_t *walk =
        pst_check_array(live->check, (uint64_t)plan->n_devices * PST_LIVE_QUEUES, sizeof *walk);
    find_cycle(&reporter, walk);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (enum pst_live_queue kind = 0; kind < PST_LIVE_QUEUES; kind++) {
            if (live->check->report->n_violations >= PST_CHECK_MAX) {
                return;
            }
            if (head_of(&reporter, (struct node){d, kind}) != PST_NONE) {
                report_node(&reporter, (struct node){d, kind});
            }
        }
    }
}
