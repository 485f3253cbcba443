/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/occupancy.h"

#include <stdlib.h>
#include <string.h>

#define MOST_LISTS 256 /* of one query: four a level, at most 33 levels */

bool pst_occupancy_init(struct pst_occupancy *occupancy, uint32_t n_times)
{
    memset(occupancy, 0, sizeof *occupancy);
    occupancy->n_leaves = 1;
    while (occupancy->n_leaves < n_times && occupancy->n_leaves < 1u << 30) {
        occupancy->n_leaves *= 2;
    }
    occupancy->whole = calloc(2 * (size_t)occupancy->n_leaves, sizeof *occupancy->whole);
    occupancy->any = calloc(2 * (size_t)occupancy->n_leaves, sizeof *occupancy->any);
    return occupancy->n_leaves >= n_times && occupancy->whole != NULL && occupancy->any != NULL;
}

void pst_occupancy_finish(struct pst_occupancy *occupancy)
{
    for (size_t node = 0; node < 2 * (size_t)occupancy->n_leaves; node++) {
        if (occupancy->whole != NULL) {
            free(occupancy->whole[node].at);
        }
        if (occupancy->any != NULL) {
            free(occupancy->any[node].at);
        }
    }
    free(occupancy->whole);
    free(occupancy->any);
    memset(occupancy, 0, sizeof *occupancy);
}

/* First span that ends at `address` or behind it. */
static uint32_t first_from(const struct pst_spans *spans, uint64_t address)
{
    uint32_t low = 0, high = spans->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (spans->at[middle].end < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Most sets hold one or two spans. */
static bool make_room(struct pst_spans *spans)
{
    uint32_t room = spans->room == 0 ? 2 : 2 * spans->room;
    struct pst_span *at;

    if (spans->n < spans->room) {
        return true;
    }
    at = room > spans->room ? realloc(spans->at, room * sizeof *at) : NULL;
    if (at == NULL) {
        return false;
    }
    spans->at = at;
    spans->room = room;
    return true;
}

static bool unite(struct pst_spans *spans, struct pst_span span)
{
    uint32_t from = first_from(spans, span.begin), until = from;

    while (until < spans->n && spans->at[until].begin <= span.end) {
        span.begin = spans->at[until].begin < span.begin ? spans->at[until].begin : span.begin;
        span.end = spans->at[until].end > span.end ? spans->at[until].end : span.end;
        until++;
    }
    if (until == from) {
        if (!make_room(spans)) {
            return false;
        }
        memmove(&spans->at[from + 1], &spans->at[from], (spans->n - from) * sizeof *spans->at);
        spans->n++;
    } else {
        memmove(&spans->at[from + 1], &spans->at[until], (spans->n - until) * sizeof *spans->at);
        spans->n -= until - from - 1;
    }
    spans->at[from] = span;
    return true;
}

static bool mark(struct pst_occupancy *occupancy, uint32_t node, struct pst_span span)
{
    return unite(&occupancy->whole[node], span) && unite(&occupancy->any[node], span);
}

/* The nodes that make up [left, right) of the leaves, from below; then all above its two ends. */
bool pst_occupancy_add(struct pst_occupancy *occupancy, uint32_t first, uint32_t last,
                       uint64_t begin, uint64_t end)
{
    const struct pst_span span = {begin, end};
    uint32_t left = first + occupancy->n_leaves, right = last + occupancy->n_leaves + 1;
    uint32_t above_left = left, above_right = right - 1;
    bool ok = true;

    for (; left < right; left /= 2, right /= 2) {
        if (left & 1) {
            ok = ok && mark(occupancy, left++, span);
        }
        if (right & 1) {
            ok = ok && mark(occupancy, --right, span);
        }
    }
    for (; above_left >= 1; above_left /= 2, above_right /= 2) {
        ok = ok && unite(&occupancy->any[above_left], span);
        if (above_right != above_left) {
            ok = ok && unite(&occupancy->any[above_right], span);
        }
    }
    return ok;
}

struct query {
    const struct pst_spans *lists[MOST_LISTS];
    uint32_t next[MOST_LISTS];
    uint32_t n;
};

static void ask(struct query *query, const struct pst_spans *spans, uint64_t origin)
{
    uint32_t next = first_from(spans, origin);

    if (next < spans->n) {
        query->lists[query->n] = spans;
        query->next[query->n++] = next;
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
            ask(query, &occupancy->any[left++], origin);
        }
        if (right & 1) {
            ask(query, &occupancy->any[--right], origin);
        }
    }
    for (; above_left >= 1; above_left /= 2, above_right /= 2) {
        ask(query, &occupancy->whole[above_left], origin);
        if (above_right != above_left) {
            ask(query, &occupancy->whole[above_right], origin);
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
            const struct pst_spans *list = query->lists[i];
            uint32_t at = query->next[i];

            while (at < list->n && list->at[at].begin <= end) {
                if (list->at[at].end > end) {
                    end = list->at[at].end;
                    moved = true;
                }
                at++;
            }
            query->next[i] = at;
            if (at < list->n) {
                *ret_next = list->at[at].begin < *ret_next ? list->at[at].begin : *ret_next;
            } else {
                query->lists[i] = query->lists[--query->n];
                query->next[i] = query->next[query->n];
                i--;
            }
        }
        moved = moved && *ret_next <= end;
    }
    return end;
}

uint64_t pst_occupancy_best_gap(const struct pst_occupancy *occupancy, uint32_t first,
                                uint32_t last, uint64_t size, uint64_t origin)
{
    uint64_t end = origin, next, best = UINT64_MAX, best_size = UINT64_MAX;
    struct query query;

    collect(occupancy, first, last, origin, &query);
    for (;;) {
        end = skip_taken(&query, end, &next);
        if (next == UINT64_MAX) {
            return best != UINT64_MAX ? best : end;
        }
        if (next - end >= size && next - end < best_size) {
            best = end;
            best_size = next - end;
            if (best_size == size) {
                return best; /* none is smaller */
            }
        }
        end = next;
    }
}
