/* SPDX-License-Identifier: Apache-2.0
 *
 * cuDNN, opened when it is wanted.
 */
#include "dnn_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define FILE_NAME  "libcudnn.so." TEXT(CUDNN_MAJOR)

/* From this one on, sums of attention's gradients need no clearing. */
#define LEAST_VERSION 90600

/* It stays for good: it has threads and handlers of its own, and opening it takes long. */
static bool load(struct pst_dnn_functions *call, char *why, size_t why_size)
{
    void *library = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *missing = NULL;

    if (library == NULL) {
        snprintf(why, why_size, "no cuDNN: %s", dlerror());
        return false;
    }
#define FUNCTION(name)                                                                             \
    *(void **)&call->name = dlsym(library, "cudnn" #name);                                         \
    missing = call->name == NULL ? "cudnn" #name : missing;
    PST_DNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
    if (missing != NULL) {
        snprintf(why, why_size, "no cuDNN: %s has no %s", FILE_NAME, missing);
    } else if (call->GetVersion() < LEAST_VERSION) {
        snprintf(why, why_size, "cuDNN %zu is too old, %d is needed", call->GetVersion(),
                 LEAST_VERSION);
    } else {
        return true;
    }
    return false;
}

void pst_dnn_describe(char *ret_text, size_t text_size)
{
    struct pst_dnn_functions call;
    size_t version;

    if (load(&call, ret_text, text_size)) {
        version = call.GetVersion();
        snprintf(ret_text, text_size, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100,
                 version % 100);
    }
}

/* Properties of a GPU that is not there. */
static void absent(struct pst_dnn *dnn, const char *text, char *why, size_t why_size)
{
    struct pst_dnn_maker maker = {.dnn = dnn};

    dnn->properties = pst_dnn_make(&maker, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "properties");
    pst_dnn_set(&maker, dnn->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                (int64_t)strlen(text), text);
    pst_dnn_finalize(&maker, dnn->properties);
    if (maker.status != CUDNN_STATUS_SUCCESS) {
        pst_dnn_why(&maker, why, why_size);
        pst_dnn_unmake(&maker, 0);
        dnn->properties = NULL;
    }
}

static void present(struct pst_dnn *dnn, cudaStream_t stream, char *why, size_t why_size)
{
    cudnnStatus_t status = dnn->call.Create(&dnn->handle);

    if (status != CUDNN_STATUS_SUCCESS) {
        dnn->handle = NULL;
    } else {
        status = dnn->call.SetStream(dnn->handle, stream);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        snprintf(why, why_size, "no cuDNN: %s", dnn->call.GetErrorString(status));
        if (dnn->handle != NULL) {
            dnn->call.Destroy(dnn->handle);
            dnn->handle = NULL;
        }
    }
}

struct pst_dnn *pst_dnn_open(cudaStream_t stream, const char *properties, uint32_t sms,
                             char *ret_why, size_t why_size)
{
    struct pst_dnn *dnn = pst_alloc(1, sizeof *dnn);

    dnn->sms = sms;
    if (load(&dnn->call, ret_why, why_size)) {
        if (properties == NULL) {
            present(dnn, stream, ret_why, why_size);
        } else {
            absent(dnn, properties, ret_why, why_size);
        }
        if (dnn->handle != NULL || dnn->properties != NULL) {
            return dnn;
        }
    }
    pst_dnn_close(dnn);
    return NULL;
}

void pst_dnn_close(struct pst_dnn *dnn)
{
    if (dnn == NULL) {
        return;
    }
    if (dnn->properties != NULL) {
        dnn->call.BackendDestroyDescriptor(dnn->properties);
    }
    if (dnn->handle != NULL) {
        dnn->call.Destroy(dnn->handle);
    }
    free(dnn);
}

bool pst_dnn_follow(struct pst_dnn *dnn, cudaStream_t stream)
{
    return dnn->call.SetStream(dnn->handle, stream) == CUDNN_STATUS_SUCCESS;
}

/* --- descriptors -------------------------------------------------------------------------------*/

static void keep(struct pst_dnn_maker *maker, cudnnStatus_t status, const char *doing)
{
    if (maker->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        maker->status = status;
        maker->doing = doing;
    }
}

cudnnBackendDescriptor_t pst_dnn_make(struct pst_dnn_maker *maker,
                                      cudnnBackendDescriptorType_t type, const char *doing)
{
    cudnnBackendDescriptor_t descriptor = NULL;

    if (maker->status != CUDNN_STATUS_SUCCESS) {
        return NULL;
    }
    maker->doing = doing;
    if (maker->n == PST_DNN_MADE) {
        maker->status = CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
        return NULL;
    }
    maker->status = maker->dnn->call.BackendCreateDescriptor(type, &descriptor);
    if (maker->status != CUDNN_STATUS_SUCCESS) {
        return NULL;
    }
    maker->made[maker->n++] = descriptor;
    return descriptor;
}

void pst_dnn_set(struct pst_dnn_maker *maker, cudnnBackendDescriptor_t descriptor,
                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                 const void *values)
{
    if (maker->status == CUDNN_STATUS_SUCCESS) {
        keep(maker, maker->dnn->call.BackendSetAttribute(descriptor, name, type, n, values),
             maker->doing);
    }
}

void pst_dnn_set_one(struct pst_dnn_maker *maker, cudnnBackendDescriptor_t descriptor,
                     cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    pst_dnn_set(maker, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void pst_dnn_finalize(struct pst_dnn_maker *maker, cudnnBackendDescriptor_t descriptor)
{
    if (maker->status == CUDNN_STATUS_SUCCESS) {
        keep(maker, maker->dnn->call.BackendFinalize(descriptor), maker->doing);
    }
}

void pst_dnn_unmake(struct pst_dnn_maker *maker, uint32_t n)
{
    while (maker->n > n) {
        maker->dnn->call.BackendDestroyDescriptor(maker->made[--maker->n]);
    }
}

void pst_dnn_why(const struct pst_dnn_maker *maker, char *ret_why, size_t why_size)
{
    char text[160] = "";

    maker->dnn->call.GetLastErrorString(text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    snprintf(ret_why, why_size, "cuDNN, %s: %s%s%s", maker->doing,
             maker->dnn->call.GetErrorString(maker->status), text[0] == '\0' ? "" : ": ", text);
}
