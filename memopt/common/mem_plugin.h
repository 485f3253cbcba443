/* SPDX-License-Identifier: Apache-2.0
 *
 * What every memory optimizer says or asks: whether to stop, for memory; and the end of it, its
 * description, before which create(), destroy() and get_interface() stand.
 */
#ifndef MEMOPT_COMMON_MEM_PLUGIN_H
#define MEMOPT_COMMON_MEM_PLUGIN_H

#include <penstock/penstock.h>

/* Does the host ask to stop? An answer within 50 ms is expected, so ask every few milliseconds. */
static inline bool mem_stopped(const struct pst_host *host)
{
    return host->cancelled != NULL && host->cancelled(host);
}

/* n elements of the instance's memory; *there turns false where there is none. */
static inline void *mem_take(const struct pst_host *host, size_t n, size_t size, bool *there)
{
    void *memory = host->alloc(host, n * size, _Alignof(max_align_t));

    *there = *there && memory != NULL;
    return memory;
}

#define MEM_TAKE(host, pointer, n, there)                                                          \
    ((pointer) = mem_take((host), (n), sizeof *(pointer), (there)))

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
