/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scheduler says that a stage holds.
 */
#ifndef PST_PLANNER_HELD_H
#define PST_PLANNER_HELD_H

#include "host/plugin_host.h"

struct pst_scheduler_use {
    struct pst_instance *scheduler;
    const struct pst_topology *topology;
    const uint32_t *device_of; /* [n_places]; counts where topology->n_stages > 0 */
    uint32_t n_places;
};

/* Its own word, or without in_flight() a count on a chain of unit costs; at most all micro-batches,
   of an asynchronous schedule those of two batches. Errors: of the plugin; plan.illegal for an
   answer of 0, and for more weight versions than that can use. */
pst_status pst_scheduler_held(const struct pst_scheduler_use *use, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err);

/* Does it have a word of its own, or is it counted? */
bool pst_scheduler_tells(const struct pst_scheduler_use *use);

/* What an order holds where its devices hold most. */
struct pst_scheduler_count {
    uint32_t *held; /* [n_stages] micro-batches at the peak of the stage's device */
    uint32_t *late; /* [n_stages] those of them that wait for W alone; or NULL */
    bool split;     /* there are passes B and W; of an asynchronous order false */
    bool asynchronous;
};

/* Counts on the chain of unit costs, for all of place->n_stages stages at once; place->stage does
   not matter. The arrays of `count` are the caller's. */
pst_status pst_scheduler_count(const struct pst_scheduler_use *use, const struct pst_place *place,
                               struct pst_scheduler_count *count, struct pst_error *err);
/* What pst_scheduler_held says of a stage, from such a count. */
struct pst_held pst_scheduler_counted(const struct pst_scheduler_count *count, uint32_t stage);

#endif
