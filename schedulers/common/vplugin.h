/* SPDX-License-Identifier: Apache-2.0
 *
 * For the schedulers that repeat a building block on a V: parameters and the list of passes.
 */
#ifndef SCHEDULERS_COMMON_VPLUGIN_H
#define SCHEDULERS_COMMON_VPLUGIN_H

#include "fixed.h"
#include "vblock.h"

enum { VPLUGIN_PUBLISHED = 0, VPLUGIN_IMPROVED = 1 };

struct vplugin_config {
    uint32_t variant; /* VPLUGIN_* */
};

#define VPLUGIN_VARIANT_ROW                                                                        \
    PST_PARAM(struct vplugin_config, variant, PST_PARAM_ENUM, "published", "published|improved",   \
              "The paper's block, or the best of many blocks at no more memory.")

/* Orders all passes: of the published block alone, or of the best one that holds at most `cap`
   chunks. first, step: slots of f0, f1, b1, b0 of micro-batch 0 on device d are first + d * step;
   modulo 6 all are different. */
void vplugin_build(const struct fixed_question *question, const int32_t first[4],
                   const int32_t step[4], uint32_t cap, struct order *order);

#endif
