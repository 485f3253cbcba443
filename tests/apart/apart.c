/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu device as one whose memory is none of the host's and that works on its own: a module for
 * tests of whatever drives such devices. Arenas are addresses that nothing may touch; what they
 * stand for lies elsewhere and is known here alone. What is asked for goes into a queue that a
 * thread works off, late and in order, and a call returns at once. So whoever reads a buffer
 * without asking the device ends with a fault, and whoever does not wait reads what is not there
 * yet. The numbers are the cpu device's, bit for bit.
 *
 * PENSTOCK_APART_FAILS names an operator: its kernels fail, as on a device that breaks.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "apart.h"

#define LATE_NS 30000u /* at most, before each piece of work */

enum { MOST_ARENAS = 64 };

struct arena {
    const struct pst_device *device;
    char *far, *near;
    uint64_t bytes;
};

const struct pst_device_ops *apart_cpu;
static pthread_mutex_t arenas_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct arena arenas[MOST_ARENAS];

/* --- addresses ---------------------------------------------------------------------------------
 */

void *apart_near(const void *far)
{
    char *near = NULL;

    if (far == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&arenas_mutex);
    for (uint32_t i = 0; i < MOST_ARENAS && near == NULL; i++) {
        if (arenas[i].far != NULL && (const char *)far >= arenas[i].far &&
            (const char *)far <= arenas[i].far + arenas[i].bytes) {
            near = arenas[i].near + ((const char *)far - arenas[i].far);
        }
    }
    pthread_mutex_unlock(&arenas_mutex);
    if (near == NULL) {
        fprintf(stderr, "device apart: %p is in no arena\n", far);
        abort();
    }
    return near;
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

/* --- the queue ---------------------------------------------------------------------------------
 */

static void be_late(struct pst_device *device)
{
    struct timespec nap = {0};

    device->seed = device->seed * 6364136223846793005u + 1442695040888963407u;
    nap.tv_nsec = (long)((device->seed >> 33) % LATE_NS);
    if (nap.tv_nsec < (long)LATE_NS / 8) { /* not each: the tests shall end */
        nanosleep(&nap, NULL);
    }
}

static void *work_off(void *argument)
{
    struct pst_device *device = argument;

    apart_cpu->enter(device->cpu);
    pthread_mutex_lock(&device->mutex);
    for (;;) {
        struct work *work = device->head;

        if (work == NULL && device->quit) {
            break;
        }
        if (work == NULL) {
            pthread_cond_wait(&device->changed, &device->mutex);
            continue;
        }
        device->head = work->next;
        device->tail = device->head == NULL ? NULL : device->tail;
        pthread_mutex_unlock(&device->mutex);
        be_late(device);
        work->run(device, work);
        free(work);
        pthread_mutex_lock(&device->mutex);
        device->n_done++;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->mutex);
    return NULL;
}

struct work *apart_work(void (*run)(struct pst_device *device, struct work *work))
{
    struct work *work = calloc(1, sizeof *work);

    if (work == NULL) {
        abort();
    }
    work->run = run;
    return work;
}

void apart_ask(struct pst_device *device, struct work *work)
{
    if (!device->owned || !pthread_equal(device->owner, pthread_self())) {
        fprintf(stderr, "device apart: asked by a thread that did not enter it\n");
        abort();
    }
    pthread_mutex_lock(&device->mutex);
    if (device->tail == NULL) {
        device->head = work;
    } else {
        device->tail->next = work;
    }
    device->tail = work;
    device->n_asked++;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

void apart_await(struct pst_device *device)
{
    pthread_mutex_lock(&device->mutex);
    while (device->n_done < device->n_asked) {
        pthread_cond_wait(&device->changed, &device->mutex);
    }
    pthread_mutex_unlock(&device->mutex);
}

static pst_status sync_device(struct pst_device *device, struct pst_error *err)
{
    apart_await(device);
    if (device->failed[0] == '\0') {
        return PST_OK;
    }
    return pst_fail(err, PST_ERR_UNSUPPORTED, "run.device", "device apart failed at %s",
                    device->failed);
}

/* --- kernels -----------------------------------------------------------------------------------
 */

struct kernel {
    struct pst_kernel base; /* first */
    struct pst_device *device;
    struct pst_kernel *cpu;
    const struct pst_op *op;
};

static void run_now(struct pst_device *device, struct work *work)
{
    const char *fails = getenv("PENSTOCK_APART_FAILS");

    if (fails != NULL && strcmp(fails, work->op->name) == 0 && device->failed[0] == '\0') {
        snprintf(device->failed, sizeof device->failed, "%s", work->op->name);
    }
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
    kernel->base = (struct pst_kernel){run_later, destroy, kernel->cpu->workspace_bytes};
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

/* --- copies ------------------------------------------------------------------------------------
 */

static void copy_now(struct pst_device *device, struct work *work)
{
    (void)device;
    memcpy(work->dst, work->a, work->bytes);
}

/* In the order of what was asked for on the thread of the device; at once on others. */
static void move(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    struct work *work;

    if (!device->owned || !pthread_equal(device->owner, pthread_self())) {
        memcpy(dst, src, bytes);
        return;
    }
    work = apart_work(copy_now);
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

static void copy(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    move(device, apart_near(dst), apart_near(src), bytes);
}

/* --- the device --------------------------------------------------------------------------------
 */

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
    device->seed = config->index + 1;
    pthread_mutex_init(&device->mutex, NULL);
    pthread_cond_init(&device->changed, NULL);
    if (pthread_create(&device->thread, NULL, work_off, device) != 0) {
        abort();
    }
    *ret_device = device;
    return PST_OK;
}

static void close_device(struct pst_device *device)
{
    if (device == NULL) {
        return;
    }
    pthread_mutex_lock(&device->mutex);
    device->quit = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    pthread_join(device->thread, NULL);
    forget_arenas(device);
    apart_cpu->close(device->cpu);
    pthread_mutex_destroy(&device->mutex);
    pthread_cond_destroy(&device->changed);
    free(device);
}

static void enter(struct pst_device *device)
{
    device->owner = pthread_self();
    device->owned = true;
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
    .copy = copy,
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
