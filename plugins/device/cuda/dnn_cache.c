/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's plans. Planners ask for workspace from threads of their own, so everything is under a
 * lock; that which compiles belongs to the thread of the device.
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
    pthread_mutex_t lock;
    bool simple, ordered, opened;
    struct pst_dnn *library; /* NULL: not there, or not opened */
    struct entry *entries;
    char why[256]; /* of what was refused last */
    void (*note)(const char *text);
};

pst_status pst_cuda_dnn_create(const char *kernels, void (*note)(const char *text),
                               struct pst_cuda_dnn **ret_dnn, struct pst_error *err)
{
    const char *word = kernels == NULL ? "auto" : kernels;
    const bool simple = strcmp(word, "simple") == 0, unordered = strcmp(word, "unordered") == 0;
    struct pst_cuda_dnn *dnn;

    if (!simple && !unordered && strcmp(word, "auto") != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "device cuda: no kernels \"%s\"; there are auto, simple, unordered", word);
    }
    dnn = pst_alloc(1, sizeof *dnn);
    if (pthread_mutex_init(&dnn->lock, NULL) != 0) {
        pst_out_of_memory();
    }
    dnn->simple = simple;
    dnn->ordered = !unordered;
    dnn->note = note;
    *ret_dnn = dnn;
    return PST_OK;
}

void pst_cuda_dnn_destroy(struct pst_cuda_dnn *dnn)
{
    struct entry *next;

    if (dnn == NULL) {
        return;
    }
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

bool pst_cuda_dnn_ordered(const struct pst_device *device)
{
    return device->dnn->ordered;
}

bool pst_cuda_dnn_simple(const struct pst_device *device)
{
    return device->dnn->simple;
}

/* Once for each graph, as it is asked for once. */
static void note_refusal(const struct pst_cuda_dnn *dnn, const struct pst_dnn_graph *graph,
                         const char *does, const char *why, const char *then)
{
    char name[192], text[512];

    if (dnn->note != NULL) {
        pst_dnn_graph_name(graph, name, sizeof name);
        snprintf(text, sizeof text, "cuDNN %s %s: %s; it goes the simple way%s", does, name, why,
                 then);
        dnn->note(text);
    }
}

static void open_library(struct pst_device *device)
{
    struct pst_cuda_dnn *dnn = device->dnn;
    char text[512];

    dnn->opened = true;
    dnn->library = pst_dnn_open(device->compute, NULL, device->sms, dnn->why, sizeof dnn->why);
    if (dnn->library == NULL && dnn->note != NULL) {
        snprintf(text, sizeof text, "%s; attention and convolution go the simple way", dnn->why);
        dnn->note(text);
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
        note_refusal(dnn, graph, "refuses", dnn->why, "");
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

    if (dnn->simple) {
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
        note_refusal(dnn, &entry->graph, "cannot compile", why,
                     " if the plan has room enough for that");
        entry->broken = pst_strdup(why);
        status = PST_ERR_UNSUPPORTED;
    }
    if (entry->broken != NULL || status != PST_OK) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                          "device cuda, %s: %s; run.kernels = \"simple\" does without cuDNN", name,
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
