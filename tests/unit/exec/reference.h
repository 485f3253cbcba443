/* SPDX-License-Identifier: Apache-2.0
 *
 * Delayed gradients in sequence, without executor, pipeline or version slots: the whole model on
 * one device, one batch after the other, the gradient taken at the weights before the last update
 * and applied to those after it. Only kernels are shared with what is tested.
 */
#ifndef PST_TEST_EXEC_REFERENCE_H
#define PST_TEST_EXEC_REFERENCE_H

#include <math.h>

#include "unit/exec/real.h"

struct reference {
    struct real real; /* graph, plan and program of one stage; its executor is not used */
    const struct pst_program *program;
    struct pst_device *device;
    char *base;
    struct pst_kernel **kernels; /* [call] */
    float **before, **now;       /* [row of the program's params] W(max(t - 1, 0)) and W(t) */
    float *losses;
    double clip;
    uint64_t n_steps;
    uint64_t n_updates;       /* of them not passed over */
    bool delayed;             /* false: plain training, gradient and update at W(t) */
    const uint32_t *replicas; /* [operator] on how many it is, in turn by micro-batches; NULL: one.
                                 Their gradients are summed apart, then in their order. */
    const bool *inside; /* [parameter] those of each micro-batch are summed in their order, then
                           the micro-batches (ZeRO 2); NULL: of none */
    float **sums;       /* [value * MOST_RANKS + replica], memory of the device */
    bool *summed;       /* likewise: holds something */
};

struct reference_step {
    double loss, norm;
};

static inline void *reference_at(const struct reference *ref, uint32_t value)
{
    return value == PST_NONE ? NULL : ref->base + ref->program->values[value].offset;
}

/* Its memory may be out of the host's reach. */
static inline void reference_set(struct reference *ref, void *far, const void *near, uint64_t bytes)
{
    ref->real.device_ops->upload(ref->device, far, near, bytes);
}

static inline void reference_get(struct reference *ref, void *near, const void *far, uint64_t bytes)
{
    ref->real.device_ops->download(ref->device, near, far, bytes);
}

static inline void reference_copy(struct reference *ref, void *to, const void *from, uint64_t bytes)
{
    if ((ref->real.device_ops->flags & PST_DEVICE_APART) != 0) {
        ref->real.device_ops->move(ref->device, PST_QUEUE_COMPUTE, to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
}

static inline uint64_t reference_elems(const struct reference *ref, uint32_t row)
{
    return ref->real.graph->params[ref->program->params[row].parameter].elems;
}

static inline void reference_init(struct reference *ref, const char *model, const char *settings,
                                  uint32_t dtype, uint32_t batch, uint32_t slots, double clip)
{
    const struct layout one = {1, {0}, ORDER_GPIPE, false, {0}};
    struct pst_error err = {0};
    void *base;

    memset(ref, 0, sizeof *ref);
    /* The device that stands apart makes the cpu device's bits. */
    real_on_cpu = real_other_device() != NULL && strstr(real_other_device(), "device-apart");
    real_create(&ref->real, model, settings, dtype, &one, batch, slots, 0);
    real_on_cpu = false;
    ref->program = ref->real.programs[0];
    ref->device = ref->real.device;
    ref->clip = clip;
    ref->delayed = true;
    ref->real.device_ops->enter(ref->device);
    MUST(ref->real.device_ops->arena(ref->device, ref->program->arena_bytes, &base, &err));
    ref->base = base;
    ref->losses = calloc(batch, sizeof *ref->losses);
    ref->sums = calloc((size_t)ref->program->n_values * MOST_RANKS, sizeof *ref->sums);
    ref->summed = calloc((size_t)ref->program->n_values * MOST_RANKS, sizeof *ref->summed);
    ref->kernels = calloc(ref->program->n_calls, sizeof *ref->kernels);
    ref->before = calloc(ref->program->n_params, sizeof *ref->before);
    ref->now = calloc(ref->program->n_params, sizeof *ref->now);
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        const struct pst_program_param *param = &ref->program->params[i];
        uint64_t n = reference_elems(ref, i);

        ref->now[i] = calloc(n, sizeof(float));
        ref->before[i] = calloc(n, sizeof(float));
        pst_parameter_init(&ref->real.graph->params[param->parameter], 3, ref->now[i]);
        memcpy(ref->before[i], ref->now[i], n * sizeof(float));
        for (uint32_t s = 0; s < 2 && param->optimizer[s] != PST_NONE; s++) {
            ref->real.device_ops->zero(ref->device, reference_at(ref, param->optimizer[s]),
                                       n * sizeof(float));
        }
    }
    for (uint32_t c = 0; c < ref->program->n_calls; c++) {
        const struct pst_program_call *call = &ref->program->calls[c];

        if (call->kind == PST_C_KERNEL) {
            MUST(ref->real.device_ops->compile(ref->device, ref->real.graph, call->op, call->pass,
                                               call->samples, &ref->kernels[c], &err));
        }
    }
}

static inline void reference_kernel(struct reference *ref, uint32_t c, void **o)
{
    const struct pst_program_call *from = &ref->program->calls[c];
    const struct pst_operands at = pst_operands_of(&ref->real.graph->ops[from->op]);
    struct pst_call call = {
        .x = o + at.x,
        .p = o + at.p,
        .y = o + at.y,
        .dy = o[at.dy],
        .dx = o + at.dx,
        .add = o + at.add,
        .z = o + at.z,
        .dp = (float *const *)(o + at.dp),
        .state = (float *const *)(o + at.state),
        .workspace = o[at.workspace],
        .first_sample = ref->n_steps * ref->real.batch + from->first_sample,
        .seed = 3,
        .scale = 1.0f / (float)ref->real.batch,
        .flags = PST_CALL_TRAINING,
    };

    ref->kernels[c]->run(ref->kernels[c], &call);
}

/* Room for sums apart from an accumulator. */
static inline float *reference_apart(struct reference *ref, uint64_t place, uint64_t elems)
{
    struct pst_error err = {0};

    if (ref->sums[place] == NULL) {
        void *base = NULL;

        MUST(ref->real.device_ops->arena(ref->device, elems * sizeof(float), &base, &err));
        ref->sums[place] = base;
    }
    return ref->sums[place];
}

static inline void reference_add_apart(struct reference *ref, uint64_t place, const float *part,
                                       uint64_t elems)
{
    float *sum = reference_apart(ref, place, elems);

    if (!ref->summed[place]) {
        reference_copy(ref, sum, part, elems * sizeof(float));
        ref->summed[place] = true;
    } else {
        ref->real.device_ops->accumulate(ref->device, sum, part, elems);
    }
}

/* The gradient of the first replica is in the accumulator, those of the others apart; or that of
   the first micro-batch of all replicas, and that of another one apart until the last of them has
   come. */
static inline void reference_accumulate(struct reference *ref, const struct pst_program_call *call,
                                        float *sum, const float *part)
{
    const struct pst_device_ops *ops = ref->real.device_ops;
    uint32_t v = ref->program->operands[call->first_operand], n = 1, at = call->first_sample / SIZE;
    const struct pst_value *value = &ref->program->values[v];
    const bool inside = ref->inside != NULL && ref->inside[value->what];
    uint64_t place = (uint64_t)v * MOST_RANKS;

    if (ref->replicas != NULL) {
        n = ref->replicas[ref->real.graph->params[value->what].users[value->slot]];
    }
    if (inside ? at < n : at % n == 0) {
        ops->accumulate(ref->device, sum, part, call->elems);
        return;
    }
    place += inside ? 0 : at % n;
    reference_add_apart(ref, place, part, call->elems);
    if (inside && at % n + 1 == n) {
        ops->accumulate(ref->device, sum, ref->sums[place], call->elems);
        ref->summed[place] = false;
    }
}

/* One replica after the other. */
static inline void reference_reduce(struct reference *ref)
{
    for (uint32_t v = 0; v < ref->program->n_values && ref->replicas != NULL; v++) {
        for (uint32_t r = 1; r < MOST_RANKS; r++) {
            const uint64_t place = (uint64_t)v * MOST_RANKS + r;

            if (ref->summed[place]) {
                ref->real.device_ops->accumulate(ref->device, reference_at(ref, v),
                                                 ref->sums[place],
                                                 ref->program->values[v].bytes / sizeof(float));
                ref->summed[place] = false;
            }
        }
    }
}

static inline void reference_call(struct reference *ref, uint32_t c)
{
    const struct pst_device_ops *ops = ref->real.device_ops;
    const struct pst_program_call *call = &ref->program->calls[c];
    uint32_t n =
        call->kind == PST_C_KERNEL ? pst_operands_of(&ref->real.graph->ops[call->op]).count : 3;
    void **o = calloc(n, sizeof *o);

    for (uint32_t i = 0; i < n; i++) {
        o[i] = reference_at(ref, ref->program->operands[call->first_operand + i]);
    }
    if (call->kind == PST_C_KERNEL) {
        reference_kernel(ref, c, o);
    } else if (call->kind == PST_C_LOAD) {
        const struct pst_tensor *tensor = &ref->real.graph->tensors[call->op];

        reference_set(ref, o[0],
                      (const char *)ref->real.inputs[call->op] + call->first_sample * tensor->bytes,
                      tensor->bytes * call->samples);
    } else if (call->kind == PST_C_SUM) {
        const struct pst_tensor *tensor = &ref->real.graph->tensors[call->op];

        ops->sum(ref->device, o[0], o[1], o[2],
                 tensor->elems * (tensor->batched ? call->samples : 1), tensor->dtype);
    } else if (call->kind == PST_C_ACCUMULATE) {
        reference_accumulate(ref, call, o[0], o[1]);
    } else {
        reference_get(ref, &ref->losses[call->first_sample], o[1], call->samples * sizeof(float));
    }
    free(o);
}

/* The gradient of a parameter: the sum over its users, in their order. */
static inline float *reference_gradient(struct reference *ref, uint32_t row)
{
    const struct pst_program_param *param = &ref->program->params[row];
    float *sum = reference_at(ref, param->grads[0]);

    if (param->tie != PST_NONE) {
        sum = reference_at(ref, param->tie);
        reference_copy(ref, sum, reference_at(ref, param->grads[0]),
                       reference_elems(ref, row) * sizeof *sum);
        for (uint32_t u = 1; u < param->n_grads; u++) {
            const float *part = reference_at(ref, param->grads[u]);

            assert_true(param->grad_users[u] > param->grad_users[u - 1]);
            ref->real.device_ops->accumulate(ref->device, sum, part, reference_elems(ref, row));
        }
    }
    return sum;
}

static inline void reference_update(struct reference *ref, const struct pst_update *update,
                                    float scale)
{
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        const struct pst_program_param *param = &ref->program->params[i];
        const struct pst_parameter *parameter = &ref->real.graph->params[param->parameter];
        float *weights = reference_at(ref, param->weight);
        struct pst_update own = *update;

        own.grad_scale = scale;
        own.step = ref->n_updates;
        if (!parameter->decay || update->optimizer == PST_ADAM) {
            own.weight_decay = 0;
        }
        reference_set(ref, weights, ref->now[i], parameter->elems * sizeof *weights);
        ref->real.device_ops->update(ref->device, &own, weights, reference_gradient(ref, i),
                                     reference_at(ref, param->optimizer[0]),
                                     reference_at(ref, param->optimizer[1]), NULL, PST_F32,
                                     parameter->elems);
        memcpy(ref->before[i], ref->now[i], parameter->elems * sizeof *weights);
        reference_get(ref, ref->now[i], weights, parameter->elems * sizeof *weights);
    }
}

/* A step that is not finite: W(t + 1) is W(t), the optimizer's state stays. */
static inline void reference_pass_over(struct reference *ref)
{
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        memcpy(ref->before[i], ref->now[i], reference_elems(ref, i) * sizeof(float));
    }
}

static inline struct reference_step reference_step(struct reference *ref,
                                                   const struct pst_update *update)
{
    struct reference_step step = {0};
    float scale = 1;

    ref->real.device_ops->enter(ref->device); /* of several on this thread, this one now */
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        const struct pst_program_param *param = &ref->program->params[i];
        float *weights = reference_at(ref, param->weight);

        reference_set(ref, weights, ref->delayed ? ref->before[i] : ref->now[i],
                      reference_elems(ref, i) * sizeof *weights);
        if (param->working != param->weight) {
            ref->real.device_ops->refresh(ref->device, reference_at(ref, param->working), weights,
                                          ref->real.graph->params[param->parameter].dtype,
                                          reference_elems(ref, i));
        }
    }
    for (uint32_t c = 0; c < ref->program->n_calls; c++) {
        reference_call(ref, c);
    }
    reference_reduce(ref);
    for (uint32_t i = 0; i < ref->real.batch; i++) {
        step.loss += ref->losses[i];
    }
    for (uint32_t i = 0; i < ref->program->n_params; i++) { /* in the model's order */
        step.norm += ref->real.device_ops->square_sum(ref->device, reference_gradient(ref, i),
                                                      reference_elems(ref, i));
    }
    step.loss /= ref->real.batch;
    step.norm = sqrt(step.norm);
    ref->n_steps++;
    if (!isfinite(step.loss) || !isfinite(step.norm)) {
        reference_pass_over(ref);
        return step;
    }
    if (ref->clip > 0 && step.norm > ref->clip) {
        scale = (float)(ref->clip / step.norm);
    }
    ref->n_updates++;
    reference_update(ref, update, scale);
    return step;
}

static inline void reference_finish(struct reference *ref)
{
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        free(ref->before[i]);
        free(ref->now[i]);
    }
    for (uint32_t c = 0; c < ref->program->n_calls; c++) {
        if (ref->kernels[c] != NULL) {
            ref->kernels[c]->destroy(ref->kernels[c]);
        }
    }
    free(ref->before);
    free(ref->now);
    free(ref->kernels);
    free(ref->losses);
    free(ref->sums);
    free(ref->summed);
    real_destroy(&ref->real);
}

#endif
