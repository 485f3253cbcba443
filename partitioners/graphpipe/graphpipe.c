/* SPDX-License-Identifier: Apache-2.0
 *
 * GraphPipe: stages as a graph, so that branches of a model run side by side. The least bottleneck
 * of the paper's family of plans.
 */
#include "graph_plugin.h"

static const struct pst_param params[] = {GRAPHPIPE_PARAMS("false", "bottleneck")};

GRAPHPIPE_PLUGIN(
    "graphpipe", "1.1", .summary = "Stages as a graph: branches of a model run side by side.",
    .reference = "Jeon et al., GraphPipe: Improving Performance and Scalability of DNN Training "
                 "with Graph Pipeline Parallelism, ASPLOS 2025")
