/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler in C++20 to start from: one forward, one backward (1F1B). It is complete and legal.
 *
 *   1. Have it copied and renamed:  penstock plugins new --lang c++ scheduler my-plugin
 *   2. Build it unchanged:  cmake -B build && cmake --build build
 *      or, with nothing but a compiler:
 *              c++ -std=c++20 -O2 -fPIC -shared -fvisibility=hidden \
 *                  $(pkg-config --cflags penstock) -o scheduler-my-plugin.so scheduler.cpp
 *   3. Check it:  penstock plugins check build/scheduler-my-plugin.so   (everything passes)
 *   4. Edit, and go on checking. Try it:
 *              PENSTOCK_PLUGIN_PATH=$PWD/build penstock plan CONFIG --set scheduler.use=my-plugin
 *
 * The boundary is C: no exception may cross it, and what goes over are plain structs. The headers
 * in <penstock/> say what every function is promised and must promise; the template in C says more.
 */
#include <algorithm>
#include <new>
#include <vector>

#include <penstock/penstock.h>

/* Keys of [scheduler]; the host fills and checks them before create(). */
struct config {
    int64_t ahead;
};

static const pst_param params[] = {
    PST_PARAM(config, ahead, PST_PARAM_INT, "0", "0..64",
              "Forwards that a stage runs ahead, beyond those that it must."),
};

/* An instance: `host`, what the host offers, and `config`. There may be two at once. */
PST_INSTANCE(my_plugin, config)

struct pass {
    uint32_t kind, microbatch;
};

/* Forwards of a stage before its first backward. */
static uint32_t warm_up(const my_plugin &self, uint32_t stage, uint32_t n_stages,
                        uint32_t n_microbatches)
{
    const uint64_t wanted = n_stages - 1 - stage + static_cast<uint64_t>(self.config->ahead);

    return static_cast<uint32_t>(std::min<uint64_t>(wanted, n_microbatches));
}

static std::vector<pass> order(uint32_t n_microbatches, uint32_t ahead)
{
    std::vector<pass> passes;

    passes.reserve(2 * static_cast<size_t>(n_microbatches));
    for (uint32_t j = 0; j < n_microbatches + ahead; j++) {
        if (j < n_microbatches) {
            passes.push_back({PST_PASS_F, j});
        }
        if (j >= ahead) {
            passes.push_back({PST_PASS_BW, j - ahead});
        }
    }
    return passes;
}

static pst_status topology(void *, uint32_t, pst_topology *ret_topology)
{
    ret_topology->n_stages = 0; /* one stage per device */
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = 1;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

/* (optional) Micro-batches that a stage holds at its peak. Partitioners and memory optimizers plan
   with it, so it must be true. */
static pst_status in_flight(void *self_, const pst_place *place, pst_held *ret_held)
{
    const auto &self = *static_cast<const my_plugin *>(self_);
    const uint32_t ahead = warm_up(self, place->stage, place->n_stages, place->n_microbatches);

    ret_held->microbatches = std::min(ahead + 1, place->n_microbatches);
    ret_held->weight_versions = 1;
    return PST_OK;
}

/* One emit() per pass, each appended to the list of its device. The host adds the transfers. */
static pst_status schedule(void *self_, const pst_schedule_in *in, pst_schedule_out *out)
try {
    const auto &self = *static_cast<const my_plugin *>(self_);

    for (uint32_t s = 0; s < in->n_stages; s++) {
        const pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        const uint32_t ahead = warm_up(self, s, in->n_stages, stage->n_microbatches);

        for (const pass &next : order(stage->n_microbatches, ahead)) {
            const pst_status status = out->emit(out, stage->device, next.kind, s, next.microbatch);

            if (status != PST_OK) {
                return status; /* the host knows what was wrong; pass it on */
            }
        }
    }
    return PST_OK;
} catch (const std::bad_alloc &) {
    return PST_ERR_NOMEM;
}

/* The interface: functions by name, in the order of the header. */
PST_INTERFACE(PST_SCHEDULER, pst_scheduler, .topology = topology, .in_flight = in_flight,
              .schedule = schedule)

/* Capability words: what this schedule can take or may contain, and what it asks of the others. */
static const char *const provides[] = {"chain", nullptr};
static const char *const needs[] = {nullptr};

/* The description. Static and constant; the host reads it before it runs anything else. */
static const pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", "my-plugin", "0.1"),
    .summary = "One forward, one backward.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, config),
    PST_PLUGIN_FUNCTIONS,
    .url = "",
    .vendor = "",
};

/* The one symbol that the shared object exports. */
PST_PLUGIN(plugin)
