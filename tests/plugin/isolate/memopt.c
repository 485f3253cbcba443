/* SPDX-License-Identifier: Apache-2.0
 *
 * Crashes when a partitioner asks what a stage costs: a call inside another plugin's call.
 */
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

static volatile uintptr_t nowhere = 16;

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    *ret_self = (void *)(uintptr_t)host;
    return PST_OK;
}

static void destroy(void *self)
{
}

static pst_status price(void *self, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    *(volatile int *)nowhere = 1;
    return PST_OK;
}

static pst_status plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    return PST_OK;
}

static const struct pst_memopt memopt = {.size = sizeof memopt, .price = price, .plan = plan};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_MEMOPT) == 0 ? &memopt : NULL;
}

static const char *const nothing[] = {NULL};
static const struct pst_param params[1];

static const struct pst_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = PST_ABI_MAJOR,
    .abi_minor = PST_ABI_MINOR,
    .kind = "memopt",
    .id = BAD_ID,
    .version = "0",
    .summary = "Exists to misbehave.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = nothing,
    .needs = nothing,
    .params = params,
    .n_params = 0,
    .param_size = sizeof params[0],
    .config_size = 0,
    .create = create,
    .destroy = destroy,
    .get_interface = get_interface,
};

PST_PLUGIN(plugin)
