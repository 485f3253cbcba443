/* SPDX-License-Identifier: Apache-2.0
 *
 * Macros for the code that is the same in most plugins. They are source only: nothing here is part
 * of the binary interface, and a plugin may do without any of it.
 *
 *     PST_INSTANCE(my_plugin, struct config)
 *     static pst_status partition(void *self_, ...) { const struct my_plugin *self = self_; ... }
 *     PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)
 *     static const struct pst_plugin plugin = {
 *         PST_PLUGIN_HEAD("partitioner", "my-plugin", "1.0"),
 *         PST_PLUGIN_PARAMS(params, struct config),
 *         PST_PLUGIN_FUNCTIONS,
 *         .summary = "...", ...
 *     };
 *     PST_PLUGIN(plugin)
 *
 * All of it compiles as C++20; PST_INSTANCE and PST_PLUGIN as C++17.
 */
#ifndef PENSTOCK_SIMPLE_H
#define PENSTOCK_SIMPLE_H

#include <string.h>

#include "plugin.h"

/* Members that a table omits, also those of later versions, are NULL: C++ need not warn of them. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

/*
 * An instance of its host and its config alone: writes struct tag and the functions create() and
 * destroy(). A plugin without parameters says `void`. One that keeps more, or looks for extensions
 * when it is made, writes the three itself.
 */
#define PST_INSTANCE(tag, config_type)                                                             \
    typedef config_type tag##_config; /* in C++ a member hides a type of its name */               \
    struct tag {                                                                                   \
        const struct pst_host *host;                                                               \
        const tag##_config *config;                                                                \
    };                                                                                             \
    static pst_status create(const struct pst_host *host, const void *config, void **ret_self)     \
    {                                                                                              \
        struct tag *self = (struct tag *)host->alloc(host, sizeof *self, sizeof(void *));          \
                                                                                                   \
        if (self == NULL) {                                                                        \
            return PST_ERR_NOMEM;                                                                  \
        }                                                                                          \
        self->host = host;                                                                         \
        self->config = (const tag##_config *)config;                                               \
        *ret_self = self;                                                                          \
        return PST_OK;                                                                             \
    }                                                                                              \
    PST_DESTROY_NOTHING

/* destroy() of an instance that has nothing but the host's memory, which goes with it. */
#define PST_DESTROY_NOTHING                                                                        \
    static void destroy(void *self)                                                                \
    {                                                                                              \
        (void)self;                                                                                \
    }

/*
 * A plugin of one interface: writes get_interface(). After the type come the functions that the
 * plugin offers, .name = function each; what is left out is NULL.
 */
#define PST_INTERFACE(interface_id, interface_type, ...)                                           \
    static const interface_type plugin_interface = {.size = sizeof(interface_type), __VA_ARGS__};  \
    static const void *get_interface(const char *id)                                               \
    {                                                                                              \
        return strcmp(id, interface_id) == 0 ? &plugin_interface : NULL;                           \
    }

/* Fields of the description. */
#define PST_PLUGIN_HEAD(plugin_kind, plugin_id, plugin_version)                                    \
    .size = sizeof(struct pst_plugin), .abi_major = PST_ABI_MAJOR, .abi_minor = PST_ABI_MINOR,     \
    .kind = plugin_kind, .id = plugin_id, .version = plugin_version
/* `rows`, an array of struct pst_param, fill a `config_type`. */
#define PST_PLUGIN_PARAMS(rows, config_type)                                                       \
    .params = (rows), .n_params = sizeof(rows) / sizeof((rows)[0]),                                \
    .param_size = sizeof(struct pst_param), .config_size = sizeof(config_type)
/* None. */
#define PST_PLUGIN_NO_PARAMS .param_size = sizeof(struct pst_param)
/* The plugin's functions are called so, written by itself or by the macros above. */
#define PST_PLUGIN_FUNCTIONS .create = create, .destroy = destroy, .get_interface = get_interface

#endif
