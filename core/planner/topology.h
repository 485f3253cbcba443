/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scheduler wants to be given: how many stages, and where each of them sits.
 */
#ifndef PST_PLANNER_TOPOLOGY_H
#define PST_PLANNER_TOPOLOGY_H

#include "host/plugin_host.h"

#define PST_TOPOLOGY_MAX_STAGES (1u << 20)
/* Capability word and parameter of a scheduler that orders passes of slices of sequences. */
#define PST_SLICES_WORD  "sequence-slices"
#define PST_SLICES_PARAM "slices"

/* topology(); of whole sequences its slices are 1. Errors: as it fails; plan.illegal for an answer
 * that breaks a rule. */
pst_status pst_scheduler_topology(struct pst_instance *scheduler, uint32_t n_devices,
                                  struct pst_topology *ret_topology, struct pst_error *err);

/* The devices of n_stages stages, at most as many as devices where topology() leaves their number
   open. plan.illegal where device_of() breaks a rule. */
pst_status pst_scheduler_devices(struct pst_instance *scheduler,
                                 const struct pst_topology *topology, uint32_t n_devices,
                                 uint32_t n_stages, uint32_t *ret_device_of, struct pst_error *err);

/* Places that a partitioner may fill: devices, or stages of the scheduler, several to a device. */
struct pst_places {
    uint32_t n, n_stages;      /* n_stages: wanted; 0: any */
    uint32_t shared;           /* most stages on a device, those of all copies */
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

/* One place a device where n_stages is 0, else as device_of says, which is kept. False: one of them
   is on a device that there is not. */
bool pst_places_set(struct pst_places *places, uint32_t n_devices, uint32_t n_stages,
                    const uint32_t *device_of);
/* As the scheduler wants them; in `arena`. Errors: of pst_scheduler_devices. */
pst_status pst_places_ask(struct pst_instance *scheduler, const struct pst_topology *topology,
                          uint32_t n_devices, struct pst_arena *arena,
                          struct pst_places *ret_places, struct pst_error *err);

#endif
