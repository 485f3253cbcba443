/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin is one shared object, named <kind>-<id>.so with a dot for the id's slash. It exports
 * exactly one symbol, pst_plugin_entry, which PST_PLUGIN defines. Its description is static and
 * constant: the host reads it without running any other code of the plugin.
 *
 * Lifecycle: entry -> (host checks the description and the TOML) -> create -> interface calls
 * -> destroy. Two instances may live at once and share no mutable state. A loaded plugin is never
 * unloaded. A plugin never starts threads that outlive a call, exits, forks, installs signal
 * handlers, changes folder or locale, or decides by time or addresses.
 */
#ifndef PENSTOCK_PLUGIN_H
#define PENSTOCK_PLUGIN_H

#include "host.h"
#include "params.h"

/*
 * Capability words, as used in `provides` and `needs`:
 * chain, dag, replicas, per-stage-microbatch, chunks=N, placement=sequential|looped|vshape|wave,
 * split-backward, weight-versions=N, async, places-recompute, recompute, offload, peer, nested,
 * alike (since 1.6), within-memory, exhaustive, import=FORMAT (a scheduler whose string parameter
 * `file` names a schedule in that format).
 */
struct pst_plugin {
    uint32_t size;
    uint16_t abi_major; /* PST_ABI_MAJOR; must equal the host's */
    uint16_t abi_minor; /* PST_ABI_MINOR it was built with; at most the host's */
    const char *kind;   /* "partitioner", "scheduler", "memopt", "model", "data", "operator" */
    const char *id;     /* lower case, digits and hyphens: "zb-h1"; since 1.6 also with the word of
                           who made it before a slash: "lab/zb-h1" in scheduler-lab.zb-h1.so */
    const char *version, *summary, *reference, *license;
    const char *const *provides, *const *needs; /* each list ends with NULL */
    const struct pst_param *params;
    uint32_t n_params, param_size; /* rows, and sizeof(struct pst_param) */
    size_t config_size;            /* sizeof of the struct that the rows fill */
    /* `config` is filled, checked, and lives until destroy(). [plan] */
    pst_status (*create)(const struct pst_host *host, const void *config, void **ret_self);
    void (*destroy)(void *self); /* accepts NULL. [plan] */
    /* The interface with this id ("pst.scheduler/1"), or NULL. Pure; the result is static. [any] */
    const void *(*get_interface)(const char *id);
    /* Since 1.6, ask PST_HAS; either may be NULL: where the plugin is at home, and who made it. */
    const char *url, *vendor;
};

typedef const struct pst_plugin *pst_plugin_entry_fn(void);

/* Writes the one exported function; PENSTOCK_STATIC_NAME is set where plugins are linked in. */
#ifdef PENSTOCK_STATIC_NAME
#define PST_JOIN_(a, b) a##_LTX_##b
#define PST_JOIN(a, b)  PST_JOIN_(a, b)
#define PST_ENTRY_NAME  PST_JOIN(PENSTOCK_STATIC_NAME, pst_plugin_entry)
#else
#define PST_ENTRY_NAME pst_plugin_entry
#endif
#ifdef __cplusplus
#define PST_EXTERN_C extern "C"
#else
#define PST_EXTERN_C
#endif
#define PST_PLUGIN(description)                                                                    \
    PST_EXTERN_C PST_EXPORT const struct pst_plugin *PST_ENTRY_NAME(void);                         \
    PST_EXTERN_C PST_EXPORT const struct pst_plugin *PST_ENTRY_NAME(void)                          \
    {                                                                                              \
        return &(description);                                                                     \
    }

#endif
