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
#include "plan/layouts.h"
#include "plan/occupancy.h"
#include "plan/program_build.h"

#define ROW        9     /* orders in a row */
#define MANY_ITEMS 20000 /* whose orders take milliseconds: two of three rows */

/* A value to place, and where it came to lie. */
struct item {
    uint64_t size; /* aligned */
    uint64_t begin, bytes;
    uint32_t first, last, value; /* value: the number among those that are placed */
    uint32_t urgency;            /* what is placed first */
    uint64_t weight;             /* of equal urgency the largest first */
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
static void place_items(struct item *items, uint32_t n, uint32_t n_ticks)
{
    uint32_t *times = pst_alloc((size_t)n_ticks + 1, sizeof *times);
    struct pst_occupancy occupancy = {0};
    uint32_t n_times = number_times(items, n, n_ticks, times);

    pst_occupancy_init(&occupancy, n_times);
    sort_items(items, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = times[items[i].first], last = times[items[i].last];

        items[i].begin = 0;
        if (items[i].size > 0) {
            items[i].begin = pst_occupancy_best_gap(&occupancy, first, last, items[i].size, 0);
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

/* The values to place in the arena, or in that of the host; their numbers begin with `number`. */
static uint32_t collect_items(const struct pst_program *program, bool host, uint32_t number,
                              struct item *items)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];
        uint64_t size = pst_value_align(value->bytes);

        if (!value->is_static && (value->kind == PST_V_HOST) == host) {
            items[n] = (struct item){.size = size,
                                     .bytes = value->bytes,
                                     .first = value->first,
                                     .last = value->last,
                                     .value = number + n,
                                     .weight = size};
            n++;
        }
    }
    return n;
}

/* Places n items; the end of the highest. */
static uint64_t place_all(struct item *items, uint32_t n, uint32_t n_ticks)
{
    uint64_t highest = 0;

    place_items(items, n, n_ticks);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = items[i].begin + items[i].bytes;

        highest = end > highest ? end : highest;
    }
    return highest;
}

static void keep_offsets(const struct item *items, uint32_t n, uint64_t *offsets)
{
    for (uint32_t i = 0; i < n; i++) {
        offsets[items[i].value] = items[i].begin;
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
static void move_ahead(struct item *items, uint32_t n, int64_t peak)
{
    for (uint32_t i = 0; i < n; i++) {
        items[i].urgency += (int64_t)(items[i].begin + items[i].size) > peak;
    }
}

/* The first order whose arena ends within the room, else the one whose arena is smallest. With all
   room from ret_layout->low to ->high the same comes of it. */
static void choose_order(const struct pst_program *program, struct item *items, uint32_t n,
                         const struct pst_room *room, struct pst_layout *ret_layout)
{
    const uint32_t n_orders =
        room->peak > room->bytes ? 1 : ROW * (n > MANY_ITEMS ? BY_LIFE : ROWS);
    int64_t best = INT64_MAX, before = INT64_MAX;

    for (uint32_t i = 0; i == 0 || (i < n_orders && best > room->bytes); i++) {
        int64_t end;

        if (i % ROW == 0) {
            begin_row(items, n, i / ROW, program->peak_tick);
        } else {
            move_ahead(items, n, room->peak);
        }
        end = (int64_t)place_all(items, n, program->n_ticks);
        before = best;
        if (end < best) {
            best = end;
            keep_offsets(items, n, ret_layout->offsets);
        }
    }
    ret_layout->end = (uint64_t)best;
    ret_layout->low = best <= room->bytes ? best : INT64_MIN;
    ret_layout->high = best > room->bytes ? best - 1 : before == INT64_MAX ? before : before - 1;
}

/* Places all that is not static; the layout's offsets are the caller's. */
static struct pst_layout find_layout(const struct pst_program *program, const struct pst_room *room)
{
    struct item *items = pst_alloc((size_t)program->n_values + 1, sizeof *items);
    struct pst_layout layout = {
        .offsets = pst_alloc((size_t)program->n_values + 1, sizeof *layout.offsets)};
    uint32_t n = collect_items(program, false, 0, items), n_host;

    choose_order(program, items, n, room, &layout);
    n_host = collect_items(program, true, n, items);
    layout.host_bytes = place_all(items, n_host, program->n_ticks);
    keep_offsets(items, n_host, layout.offsets);
    layout.n = n + n_host;
    free(items);
    return layout;
}

/* Static values lie in front of it. */
static void apply_layout(struct pst_program *program, const struct pst_layout *layout)
{
    uint32_t at = 0;

    for (uint32_t host = 0; host < 2; host++) {
        const uint64_t origin = host ? 0 : program->static_bytes;

        for (uint32_t i = 0; i < program->n_values; i++) {
            struct pst_value *value = &program->values[i];

            if (!value->is_static && (value->kind == PST_V_HOST) == host) {
                value->offset = origin + layout->offsets[at++];
            }
        }
        if (!host && at > 0 && origin + layout->end > program->arena_bytes) {
            program->arena_bytes = origin + layout->end;
        }
    }
    program->host_bytes = layout->host_bytes;
}

void pst_layout_program(struct pst_program *program, uint64_t limit, struct pst_layouts *layouts)
{
    struct pst_layout layout;
    struct pst_room room;
    bool known;

    find_peak(program);
    program->arena_bytes = 0;
    place_static(program);
    room = (struct pst_room){
        .bytes = limit > INT64_MAX ? INT64_MAX : (int64_t)limit - (int64_t)program->static_bytes,
        .peak = (int64_t)program->peak_bytes - (int64_t)program->static_bytes};
    known = layouts != NULL && pst_layouts_find(layouts, program, &room, &layout);
    if (!known) {
        layout = find_layout(program, &room);
    }
    apply_layout(program, &layout);
    if (layouts != NULL && !known) {
        pst_layouts_keep(layouts, program, &room, &layout);
    } else {
        free(layout.offsets);
    }
}
