/* SPDX-License-Identifier: Apache-2.0
 *
 * Times the kernels of one transformer block, with embedding, head, loss and optimizer, on the cpu
 * device:
 *
 *   bench-kernels [samples [T [C [heads [vocabulary [threads [kernels [operator]]]]]]]]
 *
 * Prints the best of many runs per pass in milliseconds and GFLOP/s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "block.h"

struct settings {
    struct block_sizes sizes;
    uint64_t threads;
    const char *kernels;
};

struct bench {
    struct settings settings;
    const struct pst_device_ops *ops;
    struct pst_device *device;
    struct pst_graph *graph;
};

/* --- operands --------------------------------------------------------------------------------- */

static void *buffer(uint64_t elems, uint32_t dtype, uint64_t limit)
{
    const uint64_t bytes = (elems * pst_dtype_bytes(dtype) + 127) / 64 * 64;
    void *data = must(aligned_alloc(64, bytes));

    memset(data, 0, bytes);
    for (uint64_t i = 0; i < elems; i++) {
        if (dtype == PST_I32) {
            ((int32_t *)data)[i] = (int32_t)(i * 7919 % limit);
        } else {
            ((float *)data)[i] = (float)(i * 2654435761u % 65536) / 32768.0f - 1.0f;
        }
    }
    return data;
}

/* On the host; ids are of a vocabulary of context's size. */
static void *make_buffer(void *context, uint64_t elems, uint32_t dtype)
{
    const uint64_t *limit = context;

    return buffer(elems, dtype, *limit);
}

static void free_operands(struct block_operands *o)
{
    for (uint32_t i = 0; i < 2; i++) {
        free(o->x[i]);
        free(o->p[i]);
        free(o->dx[i]);
        free(o->z[i]);
        free(o->dp[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        free(o->y[i]);
    }
    free(o->dy);
}

/* --- timing ----------------------------------------------------------------------------------- */

/* With one thread its processor time, which neighbours disturb less. */
static uint64_t spent_ns(const struct bench *bench)
{
    return pst_clock_ns(bench->settings.threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
}

static double best_ms(const struct bench *bench, const struct pst_kernel *kernel,
                      const struct pst_call *call)
{
    const uint64_t begin = pst_now_ns();
    uint64_t best = UINT64_MAX;

    for (uint32_t i = 0; i < 5 || pst_now_ns() - begin < 150000000u; i++) {
        const uint64_t start = spent_ns(bench);
        uint64_t taken;

        kernel->run(kernel, call);
        taken = spent_ns(bench) - start;
        best = taken < best ? taken : best;
    }
    return (double)best * 1e-6;
}

static double time_pass(const struct bench *bench, uint32_t index, uint32_t pass,
                        const struct block_operands *o)
{
    const uint32_t samples = (uint32_t)bench->settings.sizes.samples;
    struct pst_call call = block_call(o);
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    double ms, flops = 0, bytes = 0;

    check(bench->ops->compile(bench->device, bench->graph, index, pass, samples, &kernel, &err),
          &err);
    call.workspace = must(aligned_alloc(64, (kernel->workspace_bytes + 127) / 64 * 64));
    ms = best_ms(bench, kernel, &call);
    pst_op_work(bench->graph, index, pass, samples, &flops, &bytes);
    printf("  %8.3f ms %6.1f GF/s", ms, flops / ms * 1e-6);
    free(call.workspace);
    kernel->destroy(kernel);
    return ms;
}

static double time_op(const struct bench *bench, uint32_t index, double total[3])
{
    const struct pst_op *op = &bench->graph->ops[index];
    struct pst_op_grad grad;
    struct block_buffers from = {.graph = bench->graph, .samples = bench->settings.sizes.samples};
    uint64_t vocabulary = bench->settings.sizes.vocabulary;
    struct block_operands operands;
    double sum = 0;

    from.make = make_buffer;
    from.context = &vocabulary;
    block_operands(&from, index, &operands);
    pst_op_grad_info(bench->graph, index, &grad);
    printf("%-10s", op->name);
    for (uint32_t pass = 0; pass < 3; pass++) {
        const bool has = pass == 0 || (pass == 1 ? grad.has_b : grad.has_w);
        const double ms = has ? time_pass(bench, index, pass, &operands) : 0;

        if (!has) {
            printf("  %23s", "");
        }
        total[pass] += ms;
        sum += ms;
    }
    printf("\n");
    free_operands(&operands);
    return sum;
}

static void time_step(const struct bench *bench)
{
    const uint64_t elems = 1 << 20;
    const struct pst_update update = {.optimizer = PST_ADAMW,
                                      .lr = 1e-3f,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.99f,
                                      .eps = 1e-8f,
                                      .step = 1,
                                      .grad_scale = 1};
    float *data[4];
    uint64_t t[4];
    double norm;

    for (uint32_t i = 0; i < 4; i++) {
        data[i] = buffer(elems, PST_F32, 1);
        memset(data[i], 0, elems * sizeof(float));
    }
    t[0] = pst_now_ns();
    bench->ops->update(bench->device, &update, data[0], data[1], data[2], data[3], NULL, PST_F32,
                       elems);
    t[1] = pst_now_ns();
    norm = bench->ops->square_sum(bench->device, data[1], elems);
    t[2] = pst_now_ns();
    bench->ops->accumulate(bench->device, data[0], data[1], elems);
    t[3] = pst_now_ns();
    printf("of 2^20 parameters: AdamW %.3f ms, norm %.3f ms, accumulate %.3f ms (%g)\n",
           (double)(t[1] - t[0]) * 1e-6, (double)(t[2] - t[1]) * 1e-6, (double)(t[3] - t[2]) * 1e-6,
           norm);
    for (uint32_t i = 0; i < 4; i++) {
        free(data[i]);
    }
}

static void open_device(struct bench *bench)
{
    const struct pst_device_config config = {.threads = (uint32_t)bench->settings.threads,
                                             .kernels = bench->settings.kernels};
    struct pst_error err = {0};
    char text[256];

    bench->ops = block_load(PENSTOCK_PLUGIN_DIR "/device-cpu.so");
    check(bench->ops->open(&config, &bench->device, &err), &err);
    bench->ops->enter(bench->device);
    bench->ops->describe(text, sizeof text);
    printf("%s\n", text);
}

int main(int argc, char **argv)
{
    struct bench bench = {.settings = {{8, 128, 192, 6, 65}, 1, "auto"}};
    uint64_t *const values[] = {&bench.settings.sizes.samples,    &bench.settings.sizes.length,
                                &bench.settings.sizes.columns,    &bench.settings.sizes.heads,
                                &bench.settings.sizes.vocabulary, &bench.settings.threads};
    double total[3] = {0}, sum = 0;

    for (int i = 1; i < argc && i <= 6; i++) {
        *values[i - 1] = strtoull(argv[i], NULL, 10);
        if (*values[i - 1] == 0) {
            fprintf(stderr, "argument %d must be a positive number\n", i);
            return 2;
        }
    }
    bench.settings.kernels = argc > 7 ? argv[7] : "auto";
    open_device(&bench);
    bench.graph = block_create(&bench.settings.sizes, PST_F32);
    printf("%-10s  %-24s %-24s %s\n", "operator", "F", " B", "  W");
    for (uint32_t i = 0; i < bench.graph->n_ops; i++) {
        if (argc <= 8 || strcmp(argv[8], bench.graph->ops[i].name) == 0) {
            sum += time_op(&bench, i, total);
        }
    }
    printf("%-10s  %8.3f ms %14s %8.3f ms %14s %8.3f ms, together %.3f ms\n", "all", total[0], "",
           total[1], "", total[2], sum);
    time_step(&bench);
    pst_graph_destroy(bench.graph);
    bench.ops->close(bench.device);
    return 0;
}
