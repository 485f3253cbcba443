/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps everything that neither an earlier memory optimizer nor the host has decided about.
 */
#include "mem_plugin.h"
#include "optimizer.h"

MEM_OPTIMIZER(struct mem_opt, mem_consider, true)

MEM_PLUGIN("none", "1.0", MEM_WORDS("chain", "dag"), MEM_NO_WORDS,
           .summary = "Keeps every saved tensor on the device.", .reference = "none",
           PST_PLUGIN_NO_PARAMS)
