/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices of sequences, kernel by kernel: passes of the slices, forward from the first to the last
 * and backward from the last to the first, make the rows and gradients of passes of whole
 * sequences, whose derivatives reference_gradient_test.c holds against differences. Of the cpu
 * device; with SLICES_ON_CUDA of the cuda device on the host.
 */
#include "module.h"

#include <math.h>

#include "base/bf16.h"
#include "base/philox.h"
#include "slice_rig.h"

enum { SAMPLES = 2, MOST = 12 };

/* Kernels, types, and how far apart sums in another order may be. */
static const struct way {
    const char *kernels;
    uint32_t dtype;
    double tolerance;
} ways[] = {
#ifdef SLICES_ON_CUDA
    {"simple", PST_F32, 2e-6},
    {"simple", PST_BF16, 2.0 / 128}, /* two roundings of results of the size of 1 */
#else
    {"reference", PST_F64, 1e-13},
    {"reference", PST_F32, 2e-6},
    {"auto", PST_F32, 2e-6},
#endif
};

#ifdef SLICES_ON_CUDA
#define MODULE "/tests/device-cuda-on-host.so"
#else
#define MODULE "/device-cpu.so"
#endif

static const struct pst_device_ops *ops;

static int load(void **state)
{
    (void)state;
    ops = load_device_module(PENSTOCK_PLUGIN_DIR MODULE);
    return 0;
}

/* --- buffers: sequences, and slices of them -----------------------------------------------------
 */

struct buffers {
    uint32_t dtype, slices;
    void *x[MOST], *y[MOST], *lse[MOST], *dy[MOST], *dx[MOST], *past[MOST];
};

static double get(const void *data, uint32_t dtype, uint64_t i)
{
    return dtype == PST_F64    ? ((const double *)data)[i]
           : dtype == PST_BF16 ? (double)pst_bf16_load(((const uint16_t *)data)[i])
                               : (double)((const float *)data)[i];
}

static void *room(uint64_t elems, uint32_t dtype)
{
    const size_t bytes = (elems * pst_dtype_bytes(dtype) / 256 + 1) * 256; /* as in an arena */
    void *data = aligned_alloc(256, bytes);

    assert_non_null(data);
    memset(data, 0xFF, bytes);
    return data;
}

/* The element of row t of sequence s. */
static uint64_t at(uint32_t slices, uint64_t s, uint64_t t, uint64_t columns)
{
    const uint64_t rows = TOKENS / slices;

    return (s * rows + t % rows) * columns;
}

/* Random rows, the same however they are cut. */
static void fill(const struct buffers *b, void *const *pieces, uint64_t columns, uint64_t stream)
{
    for (uint64_t i = 0; i < SAMPLES * TOKENS * columns; i++) {
        const uint64_t s = i / (TOKENS * columns), t = i / columns % TOKENS;
        const uint64_t to = at(b->slices, s, t, columns) + i % columns;
        void *piece = pieces[t / (TOKENS / b->slices)];
        const float value = 2 * pst_uniform(pst_philox(5, stream, i).v[0]) - 1;

        if (b->dtype == PST_F64) {
            ((double *)piece)[to] = (double)value;
        } else if (b->dtype == PST_BF16) {
            ((uint16_t *)piece)[to] = pst_bf16_round(value);
        } else {
            ((float *)piece)[to] = value;
        }
    }
}

static void buffers_init(struct buffers *b, uint32_t dtype, uint32_t slices)
{
    const uint64_t rows = SAMPLES * TOKENS / slices;
    const uint32_t sums = dtype == PST_F64 ? PST_F64 : PST_F32;

    *b = (struct buffers){.dtype = dtype, .slices = slices};
    for (uint32_t i = 0; i < slices; i++) {
        b->x[i] = room(rows * WIDTH, dtype);
        b->dx[i] = room(rows * WIDTH, dtype);
        b->past[i] = room(rows * 2 * KV_HEADS * DEPTH, sums);
        b->y[i] = room(rows * COLUMNS, dtype);
        b->dy[i] = room(rows * COLUMNS, dtype);
        b->lse[i] = room(rows * HEADS, sums);
    }
    fill(b, b->x, WIDTH, 0);
    fill(b, b->dy, COLUMNS, 1);
}

static void buffers_finish(struct buffers *b)
{
    for (uint32_t i = 0; i < b->slices; i++) {
        void *all[] = {b->x[i], b->y[i], b->lse[i], b->dy[i], b->dx[i], b->past[i]};

        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            free(all[k]);
        }
    }
}

static void compare(const struct buffers *a, void *const *left, const struct buffers *b,
                    void *const *right, uint64_t columns, double tolerance)
{
    for (uint64_t i = 0; i < SAMPLES * TOKENS * columns; i++) {
        const uint64_t s = i / (TOKENS * columns), t = i / columns % TOKENS, c = i % columns;
        const double x =
            get(left[t / (TOKENS / a->slices)], a->dtype, at(a->slices, s, t, columns) + c);
        const double y =
            get(right[t / (TOKENS / b->slices)], b->dtype, at(b->slices, s, t, columns) + c);

        if (!(fabs(x - y) <= tolerance * (1 + fabs(x)))) {
            fail_msg("sequence %u, token %u, column %u: %.17g and %.17g", (unsigned)s, (unsigned)t,
                     (unsigned)c, x, y);
        }
    }
}

/* --- kernels -----------------------------------------------------------------------------------*/

static void run(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                uint32_t pass, struct pst_call *call)
{
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    assert_ok(ops->compile(device, graph, op, pass, SAMPLES, &kernel, &err), &err);
    assert_true(kernel->workspace_bytes == ops->workspace(device, graph, op, pass, SAMPLES));
    call->workspace = room(kernel->workspace_bytes / 4 + 1, PST_F32);
    kernel->run(kernel, call);
    assert_ok(ops->sync == NULL ? PST_OK : ops->sync(device, &err), &err);
    kernel->destroy(kernel);
    free(call->workspace);
}

static void attend(struct pst_device *device, const struct pst_graph *graph, struct buffers *b)
{
    void *none[] = {NULL};

    for (uint32_t pass = PST_KERNEL_F; pass <= PST_KERNEL_B; pass++) {
        for (uint32_t k = 0; k < b->slices; k++) {
            const uint32_t i = pass == PST_KERNEL_F ? k : b->slices - 1 - k;
            void *y[] = {b->y[i], b->lse[i]}, *dpast[MOST] = {NULL};
            struct pst_call call = {.x = &b->x[i],
                                    .p = none,
                                    .y = y,
                                    .dy = b->dy[i],
                                    .dx = &b->dx[i],
                                    .add = none,
                                    .z = none,
                                    .slice = i,
                                    .past = b->x,
                                    .dpast = dpast};

            memcpy(dpast, b->past, (i + (i + 1 < b->slices)) * sizeof *dpast);
            run(device, graph, ATTENTION, pass, &call);
        }
    }
}

static void rotate(struct pst_device *device, const struct pst_graph *graph, struct buffers *b)
{
    for (uint32_t i = 0; i < b->slices; i++) {
        struct pst_call call = {.x = &b->x[i], .y = &b->dx[i], .slice = i};

        run(device, graph, ROTARY, PST_KERNEL_F, &call);
    }
}

static struct pst_device *open_device(const char *kernels)
{
    struct pst_device_config config = {.kernels = kernels, .threads = 1};
    struct pst_device *device = NULL;
    struct pst_error err = {0};

    assert_int_equal(ops->open(&config, &device, &err), PST_OK);
    ops->enter(device);
    return device;
}

static void expect_same(const struct way *way, uint32_t window, uint32_t slices)
{
    struct pst_device *device = open_device(way->kernels);
    struct pst_graph *whole = make_sliced(way->dtype, window, 1),
                     *cut = make_sliced(way->dtype, window, slices);
    struct buffers a, b;

    buffers_init(&a, way->dtype, 1);
    buffers_init(&b, way->dtype, slices);
    attend(device, whole, &a);
    attend(device, cut, &b);
    compare(&a, a.y, &b, b.y, COLUMNS, way->tolerance);
    compare(&a, a.dx, &b, b.dx, WIDTH, way->tolerance);
    rotate(device, whole, &a);
    rotate(device, cut, &b);
    compare(&a, a.dx, &b, b.dx, WIDTH, 0);
    buffers_finish(&a);
    buffers_finish(&b);
    pst_graph_destroy(whole);
    pst_graph_destroy(cut);
    ops->close(device);
}

TEST(attention_and_rotary_positions)
{
    for (uint32_t window = 0; window < 12; window += 5) {
        for (uint32_t slices = 2; slices <= MOST; slices += slices == 4 ? 8 : 1) {
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                expect_same(&ways[w], window, slices);
            }
        }
    }
}

/* Targets that count nothing: all of one slice, some of others, none of the second sequence. */
static int32_t target_of(uint64_t s, uint64_t t)
{
    const bool counts = s == 1 || (t >= TOKENS / 3 && t % 5 != 0);

    return counts ? (int32_t)((7 * t + s) % COLUMNS) : -1;
}

static int32_t counted_of(uint64_t s)
{
    int32_t counted = 0;

    for (uint64_t t = 0; t < TOKENS; t++) {
        counted += target_of(s, t) >= 0;
    }
    return counted;
}

/* Losses in y and gradients of logits, which lie in dy; the mean over slices, sequence by sequence,
   in ret_losses. */
static void lose(struct pst_device *device, const struct pst_graph *graph, struct buffers *b,
                 double *ret_losses)
{
    const uint64_t rows = TOKENS / b->slices, stride = graph->tensors[1].elems;
    int32_t *targets = room(SAMPLES * stride, PST_I32);
    const uint32_t sums = b->dtype == PST_F64 ? PST_F64 : PST_F32;

    for (uint32_t i = 0; i < b->slices; i++) {
        void *x[] = {b->dy[i], targets}, *y[] = {b->past[i], b->lse[i]}, *add[] = {NULL};
        struct pst_call call = {.x = x,
                                .y = y,
                                .dx = &b->y[i],
                                .add = add,
                                .flags = PST_CALL_TRAINING,
                                .scale = 1.0f / (float)(SAMPLES * b->slices),
                                .slice = i};

        for (uint64_t s = 0; s < SAMPLES; s++) {
            for (uint64_t r = 0; r < rows; r++) {
                targets[s * stride + r] = target_of(s, i * rows + r);
            }
            if (stride > rows) {
                targets[s * stride + rows] =
                    graph->token_batch > 0 ? counted_of(0) + counted_of(1) : counted_of(s);
            }
        }
        run(device, graph, LOSS, PST_KERNEL_F, &call);
        run(device, graph, LOSS, PST_KERNEL_B, &call);
        for (uint64_t s = 0; s < SAMPLES; s++) {
            ret_losses[s] += get(b->past[i], sums, s) / b->slices;
        }
    }
    free(targets);
}

TEST(losses_of_targets_that_count)
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct pst_device *device = open_device(ways[w].kernels);
        struct pst_graph *whole = make_sliced(ways[w].dtype, 0, 1),
                         *cut = make_sliced(ways[w].dtype, 0, 4);
        double left[SAMPLES] = {0}, right[SAMPLES] = {0};
        struct buffers a, b;

        buffers_init(&a, ways[w].dtype, 1);
        buffers_init(&b, ways[w].dtype, 4); /* 1 / 8 is exact */
        lose(device, whole, &a, left);
        lose(device, cut, &b, right);
        compare(&a, a.y, &b, b.y, COLUMNS, ways[w].tolerance);
        for (uint32_t s = 0; s < SAMPLES; s++) {
            assert_true(left[s] > 1 && fabs(left[s] - right[s]) <= 2e-6 * left[s]);
        }
        buffers_finish(&a);
        buffers_finish(&b);
        pst_graph_destroy(whole);
        pst_graph_destroy(cut);
        ops->close(device);
    }
}

/* The mean of a sequence's targets times their part of all targets: a sequence with more of them
   has more of the loss and of the gradient. */
TEST(mean_of_tokens)
{
    const double n = counted_of(0) + counted_of(1);

    assert_true(counted_of(0) != counted_of(1));
    for (size_t w = 0; w < 4 * (sizeof ways / sizeof *ways); w++) {
        const struct way *way = &ways[w / 4];
        const uint32_t slices = 1u << w % 4;
        struct pst_device *device = open_device(way->kernels);
        struct pst_graph *means = make_sliced(way->dtype, 0, 1),
                         *tokens = make_sliced(way->dtype, 0, 1);
        double left[SAMPLES] = {0}, right[SAMPLES] = {0};
        struct pst_error err = {0};
        struct buffers a, b;

        assert_ok(pst_graph_mean_tokens(tokens, SAMPLES, &err), &err);
        assert_ok(pst_graph_slice(tokens, slices, &err), &err);
        buffers_init(&a, way->dtype, 1);
        buffers_init(&b, way->dtype, slices);
        lose(device, means, &a, left);
        lose(device, tokens, &b, right);
        for (uint64_t i = 0; i < SAMPLES * TOKENS * COLUMNS; i++) {
            const uint64_t s = i / (TOKENS * COLUMNS), t = i / COLUMNS % TOKENS;
            const double x = get(a.y[0], way->dtype, i) * SAMPLES * counted_of(s) / n;
            const double y = get(b.y[t / (TOKENS / slices)], way->dtype,
                                 at(slices, s, t, COLUMNS) + i % COLUMNS);

            assert_true(fabs(x - y) <= way->tolerance * (1 + fabs(x)));
        }
        for (uint32_t s = 0; s < SAMPLES; s++) {
            assert_true(fabs(left[s] * SAMPLES * counted_of(s) / n - right[s]) <= 2e-6 * right[s]);
        }
        buffers_finish(&a);
        buffers_finish(&b);
        pst_graph_destroy(means);
        pst_graph_destroy(tokens);
        ops->close(device);
    }
}

/* Of the slices' gradients of positions each has the rows of its own, the others are 0. */
TEST(learned_positions)
{
    enum { SLICES = 3, ROWS = TOKENS / SLICES };

    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct pst_device *device =
            open_device(ways[w].dtype == PST_F32 ? ways[w].kernels : "auto");
        struct pst_graph *graph = make_sliced(PST_F32, 0, SLICES);
        float *table = room(VOCAB * WIDTH, PST_F32), *places = room(TOKENS * WIDTH, PST_F32);
        float *dtable = room(VOCAB * WIDTH, PST_F32), *dplaces = room(TOKENS * WIDTH, PST_F32);
        float *y = room(SAMPLES * ROWS * WIDTH, PST_F32);
        int32_t tokens[SAMPLES * ROWS] = {0};
        void *x[] = {tokens}, *p[] = {table, places}, *out[] = {y};
        float *dp[] = {dtable, dplaces};

        for (uint32_t i = 0; i < TOKENS * WIDTH; i++) {
            places[i] = (float)i;
            table[i % (VOCAB * WIDTH)] = 0;
        }
        for (uint32_t slice = 0; slice < SLICES; slice++) {
            struct pst_call call = {.x = x, .p = p, .y = out, .dy = y, .dp = dp, .slice = slice};

            run(device, graph, EMBEDDING, PST_KERNEL_F, &call);
            for (uint32_t i = 0; i < SAMPLES * ROWS * WIDTH; i++) {
                assert_true(y[i] == places[slice * ROWS * WIDTH + i % (ROWS * WIDTH)]);
            }
            run(device, graph, EMBEDDING, PST_KERNEL_W, &call);
            for (uint32_t i = 0; i < TOKENS * WIDTH; i++) {
                assert_true(dplaces[i] ==
                            (i / (ROWS * WIDTH) == slice ? SAMPLES * places[i] : 0.0f));
            }
        }
        free(table);
        free(places);
        free(dtable);
        free(dplaces);
        free(y);
        pst_graph_destroy(graph);
        ops->close(device);
    }
}

int main(void)
{
    return run_own_tests(load, NULL);
}
