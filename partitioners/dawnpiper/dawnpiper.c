/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory-aware partition node by node after DawnPiper: by halving, with few candidate cuts between
 * the compute-balanced and the memory-balanced position, each stage priced by the job's memory
 * optimizer.
 */
#include "dawnpiper.h"

static const struct pst_param params[] = {
    DAWNPIPER_PARAMS("paper", "0", "binary"),
};

DAWNPIPER_PLUGIN("dawnpiper", "1.1",
                 .summary = "Memory-aware cuts by halving, priced by the job's memory optimizer.",
                 .reference = "after Peng et al., DawnPiper: A Memory-scalable Pipeline Parallel "
                              "Training Framework, arXiv:2505.05856, 2025")
