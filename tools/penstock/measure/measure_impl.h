/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the measuring of operators: a group of them with their operands in one arena.
 */
#ifndef PST_MEASURE_MEASURE_IMPL_H
#define PST_MEASURE_MEASURE_IMPL_H

#include "measure/measure.h"

/* Everything that one operator's kernels are called with. */
struct measure_op {
    uint32_t op;
    struct pst_op_grad grad;
    struct pst_kernel *kernels[3]; /* NULL: that pass does nothing */
    struct pst_call calls[3];
    void **pointers;    /* what the calls point into */
    float **accumulate; /* [n_param] sums behind dp, or NULL */
};

/* The update of a parameter. */
struct measure_step {
    float *weights, *grad, *slots[2];
    void *working; /* NULL: f32 */
    uint32_t dtype;
    uint64_t elems;
};

struct measure_group {
    struct pst_arena memory;
    uint32_t n_ops;
    struct measure_op *ops;
    uint32_t n_steps; /* 0: updates are not measured */
    struct measure_step *steps;
};

#define MEASURE_NONE UINT64_MAX

/* Offsets of everything in the arena, MEASURE_NONE where it is not in the group. Gradients are
   where a step would have them: what one operator leaves and another reads is gone after that, and
   the next takes its place while caches still hold it. */
struct measure_layout {
    uint64_t *value, *grad; /* [n_tensors] */
    uint64_t *param, *sum;  /* [n_params] */
    uint64_t *state;        /* [n_params] f32 weights where the parameter is another type, then
                               slots of the optimizer */
    uint64_t *first_z, *first_dp; /* [n_ops of the group], one behind the other from there */
    uint64_t *first_state;        /* the same */
    uint64_t workspace, bytes;
};

uint64_t measure_round_up(uint64_t bytes); /* to the alignment of operands */
uint64_t measure_tensor_bytes(const struct pst_measure_config *config, uint32_t tensor);
uint64_t measure_z_bytes(const struct pst_measure_config *config, const struct pst_op_grad *grad,
                         uint32_t i);

/* Places for the operands of ops[0..n), workspace included, in arrays of `arena`. */
void measure_lay_out(const struct pst_measure_config *config, struct pst_device *device,
                     const uint32_t *ops, uint32_t n, struct pst_arena *arena,
                     struct measure_layout *ret_layout);

/* Bytes that the operands of ops[0..n) take together, workspace included. */
void measure_group_bytes(const struct pst_measure_config *config, struct pst_device *device,
                         const uint32_t *ops, uint32_t n, uint64_t *ret_bytes);

/* Kernels and operands, these filled with random values; `base` has measure_group_bytes. Finish in
   any case. */
pst_status measure_group_init(const struct pst_measure_config *config, struct pst_device *device,
                              const uint32_t *ops, uint32_t n, unsigned char *base,
                              struct measure_group *ret_group, struct pst_error *err);
void measure_group_finish(struct measure_group *group);

#endif
