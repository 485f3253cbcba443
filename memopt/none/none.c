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

static const char *const provides[] = {"chain", "dag", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = PST_ABI_MAJOR,
    .abi_minor = PST_ABI_MINOR,
    .kind = "memopt",
    .id = "none",
    .version = "1.0",
    .summary = "Keeps every saved tensor on the device.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    .params = NULL,
    .n_params = 0,
    .param_size = sizeof(struct pst_param),
    .config_size = 0,
    .create = create,
    .destroy = mem_destroy,
    .get_interface = mem_get_interface,
};

PST_PLUGIN(plugin)
