/* SPDX-License-Identifier: Apache-2.0
 *
 * When things happened on a device that stands apart: between two marks in the queue that did them,
 * from a ring made beforehand. They are read when the rank waits for its device anyway, at the
 * latest when their place is needed again.
 */
#include "exec/internal.h"
#include "exec/record_impl.h"

enum { MOST_TIMINGS = 4096 };

pst_status exec_times_init(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const struct pst_program *program = rank->train.program;
    struct exec_times *times = &rank->apart.times;
    /* Rows, the waits for them and for what a section leaves. */
    uint64_t n = 2 * (2 * (uint64_t)program->n_copies + EXEC_DIRECTIONS);
    pst_status status = PST_OK;

    if (rank->exec->config.recorder == NULL && !rank->copies.ordered) {
        return PST_OK;
    }
    if (rank->exec->config.recorder != NULL) {
        n += 2 * ((uint64_t)program->n_instrs + program->n_parts);
    }
    n = n < MOST_TIMINGS ? n : MOST_TIMINGS;
    times->ring = pst_arena_array(&rank->memory, n, sizeof *times->ring);
    if (times->ring == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint64_t i = 0; i < n && status == PST_OK; i++) {
        status = device->mark_create(rank->device, true, &times->ring[i].start, err);
        if (status == PST_OK) {
            status = device->mark_create(rank->device, true, &times->ring[i].end, err);
        }
    }
    times->n = status == PST_OK ? (uint32_t)n : 0;
    return status;
}

static void note(struct exec_rank *rank, const struct exec_timing *timing)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    uint64_t start = device->mark_ns(rank->device, timing->start);
    uint64_t end = device->mark_ns(rank->device, timing->end);

    if (timing->stall) {
        rank->copies.stall_ns += end > start ? end - start : 0;
        exec_record_stall(timing->visit, timing->instr, end > start ? end - start : 0);
    } else if (timing->queue != NULL) {
        const struct exec_posting posting = {.instr = timing->instr, .visit = timing->visit};

        exec_copies_note(timing->queue, &posting, timing->copy, start, end);
    } else {
        exec_record_copied(timing->visit, timing->instr, start, end);
    }
}

void exec_times_read(struct exec_rank *rank)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_times *times = &rank->apart.times;

    while (times->n_read < times->n_put) {
        const struct exec_timing *timing = &times->ring[times->n_read % times->n];

        if (!timing->ready || !device->passed(rank->device, timing->end)) {
            return;
        }
        note(rank, timing);
        times->n_read++;
    }
}

struct exec_timing *exec_times_take(struct exec_rank *rank, struct exec_visit *visit,
                                    uint32_t instr)
{
    struct exec_times *times = &rank->apart.times;
    struct exec_timing *timing;

    if (times->n == 0) {
        return NULL;
    }
    timing = &times->ring[times->n_put % times->n];
    if (times->n_put - times->n_read == times->n) { /* it is the oldest */
        if (!timing->ready || times->status != PST_OK) {
            return NULL;
        }
        times->status = exec_await(rank, timing->end, &times->error);
        if (times->status != PST_OK) {
            return NULL;
        }
        exec_times_read(rank);
    }
    times->n_put++;
    timing->ready = false;
    timing->visit = visit;
    timing->instr = instr;
    timing->stall = false;
    timing->queue = NULL;
    return timing;
}

void exec_times_put(struct exec_timing *timing)
{
    timing->ready = true;
}
