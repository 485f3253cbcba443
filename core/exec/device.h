/* SPDX-License-Identifier: Apache-2.0
 *
 * The table that a device module gives the core: an arena, kernels, and the elementwise work around
 * the step. Private: the table may change at any commit. A module is device-<id>.so, loaded by
 * host/dl.c, exporting pst_device_module().
 *
 * A device is driven by one thread: enter() comes first on that thread, then everything else.
 * After compile() nothing allocates. All buffers are inside the arena, aligned to 64 bytes.
 */
#ifndef PST_EXEC_DEVICE_H
#define PST_EXEC_DEVICE_H

#include "graph/cluster.h"
#include "graph/graph.h"

enum pst_kernel_pass { PST_KERNEL_F = 0, PST_KERNEL_B = 1, PST_KERNEL_W = 2 };

enum {
    PST_CALL_TRAINING = 1u << 0, /* dropout on, batch norm uses and updates statistics */
    PST_CALL_REPLAY = 1u << 1    /* recompute: no side effect on state */
};

/*
 * Operands of one kernel call; struct pst_op_grad defines which of them B and W read or write.
 * Pointers that do not apply are NULL. Activations and their gradients have the tensor's dtype, p
 * the parameter's dtype, dp and state are f32.
 * F reads x, p and writes y[0] and aux y[1..]. B reads dy (not for a loss: its gradient is
 * scale/rows) and x, p, y as defined there; it writes z, and dx[i] where not NULL, as gradient +
 * add[i] where add[i] is not NULL. W reads dy, z, x, p, y as defined there and overwrites dp[i] (it
 * never accumulates). Outputs never overlap inputs, except that add[i] may equal dx[i].
 *
 * If sequences are cut into slices, the call has slice number `slice`: its rows follow those of
 * `slice` slices of the same length. Attention reads x[0] of these, past[i], and B makes gradients
 * of their keys and values in dpast[i]: rows k|v of all samples, f32 (f64 in f64 models). B of the
 * last slice writes them, B of the others adds; dpast[slice], where not NULL, has the gradient of
 * the call's own keys and values from later slices.
 */
struct pst_call {
    void *const *x, *const *p, *const *y;
    const void *dy;
    void *const *dx, *const *add;
    void *const *z;
    float *const *dp;
    float *const *state;
    void *workspace;       /* as many bytes as compile() asked for */
    uint64_t first_sample; /* global index (from the start of the run) of row 0 */
    uint64_t seed;
    float scale;    /* loss B: 1 / samples of the step */
    uint32_t flags; /* PST_CALL_* */
    uint32_t slice;
    uint32_t part; /* of its replica (graph/split.h) */
    void *const *past, *const *dpast;
};

struct pst_kernel {
    void (*run)(const struct pst_kernel *kernel, const struct pst_call *call);
    void (*destroy)(struct pst_kernel *kernel);
    uint64_t workspace_bytes;
    /* Does this call and the one that stands behind it at once, to the same bits; false: nothing
       was done. NULL: never. */
    bool (*run_both)(const struct pst_kernel *kernel, const struct pst_call *call,
                     const struct pst_kernel *next, const struct pst_call *next_call);
};

/* A kernel with its operands. */
struct pst_kernel_call {
    const struct pst_kernel *kernel; /* NULL: it is no call of a kernel */
    struct pst_call call;
};

/* Optimizer update of one parameter (Kingma and Ba; Loshchilov and Hutter; heavy-ball momentum;
   Jordan et al., "Muon", 2024). */
enum pst_optimizer { PST_SGD = 0, PST_MOMENTUM = 1, PST_ADAM = 2, PST_ADAMW = 3, PST_MUON = 4 };

enum { PST_UPDATE_KINDS = 16 };

struct pst_update {
    uint32_t optimizer;
    float lr, momentum, beta1, beta2, eps,
        weight_decay; /* weight_decay 0 where it does not apply */
    uint64_t step;    /* 1 for the first update */
    float grad_scale; /* gradients are multiplied by this first (clipping) */
    uint32_t kind;    /* updates of a step that are of one kind, below PST_UPDATE_KINDS, differ in
                         nothing above */
    /* PST_MUON: */
    uint64_t rows, columns;
    float factor; /* of lr, but not in weight decay */
    float *room;  /* in the arena: pst_muon_room() */
};

/* How long the described device of a rank takes, in the time of this machine. Pure; asked by any
   thread. */
struct pst_device_times {
    void *context;
    /* One call of a kernel. */
    uint64_t (*kernel_ns)(void *context, uint32_t rank, uint32_t op, uint32_t pass,
                          uint32_t samples, uint32_t slice);
    /* The update of so many parameters with n_slots values of state each; first: of its stage. */
    uint64_t (*update_ns)(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first);
    /* A copy to or from its host; NULL where no plan copies. */
    uint64_t (*host_ns)(void *context, uint32_t rank, uint64_t bytes);
};

struct pst_device_config {
    uint32_t threads;                     /* per device */
    const char *kernels;                  /* run.kernels; NULL: "auto" */
    uint32_t index;                       /* which device of the machine; cpu: ignored */
    const struct pst_device_times *times; /* of a device that stands in for another, which needs it
                                             before compile(); outlives the device. Others: NULL */
    bool tf32;                            /* products of f32 may round their operands to 11 bits */
    /* Takes what users may want to know and is no error: one line; the same more than once. Any
       thread; outlives the device. NULL: nobody does. */
    void (*note)(const char *text);
    /* Several ranks on one GPU; others ignore them. */
    uint32_t share;               /* rank r has GPU r / share; 0: r modulo their number */
    uint32_t first_rank, n_ranks; /* what this process has; 0: one that stands alone */
};

enum {
    PST_DEVICE_NO_DATA = 1u << 0, /* stands in for another: takes its time and makes no values */
    /* Its arena is none of the host's memory; kernels and the work around the step may return
       before they have ended, in the order of the calls. */
    PST_DEVICE_APART = 1u << 1,
    PST_DEVICE_TF32 = 1u << 4,   /* applies tf32 of its config */
    PST_DEVICE_MUON = 1u << 5,   /* its update knows PST_MUON */
    PST_DEVICE_SLICES = 1u << 6, /* its kernels know slices of sequences */
    PST_DEVICE_CUSTOM = 1u << 7, /* it calls kernels of operators of plugins */
    PST_DEVICE_PARTS = 1u << 8   /* it has kernels of conversions, and waits for other parts */
};

/*
 * Work that a device was asked for is in queues; each is in order and runs beside the others.
 * Kernels and the work around the step are in the first. If the device does not stand apart, this
 * queue is its own thread: work has ended when the call returns.
 */
enum pst_queue {
    PST_QUEUE_COMPUTE = 0,
    PST_QUEUE_OUT,   /* to host memory */
    PST_QUEUE_IN,    /* from there */
    PST_QUEUE_LINK,  /* from other ranks: lower ones, */
    PST_QUEUE_BACK,  /* higher ones */
    PST_QUEUE_SUM,   /* sums with other ranks */
    PST_QUEUE_RELAY, /* waits for others */
    PST_QUEUES
};

/* One square_sum() in the list of squares(). */
struct pst_squared {
    const float *values;
    uint64_t elems;
    double *ret_sum;
};

struct pst_device;
struct pst_mark;   /* a place in a queue (below) */
struct pst_replay; /* what was captured (below) */

/* The values that each replay of a capture may change. */
struct pst_changes {
    uint64_t first_sample;            /* of its kernel calls */
    const struct pst_update *updates; /* one of each kind */
    uint32_t n_updates;
};

struct pst_device_ops {
    uint32_t size;
    const char *id;
    /* Is it usable here? If not, why (one line). */
    pst_status (*probe)(char *ret_why, size_t why_size);
    /* One line about it for `doctor`: library, instruction set. */
    void (*describe)(char *ret_text, size_t text_size);
    pst_status (*open)(const struct pst_device_config *config, struct pst_device **ret_device,
                       struct pst_error *err);
    void (*close)(struct pst_device *device); /* frees its arenas; kernels are destroyed before */
    /* Makes the calling thread the device's own (threads, rounding mode). */
    void (*enter)(struct pst_device *device);
    /* One block of exactly `bytes` followed by an inaccessible page, filled with 0xFF. */
    pst_status (*arena)(struct pst_device *device, uint64_t bytes, void **ret_base,
                        struct pst_error *err);
    /* Returns PST_OK if dtype is supported for training here, else an error that says why. */
    pst_status (*supports)(struct pst_device *device, uint32_t dtype, struct pst_error *err);
    /* Workspace bytes of a kernel without making it; cheap, pure, and what compile() will say. */
    uint64_t (*workspace)(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                          uint32_t pass, uint32_t samples);
    /* Makes one kernel for a micro-batch of `samples` samples. */
    pst_status (*compile)(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                          uint32_t pass, uint32_t samples, struct pst_kernel **ret_kernel,
                          struct pst_error *err);
    /* Host to device, device to host. */
    void (*upload)(struct pst_device *device, void *dst, const void *src, uint64_t bytes);
    void (*download)(struct pst_device *device, void *dst, const void *src, uint64_t bytes);
    void (*zero)(struct pst_device *device, void *dst, uint64_t bytes);
    /* dst += src, f32: gradients over micro-batches and tied parameters. */
    void (*accumulate)(struct pst_device *device, float *dst, const float *src, uint64_t elems);
    /* dst = a + b in dtype: gradients of a tensor with several consumers. dst may equal a or b. */
    void (*sum)(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
                uint32_t dtype);
    /* Sum of squares: chunks of 4096 elements, pairwise inside and over chunks, in double. */
    double (*square_sum)(struct pst_device *device, const float *values, uint64_t elems);
    /* weights (f32) and state are updated; `working` (dtype; may be NULL or equal weights)
       refreshed. s0, s1: optimizer state, NULL where the optimizer has none. */
    void (*update)(struct pst_device *device, const struct pst_update *update, float *weights,
                   const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                   uint64_t elems);
    /* working = weights rounded to working_dtype. */
    void (*refresh)(struct pst_device *device, void *working, const float *weights,
                    uint32_t working_dtype, uint64_t elems);
    uint32_t flags; /* PST_DEVICE_* */
    /*
     * Where PST_DEVICE_APART is set; others: NULL. Returns when all that the thread of the device
     * asked for has ended; errors of a device stick, so it says what went wrong first, then or
     * earlier. On the thread of the device, as everything above, uploads and downloads, which end
     * before they return, too.
     */
    pst_status (*sync)(struct pst_device *device, struct pst_error *err);
    /*
     * Queues. Those of PST_QUEUE_COMPUTE are for the thread of the device alone, the others for any
     * thread, also of another device of the module. None of these calls but the first waits for the
     * device, or allocates; a failure sticks. What depends on something is asked for after it, so
     * queues cannot wait in a circle.
     */
    /* Before a queue beside the first is used; `most` requests will be in it at once. NULL: there
       is nothing to do. */
    pst_status (*queue_open)(struct pst_device *device, uint32_t queue, uint64_t most,
                             struct pst_error *err);
    /* Host memory that queues move to and from, filled with 0xFF; close() frees it. */
    pst_status (*pinned)(struct pst_device *device, uint64_t bytes, void **ret_base,
                         struct pst_error *err);
    /* A mark for the queues of this device, freed by close(). It stands nowhere at first. */
    pst_status (*mark_create)(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                              struct pst_error *err);
    /* Sets the mark after all work that the queue was asked for so far. */
    void (*mark)(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
    /* Work that the queue is asked for from now on begins once all work before the mark, as it is
       set now, has ended. The mark may be of any device of the module. */
    void (*follow)(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
    /* Returns true once all work before the mark has ended, or the device has failed; false if
       neither happens within ns. Any thread. */
    bool (*wait)(struct pst_device *device, struct pst_mark *mark, uint64_t ns);
    /* When all before a timed mark had ended, on CLOCK_MONOTONIC: differences are the device's own,
       the clock's to some 10 us. For the thread of the device, of marks that were passed, before
       its next sync(). */
    uint64_t (*mark_ns)(struct pst_device *device, struct pst_mark *mark);
    /* Between arenas of any devices, and pinned memory. */
    void (*move)(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                 uint64_t bytes);
    /* Has a thread of the host do something in the order of the queue. It asks no device for
       anything. Of a hollow device: NULL. */
    void (*call)(struct pst_device *device, uint32_t queue, void (*work)(void *context),
                 void *context);
    /* dst += src, f32 */
    void (*add)(struct pst_device *device, uint32_t queue, float *dst, const float *src,
                uint64_t elems);
    /* square_sum() of each of a list, into pinned memory, in the first queue. The list is the
       caller's again when this returns. */
    void (*squares)(struct pst_device *device, const struct pst_squared *list, uint32_t n);
    /* For whoever watches the device from outside (cuda: an NVTX range): what the calling thread
       asks for from now on has this name; NULL: it ends. The op is NULL where nobody can watch. */
    void (*range)(struct pst_device *device, const char *name);
    /* Returns the native compute queue (cuda: the cudaStream_t), in which other software orders its
       work among the kernels, and the device's number on this machine. NULL: it has none. */
    void *(*stream)(struct pst_device *device, int *ret_ordinal);
    /*
     * Captures; all NULL where there are none. Kernel calls, sum, accumulate, update and refresh
     * between capture_begin and capture_end are not done but kept, and replay() asks for all of
     * them at once, as often as one likes, in the first queue. Operands are those of then, first
     * samples and updates those of `changes`. Each kernel has run before. On the thread of the
     * device, which asks it for nothing else in between. What cannot be captured: capture_end says
     * so (run.graph), nothing was done, and the device goes on; where it cannot even begin,
     * capture_begin returns false, nothing may be asked for, and capture_end says why. A replay is
     * destroyed before the device is closed and waits for it.
     */
    bool (*capture_begin)(struct pst_device *device);
    pst_status (*capture_end)(struct pst_device *device, struct pst_replay **ret_replay,
                              struct pst_error *err);
    void (*replay)(struct pst_device *device, struct pst_replay *replay,
                   const struct pst_changes *changes);
    void (*replay_destroy)(struct pst_device *device, struct pst_replay *replay);
    /*
     * Returns PST_OK if the ranks of this process (first_rank, n_ranks, share) fit on this
     * machine. arena_bytes: a size for each, NULL: not yet known. Called before devices are
     * opened. Errors: machine.missing, machine.memory (exit 4). NULL: nothing to check.
     */
    pst_status (*fits)(const struct pst_device_config *config, const uint64_t *arena_bytes,
                       struct pst_error *err);
    /* How ranks share a device, in one line; "" where they do not. NULL: never. */
    void (*sharing)(struct pst_device *device, char *ret_text, size_t size);
    /* Which device of this machine the rank of a config has: a name that all processes of the
       machine know it by ("0000:3b:00.0"); "" where that is not told. NULL: it has none. */
    void (*identity)(const struct pst_device_config *config, char *ret_text, size_t size);
    /* Puts what the hardware of the device itself says into the description of a cluster: peaks,
       bandwidth, memory; what it does not say stays. NULL: it says nothing. */
    void (*figures)(struct pst_device *device, struct pst_cluster *cluster);
    /* Called before each pass, of training and of evaluation, with its calls, none of which has
       begun; parameters stay unchanged until the last call has ended. Never called inside a
       capture. Called before all passes or before none. NULL: it need not know. */
    void (*begin_pass)(struct pst_device *device, const struct pst_kernel_call *calls, uint32_t n);
    /*
     * The functions below may be NULL; a device has all of them or none. Such a device keeps a
     * clock: when the work it was asked for so far ends, on CLOCK_MONOTONIC. The clock says when
     * things end if this machine is never late, so that delays do not add up.
     */
    uint64_t (*now)(struct pst_device *device);
    /* It does nothing before ns. Returns when this machine is there, too. */
    void (*advance)(struct pst_device *device, uint64_t ns);
    /* Returns when all work that was asked for has ended. Called after each pass and update. */
    void (*finish)(struct pst_device *device);
    /* Something else than the device reads or writes this part of an arena. */
    void (*touch)(struct pst_device *device, const void *data, uint64_t bytes);
    /* Bytes of the arena up to the end of the highest operand of any call so far. */
    uint64_t (*reached)(struct pst_device *device);
};

/* Its kernels run on the cores of this machine, and its arena is of this machine's memory. */
static inline bool pst_device_is_host(const struct pst_device_ops *ops)
{
    return (ops->flags & (PST_DEVICE_APART | PST_DEVICE_NO_DATA)) == 0;
}

/* The module's one export. */
typedef const struct pst_device_ops *pst_device_module_fn(void);
#define PST_DEVICE_MODULE_SYMBOL "pst_device_module"

#endif
