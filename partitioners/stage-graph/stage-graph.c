/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages as a graph, of any shape and for the shortest step: GraphPipe's search first, then what is
 * beyond its family of plans.
 */
#include "graph_plugin.h"

static const struct pst_param params[] = {GRAPHPIPE_PARAMS("auto", "step")};

GRAPHPIPE_PLUGIN("stage-graph", "1.0",
                 .summary = "Stages as a graph of any shape, for the shortest step.",
                 .reference = "none")
