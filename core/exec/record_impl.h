/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder and who tells it. Private to exec.
 */
#ifndef PST_EXEC_RECORD_IMPL_H
#define PST_EXEC_RECORD_IMPL_H

#include "exec/record.h"

struct exec_list;
struct exec_rank;
struct exec_task;

/* One run of a section, as it is recorded: times of its instructions, 0 where none is known. */
struct exec_visit {
    uint64_t t;
    uint32_t section, first_instr, n_instrs;
    uint64_t *start, *end;
    uint64_t *stall; /* of passes: in which they stood still for copies */
};

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

/* Of a rank, on its thread; NULL where nothing is recorded. */
struct exec_visit *exec_record_enter(struct exec_rank *rank, const struct exec_list *list,
                                     uint32_t section, const struct exec_task *task);
/* Visits may be NULL. It took place; further pieces widen it. */
void exec_record_copied(struct exec_visit *visit, uint32_t instr, uint64_t start, uint64_t end);
/* A pass stood still, once more. */
void exec_record_stall(struct exec_visit *visit, uint32_t instr, uint64_t ns);

/* Instructions. */
uint32_t record_longest_section(const struct pst_program *program);

#endif
