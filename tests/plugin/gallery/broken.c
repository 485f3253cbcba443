/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler with exactly one fault, chosen by the FAULT_* macro that it is compiled with.
 */
#include <string.h>

#include <penstock/penstock.h>

struct config {
    int64_t depth;
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
#if defined(FAULT_BUG)
    return pst_failf(host, PST_ERR_BUG, "a list came back empty");
#elif defined(FAULT_ODD_STATUS)
    return 42;
#elif defined(FAULT_INFEASIBLE)
    return pst_failf(host, PST_ERR_INFEASIBLE, "needs at least %d micro-batches", 8);
#else
    *ret_self = (void *)(uintptr_t)host;
    return PST_OK;
#endif
}

static void destroy(void *self)
{
}

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    ret_topology->min_microbatches = 1;
    return PST_OK;
}

#ifdef FAULT_UNDEFINED
pst_status not_there(void);
#endif

static pst_status schedule(void *self, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
#ifdef FAULT_UNDEFINED
    return not_there();
#else
    return PST_OK;
#endif
}

static const struct pst_scheduler scheduler = {
#ifdef FAULT_OLD_INTERFACE
    .size = 8,
#else
    .size = sizeof scheduler,
#endif
    .topology = topology,
#ifndef FAULT_NO_SCHEDULE
    .schedule = schedule,
#else
    .schedule = 0 ? schedule : NULL,
#endif
};

static const void *get_interface(const char *id)
{
#ifdef FAULT_NO_INTERFACE
    return strcmp(id, "pst.scheduler/9") == 0 ? &scheduler : NULL;
#else
    return strcmp(id, PST_SCHEDULER) == 0 ? &scheduler : NULL;
#endif
}

static const struct pst_param params[] = {
#ifdef FAULT_ROW
    PST_PARAM(struct config, depth, PST_PARAM_INT, "99", "1..8", "Stages looked ahead."),
#else
    PST_PARAM(struct config, depth, PST_PARAM_INT, "4", "1..8", "Stages looked ahead."),
#endif
};

static const char *const words[] = {"chain", NULL};

static const struct pst_plugin plugin = {
#if defined(FAULT_TINY)
    .size = 4,
#elif defined(FAULT_SHORT)
    .size = offsetof(struct pst_plugin, create),
#else
    .size = sizeof plugin,
#endif
#ifdef FAULT_MAJOR
    .abi_major = PST_ABI_MAJOR + 1,
#else
    .abi_major = PST_ABI_MAJOR,
#endif
#ifdef FAULT_MINOR
    .abi_minor = PST_ABI_MINOR + 5,
#else
    .abi_minor = PST_ABI_MINOR,
#endif
#ifdef FAULT_KIND
    .kind = "memopt",
#else
    .kind = "scheduler",
#endif
    .id = GALLERY_ID,
    .version = "0",
#ifndef FAULT_NO_SUMMARY
    .summary = "Exists to be refused.",
#endif
    .reference = "none",
    .license = "Apache-2.0",
    .provides = words,
#ifndef FAULT_NO_NEEDS
    .needs = words,
#endif
    .params = params,
    .n_params = 1,
    .param_size = sizeof params[0],
    .config_size = sizeof(struct config),
#ifndef FAULT_NO_CREATE
    .create = create,
#else
    .create = 0 ? create : NULL,
#endif
    .destroy = destroy,
    .get_interface = get_interface,
};

#if defined(FAULT_NO_ENTRY)
PST_EXPORT const struct pst_plugin *some_other_entry(void);
PST_EXPORT const struct pst_plugin *some_other_entry(void)
{
    return &plugin;
}
#elif defined(FAULT_NULL_ENTRY)
PST_EXPORT const struct pst_plugin *pst_plugin_entry(void);
PST_EXPORT const struct pst_plugin *pst_plugin_entry(void)
{
    return plugin.size == 0 ? &plugin : NULL;
}
#else
PST_PLUGIN(plugin)
#endif
