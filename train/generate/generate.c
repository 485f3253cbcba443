/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

#define STREAM_SAMPLE 0x73616D706C650000u

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return x > y ? -1 : x < y;
}

/* The smallest of the k largest. */
static float kth_largest(const float *logits, uint32_t n, uint32_t k)
{
    float *sorted = pst_alloc(n, sizeof *sorted), least;

    memcpy(sorted, logits, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, descending);
    least = sorted[k - 1];
    free(sorted);
    return least;
}

uint32_t pst_draw_class(const float *logits, uint32_t n, double temperature, uint32_t top_k,
                        double uniform)
{
    double sum = 0, target, running = 0;
    float least = -INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    if (!(temperature > 0)) {
        return best;
    }
    if (top_k > 0 && top_k < n) {
        least = kth_largest(logits, n, top_k);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] >= least) {
            sum += exp(((double)logits[i] - (double)logits[best]) / temperature);
        }
    }
    target = uniform * sum;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] >= least) {
            running += exp(((double)logits[i] - (double)logits[best]) / temperature);
        }
        if (logits[i] >= least && target < running) {
            return i;
        }
    }
    return best;
}

pst_status pst_generate_check(const struct pst_graph *graph, const struct pst_sample_shape *shape,
                              struct pst_error *err)
{
    const struct pst_op *ahead = pst_graph_looks_ahead(graph);

    if (shape->n_inputs != 2 || shape->x->dtype != PST_I32 ||
        shape->target->field != PST_FIELD_TARGET || shape->x->elems != shape->rows ||
        (ahead != NULL && ahead->custom == NULL)) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "model %s cannot generate text: it must be causal, read only tokens and "
                        "predict the next token at each position, as gpt does",
                        graph->name);
    }
    if (ahead != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "model %s cannot generate text: operator %s of plugin %s may use what "
                        "comes later; its row does not state PST_OPERATOR_CAUSAL for the rows of "
                        "the text",
                        graph->name, ahead->name, pst_op_title(ahead));
    }
    return PST_OK;
}

/* Buffers of one generation. */
struct writer {
    const struct pst_generate *g;
    int32_t *x, *targets;
    float *logits;
    int32_t *tokens;
    uint64_t n;
    uint64_t first;   /* where the text begins that the model sees */
    uint64_t seen;    /* of a graph that decodes: where it ends so far */
    uint32_t classes; /* that can be drawn */
};

/* All of them, where parts of a replica have some each. */
static const struct pst_tensor *logits_of(const struct pst_generate *g)
{
    const struct pst_graph *model = pst_graph_model(g->graph);

    return &model->tensors[model->logits];
}

static void allocate(struct writer *w)
{
    const struct pst_generate *g = w->g;
    const struct pst_tensor *logits = logits_of(g);

    w->x = pst_alloc(g->samples * g->shape->x->elems, sizeof *w->x);
    w->targets = pst_alloc(g->samples * g->shape->target->elems, sizeof *w->targets);
    w->logits = pst_alloc(g->kept * logits->elems, sizeof *w->logits);
}

/* With room for what is added. */
static pst_status read_prompt(struct writer *w, struct pst_error *err)
{
    const struct pst_generate *g = w->g;
    const char *prompt = g->prompt == NULL || g->prompt[0] == '\0' ? "\n" : g->prompt;
    uint64_t classes = g->shape->classes;
    pst_status status = PST_OK;

    if (g->tokenizer != NULL) {
        uint32_t vocab = pst_tokenizer_vocab(g->tokenizer);

        w->classes = (uint32_t)(classes < vocab ? classes : vocab);
        status = pst_tokenizer_encode(g->tokenizer, prompt, strlen(prompt), true, &w->tokens, &w->n,
                                      err);
        w->tokens =
            status == PST_OK ? pst_resize(w->tokens, w->n + g->length, sizeof *w->tokens) : NULL;
    } else {
        w->classes = (uint32_t)(classes < 256 ? classes : 256);
        w->n = strlen(prompt);
        w->tokens = pst_alloc(w->n + g->length, sizeof *w->tokens);
        for (uint64_t i = 0; i < w->n; i++) {
            w->tokens[i] = (uint8_t)prompt[i];
        }
    }
    if (status == PST_OK && w->n == 0) {
        status = pst_fail(err, PST_ERR_CONFIG, "config.value", "the prompt has no tokens");
    }
    for (uint64_t i = 0; status == PST_OK && i < w->n; i++) {
        if ((uint64_t)w->tokens[i] >= g->shape->vocab) {
            status =
                pst_fail(err, PST_ERR_CONFIG, "config.value",
                         "token %llu of the prompt is %d, the model has %llu tokens",
                         (unsigned long long)i, w->tokens[i], (unsigned long long)g->shape->vocab);
        }
    }
    return status;
}

/* Logits of the tokens from `from` on, as many as there is room for. */
static pst_status compute_logits(struct writer *w, uint64_t first_sample, uint64_t from,
                                 uint64_t room, struct pst_error *err)
{
    const struct pst_generate *g = w->g;
    const struct pst_tensor *logits = logits_of(g);
    struct pst_batch batch = {.first_sample = first_sample};
    int32_t *x = w->x + (g->samples - g->kept) * g->shape->rows;
    double loss;

    batch.inputs[pst_sample_input(g->shape, g->shape->x)] = w->x;
    batch.inputs[pst_sample_input(g->shape, g->shape->target)] = w->targets;
    for (uint64_t i = 0; i < room; i++) {
        x[i] = from + i < w->n ? w->tokens[from + i] : 0;
    }
    return pst_exec_eval(g->exec, &batch, &loss, w->logits, g->kept * logits->elems, err);
}

/* Evaluates all tokens that were not yet seen; *ret_row: the row of the last one's logits. */
static pst_status look_on(struct writer *w, uint64_t *ret_row, struct pst_error *err)
{
    pst_status status = PST_OK;

    while (status == PST_OK && w->seen < w->n) {
        const uint64_t left = w->n - w->seen;
        const uint64_t n = left < w->g->samples ? left : w->g->samples;

        status = compute_logits(w, w->seen - w->first, w->seen, w->g->samples, err);
        w->seen += n;
        *ret_row = n - 1;
    }
    return status;
}

/* The maximum length of a text if its samples are single tokens; else 0. */
static uint64_t positions_of(const struct pst_graph *graph)
{
    uint64_t positions = 0;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        positions = graph->ops[i].positions > 0 ? graph->ops[i].positions : positions;
    }
    return positions;
}

/* Appends one token, drawn from what follows the others. */
static pst_status append_token(struct writer *w, uint64_t count, struct pst_error *err)
{
    const struct pst_generate *g = w->g;
    const uint64_t positions = positions_of(g->graph);
    const uint64_t context = positions > 0 ? positions : g->shape->rows;
    struct pst_philox bits = pst_philox(g->seed, STREAM_SAMPLE, count);
    uint64_t row;
    pst_status status;

    /* A graph that decodes would have to see a text anew for each token that it drops; whole texts
       drop as many, so that no draw depends on the plan. */
    if (w->n - w->first > context) {
        w->first = w->seen = w->n - (context + 1) / 2;
    }
    row = w->n - w->first - 1;
    status = positions > 0 ? look_on(w, &row, err) : compute_logits(w, 0, w->first, context, err);
    if (status == PST_OK) {
        w->tokens[w->n++] =
            (int32_t)pst_draw_class(w->logits + row * g->shape->classes, w->classes, g->temperature,
                                    g->top_k, (double)pst_uniform(bits.v[0]));
    }
    return status;
}

/* Where the last token ends the text it goes. */
static bool has_ended(struct writer *w)
{
    const bool ended =
        w->g->tokenizer != NULL && pst_tokenizer_is_special(w->g->tokenizer, w->tokens[w->n - 1]);

    w->n -= ended;
    return ended;
}

/* The bytes that the tokens are; *ret_n: how many. */
static char *to_bytes(const struct writer *w, uint64_t *ret_n)
{
    char *bytes;

    if (w->g->tokenizer != NULL) {
        return pst_tokenizer_decode(w->g->tokenizer, w->tokens, w->n, true, ret_n);
    }
    bytes = pst_alloc(w->n + 1, 1);
    for (uint64_t i = 0; i < w->n; i++) {
        bytes[i] = (char)w->tokens[i];
    }
    *ret_n = w->n;
    return bytes;
}

static char *to_text(const struct writer *w)
{
    uint64_t n_bytes = 0;
    char *bytes = to_bytes(w, &n_bytes), *text = pst_alloc(3 * n_bytes + 1, 1);
    size_t n = 0;

    for (uint64_t i = 0; i < n_bytes; i++) {
        if (bytes[i] == 0) {
            memcpy(text + n, "\xEF\xBF\xBD", 3);
            n += 3;
        } else {
            text[n++] = bytes[i];
        }
    }
    text[n] = '\0';
    free(bytes);
    return text;
}

pst_status pst_generate_text(const struct pst_generate *generate, char **ret_text,
                             struct pst_error *err)
{
    struct writer w = {.g = generate};
    pst_status status = read_prompt(&w, err);
    bool ended = false;

    if (status == PST_OK) {
        allocate(&w);
    }
    for (uint64_t i = 0;
         status == PST_OK && !ended && i < generate->length && pst_exec_told(generate->exec) == 0;
         i++) {
        status = append_token(&w, i, err);
        ended = status == PST_OK && has_ended(&w);
    }
    if (status == PST_OK) {
        *ret_text = to_text(&w);
    }
    free(w.x);
    free(w.targets);
    free(w.logits);
    free(w.tokens);
    return status;
}
