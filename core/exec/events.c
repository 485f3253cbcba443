/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks in the queues of a device: waiting for one, which another rank's failure and the limit on
 * stalls end, and times between two. The latter come from a ring made beforehand and are read when
 * the rank waits for its device anyway, at the latest when their place is needed again.
 */
#include "exec/state.h"

#include <stdio.h>

#include "base/util.h"

#define LOOK_NS 1000000u /* between looks at the others */

enum { MOST_TIMINGS = 4096 };

/* --- waiting ---------------------------------------------------------------------------------- */

static pst_status fail_stalled(const struct exec_rank *rank, const char *what,
                               struct pst_error *err)
{
    char device[64];

    snprintf(device, sizeof device, "its device %s", rank->exec->config.device->id);
    return pst_fail(err, PST_ERR_CANCELLED, "run.stalled",
                    "run stalled: rank %u has waited %.3g s for %s", rank->index,
                    (double)rank->exec->stall_ns / 1e9, what != NULL ? what : device);
}

pst_status exec_await(struct exec_rank *rank, struct pst_mark *mark, const char *what,
                      struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const struct exec_copies *copies = &rank->copies;
    bool passed = device->wait(rank->device, mark, 0);
    const uint64_t begin = passed ? 0 : pst_now_ns();

    while (!passed) {
        passed = device->wait(rank->device, mark, LOOK_NS);
        if (!passed && atomic_load_explicit(&rank->exec->failed, memory_order_relaxed) != 0) {
            return pst_fail(err, PST_ERR_CANCELLED, "run.aborted",
                            "rank %u: another rank stopped the run", rank->index);
        }
        if (!passed && pst_now_ns() - begin >= rank->exec->stall_ns) {
            return fail_stalled(rank, what, err);
        }
    }
    return atomic_load(&copies->broken) ? pst_error_pass(err, &copies->error) : PST_OK;
}

/* --- times ------------------------------------------------------------------------------------ */

pst_status exec_times_init(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const struct pst_program *program = rank->train.program;
    struct exec_times *times = &rank->times;
    /* Rows, the waits for them and for what a section leaves. */
    uint64_t n = 2 * (2 * (uint64_t)program->n_copies + EXEC_DIRECTIONS);
    pst_status status = PST_OK;

    if (rank->exec->config.recorder == NULL && !rank->copies.active) {
        return PST_OK;
    }
    if (rank->exec->config.recorder != NULL) {
        n += 2 * ((uint64_t)program->n_instrs + program->n_parts);
    }
    n = n < MOST_TIMINGS ? n : MOST_TIMINGS;
    times->ring = pst_arena_array(&rank->memory, n, sizeof *times->ring);
    for (uint64_t i = 0; i < n && status == PST_OK; i++) {
        status = device->mark_create(rank->device, true, &times->ring[i].start, err);
        PST_TRY(status, device->mark_create(rank->device, true, &times->ring[i].end, err));
    }
    times->n = status == PST_OK ? (uint32_t)n : 0;
    return status;
}

static void note_times(struct exec_rank *rank, const struct exec_timing *timing)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    uint64_t start = device->mark_ns(rank->device, timing->start);
    uint64_t end = device->mark_ns(rank->device, timing->end);

    if (timing->stall_ns != NULL) {
        *timing->stall_ns += end > start ? end - start : 0;
        exec_record_stall(timing->visit, timing->instr, end > start ? end - start : 0);
        return;
    }
    if (timing->moved != NULL) {
        timing->moved->bytes[timing->direction] += timing->bytes;
        timing->moved->ns[timing->direction] += end > start ? end - start : 0;
    }
    exec_record_copied(timing->visit, timing->instr, start, end);
}

void exec_times_read(struct exec_rank *rank)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    struct exec_times *times = &rank->times;

    while (times->n_read < times->n_put) {
        const struct exec_timing *timing = &times->ring[times->n_read % times->n];

        if (!timing->ready || !device->wait(rank->device, timing->end, 0)) {
            return;
        }
        note_times(rank, timing);
        times->n_read++;
    }
}

struct exec_timing *exec_times_take(struct exec_rank *rank, struct exec_visit *visit,
                                    uint32_t instr)
{
    struct exec_times *times = &rank->times;
    struct exec_timing *timing;

    if (times->n == 0) {
        return NULL;
    }
    timing = &times->ring[times->n_put % times->n];
    if (times->n_put - times->n_read == times->n) { /* it is the oldest */
        if (!timing->ready || times->error.status != PST_OK ||
            exec_await(rank, timing->end, NULL, &times->error) != PST_OK) {
            return NULL;
        }
        exec_times_read(rank);
    }
    times->n_put++;
    timing->ready = false;
    timing->visit = visit;
    timing->instr = instr;
    timing->stall_ns = NULL;
    timing->moved = NULL;
    return timing;
}

void exec_times_put(struct exec_timing *timing)
{
    timing->ready = true;
}

void exec_times_moved(struct exec_rank *rank, struct exec_visit *visit, uint32_t instr)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;
    uint64_t start = 0, end = 0;
    struct exec_timing *timing;

    if (visit == NULL) {
        return;
    }
    if (!rank->async.active || transport->swap == NULL ||
        rank->train.program->instrs[instr].op == PST_I_NORM) {
        transport->span(rank->exec->transport, rank->index, &start, &end);
        exec_record_copied(visit, instr, start, end);
        return;
    }
    timing = exec_times_take(rank, visit, instr);
    if (timing != NULL) {
        transport->swap(rank->exec->transport, rank->index, &timing->start, &timing->end);
        exec_times_put(timing);
    }
}
