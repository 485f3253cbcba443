/* SPDX-License-Identifier: Apache-2.0
 *
 * A bare host for tests of what memory optimizers share: memory alone. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_MEMOPT_HOST_H
#define PENSTOCK_TESTS_MEMOPT_HOST_H

#include "base/arena.h"

/* Memory that lives until finish_host. */
static inline void *host_alloc(const struct pst_host *host, size_t bytes, size_t align)
{
    void *memory = pst_arena_alloc(host->impl, bytes > 0 ? bytes : 1, align);

    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

static inline struct pst_host make_host(struct pst_arena *arena)
{
    return (struct pst_host){.size = sizeof(struct pst_host), .impl = arena, .alloc = host_alloc};
}

/* Rules under which a search solves the same problem as enumeration. */
static inline struct mem_rules plain_rules(bool offload)
{
    return (struct mem_rules){
        .recompute = true, .offload = offload, .link_target = 1, .staging = 1, .host_part = 1};
}

#endif
