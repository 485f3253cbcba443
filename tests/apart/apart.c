/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu device as one whose memory is none of the host's and that works on its own: a module for
 * tests of whatever drives such devices. Arenas are addresses that nothing may touch; what they
 * stand for lies elsewhere and is known here alone. What is asked for goes into queues that threads
 * work off, late and in order (queue.c), and a call returns at once. So whoever reads a buffer
 * without asking the device ends with a fault, and whoever does not wait reads what is not there
 * yet. The numbers are the cpu device's, bit for bit.
 *
 * PENSTOCK_APART_FAILS names an operator: its kernels fail, as on a device that breaks.
 * PENSTOCK_APART_STANDS does, too: its kernels never end.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apart.h"

enum { MOST_ARENAS = 64 };

struct arena {
    const struct pst_device *device;
    char *far, *near;
    uint64_t bytes;
};

const struct pst_device_ops *apart_cpu;
static pthread_mutex_t arenas_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct arena arenas[MOST_ARENAS];

/* --- addresses --- */

static char *find(const void *far)
{
    char *near = NULL;

    pthread_mutex_lock(&arenas_mutex);
    for (uint32_t i = 0; i < MOST_ARENAS && near == NULL; i++) {
        if (arenas[i].far != NULL && (const char *)far >= arenas[i].far &&
            (const char *)far <= arenas[i].far + arenas[i].bytes) {
            near = arenas[i].near + ((const char *)far - arenas[i].far);
        }
    }
    pthread_mutex_unlock(&arenas_mutex);
    return near;
}

void *apart_near(const void *far)
{
    char *near = far == NULL ? NULL : find(far);

    if (near == NULL && far != NULL) {
        fprintf(stderr, "device apart: %p is in no arena\n", far);
        abort();
    }
    return near;
}

void *apart_reach(const void *address)
{
    char *near = find(address);

    return near != NULL ? near : (void *)(uintptr_t)address;
}

static pst_status arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                        struct pst_error *err)
{
    void *near = NULL;
    pst_status status = apart_cpu->arena(device->cpu, bytes, &near, err);
    char *far;

    if (status != PST_OK) {
        return status;
    }
    far = mmap(NULL, bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far == MAP_FAILED) {
        return pst_fail_nomem(err);
    }
    pthread_mutex_lock(&arenas_mutex);
    for (uint32_t i = 0; i < MOST_ARENAS; i++) {
        if (arenas[i].far == NULL) {
            arenas[i] = (struct arena){device, far, near, bytes};
            break;
        }
    }
    pthread_mutex_unlock(&arenas_mutex);
    *ret_base = far;
    return PST_OK;
}

static void forget_arenas(const struct pst_device *device)
{
    pthread_mutex_lock(&arenas_mutex);
    for (uint32_t i = 0; i < MOST_ARENAS; i++) {
        if (arenas[i].far != NULL && arenas[i].device == device) {
            munmap(arenas[i].far, arenas[i].bytes + 1);
            arenas[i].far = NULL;
        }
    }
    pthread_mutex_unlock(&arenas_mutex);
}

/* --- errors --- */

static pst_status sync_device(struct pst_device *device, struct pst_error *err)
{
    pst_status status = PST_OK;

    apart_await(device);
    pthread_mutex_lock(&device->mutex);
    if (device->failed[0] != '\0') {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "run.device", "device apart failed at %s",
                          device->failed);
    }
    pthread_mutex_unlock(&device->mutex);
    return status;
}

/* --- kernels --- */

struct kernel {
    struct pst_kernel base; /* first */
    struct pst_device *device;
    struct pst_kernel *cpu;
    const struct pst_op *op;
};

static void run_now(struct pst_device *device, struct work *work)
{
    const char *fails = getenv("PENSTOCK_APART_FAILS"), *stands = getenv("PENSTOCK_APART_STANDS");

    while (stands != NULL && strcmp(stands, work->op->name) == 0) {
        pause();
    }
    pthread_mutex_lock(&device->mutex);
    if (fails != NULL && strcmp(fails, work->op->name) == 0 && device->failed[0] == '\0') {
        snprintf(device->failed, sizeof device->failed, "%s", work->op->name);
    }
    pthread_mutex_unlock(&device->mutex);
    work->kernel->run(work->kernel, &work->call);
}

static void *const *translate(struct work *work, uint32_t which, void *const *from, uint32_t n)
{
    if (from == NULL) {
        return NULL;
    }
    if (n > MOST_OPERANDS) {
        abort();
    }
    for (uint32_t i = 0; i < n; i++) {
        work->operands[which][i] = apart_near(from[i]);
    }
    return work->operands[which];
}

static void run_later(const struct pst_kernel *base, const struct pst_call *call)
{
    const struct kernel *kernel = (const struct kernel *)(const void *)base;
    const struct pst_op *op = kernel->op;
    struct work *work = apart_work(run_now);
    struct pst_call *to = &work->call;

    work->kernel = kernel->cpu;
    work->op = op;
    *to = *call;
    to->x = translate(work, 0, call->x, op->n_in);
    to->p = translate(work, 1, call->p, op->n_param);
    to->y = translate(work, 2, call->y, op->n_out);
    to->dx = translate(work, 3, call->dx, op->n_in);
    to->add = translate(work, 4, call->add, op->n_in);
    to->z = translate(work, 5, call->z, PST_MAX_SCRATCH);
    to->dp = (float *const *)translate(work, 6, (void *const *)(uintptr_t)call->dp, op->n_param);
    to->state =
        (float *const *)translate(work, 7, (void *const *)(uintptr_t)call->state, op->n_state);
    to->dy = apart_near(call->dy);
    to->workspace = apart_near(call->workspace);
    apart_ask(kernel->device, work);
}

static void destroy(struct pst_kernel *base)
{
    struct kernel *kernel = (struct kernel *)(void *)base;

    apart_await(kernel->device);
    kernel->cpu->destroy(kernel->cpu);
    free(kernel);
}

/* Libraries make kernels for the thread that they are made on. */
struct making {
    const struct pst_graph *graph;
    uint32_t op, pass, samples;
    struct pst_kernel **ret_kernel;
    struct pst_error *err;
    pst_status status;
};

static void compile_now(struct pst_device *device, struct work *work)
{
    struct making *m = work->dst;

    m->status = apart_cpu->compile(device->cpu, m->graph, m->op, m->pass, m->samples, m->ret_kernel,
                                   m->err);
}

static pst_status compile(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                          uint32_t pass, uint32_t samples, struct pst_kernel **ret_kernel,
                          struct pst_error *err)
{
    struct kernel *kernel = calloc(1, sizeof *kernel);
    struct work *work = apart_work(compile_now);
    struct making m;

    if (kernel == NULL) {
        abort();
    }
    m = (struct making){graph, op, pass, samples, &kernel->cpu, err, PST_OK};
    work->dst = &m;
    apart_ask(device, work);
    apart_await(device);
    if (m.status != PST_OK) {
        free(kernel);
        return m.status;
    }
    kernel->base = (struct pst_kernel){run_later, destroy, kernel->cpu->workspace_bytes, NULL};
    kernel->device = device;
    kernel->op = &graph->ops[op];
    *ret_kernel = &kernel->base;
    return PST_OK;
}

static uint64_t workspace(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                          uint32_t pass, uint32_t samples)
{
    return apart_cpu->workspace(device->cpu, graph, op, pass, samples);
}

/* --- copies --- */

static void move(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    struct work *work = apart_work(apart_copy_now);

    work->dst = dst;
    work->a = src;
    work->bytes = bytes;
    apart_ask(device, work);
    apart_await(device);
}

static void upload(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    move(device, apart_near(dst), src, bytes);
}

static void download(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    move(device, dst, apart_near(src), bytes);
}

/* --- the device --- */

static pst_status probe(char *ret_why, size_t why_size)
{
    return apart_cpu->probe(ret_why, why_size);
}

static void describe(char *ret_text, size_t text_size)
{
    snprintf(ret_text, text_size, "the cpu device, apart");
}

static pst_status open_device(const struct pst_device_config *config,
                              struct pst_device **ret_device, struct pst_error *err)
{
    struct pst_device *device = calloc(1, sizeof *device);
    pst_status status;

    if (device == NULL) {
        return pst_fail_nomem(err);
    }
    status = apart_cpu->open(config, &device->cpu, err);
    if (status != PST_OK) {
        free(device);
        return status;
    }
    apart_queues_open(device);
    device->compute = (struct host_stream){HOST_STREAM, apart_ask_other, apart_reach};
    *ret_device = device;
    return PST_OK;
}

static void close_device(struct pst_device *device)
{
    if (device == NULL) {
        return;
    }
    apart_queues_close(device);
    forget_arenas(device);
    apart_cpu->close(device->cpu);
    free(device);
}

static void enter(struct pst_device *device)
{
    device->owner = pthread_self();
    device->owned = true;
}

static void *stream(struct pst_device *device, int *ret_ordinal)
{
    *ret_ordinal = 0;
    return &device->compute;
}

static pst_status supports(struct pst_device *device, uint32_t dtype, struct pst_error *err)
{
    return apart_cpu->supports(device->cpu, dtype, err);
}

static const struct pst_device_ops ops = {
    .size = sizeof ops,
    .id = "apart",
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .enter = enter,
    .arena = arena,
    .supports = supports,
    .workspace = workspace,
    .compile = compile,
    .upload = upload,
    .download = download,
    .zero = apart_zero,
    .accumulate = apart_accumulate,
    .sum = apart_sum,
    .square_sum = apart_square_sum,
    .update = apart_update,
    .refresh = apart_refresh,
    .flags = PST_DEVICE_APART,
    .sync = sync_device,
    .pinned = apart_pinned,
    .mark_create = apart_mark_create,
    .mark = apart_mark,
    .follow = apart_follow,
    .wait = apart_wait,
    .call = apart_call,
    .move = apart_move,
    .add = apart_add,
    .squares = apart_squares,
    .mark_ns = apart_mark_ns,
    .stream = stream,
};

PST_EXPORT pst_device_module_fn pst_device_module;

const struct pst_device_ops *pst_device_module(void)
{
    if (apart_cpu == NULL) {
        void *module = dlopen(PENSTOCK_PLUGIN_DIR "/device-cpu.so", RTLD_NOW | RTLD_LOCAL);
        pst_device_module_fn *entry = NULL;

        if (module != NULL) {
            *(void **)&entry = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
        }
        if (entry == NULL) {
            fprintf(stderr, "device apart: %s\n", dlerror());
            abort();
        }
        apart_cpu = entry();
    }
    return &ops;
}
