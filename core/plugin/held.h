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

#endif
