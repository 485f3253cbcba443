/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts that were found, by a 128-bit digest of all that they depend on: replicas of a stage have
 * equal values but for the static ones, and so have stages that a search leaves as they were.
 * Offsets are counted from where the static values end. Private to plan, but for the lifetime.
 */
#ifndef PST_PLAN_LAYOUTS_H
#define PST_PLAN_LAYOUTS_H

#include <pthread.h>

#include "base/hash.h"
#include "plan/program.h"

enum { PST_LAYOUTS = 256 };

/* Bytes above the static values: as many as there are, and those that live together at the peak.
   Negative where the static values are more. */
struct pst_room {
    int64_t bytes, peak;
};

struct pst_layout {
    struct pst_hash key;
    uint32_t n;
    uint64_t *offsets; /* [n] of values that are not static, in their order, those in host memory
                          last; NULL: none is kept here */
    int64_t low, high; /* with so much room the same would be found */
    uint64_t end, host_bytes;
};

/* The last ones. All zero: empty. Several threads may use it at a time. */
struct pst_layouts {
    pthread_mutex_t lock;
    struct pst_layout kept[PST_LAYOUTS];
    uint32_t next;
};

void pst_layouts_finish(struct pst_layouts *layouts);

/* Returns true if one is known; ret_layout gets a copy, whose offsets are the caller's. */
bool pst_layouts_find(struct pst_layouts *layouts, const struct pst_program *program,
                      const struct pst_room *room, struct pst_layout *ret_layout);
/* Takes the offsets of a layout that was found for that. */
void pst_layouts_keep(struct pst_layouts *layouts, const struct pst_program *program,
                      const struct pst_room *room, const struct pst_layout *layout);

#endif
