/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that needs no file and that a model can learn, whatever its inputs look like. Each row of
 * targets has a class (a number is a level of sixteen, under noise); features are the class's
 * pattern under noise, tokens lean towards those of the class, in each input in its own way. Where
 * every token has a target of its own, the text is a noisy walk: mostly the next token follows from
 * the last. Where targets go in as well, shifted, they are the tokens of the first input once more:
 * what is to be learned is to copy.
 */
#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>

#include "base/philox.h"

enum {
    STREAM_LABEL = 0x6C61626Cu,
    STREAM_PATTERN = 0x70617474u,
    STREAM_NOISE = 0x6E6F6973u,
    STREAM_TOKENS = 0x746F6B65u
};

/* One draw in eight is noise. */
#define NOISE_WORD 0x20000000u

/* Classes from which targets that are numbers are made. */
#define LEVELS 16u

struct synthetic {
    const struct pst_host *host;
    const struct pst_data_shape *shape;
    const struct pst_data_input *x, *target; /* the first of X; any targets */
    uint32_t x_at, target_at;                /* their places */
    bool shifted;                            /* targets go in as well */
};

static const struct pst_data_input *input_of(const struct synthetic *data, uint32_t input)
{
    return pst_data_input_at(data->shape, input);
}

/* Every input draws from streams of its own; those of the first are the plain ones. */
static uint32_t stream_of(uint32_t stream, uint32_t input)
{
    return stream ^ input << 24;
}

/* Streams of a sample: the held-out ones lie apart from those of training. */
static uint64_t key_of(const struct synthetic *data, uint32_t stream, uint32_t split)
{
    return data->shape->seed ^ (uint64_t)stream << 32 ^ (uint64_t)split << 63;
}

static struct pst_philox draw(const struct synthetic *data, uint32_t stream, uint32_t split,
                              uint64_t index, uint64_t counter)
{
    return pst_philox(key_of(data, stream, split), index, counter);
}

static uint32_t word_at(const struct synthetic *data, uint32_t stream, uint32_t split,
                        uint64_t index, uint64_t counter)
{
    return draw(data, stream, split, index, counter / 4).v[counter % 4];
}

/* A walk over the tokens: next = 5 last + 7 mod vocab, but for the noise. One token more than x has
   is the last target. */
static void read_walk(const struct synthetic *data, uint32_t split, uint64_t index, uint64_t range,
                      uint64_t n, int32_t *ret_x, int32_t *ret_targets)
{
    uint64_t token = word_at(data, STREAM_LABEL, split, index, 0) % range;

    for (uint64_t t = 0; t < n; t++) {
        struct pst_philox bits = draw(data, STREAM_TOKENS, split, index, t);

        ret_x[t] = (int32_t)token;
        token = bits.v[0] < NOISE_WORD ? bits.v[1] % range : (5 * token + 7) % range;
        if (ret_targets != NULL) {
            ret_targets[t] = (int32_t)token;
        }
    }
}

/* The classes of a sample, each for an equal part of the elements of an input. */
struct classes {
    const int32_t *classes;
    uint64_t n;
};

static uint64_t class_of(const struct classes *classes, const struct pst_data_input *x,
                         uint64_t element)
{
    uint64_t per_class = x->elems / classes->n;
    uint64_t i = per_class == 0 ? 0 : element / per_class;

    return (uint64_t)classes->classes[i < classes->n ? i : classes->n - 1];
}

/* Half of the tokens come from the class's own eight, the others from all. */
static void read_tokens(const struct synthetic *data, uint32_t split, uint64_t index,
                        uint32_t input, const struct classes *classes, int32_t *ret_x)
{
    const struct pst_data_input *x = input_of(data, input);
    uint64_t vocab = x->range;

    for (uint64_t t = 0; t < x->elems; t++) {
        struct pst_philox bits = draw(data, stream_of(STREAM_TOKENS, input), split, index, t);

        ret_x[t] =
            (int32_t)((bits.v[0] & 1) != 0 ? (class_of(classes, x, t) * 8 + bits.v[1] % 8) % vocab
                                           : bits.v[1] % vocab);
    }
}

/* The elements after `element` that are of its class, and itself. */
static uint64_t class_run(const struct classes *classes, const struct pst_data_input *x,
                          uint64_t element)
{
    uint64_t per_class = x->elems / classes->n;
    uint64_t i = per_class == 0 ? classes->n : element / per_class + 1;

    return (i < classes->n ? i * per_class : x->elems) - element;
}

/* Words of a class's pattern, remembered by their blocks of four: elements that lie together share
   them. */
#define N_KNOWN 256u

struct pattern {
    uint64_t key, class;
    uint64_t block[N_KNOWN]; /* + 1; 0: none */
    struct pst_philox words[N_KNOWN];
};

static void pattern_begin(struct pattern *pattern, uint64_t class)
{
    pattern->class = class;
    memset(pattern->block, 0, sizeof pattern->block);
}

static uint32_t pattern_word(struct pattern *pattern, uint64_t cell)
{
    uint64_t block = cell / 4;
    uint32_t at = (uint32_t)(block % N_KNOWN);

    if (pattern->block[at] != block + 1) {
        pattern->block[at] = block + 1;
        pattern->words[at] = pst_philox(pattern->key, pattern->class, block);
    }
    return pattern->words[at].v[cell % 4];
}

/* Where an element is. Its pattern value comes from a cell: images are patterned in blocks of 4 x 4
   pixels, so that convolution and pooling keep something of it. */
struct place {
    const struct pst_data_input *x;
    uint64_t element, channel, column, row; /* the last three of images */
};

static uint64_t pattern_cell(const struct place *place)
{
    const struct pst_data_input *x = place->x;

    if (x->rank != 3) {
        return place->element;
    }
    return (place->row / 4 * ((x->dims[1] + 3) / 4) + place->column / 4) * x->dims[2] +
           place->channel;
}

static void next_place(struct place *place)
{
    const struct pst_data_input *x = place->x;

    place->element++;
    if (x->rank == 3 && ++place->channel == x->dims[2]) {
        place->channel = 0;
        if (++place->column == x->dims[1]) {
            place->column = 0;
            place->row++;
        }
    }
}

/* Pattern uniform in [-1, 1), noise uniform in [-1, 1): equal power. */
static void read_features(const struct synthetic *data, uint32_t split, uint64_t index,
                          uint32_t input, const struct classes *classes, void *ret_x)
{
    const struct pst_data_input *x = input_of(data, input);
    const uint64_t key = key_of(data, stream_of(STREAM_NOISE, input), split);
    struct pattern pattern = {.key =
                                  key_of(data, stream_of(STREAM_PATTERN, input), PST_SPLIT_TRAIN)};
    struct place place = {.x = x};
    struct pst_philox noise = {0};

    while (place.element < x->elems) {
        uint64_t end = place.element + class_run(classes, x, place.element);

        pattern_begin(&pattern, class_of(classes, x, place.element));
        for (; place.element < end; next_place(&place)) {
            float value = 2.0f * pst_uniform(pattern_word(&pattern, pattern_cell(&place))) - 1.0f;

            if (place.element % 4 == 0) {
                noise = pst_philox(key, index, place.element / 4);
            }
            pst_data_put(ret_x, x->dtype, place.element,
                         (double)(value + (2.0f * pst_uniform(noise.v[place.element % 4]) - 1.0f)));
        }
    }
}

/* Everything that is drawn by class: the inputs of X. */
static void read_x(const struct synthetic *data, uint32_t split, uint64_t index,
                   const struct classes *classes, void *const *inputs)
{
    for (uint32_t i = 0; i < data->shape->n_inputs; i++) {
        if (input_of(data, i)->field != PST_FIELD_X) {
            continue;
        }
        if (input_of(data, i)->dtype == PST_I32) {
            read_tokens(data, split, index, i, classes, inputs[i]);
        } else {
            read_features(data, split, index, i, classes, inputs[i]);
        }
    }
}

/* Targets that are numbers: the middle of the level in [-1, 1), and a quarter of its width either
   way. All rows of a sample share a level. */
static void read_numbers(const struct synthetic *data, uint32_t split, uint64_t index,
                         void *const *inputs)
{
    const uint32_t target = data->target_at;
    int32_t level = (int32_t)(word_at(data, STREAM_LABEL, split, index, 0) % LEVELS);

    for (uint64_t row = 0; row < data->target->elems; row++) {
        uint32_t noise = word_at(data, stream_of(STREAM_NOISE, target), split, index, row);

        pst_data_put(
            inputs[target], data->target->dtype, row,
            (double)(((float)level + 0.5f + 0.5f * (pst_uniform(noise) - 0.5f)) * (2.0f / LEVELS) -
                     1.0f));
    }
    read_x(data, split, index, &(struct classes){&level, 1}, inputs);
}

/* The tokens of x, over and over. */
static void read_copy(const struct synthetic *data, uint32_t split, uint64_t index, int32_t *x,
                      int32_t *ret_targets)
{
    uint64_t range = data->x->range < data->target->range ? data->x->range : data->target->range;

    read_walk(data, split, index, range, data->x->elems, x, NULL);
    for (uint64_t t = 0; t < data->target->elems; t++) {
        ret_targets[t] = x[t % data->x->elems];
    }
}

static void read_sample(const struct synthetic *data, uint32_t split, uint64_t index,
                        void *const *inputs)
{
    uint64_t range = data->x->range < data->target->range ? data->x->range : data->target->range;
    void *x = inputs[data->x_at];
    int32_t *targets = inputs[data->target_at];
    bool tokens = data->x->dtype == PST_I32;

    if (data->target->dtype != PST_I32) {
        read_numbers(data, split, index, inputs);
    } else if (tokens && data->shifted) {
        read_copy(data, split, index, x, targets);
    } else if (tokens && data->target->elems == data->x->elems && data->target->elems > 1) {
        read_walk(data, split, index, range, data->target->elems, x, targets);
    } else {
        for (uint64_t row = 0; row < data->target->elems; row++) {
            targets[row] =
                (int32_t)(word_at(data, STREAM_LABEL, split, index, row) % data->target->range);
        }
        read_x(data, split, index, &(struct classes){targets, data->target->elems}, inputs);
    }
}

/* --- the interface ---------------------------------------------------------------------------- */

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct synthetic *self = host->alloc(host, sizeof *self, sizeof(void *));

    (void)config;
    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    *ret_self = self;
    return PST_OK;
}

static pst_status open_shape(void *self_, const struct pst_data_shape *shape)
{
    struct synthetic *self = self_;
    const uint32_t target = pst_data_find(shape, PST_FIELD_TARGET);

    self->shape = shape;
    self->x_at = pst_data_find(shape, PST_FIELD_X);
    self->target_at = target != PST_NONE ? target : pst_data_find(shape, PST_FIELD_MASKED);
    self->shifted = pst_data_find(shape, PST_FIELD_SHIFTED) != PST_NONE;
    if (self->x_at == PST_NONE || self->target_at == PST_NONE) {
        return (self->host->fail)(self->host, PST_ERR_UNSUPPORTED,
                                  "the model has no input or no targets");
    }
    self->x = input_of(self, self->x_at);
    self->target = input_of(self, self->target_at);
    return PST_OK;
}

static uint64_t samples(void *self, uint32_t split)
{
    (void)self;
    (void)split;
    return UINT64_MAX;
}

static pst_status read_samples(void *self_, uint32_t split, uint64_t first, uint32_t n,
                               void *const *ret_inputs)
{
    const struct synthetic *self = self_;
    void **inputs = malloc(self->shape->n_inputs * sizeof *inputs);

    if (inputs == NULL) {
        return PST_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < self->shape->n_inputs; k++) {
            inputs[k] = (char *)ret_inputs[k] + i * input_of(self, k)->bytes;
        }
        read_sample(self, split, first + i, inputs);
    }
    free(inputs);
    return PST_OK;
}

PST_DESTROY_NOTHING
PST_INTERFACE(PST_DATA, struct pst_data_interface, .open = open_shape, .samples = samples,
              .read = read_samples)

static const char *const none[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("data", "synthetic", "1.0"),
    .summary = "Data that needs no file, drawn from the seed, that any model can learn.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = none,
    .needs = none,
    PST_PLUGIN_NO_PARAMS,
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
