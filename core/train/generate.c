/* SPDX-License-Identifier: Apache-2.0 */
#include "train/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "train/stop.h"

#define STREAM_SAMPLE 0x73616D706C650000u

uint32_t pst_draw_class(const float *logits, uint32_t n, double temperature, double uniform)
{
    double sum = 0, target, running = 0;
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    if (!(temperature > 0)) {
        return best;
    }
    for (uint32_t i = 0; i < n; i++) {
        sum += exp(((double)logits[i] - (double)logits[best]) / temperature);
    }
    target = uniform * sum;
    for (uint32_t i = 0; i < n; i++) {
        running += exp(((double)logits[i] - (double)logits[best]) / temperature);
        if (target < running) {
            return i;
        }
    }
    return best;
}

/* Buffers of one generation. */
struct writer {
    const struct pst_generate *g;
    int32_t *x, *targets;
    float *logits;
    uint8_t *bytes;
    uint64_t length;
};

static void allocate(struct writer *w, uint64_t prompt_length)
{
    const struct pst_generate *g = w->g;
    const struct pst_tensor *logits = &g->graph->tensors[g->graph->logits];

    w->x = pst_alloc(g->samples * g->shape->x->elems, sizeof *w->x);
    w->targets = pst_alloc(g->samples * g->shape->rows, sizeof *w->targets);
    w->logits = pst_alloc(g->samples * logits->elems, sizeof *w->logits);
    w->bytes = pst_alloc(prompt_length + g->length, 1);
}

/* Appends one byte, drawn from what follows the last `context` bytes. */
static pst_status extend(struct writer *w, uint64_t count, struct pst_error *err)
{
    const struct pst_generate *g = w->g;
    const struct pst_tensor *logits = &g->graph->tensors[g->graph->logits];
    uint64_t context = g->shape->rows, used = w->length < context ? w->length : context;
    struct pst_batch batch = {.first_sample = 0};
    struct pst_philox bits = pst_philox(g->seed, STREAM_SAMPLE, count);
    uint32_t vocab = (uint32_t)(g->shape->classes < 256 ? g->shape->classes : 256);
    double loss;
    pst_status st;

    batch.inputs[pst_sample_input(g->shape, g->shape->x)] = w->x;
    batch.inputs[pst_sample_input(g->shape, g->shape->target)] = w->targets;
    for (uint64_t i = 0; i < context; i++) {
        w->x[i] = i < used ? w->bytes[w->length - used + i] : 0;
    }
    st = pst_exec_eval(g->exec, &batch, &loss, w->logits, g->samples * logits->elems, err);
    if (st == PST_OK) {
        w->bytes[w->length++] =
            (uint8_t)pst_draw_class(w->logits + (used - 1) * g->shape->classes, vocab,
                                    g->temperature, (double)pst_uniform(bits.v[0]));
    }
    return st;
}

static char *to_text(const struct writer *w)
{
    char *text = pst_alloc(3 * w->length + 1, 1);
    size_t n = 0;

    for (uint64_t i = 0; i < w->length; i++) {
        if (w->bytes[i] == 0) {
            memcpy(text + n, "\xEF\xBF\xBD", 3);
            n += 3;
        } else {
            text[n++] = (char)w->bytes[i];
        }
    }
    text[n] = '\0';
    return text;
}

pst_status pst_generate_text(const struct pst_generate *generate, char **ret_text,
                             struct pst_error *err)
{
    const char *prompt =
        generate->prompt == NULL || generate->prompt[0] == '\0' ? "\n" : generate->prompt;
    struct writer w = {.g = generate};
    pst_status st = PST_OK;

    w.length = strlen(prompt);
    allocate(&w, w.length);
    memcpy(w.bytes, prompt, w.length);
    for (uint64_t i = 0; st == PST_OK && i < generate->length && pst_exec_told(generate->exec) == 0;
         i++) {
        st = extend(&w, i, err);
    }
    if (st == PST_OK) {
        *ret_text = to_text(&w);
    }
    free(w.x);
    free(w.targets);
    free(w.logits);
    free(w.bytes);
    return st;
}
