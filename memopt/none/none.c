/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps everything that no earlier memory optimizer has decided about.
 */
#include "mem_plugin.h"
#include "optimizer.h"

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    pst_status st = mem_create(host, config, sizeof(struct mem_opt), mem_consider, ret_self);

    if (st == PST_OK) {
        ((struct mem_opt *)*ret_self)->fixed_rule = true;
    }
    return st;
}

PST_DESTROY_NOTHING
PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = mem_price, .plan = mem_plan)

MEM_PLUGIN("none", "1.0", MEM_WORDS("chain", "dag"), MEM_NO_WORDS,
           .summary = "Keeps every saved tensor on the device.", .reference = "none",
           PST_PLUGIN_NO_PARAMS)
