/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the measuring of operators: a group of them with their operands in one arena.
 */
#ifndef PST_MEASURE_MEASURE_IMPL_H
#define PST_MEASURE_MEASURE_IMPL_H

#include "measure/measure.h"
#include "plan/program.h"

/* Everything that one operator's kernels are called with. */
struct measure_op {
    uint32_t op;
    struct pst_op_grad grad;
    struct pst_kernel *kernels[3]; /* NULL: that pass does nothing */
    struct pst_call calls[3];
    float **accumulate; /* [n_param] sums that dp is added to, or NULL */
};

/* The update of a parameter. */
struct measure_step {
    float *weights, *grad, *slots[2];
    void *working; /* NULL: f32 */
    uint32_t dtype;
    uint64_t elems;
};

/* Slices of a sequence are measured in turn: the first, the last and the one before it. The last,
   which reads all keys, warms up (PST_NONE). */
static inline uint32_t measure_turns(const struct pst_graph *graph)
{
    return graph->slices < 3 ? graph->slices : 3;
}

static inline uint32_t measure_slice(const struct pst_graph *graph, uint32_t round)
{
    const uint32_t turn = (round == PST_NONE ? 1 : round) % measure_turns(graph);

    return turn == 0 ? 0 : graph->slices - turn;
}

/* The mean over the slices, how much the pass grows and how much the last saves, from times and
   work of those that are measured, by turn, and the mean work: up to the last but one, slices take
   longer by what they compute; the last takes what it takes. False, and nothing is said: it does
   not grow. */
bool measure_grows(const struct pst_graph *graph, const double *ns, const double *work, double mean,
                   double *ret_ns, double *ret_growth, double *ret_saved);

struct measure_group {
    struct pst_arena memory;
    uint32_t n_ops;
    struct measure_op *ops;
    uint32_t n_steps; /* 0: updates are not measured */
    struct measure_step *steps;
};

/* A group's operands as the values of a program (plan/program.h), laid out as those are. Gradients
   live as long as in a step: what one operator leaves and another reads is gone after that, and
   the next takes its place while caches still hold it. */
struct measure_places {
    struct pst_arena arena;
    struct pst_program program; /* its values alone; what is read by all rounds is static */
    uint32_t **operands;        /* [n_ops of the group] those of its KERNEL calls, of all passes */
    uint32_t *params; /* [n_params] values: as kernels read it; after it the sum of its gradients,
                         f32 weights where it is another type, slots of the optimizer; PST_NONE */
};

/* Finish *ret_places. device NULL: no workspace. */
void measure_place(const struct pst_measure_config *config, struct pst_device *device,
                   const uint32_t *ops, uint32_t n, struct measure_places *ret_places);
void measure_places_finish(struct measure_places *places);

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
