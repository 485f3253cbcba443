/* SPDX-License-Identifier: Apache-2.0
 *
 * Keep, replay or offload, tensor by tensor, for the least period: cheap replays and dear ones
 * offloaded, improved by local search.
 */
#include "tensors.h"

static const struct pst_param params[] = {TENSORS_PARAMS};

TENSORS_PLUGIN(
    "two-ended", "1.0",
    .summary = "Keeps, replays or offloads tensor by tensor, with the least period that fits.",
    .reference = "none")
