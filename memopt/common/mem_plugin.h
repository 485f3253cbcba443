/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by all memory optimizers. MEM_PLUGIN, the description, ends a plugin's file, after
 * create(), destroy() and get_interface().
 */
#ifndef MEMOPT_COMMON_MEM_PLUGIN_H
#define MEMOPT_COMMON_MEM_PLUGIN_H

#include "plugin_call.h"

/* The greatest common divisor; of 0 and a number that number. */
static inline uint64_t mem_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
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
