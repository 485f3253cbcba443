/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the recorder.
 */
#ifndef PST_EXEC_RECORD_IMPL_H
#define PST_EXEC_RECORD_IMPL_H

#include "exec/record.h"

struct exec_visit;

/* The last visits of a rank, in a ring. */
struct record_rank {
    struct exec_visit *visits;
    uint64_t n_entered;
};

struct pst_recorder {
    struct pst_arena arena;
    const struct pst_graph *graph;
    const struct pst_plan *plan;
    const struct pst_program *const *programs;
    uint32_t n_visits, n_steps;
    struct record_rank *ranks;
};

/* Instructions. */
uint32_t record_longest_section(const struct pst_program *program);

#endif
