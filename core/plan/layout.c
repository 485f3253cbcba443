/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets: static values first, one behind the other; the others largest first, each into the
 * smallest gap that fits between those already placed whose lives overlap its own (best fit). What
 * is in host memory is placed so in an arena of its own. Where gaps are what makes an arena larger
 * than the device, other orders are tried, a fixed number of them: first what is alive at the peak,
 * largest size x life first, and then again and again with what came to lie too high moved ahead.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "plan/occupancy.h"
#include "plan/program_build.h"

#define MOST_ORDERS 10

/* A value to place, and where it came to lie. */
struct item {
    uint64_t size; /* aligned */
    uint64_t begin;
    uint32_t first, last, value;
    uint32_t urgency; /* what is placed first */
    uint64_t weight;  /* of equal urgency the largest first */
};

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + PST_VALUE_ALIGN - 1) & ~(uint64_t)(PST_VALUE_ALIGN - 1);
}

static int by_weight(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->urgency != y->urgency) {
        return x->urgency > y->urgency ? -1 : 1;
    }
    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    if (x->size != y->size) {
        return x->size > y->size ? -1 : 1;
    }
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return x->value < y->value ? -1 : x->value > y->value;
}

/*
 * Times are the ticks at which lives begin: two lives meet if and only if they do so at one of
 * these. ret_times[tick], of n_ticks: position of the last time that is not after it. The number of
 * times.
 */
static uint32_t number_times(const struct item *items, uint32_t n, uint32_t n_ticks,
                             uint32_t *ret_times)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        ret_times[items[i].first] = 1;
    }
    for (uint32_t t = 0; t < n_ticks; t++) {
        count += ret_times[t];
        ret_times[t] = count > 0 ? count - 1 : 0;
    }
    return count;
}

/* Gives all items their begins, most urgent first. */
static void place(struct item *items, uint32_t n, uint32_t n_ticks, uint64_t origin)
{
    uint32_t *times = pst_alloc((size_t)n_ticks + 1, sizeof *times);
    struct pst_occupancy occupancy = {0};
    uint32_t n_times = number_times(items, n, n_ticks, times);

    pst_occupancy_init(&occupancy, n_times);
    qsort(items, n, sizeof *items, by_weight);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = times[items[i].first], last = times[items[i].last];

        items[i].begin = origin;
        if (items[i].size > 0) {
            items[i].begin = pst_occupancy_best_gap(&occupancy, first, last, items[i].size, origin);
            pst_occupancy_add(&occupancy, first, last, items[i].begin,
                              items[i].begin + items[i].size);
        }
    }
    pst_occupancy_finish(&occupancy);
    free(times);
}

uint32_t pst_program_peak(const struct pst_program *program, uint64_t *ret_bytes)
{
    uint64_t *rise = pst_alloc((size_t)program->n_ticks + 1, sizeof *rise);
    uint64_t live = 0, most = 0;
    uint32_t tick = 0;

    /* Differences wrap around and cancel out. */
    for (uint32_t i = 0; i < program->n_values; i++) {
        if (program->values[i].kind != PST_V_HOST) {
            rise[program->values[i].first] += program->values[i].bytes;
            rise[program->values[i].last + 1] -= program->values[i].bytes;
        }
    }
    for (uint32_t t = 0; t < program->n_ticks; t++) {
        live += rise[t];
        if (live > most) {
            most = live;
            tick = t;
        }
    }
    free(rise);
    *ret_bytes = most;
    return tick;
}

static struct item make_item(const struct pst_value *value, uint32_t i)
{
    uint64_t size = align_up(value->bytes);

    return (struct item){
        .size = size, .first = value->first, .last = value->last, .value = i, .weight = size};
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
        } else if (value->kind != PST_V_HOST) {
            items[n++] = make_item(value, i);
        }
    }
    program->static_bytes = offset;
    return n;
}

static uint32_t collect_host(const struct pst_program *program, struct item *items)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];

        if (value->kind == PST_V_HOST) {
            items[n++] = make_item(value, i);
        }
    }
    return n;
}

/* Places n items from `origin` on; the end of the highest. */
static uint64_t settle(const struct pst_program *program, struct item *items, uint32_t n,
                       uint64_t origin)
{
    uint64_t highest = 0;

    place(items, n, program->n_ticks, origin);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = items[i].begin + program->values[items[i].value].bytes;

        highest = end > highest ? end : highest;
    }
    return highest;
}

static void keep(struct pst_program *program, const struct item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        program->values[items[i].value].offset = items[i].begin;
    }
}

/* The next order: the first two by what is known beforehand, the others by what lay beyond the
   limit in the last one. */
static void reorder(struct item *items, uint32_t n, uint32_t round, uint32_t peak_tick,
                    uint64_t limit)
{
    for (uint32_t i = 0; i < n; i++) {
        struct item *item = &items[i];
        bool at_peak = item->first <= peak_tick && peak_tick <= item->last;
        uint64_t life = item->last - item->first + 1u;

        if (round == 0) {
            item->urgency = at_peak;
        } else if (round == 1) {
            item->urgency = 0;
            item->weight = item->size > UINT64_MAX / life ? UINT64_MAX : item->size * life;
        } else {
            item->urgency += item->begin + item->size > limit;
            item->weight = item->size;
        }
    }
}

/* Until the arena ends within the limit, or as low as it can; the best of several orders. */
static void settle_arena(struct pst_program *program, struct item *items, uint32_t n,
                         uint32_t peak_tick, uint64_t limit)
{
    uint64_t origin = program->static_bytes, best = settle(program, items, n, origin);

    keep(program, items, n);
    for (uint32_t round = 0; round < MOST_ORDERS && best > limit && program->peak_bytes <= limit;
         round++) {
        uint64_t end;

        reorder(items, n, round, peak_tick, limit);
        end = settle(program, items, n, origin);
        if (end < best) {
            best = end;
            keep(program, items, n);
        }
    }
    program->arena_bytes = best > program->arena_bytes ? best : program->arena_bytes;
}

void pst_layout_program(struct pst_program *program, uint64_t limit)
{
    struct item *items = pst_alloc((size_t)program->n_values + 1, sizeof *items);
    uint32_t peak_tick = pst_program_peak(program, &program->peak_bytes), n;

    program->arena_bytes = 0;
    n = place_static(program, items);
    settle_arena(program, items, n, peak_tick, limit);
    n = collect_host(program, items);
    program->host_bytes = settle(program, items, n, 0);
    keep(program, items, n);
    free(items);
}
