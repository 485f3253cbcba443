/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scheduler wants to be given: how many stages, and where each of them sits.
 */
#ifndef PST_PLANNER_TOPOLOGY_H
#define PST_PLANNER_TOPOLOGY_H

#include "host/plugin_host.h"

#define PST_TOPOLOGY_MAX_STAGES (1u << 20)

/* topology(). Errors: as it fails; plan.illegal for an answer that breaks a rule. */
pst_status pst_scheduler_topology(struct pst_instance *scheduler, uint32_t n_devices,
                                  struct pst_topology *ret_topology, struct pst_error *err);

/* The devices of n_stages stages, at most as many as devices where topology() leaves their number
   open. plan.illegal where device_of() breaks a rule. */
pst_status pst_scheduler_devices(struct pst_instance *scheduler,
                                 const struct pst_topology *topology, uint32_t n_devices,
                                 uint32_t n_stages, uint32_t *ret_device_of, struct pst_error *err);

#endif
