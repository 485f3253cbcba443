/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets: static values first, one behind the other; the others largest first, each into the
 * smallest gap that fits between those already placed whose lives overlap its own (best fit). What
 * is in host memory is placed so in an arena of its own. Where gaps are what makes an arena exceed
 * the limit, other orders are tried, a fixed number of them: three rows, by size, by size with
 * what is alive at the peak first, by size x life; in a row what came to lie above the peak moves
 * ahead again and again. The limit only ends the search, and no order depends on it. So an
 * arena that was found under any limit is found again under its own size as the limit: from a
 * plan's file, in every process.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sort.h"
#include "plan/occupancy.h"
#include "plan/program_build.h"

#define ROW        9     /* orders in a row */
#define MANY_ITEMS 20000 /* whose orders take milliseconds: two of three rows */

/* A value to place, and where it came to lie. */
struct item {
    uint64_t size; /* aligned */
    uint64_t begin;
    uint32_t first, last, value;
    uint32_t urgency; /* what is placed first */
    uint64_t weight;  /* of equal urgency the largest first */
};

/* The keys of the order in which items are placed, the last that counts first. */
enum { VALUE, FIRST, SIZE, WEIGHT, URGENCY, KEYS };

static uint64_t key_of(const struct item *item, uint32_t key)
{
    switch (key) {
    case VALUE:
        return item->value;
    case FIRST:
        return item->first;
    case SIZE:
        return ~item->size;
    case WEIGHT:
        return ~item->weight;
    default:
        return ~(uint64_t)item->urgency;
    }
}

/* The most urgent first, then the heaviest, the largest, the one that lives first. */
static void sort_items(struct item *items, uint32_t n)
{
    struct item *old = memcpy(pst_alloc((size_t)n + 1, sizeof *old), items, n * sizeof *items);
    struct pst_sort_row *rows = pst_alloc((size_t)n + 1, sizeof *rows);

    for (uint32_t i = 0; i < n; i++) {
        rows[i].at = i;
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        for (uint32_t i = 0; i < n; i++) {
            rows[i].key = key_of(&old[rows[i].at], key);
        }
        pst_sort_rows(rows, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        items[i] = old[rows[i].at];
    }
    free(rows);
    free(old);
}

/*
 * A time is a row of ticks at which lives begin and none ends before the last of them. Two lives
 * meet if and only if their times do: between the end of one and the begin of a later one a new
 * time begins. ret_times[tick], of n_ticks, zero before: the last time that does not begin after
 * it. Returns the number of times.
 */
static uint32_t number_times(const struct item *items, uint32_t n, uint32_t n_ticks,
                             uint32_t *ret_times)
{
    enum { BEGINS = 1, ENDS = 2 };
    uint32_t count = 0;
    bool ended = true;

    for (uint32_t i = 0; i < n; i++) {
        ret_times[items[i].first] |= BEGINS;
        ret_times[items[i].last] |= ENDS;
    }
    for (uint32_t t = 0; t < n_ticks; t++) {
        const uint32_t events = ret_times[t];

        if ((events & BEGINS) != 0 && ended) {
            count++;
            ended = false;
        }
        ended = ended || (events & ENDS) != 0;
        ret_times[t] = count > 0 ? count - 1 : 0;
    }
    return count;
}

/* Gives all items their begins, most urgent first. */
static void place_items(struct item *items, uint32_t n, uint32_t n_ticks, uint64_t origin)
{
    uint32_t *times = pst_alloc((size_t)n_ticks + 1, sizeof *times);
    struct pst_occupancy occupancy = {0};
    uint32_t n_times = number_times(items, n, n_ticks, times);

    pst_occupancy_init(&occupancy, n_times);
    sort_items(items, n);
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

/* Largest sum of bytes alive at one tick, the first of several. */
static void find_peak(struct pst_program *program)
{
    uint64_t *rise = pst_alloc((size_t)program->n_ticks + 1, sizeof *rise);
    uint64_t live = 0;

    /* Differences wrap around and cancel out. */
    for (uint32_t i = 0; i < program->n_values; i++) {
        if (program->values[i].kind != PST_V_HOST) {
            rise[program->values[i].first] += program->values[i].bytes;
            rise[program->values[i].last + 1] -= program->values[i].bytes;
        }
    }
    program->peak_bytes = 0;
    for (uint32_t t = 0; t < program->n_ticks; t++) {
        live += rise[t];
        if (live > program->peak_bytes) {
            program->peak_bytes = live;
            program->peak_tick = t;
        }
    }
    free(rise);
}

static void place_static(struct pst_program *program)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        struct pst_value *value = &program->values[i];

        if (value->is_static) {
            value->offset = offset;
            offset += pst_value_align(value->bytes);
            if (value->offset + value->bytes > program->arena_bytes) {
                program->arena_bytes = value->offset + value->bytes;
            }
        }
    }
    program->static_bytes = offset;
}

/* The values to place in the arena, or in that of the host. */
static uint32_t collect_items(const struct pst_program *program, bool host, struct item *items)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];
        uint64_t size = pst_value_align(value->bytes);

        if (!value->is_static && (value->kind == PST_V_HOST) == host) {
            items[n++] = (struct item){.size = size,
                                       .first = value->first,
                                       .last = value->last,
                                       .value = i,
                                       .weight = size};
        }
    }
    return n;
}

/* Places n items from `origin` on; the end of the highest. */
static uint64_t place_from(const struct pst_program *program, struct item *items, uint32_t n,
                           uint64_t origin)
{
    uint64_t highest = 0;

    place_items(items, n, program->n_ticks, origin);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = items[i].begin + program->values[items[i].value].bytes;

        highest = end > highest ? end : highest;
    }
    return highest;
}

static void keep_offsets(struct pst_program *program, const struct item *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        program->values[items[i].value].offset = items[i].begin;
    }
}

/* Rows of orders: by size, by size with what is alive at the peak first, by size x life. */
enum { BY_SIZE, PEAK_FIRST, BY_LIFE, ROWS };

static void begin_row(struct item *items, uint32_t n, uint32_t row, uint32_t peak_tick)
{
    for (uint32_t i = 0; i < n; i++) {
        struct item *item = &items[i];
        uint64_t life = row == BY_LIFE ? item->last - item->first + 1u : 1;

        item->urgency = row == PEAK_FIRST && item->first <= peak_tick && peak_tick <= item->last;
        item->weight = item->size > UINT64_MAX / life ? UINT64_MAX : item->size * life;
    }
}

/* The next order of a row: what lay above the peak in the last one moves ahead. */
static void move_ahead(struct item *items, uint32_t n, uint64_t peak_bytes)
{
    for (uint32_t i = 0; i < n; i++) {
        items[i].urgency += items[i].begin + items[i].size > peak_bytes;
    }
}

/* The first order whose arena ends within the limit, else the one whose arena is smallest. */
static void choose_order(struct pst_program *program, struct item *items, uint32_t n,
                         uint64_t limit)
{
    const uint32_t n_orders =
        program->peak_bytes > limit ? 1 : ROW * (n > MANY_ITEMS ? BY_LIFE : ROWS);
    uint64_t best = UINT64_MAX;

    for (uint32_t i = 0; i == 0 || (i < n_orders && best > limit); i++) {
        uint64_t end;

        if (i % ROW == 0) {
            begin_row(items, n, i / ROW, program->peak_tick);
        } else {
            move_ahead(items, n, program->peak_bytes);
        }
        end = place_from(program, items, n, program->static_bytes);
        if (end < best) {
            best = end;
            keep_offsets(program, items, n);
        }
    }
    program->arena_bytes = best > program->arena_bytes ? best : program->arena_bytes;
}

void pst_layout_program(struct pst_program *program, uint64_t limit)
{
    struct item *items = pst_alloc((size_t)program->n_values + 1, sizeof *items);
    uint32_t n;

    find_peak(program);
    program->arena_bytes = 0;
    place_static(program);
    n = collect_items(program, false, items);
    choose_order(program, items, n, limit);
    n = collect_items(program, true, items);
    program->host_bytes = place_from(program, items, n, 0);
    keep_offsets(program, items, n);
    free(items);
}
