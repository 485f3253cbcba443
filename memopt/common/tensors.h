/* SPDX-License-Identifier: Apache-2.0
 *
 * For memory optimizers that keep, replay or offload tensor by tensor: parameters, the search and
 * the end of the plugin.
 */
#ifndef MEMOPT_COMMON_TENSORS_H
#define MEMOPT_COMMON_TENSORS_H

#include "mem_plugin.h"
#include "search.h"

enum { POLICY_TWO_ENDED = 0, POLICY_CAPUCHIN = 1 };

struct tensors_config {
    uint32_t policy;
    const char *allow;
    int64_t staging;
    double link_target, host_memory;
    bool slot_filter;
    uint64_t min_swap_bytes;
};

/* Rows of all but the policy. */
#define TENSORS_PARAMS                                                                             \
    PST_PARAM(struct tensors_config, allow, PST_PARAM_STRING, "recompute,offload", NULL,           \
              "Allowed besides keeping a tensor: one or more of these words, comma-separated."),   \
        PST_PARAM(struct tensors_config, staging, PST_PARAM_INT, "0", "0..1000000",                \
                  "Minimum number of micro-batches whose offloaded tensors have room on the "      \
                  "device; 0: all of the stage."),                                                 \
        PST_PARAM(struct tensors_config, link_target, PST_PARAM_FLOAT, "0.9", "0.01..1",           \
                  "Fraction of the host link's time that a plan may use."),                        \
        PST_PARAM(struct tensors_config, slot_filter, PST_PARAM_BOOL, "true", NULL,                \
                  "Offload only tensors that leave their staging slot again within a period."),    \
        PST_PARAM(struct tensors_config, min_swap_bytes, PST_PARAM_BYTES, "64 KiB", NULL,          \
                  "Tensors with fewer bytes are not offloaded."),                                  \
        PST_PARAM(struct tensors_config, host_memory, PST_PARAM_FLOAT, "0.75", "0..1",             \
                  "Fraction of a stage's host memory that it may use, if `run.host_memory` sets "  \
                  "a limit.")

pst_status tensors_create(const struct pst_host *host, const void *config, void **ret_self);
void tensors_destroy(void *self);
const void *tensors_get_interface(const char *id);

/* `params` stands before it; then fields: summary, reference. */
#define TENSORS_PLUGIN(plugin_id, plugin_version, ...)                                             \
    static const struct pst_plugin plugin = {                                                      \
        PST_PLUGIN_HEAD("memopt", plugin_id, plugin_version),                                      \
        .license = "Apache-2.0",                                                                   \
        .provides = MEM_WORDS("chain", "dag", "alike", "recompute", "offload"),                    \
        .needs = MEM_WORDS("recompute"),                                                           \
        .create = tensors_create,                                                                  \
        .destroy = tensors_destroy,                                                                \
        .get_interface = tensors_get_interface,                                                    \
        PST_PLUGIN_PARAMS(params, struct tensors_config),                                          \
        __VA_ARGS__};                                                                              \
    PST_PLUGIN(plugin)

/*
 * Capuchin's order: free swaps by falling free time, then whatever costs least per byte freed, a
 * swap that is not free or a replay; then what turned out to be superfluous is undone, dearest
 * first. The result is search->starts[0], whether it fits or not. search has begun
 * (mem_search_begin) with one start.
 */
void capuchin_run(struct mem_search *search);

#endif
