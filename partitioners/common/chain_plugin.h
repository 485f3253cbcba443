/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a partitioner that cuts one order into a chain of stages and asks no more of the other
 * strategies than that they take chains. `params` and `partition` stand before it, PST_INSTANCE
 * too; what follows the version are fields of the description, summary and reference. WORDS: two
 * that it provides besides; NULL: none.
 */
#ifndef PARTITIONERS_COMMON_CHAIN_PLUGIN_H
#define PARTITIONERS_COMMON_CHAIN_PLUGIN_H

#include "problem.h"

#define PART_CHAIN_PLUGIN(config_type, plugin_id, plugin_version, ...)                             \
    PART_CHAIN_PLUGIN_WORDS(config_type, plugin_id, plugin_version, NULL, NULL, __VA_ARGS__)
#define PART_CHAIN_PLUGIN_WORDS(config_type, plugin_id, plugin_version, word, other, ...)          \
    PART_PARTITIONER(partition)                                                                    \
    static const char *const chains_alone[] = {"chain", NULL};                                     \
    static const char *const words[] = {"chain", word, other, NULL};                               \
    static const struct pst_plugin plugin = {                                                      \
        PST_PLUGIN_HEAD("partitioner", plugin_id, plugin_version),                                 \
        .license = "Apache-2.0",                                                                   \
        .provides = words,                                                                         \
        .needs = chains_alone,                                                                     \
        PST_PLUGIN_PARAMS(params, config_type),                                                    \
        PST_PLUGIN_FUNCTIONS,                                                                      \
        __VA_ARGS__};                                                                              \
    PST_PLUGIN(plugin)

#endif
