/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a plan: one thread per local rank, each walking its instruction list over its own arena. The
 * step loop allocates nothing. Losses are the same bits for every synchronous plan.
 */
#ifndef PST_EXEC_EXEC_H
#define PST_EXEC_EXEC_H

#include <stdatomic.h>

#include "device/device.h"
#include "plan/program.h"
#include "transport/transport.h"

struct pst_exec;

/* Everything pointed to stays the caller's and lives longer than the executor. */
struct pst_exec_config {
    const struct pst_graph *graph;
    const struct pst_plan *plan;               /* training */
    const struct pst_program *const *programs; /* one per rank */
    const struct pst_plan *eval_plan;          /* forward only; NULL: no evaluation */
    const struct pst_program *const *eval_programs;
    const struct pst_device_ops *device;
    struct pst_device_config device_config;
    const struct pst_transport_ops *transport;
    uint64_t stall_ns;
    uint64_t seed; /* of initial weights and dropout */
    double clip;   /* global norm; 0: none */
    bool skip_non_finite;
};

/*
 * Data of one step: for each input field (PST_FIELD_*) the rows of all samples of the step,
 * row-major as the graph's input tensor has them. Owned by the caller, unchanged during the step.
 */
struct pst_batch {
    const void *fields[3];
    uint64_t first_sample; /* global index, counted from the start of the run */
};

struct pst_step_result {
    double loss;      /* mean over the samples of the step */
    double grad_norm; /* before clipping */
    bool skipped;     /* non-finite: no update was made */
    uint64_t ns;      /* wall time */
};

/* Opens devices, allocates arenas, initialises weights, compiles all kernels; threads then wait. */
pst_status pst_exec_create(const struct pst_exec_config *config, struct pst_exec **ret_exec,
                           struct pst_error *err);
void pst_exec_destroy(struct pst_exec *exec);

/*
 * One training step. update->grad_scale is not read: clipping sets it. Weight decay reaches only
 * parameters marked for it, and none with PST_ADAM.
 *
 * run.non-finite (exit code 1): loss or norm is not finite and nothing was updated; the executor
 * goes on. run.stalled: a rank waited longer than stall_ns. After any other error than
 * run.non-finite all further calls return that error.
 */
pst_status pst_exec_step(struct pst_exec *exec, const struct pst_batch *batch,
                         const struct pst_update *update, struct pst_step_result *ret_result,
                         struct pst_error *err);

/* Forward only, dropout off. ret_output (may be NULL): the first output_elems elements of the kept
   tensor of the last micro-batch, as f32. */
pst_status pst_exec_eval(struct pst_exec *exec, const struct pst_batch *batch, double *ret_loss,
                         float *ret_output, uint64_t output_elems, struct pst_error *err);

/* Highest byte of each rank's arena that was ever written, plus one: what the run really reached.
 */
void pst_exec_measured_peaks(struct pst_exec *exec, uint64_t *ret_bytes);

/* Copies a parameter (f32, by its canonical index) or its summed gradient of the last step out,
   before clipping. PST_ERR_BUG: no such parameter in the plan, or no step was made yet. */
pst_status pst_exec_get_parameter(struct pst_exec *exec, uint32_t parameter, float *ret_values);
pst_status pst_exec_get_gradient(struct pst_exec *exec, uint32_t parameter, float *ret_values);

#endif
