/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's plans. Planners ask for workspace from threads of their own, so everything is under a
 * lock; that which compiles belongs to the thread of the device.
 *
 * Compiling takes long, so plans stay when a device is closed, for the next one on the same GPU
 * with as many multiprocessors. No two devices have the same at a time: NVIDIA does not promise
 * that threads can share a plan, nor a handle.
 */
#include "dnn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct entry {
    struct entry *next;
    struct pst_dnn_plan *plan; /* NULL: none */
    char *broken; /* why it cannot be compiled; what it promises stays the same. NULL: it can */
    struct pst_dnn_graph graph;
};

struct pst_cuda_dnn {
    struct pst_cuda_dnn *next; /* that nobody has */
    int ordinal;
    uint32_t sms;
    pthread_mutex_t lock;
    bool opened;
    struct pst_dnn *library; /* NULL: not there, or not opened */
    struct entry *entries;
    char why[256]; /* of what was refused last */
};

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pst_cuda_dnn *idle;

static struct pst_cuda_dnn *create(const struct pst_device *device)
{
    struct pst_cuda_dnn *dnn = pst_alloc(1, sizeof *dnn);

    if (pthread_mutex_init(&dnn->lock, NULL) != 0) {
        pst_out_of_memory();
    }
    dnn->ordinal = device->ordinal;
    dnn->sms = device->sms;
    return dnn;
}

static void destroy(struct pst_cuda_dnn *dnn)
{
    struct entry *next;

    for (struct entry *entry = dnn->entries; entry != NULL; entry = next) {
        next = entry->next;
        pst_dnn_plan_destroy(entry->plan);
        free(entry->broken);
        free(entry);
    }
    pst_dnn_close(dnn->library);
    pthread_mutex_destroy(&dnn->lock);
    free(dnn);
}

void pst_cuda_dnn_open(struct pst_device *device)
{
    struct pst_cuda_dnn **at = &idle, *dnn;

    pthread_mutex_lock(&idle_lock);
    while (*at != NULL && ((*at)->ordinal != device->ordinal || (*at)->sms != device->sms)) {
        at = &(*at)->next;
    }
    dnn = *at;
    if (dnn != NULL) {
        *at = dnn->next;
    }
    pthread_mutex_unlock(&idle_lock);
    if (dnn != NULL && !pst_dnn_follow(dnn->library, device->compute)) {
        destroy(dnn);
        dnn = NULL;
    }
    device->dnn = dnn != NULL ? dnn : create(device);
}

void pst_cuda_dnn_close(struct pst_device *device)
{
    struct pst_cuda_dnn *dnn = device->dnn;

    if (dnn == NULL) {
        return;
    }
    device->dnn = NULL;
    if (dnn->library == NULL || atomic_load(&device->failed) ||
        !pst_dnn_follow(dnn->library, NULL)) {
        destroy(dnn);
        return;
    }
    pthread_mutex_lock(&idle_lock);
    dnn->next = idle;
    idle = dnn;
    pthread_mutex_unlock(&idle_lock);
}

/* Once for each graph, as it is asked for once. */
static void note_refusal(const struct pst_device *device, const struct pst_dnn_graph *graph,
                         const char *does, const char *why, const char *then)
{
    char name[192], text[512];

    if (device->note != NULL) {
        pst_dnn_graph_name(graph, name, sizeof name);
        snprintf(text, sizeof text, "cuDNN %s %s: %s; it uses simple kernels%s", does, name, why,
                 then);
        device->note(text);
    }
}

static void open_library(struct pst_device *device)
{
    struct pst_cuda_dnn *dnn = device->dnn;
    char text[512];

    dnn->opened = true;
    dnn->library = pst_dnn_open(device->compute, NULL, device->sms, dnn->why, sizeof dnn->why);
    if (dnn->library == NULL && device->note != NULL) {
        snprintf(text, sizeof text, "%s; attention and convolution use simple kernels", dnn->why);
        device->note(text);
    }
}

static struct entry *plan_of(struct pst_device *device, const struct pst_dnn_graph *graph)
{
    struct pst_cuda_dnn *dnn = device->dnn;
    struct entry *entry = pst_alloc(1, sizeof *entry);

    memcpy(&entry->graph, graph, sizeof entry->graph);
    if (!dnn->opened) {
        open_library(device);
    }
    if (dnn->library != NULL) {
        entry->plan = pst_dnn_plan_create(dnn->library, graph, dnn->why, sizeof dnn->why);
    }
    if (dnn->library != NULL && entry->plan == NULL) {
        note_refusal(device, graph, "refuses", dnn->why, "");
    }
    entry->next = dnn->entries;
    dnn->entries = entry;
    return entry;
}

struct pst_dnn_plan *pst_cuda_dnn_propose(struct pst_device *device,
                                          const struct pst_dnn_graph *graph)
{
    struct pst_cuda_dnn *dnn = device->dnn;
    struct entry *entry;
    struct pst_dnn_plan *plan;
    int before = device->ordinal;

    if (device->choices.simple) {
        return NULL;
    }
    pthread_mutex_lock(&dnn->lock);
    entry = dnn->entries;
    while (entry != NULL && memcmp(&entry->graph, graph, sizeof *graph) != 0) {
        entry = entry->next;
    }
    if (entry == NULL) { /* whoever asks may be at another GPU */
        cudaGetDevice(&before);
        cudaSetDevice(device->ordinal);
        entry = plan_of(device, graph);
        cudaSetDevice(before);
    }
    plan = entry->plan;
    pthread_mutex_unlock(&dnn->lock);
    return plan;
}

pst_status pst_cuda_dnn_compile(struct pst_device *device, struct pst_dnn_plan *plan,
                                const char *name, struct pst_error *err)
{
    struct pst_cuda_dnn *dnn = device->dnn;
    struct entry *entry;
    char why[sizeof dnn->why] = "";
    pst_status status = PST_OK;

    pthread_mutex_lock(&dnn->lock);
    entry = dnn->entries;
    while (entry->plan != plan) {
        entry = entry->next;
    }
    if (entry->broken == NULL && !pst_dnn_plan_compile(plan, why, sizeof why)) {
        note_refusal(device, &entry->graph, "cannot compile", why,
                     " if the plan has enough memory for them");
        entry->broken = pst_strdup(why);
        status = PST_ERR_UNSUPPORTED;
    }
    if (entry->broken != NULL || status != PST_OK) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                          "device cuda, %s: %s; run.kernels = \"simple\" needs no cuDNN", name,
                          entry->broken != NULL ? entry->broken : why);
    }
    pthread_mutex_unlock(&dnn->lock);
    return status;
}

void pst_cuda_dnn_run(struct pst_device *device, const char *name, const struct pst_dnn_plan *plan,
                      void *const operands[PST_DNN_ROLES], void *workspace)
{
    const char *why = pst_dnn_plan_run(plan, operands, workspace);

    if (why != NULL) {
        pst_cuda_note_text(device, name, "cuDNN", why);
    }
}
