/* SPDX-License-Identifier: Apache-2.0
 *
 * Embedding in f32. The scatter adds in the order of tokens; threads share the columns.
 */
#include "cpu.h"

#include <math.h>
#include <string.h>

#define STRIP 64u /* columns: the items of the scatter */

struct embedding {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t n_tokens, n_positions, n_columns;
    uint64_t n_entries;        /* rows of the tables of all parts */
    uint64_t first_row, n_own; /* rows of the table here */
    uint64_t first;            /* position of the slice's first token */
    uint64_t n_summed;         /* tokens whose rows make one of the result */
    const int32_t *tokens;
    float *dtable, *dpositions; /* NULL: not wanted */
};

static bool serves(const struct pst_op_request *request)
{
    return request->dtype == PST_F32 && request_in(request, 0)->dtype == PST_I32;
}

static struct embedding embedding_of(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct embedding e = {.request = &pst_cpu_kernel_of(kernel)->request, .call = call};

    e.n_positions = request_in(e.request, 0)->elems;
    e.first = call->slice * e.n_positions;
    e.n_tokens = e.request->samples * e.n_positions;
    e.n_columns = e.request->graph->params[e.request->op->param[0]].dims[1];
    e.n_summed = e.request->op->bag == PST_BAG_SUM ? e.n_positions : 1;
    e.n_own = e.request->graph->params[e.request->op->param[0]].elems / e.n_columns;
    e.n_entries = request_classes(e.request, e.n_own);
    e.first_row = e.request->op->classes > 0 ? call->part * e.n_own : 0;
    e.tokens = call->x[0];
    return e;
}

/* Data are not trusted: an unknown token gives NaN and touches nothing. */
static bool is_valid(const struct embedding *e, uint64_t r)
{
    return e->tokens[r] >= 0 && (uint64_t)e->tokens[r] < e->n_entries;
}

/* Is its row here, and not that of another part? */
static bool is_own(const struct embedding *e, uint64_t r)
{
    return (uint64_t)e->tokens[r] >= e->first_row &&
           (uint64_t)e->tokens[r] - e->first_row < e->n_own;
}

static bool has_gradient(const struct embedding *e, uint64_t r)
{
    return is_valid(e, r) && is_own(e, r) && (uint32_t)e->tokens[r] + 1 != e->request->op->padding;
}

static uint64_t place_of(const struct embedding *e, uint64_t r)
{
    return ((uint64_t)e->tokens[r] - e->first_row) * e->n_columns;
}

static void forward_tokens(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct embedding *e = context;
    const uint64_t n = e->n_columns;
    const float *table = e->call->p[0];
    const float *positions = request_has_param(e->request, 1) ? e->call->p[1] : NULL;
    float *y = e->call->y[0];

    (void)thread;
    for (uint64_t r = begin; r < end; r++) {
        if (!is_valid(e, r)) {
            for (uint64_t c = 0; c < n; c++) {
                y[r * n + c] = NAN;
            }
        } else if (!is_own(e, r)) {
            memset(y + r * n, 0, n * sizeof *y);
        } else if (positions != NULL) {
            const uint64_t position = request_row_position(
                e->request, e->call, e->n_positions, request_parameter(e->request, 1)->dims[0], r);

            e->request->device->simd->add(y + r * n, table + place_of(e, r),
                                          positions + position * n, n);
        } else {
            memcpy(y + r * n, table + place_of(e, r), n * sizeof *y);
        }
    }
}

/* Results that are sums: the rows of a bag, in the order of its tokens. */
static void forward_bags(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct embedding *e = context;
    const uint64_t n = e->n_columns;
    const float *table = e->call->p[0];

    (void)thread;
    for (uint64_t bag = begin; bag < end; bag++) {
        float *y = (float *)e->call->y[0] + bag * n;

        memset(y, 0, n * sizeof *y);
        for (uint64_t r = bag * e->n_summed; r < (bag + 1) * e->n_summed; r++) {
            if (is_valid(e, r)) {
                e->request->device->simd->add(y, y, table + place_of(e, r), n);
            } else {
                y[0] = NAN;
            }
        }
        for (uint64_t c = 0; isnan(y[0]) && c < n; c++) {
            y[c] = NAN;
        }
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct embedding e = embedding_of(kernel, call);

    if (e.n_summed > 1) {
        pst_cpu_parallel(e.request->device, e.request->samples, forward_bags, &e);
    } else {
        pst_cpu_parallel(e.request->device, e.n_tokens, forward_tokens, &e);
    }
}

static void scatter_strips(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct embedding *e = context;
    const struct pst_simd *simd = e->request->device->simd;
    const uint64_t n = e->n_columns, first = begin * STRIP;
    const uint64_t width = (end * STRIP < n ? end * STRIP : n) - first;
    const float *dy = (const float *)e->call->dy + first;

    (void)thread;
    for (uint64_t r = 0; r < e->n_tokens; r++) {
        if (e->dtable != NULL && has_gradient(e, r)) {
            float *row = e->dtable + place_of(e, r) + first;

            simd->add(row, row, dy + r / e->n_summed * n, width);
        }
        if (e->dpositions != NULL) {
            float *row = e->dpositions + (e->first + r % e->n_positions) * n + first;

            simd->add(row, row, dy + r * n, width);
        }
    }
}

static float *zeroed(const struct embedding *e, uint32_t i)
{
    float *gradient = request_has_param(e->request, i) ? e->call->dp[i] : NULL;

    if (gradient != NULL) {
        memset(gradient, 0,
               e->request->graph->params[e->request->op->param[i]].elems * sizeof *gradient);
    }
    return gradient;
}

static void weights(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct embedding e = embedding_of(kernel, call);

    e.dtable = zeroed(&e, 0);
    e.dpositions = zeroed(&e, 1);
    pst_cpu_parallel(e.request->device, e.n_columns / STRIP + (e.n_columns % STRIP != 0),
                     scatter_strips, &e);
}

const struct pst_cpu_family pst_cpu_embedding = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .run = {forward, NULL, weights},
};
