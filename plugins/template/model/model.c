/* SPDX-License-Identifier: Apache-2.0
 *
 * A model to start from: a small causal Transformer that predicts the next token. It is complete,
 * and trains.
 *
 * To make it yours, in five steps:
 *
 *   1. Copy this folder, or have it copied and renamed:  penstock plugins new model my-plugin
 *   2. Rename: my-plugin, the name that users write, in CMakeLists.txt and in PST_PLUGIN_HEAD;
 *      my_plugin, the name in C. The shared object must be called model-<id>.so.
 *   3. Build it unchanged:  cmake -B build && cmake --build build
 *      or, with nothing but a compiler:
 *              cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags penstock) \
 *                 -o model-my-plugin.so model.c
 *   4. Check it:  penstock plugins check build/model-my-plugin.so   (everything passes)
 *   5. Edit, and go on checking. Try it:
 *              PENSTOCK_PLUGIN_PATH=$PWD/build penstock train CONFIG --set model.use=my-plugin
 *
 * The headers in <penstock/> say what every function is promised and must promise: ops.h has the
 * operators, layers.h functions for nearly all of them.
 */
#include <penstock/penstock.h>

/* The keys of [model], filled by the rows below. */
struct config {
    int64_t layers, dim, heads, context, vocab;
    double dropout;
};

/* Key, type, default, range, one sentence. Values in [model] are in range before build() runs. */
static const struct pst_param params[] = {
    PST_PARAM(struct config, layers, PST_PARAM_INT, "2", "1..1024", "Number of blocks."),
    PST_PARAM(struct config, dim, PST_PARAM_INT, "32", "1..65536", "Width of the residual stream."),
    PST_PARAM(struct config, heads, PST_PARAM_INT, "4", "1..1024",
              "Attention heads; dim must be a multiple of twice this number."),
    PST_PARAM(struct config, context, PST_PARAM_INT, "32", "1..65536", "Tokens of one sample."),
    PST_PARAM(struct config, vocab, PST_PARAM_INT, "256", "2..1048576",
              "Number of different tokens; 256 for bytes."),
    PST_PARAM(struct config, dropout, PST_PARAM_FLOAT, "0.0", "0..0.99",
              "Probability with which the results of blocks are dropped in training."),
};

/* An instance: its host and its config. */
PST_INSTANCE(my_plugin, struct config)

/* x + attention(norm(x)): x [context, dim] */
static uint32_t attend(struct pst_builder *b, const struct config *c, uint32_t x)
{
    const uint32_t heads = (uint32_t)c->heads, depth = (uint32_t)(c->dim / c->heads);
    uint32_t y = pst_nn_rmsnorm(b, "norm1", x, 1e-5f);

    y = pst_nn_linear(b, "qkv", y, 3 * (uint64_t)c->dim, 0.02f, false);
    y = pst_nn_rotary(b, "rotary", y, 2 * heads, depth, 10000.0f); /* queries and keys */
    y = pst_nn_attention(b, "attention", y, heads, heads, true);
    y = pst_nn_linear(b, "out", y, (uint64_t)c->dim, 0.02f, false);
    y = pst_nn_dropout(b, "drop1", y, c->dropout);
    return pst_nn_add(b, "add1", x, y);
}

/* x + mlp(norm(x)), SwiGLU */
static uint32_t transform(struct pst_builder *b, const struct config *c, uint32_t x)
{
    uint32_t y = pst_nn_rmsnorm(b, "norm2", x, 1e-5f);

    y = pst_nn_linear(b, "up", y, 8 * (uint64_t)c->dim, 0.02f, false);
    y = pst_nn_glu(b, "gate", y, PST_ACT_SILU);
    y = pst_nn_linear(b, "down", y, (uint64_t)c->dim, 0.02f, false);
    y = pst_nn_dropout(b, "drop2", y, c->dropout);
    return pst_nn_add(b, "add2", x, y);
}

/*
 * The graph, from the data to the loss. Shapes are per sample: no operator names the batch. The
 * host checks each call; after the first that does not fit all of them return PST_NONE, and the
 * user is told which it was. So nothing needs to be checked here but what parameters alone decide.
 */
static pst_status build(void *self_, struct pst_builder *b)
{
    const struct my_plugin *self = (const struct my_plugin *)self_;
    const struct config *c = self->config;
    const uint64_t context = (uint64_t)c->context;
    uint32_t tokens, targets, table, x;

    if (c->dim % (2 * c->heads) != 0) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "\"dim\" in [model] is %lld, which is not %lld heads of an even width",
                         (long long)c->dim, (long long)c->heads);
    }
    tokens = pst_nn_input(b, "tokens", PST_FIELD_X, PST_I32, 1, &context);
    targets = pst_nn_input(b, "targets", PST_FIELD_TARGET, PST_I32, 1, &context);
    x = pst_nn_embedding(b, "embed", tokens, (uint64_t)c->vocab, (uint64_t)c->dim, 0.02f, &table);
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        b->layer(b); /* a block: partitioners may cut anywhere, and like to cut here */
        pst_nn_scope(b, "h.%u", i);
        x = attend(b, c, x);
        x = transform(b, c, x);
    }
    b->layer(b);
    b->scope(b, "");
    x = pst_nn_rmsnorm(b, "norm", x, 1e-5f);
    x = pst_nn_tied(b, "head", x, table); /* the table once more */
    pst_nn_loss(b, PST_OP_CROSS_ENTROPY, x, targets);
    return PST_OK;
}

/* The interface: functions by name. */
PST_INTERFACE(PST_MODEL, struct pst_model_interface, .build = build)

/* A model has no capability words. */
static const char *const none[] = {NULL};

/* The description. Static and constant; the host reads it before it runs anything else. */
static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("model", "my-plugin", "0.1"),
    .summary = "A small causal Transformer.", /* one line for "penstock plugins" */
    .reference = "none",                      /* the paper, if there is one */
    .license = "Apache-2.0",
    .provides = none,
    .needs = none,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

/* The one symbol that the shared object exports. */
PST_PLUGIN(plugin)
