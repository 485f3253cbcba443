/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler to start from: all forward passes, then all backward passes. It is complete and
 * legal.
 *
 * To make it yours, in five steps:
 *
 *   1. Copy this folder, or have it copied and renamed:  penstock plugins new scheduler my-plugin
 *   2. Rename: my-plugin, the name that users write, in CMakeLists.txt and in PST_PLUGIN_HEAD;
 *      my_plugin, the name in C. The shared object must be called scheduler-<id>.so.
 *   3. Build it unchanged:  cmake -B build && cmake --build build
 *      or, with nothing but a compiler:
 *              cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags penstock) \
 *                 -o scheduler-my-plugin.so scheduler.c
 *   4. Check it:  penstock plugins check build/scheduler-my-plugin.so   (everything passes)
 *   5. Edit, and go on checking. Try it:
 *              PENSTOCK_PLUGIN_PATH=$PWD/build penstock plan CONFIG --set scheduler.use=my-plugin
 *
 * The headers in <penstock/> say what every function is promised and must promise.
 */
#include <penstock/penstock.h>

/*
 * Parameters: the keys of [scheduler] in a user's TOML file. The host reads the file, checks types
 * and ranges, fills this struct before create(), and prints the help from the rows below. A row's
 * name, C field and TOML key are one word.
 */
struct config {
    bool split;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, split, PST_PARAM_BOOL, "false", NULL,
              "Run a backward in two parts, so that the input gradient leaves earlier."),
};

/*
 * An instance, struct my_plugin: `host`, what the host offers, and `config`, filled and checked.
 * There may be two at once, so no globals. A plugin that keeps more of its own writes the struct,
 * create() and destroy() itself, as <penstock/simple.h> has them; memory comes from host->alloc and
 * lives as long as the instance, and the checker makes every allocation fail once.
 */
PST_INSTANCE(my_plugin, struct config)

/* States which pipeline this schedule needs, before there is one. */
static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    (void)self;
    (void)n_devices;
    ret_topology->n_stages = 0;                    /* one stage per device */
    ret_topology->version_rule = PST_VERSION_SYNC; /* a step reads one version of the weights */
    ret_topology->min_microbatches = 1;            /* any number of micro-batches will do */
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

/*
 * (optional) How many micro-batches a stage holds at its peak: those whose F has begun and whose
 * backward has not ended. Partitioners and memory optimizers plan with it, so it must be true. All
 * forwards go first here, hence all of them are held.
 */
static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    (void)self;
    ret_held->microbatches = place->n_microbatches;
    ret_held->weight_versions = 1;
    return PST_OK;
}

static pst_status emit_backward(const struct my_plugin *self, struct pst_schedule_out *out,
                                uint32_t device, uint32_t stage, uint32_t microbatch)
{
    pst_status status;

    if (!self->config->split) {
        return out->emit(out, device, PST_PASS_BW, stage, microbatch);
    }
    /* B gives the gradient of the inputs, W that of the weights, any time after its B. */
    status = out->emit(out, device, PST_PASS_B, stage, microbatch);
    return status != PST_OK ? status : out->emit(out, device, PST_PASS_W, stage, microbatch);
}

/*
 * The schedule itself: one emit() per pass, each appended to the list of its device. Every
 * (stage, micro-batch) needs one F, and one BW or one B and one W. Nothing else: transfers,
 * reductions and the optimizer step follow from the order, and the host adds them.
 *
 * Stages come in topological order and may form any graph; several may share a device. An order
 * that makes devices wait for each other in a circle is refused by the host.
 */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct my_plugin *self = (const struct my_plugin *)self_;
    pst_status status;
    uint32_t s, j;

    for (s = 0; s < in->n_stages; s++) {
        /* Always through the accessor: elements may be larger than this header knows. */
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (j = 0; j < stage->n_microbatches; j++) {
            status = out->emit(out, stage->device, PST_PASS_F, s, j);
            if (status != PST_OK) {
                return status; /* the host knows what was wrong; pass it on */
            }
        }
    }
    for (s = in->n_stages; s-- > 0;) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (j = 0; j < stage->n_microbatches; j++) {
            status = emit_backward(self, out, stage->device, s, j);
            if (status != PST_OK) {
                return status;
            }
        }
    }
    return PST_OK;
}

/* The interface: functions by name. Those left out are NULL: not offered. */
PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = topology, .in_flight = in_flight,
              .schedule = schedule)

/* Capability words: what this schedule can take or may contain, and what it asks of the others. */
static const char *const provides[] = {"chain", "dag", "per-stage-microbatch", "split-backward",
                                       NULL};
static const char *const needs[] = {NULL};

/* The description. Static and constant; the host reads it before it runs anything else. */
static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", "my-plugin", "0.1"),
    .summary = "All forwards, then all backwards.", /* one line for "penstock plugins" */
    .reference = "none",                            /* the paper, if there is one */
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

/* The one symbol that the shared object exports. */
PST_PLUGIN(plugin)
