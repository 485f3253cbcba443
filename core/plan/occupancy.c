/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/occupancy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"

#define FEW_BITS   10  /* PST_OCCUPANCY_FEW times */
#define BLOCK_BITS 5   /* times of a block where there are more */
#define VECTOR     64u /* lives that are looked at together */
#define MOST_LISTS 3   /* of one query: the parts of two blocks, and their base */

void pst_occupancy_init(struct pst_occupancy *occupancy, uint32_t n_times)
{
    memset(occupancy, 0, sizeof *occupancy);
    occupancy->block_bits = n_times <= PST_OCCUPANCY_FEW ? FEW_BITS : BLOCK_BITS;
    occupancy->n_leaves = 1;
    while (occupancy->n_leaves <= n_times >> occupancy->block_bits) {
        occupancy->n_leaves *= 2;
    }
    occupancy->nodes = pst_alloc(2 * (size_t)occupancy->n_leaves, sizeof *occupancy->nodes);
    occupancy->lives = pst_alloc(occupancy->n_leaves, sizeof *occupancy->lives);
}

void pst_occupancy_finish(struct pst_occupancy *occupancy)
{
    free(occupancy->nodes);
    free(occupancy->lives);
    free(occupancy->living);
    pst_arena_finish(&occupancy->arena);
    memset(occupancy, 0, sizeof *occupancy);
}

static const struct pst_span *spans_of(const struct pst_spans *spans)
{
    return spans->room > 0 ? spans->at : &spans->one;
}

/* First span that ends at `address` or after it; most often one of the last. */
static uint32_t first_from(const struct pst_spans *spans, uint64_t address)
{
    const struct pst_span *at = spans_of(spans);
    uint32_t n = spans->n;

    for (uint32_t tried = 0; tried < 4; tried++, n--) {
        if (n == 0 || at[n - 1].end < address) {
            return n;
        }
    }
    return PST_FIRST(i, n, at[i].end >= address);
}

/* Makes room for one more span; returns the spans. */
static struct pst_span *make_room(struct pst_arena *arena, struct pst_spans *spans)
{
    uint32_t room = spans->room == 0 ? 4 : 2 * spans->room;

    if (spans->n == 0 && spans->room == 0) {
        return &spans->one;
    }
    if (spans->n >= spans->room) {
        struct pst_span *at = pst_arena_array(arena, room, sizeof *at);

        memcpy(at, spans_of(spans), spans->n * sizeof *at);
        spans->at = at;
        spans->room = room;
    }
    return spans->at;
}

/* Adds a span; returns true if some of it was free before. */
static bool add_span(struct pst_arena *arena, struct pst_spans *spans, struct pst_span span)
{
    struct pst_span *at = spans->room > 0 ? spans->at : &spans->one;
    uint32_t from = first_from(spans, span.begin), until = from;

    if (from < spans->n && at[from].begin <= span.begin && at[from].end >= span.end) {
        return false;
    }
    while (until < spans->n && at[until].begin <= span.end) {
        span.begin = at[until].begin < span.begin ? at[until].begin : span.begin;
        span.end = at[until].end > span.end ? at[until].end : span.end;
        until++;
    }
    if (until == from) {
        at = make_room(arena, spans);
        memmove(&at[from + 1], &at[from], (spans->n - from) * sizeof *at);
        spans->n++;
    } else if (until > from + 1) {
        memmove(&at[from + 1], &at[until], (spans->n - until) * sizeof *at);
        spans->n -= until - from - 1;
    }
    at[from] = span;
    return true;
}

/* All that `any` of a node has, that of its parent has, too: upwards until nothing is new. */
static void mark_any(struct pst_occupancy *occupancy, uint32_t node, struct pst_span span)
{
    while (node >= 1 && add_span(&occupancy->arena, &occupancy->nodes[node].any, span)) {
        node /= 2;
    }
}

/* Makes room for a whole number of vectors; what has no life yet lives at no time. */
static void make_room_for_lives(struct pst_arena *arena, struct pst_lives *lives)
{
    const struct pst_lives old = *lives;

    lives->room = old.room == 0 ? VECTOR : 2 * old.room;
    lives->first = pst_arena_array(arena, lives->room, sizeof *lives->first);
    lives->last = pst_arena_array(arena, lives->room, sizeof *lives->last);
    lives->begin = pst_arena_array(arena, lives->room, sizeof *lives->begin);
    lives->end = pst_arena_array(arena, lives->room, sizeof *lives->end);
    for (uint32_t i = 0; i < old.n; i++) {
        lives->first[i] = old.first[i];
        lives->last[i] = old.last[i];
        lives->begin[i] = old.begin[i];
        lives->end[i] = old.end[i];
    }
    for (uint32_t i = old.n; i < lives->room; i++) {
        lives->first[i] = UINT32_MAX;
    }
}

static void add_life(struct pst_arena *arena, struct pst_lives *lives, uint32_t first,
                     uint32_t last, struct pst_span span)
{
    uint32_t at = 0, high = lives->n, n;

    if (lives->n == lives->room) {
        make_room_for_lives(arena, lives);
    }
    while (at < high) {
        const uint32_t middle = at + (high - at) / 2;

        if (lives->begin[middle] < span.begin) {
            at = middle + 1;
        } else {
            high = middle;
        }
    }
    n = lives->n++ - at;
    memmove(&lives->first[at + 1], &lives->first[at], n * sizeof *lives->first);
    memmove(&lives->last[at + 1], &lives->last[at], n * sizeof *lives->last);
    memmove(&lives->begin[at + 1], &lives->begin[at], n * sizeof *lives->begin);
    memmove(&lives->end[at + 1], &lives->end[at], n * sizeof *lives->end);
    lives->first[at] = first;
    lives->last[at] = last;
    lives->begin[at] = span.begin;
    lives->end[at] = span.end;
}

static void add_part(struct pst_occupancy *occupancy, uint32_t block, uint32_t first, uint32_t last,
                     struct pst_span span)
{
    add_life(&occupancy->arena, &occupancy->lives[block], first, last, span);
    mark_any(occupancy, block + occupancy->n_leaves, span);
}

/* A buffer takes some of blocks low ... high and all of [left, right). Times from one block to
   another have the border between them, and so all buffers that cross it. */
static void mark_bases(struct pst_occupancy *occupancy, uint32_t low, uint32_t high, uint32_t left,
                       uint32_t right, struct pst_span span)
{
    for (uint32_t i = 0; i < PST_OCCUPANCY_BASES; i++) {
        struct pst_occupancy_base *base = &occupancy->bases[i];

        if ((low < base->high && high > base->low) || (left <= base->low && base->low < right) ||
            (left <= base->high && base->high < right)) {
            add_span(&occupancy->arena, &base->spans, span);
        }
    }
}

void pst_occupancy_add(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                       uint64_t begin, uint64_t end)
{
    const struct pst_span span = {begin, end};
    const uint32_t bits = occupancy->block_bits, low = first >> bits, high = last >> bits;
    uint32_t left = (first + (1u << bits) - 1) >> bits, right = (last + 1) >> bits;

    mark_bases(occupancy, low, high, left, right, span);
    if (left > low || right <= low) {
        add_part(occupancy, low, first, last, span);
    }
    if (right <= high && high > low) {
        add_part(occupancy, high, first, last, span);
    }
    left += occupancy->n_leaves;
    right += occupancy->n_leaves;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) {
            add_span(&occupancy->arena, &occupancy->nodes[left].whole, span);
            mark_any(occupancy, left++, span);
        }
        if (right & 1) {
            add_span(&occupancy->arena, &occupancy->nodes[--right].whole, span);
            mark_any(occupancy, right, span);
        }
    }
}

/* The rest of a list of spans, from `at` up to `end`. */
struct rest {
    const struct pst_span *at, *end;
};

struct query {
    struct rest lists[MOST_LISTS];
    uint32_t n;
};

static void query_spans(struct query *query, const struct pst_spans *spans)
{
    if (spans->n > 0) {
        const struct pst_span *at = spans_of(spans);

        query->lists[query->n++] = (struct rest){at, at + spans->n};
    }
}

static void unite_spans(struct pst_occupancy *occupancy, struct pst_spans *all,
                        const struct pst_spans *other)
{
    for (uint32_t i = 0; i < other->n; i++) {
        add_span(&occupancy->arena, all, spans_of(other)[i]);
    }
}

/* Items are placed in the order of their times, so most queries are about the blocks of one of the
   last. */
static const struct pst_spans *find_base(struct pst_occupancy *occupancy, uint32_t low,
                                         uint32_t high)
{
    struct pst_occupancy_base *base = &occupancy->bases[(high - low) % PST_OCCUPANCY_BASES];
    const struct pst_occupancy_node *nodes = occupancy->nodes;

    if (base->spans.n > 0 && base->low == low && base->high == high) {
        return &base->spans;
    }
    base->low = low;
    base->high = high;
    base->spans.n = 0;
    for (uint32_t level = (uint32_t)__builtin_ctz(occupancy->n_leaves) + 1; level-- > 0;) {
        const uint32_t left = (low + occupancy->n_leaves) >> level;
        const uint32_t right = (high + occupancy->n_leaves) >> level;

        unite_spans(occupancy, &base->spans, &nodes[left].whole);
        if (right > left) {
            unite_spans(occupancy, &base->spans, &nodes[right].whole);
        }
        if (right > left + 1 && left % 2 == 0) {
            unite_spans(occupancy, &base->spans, &nodes[left + 1].any);
        }
        if (right > left + 1 && right % 2 == 1) {
            unite_spans(occupancy, &base->spans, &nodes[right - 1].any);
        }
    }
    return &base->spans;
}

/* Finds the lives of a vector that overlap [first, last], without branches, so as vectors. */
static uint32_t living(const struct pst_lives *lives, uint32_t vector, uint32_t first,
                       uint32_t last, uint32_t ret_at[VECTOR])
{
    const uint32_t *firsts = &lives->first[vector], *lasts = &lives->last[vector];
    uint8_t lives_then[VECTOR];
    uint32_t n = 0;

    for (uint32_t i = 0; i < VECTOR; i++) {
        lives_then[i] = (lasts[i] >= first) & (firsts[i] <= last);
    }
    for (uint32_t i = 0; i < VECTOR; i++) {
        ret_at[n] = vector + i;
        n += lives_then[i];
    }
    return n;
}

static struct pst_span *make_room_for_living(struct pst_occupancy *occupancy, uint32_t low,
                                             uint32_t high)
{
    const uint32_t most = occupancy->lives[low].n + occupancy->lives[high].n + 2;

    if (most > occupancy->most_living) {
        occupancy->most_living = 2 * most;
        free(occupancy->living);
        occupancy->living = pst_alloc(occupancy->most_living, sizeof *occupancy->living);
    }
    return occupancy->living;
}

/* The union of the lives of a block in [first, last]; in front of it, nothing at address 0. */
static void query_lives(struct query *query, const struct pst_lives *lives, uint32_t first,
                        uint32_t last, struct pst_span *room)
{
    struct pst_span span = {0, 0};
    uint32_t n = 0;

    for (uint32_t vector = 0; vector < lives->n; vector += VECTOR) {
        uint32_t at[VECTOR], n_living = living(lives, vector, first, last, at);

        for (uint32_t i = 0; i < n_living; i++) {
            const uint64_t begin = lives->begin[at[i]], end = lives->end[at[i]];
            const bool apart = begin > span.end;

            room[n] = span;
            n += apart;
            span.begin = apart ? begin : span.begin;
            span.end = end > span.end ? end : span.end;
        }
    }
    room[n++] = span;
    query->lists[query->n++] = (struct rest){room, room + n};
}

/* Collects the spans taken in [first, last]. */
static void collect(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                    struct query *query)
{
    const uint32_t bits = occupancy->block_bits, low = first >> bits, high = last >> bits;
    struct pst_span *room = make_room_for_living(occupancy, low, high);

    query->n = 0;
    query_lives(query, &occupancy->lives[low], first, last, room);
    if (high > low) {
        query_lives(query, &occupancy->lives[high], first, last,
                    room + occupancy->lives[low].n + 1);
    }
    query_spans(query, find_base(occupancy, low, high));
}

/* Returns the first address from `end` on after all spans that touch it. *ret_next: where the next
   span begins. */
static uint64_t skip_taken(struct query *query, uint64_t end, uint64_t *ret_next)
{
    bool moved = true;

    while (moved) {
        moved = false;
        *ret_next = UINT64_MAX;
        for (uint32_t i = query->n; i-- > 0;) {
            struct rest *list = &query->lists[i];

            while (list->at < list->end && list->at->begin <= end) {
                moved = moved || list->at->end > end;
                end = list->at->end > end ? list->at->end : end;
                list->at++;
            }
            if (list->at < list->end) {
                *ret_next = list->at->begin < *ret_next ? list->at->begin : *ret_next;
            } else {
                *list = query->lists[--query->n];
            }
        }
        moved = moved && *ret_next <= end;
    }
    return end;
}

/* The smallest gap that was seen. */
struct gap {
    uint64_t at, size; /* UINT64_MAX: none was */
};

/* Notes the gap [end, next) if it is better; returns true if the best fits exactly. */
static bool note_gap(struct gap *gap, uint64_t end, uint64_t next, uint64_t size)
{
    if (next > end && next - end >= size && next - end < gap->size) {
        *gap = (struct gap){end, next - end};
    }
    return gap->size == size;
}

uint64_t pst_occupancy_best_gap(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                                uint64_t size, uint64_t origin)
{
    struct gap best = {UINT64_MAX, UINT64_MAX};
    uint64_t end = origin, next;
    struct query query;

    collect(occupancy, first, last, &query);
    for (;;) {
        end = skip_taken(&query, end, &next);
        if (next == UINT64_MAX) {
            return best.at != UINT64_MAX ? best.at : end;
        }
        if (note_gap(&best, end, next, size)) {
            return best.at;
        }
        end = next;
    }
}
