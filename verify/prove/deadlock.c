/* SPDX-License-Identifier: Apache-2.0
 *
 * LIVE1, LIVE2: the run (deadlock.h), by a worklist of ranks. Each rank goes as far as it can;
 * whoever changes something that another rank may wait for puts that rank on the list. Every
 * instruction and every wait is passed once, so the run is linear in the plan.
 */
#include "prove/deadlock.h"

static void wake_rank(struct pst_live *live, uint32_t rank)
{
    if (!live->ranks[rank].queued) {
        live->ranks[rank].queued = true;
        uint32_t at = live->first + live->n_queued++;
        live->worklist[at < live->plan->n_devices ? at : at - live->plan->n_devices] = rank;
    }
}

static void finish_instr(struct pst_live *live, uint32_t rank, uint32_t at)
{
    live->ranks[rank].open[at] = 0;
    live->n_done++;
    wake_rank(live, rank);
}

uint32_t pst_live_head(struct pst_live_rank *rank, enum pst_live_queue queue)
{
    uint32_t *head = &rank->head[queue];
    uint32_t until = queue == PST_LIVE_SUMS ? rank->reductions_until : rank->pc;
    while (*head < until && pst_live_queue_of(rank->open[*head]) != queue) {
        (*head)++;
    }
    return *head < until ? *head : PST_NONE;
}

/* Fewer messages than its capacity are in the channel: the RECV `capacity` places back has ended.
 */
static bool has_room(const struct pst_live *live, uint32_t rank, uint32_t at)
{
    const struct pst_live_rank *self = &live->ranks[rank];
    if (self->sequence[at] < live->capacity) {
        return true;
    }
    if (live->capacity == 0 || self->row[at] - live->capacity >= live->n_recvs) {
        return false;
    }
    const struct pst_live_recv *recv = &live->recvs[self->row[at] - live->capacity];
    const struct pst_live_rank *peer = &live->ranks[recv->rank];
    return recv->rank == self->list[at].peer && peer->list[recv->instr].peer == rank &&
           peer->open[recv->instr] == 0;
}

static bool try_send(struct pst_live *live, uint32_t rank)
{
    struct pst_live_rank *self = &live->ranks[rank];
    uint32_t at = pst_live_head(self, PST_LIVE_SENDS);
    if (at == PST_NONE) {
        return false;
    }
    uint32_t peer = self->list[at].peer, partner = self->partner[at];
    if (has_room(live, rank, at)) {
        finish_instr(live, rank, at);
        wake_rank(live, peer);
        return true;
    }
    if (partner != PST_NONE && pst_live_head(&live->ranks[peer], PST_LIVE_RECVS) == partner) {
        finish_instr(live, rank, at);
        finish_instr(live, peer, partner);
        return true;
    }
    return false;
}

static bool try_recv(struct pst_live *live, uint32_t rank)
{
    struct pst_live_rank *self = &live->ranks[rank];
    uint32_t at = pst_live_head(self, PST_LIVE_RECVS);
    if (at == PST_NONE) {
        return false;
    }
    uint32_t peer = self->list[at].peer, partner = self->partner[at];
    if (partner == PST_NONE) {
        return false;
    }
    if (live->ranks[peer].open[partner] == 0) {
        finish_instr(live, rank, at);
        wake_rank(live, peer);
        return true;
    }
    if (pst_live_head(&live->ranks[peer], PST_LIVE_SENDS) == partner) {
        finish_instr(live, rank, at);
        finish_instr(live, peer, partner);
        return true;
    }
    return false;
}

/* Ordered: moves to the next group where the last one has ended; false where there is none. */
static bool next_group(struct pst_live_rank *self)
{
    if (self->group_left > 0) {
        return true;
    }
    uint32_t at = self->group_end;
    while (at < self->n && !pst_live_is_transfer(self->list[at].op)) {
        at++;
    }
    self->group = self->group_end = at;
    self->group_active = false;
    while (self->group_end < self->n && pst_live_is_transfer(self->list[self->group_end].op)) {
        self->group_end++;
    }
    self->group_left = self->group_end - self->group;
    return self->group_left > 0;
}

/* Ordered: once all of the group is posted, its members go with those that are active elsewhere. */
static bool try_group(struct pst_live *live, uint32_t rank)
{
    struct pst_live_rank *self = &live->ranks[rank];
    if (!next_group(self) || self->group_active || self->pc < self->group_end) {
        return false;
    }
    self->group_active = true;
    for (uint32_t at = self->group; at < self->group_end; at++) {
        uint32_t peer = self->list[at].peer, partner = self->partner[at];
        struct pst_live_rank *other = &live->ranks[peer];
        if (partner != PST_NONE && other->group_active && partner >= other->group &&
            partner < other->group_end) {
            finish_instr(live, rank, at);
            finish_instr(live, peer, partner);
            self->group_left--;
            other->group_left--;
        }
    }
    return true;
}

static void leave_meeting(struct pst_live *live, uint32_t rank, uint32_t id)
{
    struct pst_live_rank *self = &live->ranks[rank];
    uint32_t at = pst_live_head(self, PST_LIVE_SUMS);
    if (self->arrived && at != PST_NONE && pst_live_meeting_of(live, &self->list[at], rank) == id) {
        self->arrived = false;
        finish_instr(live, rank, at);
    }
}

static bool try_reduction(struct pst_live *live, uint32_t rank)
{
    struct pst_live_rank *self = &live->ranks[rank];
    uint32_t at = pst_live_head(self, PST_LIVE_SUMS);
    if (at == PST_NONE || self->arrived) {
        return false;
    }
    uint32_t id = pst_live_meeting_of(live, &self->list[at], rank);
    struct pst_live_meeting *meeting = &live->meetings[id];
    self->arrived = true;
    if (++meeting->arrived < meeting->n) {
        return true;
    }
    meeting->arrived = 0;
    for (uint32_t i = 0; i < meeting->n; i++) {
        leave_meeting(live, meeting->ranks[i], id);
    }
    return true;
}

bool pst_live_together(const struct pst_live *live, uint32_t rank, uint32_t other)
{
    const struct pst_live_rank *a = &live->ranks[rank], *b = &live->ranks[other];
    return a->at_pass && b->at_pass && a->list[a->pc].op == b->list[b->pc].op &&
           a->list[a->pc].stage == b->list[b->pc].stage &&
           a->list[a->pc].microbatch == b->list[b->pc].microbatch;
}

/* In a circle, as the next one is the least likely to have come: ranks come mostly in their order,
   and so n of them look n times in all. */
uint32_t pst_live_awaited(const struct pst_live *live, uint32_t rank)
{
    const struct pst_live_rank *self = &live->ranks[rank];
    const uint32_t *ranks;
    uint32_t n = pst_check_group(live->check, &self->list[self->pc], rank, &ranks), at = 0;
    while (at < n && ranks[at] != rank) {
        at++;
    }
    for (uint32_t i = 0; i < n; i++) {
        at = at + 1 < n ? at + 1 : 0;
        if (!pst_live_together(live, rank, ranks[at])) {
            return ranks[at];
        }
    }
    return PST_NONE;
}

/* The last rank that comes to a pass ends it for all; false: others are still to come. */
static bool come_to_pass(struct pst_live *live, uint32_t rank)
{
    struct pst_live_rank *self = &live->ranks[rank];
    const uint32_t *ranks;
    uint32_t n;
    if (self->open[self->pc] == 0) {
        return true;
    }
    self->at_pass = true;
    n = pst_check_group(live->check, &self->list[self->pc], rank, &ranks);
    if (n == 0) { /* the stage is not here */
        finish_instr(live, rank, self->pc);
        return true;
    }
    if (pst_live_awaited(live, rank) != PST_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (live->ranks[ranks[i]].at_pass) { /* once, where an illegal plan has a rank twice */
            live->ranks[ranks[i]].at_pass = false;
            finish_instr(live, ranks[i], live->ranks[ranks[i]].pc);
        }
    }
    return true;
}

static bool walk_rank(struct pst_live *live, uint32_t rank)
{
    struct pst_live_rank *self = &live->ranks[rank];
    uint32_t before = self->pc, posted = self->reductions_until;
    while (self->pc < self->n) {
        const struct pst_instr *instr = &self->list[self->pc];
        while (self->n_waited < instr->n_waits && self->open[instr->waits[self->n_waited]] == 0) {
            self->n_waited++;
        }
        if (self->n_waited < instr->n_waits) {
            break;
        }
        /* Copies need nothing but what comes before them in the list. */
        if (pst_check_meets(live->check, instr)) {
            if (!come_to_pass(live, rank)) {
                break;
            }
        } else if (pst_check_blocks(instr->op) || pst_check_is_copy(instr->op)) {
            finish_instr(live, rank, self->pc);
        } else if (pst_check_is_reduction(instr->op)) {
            self->reductions_until = self->pc + 1;
            if (!live->async_reductions && (instr->op == PST_I_TIE || instr->op == PST_I_NORM) &&
                self->open[self->pc] != 0) {
                break;
            }
        }
        self->pc++;
        self->n_waited = 0;
    }
    return self->pc != before || self->reductions_until != posted;
}

static void advance(struct pst_live *live, uint32_t rank)
{
    bool moved = true;
    while (moved) {
        moved = walk_rank(live, rank);
        if (live->ordered) {
            moved |= try_group(live, rank);
        } else {
            moved |= try_send(live, rank);
            moved |= try_recv(live, rank);
        }
        moved |= try_reduction(live, rank);
    }
}

static void rewind_all(struct pst_live *live)
{
    const struct pst_plan *plan = live->plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        struct pst_live_rank *rank = &live->ranks[d];
        for (uint32_t i = 0; i < rank->n; i++) {
            rank->open[i] = rank->list[i].op;
        }
        *rank = (struct pst_live_rank){.list = rank->list,
                                       .open = rank->open,
                                       .sequence = rank->sequence,
                                       .row = rank->row,
                                       .partner = rank->partner,
                                       .n = rank->n};
    }
    for (uint32_t i = 0; i < live->n_meetings; i++) {
        live->meetings[i].arrived = 0;
    }
    live->first = live->n_queued = 0;
    live->n_done = 0;
}

/* Runs from the start; whether everything ended. */
static bool live_run(struct pst_live *live, uint32_t capacity, bool ordered)
{
    live->capacity = capacity;
    live->ordered = ordered;
    rewind_all(live);
    for (uint32_t d = 0; d < live->plan->n_devices; d++) {
        wake_rank(live, d);
    }
    while (live->n_queued > 0) {
        uint32_t rank = live->worklist[live->first];
        live->first = live->first + 1 < live->plan->n_devices ? live->first + 1 : 0;
        live->n_queued--;
        advance(live, rank); /* still marked as queued, for it goes as far as it can by itself */
        live->ranks[rank].queued = false;
    }
    return live->n_done == live->check->list_base[live->plan->n_devices];
}

/* Larger channels never hurt, so the smallest that does is found by halving. */
static uint32_t smallest_capacity(struct pst_live *live, uint32_t too_small)
{
    uint32_t low = too_small, high = too_small + 1;
    while (!live_run(live, high, false)) {
        low = high;
        high = high > UINT32_MAX / 2 ? UINT32_MAX : 2 * high;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (live_run(live, middle, false)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

static void explain(struct pst_live *live, const struct pst_check_limits *limits)
{
    struct pst_check *check = live->check;
    uint64_t total = check->list_base[live->plan->n_devices], done = live->n_done;
    if (live_run(live, UINT32_MAX, false)) {
        if (limits->ordered && live_run(live, limits->channel_capacity, false)) {
            pst_check_add(check, "LIVE2", PST_NONE, PST_NONE,
                          "the lists stop after %llu of %llu instructions; they need a transport "
                          "whose sends and receives are separate queues",
                          (unsigned long long)done, (unsigned long long)total);
        } else {
            pst_check_add(check, "LIVE2", PST_NONE, PST_NONE,
                          "the lists stop after %llu of %llu instructions; channels hold %u "
                          "messages, %u would do",
                          (unsigned long long)done, (unsigned long long)total,
                          limits->channel_capacity,
                          smallest_capacity(live, limits->channel_capacity));
        }
    } else {
        pst_check_add(check, "LIVE1", PST_NONE, PST_NONE,
                      "the lists stop after %llu of %llu instructions, however much the channels "
                      "hold",
                      (unsigned long long)done, (unsigned long long)total);
    }
}

void pst_check_live(struct pst_check *check)
{
    struct pst_live live = {0};
    const struct pst_check_limits *limits = check->limits;
    pst_live_prepare(&live, check);
    if (live_run(&live, limits->channel_capacity, limits->ordered)) {
        return;
    }
    explain(&live, limits);
    /* once more, to stand where it stops under the transport's own limits */
    live_run(&live, limits->channel_capacity, limits->ordered);
    pst_live_report(&live);
}
