/* SPDX-License-Identifier: Apache-2.0
 *
 * Rates that a device's own kernels reach:
 *
 *   bench-gpu-rates MODULE [small] [OPERATOR PASS]
 *
 * MODULE: device-cuda.so; small: sizes for a test; OPERATOR, PASS: one kernel alone, "qkv W", for a
 * profiler.
 *
 * Products (TFLOP/s), attention, and element-wise kernels (GB/s, as a part of what a copy within
 * the device's memory reaches), copies to and from the host, and how much of those is hidden behind
 * kernels. Operands are random: products of zeros draw less power and run faster. One JSON object a
 * line; "floor" and "met" where there is a least value to expect.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/block.h"
#include "base/philox.h"
#include "base/util.h"

/* Of large products on a Hopper GPU, and of copies: what kernels should reach. */
#define PRODUCT_FLOOR (0.70 * 790e12)
#define PRODUCT_LEAST 2048
#define STREAM_FLOOR  0.80

enum { PATTERN = 1 << 20, ALIGN = 256 };

struct bench {
    const struct pst_device_ops *ops;
    struct pst_device *device;
    struct block_sizes sizes;
    struct pst_graph *graph;
    char *arena;
    uint64_t arena_bytes, used;
    double copy_rate; /* bytes per second read and written */
    uint64_t least_ns;
    const char *only; /* an operator, or NULL */
    char only_pass;   /* one of PASSES */
    uint32_t n_timed;
    /* Of a device that stands apart: behind copies in, and out. */
    struct pst_mark *copied[2];
};

#define PASSES "FBW"

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void *take(struct bench *bench, uint64_t bytes)
{
    char *at = bench->arena + bench->used;

    bench->used += round_up(bytes);
    if (bench->used > bench->arena_bytes) {
        fprintf(stderr, "the arena of %llu bytes is too small\n",
                (unsigned long long)bench->arena_bytes);
        exit(1);
    }
    return at;
}

static void settle(struct bench *bench)
{
    struct pst_error err = {0};

    if (bench->ops->sync != NULL) {
        check(bench->ops->sync(bench->device, &err), &err);
    }
}

/* Within the device's memory; where that is the host's there are no queues. */
static void copy(struct bench *bench, void *to, const void *from, uint64_t bytes)
{
    if (bench->ops->move != NULL) {
        bench->ops->move(bench->device, PST_QUEUE_COMPUTE, to, from, bytes);
    } else {
        bench->ops->upload(bench->device, to, from, bytes);
    }
}

/* PATTERN elements from the host, the rest in ever larger copies of what is there. */
static void fill(struct bench *bench, char *to, uint64_t elems, uint32_t dtype)
{
    const uint32_t size = pst_dtype_bytes(dtype);
    const uint64_t first = elems < PATTERN ? elems : PATTERN;
    char *host = must(malloc(first * size));

    for (uint64_t i = 0; i < first; i++) {
        const uint32_t word = pst_philox(5, 0, i).v[0];
        const float value = pst_uniform(word) - 0.5f;
        uint32_t bits;

        memcpy(&bits, &value, sizeof bits);
        if (dtype == PST_BF16) {
            bits >>= 16;
        } else if (dtype == PST_I32) {
            bits = (uint32_t)(word % bench->sizes.vocabulary);
        }
        memcpy(host + i * size, &bits, size);
    }
    bench->ops->upload(bench->device, to, host, first * size);
    free(host);
    for (uint64_t n = first; n < elems; n *= 2) {
        copy(bench, to + n * size, to, (elems - n < n ? elems - n : n) * size);
    }
}

static void *make(void *context, uint64_t elems, uint32_t dtype)
{
    struct bench *bench = context;
    void *at = take(bench, elems * pst_dtype_bytes(dtype));

    fill(bench, at, elems, dtype);
    return at;
}

/* --- timing ------------------------------------------------------------------------------------*/

typedef void job(struct bench *bench, void *context);

/* Mean of runs right behind each other, the best of three such rows. */
static double seconds_of(struct bench *bench, job *run, void *context)
{
    double best = 1e30;
    uint64_t n = 1;

    run(bench, context);
    settle(bench);
    for (uint32_t round = 0; round < 3;) {
        const uint64_t begin = pst_now_ns();
        uint64_t taken;

        for (uint64_t i = 0; i < n; i++) {
            run(bench, context);
        }
        settle(bench);
        taken = pst_now_ns() - begin;
        if (taken < bench->least_ns) {
            n *= 2;
            continue;
        }
        best = (double)taken * 1e-9 / (double)n < best ? (double)taken * 1e-9 / (double)n : best;
        round++;
    }
    return best;
}

struct kernel_job {
    struct pst_kernel *kernel;
    struct pst_call call;
};

static void run_kernel(struct bench *bench, void *context)
{
    const struct kernel_job *k = context;

    (void)bench;
    k->kernel->run(k->kernel, &k->call);
}

/* --- kernels -----------------------------------------------------------------------------------*/

static bool is_product(const struct pst_op *op)
{
    return op->kind == PST_OP_LINEAR;
}

/* Large enough for the floor: no dimension is below it. */
static bool has_floor(const struct bench *bench, const struct pst_op *op)
{
    return is_product(op) && bench->sizes.samples * bench->sizes.length >= PRODUCT_LEAST &&
           bench->sizes.columns >= PRODUCT_LEAST && bench->sizes.vocabulary >= PRODUCT_LEAST;
}

static void print_kernel(const struct bench *bench, const struct pst_op *op, uint32_t pass,
                         double seconds, double flops, double bytes)
{
    const double part = bytes / seconds / bench->copy_rate;

    printf("{\"bench\": \"rates\", \"operator\": \"%s\", \"pass\": \"%c\", \"width\": %llu, "
           "\"rows\": %llu, \"microseconds\": %.2f, \"tflops\": %.2f, \"gb_per_s\": %.1f",
           op->name, PASSES[pass], (unsigned long long)bench->sizes.columns,
           (unsigned long long)(bench->sizes.samples * bench->sizes.length), seconds * 1e6,
           flops / seconds * 1e-12, bytes / seconds * 1e-9);
    if (has_floor(bench, op)) {
        printf(", \"floor\": %.0f, \"met\": %s", PRODUCT_FLOOR * 1e-12,
               flops / seconds >= PRODUCT_FLOOR ? "true" : "false");
    } else if (!is_product(op) && op->kind != PST_OP_ATTENTION && seconds > 20e-6) {
        printf(", \"of_copy\": %.3f, \"floor\": %.2f, \"met\": %s", part, STREAM_FLOOR,
               part >= STREAM_FLOOR ? "true" : "false");
    }
    printf("}\n");
    fflush(stdout);
}

static void time_pass(struct bench *bench, uint32_t index, uint32_t pass,
                      const struct block_operands *operands)
{
    struct kernel_job k = {.call = block_call(operands)};
    const uint64_t used = bench->used;
    struct pst_error err = {0};
    double flops = 0, bytes = 0;

    check(bench->ops->compile(bench->device, bench->graph, index, pass,
                              (uint32_t)bench->sizes.samples, &k.kernel, &err),
          &err);
    k.call.workspace = take(bench, k.kernel->workspace_bytes);
    pst_op_work(bench->graph, index, pass, (uint32_t)bench->sizes.samples, &flops, &bytes);
    print_kernel(bench, &bench->graph->ops[index], pass, seconds_of(bench, run_kernel, &k), flops,
                 bytes);
    bench->used = used;
    k.kernel->destroy(k.kernel);
}

static bool is_wanted(const struct bench *bench, uint32_t index, uint32_t pass)
{
    return bench->only == NULL || (strcmp(bench->only, bench->graph->ops[index].name) == 0 &&
                                   bench->only_pass == PASSES[pass]);
}

static void time_op(struct bench *bench, uint32_t index)
{
    const struct block_buffers from = {bench->graph, bench->sizes.samples, make, bench};
    struct block_operands operands;
    struct pst_op_grad grad;

    bench->used = 0;
    block_operands(&from, index, &operands);
    pst_op_grad_info(bench->graph, index, &grad);
    for (uint32_t pass = 0; pass < 3; pass++) {
        if ((pass == 0 || (pass == 1 ? grad.has_b : grad.has_w)) && is_wanted(bench, index, pass)) {
            time_pass(bench, index, pass, &operands);
            bench->n_timed++;
        }
    }
}

static void time_block(struct bench *bench, const struct block_sizes *sizes)
{
    bench->sizes = *sizes;
    bench->graph = block_create(sizes, PST_BF16);
    for (uint32_t i = 0; i < bench->graph->n_ops; i++) {
        time_op(bench, i);
    }
    pst_graph_destroy(bench->graph);
    bench->graph = NULL;
}

/* --- around the step, copies -------------------------------------------------------------------*/

struct span {
    char *to, *from;
    uint64_t bytes;
};

static void run_copy(struct bench *bench, void *context)
{
    const struct span *span = context;

    copy(bench, span->to, span->from, span->bytes);
}

/* As offloaded tensors move: by a queue of their own. Waits for the end. */
static void move_by(struct bench *bench, uint32_t queue, struct pst_mark *mark, void *dst,
                    const void *src, uint64_t bytes)
{
    bench->ops->move(bench->device, queue, dst, src, bytes);
    bench->ops->mark(bench->device, queue, mark);
    while (!bench->ops->wait(bench->device, mark, UINT64_MAX)) {
    }
}

static void run_upload(struct bench *bench, void *context)
{
    const struct span *span = context;

    if (bench->copied[0] != NULL) {
        move_by(bench, PST_QUEUE_IN, bench->copied[0], span->to, span->from, span->bytes);
    } else {
        bench->ops->upload(bench->device, span->to, span->from, span->bytes);
    }
}

static void run_download(struct bench *bench, void *context)
{
    const struct span *span = context;

    if (bench->copied[1] != NULL) {
        move_by(bench, PST_QUEUE_OUT, bench->copied[1], span->from, span->to, span->bytes);
    } else {
        bench->ops->download(bench->device, span->from, span->to, span->bytes);
    }
}

static void run_accumulate(struct bench *bench, void *context)
{
    const struct span *span = context;

    bench->ops->accumulate(bench->device, (float *)(void *)span->to,
                           (const float *)(const void *)span->from, span->bytes / sizeof(float));
}

static void run_adamw(struct bench *bench, void *context)
{
    static const struct pst_update how = {.optimizer = PST_ADAMW,
                                          .lr = 1e-4f,
                                          .beta1 = 0.9f,
                                          .beta2 = 0.95f,
                                          .eps = 1e-8f,
                                          .step = 1,
                                          .grad_scale = 1};
    const struct span *span = context;
    const uint64_t quarter = span->bytes / 4 / ALIGN * ALIGN;

    bench->ops->update(
        bench->device, &how, (float *)(void *)span->to, (const float *)(const void *)span->from,
        (float *)(void *)(span->to + quarter), (float *)(void *)(span->to + 2 * quarter),
        span->to + 3 * quarter, PST_BF16, quarter / sizeof(float));
}

static double print_stream(struct bench *bench, const char *what, double bytes, job *run,
                           struct span *span, bool floor)
{
    const double seconds = seconds_of(bench, run, span), rate = bytes / seconds;

    printf("{\"bench\": \"rates\", \"operator\": \"%s\", \"microseconds\": %.2f, "
           "\"gb_per_s\": %.1f",
           what, seconds * 1e6, rate * 1e-9);
    if (floor) {
        printf(", \"of_copy\": %.3f, \"floor\": %.2f, \"met\": %s", rate / bench->copy_rate,
               STREAM_FLOOR, rate >= STREAM_FLOOR * bench->copy_rate ? "true" : "false");
    }
    printf("}\n");
    fflush(stdout);
    return rate;
}

/* A second thread copies while this one has kernels to run. */
struct beside {
    struct bench *bench;
    struct span span;
    uint32_t n;
    double seconds;
};

static void *copy_beside(void *context)
{
    struct beside *b = context;
    const uint64_t begin = pst_now_ns();

    for (uint32_t i = 0; i < b->n; i++) {
        run_upload(b->bench, &b->span);
    }
    b->seconds = (double)(pst_now_ns() - begin) * 1e-9;
    return NULL;
}

static double compute(struct bench *bench, struct span *span, uint64_t n)
{
    const uint64_t begin = pst_now_ns();

    for (uint64_t i = 0; i < n; i++) {
        run_adamw(bench, span);
    }
    settle(bench);
    return (double)(pst_now_ns() - begin) * 1e-9;
}

/* Kernels and copies alone, then both: 1 where the shorter one costs nothing, 0 where they queue.
 */
static void time_overlap(struct bench *bench, struct span *work, const struct span *copy)
{
    struct beside beside = {.bench = bench, .span = *copy, .n = 8};
    double alone, copies, both, hidden;
    uint64_t begin, n;
    pthread_t thread;

    copy_beside(&beside);
    copies = beside.seconds;
    n = (uint64_t)(copies / seconds_of(bench, run_adamw, work)) + 1;
    alone = compute(bench, work, n);
    begin = pst_now_ns();
    if (pthread_create(&thread, NULL, copy_beside, &beside) != 0) {
        fprintf(stderr, "no thread\n");
        exit(4);
    }
    compute(bench, work, n);
    pthread_join(thread, NULL);
    both = (double)(pst_now_ns() - begin) * 1e-9;
    hidden = (alone + copies - both) / (alone < copies ? alone : copies);
    printf("{\"bench\": \"rates\", \"operator\": \"upload beside kernels\", \"kernels_s\": %.4f, "
           "\"copies_s\": %.4f, \"both_s\": %.4f, \"hidden\": %.3f}\n",
           alone, copies, both, hidden);
    fflush(stdout);
}

/* Host memory to copy from and to, and how: as the executor has it. */
static void *host_memory(struct bench *bench, uint64_t bytes)
{
    static const uint32_t queues[2] = {PST_QUEUE_IN, PST_QUEUE_OUT};
    const struct pst_device_ops *ops = bench->ops;
    struct pst_error err = {0};
    void *memory = NULL;

    if ((ops->flags & PST_DEVICE_APART) == 0) {
        return must(malloc(bytes));
    }
    check(ops->pinned(bench->device, bytes, &memory, &err), &err);
    for (uint32_t i = 0; i < 2; i++) {
        if (ops->queue_open != NULL) {
            check(ops->queue_open(bench->device, queues[i], 2, &err), &err);
        }
        check(ops->mark_create(bench->device, false, &bench->copied[i], &err), &err);
    }
    return memory;
}

static void time_streams(struct bench *bench, uint64_t bytes)
{
    struct span span = {bench->arena, bench->arena + round_up(bytes), bytes};
    struct span host = {bench->arena + 2 * round_up(bytes), NULL, bytes / 4};

    fill(bench, span.to, bytes / sizeof(float), PST_F32);
    fill(bench, span.from, bytes / sizeof(float), PST_F32);
    bench->copy_rate =
        print_stream(bench, "copy within the device", 2.0 * (double)bytes, run_copy, &span, false);
    if (bench->only != NULL) {
        return;
    }
    host.from = host_memory(bench, host.bytes);
    memset(host.from, 1, host.bytes);
    print_stream(bench, "accumulate", 3.0 * (double)bytes, run_accumulate, &span, true);
    /* weights, gradient, two states read; all but the gradient written, and bf16 weights */
    print_stream(bench, "AdamW", (4 + 3 + 0.5) * (double)(bytes / 4), run_adamw, &span, true);
    print_stream(bench, "upload", (double)host.bytes, run_upload, &host, false);
    print_stream(bench, "download", (double)host.bytes, run_download, &host, false);
    time_overlap(bench, &span, &host);
    if (bench->copied[0] == NULL) {
        free(host.from);
    }
}

int main(int argc, char **argv)
{
    static const struct block_sizes blocks[] = {{16, 1024, 768, 12, 50304},
                                                {4, 2048, 4096, 32, 50304}};
    static const struct block_sizes tiny = {2, 16, 32, 2, 48};
    const bool small = argc >= 3 && strcmp(argv[2], "small") == 0;
    const int n_left = argc - 2 - small;
    const struct pst_device_config config = {.threads = 1, .kernels = "auto"};
    struct bench bench = {.arena_bytes = small ? 64u << 20 : (uint64_t)14 << 30,
                          .least_ns = small ? 100000 : 40000000,
                          .only = n_left == 2 ? argv[2 + small] : NULL,
                          .only_pass = n_left == 2 ? argv[3 + small][0] : '\0'};
    struct pst_error err = {0};
    char text[256] = "";
    void *arena = NULL;

    if (n_left != 0 && n_left != 2) {
        fprintf(stderr, "usage: bench-gpu-rates MODULE [small] [OPERATOR PASS]\n");
        return 2;
    }
    bench.ops = block_load(argv[1]);
    if (bench.ops->probe(text, sizeof text) != PST_OK) {
        fprintf(stderr, "%s\n", text);
        return 4;
    }
    check(bench.ops->open(&config, &bench.device, &err), &err);
    bench.ops->enter(bench.device);
    bench.ops->describe(text, sizeof text);
    fprintf(stderr, "%s\n", text);
    check(bench.ops->arena(bench.device, bench.arena_bytes, &arena, &err), &err);
    bench.arena = arena;
    time_streams(&bench, small ? 1u << 20 : 1u << 30);
    for (uint32_t i = 0; i < (small || bench.only != NULL ? 1u : 2u); i++) {
        time_block(&bench, small ? &tiny : &blocks[i]);
    }
    bench.ops->close(bench.device);
    if (bench.n_timed == 0) {
        fprintf(stderr, "no pass %c of an operator \"%s\"\n", bench.only_pass, bench.only);
        return 2;
    }
    return 0;
}
