/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to dnn_*.c: the functions of cuDNN that are called, and descriptors with errors that
 * stick, so that a long description reads straight down and is checked once.
 */
#ifndef PST_DEVICE_CUDA_DNN_LIBRARY_H
#define PST_DEVICE_CUDA_DNN_LIBRARY_H

#include <cudnn.h>

#include "dnn_plan.h"

#define PST_DNN_FUNCTIONS(F)                                                                       \
    F(GetVersion)                                                                                  \
    F(GetErrorString)                                                                              \
    F(GetLastErrorString)                                                                          \
    F(Create)                                                                                      \
    F(Destroy)                                                                                     \
    F(SetStream)                                                                                   \
    F(BackendCreateDescriptor)                                                                     \
    F(BackendDestroyDescriptor)                                                                    \
    F(BackendSetAttribute)                                                                         \
    F(BackendGetAttribute)                                                                         \
    F(BackendFinalize)                                                                             \
    F(BackendExecute)

struct pst_dnn_functions {
#define FUNCTION(name) __typeof__(&cudnn##name) name;
    PST_DNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

struct pst_dnn {
    struct pst_dnn_functions call;
    cudnnHandle_t handle;                /* NULL: of a GPU that is not there */
    cudnnBackendDescriptor_t properties; /* of that one */
    uint32_t sms;                        /* multiprocessors that kernels have; 0: all */
};

#define PST_DNN_MADE 192

/* Descriptors that live as long as the plan that is made of them. */
struct pst_dnn_maker {
    const struct pst_dnn *dnn;
    cudnnStatus_t status; /* the first failure */
    const char *doing;    /* at it */
    uint32_t n;
    cudnnBackendDescriptor_t made[PST_DNN_MADE];
};

/* NULL after a failure, now or before. */
cudnnBackendDescriptor_t pst_dnn_make(struct pst_dnn_maker *maker,
                                      cudnnBackendDescriptorType_t type, const char *doing);
void pst_dnn_set(struct pst_dnn_maker *maker, cudnnBackendDescriptor_t descriptor,
                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                 const void *values);
void pst_dnn_set_one(struct pst_dnn_maker *maker, cudnnBackendDescriptor_t descriptor,
                     cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void pst_dnn_finalize(struct pst_dnn_maker *maker, cudnnBackendDescriptor_t descriptor);
/* Destroys the newest ones until n are left. */
void pst_dnn_unmake(struct pst_dnn_maker *maker, uint32_t n);
/* The library's words for the first failure. */
void pst_dnn_why(const struct pst_dnn_maker *maker, char *ret_why, size_t why_size);

/* dnn_describe.c: the operation graph of a graph; NULL after a failure. */
cudnnBackendDescriptor_t pst_dnn_describe_graph(struct pst_dnn_maker *maker,
                                                const struct pst_dnn_graph *graph);

#endif
