/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/occupancy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MOST_LISTS 256 /* of one query: four a level, at most 33 levels */

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

static void spans_finish(struct pst_spans *spans)
{
    if (spans->room > 0) {
        free(spans->at);
    }
}

void pst_occupancy_finish(struct pst_occupancy *occupancy)
{
    for (size_t i = 0; occupancy->nodes != NULL && i < 2 * (size_t)occupancy->n_leaves; i++) {
        spans_finish(&occupancy->nodes[i].whole);
        spans_finish(&occupancy->nodes[i].any);
    }
    free(occupancy->nodes);
    free(occupancy->lives);
    memset(occupancy, 0, sizeof *occupancy);
}

static const struct pst_span *spans_of(const struct pst_spans *spans)
{
    return spans->room > 0 ? spans->at : &spans->one;
}

/* First span that ends at `address` or behind it. */
static uint32_t first_from(const struct pst_spans *spans, uint64_t address)
{
    const struct pst_span *at = spans_of(spans);
    uint32_t low = 0, high = spans->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (at[middle].end < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* For one more; where they are. */
static struct pst_span *make_room(struct pst_spans *spans)
{
    uint32_t room = spans->room == 0 ? 4 : 2 * spans->room;

    if (spans->n == 0 && spans->room == 0) {
        return &spans->one;
    }
    if (spans->n >= spans->room) {
        struct pst_span *at = pst_resize(spans->room == 0 ? NULL : spans->at, room, sizeof *at);

        if (spans->room == 0) {
            at[0] = spans->one;
        }
        spans->at = at;
        spans->room = room;
    }
    return spans->at;
}

/* Whether some of it was free before. */
static bool unite(struct pst_spans *spans, struct pst_span span)
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
        at = make_room(spans);
        memmove(&at[from + 1], &at[from], (spans->n - from) * sizeof *at);
        spans->n++;
    } else if (until > from + 1) {
        memmove(&at[from + 1], &at[until], (spans->n - until) * sizeof *at);
        spans->n -= until - from - 1;
    }
    at[from] = span;
    return true;
}

/* Whatever `any` of a node has, that of its parent has, too: upwards until nothing is new. */
static void mark(struct pst_occupancy *occupancy, uint32_t node, struct pst_span span)
{
    unite(&occupancy->nodes[node].whole, span);
    while (node >= 1 && unite(&occupancy->nodes[node].any, span)) {
        node /= 2;
    }
}

static void add_life(struct pst_occupancy *occupancy, const struct pst_life *life)
{
    size_t low = 0, high = occupancy->n_lives;

    pst_grow(&occupancy->lives, &occupancy->room, occupancy->n_lives, sizeof *occupancy->lives);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (occupancy->lives[middle].span.begin < life->span.begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(&occupancy->lives[low + 1], &occupancy->lives[low],
            (occupancy->n_lives - low) * sizeof *life);
    occupancy->lives[low] = *life;
    occupancy->n_lives++;
}

/* The nodes that make up [left, right) of the leaves, from below. */
static void add_to_nodes(struct pst_occupancy *occupancy, const struct pst_life *life)
{
    uint32_t left = life->first + occupancy->n_leaves;
    uint32_t right = life->last + occupancy->n_leaves + 1;

    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) {
            mark(occupancy, left++, life->span);
        }
        if (right & 1) {
            mark(occupancy, --right, life->span);
        }
    }
}

void pst_occupancy_add(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                       uint64_t begin, uint64_t end)
{
    const struct pst_life life = {{begin, end}, first, last};

    if (occupancy->n_leaves == 0) {
        add_life(occupancy, &life);
    } else {
        add_to_nodes(occupancy, &life);
    }
}

/* What is left of a list: from `at` up to `end`. */
struct rest {
    const struct pst_span *at, *end;
};

struct query {
    struct rest lists[MOST_LISTS];
    uint32_t n;
};

static void ask(struct query *query, const struct pst_spans *spans, uint64_t origin)
{
    if (spans->n > 0) {
        const struct pst_span *at = spans_of(spans);
        uint32_t next = first_from(spans, origin);

        if (next < spans->n) {
            query->lists[query->n++] = (struct rest){at + next, at + spans->n};
        }
    }
}

/* What lives in [first, last]: within the nodes that make it up, and around them. */
static void collect(const struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                    uint64_t origin, struct query *query)
{
    uint32_t left = first + occupancy->n_leaves, right = last + occupancy->n_leaves + 1;
    uint32_t above_left = left, above_right = right - 1;

    query->n = 0;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) {
            ask(query, &occupancy->nodes[left++].any, origin);
        }
        if (right & 1) {
            ask(query, &occupancy->nodes[--right].any, origin);
        }
    }
    for (; above_left >= 1; above_left /= 2, above_right /= 2) {
        ask(query, &occupancy->nodes[above_left].whole, origin);
        if (above_right != above_left) {
            ask(query, &occupancy->nodes[above_right].whole, origin);
        }
    }
}

/* From `end`, which is free or the end of something: behind all that touches it. ret_next: where
   the next thing begins. */
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

/* Is [end, next) the best gap there can be? */
static bool note_gap(struct gap *gap, uint64_t end, uint64_t next, uint64_t size)
{
    if (next > end && next - end >= size && next - end < gap->size) {
        *gap = (struct gap){end, next - end};
    }
    return gap->size == size;
}

static uint64_t gap_of_list(const struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                            uint64_t size, uint64_t end)
{
    struct gap best = {UINT64_MAX, UINT64_MAX};

    for (size_t i = 0; i < occupancy->n_lives; i++) {
        const struct pst_life *life = &occupancy->lives[i];

        if (life->last < first || life->first > last) {
            continue;
        }
        if (note_gap(&best, end, life->span.begin, size)) {
            return best.at;
        }
        end = life->span.end > end ? life->span.end : end;
    }
    return best.at != UINT64_MAX ? best.at : end;
}

uint64_t pst_occupancy_best_gap(const struct pst_occupancy *occupancy, uint32_t first,
                                uint32_t last, uint64_t size, uint64_t origin)
{
    struct gap best = {UINT64_MAX, UINT64_MAX};
    uint64_t end = origin, next;
    struct query query;

    if (occupancy->n_leaves == 0) {
        return gap_of_list(occupancy, first, last, size, origin);
    }
    collect(occupancy, first, last, origin, &query);
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
