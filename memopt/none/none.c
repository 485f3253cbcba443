/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps everything that no earlier memory optimizer has decided about.
 */
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

static const char *const provides[] = {"chain", "dag", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("memopt", "none", "1.0"),
    .summary = "Keeps every saved tensor on the device.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_NO_PARAMS,
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
