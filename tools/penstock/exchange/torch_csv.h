/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders as the CSV files that torch.distributed.pipelining loads: a row a rank, a cell an action,
 * stage, letters, micro-batch. penstock's B is PyTorch's I, its BW is PyTorch's B.
 */
#ifndef PST_EXCHANGE_TORCH_CSV_H
#define PST_EXCHANGE_TORCH_CSV_H

#include "plan/plan.h"
#include "planner/order_question.h"

enum pst_torch_flavour {
    PST_TORCH_COMPUTE, /* passes alone; PyTorch adds the rest. The canonical text of an order */
    PST_TORCH_COMMS,   /* with sends and receives in the order in which PyTorch adds them */
    PST_TORCH_WAITS    /* and with the waits and gradient reductions that PyTorch wants there since
                          it loads files with WAIT_SEND */
};

extern const char *const pst_torch_flavours[]; /* their names; ended by NULL */

struct pst_torch_order {
    uint32_t n_ranks, n_stages, n_microbatches;
    const uint32_t *rank_of;              /* per stage */
    const struct pst_pass *const *passes; /* [rank][position] */
    const uint32_t *n_passes;
};

/*
 * The file's text: cells joined by commas, every row ended by LF, no empty cells. R has no letter
 * there and is left out. free() it. PST_ERR_BUG plan.illegal: the order cannot be satisfied, which
 * only the flavours with communication find out.
 */
pst_status pst_torch_csv(const struct pst_torch_order *order, enum pst_torch_flavour flavour,
                         char **ret_text, struct pst_error *err);

/*
 * Makes the text from a plan. *ret_n_dropped: operators whose results are not kept and R passes,
 * which the file omits. output.form, exit code 1, for what has no spelling: stages that are not a
 * chain, micro-batches of different sizes, replicas, versions of weights.
 */
pst_status pst_torch_csv_of_plan(const struct pst_plan *plan, enum pst_torch_flavour flavour,
                                 char **ret_text, uint32_t *ret_n_dropped, struct pst_error *err);

/* Makes the text from the answer of a scheduler that was asked alone. */
pst_status pst_torch_csv_of_answer(const struct pst_order_question *asked,
                                   const struct pst_orders *answer, enum pst_torch_flavour flavour,
                                   char **ret_text, struct pst_error *err);

#endif
