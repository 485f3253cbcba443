/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer to start from: keeps everything on the device. It is complete and legal.
 *
 * To make it yours, in five steps:
 *
 *   1. Copy this folder, or have it copied and renamed:  penstock plugins new memopt my-plugin
 *   2. Rename: my-plugin, the name that users write, in CMakeLists.txt and in PST_PLUGIN_HEAD;
 *      my_plugin, the name in C. The shared object must be called memopt-<id>.so.
 *   3. Build it unchanged:  cmake -B build && cmake --build build
 *      or, with nothing but a compiler:
 *              cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags penstock) \
 *                 -o memopt-my-plugin.so memopt.c
 *   4. Check it:  penstock plugins check build/memopt-my-plugin.so   (everything passes)
 *   5. Edit, and go on checking. Try it:
 *              PENSTOCK_PLUGIN_PATH=$PWD/build penstock plan CONFIG --set memopt.use=my-plugin
 *
 * The headers in <penstock/> say what every function is promised and must promise.
 */
#include <stdalign.h>

#include <penstock/penstock.h>

/* An instance. Everything it knows is in here: there may be two at once, so no globals. */
struct my_plugin {
    const struct pst_host *host; /* what the host offers; valid until destroy() returns */
    const struct pst_eval *eval; /* the host's evaluator of memory plans */
};

/*
 * Memory comes from the host and lives as long as the instance: there is nothing to free. `config`
 * is the struct that parameter rows fill; this plugin has none. To add one: a struct config, a
 * table of rows with PST_PARAM, and PST_PLUGIN_PARAMS(params, struct config) in the description.
 */
static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct my_plugin *self =
        (struct my_plugin *)host->alloc(host, sizeof *self, alignof(struct my_plugin));

    (void)config;
    if (self == NULL) {
        return PST_ERR_NOMEM; /* the checker makes every allocation fail once */
    }
    self->host = host;
    self->eval = (const struct pst_eval *)host->get_extension(host, PST_EVAL);
    if (self->eval == NULL) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_EVAL);
    }
    *ret_self = self; /* results are written on success only */
    return PST_OK;
}

static void destroy(void *self)
{
    (void)self;
}

/*
 * Returns the cost of the stage under this optimizer. It is called thousands of times while a
 * partitioner searches, so keep it cheap. Evaluate the actions that plan() would set: one uint8_t
 * PST_ACTION_* per node of the view, or NULL for those that are already there (all kept, or an
 * earlier optimizer's). A stage that does not fit is an answer, not an error.
 */
static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    const struct my_plugin *self = (const struct my_plugin *)self_;
    struct pst_stage_value value = {.size = sizeof value};
    pst_status status = self->eval->evaluate(self->host, view, NULL, &value);

    if (status != PST_OK) {
        return status;
    }
    ret_price->fits = value.legal && value.peak_bytes <= view->capacity_bytes;
    ret_price->period_ns = value.period_ns;
    ret_price->peak_bytes = value.peak_bytes;
    return PST_OK;
}

/*
 * The decision for a finished stage, never worse than price() promised. Nodes that are not set are
 * kept. To drop what node i leaves for the backward passes and compute it again there:
 *     status = out->set(out, i, PST_ACTION_RECOMPUTE);
 * Three rules: leave alone a node whose action is not PST_ACTION_KEEP (decided before), respect its
 * flags (PST_NODE_NO_RECOMPUTE, PST_NODE_NO_OFFLOAD), and let a replay read only what is there: an
 * in-stage producer of a recomputed node is kept, or recomputed in the same run of neighbours.
 */
static pst_status plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    (void)self;
    (void)view;
    (void)out;
    return PST_OK;
}

/* The interface: functions by name. Those left out are NULL: not offered. */
PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

/* Capability words: what the answer may contain ("recompute", "offload"), and what it needs. */
static const char *const provides[] = {"chain", "dag", NULL};
static const char *const needs[] = {NULL};

/* The description. Static and constant; the host reads it before it runs anything else. */
static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("memopt", "my-plugin", "0.1"),
    .summary = "Keeps everything on the device.", /* one line for "penstock plugins" */
    .reference = "none",                          /* the paper, if there is one */
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_NO_PARAMS,
    PST_PLUGIN_FUNCTIONS,
};

/* The one symbol that the shared object exports. */
PST_PLUGIN(plugin)
