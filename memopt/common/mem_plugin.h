/* SPDX-License-Identifier: Apache-2.0
 *
 * What every memory optimizer says or asks: whether to stop; and the end of it, its description,
 * before which create(), destroy() and get_interface() stand.
 */
#ifndef MEMOPT_COMMON_MEM_PLUGIN_H
#define MEMOPT_COMMON_MEM_PLUGIN_H

#include <penstock/penstock.h>

/* Does the host ask to stop? An answer within 50 ms is expected, so ask every few milliseconds. */
static inline bool mem_stopped(const struct pst_host *host)
{
    return host->cancelled != NULL && host->cancelled(host);
}

/* Capability words. */
#define MEM_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define MEM_NO_WORDS   ((const char *const[]){NULL})

/* words, wanted: what it provides and needs. Then fields: summary, reference, parameters. */
#define MEM_PLUGIN(plugin_id, plugin_version, words, wanted, ...)                                  \
    static const struct pst_plugin plugin = {PST_PLUGIN_HEAD("memopt", plugin_id, plugin_version), \
                                             .license = "Apache-2.0",                              \
                                             .provides = words,                                    \
                                             .needs = wanted,                                      \
                                             PST_PLUGIN_FUNCTIONS,                                 \
                                             __VA_ARGS__};                                         \
    PST_PLUGIN(plugin)

#endif
