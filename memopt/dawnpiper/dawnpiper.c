/* SPDX-License-Identifier: Apache-2.0
 *
 * Keep, replay or offload, tensor by tensor, after DawnPiper (Peng et al., 2025), whose stage
 * planner follows Capuchin (Peng et al., ASPLOS 2020).
 */
#include "tensors.h"

static const struct pst_param params[] = {
    PST_PARAM(struct tensors_config, policy, PST_PARAM_ENUM, "capuchin", "two-ended|capuchin",
              "How actions are chosen: in Capuchin's order; or as memopt \"two-ended\" does."),
    TENSORS_PARAMS,
};

TENSORS_PLUGIN(
    "dawnpiper", "1.1",
    .summary = "Keeps, replays or offloads tensor by tensor, in Capuchin's order.",
    .reference = "Peng et al., DawnPiper: A Memory-scalable Pipeline Parallel Training Framework, "
                 "arXiv 2505.05856, 2025")
