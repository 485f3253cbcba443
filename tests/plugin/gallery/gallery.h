/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a plugin that tests alone use: what it provides, no needs.
 */
#ifndef TESTS_GALLERY_H
#define TESTS_GALLERY_H

#include <dlfcn.h>

#include <penstock/penstock.h>

/* `parameters`: PST_PLUGIN_PARAMS(...) or PST_PLUGIN_NO_PARAMS; then the capability words. */
#define GALLERY_PLUGIN(plugin_kind, plugin_id, plugin_version, what, parameters, ...)              \
    static const char *const provides[] = {__VA_ARGS__, NULL};                                     \
    static const char *const needs[] = {NULL};                                                     \
    static const struct pst_plugin plugin = {                                                      \
        PST_PLUGIN_HEAD(plugin_kind, plugin_id, plugin_version),                                   \
        .summary = what,                                                                           \
        .reference = "none",                                                                       \
        .license = "Apache-2.0",                                                                   \
        .provides = provides,                                                                      \
        .needs = needs,                                                                            \
        parameters,                                                                                \
        PST_PLUGIN_FUNCTIONS,                                                                      \
    };                                                                                             \
    PST_PLUGIN(plugin)

/* exit(0), or another function of that form, unseen by those who read the list of imports. */
static inline int gallery_call(const char *function)
{
    int (*call)(int) = NULL;

    *(void **)(void *)&call = dlsym(RTLD_DEFAULT, function);
    return call(0);
}

#endif
