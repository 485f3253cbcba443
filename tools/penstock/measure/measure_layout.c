/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the operands of a group of operators are: a place of its own for each tensor, parameter and
 * sum of gradients, places in turn for gradients that pass by, and one workspace for all.
 */
#include <string.h>

#include "measure/measure_impl.h"

#define ALIGNMENT 256u /* as in an arena: kernels are chosen by it */

/* A place that is taken until the B and W of operator `last` of the group have run, which is the
   one with the lowest index: they run in reverse. */
struct block {
    uint64_t begin, end;
    uint32_t last;
};

struct placing {
    const struct pst_measure_config *config;
    const uint32_t *ops;
    struct measure_layout *layout;
    uint32_t *lowest;     /* [n_tensors] index of the first operator that has to do with it */
    bool *passes;         /* [n_tensors] its gradient is in a block */
    struct block *blocks; /* those that are taken, by begin */
    uint32_t n_blocks;
    uint64_t end; /* of the highest block so far */
};

uint64_t measure_round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t take(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;

    *end += measure_round_up(bytes);
    return at;
}

uint64_t measure_tensor_bytes(const struct pst_measure_config *config, uint32_t tensor)
{
    const struct pst_tensor *t = &config->graph->tensors[tensor];

    return t->bytes * (t->batched ? config->samples : 1);
}

uint64_t measure_z_bytes(const struct pst_measure_config *config, const struct pst_op_grad *grad,
                         uint32_t i)
{
    return grad->z_elems[i] * pst_dtype_bytes(grad->z_dtype[i]) *
           (grad->z_batched[i] ? config->samples : 1);
}

uint32_t measure_state_arrays(const struct pst_measure_config *config, uint32_t param)
{
    return config->update == NULL
               ? 0
               : config->optimizer_slots + (config->graph->params[param].dtype != PST_F32);
}

/* --- what stays ------------------------------------------------------------------------------- */

static void layout_init(const struct pst_graph *graph, uint32_t n, struct pst_arena *arena,
                        struct measure_layout *layout)
{
    size_t counts[] = {graph->n_tensors,
                       graph->n_tensors,
                       graph->n_params,
                       graph->n_params,
                       graph->n_params,
                       n,
                       n,
                       n};
    uint64_t **arrays[] = {&layout->value,    &layout->grad,       &layout->param,
                           &layout->sum,      &layout->state,      &layout->first_z,
                           &layout->first_dp, &layout->first_state};

    memset(layout, 0, sizeof *layout);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        *arrays[i] = pst_arena_array(arena, counts[i] + 1, sizeof(uint64_t));
        memset(*arrays[i], 0xFF, (counts[i] + 1) * sizeof(uint64_t));
    }
}

static void place_tensor(struct placing *p, uint32_t index, uint32_t tensor)
{
    struct measure_layout *layout = p->layout;

    if (layout->value[tensor] == MEASURE_NONE) {
        layout->value[tensor] = take(&layout->bytes, measure_tensor_bytes(p->config, tensor));
        p->lowest[tensor] = index;
    }
}

static void place_values(struct placing *p, uint32_t index)
{
    const struct pst_graph *graph = p->config->graph;
    const struct pst_op *op = &graph->ops[p->ops[index]];
    struct measure_layout *layout = p->layout;

    for (uint32_t i = 0; i < op->n_in; i++) {
        place_tensor(p, index, op->in[i]);
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        place_tensor(p, index, op->out[i]);
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        uint32_t param = op->param[i];

        if (param != PST_NONE && layout->param[param] == MEASURE_NONE) {
            const struct pst_parameter *from = &graph->params[param];

            layout->param[param] = take(&layout->bytes, from->elems * pst_dtype_bytes(from->dtype));
            layout->sum[param] = take(&layout->bytes, from->elems * sizeof(float));
            layout->state[param] = layout->bytes;
            for (uint32_t k = 0; k < measure_state_arrays(p->config, param); k++) {
                take(&layout->bytes, from->elems * sizeof(float));
            }
        }
    }
    layout->first_state[index] = layout->bytes;
    for (uint32_t i = 0; i < op->n_state; i++) {
        take(&layout->bytes, op->state_elems[i] * sizeof(float));
    }
}

/* --- what passes by --------------------------------------------------------------------------- */

/* The lowest gap that has room. */
static uint64_t block_take(struct placing *p, uint64_t bytes, uint32_t last)
{
    uint64_t at = 0;
    uint32_t i = 0;

    bytes = measure_round_up(bytes);
    while (i < p->n_blocks && p->blocks[i].begin - at < bytes) {
        at = p->blocks[i++].end;
    }
    memmove(p->blocks + i + 1, p->blocks + i, (p->n_blocks - i) * sizeof *p->blocks);
    p->blocks[i] = (struct block){at, at + bytes, last};
    p->n_blocks++;
    p->end = at + bytes > p->end ? at + bytes : p->end;
    return at;
}

static void blocks_give_back(struct placing *p, uint32_t index)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_blocks; i++) {
        if (p->blocks[i].last != index) {
            p->blocks[n++] = p->blocks[i];
        }
    }
    p->n_blocks = n;
}

static void block_keep(struct placing *p, uint64_t at, uint32_t last)
{
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        if (p->blocks[i].begin == at && p->blocks[i].last > last) {
            p->blocks[i].last = last;
        }
    }
}

static void place_gradient(struct placing *p, uint32_t tensor)
{
    p->passes[tensor] = true;
    p->layout->grad[tensor] =
        block_take(p, measure_tensor_bytes(p->config, tensor), p->lowest[tensor]);
}

/* The gradients of an operator's inputs: where another consumer has put them, in the place of the
   result's where they are the same, or in a new one. */
static void place_input_gradients(struct placing *p, uint32_t index, const struct pst_op_grad *grad)
{
    const struct pst_op *op = &p->config->graph->ops[p->ops[index]];
    uint64_t *grads = p->layout->grad;
    uint32_t out = op->out[0];

    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t in = op->in[i];
        bool is_known = grads[in] != MEASURE_NONE;

        if ((grad->b_dx >> i & 1) != 0 && (!is_known || grads[in] == grads[out])) {
            place_gradient(p, in);
        } else if ((grad->b_alias >> i & 1) != 0 && !is_known && p->passes[out]) {
            grads[in] = grads[out];
            p->passes[in] = true;
            block_keep(p, grads[out], p->lowest[in]);
        }
    }
}

/* What B and W of an operator write. A gradient that no operator of the group makes stays. */
static void place_gradients(struct placing *p, uint32_t index)
{
    const struct pst_graph *graph = p->config->graph;
    const struct pst_op *op = &graph->ops[p->ops[index]];
    struct measure_layout *layout = p->layout;
    uint64_t z = 0, dp = 0;
    struct pst_op_grad grad;

    pst_op_grad_info(graph, p->ops[index], &grad);
    if (layout->grad[op->out[0]] == MEASURE_NONE) {
        layout->grad[op->out[0]] =
            take(&layout->bytes, measure_tensor_bytes(p->config, op->out[0]));
    }
    place_input_gradients(p, index, &grad);
    for (uint32_t i = 0; i < grad.n_z; i++) {
        z += measure_round_up(measure_z_bytes(p->config, &grad, i));
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        dp += op->param[i] == PST_NONE
                  ? 0
                  : measure_round_up(graph->params[op->param[i]].elems * sizeof(float));
    }
    layout->first_z[index] = block_take(p, z, index);
    layout->first_dp[index] = block_take(p, dp, index);
    blocks_give_back(p, index);
}

/* --- all -------------------------------------------------------------------------------------- */

static void placing_init(struct placing *p, uint32_t n, struct pst_arena *arena)
{
    const struct pst_graph *graph = p->config->graph;

    p->lowest = pst_arena_array(arena, graph->n_tensors + 1u, sizeof *p->lowest);
    p->passes = pst_arena_array(arena, graph->n_tensors + 1u, sizeof *p->passes);
    p->blocks =
        pst_arena_array(arena, (size_t)graph->n_tensors + 2 * (size_t)n + 1, sizeof *p->blocks);
}

/* Blocks count from where all else ends. */
static void shift(const struct placing *p, uint32_t n)
{
    struct measure_layout *layout = p->layout;
    uint64_t base = take(&layout->bytes, p->end);

    for (uint32_t t = 0; t < p->config->graph->n_tensors; t++) {
        layout->grad[t] += p->passes[t] ? base : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        layout->first_z[i] += base;
        layout->first_dp[i] += base;
    }
}

void measure_lay_out(const struct pst_measure_config *config, struct pst_device *device,
                     const uint32_t *ops, uint32_t n, struct pst_arena *arena,
                     struct measure_layout *ret_layout)
{
    struct placing p = {.config = config, .ops = ops, .layout = ret_layout};
    uint64_t workspace = 0;

    layout_init(config->graph, n, arena, ret_layout);
    placing_init(&p, n, arena);
    for (uint32_t i = 0; i < n; i++) {
        place_values(&p, i);
        for (uint32_t pass = 0; pass < 3 && device != NULL; pass++) {
            uint64_t bytes =
                config->device->workspace(device, config->graph, ops[i], pass, config->samples);

            workspace = bytes > workspace ? bytes : workspace;
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        place_gradients(&p, i);
    }
    shift(&p, n);
    ret_layout->workspace = take(&ret_layout->bytes, workspace);
}

void measure_group_bytes(const struct pst_measure_config *config, struct pst_device *device,
                         const uint32_t *ops, uint32_t n, uint64_t *ret_bytes)
{
    struct pst_arena arena = {0};
    struct measure_layout layout;
    measure_lay_out(config, device, ops, n, &arena, &layout);

    *ret_bytes = layout.bytes;
    pst_arena_finish(&arena);
}
