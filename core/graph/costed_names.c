/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "graph/costed_impl.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void pst_costed_names_init(struct pst_costed_names *names, const struct pst_costed_node *nodes,
                           uint32_t n)
{
    uint32_t n_slots = 16;

    while (n_slots < 2 * (uint64_t)n && n_slots < 1u << 31) {
        n_slots *= 2;
    }
    names->nodes = nodes;
    names->n_slots = n_slots;
    names->slots = pst_alloc(n_slots, sizeof *names->slots);
}

void pst_costed_names_finish(struct pst_costed_names *names)
{
    free(names->slots);
    memset(names, 0, sizeof *names);
}

/* The slot of the name, or the free one where it would stand. */
static uint32_t find_slot(const struct pst_costed_names *names, const char *name)
{
    uint32_t mask = names->n_slots - 1;
    uint32_t slot = (uint32_t)XXH3_64bits(name, strlen(name)) & mask;

    while (names->slots[slot] != 0 &&
           strcmp(names->nodes[names->slots[slot] - 1].name, name) != 0) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

uint32_t pst_costed_names_add(struct pst_costed_names *names, uint32_t node)
{
    uint32_t slot = find_slot(names, names->nodes[node].name);

    if (names->slots[slot] != 0) {
        return names->slots[slot] - 1;
    }
    names->slots[slot] = node + 1;
    return PST_NONE;
}

uint32_t pst_costed_names_find(const struct pst_costed_names *names, const char *name)
{
    uint32_t slot = find_slot(names, name);

    return names->slots[slot] == 0 ? PST_NONE : names->slots[slot] - 1;
}
