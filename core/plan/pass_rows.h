/* SPDX-License-Identifier: Apache-2.0
 *
 * What a pass of a stage does, in the order of its program: kernels, and posts and waits of
 * meetings of replicas (gathers.h), which follow each other while kernels run. How long all of that
 * takes.
 */
#ifndef PST_PLAN_PASS_ROWS_H
#define PST_PLAN_PASS_ROWS_H

#include "plan/pass_calls.h"

enum pst_pass_row_kind { PST_ROW_KERNEL, PST_ROW_POST, PST_ROW_WAIT };

struct pst_pass_row {
    uint8_t kind;
    uint32_t at; /* KERNEL: the call. POST, WAIT: the meeting's place among those that are open */
    uint64_t ns; /* POST: of the meeting */
};

struct pst_pass_rows {
    uint32_t n;
    struct pst_pass_row *rows;
};

/* Rows of passes F, B, W and BW, by PST_I_*. */
struct pst_stage_rows {
    uint32_t stage;
    struct pst_pass_calls calls[PST_I_BW + 1];
    struct pst_pass_rows plain[PST_I_BW + 1];  /* that sum no gradients */
    struct pst_pass_rows summed[PST_I_BW + 1]; /* that sum those of their own micro-batch */
};

/* Arrays come from the arena. */
void pst_stage_rows_make(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint32_t stage, struct pst_arena *arena,
                         struct pst_stage_rows *ret_rows);

struct pst_pass_walk {
    const uint64_t *call_ns; /* [call] */
    bool serial;             /* meetings stop kernels: pst_cost_meets_alone */
    uint64_t *until;         /* NULL, or [call] it waits until then; is set to 0 */
    uint64_t *call_end;      /* NULL, or [call] is set */
    uint64_t stall_ns;       /* for `until`, all calls together */
};
/* Returns when a pass that begins at `now` has ended. */
uint64_t pst_pass_walk(const struct pst_pass_rows *rows, struct pst_pass_walk *walk, uint64_t now);

/* Times of the calls of a pass for a micro-batch which is this slice of its sequences. placed:
   passes R replay, so that B does not. ret_ns: [call]. */
void pst_pass_call_ns(const struct pst_plan_stage *stage, const struct pst_cost_model *cost,
                      const struct pst_pass_calls *pass, uint32_t slice, bool placed,
                      uint64_t *ret_ns);

/* pst_plan_pass_ns, with the meetings of replicas: of passes that sum no gradients, and of those
   that sum the ones of their own micro-batch. */
void pst_stage_times(const struct pst_stage_rows *rows, const struct pst_plan *plan,
                     const struct pst_graph *graph, const struct pst_cost_model *cost,
                     uint32_t slice, bool inside, uint64_t *ret_ns, uint64_t *ret_summed_ns);
/* The time that passes of a stage wait for meetings of replicas, if they sum the gradients of their
   own micro-batch, by PST_I_*. Meetings beside kernels take none. */
void pst_stage_waits(const struct pst_plan *plan, const struct pst_graph *graph,
                     const struct pst_cost_model *cost, uint32_t stage,
                     uint64_t ret_ns[PST_I_BW + 1]);

#endif
