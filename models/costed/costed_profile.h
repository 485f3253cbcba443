/* SPDX-License-Identifier: Apache-2.0
 *
 * A measured profile in the place of the roofline: a costed graph whose nodes are the operators of
 * a model.
 */
#ifndef PST_MODELS_COSTED_PROFILE_H
#define PST_MODELS_COSTED_PROFILE_H

#include "graph/costed.h"
#include "graph/graph.h"

/*
 * The node of each operator, [n_ops] in `arena`. Nodes and operators have to be the same, by name,
 * kind, parameters and bytes of the result per sample; else config.value, naming the first that is
 * not: a profile of another model, or of other hyper-parameters.
 */
pst_status pst_profile_bind(const struct pst_costed *profile, const struct pst_graph *graph,
                            struct pst_arena *arena, const uint32_t **ret_nodes,
                            struct pst_error *err);

#endif
