/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages that a scheduler needs: how many, and the device of each.
 */
#ifndef PST_PLANNER_TOPOLOGY_H
#define PST_PLANNER_TOPOLOGY_H

#include "host/plugin_host.h"

#define PST_TOPOLOGY_MAX_STAGES (1u << 20)
/* Capability word and parameter of a scheduler that orders passes of slices of sequences. */
#define PST_SLICES_WORD  "sequence-slices"
#define PST_SLICES_PARAM "slices"

/* Calls topology(). A plan of whole sequences has 1 slice. Errors: those of the call; plan.illegal
 * for an answer that breaks a rule. */
pst_status pst_scheduler_topology(struct pst_instance *scheduler, uint32_t n_devices,
                                  struct pst_topology *ret_topology, struct pst_error *err);

/* The devices of n_stages stages. If topology() leaves the number open, there are at most as many
   stages as devices. plan.illegal if device_of() breaks a rule. */
pst_status pst_scheduler_devices(struct pst_instance *scheduler,
                                 const struct pst_topology *topology, uint32_t n_devices,
                                 uint32_t n_stages, uint32_t *ret_device_of, struct pst_error *err);

/* Places that a partitioner may fill: devices, or stages of the scheduler, several to a device. */
struct pst_places {
    uint32_t n, n_stages;      /* n_stages: needed; 0: any */
    uint32_t shared;           /* maximum of stages on a device, of all copies together */
    uint32_t copies;           /* of every stage; 0, 1: one. Others: [copy * n + place] of */
    const uint32_t *device_of; /* [n]; NULL: each is the device of its number */
};

static inline uint32_t pst_places_copies(const struct pst_places *places)
{
    return places->copies > 1 ? places->copies : 1;
}

/* The device of a place in the first copy. */
static inline uint32_t pst_places_device(const struct pst_places *places, uint32_t place)
{
    return places->device_of == NULL ? place : places->device_of[place];
}

/* One place per device if n_stages is 0, else those of device_of, which is kept. False: a stage is
   on a device that does not exist. */
bool pst_places_set(struct pst_places *places, uint32_t n_devices, uint32_t n_stages,
                    const uint32_t *device_of);
/* The places that the scheduler needs; in `arena`. Errors: those of pst_scheduler_devices. */
pst_status pst_places_ask(struct pst_instance *scheduler, const struct pst_topology *topology,
                          uint32_t n_devices, struct pst_arena *arena,
                          struct pst_places *ret_places, struct pst_error *err);

#endif
