/* SPDX-License-Identifier: Apache-2.0
 *
 * Data to start from: vectors or images of a few classes, drawn from the seed, that any classifier
 * can learn. It is complete, and trains.
 *
 * To make it yours, in five steps:
 *
 *   1. Copy this folder, or have it copied and renamed:  penstock plugins new data my-plugin
 *   2. Rename: my-plugin, the name that users write, in CMakeLists.txt and in PST_PLUGIN_HEAD;
 *      my_plugin, the name in C. The shared object must be called data-<id>.so.
 *   3. Build it unchanged:  cmake -B build && cmake --build build
 *      or, with nothing but a compiler:
 *              cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags penstock) \
 *                 -o data-my-plugin.so data.c
 *   4. Check it:  penstock plugins check build/data-my-plugin.so   (everything passes)
 *   5. Edit, and go on checking. Try it:
 *              PENSTOCK_PLUGIN_PATH=$PWD/build penstock train CONFIG --set data.kind=my-plugin
 *
 * <penstock/data.h> says what every function is promised and must promise. The host shuffles: a
 * plugin only has to find the sample of a number.
 */
#include <penstock/penstock.h>

/* The keys of [data], filled by the rows below; a plugin of files has paths here. */
struct config {
    int64_t samples, valid;
    double noise;
};

/* Key, type, default, range, one sentence. Values in [data] are in range before create() runs. */
static const struct pst_param params[] = {
    PST_PARAM(struct config, samples, PST_PARAM_INT, "512", "1..1000000000",
              "Samples to train on."),
    PST_PARAM(struct config, valid, PST_PARAM_INT, "64", "0..1000000000",
              "Samples that are held out; 0: none."),
    PST_PARAM(struct config, noise, PST_PARAM_FLOAT, "0.5", "0..1",
              "Largest difference between a feature and that of its class."),
};

/* An instance: its host, its config, and what open() finds. read() only reads it, so that any
   number of threads may call. */
struct my_plugin {
    const struct pst_host *host;
    const struct config *config;
    const struct pst_data_shape *shape;
    uint32_t x, target; /* places among the inputs */
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct my_plugin *self = (struct my_plugin *)host->alloc(host, sizeof *self, sizeof(void *));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = (const struct config *)config;
    *ret_self = self;
    return PST_OK;
}

/* Files that open() opened are closed here, as create() is called for each destroy(). */
PST_DESTROY_NOTHING

static uint32_t count_inputs(const struct pst_data_shape *shape, uint32_t field)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        n += pst_data_input_at(shape, i)->field == field;
    }
    return n;
}

/* Looks at what the model wants, and refuses what this data is not for: read() has to fill every
   input of PST_FIELD_X. */
static pst_status open_data(void *self_, const struct pst_data_shape *shape)
{
    struct my_plugin *self = (struct my_plugin *)self_;

    self->shape = shape;
    self->x = pst_data_find(shape, PST_FIELD_X);
    self->target = pst_data_find(shape, PST_FIELD_TARGET);
    if (count_inputs(shape, PST_FIELD_X) != 1 ||
        pst_data_input_at(shape, self->x)->dtype == PST_I32 || self->target == PST_NONE ||
        pst_data_input_at(shape, self->target)->dtype != PST_I32 ||
        pst_data_input_at(shape, self->target)->elems != 1) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "this data has features and one class each; the model needs something "
                         "else");
    }
    return PST_OK;
}

static uint64_t samples(void *self_, uint32_t split)
{
    const struct config *config = ((const struct my_plugin *)self_)->config;

    return (uint64_t)(split == PST_SPLIT_TRAIN ? config->samples : config->valid);
}

/* 64 bits of a number (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* From -1 on, below 1: number `i` of a stream. */
static double draw(uint64_t stream, uint64_t i)
{
    return (double)(mix(stream ^ mix(i)) >> 56) / 128 - 1;
}

static void read_sample(const struct my_plugin *self, uint64_t stream, void *x, int32_t *ret_class)
{
    const struct pst_data_input *input = pst_data_input_at(self->shape, self->x);
    const uint64_t n_classes = pst_data_input_at(self->shape, self->target)->range;
    const uint64_t which = mix(stream) % n_classes, pattern = mix(self->shape->seed + which);

    *ret_class = (int32_t)which;
    for (uint64_t e = 0; e < input->elems; e++) {
        pst_data_put(x, input->dtype, e, draw(pattern, e) + self->config->noise * draw(stream, e));
    }
}

/* A sample follows from the seed, its split and its number, and from nothing else. */
static pst_status read_samples(void *self_, uint32_t split, uint64_t first, uint32_t n,
                               void *const *inputs)
{
    const struct my_plugin *self = (const struct my_plugin *)self_;
    const uint64_t bytes = pst_data_input_at(self->shape, self->x)->bytes;

    for (uint32_t i = 0; i < n; i++) {
        const uint64_t stream = mix(mix(self->shape->seed ^ (uint64_t)split << 63) + first + i);

        read_sample(self, stream, (char *)inputs[self->x] + i * bytes,
                    (int32_t *)inputs[self->target] + i);
    }
    return PST_OK;
}

/* The interface: functions by name. */
PST_INTERFACE(PST_DATA, struct pst_data_interface, .open = open_data, .samples = samples,
              .read = read_samples)

/* Data has no capability words. */
static const char *const none[] = {NULL};

/* The description. Static and constant; the host reads it before it runs anything else. */
static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("data", "my-plugin", "0.1"),
    .summary = "Classes drawn from the seed.", /* one line for "penstock plugins" */
    .reference = "none",                       /* where the data is described */
    .license = "Apache-2.0",
    .provides = none,
    .needs = none,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

/* The one symbol that the shared object exports. */
PST_PLUGIN(plugin)
