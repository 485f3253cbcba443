/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the cuda device: the device object, its kernels, and the families that make them. A
 * family serves one kind of operator. A kernel's run() puts work on the device's stream and
 * returns.
 *
 * Errors stick: the first one of the runtime or of cuBLASLt is kept with the name of what was being
 * done, and sync() tells it. After an error nothing that the device says has a meaning.
 */
#ifndef PST_DEVICE_CUDA_CUDA_H
#define PST_DEVICE_CUDA_CUDA_H

#include <cublasLt.h>
#include <stdatomic.h>

#include "device/cuda/family.h"
#include "device/cuda/kernels.h"

/* The workspace of a product; NVIDIA recommends this size for Hopper. */
#ifndef PST_CUDA_PRODUCT_BYTES
#define PST_CUDA_PRODUCT_BYTES (32u << 20)
#endif

struct pst_cuda_dnn;  /* plans of cuDNN: dnn.h */
struct pst_cuda_muon; /* muon.c */
struct pst_cuda_kept; /* algorithms of products: kept.h */
struct pst_cuda_part; /* of a GPU: parts.h */

/* Values that kernels read from memory, because they change between launches of a graph. */
struct pst_cuda_changing {
    struct pst_update_factors factors[PST_UPDATE_KINDS]; /* by kind of update */
    uint64_t first_sample;
};
enum { PST_CUDA_SAMPLE = 1u << PST_UPDATE_KINDS }; /* and 1 << i: factors[i] */

/* The parsed run.kernels. */
struct pst_cuda_choices {
    bool simple;     /* no cuDNN, no gradients of biases out of products, nothing paired */
    bool ordered;    /* sums have one order */
    bool fused_sums; /* gradients of biases out of bf16 products, too */
    bool timed;      /* products by measured times */
    bool paired;     /* a sum and the norm of it are one kernel */
};

struct pst_device {
    int ordinal;
    struct pst_cuda_choices choices;
    void (*note)(const char *text); /* of its config */
    uint32_t share, slot;           /* ranks a GPU, 0: not said; which of them */
    struct pst_cuda_part *part;     /* NULL: the whole GPU, where it is shared because: */
    char undivided[128];
    uint32_t sms; /* multiprocessors of the part; 0: all */
    cudaStream_t compute;
    cudaStream_t queues[PST_QUEUES]; /* [PST_QUEUE_COMPUTE] is compute */
    cudaEvent_t base;                /* when it was passed is known: */
    uint64_t base_ns;                /* on CLOCK_MONOTONIC */
    struct pst_mark **marks;
    uint32_t n_marks;
    void **pinned;
    uint32_t n_pinned;
    cublasLtHandle_t blas;
    struct pst_cuda_kept *kept;
    struct pst_cuda_dnn *dnn;
    bool tf32; /* products of f32 round their operands */
    void **arenas;
    uint32_t n_arenas;
    struct pst_cuda_muon *muon; /* products of Muon's updates, by shape of the matrix */
    uint32_t n_muon;
    double *squares;                    /* scratch of squares(), on the device */
    double *square;                     /* result of square_sum(), in pinned memory */
    uint64_t n_squares;                 /* doubles */
    struct pst_cuda_changing *changing; /* on the device; its thread's, as the next: */
    struct pst_cuda_changing written;   /* what is there */
    uint32_t is_written, captured;      /* PST_CUDA_SAMPLE and so on; of the capture under way */
    bool refused;                       /* the capture under way, at, for: */
    char refused_doing[96], refused_why[256];
    _Atomic(const char *) last; /* operator that was asked for last; NULL: none */
    atomic_flag failing;
    atomic_bool failed; /* the two below are written once, before it */
    char doing[96];     /* what was asked for last when the error showed */
    char why[256];
};

/* The part of a buffer that is after its first n elements of the activations' type. */
static inline void *pst_cuda_at(const struct pst_op_request *request, const void *data, uint64_t n)
{
    return (char *)(uintptr_t)data + n * pst_dtype_bytes(request->dtype);
}

/* --- errors.c ----------------------------------------------------------------------------------*/

/* Keeps the first failure. doing: an operator's name, or what else was asked for. */
void pst_cuda_note(struct pst_device *device, const char *doing, cudaError_t error);
void pst_cuda_note_blas(struct pst_device *device, const char *doing, cublasStatus_t status);
void pst_cuda_note_text(struct pst_device *device, const char *doing, const char *name,
                        const char *text);
/* Notes the error if a launch failed. */
void pst_cuda_note_launch(struct pst_device *device, const char *doing);
/* Kernels that were accepted fail later: the one asked for last, or one before it. */
const char *pst_cuda_doing(const struct pst_device *device, char *text, size_t size);
pst_status pst_cuda_failure(struct pst_device *device, struct pst_error *err);
/* Adds a hint on what to do if a GPU has too little memory. */
void pst_cuda_hint_memory(struct pst_error *err);
/* Fails at once, during setup. */
pst_status pst_cuda_fail(struct pst_error *err, const char *doing, cudaError_t error);
/* Fails because host memory could not be pinned. */
pst_status pst_cuda_fail_pinned(const struct pst_device *device, uint64_t bytes, cudaError_t error,
                                struct pst_error *err);

/* --- muon.c ------------------------------------------------------------------------------------*/

/* Creates the products that updates of the graph's matrices use. */
pst_status pst_cuda_muon_reserve(struct pst_device *device, const struct pst_graph *graph,
                                 struct pst_error *err);
void pst_cuda_muon_free(struct pst_device *device);
void pst_cuda_muon(struct pst_device *device, const struct pst_update *update, float *weights,
                   const float *grad, float *slot, void *working, bool working_bf16);

/* --- choices.c ---------------------------------------------------------------------------------*/

/* kernels: the words; NULL is "auto". */
pst_status pst_cuda_choose(const char *kernels, struct pst_cuda_choices *ret_choices,
                           struct pst_error *err);

/* --- graphs.c: captures, and what may change between their launches ----------------------------*/

const struct pst_update_factors *pst_cuda_factors(struct pst_device *device,
                                                  const struct pst_update *update);
/* Returns true if this thread captures on the device; failures are then the capture's. */
bool pst_cuda_captures(const struct pst_device *device);
bool pst_cuda_capture_begin(struct pst_device *device);
pst_status pst_cuda_capture_end(struct pst_device *device, struct pst_replay **ret_replay,
                                struct pst_error *err);
void pst_cuda_replay(struct pst_device *device, struct pst_replay *replay,
                     const struct pst_changes *changes);
void pst_cuda_replay_destroy(struct pst_device *device, struct pst_replay *replay);

/* --- compile.c ---------------------------------------------------------------------------------*/

pst_status pst_cuda_compile(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                            uint32_t pass, uint32_t samples, struct pst_kernel **ret_kernel,
                            struct pst_error *err);
uint64_t pst_cuda_workspace(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                            uint32_t pass, uint32_t samples);

/* --- linear.c ----------------------------------------------------------------------------------*/

/* In front of a pass. */
void pst_cuda_round_biases(struct pst_device *device, const struct pst_kernel_call *calls,
                           uint32_t n);

/* --- memory.c: arenas, copies ------------------------------------------------------------------*/

pst_status pst_cuda_arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                          struct pst_error *err);
void pst_cuda_arenas_free(struct pst_device *device);
/* Copies a kernel's table to the device; free it with cudaFree(). */
pst_status pst_cuda_table(struct pst_device *device, const char *doing, const void *host,
                          uint64_t bytes, void **ret_table, struct pst_error *err);
void pst_cuda_enter(struct pst_device *device);
void pst_cuda_upload(struct pst_device *device, void *dst, const void *src, uint64_t bytes);
void pst_cuda_download(struct pst_device *device, void *dst, const void *src, uint64_t bytes);
void pst_cuda_zero(struct pst_device *device, void *dst, uint64_t bytes);
/* Has the calling thread work on a GPU, whichever it entered; and back. */
void pst_cuda_visit(struct pst_device *device);
void pst_cuda_return(struct pst_device *device);

/* --- place.c: where a rank is ------------------------------------------------------------------*/

/* GPU, share and slot of a device that is opened. */
pst_status pst_cuda_place(const struct pst_device_config *config, struct pst_device *device,
                          struct pst_error *err);
/* Its part, where there are such. The thread has chosen the GPU. */
pst_status pst_cuda_part_of(struct pst_device *device, struct pst_error *err);
/* Sums over ranks on several GPUs read each other's memory: those of this process. */
pst_status pst_cuda_reach_others(const struct pst_device_config *config,
                                 const struct pst_device *device, struct pst_error *err);
pst_status pst_cuda_fits(const struct pst_device_config *config, const uint64_t *arena_bytes,
                         struct pst_error *err);
void pst_cuda_sharing(struct pst_device *device, char *ret_text, size_t size);
void pst_cuda_identity(const struct pst_device_config *config, char *ret_text, size_t size);

/* --- figures.c ---------------------------------------------------------------------------------*/

/* As device.h says; of the part, where the device has one. */
void pst_cuda_figures(struct pst_device *device, struct pst_cluster *cluster);

/* --- queues.c: streams, marks, pinned memory ---------------------------------------------------*/

struct pst_mark {
    cudaEvent_t event;
};

pst_status pst_cuda_queues_open(struct pst_device *device, struct pst_error *err);
/* Waits for all of them. */
void pst_cuda_queues_close(struct pst_device *device);
pst_status pst_cuda_pinned(struct pst_device *device, uint64_t bytes, void **ret_base,
                           struct pst_error *err);
pst_status pst_cuda_mark_create(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                                struct pst_error *err);
/* Ties times of marks to the clock, where that was long ago. Nothing is in the first queue. */
void pst_cuda_anchor(struct pst_device *device);
uint64_t pst_cuda_mark_ns(struct pst_device *device, struct pst_mark *mark);
void pst_cuda_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
void pst_cuda_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
bool pst_cuda_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns);
void pst_cuda_call(struct pst_device *device, uint32_t queue, void (*work)(void *context),
                   void *context);
void pst_cuda_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                   uint64_t bytes);
void pst_cuda_add(struct pst_device *device, uint32_t queue, float *dst, const float *src,
                  uint64_t elems);

#endif
