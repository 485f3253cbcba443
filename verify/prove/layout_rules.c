/* SPDX-License-Identifier: Apache-2.0
 *
 * MEM1, MEM3: buffers are large enough, aligned, apart from each other while they live, and
 * together within the capacity. One sweep over the ticks: the live buffers mark the stretches of
 * the arena, between all begins and ends, that they cover.
 */
#include "prove/internal.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/sort.h"
#include "base/util.h"

/* The least that a value must hold by its kind. Of a parameter in pieces the rank has its own, but
   for the weights that passes read. */
static uint64_t least_bytes(const struct pst_check *check, const struct pst_value *value,
                            uint32_t rank)
{
    const struct pst_graph *graph = check->graph;
    uint32_t samples = pst_plan_samples(&check->plan->stages[value->stage]);
    uint32_t member = pst_check_replica(check, rank, value->stage);
    struct pst_op_grad grad;
    uint64_t elems;
    switch (value->kind) {
    case PST_V_GATHERED:
        return graph->params[value->what].elems * pst_dtype_bytes(graph->params[value->what].dtype);
    case PST_V_WORKING:
        elems = member != PST_NONE && pst_check_gathers(check, value->what)
                    ? pst_check_piece(check, value->what, member).elems
                    : graph->params[value->what].elems;
        return elems * pst_dtype_bytes(graph->params[value->what].dtype);
    case PST_V_WEIGHT:
    case PST_V_TIE:
    case PST_V_OPTIMIZER:
        if (member != PST_NONE &&
            (value->kind != PST_V_WEIGHT || graph->params[value->what].dtype != PST_F32 ||
             pst_check_gathers(check, value->what))) {
            return pst_check_piece(check, value->what, member).elems * sizeof(float);
        }
        return graph->params[value->what].elems * sizeof(float);
    case PST_V_GRAD:
        if (member != PST_NONE && pst_check_scatters(check, value->what)) {
            return pst_check_piece(check, value->what, member).elems * sizeof(float);
        }
        return graph->params[value->what].elems * sizeof(float);
    case PST_V_SCRATCH:
        return graph->params[value->what].elems * sizeof(float);
    case PST_V_STATE:
        return value->slot < graph->ops[value->what].n_state
                   ? graph->ops[value->what].state_elems[value->slot] * sizeof(float)
                   : UINT64_MAX;
    case PST_V_Z:
        pst_op_grad_info(graph, value->what, &grad);
        return value->slot < grad.n_z
                   ? grad.z_elems[value->slot] * pst_dtype_bytes(grad.z_dtype[value->slot]) *
                         (grad.z_batched[value->slot] ? samples : 1)
                   : UINT64_MAX;
    case PST_V_WORKSPACE:
        return 1;
    case PST_V_PAST:
        return pst_op_past_bytes(graph, value->what) * samples;
    default:
        return pst_check_tensor_bytes(&graph->tensors[value->what], samples);
    }
}

enum { RECENT = 1 << 14 }; /* addresses */

struct stretches {
    uint32_t begin, end;
};

/* The stretches between neighbouring bounds, a bit for each: does something live there? */
struct cover {
    uint64_t *bounds; /* ascending, distinct */
    uint32_t n;       /* bounds */
    uint32_t *index;  /* [RECENT] by find_slot: of a bound that has the slot */
    uint64_t *taken;
    struct stretches *of; /* [value] that it lies on, from when it begins to live */
};

/* Buffers of the device, or those in host memory. */
static bool belongs(const struct pst_value *value, bool host)
{
    return (value->kind == PST_V_HOST) == host;
}

static uint32_t find_slot(uint64_t bound)
{
    return (uint32_t)((bound ^ bound >> 18) / PST_VALUE_ALIGN % RECENT);
}

/* Begins and ends of all buffers. Each micro-batch comes to the same addresses again, so most are
   told apart from one that was met lately, and not sorted. */
static uint32_t collect_bounds(const struct pst_program *program, bool host, uint64_t *recent,
                               struct pst_sort_row *bounds)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < 2 * (uint64_t)program->n_values; i++) {
        const struct pst_value *value = &program->values[i / 2];
        uint64_t bound = value->offset + (i % 2 != 0 ? value->bytes : 0);
        uint64_t *met = &recent[find_slot(bound)];
        if (belongs(value, host) && *met != bound + 1) {
            *met = bound + 1;
            bounds[n++].key = bound;
        }
    }
    return n;
}

static void make_cover(struct pst_check *check, const struct pst_program *program, bool host,
                       struct cover *cover)
{
    struct pst_sort_row *rows = pst_alloc(2 * (size_t)program->n_values + 1, sizeof *rows);
    uint64_t *recent = pst_check_array(check, RECENT, sizeof *recent);
    uint32_t n = collect_bounds(program, host, recent, rows), kept = 0;
    pst_sort_rows(rows, n);
    cover->bounds = pst_check_array(check, (uint64_t)n + 1, sizeof *cover->bounds);
    cover->index = pst_check_array(check, RECENT, sizeof *cover->index);
    for (uint32_t i = 0; i < n; i++) {
        PST_ASSERT(i == 0 || rows[i - 1].key <= rows[i].key); /* layouts are sorted alike */
        if (i == 0 || rows[i - 1].key != rows[i].key) {
            cover->index[find_slot(rows[i].key)] = kept;
            cover->bounds[kept++] = rows[i].key;
        }
    }
    free(rows);
    cover->n = kept;
    cover->taken = pst_check_array(check, (uint64_t)kept / 64 + 1, sizeof *cover->taken);
    cover->of = pst_check_array(check, program->n_values, sizeof *cover->of);
}

static uint32_t bound_index(const struct cover *cover, uint64_t bound)
{
    const uint32_t at = cover->index[find_slot(bound)];
    return cover->bounds[at] == bound ? at : PST_FIRST(i, cover->n, cover->bounds[i] >= bound);
}

/* Takes the stretches or gives them back; whether one of them was taken. */
static bool mark_cover(struct cover *cover, struct stretches of, bool take)
{
    bool was_taken = false;
    for (uint32_t at = of.begin, next; at < of.end; at = next) {
        uint64_t *word = &cover->taken[at / 64], bits = UINT64_MAX << at % 64;
        next = (at / 64 + 1) * 64;
        bits &= next > of.end ? UINT64_MAX >> (next - of.end) : UINT64_MAX;
        was_taken |= (*word & bits) != 0;
        *word = take ? *word | bits : *word & ~bits;
    }
    return was_taken;
}

/* Values by first and by last tick: a counting sort of indices. */
static uint32_t *by_tick(struct pst_check *check, const struct pst_program *program, bool host,
                         bool first, uint32_t **ret_start)
{
    uint32_t *start = pst_check_array(check, (uint64_t)program->n_ticks + 2, sizeof *start);
    uint32_t *order = pst_check_array(check, (uint64_t)program->n_values + 1, sizeof *order);
    for (uint32_t v = 0; v < program->n_values; v++) {
        const struct pst_value *value = &program->values[v];
        start[(first ? value->first : value->last) + 2] += belongs(value, host);
    }
    for (uint32_t t = 0; t < program->n_ticks; t++) {
        start[t + 2] += start[t + 1];
    }
    for (uint32_t v = 0; v < program->n_values; v++) {
        const struct pst_value *value = &program->values[v];
        if (belongs(value, host)) {
            order[start[(first ? value->first : value->last) + 1]++] = v;
        }
    }
    *ret_start = start;
    return order;
}

static void report_overlap(struct pst_check *check, const struct pst_program *program, uint32_t v,
                           uint32_t tick)
{
    const struct pst_value *self = &program->values[v];
    uint32_t other = 0;
    while (other < program->n_values) {
        const struct pst_value *value = &program->values[other];
        if (other != v && belongs(value, self->kind == PST_V_HOST) && value->first <= tick &&
            value->last >= tick && value->offset < self->offset + self->bytes &&
            self->offset < value->offset + value->bytes) {
            break;
        }
        other++;
    }
    pst_check_add(check, "MEM3", program->rank, PST_NONE,
                  "buffer %u at %llu, %llu bytes, overlaps buffer %u, alive at tick %u", v,
                  (unsigned long long)self->offset, (unsigned long long)self->bytes, other, tick);
}

/* Largest live sum; overlaps are reported on the way. */
static uint64_t sweep_values(struct pst_check *check, const struct pst_program *program, bool host)
{
    struct cover cover = {0};
    uint32_t *start, *until;
    uint32_t *starting = by_tick(check, program, host, true, &start);
    uint32_t *ending = by_tick(check, program, host, false, &until);
    uint64_t live = 0, peak = 0;
    make_cover(check, program, host, &cover);
    for (uint32_t t = 0; t < program->n_ticks; t++) {
        for (uint32_t i = start[t]; i < start[t + 1]; i++) {
            const struct pst_value *value = &program->values[starting[i]];
            struct stretches of = {bound_index(&cover, value->offset),
                                   bound_index(&cover, value->offset + value->bytes)};
            live += value->bytes;
            if (mark_cover(&cover, of, true) && check->report->n_violations < PST_CHECK_MAX) {
                report_overlap(check, program, starting[i], t);
            }
            cover.of[starting[i]] = of;
        }
        peak = live > peak ? live : peak;
        for (uint32_t i = until[t]; i < until[t + 1]; i++) {
            live -= program->values[ending[i]].bytes;
            mark_cover(&cover, cover.of[ending[i]], false);
        }
    }
    return peak;
}

static void check_values(struct pst_check *check, const struct pst_program *program)
{
    for (uint32_t v = 0; v < program->n_values; v++) {
        const struct pst_value *value = &program->values[v];
        uint64_t least = least_bytes(check, value, program->rank);
        if (value->bytes < least) {
            pst_check_add(check, "MEM3", program->rank, PST_NONE,
                          "buffer %u holds %llu bytes, its shape and type need %llu", v,
                          (unsigned long long)value->bytes, (unsigned long long)least);
        }
        if (value->offset % PST_VALUE_ALIGN != 0) {
            pst_check_add(check, "MEM3", program->rank, PST_NONE,
                          "buffer %u starts at %llu, which is not a multiple of %u", v,
                          (unsigned long long)value->offset, PST_VALUE_ALIGN);
        }
        bool persistent = value->kind <= PST_V_STATE;
        if (persistent != value->is_static ||
            (persistent && (value->first != 0 || value->last != program->n_ticks - 1 ||
                            value->offset + value->bytes > program->static_bytes))) {
            pst_check_add(check, "MEM3", program->rank, PST_NONE,
                          "buffer %u: exactly the buffers that outlive the step must be in the "
                          "static part, for all of the list",
                          v);
        }
    }
}

static void check_stated(struct pst_check *check, const struct pst_program *program, uint64_t peak)
{
    const struct pst_plan_device *device = &check->plan->devices[program->rank];
    uint64_t ends[2] = {0, 0};
    for (uint32_t v = 0; v < program->n_values; v++) {
        uint64_t value_end = program->values[v].offset + program->values[v].bytes;
        uint64_t *end_of = &ends[program->values[v].kind == PST_V_HOST];
        *end_of = value_end > *end_of ? value_end : *end_of;
    }
    uint64_t end = ends[0];
    /* A plan whose peaks nobody has filled in states 0. */
    if (program->peak_bytes != peak || program->arena_bytes != end ||
        (device->peak_bytes != 0 && device->peak_bytes != peak) ||
        (device->arena_bytes != 0 && device->arena_bytes != end)) {
        pst_check_add(
            check, "MEM3", program->rank, PST_NONE,
            "peak of %llu and arena of %llu bytes are stated (plan: %llu, %llu), found "
            "%llu and %llu",
            (unsigned long long)program->peak_bytes, (unsigned long long)program->arena_bytes,
            (unsigned long long)device->peak_bytes, (unsigned long long)device->arena_bytes,
            (unsigned long long)peak, (unsigned long long)end);
    }
    if (program->host_bytes != ends[1] ||
        (device->host_bytes != 0 && device->host_bytes != ends[1])) {
        pst_check_add(check, "MEM3", program->rank, PST_NONE,
                      "%llu bytes of host memory are stated (plan: %llu), found %llu",
                      (unsigned long long)program->host_bytes,
                      (unsigned long long)device->host_bytes, (unsigned long long)ends[1]);
    }
    uint64_t capacity = pst_plan_capacity(check->plan, program->rank);
    if (peak > capacity || end > capacity) {
        pst_check_add(check, "MEM1", program->rank, PST_NONE,
                      "%llu bytes live at the peak, %llu allocated; the device has %llu",
                      (unsigned long long)peak, (unsigned long long)end,
                      (unsigned long long)capacity);
    }
}

void pst_check_overlaps(struct pst_check *check, const struct pst_program *program)
{
    sweep_values(check, program, false);
    if (program->n_copies > 0) {
        sweep_values(check, program, true);
    }
}

void pst_check_layout(struct pst_check *check, const struct pst_program *program)
{
    check_values(check, program);
    uint64_t peak = sweep_values(check, program, false);
    if (program->n_copies > 0) {
        sweep_values(check, program, true);
    }
    check_stated(check, program, peak);
}
