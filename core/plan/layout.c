/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets: static values first, one behind the other; the others largest first, each into the
 * smallest gap that fits between those already placed whose lives overlap its own (best fit). What
 * is in host memory is placed so in an arena of its own.
 */
#include <stdlib.h>

#include "plan/occupancy.h"
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

/* Gives all items their begins, largest first. False: out of memory. */
static bool place(struct item *items, uint32_t n, uint32_t n_ticks, uint64_t origin)
{
    uint32_t *times = calloc((size_t)n_ticks + 1, sizeof *times);
    struct pst_occupancy occupancy = {0};
    uint32_t n_times = times != NULL ? number_times(items, n, n_ticks, times) : 0;
    bool ok = times != NULL && pst_occupancy_init(&occupancy, n_times);

    if (ok) {
        qsort(items, n, sizeof *items, by_size);
    }
    for (uint32_t i = 0; i < n && ok; i++) {
        uint32_t first = times[items[i].first], last = times[items[i].last];

        items[i].begin = origin;
        if (items[i].size > 0) {
            items[i].begin = pst_occupancy_best_gap(&occupancy, first, last, items[i].size, origin);
            ok = pst_occupancy_add(&occupancy, first, last, items[i].begin,
                                   items[i].begin + items[i].size);
        }
    }
    pst_occupancy_finish(&occupancy);
    free(times);
    return ok;
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
        if (program->values[i].kind != PST_V_HOST) {
            rise[program->values[i].first] += program->values[i].bytes;
            rise[program->values[i].last + 1] -= program->values[i].bytes;
        }
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
        } else if (value->kind != PST_V_HOST) {
            items[n++] = (struct item){align_up(value->bytes), 0, value->first, value->last, i};
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
            items[n++] = (struct item){align_up(value->bytes), 0, value->first, value->last, i};
        }
    }
    return n;
}

/* Places n items from `origin` on; *io_end: the end of the highest. False: out of memory. */
static bool settle(struct pst_program *program, struct item *items, uint32_t n, uint64_t origin,
                   uint64_t *io_end)
{
    if (!place(items, n, program->n_ticks, origin)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct pst_value *value = &program->values[items[i].value];

        value->offset = items[i].begin;
        if (value->offset + value->bytes > *io_end) {
            *io_end = value->offset + value->bytes;
        }
    }
    return true;
}

pst_status pst_layout_program(struct pst_program *program, struct pst_error *err)
{
    struct item *items = malloc(((size_t)program->n_values + 1) * sizeof *items);
    bool ok = items != NULL;

    program->arena_bytes = program->host_bytes = 0;
    if (ok) {
        uint32_t n = place_static(program, items);

        ok = settle(program, items, n, program->static_bytes, &program->arena_bytes);
    }
    if (ok) {
        ok = settle(program, items, collect_host(program, items), 0, &program->host_bytes);
    }
    free(items);
    return ok ? find_peak(program, err) : pst_fail_nomem(err);
}
