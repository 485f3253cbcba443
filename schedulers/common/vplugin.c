/* SPDX-License-Identifier: Apache-2.0
 *
 * From a building block to the lists of the devices.
 */
#include "vplugin.h"

pst_status vplugin_build(const struct fixed_question *question, const struct vblock *block,
                         uint32_t cap, struct order *order)
{
    const struct vplugin_config *config = question->self->config;
    struct vtable table;
    pst_status st;

    if (config->variant == VPLUGIN_IMPROVED) {
        st = vblock_search(block, question->p, question->m, cap, &table);
    } else {
        st = vblock_build(block, question->p, question->m, 0, VDRAIN_PUBLISHED, &table);
    }
    if (st == PST_OK) {
        vtable_order(&table, order);
        vtable_finish(&table);
    }
    return st;
}
