/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/topology.h"

#include <penstock/memopt_global.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "host/caps.h"
#include "host/plugin_host.h"
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
        return pst_planner_illegal(err, scheduler, "topology() gives %u stages; the maximum is %u",
                                   topology->n_stages, PST_TOPOLOGY_MAX_STAGES);
    }
    if (topology->n_copies > 1 &&
        (topology->n_stages == 0 || topology->n_stages % topology->n_copies != 0 ||
         topology->n_copies > 2 || pst_rule_is_asynchronous(topology->version_rule))) {
        return pst_planner_illegal(err, scheduler,
                                   "topology() gives %u copies of all stages, %u stages together; "
                                   "2 copies are possible if the number of stages is stated and "
                                   "all passes of a step read one version",
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

/* --- logical devices --------------------------------------------------------------------------*/

#define ON_NON_FINITE_SKIP 1 /* train.on_non_finite */

/* Replicas that see pieces of a gradient agree by NORM whether all of it is finite. */
bool pst_planner_barrier(const struct pst_job *job)
{
    return job->train.clip > 0 || job->train.on_non_finite == ON_NON_FINITE_SKIP ||
           job->parallel.zero > 0;
}

bool pst_job_meets(const struct pst_job *job)
{
    return !pst_module_has("device", job->run.device, PST_MODULE_ALONE) &&
           !pst_module_has("transport", job->run.transport, PST_MODULE_IN_STREAMS);
}

/* May a stage have several replicas? Where the job lists tensor degrees, this counts the replicas
   of all of them: a degree may leave too few devices for some. */
static bool has_replicas(const struct pst_planner *planner)
{
    const struct pst_planner_devices *devices = &planner->devices;
    const struct pst_job *job = planner->in.job;
    const bool listed = job->parallel.n_tensors > 1;
    const uint32_t n = listed ? job->train.n_degrees : devices->n_degrees;
    uint32_t i = 0;

    while (i < n && (listed ? job->train.degree[i] : devices->degrees[i]) == 1) {
        i++;
    }
    return i < n;
}

/* Passes meet inside to sum gradients and gather weights: all replicas run the same ones of a
   stage at a time, and those of one batch. */
static pst_status check_meetings(const struct pst_planner *planner, long long zero,
                                 const char *scheduler, struct pst_error *err)
{
    const struct pst_topology *topology = &planner->devices.topology;

    if (pst_rule_is_asynchronous(topology->version_rule)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "parallel.zero = %lld sums every micro-batch at once, but scheduler "
                        "\"%s\" lets batches overlap; set parallel.zero = %d",
                        zero, scheduler, has_replicas(planner) ? 1 : 0);
    }
    return pst_topology_copies(topology) == 1
               ? PST_OK
               : pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "parallel.zero = %lld sums every micro-batch at once, but the two copies "
                          "of the model of scheduler \"%s\" run different ones; set "
                          "parallel.zero = 1",
                          zero, scheduler);
}

/* Is there something for replicas to share, and can they? */
static pst_status check_zero(const struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_planner_devices *devices = &planner->devices;
    const struct pst_topology *topology = &devices->topology;
    const char *scheduler = planner->strategies.scheduler->plugin->id;
    const long long zero = planner->in.job->parallel.zero;

    if (zero == 0) {
        return PST_OK;
    }
    if (topology->version_rule == PST_VERSION_STASHED) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "parallel.zero = %lld updates pieces of the weights once a step, but "
                        "scheduler \"%s\" updates them after every micro-batch; set "
                        "parallel.zero = 0",
                        zero, scheduler);
    }
    if (zero > 1) {
        const pst_status status = check_meetings(planner, zero, scheduler, err);

        if (status != PST_OK) {
            return status;
        }
    }
    return has_replicas(planner) || pst_topology_copies(topology) > 1
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "parallel.zero = %lld shares what replicas keep, and every stage has "
                          "one; set train.degrees",
                          zero);
}

/* Are there as many micro-batches as the scheduler wants? */
static pst_status check_microbatches(const struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_topology *topology = &planner->devices.topology;
    const char *id = planner->strategies.scheduler->plugin->id;
    uint32_t microbatch = (uint32_t)planner->in.job->train.microbatch;
    uint32_t batch = planner->sizes.batch;
    uint32_t m = planner->sizes.n_microbatches * pst_topology_copies(topology);

    if (m < topology->min_microbatches) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "scheduler \"%s\" needs at least %u micro-batches, but batch %u in "
                        "micro-batches of %u gives %u; raise train.batch or lower train.microbatch",
                        id, topology->min_microbatches, batch, microbatch, m);
    }
    if (topology->microbatch_multiple > 1 && m % topology->microbatch_multiple != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "scheduler \"%s\" needs a number of micro-batches that is a multiple of "
                        "%u, but batch %u in micro-batches of %u gives %u; change train.batch or "
                        "train.microbatch",
                        id, topology->microbatch_multiple, batch, microbatch, m);
    }
    return PST_OK;
}

/* Keeps the replica counts for which there are enough devices. */
static pst_status read_degrees(const struct pst_planner_in *in, struct pst_arena *arena,
                               struct pst_planner_devices *devices, struct pst_error *err)
{
    const struct pst_job_train *train = &in->job->train;
    uint32_t *degrees = pst_arena_array(arena, train->n_degrees, sizeof *degrees);

    devices->degrees = degrees;
    for (uint32_t i = 0; i < train->n_degrees; i++) {
        if (train->degree[i] <= in->n_ranks) {
            degrees[devices->n_degrees++] = train->degree[i];
            devices->replicates |= train->degree[i] > 1;
        }
    }
    if (devices->n_degrees == 0 && in->job->parallel.n_tensors > 1) {
        degrees[devices->n_degrees++] = train->degree[0]; /* of stages with fewer parts */
    }
    devices->replicates |= in->n_tensors > 0 || in->job->cuts != NULL;
    return devices->n_degrees > 0
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "train.degrees asks for at least %u replicas of every stage, but there "
                          "are %u devices",
                          train->degree[0], in->n_ranks);
}

/* Two copies take every other micro-batch each: as much as replicas of a stage that take half of
   twice as large a one. */
static pst_status join_copies(const struct pst_strategies *strategies,
                              struct pst_planner_devices *devices, struct pst_planner_sizes *sizes,
                              struct pst_error *err)
{
    const char *id = strategies->scheduler->plugin->id;
    uint32_t copies = pst_topology_copies(&devices->topology);

    if (sizes->n_microbatches % copies != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "scheduler \"%s\" sends as many micro-batches one way as the other, but "
                        "batch %u in micro-batches of %u gives %u; change train.batch or "
                        "train.microbatch",
                        id, sizes->batch, sizes->microbatch, sizes->n_microbatches);
    }
    for (uint32_t i = 0; copies > 1 && i < strategies->n_memopt; i++) {
        const struct pst_plugin *plugin = strategies->memopt[i]->plugin;

        if (plugin->get_interface(PST_MEMOPT_GLOBAL) != NULL) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "memopt \"%s\" supports one copy of each stage; scheduler \"%s\" runs "
                            "two; use another memopt",
                            plugin->id, id);
        }
    }
    sizes->microbatch *= copies;
    sizes->n_microbatches /= copies;
    devices->degree *= copies;
    return PST_OK;
}

/* Every logical device has as many ranks as the first degree says. */
static pst_status divide_evenly(struct pst_planner *planner, uint32_t degree, struct pst_error *err)
{
    struct pst_planner_devices *devices = &planner->devices;
    const struct pst_strategies *strategies = &planner->strategies;
    const struct pst_instance *who =
        devices->topology.n_stages != 0 ? strategies->scheduler : strategies->partitioner;
    uint32_t n_ranks = planner->in.n_ranks, microbatch = planner->sizes.microbatch;

    if (n_ranks % degree != 0 || microbatch % degree != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "with \"%s\" every stage has %u replicas, the first of train.degrees: that "
                        "must divide the %u devices and train.microbatch = %u",
                        who->plugin->id, degree, n_ranks, microbatch);
    }
    devices->degree = devices->width = degree;
    return join_copies(strategies, devices, &planner->sizes, err);
}

/* A partitioner that chooses degrees gives stages ranks. */
static pst_status check_ways(const struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_strategies *strategies = &planner->strategies;

    return planner->in.n_tensors == 0
               ? PST_OK
               : pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "parallel.tensor = [%s] has partitioner \"%s\" choose ranks for stages, "
                          "but scheduler \"%s\" places them; set parallel.tensor to one number, or "
                          "use another scheduler",
                          planner->in.job->parallel.tensor, strategies->partitioner->plugin->id,
                          strategies->scheduler->plugin->id);
}

/* Where the partitioner knows replicas, or chooses degrees, and the scheduler takes any stages, it
   is given all ranks and says which stage has which, or has said so. Everybody else is given
   logical devices of equal size, as though each were one device, and the host deals their samples
   out. */
static pst_status find_devices(struct pst_planner *planner, struct pst_error *err)
{
    const bool knows = planner->in.n_tensors > 0 || planner->in.job->cuts != NULL ||
                       pst_caps_has(planner->strategies.partitioner->plugin->provides, "replicas");
    struct pst_instance *scheduler = planner->strategies.scheduler;
    struct pst_planner_devices *devices = &planner->devices;
    uint32_t n = planner->in.n_ranks, asked;
    pst_status status = read_degrees(&planner->in, &planner->arena, devices, err);

    if (status != PST_OK) {
        return status;
    }
    asked = n % devices->degrees[0] == 0 ? n / devices->degrees[0] : n;
    status = pst_scheduler_topology(scheduler, asked, &devices->topology, err);
    if (status == PST_OK && knows && devices->topology.n_stages == 0) {
        devices->chooses = true;
        devices->degree = devices->width = 1;
        devices->n_logical = n;
        return asked == n ? PST_OK : pst_scheduler_topology(scheduler, n, &devices->topology, err);
    }
    devices->n_logical = asked;
    PST_TRY(status, check_ways(planner, err));
    return status == PST_OK ? divide_evenly(planner, devices->degrees[0], err) : status;
}

/* --- places ------------------------------------------------------------------------------------*/

/* Every divisor of the batch where both strategies know stages of different sizes, else the one
   size of the job; as far as replicas can share them. */
static void offer_sizes(const struct pst_strategies *strategies, uint32_t slices, uint32_t degree,
                        struct pst_arena *arena, struct pst_planner_sizes *sizes)
{
    static const char word[] = "per-stage-microbatch";
    bool several = slices == 1 && /* slices of a sequence stay together */
                   pst_caps_has(strategies->partitioner->plugin->provides, word) &&
                   pst_caps_has(strategies->scheduler->plugin->provides, word) &&
                   pst_caps_executor(word);
    uint32_t b, n = 1, *candidates;

    for (b = 1; several && b <= sizes->batch; b++) {
        n += sizes->batch % b == 0;
    }
    candidates = pst_arena_array(arena, n, sizeof *candidates);
    candidates[0] = sizes->microbatch;
    sizes->n_candidates = 1;
    for (b = 1; several && b <= sizes->batch; b++) {
        if (sizes->batch % b == 0 && b % degree == 0 && b != sizes->microbatch) {
            candidates[sizes->n_candidates++] = b;
        }
    }
    sizes->candidates = candidates;
}

/* Stages that share a device are chunks, which the scheduler must provide. */
static pst_status check_chunks(const struct pst_places *places, const struct pst_plugin *scheduler,
                               struct pst_error *err)
{
    uint32_t most = places->shared / pst_places_copies(places);
    char word[32], what[64];

    if (most <= 1) {
        return PST_OK;
    }
    snprintf(word, sizeof word, "chunks=%u", most);
    snprintf(what, sizeof what, "%u stages on one device", most);
    return pst_caps_require(scheduler, word, what, err);
}

/* The ranks of each place, copy by copy. */
static void deal_ranks(struct pst_planner_devices *devices, struct pst_arena *arena)
{
    const struct pst_places *places = &devices->places;
    uint32_t width = devices->width, degree = devices->degree;

    devices->ranks = pst_arena_array(arena, (size_t)places->n * degree, sizeof *devices->ranks);
    for (uint32_t p = 0; p < places->n; p++) {
        for (uint32_t i = 0; i < degree; i++) {
            uint32_t device = pst_places_device(places, i / width * places->n + p);

            devices->ranks[p * degree + i] = device * width + i % width;
        }
    }
}

/* The graph has been cut by what the scheduler's parameter says. */
static pst_status check_slices(const struct pst_topology *topology, uint32_t slices,
                               const struct pst_instance *scheduler, struct pst_error *err)
{
    if (topology->slices > 1 && pst_rule_is_asynchronous(topology->version_rule)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "scheduler \"%s\": slices with overlapping steps are unsupported; set "
                        "" PST_SLICES_PARAM " = 1",
                        scheduler->plugin->id);
    }
    return topology->slices == slices
               ? PST_OK
               : pst_planner_illegal(
                     err, scheduler,
                     "topology() states %u slices, its parameter \"" PST_SLICES_PARAM "\" %u",
                     topology->slices, slices);
}

/* Can steps overlap with this scheduler, in this job? */
static pst_status check_asynchronous(const struct pst_topology *topology,
                                     const struct pst_plugin *scheduler, const struct pst_job *job,
                                     struct pst_error *err)
{
    pst_status status;

    if (!pst_rule_is_asynchronous(topology->version_rule)) {
        return PST_OK;
    }
    status = pst_caps_require(scheduler, "async", "steps that overlap", err);
    if (status == PST_OK && topology->version_rule == PST_VERSION_STASHED &&
        pst_planner_barrier(job)) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "scheduler \"%s\" has each stage update its weights after every "
                          "micro-batch, so there is no norm of the whole gradient to clip by or to "
                          "look at; set train.clip = 0 and train.on_non_finite = \"stop\"",
                          scheduler->id);
    }
    return status;
}

pst_status pst_planner_place(struct pst_planner *planner, struct pst_error *err)
{
    struct pst_planner_devices *devices = &planner->devices;
    const struct pst_topology *topology = &devices->topology;
    struct pst_instance *scheduler = planner->strategies.scheduler;
    uint32_t slices = planner->in.graph->slices;
    pst_status status = find_devices(planner, err);

    PST_TRY(status, check_zero(planner, err));
    PST_TRY(status, check_slices(topology, slices, scheduler, err));
    PST_TRY(status, check_asynchronous(topology, scheduler->plugin, planner->in.job, err));
    if (!devices->chooses || !devices->replicates) { /* else: once the stages are known */
        PST_TRY(status, check_microbatches(planner, err));
    }
    if (status == PST_OK) {
        offer_sizes(&planner->strategies, slices, devices->degree, &planner->arena,
                    &planner->sizes);
        status = pst_places_ask(scheduler, topology, devices->n_logical, &planner->arena,
                                &devices->places, err);
    }
    if (status == PST_OK) {
        deal_ranks(devices, &planner->arena);
    }
    PST_TRY(status, check_chunks(&devices->places, scheduler->plugin, err));
    return status;
}

pst_status pst_planner_chosen(struct pst_planner *planner, const struct pst_plan *plan,
                              struct pst_error *err)
{
    struct pst_planner_devices *devices = &planner->devices;
    pst_status status;

    if (!devices->chooses || !devices->replicates) {
        return PST_OK;
    }
    status = pst_scheduler_topology(planner->strategies.scheduler, plan->n_stages,
                                    &devices->topology, err);
    return status == PST_OK ? check_microbatches(planner, err) : status;
}

uint64_t pst_planner_host_share(const struct pst_planner *planner)
{
    const struct pst_cuts *cuts = planner->in.job->cuts;
    uint64_t bytes = planner->in.job->run.host_memory;

    if (bytes == 0) {
        return UINT64_MAX;
    }
    bytes /= (cuts != NULL ? cuts->n_ranks
                           : (uint64_t)planner->in.cluster->devices * planner->in.graph->parts) *
             planner->devices.places.shared;
    return bytes > 0 ? bytes : 1; /* 0 would be no limit */
}
