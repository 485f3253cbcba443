/* SPDX-License-Identifier: Apache-2.0 */
#include "mem_plugin.h"
#include "tally.h"

#include <string.h>

#define NOWHERE (INT64_MIN / 4)

static void reserve(struct mem_tally *t, uint32_t n)
{
    for (t->leaves = 1; t->leaves < n; t->leaves *= 2) {
    }
    CALL_TAKE(t->actions, n);
    CALL_TAKE(t->stays, n / 64 + 1);
    CALL_TAKE(t->wanted, n);
    CALL_TAKE(t->forward, 2 * (size_t)t->leaves);
    CALL_TAKE(t->backward, 2 * (size_t)t->leaves);
    CALL_TAKE(t->run_end, n);
    CALL_TAKE(t->next, n);
    CALL_TAKE(t->head, n);
}

/* --- trees -------------------------------------------------------------------------------------*/

static void join(struct mem_branch *tree, uint32_t i)
{
    const struct mem_branch *a = &tree[2 * i], *b = &tree[2 * i + 1];
    int64_t right = a->sum + b->most;

    tree[i].sum = a->sum + b->sum;
    tree[i].most = a->most > right ? a->most : right;
}

static void climb(struct mem_branch *tree, uint32_t i)
{
    for (i /= 2; i > 0; i /= 2) {
        join(tree, i);
    }
}

/* Adds to the residency of node v and all after it. */
static void shift(const struct mem_tally *t, struct mem_branch *tree, uint32_t v, int64_t bytes)
{
    uint32_t leaf = t->leaves + v;

    if (v < t->costs->n) {
        tree[leaf].sum += bytes;
        tree[leaf].most += bytes;
        climb(tree, leaf);
    }
}

/* --- runs --------------------------------------------------------------------------------------*/

static bool stays(const struct mem_tally *t, uint32_t v)
{
    return (t->stays[v / 64] >> (v % 64) & 1) != 0;
}

/* Begin of the dropped nodes that end before v. */
static uint32_t run_before(const struct mem_tally *t, uint32_t v)
{
    uint32_t word = v / 64;
    uint64_t bits = t->stays[word] & (((uint64_t)1 << (v % 64)) - 1);

    while (bits == 0) {
        if (word == 0) {
            return 0;
        }
        bits = t->stays[--word];
    }
    return 64 * word + 64 - (uint32_t)__builtin_clzll(bits);
}

/* Position after the dropped nodes that begin at v; there is a bit after the last node. */
static uint32_t run_behind(const struct mem_tally *t, uint32_t v)
{
    uint32_t word = v / 64;
    uint64_t bits = t->stays[word] & ~(((uint64_t)1 << (v % 64)) - 1);

    while (bits == 0) {
        bits = t->stays[++word];
    }
    return 64 * word + (uint32_t)__builtin_ctzll(bits);
}

static uint32_t target_of(const struct mem_tally *t, uint32_t first, uint32_t end)
{
    uint32_t last = mem_costs_top_last(t->costs, first, end);

    return last > end - 1 ? last : end - 1;
}

static int64_t run_bytes(const struct mem_tally *t, uint32_t first, uint32_t end)
{
    return t->costs->sum[end] - t->costs->sum[first];
}

/*
 * Sets the memory needed at a node beyond its residency: workspace of its backward, or of the
 * replays before it. Runs with one target are replayed last begin first, so while one is replayed,
 * it and those that begin before it are not resident.
 */
static void set_work(struct mem_tally *t, uint32_t target)
{
    const struct mem_costs *c = t->costs;
    uint32_t leaf = t->leaves + target, p;
    int64_t work = c->backward_work[target], absent = 0;

    for (p = t->head[target]; p != PST_NONE; p = t->next[p]) {
        int64_t top = mem_costs_top_work(c, p, t->run_end[p]) - c->sum[p];

        absent += run_bytes(t, p, t->run_end[p]);
        work = top - absent > work ? top - absent : work;
    }
    t->backward[leaf].most = t->backward[leaf].sum + work;
    climb(t->backward, leaf);
}

/* A run is there until the backward of its target only. */
static void attach(struct mem_tally *t, uint32_t first, uint32_t end)
{
    uint32_t target = target_of(t, first, end), *link = &t->head[target];

    while (*link != PST_NONE && *link < first) {
        link = &t->next[*link];
    }
    t->run_end[first] = end;
    t->next[first] = *link;
    *link = first;
    shift(t, t->backward, target + 1, -run_bytes(t, first, end));
    set_work(t, target);
}

static void detach(struct mem_tally *t, uint32_t first, uint32_t end)
{
    uint32_t target = target_of(t, first, end), *link = &t->head[target];

    while (*link != first) {
        link = &t->next[*link];
    }
    *link = t->next[first];
    shift(t, t->backward, target + 1, run_bytes(t, first, end));
    set_work(t, target);
}

/* --- legality ----------------------------------------------------------------------------------*/

/* Reads of v, and of what replays v, from dropped nodes of other runs, v in first..end-1. */
static uint64_t own_violations(const struct mem_tally *t, uint32_t v, uint32_t first, uint32_t end)
{
    const struct mem_costs *c = t->costs;
    uint64_t count = 0;
    uint32_t i;

    for (i = c->first_source[v]; i < c->first_source[v + 1]; i++) {
        count += c->sources[i] < first && !stays(t, c->sources[i]);
    }
    for (i = c->first_reader[v]; i < c->first_reader[v + 1]; i++) {
        count += c->readers[i] >= end && !stays(t, c->readers[i]);
    }
    return count;
}

/* Edges over v inside the run: violations as soon as v stays. */
static uint64_t edges_over(const struct mem_tally *t, uint32_t v, uint32_t first, uint32_t end)
{
    const struct mem_costs *c = t->costs;
    uint64_t count = 0;
    uint32_t u, i;

    for (u = v + 1; c->crossed[v] && first < v && u < end; u++) {
        for (i = c->first_source[u]; i < c->first_source[u + 1]; i++) {
            count += c->sources[i] >= first && c->sources[i] < v;
        }
    }
    return count;
}

bool mem_tally_breaks(const struct mem_tally *tally, uint32_t v, uint8_t action)
{
    bool dropped = !stays(tally, v);
    uint32_t first, end;
    uint64_t own, over;

    if (dropped == (action == PST_ACTION_RECOMPUTE)) {
        return false;
    }
    first = run_before(tally, v);
    end = run_behind(tally, v + 1);
    own = own_violations(tally, v, first, end);
    over = edges_over(tally, v, first, end);
    return dropped ? over > own : own > over;
}

/* --- changes -----------------------------------------------------------------------------------*/

static void drop(struct mem_tally *t, uint32_t v)
{
    uint32_t first = run_before(t, v), end = run_behind(t, v + 1);

    if (first < v) {
        detach(t, first, v);
    }
    if (end > v + 1) {
        detach(t, v + 1, end);
    }
    t->stays[v / 64] &= ~((uint64_t)1 << (v % 64));
    attach(t, first, end);
    shift(t, t->forward, t->costs->last[v] + 1, -t->costs->bytes[v]);
    t->violations += own_violations(t, v, first, end);
    t->violations -= edges_over(t, v, first, end);
}

static void bring_back(struct mem_tally *t, uint32_t v)
{
    uint32_t first = run_before(t, v), end = run_behind(t, v + 1);

    t->violations -= own_violations(t, v, first, end);
    t->violations += edges_over(t, v, first, end);
    detach(t, first, end);
    t->stays[v / 64] |= (uint64_t)1 << (v % 64);
    if (first < v) {
        attach(t, first, v);
    }
    if (end > v + 1) {
        attach(t, v + 1, end);
    }
    shift(t, t->forward, t->costs->last[v] + 1, t->costs->bytes[v]);
}

static void count(struct mem_tally *t, uint32_t v, uint32_t action, bool more)
{
    uint64_t bytes = (uint64_t)t->costs->bytes[v], ns = t->costs->forward_ns[v];

    switch (action) {
    case PST_ACTION_RECOMPUTE:
        t->replay_ns += more ? ns : -ns;
        break;
    case PST_ACTION_OFFLOAD:
        t->moved += more ? bytes : -bytes;
        t->link_ns = mem_costs_link_ns(t->costs, t->moved, true);
        break;
    default:
        t->kept += more ? bytes : -bytes;
        break;
    }
}

/* v begins to hold its result, or no longer does. In its own forward that is work anyway. */
static void hold(struct mem_tally *t, uint32_t v, bool more)
{
    const struct mem_costs *c = t->costs;
    struct mem_branch *leaf = &t->forward[t->leaves + v];
    int64_t bytes = more ? c->results[v] : -c->results[v], work = c->forward_work[v];

    if (t->actions[v] == PST_ACTION_OFFLOAD) {
        t->moved += (uint64_t)bytes;
        t->link_ns = mem_costs_link_ns(c, t->moved, true);
    } else {
        t->kept += (uint64_t)bytes;
    }
    leaf->most = leaf->sum + (more && c->results[v] > work ? c->results[v] : work);
    leaf->most -= more ? 0 : c->results[v];
    leaf->sum += bytes;
    climb(t->forward, t->leaves + v);
    shift(t, t->backward, v, bytes);
}

static void want(struct mem_tally *t, uint32_t u, bool more)
{
    bool held = mem_tally_holds(t, u);

    t->wanted[u] += more ? 1 : -1u;
    if (held != mem_tally_holds(t, u)) {
        hold(t, u, more);
    }
}

/* The inputs of v are held while v is dropped. */
static void want_sources(struct mem_tally *t, uint32_t v, bool more)
{
    const struct mem_costs *c = t->costs;
    uint32_t i;

    for (i = c->first_source[v]; c->any_results && i < c->first_source[v + 1]; i++) {
        want(t, c->sources[i], more);
    }
}

void mem_tally_set(struct mem_tally *tally, uint32_t v, uint8_t action)
{
    uint8_t before = tally->actions[v];

    if (before == action) {
        return;
    }
    if (mem_tally_holds(tally, v)) {
        hold(tally, v, false);
    }
    count(tally, v, before, false);
    count(tally, v, action, true);
    tally->actions[v] = action;
    if (action == PST_ACTION_RECOMPUTE) {
        drop(tally, v);
        want_sources(tally, v, true);
    } else if (before == PST_ACTION_RECOMPUTE) {
        want_sources(tally, v, false);
        bring_back(tally, v);
    }
    if (mem_tally_holds(tally, v)) {
        hold(tally, v, true);
    }
}

static void plant(struct mem_tally *t, struct mem_branch *tree, const int64_t *work)
{
    const struct mem_costs *c = t->costs;
    uint32_t v, i;

    for (v = 0; v < t->leaves; v++) {
        tree[t->leaves + v] = v < c->n ? (struct mem_branch){c->bytes[v], c->bytes[v] + work[v]}
                                       : (struct mem_branch){0, NOWHERE};
    }
    for (i = t->leaves; i-- > 1;) {
        join(tree, i);
    }
}

void mem_tally_load(struct mem_tally *tally, const struct mem_costs *costs)
{
    uint32_t v;

    if (tally->actions == NULL) {
        reserve(tally, costs->n);
    }
    tally->costs = costs;
    tally->kept = tally->moved = tally->replay_ns = tally->link_ns = tally->violations = 0;
    memset(tally->stays, 0xff, (costs->n / 64 + 1) * sizeof *tally->stays);
    plant(tally, tally->forward, costs->forward_work);
    plant(tally, tally->backward, costs->backward_work);
    for (v = 0; v < costs->n; v++) {
        tally->actions[v] = PST_ACTION_KEEP;
        tally->wanted[v] = 0;
        tally->head[v] = PST_NONE;
        tally->kept += (uint64_t)costs->bytes[v];
    }
    for (v = 0; v < costs->n; v++) {
        mem_tally_set(tally, v, costs->first[v]);
    }
}

void mem_tally_finish(struct mem_tally *tally)
{
    call_free(tally->actions);
    call_free(tally->stays);
    call_free(tally->wanted);
    call_free(tally->forward);
    call_free(tally->backward);
    call_free(tally->run_end);
    call_free(tally->next);
    call_free(tally->head);
}

/* --- questions ---------------------------------------------------------------------------------*/

bool mem_tally_legal(const struct mem_tally *tally)
{
    return tally->violations == 0 && !tally->costs->broken &&
           tally->moved <= tally->costs->host_bytes / tally->costs->held;
}

uint64_t mem_tally_peak(const struct mem_tally *tally)
{
    const struct mem_costs *c = tally->costs;
    int64_t most = 0;

    if (c->n > 0) {
        most = tally->forward[1].most > tally->backward[1].most ? tally->forward[1].most
                                                                : tally->backward[1].most;
    }
    return c->fixed + (c->held - 1) * tally->kept + (c->staged - 1) * tally->moved +
           (uint64_t)(most > 0 ? most : 0);
}

uint64_t mem_tally_period(const struct mem_tally *tally)
{
    uint64_t busy = tally->costs->total_ns + tally->replay_ns;

    return busy > tally->link_ns ? busy : tally->link_ns;
}

struct mem_score mem_tally_score(const struct mem_tally *tally)
{
    uint64_t peak = mem_tally_peak(tally), capacity = tally->costs->capacity;

    return (struct mem_score){peak > capacity ? peak - capacity : 0, mem_tally_period(tally), peak};
}
