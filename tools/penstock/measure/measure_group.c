/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of operators with their operands. Where these are: a place of its own for each tensor,
 * parameter and sum of gradients, places in turn for gradients that pass by, and one workspace for
 * all. Then their values, and the calls that are bound to them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "measure/measure_impl.h"

#define ALIGNMENT 256u /* as in an arena: kernels are chosen by it */

/* --- places ------------------------------------------------------------------------------------*/

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

/* f32 arrays at `state` of a parameter. */
static uint32_t state_arrays(const struct pst_measure_config *config, uint32_t param)
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
            for (uint32_t k = 0; k < state_arrays(p->config, param); k++) {
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

/* --- all places
 * -------------------------------------------------------------------------------------- */

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

#define CHUNK_BYTES 65536u
#define SEED        1u

/* --- values -----------------------------------------------------------------------------------*/

/* Fills `bytes` at `at` with a chunk of random values, again and again. */
static void fill(const struct pst_measure_config *config, struct pst_device *device,
                 unsigned char *at, uint64_t bytes, const void *chunk)
{
    for (uint64_t done = 0; done < bytes; done += CHUNK_BYTES) {
        uint64_t now = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;

        config->device->upload(device, at + done, chunk, now);
    }
}

/* Values in (-1, 1) / 4, or whole numbers below `limit`. */
static void make_chunk(void *chunk, uint32_t dtype, uint64_t limit)
{
    uint32_t n = CHUNK_BYTES / pst_dtype_bytes(dtype);

    for (uint32_t i = 0; i < n; i++) {
        struct pst_philox words = pst_philox(SEED, dtype, i);
        float value = (pst_uniform(words.v[0]) - 0.5f) / 2;
        double wide = (double)value;
        uint32_t bits;

        memcpy(&bits, &value, sizeof bits);
        switch (dtype) {
        case PST_I32:
            ((int32_t *)chunk)[i] = (int32_t)(words.v[0] % (limit == 0 ? 1 : limit));
            break;
        case PST_BF16:
            ((uint16_t *)chunk)[i] = (uint16_t)(bits >> 16);
            break;
        case PST_F64:
            ((double *)chunk)[i] = wide;
            break;
        default:
            ((float *)chunk)[i] = value;
            break;
        }
    }
}

/* Whole numbers of data are rows of a table or classes: below what its readers can take. */
static uint64_t index_limit(const struct pst_graph *graph, uint32_t tensor)
{
    const struct pst_tensor *t = &graph->tensors[tensor];
    uint64_t limit = INT32_MAX;

    for (uint32_t i = 0; i < t->n_consumers; i++) {
        const struct pst_op *op = &graph->ops[t->consumers[i]];
        const struct pst_tensor *x = &graph->tensors[op->in[0]];
        uint64_t most = op->n_param > 0 && op->param[0] != PST_NONE
                            ? graph->params[op->param[0]].dims[0]
                        : x->rank > 0 ? x->dims[x->rank - 1]
                                      : 1;

        limit = most < limit ? most : limit;
    }
    return limit;
}

static void fill_all(const struct pst_measure_config *config, struct pst_device *device,
                     const struct measure_layout *layout, unsigned char *base)
{
    const struct pst_graph *graph = config->graph;
    void *chunk = pst_alloc(CHUNK_BYTES, 1);

    config->device->zero(device, base, layout->bytes);
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        const struct pst_tensor *tensor = &graph->tensors[t];

        if (layout->value[t] == MEASURE_NONE) {
            continue;
        }
        make_chunk(chunk, tensor->dtype, tensor->dtype == PST_I32 ? index_limit(graph, t) : 0);
        fill(config, device, base + layout->value[t], measure_tensor_bytes(config, t), chunk);
        if (layout->grad[t] != MEASURE_NONE) {
            fill(config, device, base + layout->grad[t], measure_tensor_bytes(config, t), chunk);
        }
    }
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct pst_parameter *param = &graph->params[p];

        if (layout->param[p] != MEASURE_NONE) {
            make_chunk(chunk, param->dtype, 0);
            fill(config, device, base + layout->param[p],
                 param->elems * pst_dtype_bytes(param->dtype), chunk);
        }
    }
    free(chunk);
}

/* --- calls ------------------------------------------------------------------------------------*/

static void *at(unsigned char *base, uint64_t offset, bool wanted)
{
    return wanted && offset != MEASURE_NONE ? base + offset : NULL;
}

/* Operands of one pass, those alone that it reads or writes. */
static void bind_pass(const struct pst_measure_config *config, const struct measure_layout *layout,
                      unsigned char *base, uint32_t index, uint32_t pass, struct measure_op *m,
                      void **room)
{
    const struct pst_op *op = &config->graph->ops[m->op];
    const struct pst_op_grad *g = &m->grad;
    const uint64_t all = UINT64_MAX;
    const uint64_t reads_x = pass == 0 ? all : pass == 1 ? g->b_reads_x : g->w_reads_x;
    const uint64_t reads_p = pass == 0 ? all : pass == 1 ? g->b_reads_p : g->w_reads_p;
    const uint64_t uses_y = pass == 0 ? all : pass == 1 ? g->b_reads_y : g->w_reads_y;
    struct pst_call *call = &m->calls[pass];
    uint64_t z = layout->first_z[index], state = layout->first_state[index];
    uint64_t gradient = layout->first_dp[index];
    void **x = room, **p = x + op->n_in, **y = p + op->n_param, **dx = y + op->n_out;
    void **add = dx + op->n_in, **zs = add + op->n_in, **dp = zs + PST_MAX_SCRATCH;
    void **states = dp + op->n_param;

    for (uint32_t i = 0; i < op->n_in; i++) {
        x[i] = at(base, layout->value[op->in[i]], (reads_x >> i & 1) != 0);
        dx[i] = at(base, layout->grad[op->in[i]], pass == 1 && (g->b_dx >> i & 1) != 0);
        add[i] = NULL;
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        bool is = op->param[i] != PST_NONE;

        p[i] = is ? at(base, layout->param[op->param[i]], (reads_p >> i & 1) != 0) : NULL;
        dp[i] = is && pass == 2 ? base + gradient : NULL;
        gradient +=
            is ? measure_round_up(config->graph->params[op->param[i]].elems * sizeof(float)) : 0;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        y[i] = at(base, layout->value[op->out[i]], (uses_y >> i & 1) != 0);
    }
    for (uint32_t i = 0; i < g->n_z; i++) {
        zs[i] = at(base, z, pass != 0);
        z += measure_round_up(measure_z_bytes(config, g, i));
    }
    for (uint32_t i = 0; i < op->n_state; i++) {
        states[i] = base + state;
        state += measure_round_up(op->state_elems[i] * sizeof(float));
    }
    *call = (struct pst_call){
        .x = x,
        .p = p,
        .y = y,
        .dx = dx,
        .add = add,
        .z = zs,
        .dp = (float *const *)(void *)dp,
        .state = (float *const *)(void *)states,
        .workspace = base + layout->workspace,
        .seed = SEED,
        .scale = 1.0f / (float)config->samples,
        .flags = PST_CALL_TRAINING,
    };
    if (op->out[0] != config->graph->loss && (pass == 1 || (pass == 2 && g->w_reads_dy))) {
        call->dy = at(base, layout->grad[op->out[0]], true);
    }
}

static pst_status bind_op(const struct pst_measure_config *config, struct pst_device *device,
                          const struct measure_layout *layout, unsigned char *base, uint32_t index,
                          struct measure_group *group, struct pst_error *err)
{
    struct measure_op *m = &group->ops[index];
    const struct pst_op *op = &config->graph->ops[m->op];
    size_t n =
        3 * (size_t)op->n_in + 2 * (size_t)op->n_param + op->n_out + PST_MAX_SCRATCH + op->n_state;
    const bool wanted[3] = {true, m->grad.has_b, m->grad.has_w};

    m->pointers = pst_arena_array(&group->memory, 3 * n, sizeof *m->pointers);
    m->accumulate = pst_arena_array(&group->memory, op->n_param + 1u, sizeof *m->accumulate);
    for (uint32_t i = 0; i < op->n_param; i++) {
        m->accumulate[i] =
            op->param[i] == PST_NONE ? NULL : (float *)(void *)(base + layout->sum[op->param[i]]);
    }
    for (uint32_t pass = 0; pass < 3; pass++) {
        pst_status st = PST_OK;

        bind_pass(config, layout, base, index, pass, m, m->pointers + pass * n);
        if (wanted[pass]) {
            st = config->device->compile(device, config->graph, m->op, pass, config->samples,
                                         &m->kernels[pass], err);
        }
        if (st != PST_OK) {
            pst_error_prefix(err, "operator %s, %u samples", op->name, config->samples);
            return st;
        }
    }
    return PST_OK;
}

/* What the update of each parameter of the group works on. */
static void bind_steps(const struct pst_measure_config *config, const struct measure_layout *layout,
                       unsigned char *base, struct measure_group *group)
{
    const struct pst_graph *graph = config->graph;

    if (config->update == NULL) {
        return;
    }
    group->steps = pst_arena_array(&group->memory, graph->n_params + 1u, sizeof *group->steps);
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct pst_parameter *param = &graph->params[p];
        struct measure_step *step = &group->steps[group->n_steps];
        uint64_t at = layout->state[p], size = measure_round_up(param->elems * sizeof(float));

        if (layout->param[p] == MEASURE_NONE) {
            continue;
        }
        *step = (struct measure_step){.weights = (float *)(void *)(base + layout->param[p]),
                                      .grad = (float *)(void *)(base + layout->sum[p]),
                                      .dtype = param->dtype,
                                      .elems = param->elems};
        if (param->dtype != PST_F32) {
            step->working = step->weights;
            step->weights = (float *)(void *)(base + at);
            at += size;
        }
        for (uint32_t i = 0; i < config->optimizer_slots; i++, at += size) {
            step->slots[i] = (float *)(void *)(base + at);
        }
        group->n_steps++;
    }
}

pst_status measure_group_init(const struct pst_measure_config *config, struct pst_device *device,
                              const uint32_t *ops, uint32_t n, unsigned char *base,
                              struct measure_group *ret_group, struct pst_error *err)
{
    struct measure_layout layout;
    pst_status st = PST_OK;

    memset(ret_group, 0, sizeof *ret_group);
    ret_group->ops = pst_arena_array(&ret_group->memory, n, sizeof *ret_group->ops);
    measure_lay_out(config, device, ops, n, &ret_group->memory, &layout);
    ret_group->n_ops = n;
    for (uint32_t i = 0; i < n && st == PST_OK; i++) {
        ret_group->ops[i].op = ops[i];
        pst_op_grad_info(config->graph, ops[i], &ret_group->ops[i].grad);
        st = bind_op(config, device, &layout, base, i, ret_group, err);
    }
    if (st == PST_OK) {
        bind_steps(config, &layout, base, ret_group);
    }
    if (st == PST_OK) {
        fill_all(config, device, &layout, base);
    }
    return st;
}

void measure_group_finish(struct measure_group *group)
{
    for (uint32_t i = 0; i < group->n_ops; i++) {
        for (uint32_t pass = 0; pass < 3; pass++) {
            if (group->ops[i].kernels[pass] != NULL) {
                group->ops[i].kernels[pass]->destroy(group->ops[i].kernels[pass]);
            }
        }
    }
    pst_arena_finish(&group->memory);
}
