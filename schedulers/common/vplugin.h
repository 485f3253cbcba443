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

/* Orders all passes: of `block` alone, or of the best block that holds at most `cap` chunks. */
pst_status vplugin_build(const struct fixed_question *question, const struct vblock *block,
                         uint32_t cap, struct order *order);

#endif
