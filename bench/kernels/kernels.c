/* SPDX-License-Identifier: Apache-2.0
 *
 * Times the kernels of one transformer block, with embedding, head, loss and optimizer, on the cpu
 * device:
 *
 *   bench-kernels [samples [T [C [heads [vocabulary [threads [kernels [operator]]]]]]]]
 *
 * Prints the best of many runs per pass in milliseconds and GFLOP/s.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "device/device.h"

struct settings {
    uint64_t samples, length, columns, heads, vocabulary, threads;
    const char *kernels;
};

struct bench {
    struct settings settings;
    const struct pst_device_ops *ops;
    struct pst_device *device;
    struct pst_graph *graph;
};

static void *must(void *pointer)
{
    if (pointer == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(4);
    }
    return pointer;
}

static void check(pst_status status, const struct pst_error *err)
{
    if (status != PST_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(pst_error_exit_code(err));
    }
}

/* --- the model -------------------------------------------------------------------------------- */

static uint32_t param(struct pst_graph_builder *b, const char *name, uint64_t rows,
                      uint64_t columns)
{
    const uint64_t dims[2] = {rows, columns};
    char text[64];

    snprintf(text, sizeof text, "%s.%s", name, columns == 0 ? "v" : "m");
    return pst_graph_param(b, text, columns == 0 ? 1 : 2, dims, PST_INIT_NORMAL, 0.02f, true);
}

static uint32_t add(struct pst_graph_builder *b, struct pst_op op, const char *name, uint32_t x0,
                    uint32_t x1, uint32_t p0, uint32_t p1)
{
    const uint32_t in[2] = {x0, x1}, params[2] = {p0, p1};

    op.name = name;
    op.in = in;
    op.n_in = x1 == PST_NONE ? 1 : 2;
    op.param = params;
    op.n_param = p0 == PST_NONE ? 0 : p1 == PST_NONE ? 1 : 2;
    return pst_graph_add(b, &op);
}

static uint32_t norm(struct pst_graph_builder *b, const char *name, uint32_t x, uint64_t columns)
{
    char bias[64];

    snprintf(bias, sizeof bias, "%s.b", name);
    return add(b, (struct pst_op){.kind = PST_OP_LAYERNORM, .eps = 1e-5f}, name, x, PST_NONE,
               param(b, name, columns, 0), param(b, bias, columns, 0));
}

static uint32_t linear(struct pst_graph_builder *b, const char *name, uint32_t x, uint64_t in,
                       uint64_t out, uint32_t act)
{
    return add(b, (struct pst_op){.kind = PST_OP_LINEAR, .act = act}, name, x, PST_NONE,
               param(b, name, in, out), param(b, name, out, 0));
}

static struct pst_graph *build(const struct settings *s)
{
    const uint64_t c = s->columns;
    struct pst_graph_builder *b = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t tokens, targets, table, x, h, loss;
    const struct pst_op attention = {
        .kind = PST_OP_ATTENTION, .heads = (uint32_t)s->heads, .causal = true};
    const struct pst_op residual = {.kind = PST_OP_ADD, .p = 0.1f};

    check(pst_graph_builder_create("bench", PST_F32, &b, &err), &err);
    tokens = pst_graph_input(b, "x", PST_FIELD_X, PST_I32, 1, &s->length);
    targets = pst_graph_input(b, "t", PST_FIELD_TARGET, PST_I32, 1, &s->length);
    table = param(b, "wte", s->vocabulary, c);
    x = add(b, (struct pst_op){.kind = PST_OP_EMBEDDING}, "embedding", tokens, PST_NONE, table,
            param(b, "wpe", s->length, c));
    h = linear(b, "qkv", norm(b, "norm1", x, c), c, 3 * c, PST_ACT_NONE);
    h = add(b, attention, "attention", h, PST_NONE, PST_NONE, PST_NONE);
    x = add(b, residual, "add1", x, linear(b, "proj", h, c, c, PST_ACT_NONE), PST_NONE, PST_NONE);
    h = linear(b, "up+gelu", norm(b, "norm2", x, c), c, 4 * c, PST_ACT_GELU);
    x = add(b, residual, "add2", x, linear(b, "down", h, 4 * c, c, PST_ACT_NONE), PST_NONE,
            PST_NONE);
    h = add(b, (struct pst_op){.kind = PST_OP_LINEAR, .transposed = true}, "head",
            norm(b, "norm3", x, c), PST_NONE, table, PST_NONE);
    loss = add(b, (struct pst_op){.kind = PST_OP_CROSS_ENTROPY}, "loss", h, targets, PST_NONE,
               PST_NONE);
    check(pst_graph_finish(b, loss, h, &graph, &err), &err);
    pst_graph_builder_destroy(b);
    return graph;
}

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

struct operands {
    void *x[2], *p[2], *y[3], *dx[2], *add[2], *z[2], *dp[2], *dy;
};

static void *tensor_buffer(const struct bench *bench, uint32_t tensor)
{
    const struct pst_tensor *t = &bench->graph->tensors[tensor];

    return buffer(t->elems * bench->settings.samples, t->dtype, bench->settings.vocabulary);
}

static void make_operands(const struct bench *bench, uint32_t index, struct operands *o)
{
    const struct pst_op *op = &bench->graph->ops[index];
    struct pst_op_grad grad;

    memset(o, 0, sizeof *o);
    pst_op_grad_info(bench->graph, index, &grad);
    for (uint32_t i = 0; i < op->n_in; i++) {
        o->x[i] = tensor_buffer(bench, op->in[i]);
        if ((grad.b_dx >> i & 1) != 0) {
            o->dx[i] = tensor_buffer(bench, op->in[i]);
        }
        if ((grad.b_adds >> i & 1) != 0) {
            o->add[i] = o->dx[i];
        }
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE) {
            o->p[i] = buffer(bench->graph->params[op->param[i]].elems, PST_F32, 1);
            o->dp[i] = buffer(bench->graph->params[op->param[i]].elems, PST_F32, 1);
        }
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        o->y[i] = tensor_buffer(bench, op->out[i]);
    }
    for (uint32_t i = 0; i < grad.n_z; i++) {
        o->z[i] = buffer(grad.z_elems[i] * bench->settings.samples, PST_F32, 1);
    }
    o->dy = tensor_buffer(bench, op->out[0]);
}

static void free_operands(struct operands *o)
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
    struct timespec t;

    if (bench->settings.threads > 1) {
        return pst_now_ns();
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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
                        const struct operands *o)
{
    const uint32_t samples = (uint32_t)bench->settings.samples;
    struct pst_call call = {.x = o->x, .p = o->p, .y = o->y, .dy = o->dy, .dx = o->dx};
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    double ms, flops = 0, bytes = 0;

    call.add = o->add;
    call.z = o->z;
    call.dp = (float *const *)(const void *)o->dp;
    call.scale = 1;
    call.flags = PST_CALL_TRAINING;
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
    struct operands operands;
    double sum = 0;

    make_operands(bench, index, &operands);
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
    void *module = dlopen(PENSTOCK_PLUGIN_DIR "/device-cpu.so", RTLD_NOW | RTLD_LOCAL);
    pst_device_module_fn *entry = NULL;
    struct pst_error err = {0};
    char text[256];

    if (module != NULL) {
        *(void **)&entry = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    }
    if (entry == NULL) {
        fprintf(stderr, "device-cpu.so cannot be loaded: %s\n", dlerror());
        exit(4);
    }
    bench->ops = entry();
    check(bench->ops->open(&config, &bench->device, &err), &err);
    bench->ops->enter(bench->device);
    bench->ops->describe(text, sizeof text);
    printf("%s\n", text);
}

int main(int argc, char **argv)
{
    struct bench bench = {.settings = {8, 128, 192, 6, 65, 1, "auto"}};
    uint64_t *const values[] = {&bench.settings.samples,    &bench.settings.length,
                                &bench.settings.columns,    &bench.settings.heads,
                                &bench.settings.vocabulary, &bench.settings.threads};
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
    bench.graph = build(&bench.settings);
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
