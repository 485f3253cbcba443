/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scheduler says that a stage holds.
 */
#ifndef PST_PLUGIN_HELD_H
#define PST_PLUGIN_HELD_H

#include "plugin/plugin_host.h"

struct pst_scheduler_use {
    struct pst_instance *scheduler;
    const struct pst_topology *topology;
    const uint32_t *device_of; /* [n_places]; counts where topology->n_stages > 0 */
    uint32_t n_places;
};

/* Its own word, or without in_flight() a count on a chain of unit costs; of a synchronous schedule
   at most all micro-batches. Errors: of the plugin; plan.illegal for an answer of 0. */
pst_status pst_scheduler_held(const struct pst_scheduler_use *use, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err);

/* On the same chain: are there passes B and W, and how many of the micro-batches that each of
   place->n_stages stages holds at the peak of its device wait for W alone? An asynchronous schedule
   counts as one without. */
pst_status pst_scheduler_late(const struct pst_scheduler_use *use, const struct pst_place *place,
                              bool *ret_split, uint32_t *ret_late, struct pst_error *err);

#endif
