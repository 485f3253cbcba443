/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets: static values first, one behind the other; the others largest first, each into the
 * smallest gap that fits between those already placed whose lives overlap its own (best fit).
 */
#include <stdlib.h>
#include <string.h>

#include "plan/program_build.h"

/* A value to place, and where it came to lie. */
struct item {
    uint64_t size; /* aligned */
    uint64_t begin;
    uint32_t first, last, value;
};

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + PST_VALUE_ALIGN - 1) & ~(uint64_t)(PST_VALUE_ALIGN - 1);
}

static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->size != y->size) {
        return x->size > y->size ? -1 : 1;
    }
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Smallest gap of at least `size` among the placed items that live with it; placed is by begin. */
static uint64_t best_gap(const struct item *placed, uint32_t n, const struct item *item,
                         uint64_t origin)
{
    uint64_t end = origin, best = UINT64_MAX, best_size = UINT64_MAX;

    for (uint32_t i = 0; i < n; i++) {
        const struct item *other = &placed[i];

        if (other->last < item->first || other->first > item->last) {
            continue;
        }
        if (other->begin >= end + item->size && other->begin - end < best_size) {
            best = end;
            best_size = other->begin - end;
        }
        if (other->begin + other->size > end) {
            end = other->begin + other->size;
        }
    }
    return best != UINT64_MAX ? best : end;
}

/* Keeps `placed` sorted by begin. */
static void insert(struct item *placed, uint32_t n, const struct item *item)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (placed[mid].begin <= item->begin) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    memmove(&placed[lo + 1], &placed[lo], (n - lo) * sizeof *placed);
    placed[lo] = *item;
}

/* Largest sum of bytes alive at one tick. */
static pst_status find_peak(struct pst_program *program, struct pst_error *err)
{
    uint64_t *rise = calloc((size_t)program->n_ticks + 1, sizeof *rise);
    uint64_t live = 0;

    if (rise == NULL) {
        return pst_fail_nomem(err);
    }
    /* Differences wrap around and cancel out. */
    for (uint32_t i = 0; i < program->n_values; i++) {
        rise[program->values[i].first] += program->values[i].bytes;
        rise[program->values[i].last + 1] -= program->values[i].bytes;
    }
    program->peak_bytes = 0;
    for (uint32_t t = 0; t < program->n_ticks; t++) {
        live += rise[t];
        program->peak_bytes = live > program->peak_bytes ? live : program->peak_bytes;
    }
    free(rise);
    return PST_OK;
}

static uint32_t place_static(struct pst_program *program, struct item *items)
{
    uint64_t offset = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        struct pst_value *value = &program->values[i];

        if (value->is_static) {
            value->offset = offset;
            offset += align_up(value->bytes);
            if (value->offset + value->bytes > program->arena_bytes) {
                program->arena_bytes = value->offset + value->bytes;
            }
        } else {
            items[n++] = (struct item){align_up(value->bytes), 0, value->first, value->last, i};
        }
    }
    program->static_bytes = offset;
    return n;
}

pst_status pst_layout_program(struct pst_program *program, struct pst_error *err)
{
    struct item *items = malloc(((size_t)program->n_values + 1) * sizeof *items);
    struct item *placed = malloc(((size_t)program->n_values + 1) * sizeof *placed);
    uint32_t n;

    if (items == NULL || placed == NULL) {
        free(items);
        free(placed);
        return pst_fail_nomem(err);
    }
    program->arena_bytes = 0;
    n = place_static(program, items);
    qsort(items, n, sizeof *items, by_size);
    for (uint32_t i = 0; i < n; i++) {
        struct pst_value *value = &program->values[items[i].value];

        items[i].begin = best_gap(placed, i, &items[i], program->static_bytes);
        insert(placed, i, &items[i]);
        value->offset = items[i].begin;
        if (value->offset + value->bytes > program->arena_bytes) {
            program->arena_bytes = value->offset + value->bytes;
        }
    }
    free(items);
    free(placed);
    return find_peak(program, err);
}
