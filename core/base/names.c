/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing in a table that is at most half full.
 */
#include "base/names.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void pst_names_init(struct pst_names *names, struct pst_arena *arena, uint32_t n)
{
    uint32_t n_slots = 16;

    while (n_slots < 2 * (uint64_t)n && n_slots < 1u << 31) {
        n_slots *= 2;
    }
    names->n_slots = n_slots;
    names->slots = pst_arena_array(arena, n_slots, sizeof *names->slots);
}

/* Returns the slot of the name, or the free slot where it belongs. */
static struct pst_name *slot_of(const struct pst_names *names, const char *text)
{
    uint32_t mask = names->n_slots - 1, i = (uint32_t)XXH3_64bits(text, strlen(text)) & mask;

    while (names->slots[i].text != NULL && strcmp(names->slots[i].text, text) != 0) {
        i = (i + 1) & mask;
    }
    return &names->slots[i];
}

uint32_t pst_names_add(struct pst_names *names, const char *text, uint32_t number)
{
    struct pst_name *slot = slot_of(names, text);

    if (slot->text != NULL) {
        return slot->number;
    }
    *slot = (struct pst_name){text, number};
    return PST_NONE;
}

uint32_t pst_names_find(const struct pst_names *names, const char *text)
{
    const struct pst_name *slot = names->n_slots > 0 ? slot_of(names, text) : NULL;

    return slot != NULL && slot->text != NULL ? slot->number : PST_NONE;
}
