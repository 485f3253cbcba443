/* SPDX-License-Identifier: Apache-2.0
 *
 * DawnPiper's halving with wider intervals, then all cuts, then the neighbours of the best by the
 * simulated step.
 */
#include "dawnpiper.h"

static const struct pst_param params[] = {
    DAWNPIPER_PARAMS("pivot3", "1", "auto"),
    PST_PARAM(struct config, steps, PST_PARAM_BOOL, "true", NULL,
              "Moves cuts as long as the simulated step of a job gets shorter."),
};

DAWNPIPER_PLUGIN("tideline", "1.0",
                 .summary = "Memory-aware cuts of the shortest step, priced by the job's memory "
                            "optimizer.",
                 .reference = "none")
