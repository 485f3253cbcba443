/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the cpu device: the device object, its kernels, and the families that make them. A
 * family serves one kind of operator; what none serves goes to the reference kernels.
 *
 * Floating point (enter()): round to nearest, subnormals flushed to zero on input and output, on
 * the device thread and on its OpenMP workers alike.
 */
#ifndef PST_DEVICE_CPU_CPU_H
#define PST_DEVICE_CPU_CPU_H

#include <pthread.h>

#include "device/common/request.h"
#include "device/cpu/guard_page_arena.h"
#include "simd.h"

struct pst_cpu_arena {
    struct pst_cpu_arena *next;
    struct pst_guarded block;
};

struct pst_device {
    uint32_t threads;
    bool reference; /* kernels = "reference" */
    const struct pst_simd *simd;
    struct pst_cpu_arena *arenas;
    void *engine, *stream; /* oneDNN's; NULL without it */
    pthread_mutex_t mutex; /* of marks and queues (queues.c), */
    pthread_cond_t changed;
    bool quit;
    struct pst_cpu_queue *queues[PST_QUEUES]; /* NULL: its requests are worked off at once */
    struct pst_mark *marks;
    struct pst_cpu_turns *turns; /* tables of rotary.c */
};

struct pst_cpu_kernel {
    struct pst_kernel base; /* first */
    struct pst_op_request request;
    const struct pst_cpu_family *family;
};

struct pst_cpu_family {
    size_t kernel_bytes; /* of the family's kernel, which starts with struct pst_cpu_kernel */
    /* Returns true if this family has a kernel for the request. */
    bool (*serves)(const struct pst_op_request *request);
    /* NULL: none. Pure; sets no thread state that it does not restore. */
    uint64_t (*workspace)(const struct pst_op_request *request);
    /* Optional; finish() also runs after a failed init(), on what that has left. */
    pst_status (*init)(struct pst_cpu_kernel *kernel, struct pst_error *err);
    void (*finish)(struct pst_cpu_kernel *kernel);
    void (*run[3])(const struct pst_kernel *kernel, const struct pst_call *call);
};

extern const struct pst_cpu_family pst_cpu_add, pst_cpu_dropout, pst_cpu_act, pst_cpu_embedding,
    pst_cpu_layernorm, pst_cpu_cross_entropy, pst_cpu_ce_part, pst_cpu_ce_join, pst_cpu_batchnorm,
    pst_cpu_maxpool2d, pst_cpu_mse, pst_cpu_avgpool2d, pst_cpu_rotary, pst_cpu_glu, pst_cpu_qknorm,
    pst_cpu_custom, pst_cpu_cached, /* attention that keeps what it has seen */
    pst_cpu_samples;                /* any whose samples do not know of each other */
/* dnnl_*.c: built where oneDNN is there. */
extern const struct pst_cpu_family pst_cpu_linear, pst_cpu_attention, pst_cpu_conv2d,
    pst_cpu_experts, pst_cpu_matmul, pst_cpu_strided; /* conv2d: the W of some */

static inline const struct pst_cpu_kernel *pst_cpu_kernel_of(const struct pst_kernel *kernel)
{
    return (const struct pst_cpu_kernel *)(const void *)kernel;
}

/* --- compile.c -------------------------------------------------------------------------------- */

pst_status pst_cpu_compile(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                           uint32_t pass, uint32_t samples, struct pst_kernel **ret_kernel,
                           struct pst_error *err);
uint64_t pst_cpu_workspace(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                           uint32_t pass, uint32_t samples);

/* The W of families whose B finds the parameters' gradients on its way. */
void pst_cpu_copy_scratch(const struct pst_kernel *kernel, const struct pst_call *call);

/* --- rotary.c --------------------------------------------------------------------------------- */

void pst_cpu_turns_finish(struct pst_device *device);

/* --- arena.c ---------------------------------------------------------------------------------- */

pst_status pst_cpu_arena_add(struct pst_device *device, uint64_t bytes, void **ret_base,
                             struct pst_error *err);
void pst_cpu_arenas_finish(struct pst_device *device);

/* --- queues.c --------------------------------------------------------------------------------- */

void pst_cpu_queues_init(struct pst_device *device);
/* Ends all that queues were asked for. */
void pst_cpu_queues_finish(struct pst_device *device);
pst_status pst_cpu_queue_open(struct pst_device *device, uint32_t queue, uint64_t most,
                              struct pst_error *err);
pst_status pst_cpu_mark_create(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                               struct pst_error *err);
void pst_cpu_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
void pst_cpu_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
bool pst_cpu_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns);
uint64_t pst_cpu_mark_ns(struct pst_device *device, struct pst_mark *mark);
void pst_cpu_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                  uint64_t bytes);
void pst_cpu_call(struct pst_device *device, uint32_t queue, void (*work)(void *context),
                  void *context);

/* --- thread.c --------------------------------------------------------------------------------- */

void pst_cpu_enter(struct pst_device *device);
void pst_cpu_leave(struct pst_device *device);

/* Does the items begin ... end - 1; thread numbers count from 0. */
typedef void pst_cpu_work(void *context, uint64_t begin, uint64_t end, uint32_t thread);

/* Splits items 0 ... n - 1 into one range per thread of the device; on its thread alone if that is
   one. Results of an item must not depend on the split. */
void pst_cpu_parallel(const struct pst_device *device, uint64_t n, pst_cpu_work *work,
                      void *context);

/* Calls oneDNN must see `threads`, whoever asks: sets the count, returns the one to put back. */
int pst_cpu_threads_push(uint32_t threads);
void pst_cpu_threads_pop(int old);

/* --- bias.c ----------------------------------------------------------------------------------- */

/* Sums of the columns of x [rows, n], which has the request's dtype. `floats` is workspace. */
uint64_t pst_cpu_bias_floats(const struct pst_op_request *request);
void pst_cpu_bias_gradient(const struct pst_op_request *request, const void *x, uint64_t rows,
                           uint64_t n, float *ret_sums, float *floats);

/* --- step.c ----------------------------------------------------------------------------------- */

void pst_cpu_accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems);
void pst_cpu_sum(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
                 uint32_t dtype);
double pst_cpu_square_sum(struct pst_device *device, const float *values, uint64_t elems);
void pst_cpu_update(struct pst_device *device, const struct pst_update *update, float *weights,
                    const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                    uint64_t elems);
void pst_cpu_refresh(struct pst_device *device, void *working, const float *weights,
                     uint32_t working_dtype, uint64_t elems);

/* --- muon.c ----------------------------------------------------------------------------------- */

/* The update of a matrix, without its working copy. */
void pst_cpu_muon(struct pst_device *device, const struct pst_update *update, float *weights,
                  const float *grad, float *slot);

/* --- dnnl_device.c ---------------------------------------------------------------------------- */

/* These check a status of oneDNN: the first ends the program if memory ran out; must() also asserts
   that nothing else failed. */
void pst_dnnl_heed_no_memory(int status);
void pst_dnnl_must(int status);

pst_status pst_dnnl_open(struct pst_device *device, struct pst_error *err);
void pst_dnnl_close(struct pst_device *device);
/* "oneDNN 2.6.3, AVX-512 with AMX"; bf16 matrix products in hardware? kernels for AVX-512? */
void pst_dnnl_describe(char *ret_text, size_t text_size);
bool pst_dnnl_has_bf16(void);
bool pst_dnnl_has_avx512(void);

#endif
