/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts of a plan as torch.distributed.pipelining.pipeline() takes them: paths of modules, and on
 * which side of them a stage begins.
 */
#ifndef PST_EXCHANGE_TORCH_SPLIT_H
#define PST_EXCHANGE_TORCH_SPLIT_H

#include "graph/graph.h"
#include "plan/plan.h"

/*
 * A JSON object, a member for each stage but the first: "path": "BEGINNING" or "END", the names of
 * SplitPoint. free() it. output.form, exit code 1: the graph is of no PyTorch module, stages are
 * not runs of its nodes in their order, or a stage begins inside a module that PyTorch splits only
 * before or after it.
 */
pst_status pst_torch_split_of_plan(const struct pst_plan *plan, const struct pst_graph *graph,
                                   char **ret_text, struct pst_error *err);

#endif
