/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of operators with their operands: a value for each tensor, parameter and sum of
 * gradients, short-lived ones for gradients that pass by, and one workspace for all. Then their
 * contents, and the calls that are bound to them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "graph/op_rules.h"
#include "measure/measure_impl.h"
#include "plan/program_build.h"

#define CHUNK_BYTES 65536u
#define SEED        1u

/* --- places ------------------------------------------------------------------------------------*/

/* Time goes on by one from operator to operator while their B and W run, in reverse. */
struct placing {
    const struct pst_measure_config *config;
    const uint32_t *ops;
    uint32_t n;
    struct measure_places *places;
    size_t room;       /* of the values */
    uint32_t *tensors; /* [n_tensors] value, or PST_NONE */
    uint32_t *grads;   /* the same of its gradient */
    uint32_t *lowest;  /* [n_tensors] index of the first operator that has to do with it */
};

static uint64_t tensor_bytes(const struct pst_measure_config *config, uint32_t tensor)
{
    return pst_tensor_bytes(&config->graph->tensors[tensor], config->samples);
}

/* When the B and W of an operator of the group run. */
static uint32_t tick_of(const struct placing *p, uint32_t index)
{
    return p->n - 1 - index;
}

static uint32_t *none_of(struct pst_arena *arena, uint32_t n)
{
    uint32_t *values = pst_arena_array(arena, n, sizeof *values);

    memset(values, 0xFF, n * sizeof *values); /* PST_NONE */
    return values;
}

static uint32_t add_value(struct placing *p, uint8_t kind, uint32_t what, uint64_t bytes)
{
    struct pst_program *program = &p->places->program;

    pst_grow(&program->values, &p->room, program->n_values, sizeof *program->values);
    program->values[program->n_values] = (struct pst_value){
        .kind = kind, .is_static = true, .what = what, .bytes = bytes, .last = p->n - 1};
    return program->n_values++;
}

/* From the B of one operator on to the W of another, which runs later. */
static uint32_t add_passing(struct placing *p, uint8_t kind, uint32_t what, uint64_t bytes,
                            uint32_t from, uint32_t to)
{
    uint32_t value = add_value(p, kind, what, bytes);
    struct pst_value *v = &p->places->program.values[value];

    v->is_static = false;
    v->first = tick_of(p, from);
    v->last = tick_of(p, to);
    return value;
}

static uint32_t place_tensor(struct placing *p, uint32_t index, uint32_t tensor)
{
    if (p->tensors[tensor] == PST_NONE) {
        p->tensors[tensor] = add_value(p, PST_V_ACT, tensor, tensor_bytes(p->config, tensor));
        p->lowest[tensor] = index;
    }
    return p->tensors[tensor];
}

static uint32_t place_param(struct placing *p, uint32_t param)
{
    const struct pst_parameter *from = &p->config->graph->params[param];
    uint32_t *value = &p->places->params[param], n_states = 0;

    if (*value == PST_NONE) {
        *value = add_value(p, PST_V_WORKING, param, from->elems * pst_dtype_bytes(from->dtype));
        add_value(p, PST_V_GRAD, param, from->elems * sizeof(float));
        if (p->config->update != NULL) {
            n_states = p->config->optimizer_slots + (from->dtype != PST_F32);
        }
        for (uint32_t i = 0; i < n_states; i++) {
            add_value(p, PST_V_OPTIMIZER, param, from->elems * sizeof(float));
        }
    }
    return *value;
}

/* Places what an operator reads and writes in each of its passes, except gradients. */
static void place_operands(struct placing *p, uint32_t index)
{
    const struct pst_op *op = &p->config->graph->ops[p->ops[index]];
    const struct pst_operands at = pst_operands_of(op);
    uint32_t *o = none_of(&p->places->arena, at.count);

    p->places->operands[index] = o;
    for (uint32_t i = 0; i < op->n_in; i++) {
        o[at.x + i] = place_tensor(p, index, op->in[i]);
    }
    for (uint32_t i = 0; i + 1 < op->slices; i++) {
        o[at.past + i] = add_value(p, PST_V_ACT, op->in[0], tensor_bytes(p->config, op->in[0]));
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        o[at.y + i] = place_tensor(p, index, op->out[i]);
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        o[at.p + i] = op->param[i] == PST_NONE ? PST_NONE : place_param(p, op->param[i]);
    }
    for (uint32_t i = 0; i < op->n_state; i++) {
        o[at.state + i] =
            add_value(p, PST_V_STATE, p->ops[index], op->state_elems[i] * sizeof(float));
    }
}

/* The gradients of an operator's inputs: where another consumer has put them, in the place of the
   result's where they are the same, or in a new one. */
static void place_input_gradients(struct placing *p, uint32_t index, const struct pst_op_grad *grad)
{
    const struct pst_op *op = &p->config->graph->ops[p->ops[index]];
    struct pst_value *values = p->places->program.values;
    uint32_t out = p->grads[op->out[0]];

    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t in = op->in[i], *its = &p->grads[in], end = tick_of(p, p->lowest[in]);

        if ((grad->b_dx >> i & 1) != 0 && (*its == PST_NONE || *its == out)) {
            *its =
                add_passing(p, PST_V_DACT, in, tensor_bytes(p->config, in), index, p->lowest[in]);
            values = p->places->program.values;
        } else if ((grad->b_alias >> i & 1) != 0 && *its == PST_NONE && !values[out].is_static) {
            *its = out;
            values[out].last = end > values[out].last ? end : values[out].last;
        }
    }
}

/* Places what B and W of an operator write. A gradient from outside the group is static. */
static void place_gradients(struct placing *p, uint32_t index)
{
    const struct pst_graph *graph = p->config->graph;
    const struct pst_op *op = &graph->ops[p->ops[index]];
    const struct pst_operands at = pst_operands_of(op);
    uint32_t *o = p->places->operands[index], *out = &p->grads[op->out[0]];
    struct pst_op_grad grad;

    pst_op_grad_info(graph, p->ops[index], &grad);
    if (*out == PST_NONE) {
        *out = add_value(p, PST_V_DACT, op->out[0], tensor_bytes(p->config, op->out[0]));
    }
    o[at.dy] = *out;
    place_input_gradients(p, index, &grad);
    for (uint32_t i = 0; i < op->n_in; i++) {
        o[at.dx + i] = p->grads[op->in[i]];
    }
    for (uint32_t i = 0; i + 1 < op->slices; i++) {
        o[at.dpast + i] = add_value(p, PST_V_PAST, p->ops[index],
                                    pst_op_past_bytes(graph, p->ops[index]) * p->config->samples);
    }
    for (uint32_t i = 0; i < grad.n_z; i++) {
        uint64_t bytes = grad.z_elems[i] * pst_dtype_bytes(grad.z_dtype[i]);

        o[at.z + i] =
            add_passing(p, PST_V_Z, p->ops[index],
                        bytes * (grad.z_batched[i] ? p->config->samples : 1), index, index);
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE) {
            o[at.dp + i] =
                add_passing(p, PST_V_SCRATCH, op->param[i],
                            graph->params[op->param[i]].elems * sizeof(float), index, index);
        }
    }
}

static void place_workspace(struct placing *p, struct pst_device *device)
{
    const struct pst_measure_config *config = p->config;
    uint64_t most = 0;
    uint32_t value;

    for (uint32_t i = 0; i < p->n && device != NULL; i++) {
        for (uint32_t pass = 0; pass < 3; pass++) {
            uint64_t bytes =
                config->device->workspace(device, config->graph, p->ops[i], pass, config->samples);

            most = bytes > most ? bytes : most;
        }
    }
    value = add_value(p, PST_V_WORKSPACE, 0, most);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct pst_op *op = &config->graph->ops[p->ops[i]];

        p->places->operands[i][pst_operands_of(op).workspace] = value;
    }
}

void measure_place(const struct pst_measure_config *config, struct pst_device *device,
                   const uint32_t *ops, uint32_t n, struct measure_places *ret_places)
{
    struct pst_arena *arena = &ret_places->arena;
    struct placing p = {.config = config, .ops = ops, .n = n, .places = ret_places};

    *ret_places = (struct measure_places){.program = {.n_ticks = n}};
    ret_places->operands = pst_arena_array(arena, n, sizeof *ret_places->operands);
    ret_places->params = none_of(arena, config->graph->n_params);
    p.tensors = none_of(arena, config->graph->n_tensors);
    p.grads = none_of(arena, config->graph->n_tensors);
    p.lowest = none_of(arena, config->graph->n_tensors);
    for (uint32_t i = 0; i < n; i++) {
        place_operands(&p, i);
    }
    for (uint32_t i = n; i-- > 0;) {
        place_gradients(&p, i);
    }
    place_workspace(&p, device);
    pst_layout_program(&ret_places->program, UINT64_MAX, NULL);
}

void measure_places_finish(struct measure_places *places)
{
    free(places->program.values);
    pst_arena_finish(&places->arena);
}

void measure_group_bytes(const struct pst_measure_config *config, struct pst_device *device,
                         const uint32_t *ops, uint32_t n, uint64_t *ret_bytes)
{
    struct measure_places places;

    measure_place(config, device, ops, n, &places);
    *ret_bytes = places.program.arena_bytes;
    measure_places_finish(&places);
}

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

/* Whole numbers of data are rows of a table or classes: below what its readers can take. What an
   operator of a plugin takes is not known: 0 is a row of every table. */
static uint64_t index_limit(const struct pst_graph *graph, uint32_t tensor)
{
    const struct pst_tensor *t = &graph->tensors[tensor];
    uint64_t limit = INT32_MAX;

    for (uint32_t i = 0; i < t->n_consumers; i++) {
        const struct pst_op *op = &graph->ops[t->consumers[i]];
        const bool same = op->n_in == 1 && pst_op_rules_of(op->kind)->form != 0; /* other places */
        const struct pst_tensor *x = &graph->tensors[op->in[0]];
        uint64_t most = op->custom != NULL ? 1
                        : same             ? index_limit(graph, op->out[0])
                        : op->classes > 0  ? op->classes
                        : op->n_param > 0 && op->param[0] != PST_NONE
                            ? graph->params[op->param[0]].dims[0]
                        : x->rank > 0 ? x->dims[x->rank - 1]
                                      : 1;

        limit = most < limit ? most : limit;
    }
    return limit;
}

static void fill_all(const struct pst_measure_config *config, struct pst_device *device,
                     const struct pst_program *program, unsigned char *base)
{
    const struct pst_graph *graph = config->graph;
    void *chunk = pst_alloc(CHUNK_BYTES, 1);

    config->device->zero(device, base, program->arena_bytes);
    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];
        bool is_param = value->kind == PST_V_WORKING;
        uint32_t dtype;

        if (!is_param && value->kind != PST_V_ACT && value->kind != PST_V_DACT) {
            continue;
        }
        dtype = is_param ? graph->params[value->what].dtype : graph->tensors[value->what].dtype;
        make_chunk(chunk, dtype, dtype == PST_I32 ? index_limit(graph, value->what) : 0);
        fill(config, device, base + value->offset, value->bytes, chunk);
    }
    free(chunk);
}

/* --- calls ------------------------------------------------------------------------------------*/

/* Where a value lies, as f32. */
static float *floats(const struct measure_places *places, unsigned char *base, uint32_t value)
{
    return (float *)(void *)(base + places->program.values[value].offset);
}

/* Operands that a pass has nothing to do with are none. */
static void keep_those(void **operands, uint32_t n, uint64_t mask)
{
    for (uint32_t i = 0; i < n; i++) {
        operands[i] = (mask >> i & 1) != 0 ? operands[i] : NULL;
    }
}

static void bind_pass(const struct pst_measure_config *config, const struct measure_places *places,
                      unsigned char *base, uint32_t index, uint32_t pass, struct measure_op *m,
                      void **o)
{
    const struct pst_op *op = &config->graph->ops[m->op];
    const struct pst_operands at = pst_operands_of(op);
    const struct pst_op_grad *g = &m->grad;
    const uint64_t all = UINT64_MAX;
    bool reads_dy = pass == 1 || (pass == 2 && g->w_reads_dy);

    for (uint32_t i = 0; i < at.count; i++) {
        uint32_t value = places->operands[index][i];

        o[i] = value == PST_NONE ? NULL : base + places->program.values[value].offset;
    }
    keep_those(o + at.x, op->n_in, pass == 0 ? all : pass == 1 ? g->b_reads_x : g->w_reads_x);
    keep_those(o + at.p, op->n_param, pass == 0 ? all : pass == 1 ? g->b_reads_p : g->w_reads_p);
    keep_those(o + at.y, op->n_out, pass == 0 ? all : pass == 1 ? g->b_reads_y : g->w_reads_y);
    keep_those(o + at.dy, 1, reads_dy && op->out[0] != config->graph->loss);
    keep_those(o + at.dx, op->n_in, pass == 1 ? g->b_dx : 0);
    keep_those(o + at.z, PST_MAX_SCRATCH, pass == 0 ? 0 : all);
    keep_those(o + at.dp, op->n_param, pass == 2 ? all : 0);
    m->calls[pass] = (struct pst_call){
        .x = o + at.x,
        .p = o + at.p,
        .y = o + at.y,
        .dy = o[at.dy],
        .dx = o + at.dx,
        .add = o + at.add,
        .z = o + at.z,
        .dp = (float *const *)(void *)(o + at.dp),
        .state = (float *const *)(void *)(o + at.state),
        .workspace = o[at.workspace],
        .seed = SEED,
        .scale = 1.0f / (float)config->samples,
        .flags = PST_CALL_TRAINING,
        .past = o + at.past,
        .dpast = o + at.dpast,
    };
}

static pst_status bind_op(const struct pst_measure_config *config, struct pst_device *device,
                          const struct measure_places *places, unsigned char *base, uint32_t index,
                          struct measure_group *group, struct pst_error *err)
{
    struct measure_op *m = &group->ops[index];
    const struct pst_op *op = &config->graph->ops[m->op];
    const uint32_t n = pst_operands_of(op).count;
    const bool wanted[3] = {true, m->grad.has_b, m->grad.has_w};

    m->accumulate = pst_arena_array(&group->memory, op->n_param, sizeof *m->accumulate);
    for (uint32_t i = 0; i < op->n_param; i++) {
        m->accumulate[i] = op->param[i] == PST_NONE
                               ? NULL
                               : floats(places, base, places->params[op->param[i]] + 1);
    }
    for (uint32_t pass = 0; pass < 3; pass++) {
        pst_status status = PST_OK;

        bind_pass(config, places, base, index, pass, m,
                  pst_arena_array(&group->memory, n, sizeof(void *)));
        if (wanted[pass]) {
            status = config->device->compile(device, config->graph, m->op, pass, config->samples,
                                             &m->kernels[pass], err);
        }
        if (status != PST_OK) {
            pst_error_prefix(err, "operator %s, %u samples", op->name, config->samples);
            return status;
        }
    }
    return PST_OK;
}

/* Binds the buffers that the update of each parameter of the group uses. */
static void bind_steps(const struct pst_measure_config *config, const struct measure_places *places,
                       unsigned char *base, struct measure_group *group)
{
    const struct pst_graph *graph = config->graph;

    if (config->update == NULL) {
        return;
    }
    group->steps = pst_arena_array(&group->memory, graph->n_params, sizeof *group->steps);
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct pst_parameter *param = &graph->params[p];
        struct measure_step *step = &group->steps[group->n_steps];
        uint32_t value = places->params[p];

        if (value == PST_NONE) {
            continue;
        }
        *step = (struct measure_step){.weights = floats(places, base, value),
                                      .grad = floats(places, base, value + 1),
                                      .dtype = param->dtype,
                                      .elems = param->elems};
        value += 2;
        if (param->dtype != PST_F32) {
            step->working = step->weights;
            step->weights = floats(places, base, value++);
        }
        for (uint32_t i = 0; i < config->optimizer_slots; i++) {
            step->slots[i] = floats(places, base, value++);
        }
        group->n_steps++;
    }
}

pst_status measure_group_init(const struct pst_measure_config *config, struct pst_device *device,
                              const uint32_t *ops, uint32_t n, unsigned char *base,
                              struct measure_group *ret_group, struct pst_error *err)
{
    struct measure_places places;
    pst_status status = PST_OK;

    memset(ret_group, 0, sizeof *ret_group);
    ret_group->ops = pst_arena_array(&ret_group->memory, n, sizeof *ret_group->ops);
    ret_group->n_ops = n;
    measure_place(config, device, ops, n, &places);
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        ret_group->ops[i].op = ops[i];
        pst_op_grad_info(config->graph, ops[i], &ret_group->ops[i].grad);
        status = bind_op(config, device, &places, base, i, ret_group, err);
    }
    if (status == PST_OK) {
        bind_steps(config, &places, base, ret_group);
        fill_all(config, device, &places.program, base);
    }
    measure_places_finish(&places);
    return status;
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
