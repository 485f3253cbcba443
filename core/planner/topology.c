/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/topology.h"

#include <stdlib.h>

#include "base/memory.h"
#include "host/caps.h"
#include "plan/plan.h"
#include "planner/state.h"

/* The rules of <penstock/scheduler.h>, held against an answer of topology(), and the device that
   device_of() gives a stage. */
static pst_status check_topology(const struct pst_instance *scheduler,
                                 const struct pst_topology *topology, struct pst_error *err)
{
    if (topology->size != sizeof *topology) {
        return pst_planner_illegal(err, scheduler, "topology() changed the size of ret_topology");
    }
    if (topology->n_stages > PST_TOPOLOGY_MAX_STAGES) {
        return pst_planner_illegal(err, scheduler, "topology() wants %u stages; the most is %u",
                                   topology->n_stages, PST_TOPOLOGY_MAX_STAGES);
    }
    if (topology->n_copies > 1 &&
        (topology->n_stages == 0 || topology->n_stages % topology->n_copies != 0 ||
         topology->n_copies > 2 || pst_rule_is_asynchronous(topology->version_rule))) {
        return pst_planner_illegal(err, scheduler,
                                   "topology() wants %u copies of all stages, %u stages together; "
                                   "there may be 2 copies, of a stated number of stages, where all "
                                   "passes of a step read one version",
                                   topology->n_copies, topology->n_stages);
    }
    if (!pst_rule_is_known(topology->version_rule)) {
        return pst_planner_illegal(err, scheduler, "topology() gives the unknown version rule %u",
                                   topology->version_rule);
    }
    if (topology->min_microbatches == 0 || topology->microbatch_multiple == 0) {
        return pst_planner_illegal(err, scheduler,
                                   "topology() asks for at least %u micro-batches, a multiple of "
                                   "%u; both are at least 1",
                                   topology->min_microbatches, topology->microbatch_multiple);
    }
    if (topology->slices > 1 && !pst_caps_has(scheduler->plugin->provides, PST_SLICES_WORD)) {
        return pst_planner_illegal(
            err, scheduler,
            "topology() states %u slices, but the scheduler does not provide " PST_SLICES_WORD,
            topology->slices);
    }
    return PST_OK;
}

static pst_status check_place(const struct pst_instance *scheduler,
                              const struct pst_topology *topology, uint32_t n_devices,
                              uint32_t stage, uint32_t device, struct pst_error *err)
{
    if (device >= n_devices) {
        return pst_planner_illegal(err, scheduler,
                                   "stage %u is placed on device %u, but there are %u", stage,
                                   device, n_devices);
    }
    if (topology->n_stages == 0 && device != stage) {
        return pst_planner_illegal(err, scheduler,
                                   "stage %u is placed on device %u, but topology() leaves the "
                                   "number of stages open, so stage %u must be on device %u",
                                   stage, device, stage, stage);
    }
    return PST_OK;
}

pst_status pst_scheduler_topology(struct pst_instance *scheduler, uint32_t n_devices,
                                  struct pst_topology *ret_topology, struct pst_error *err)
{
    const struct pst_scheduler *f = scheduler->plugin->get_interface(PST_SCHEDULER);
    struct pst_topology topology = {
        .size = sizeof topology,
        .version_rule = PST_VERSION_SYNC,
        .min_microbatches = 1,
        .microbatch_multiple = 1,
    };
    pst_status status;

    pst_instance_enter(scheduler, PST_CRUMB_TOPOLOGY);
    status = f->topology(scheduler->self, n_devices, &topology);
    pst_instance_leave(scheduler);
    if (status != PST_OK) {
        return pst_instance_fail(scheduler, status, "topology", err);
    }
    topology.n_copies = pst_topology_copies(&topology);
    topology.slices += topology.slices == 0;
    status = check_topology(scheduler, &topology, err);
    if (status == PST_OK && topology.n_copies > 1) {
        status =
            pst_caps_require(scheduler->plugin, "two-way", "copies in opposite directions", err);
    }
    if (status == PST_OK) {
        *ret_topology = topology;
    }
    return status;
}

pst_status pst_scheduler_devices(struct pst_instance *scheduler,
                                 const struct pst_topology *topology, uint32_t n_devices,
                                 uint32_t n_stages, uint32_t *ret_device_of, struct pst_error *err)
{
    const struct pst_scheduler *f = scheduler->plugin->get_interface(PST_SCHEDULER);
    pst_status status = PST_OK;

    for (uint32_t s = 0; status == PST_OK && s < n_stages; s++) {
        uint32_t device = s;

        if (PST_CAN(f, device_of)) {
            pst_instance_enter(scheduler, PST_CRUMB_DEVICE_OF);
            device = f->device_of(scheduler->self, n_devices, n_stages, s);
            pst_instance_leave(scheduler);
        }
        status = check_place(scheduler, topology, n_devices, s, device, err);
        ret_device_of[s] = device;
    }
    return status;
}

bool pst_places_set(struct pst_places *places, uint32_t n_devices, uint32_t n_stages,
                    const uint32_t *device_of)
{
    uint32_t *shared = pst_alloc(n_devices, sizeof *shared);
    bool sound = true;

    *places = (struct pst_places){.n = n_stages == 0 ? n_devices : n_stages,
                                  .n_stages = n_stages,
                                  .shared = 1,
                                  .device_of = n_stages == 0 ? NULL : device_of};
    for (uint32_t s = 0; s < n_stages && sound; s++) {
        sound = device_of[s] < n_devices;
        if (sound && ++shared[device_of[s]] > places->shared) {
            places->shared = shared[device_of[s]];
        }
    }
    free(shared);
    return sound;
}

pst_status pst_places_ask(struct pst_instance *scheduler, const struct pst_topology *topology,
                          uint32_t n_devices, struct pst_arena *arena,
                          struct pst_places *ret_places, struct pst_error *err)
{
    uint32_t n = topology->n_stages != 0 ? topology->n_stages : n_devices;
    uint32_t *device_of = pst_arena_array(arena, n, sizeof *device_of);
    pst_status status = pst_scheduler_devices(scheduler, topology, n_devices, n, device_of, err);

    if (status == PST_OK) {
        pst_places_set(ret_places, n_devices, topology->n_stages, device_of);
        ret_places->copies = pst_topology_copies(topology);
        ret_places->n /= ret_places->copies;
        ret_places->n_stages /= ret_places->copies;
    }
    return status;
}

uint64_t pst_planner_host_share(const struct pst_planner *planner)
{
    uint64_t bytes = planner->job->run.host_memory;

    if (bytes == 0) {
        return UINT64_MAX;
    }
    bytes /= (uint64_t)planner->cluster->devices * planner->places.shared;
    return bytes > 0 ? bytes : 1; /* 0 would be no limit */
}
