/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and their numbers, by hash. The names themselves stay where they are.
 */
#ifndef PST_BASE_NAMES_H
#define PST_BASE_NAMES_H

#include "base/arena.h"

struct pst_name {
    const char *text; /* NULL: free */
    uint32_t number;
};

/* All zero: there are none. */
struct pst_names {
    struct pst_name *slots;
    uint32_t n_slots;
};

#define PST_NO_NAME UINT32_MAX

/* Empty, with room for n in the arena. */
void pst_names_init(struct pst_names *names, struct pst_arena *arena, uint32_t n);
/* PST_NO_NAME, or the number that has this name already. */
uint32_t pst_names_add(struct pst_names *names, const char *text, uint32_t number);
/* PST_NO_NAME where there is none. */
uint32_t pst_names_find(const struct pst_names *names, const char *text);

#endif
