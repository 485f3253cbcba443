/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/occupancy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"

#define BLOCK      64u /* lives that are looked at together */
#define MOST_LISTS 256 /* of one query: four a level, at most 33 levels */
#define LOW_LEVELS 5   /* of the tree, below the nodes that have paths */

void pst_occupancy_init(struct pst_occupancy *occupancy, uint32_t n_times)
{
    memset(occupancy, 0, sizeof *occupancy);
    if (n_times <= PST_OCCUPANCY_FEW) {
        return;
    }
    occupancy->n_leaves = 1;
    while (occupancy->n_leaves < n_times && occupancy->n_leaves < 1u << 30) {
        occupancy->n_leaves *= 2;
    }
    if (occupancy->n_leaves < n_times) {
        pst_out_of_memory();
    }
    occupancy->nodes = pst_alloc(2 * (size_t)occupancy->n_leaves, sizeof *occupancy->nodes);
}

void pst_occupancy_finish(struct pst_occupancy *occupancy)
{
    free(occupancy->nodes);
    pst_arena_finish(&occupancy->arena);
    free(occupancy->lives.first);
    free(occupancy->lives.last);
    free(occupancy->lives.begin);
    free(occupancy->lives.end);
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

static bool is_on_path(const struct pst_occupancy_path *path, uint32_t node)
{
    return node <= path->node &&
           path->node >> (__builtin_clz(node) - __builtin_clz(path->node)) == node;
}

/* Whatever `any` of a node has, that of its parent has, too: upwards until nothing is new. */
static void mark_span(struct pst_occupancy *occupancy, uint32_t node, struct pst_span span)
{
    add_span(&occupancy->arena, &occupancy->nodes[node].whole, span);
    for (uint32_t i = 0; i < 2; i++) {
        if (is_on_path(&occupancy->paths[i], node)) {
            add_span(&occupancy->arena, &occupancy->paths[i].spans, span);
        }
    }
    while (node >= 1 && add_span(&occupancy->arena, &occupancy->nodes[node].any, span)) {
        node /= 2;
    }
}

static void add_block(struct pst_lives *lives)
{
    const uint32_t room = lives->room == 0 ? BLOCK : 2 * lives->room;

    lives->first = pst_resize(lives->first, room, sizeof *lives->first);
    lives->last = pst_resize(lives->last, room, sizeof *lives->last);
    lives->begin = pst_resize(lives->begin, room, sizeof *lives->begin);
    lives->end = pst_resize(lives->end, room, sizeof *lives->end);
    for (uint32_t i = lives->room; i < room; i++) {
        lives->first[i] = UINT32_MAX;
        lives->last[i] = 0;
    }
    lives->room = room;
}

static void add_life(struct pst_lives *lives, uint32_t first, uint32_t last, struct pst_span span)
{
    uint32_t at = 0, high = lives->n, n;

    if (lives->n == lives->room) {
        add_block(lives);
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

/* The nodes that make up [left, right) of the leaves, from below. */
static void add_to_nodes(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                         struct pst_span span)
{
    uint32_t left = first + occupancy->n_leaves, right = last + occupancy->n_leaves + 1;

    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) {
            mark_span(occupancy, left++, span);
        }
        if (right & 1) {
            mark_span(occupancy, --right, span);
        }
    }
}

void pst_occupancy_add(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                       uint64_t begin, uint64_t end)
{
    const struct pst_span span = {begin, end};

    if (occupancy->n_leaves == 0) {
        add_life(&occupancy->lives, first, last, span);
    } else {
        add_to_nodes(occupancy, first, last, span);
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

/* Items are placed in the order of their times, so most queries are about the nodes of the last. */
static const struct pst_spans *find_path(struct pst_occupancy *occupancy, uint32_t node,
                                         struct pst_occupancy_path *path)
{
    if (path->node != node) {
        path->node = node;
        path->spans.n = 0;
        for (; node >= 1; node /= 2) {
            const struct pst_spans *whole = &occupancy->nodes[node].whole;

            for (uint32_t i = 0; i < whole->n; i++) {
                add_span(&occupancy->arena, &path->spans, spans_of(whole)[i]);
            }
        }
    }
    return &path->spans;
}

/* Collects the spans taken in [first, last], from the nodes that make it up and those above. */
static void collect(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                    struct query *query)
{
    uint32_t left = first + occupancy->n_leaves, right = last + occupancy->n_leaves + 1;
    uint32_t above_left = left, above_right = right - 1;

    query->n = 0;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) {
            query_spans(query, &occupancy->nodes[left++].any);
        }
        if (right & 1) {
            query_spans(query, &occupancy->nodes[--right].any);
        }
    }
    for (uint32_t level = 0; level < LOW_LEVELS; level++, above_left /= 2, above_right /= 2) {
        query_spans(query, &occupancy->nodes[above_left].whole);
        if (above_right != above_left) {
            query_spans(query, &occupancy->nodes[above_right].whole);
        }
    }
    query_spans(query, find_path(occupancy, above_left, &occupancy->paths[0]));
    if (above_right != above_left) {
        query_spans(query, find_path(occupancy, above_right, &occupancy->paths[1]));
    }
}

/* Returns the first address from `end` on after all spans that touch it. *ret_next: where the next
   span begins. */
static uint64_t skip_taken(struct query *query, uint64_t end, uint64_t *ret_next)
{
    bool moved = true;

    while (moved) {
        moved = false;
        *ret_next = UINT64_MAX;
        for (uint32_t i = 0; i < query->n; i++) {
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
                i--;
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

/* Finds the lives of a block that overlap [first, last], without branches, so as vectors. */
static uint32_t living(const struct pst_lives *lives, uint32_t block, uint32_t first, uint32_t last,
                       uint32_t ret_at[BLOCK])
{
    const uint32_t *firsts = &lives->first[block], *lasts = &lives->last[block];
    uint8_t lives_then[BLOCK];
    uint32_t n = 0;

    for (uint32_t i = 0; i < BLOCK; i++) {
        lives_then[i] = (lasts[i] >= first) & (firsts[i] <= last);
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        ret_at[n] = block + i;
        n += lives_then[i];
    }
    return n;
}

static uint64_t gap_of_list(const struct pst_lives *lives, uint32_t first, uint32_t last,
                            uint64_t size, uint64_t end)
{
    struct gap best = {UINT64_MAX, UINT64_MAX};

    for (uint32_t block = 0; block < lives->n; block += BLOCK) {
        uint32_t at[BLOCK], n = living(lives, block, first, last, at);

        for (uint32_t i = 0; i < n; i++) {
            if (note_gap(&best, end, lives->begin[at[i]], size)) {
                return best.at;
            }
            end = lives->end[at[i]] > end ? lives->end[at[i]] : end;
        }
    }
    return best.at != UINT64_MAX ? best.at : end;
}

uint64_t pst_occupancy_best_gap(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                                uint64_t size, uint64_t origin)
{
    struct gap best = {UINT64_MAX, UINT64_MAX};
    uint64_t end = origin, next;
    struct query query;

    if (occupancy->n_leaves == 0) {
        return gap_of_list(&occupancy->lives, first, last, size, origin);
    }
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
