/* SPDX-License-Identifier: Apache-2.0
 *
 * Records start and end of every instruction of the last steps of a run. The room is allocated
 * before the run; recording reads the clock twice an instruction: that of the device, if it keeps
 * one, so that all times of a run are of one clock.
 *
 * A pass lasts from its first call to the end of its last. A transfer lasts from when both its ends
 * are there to when its bytes are (on links with times: while it has the link), a reduction from
 * the coming of its last member. Waiting is what lies between.
 */
#ifndef PST_EXEC_RECORD_H
#define PST_EXEC_RECORD_H

#include "base/machine.h"
#include "plan/program.h"

struct pst_recorder;
struct pst_exec;

/* Room for the last n_steps steps (at least 1). Graph, plan and programs outlive the recorder. */
struct pst_recorder *pst_recorder_create(const struct pst_graph *graph, const struct pst_plan *plan,
                                         const struct pst_program *const *programs,
                                         uint32_t n_steps);
void pst_recorder_destroy(struct pst_recorder *recorder);

/* Nothing is recorded of the steps before this one of the executor; 0, as it is at first: all are.
 */
void pst_recorder_skip(struct pst_recorder *recorder, uint64_t n_steps);

/* Where ranks are processes: collects what the others have recorded; all call it while nothing is
   in flight. Their clocks are as far apart as those of their hosts (CLOCK_REALTIME). Of a SEND only
   the post is known, not when the other end came. */
pst_status pst_recorder_gather(struct pst_recorder *recorder, const struct pst_exec *exec,
                               struct pst_error *err);

/* Is there nothing to tell? */
bool pst_recorder_is_empty(const struct pst_recorder *recorder);

/* One instruction that was run; times as they were recorded. */
struct pst_recorded {
    const struct pst_instr *instr;
    uint32_t rank, at; /* its place in its section */
    uint64_t step;     /* that it was run in */
    uint64_t start_ns, end_ns, stall_ns;
    uint64_t bytes; /* that it moves: transfers, copies, reductions */
};

/* Calls row() for every instruction that was recorded, rank by rank, visit by visit. Call it while
   nothing is in flight. */
void pst_recorder_each(const struct pst_recorder *recorder,
                       void (*row)(void *context, const struct pst_recorded *recorded),
                       void *context);

struct pst_recording {
    const struct pst_plan *plan;
    const struct pst_clock *clocks; /* of each rank, where ranks are processes; NULL: one clock */
    uint64_t begin_ns;              /* the first start; UINT64_MAX: no step was recorded */
    uint32_t n_steps;
};
struct pst_recording pst_recorder_recording(const struct pst_recorder *recorder);

#endif
