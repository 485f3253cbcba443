/* SPDX-License-Identifier: Apache-2.0
 *
 * Some steps of an asynchronous plan, no two alike, with three in flight; what they leave is held
 * against the reference.
 */
#ifndef PST_TEST_EXEC_BATCHES_H
#define PST_TEST_EXEC_BATCHES_H

#include "unit/exec/reference.h"

enum { STEPS = 7, CLASSES = 7 };

/* A run of some steps; what a rule of versions has no use for is 0. */
struct scene {
    const char *model, *settings;
    uint32_t dtype, optimizer;
    uint32_t n_stages, m;
    double clip;
    uint32_t drain_every; /* 0: at the end alone */
    bool recompute;
    uint32_t bad_step; /* has an input that is not finite, and is passed over; 0: none */
    uint32_t width;    /* replicas of every stage; 0: one */
};

/* Data of every step. */
struct batches {
    void *inputs[STEPS][PST_MAX_INPUTS];
};

static inline struct pst_update update_of(uint32_t optimizer, uint32_t step)
{
    return (struct pst_update){.optimizer = optimizer,
                               .lr = optimizer <= PST_MOMENTUM ? 0.05f : 0.01f,
                               .momentum = 0.9f,
                               .beta1 = 0.9f,
                               .beta2 = 0.99f,
                               .eps = 1e-8f,
                               .weight_decay = 0.1f,
                               .step = step + 1};
}

static inline uint32_t slots_of(uint32_t optimizer)
{
    return optimizer == PST_SGD ? 0 : optimizer == PST_MOMENTUM ? 1 : 2;
}

/* No two steps alike: whole numbers go up, others change their sign here and there. */
static inline void *vary(const void *from, uint64_t n, uint32_t dtype, uint32_t step)
{
    size_t bytes = n * pst_dtype_bytes(dtype);
    void *to = malloc(bytes);

    memcpy(to, from, bytes);
    for (uint64_t k = 0; k < n; k++) {
        if (dtype == PST_I32) {
            ((int32_t *)to)[k] = (int32_t)(((uint64_t)((int32_t *)to)[k] + k * step) % CLASSES);
        } else if ((k + step) % (2 + step) == 0) {
            ((unsigned char *)to)[(k + 1) * pst_dtype_bytes(dtype) - 1] ^= 0x80;
        }
    }
    return to;
}

static inline void make_batches(const struct real *real, uint32_t bad_step,
                                struct batches *ret_batches)
{
    memset(ret_batches, 0, sizeof *ret_batches);
    for (uint32_t i = 0; i < real->graph->n_tensors; i++) {
        const struct pst_tensor *tensor = &real->graph->tensors[i];

        for (uint32_t t = 0; t < STEPS && tensor->role == PST_ROLE_INPUT; t++) {
            ret_batches->inputs[t][i] =
                vary(real->inputs[i], tensor->elems * real->batch, tensor->dtype, t);
        }
    }
    if (bad_step > 0) {
        *(float *)ret_batches->inputs[bad_step][0] = INFINITY;
    }
}

static inline void free_batches(struct batches *batches)
{
    for (uint32_t t = 0; t < STEPS; t++) {
        for (uint32_t f = 0; f < PST_MAX_INPUTS; f++) {
            free(batches->inputs[t][f]);
        }
    }
}

static inline void submit(struct real *real, const struct batches *batches, uint32_t optimizer,
                          uint32_t step)
{
    struct pst_batch batch = {.inputs = {batches->inputs[step][0], batches->inputs[step][1]},
                              .first_sample = (uint64_t)step * real->batch};
    struct pst_update update = update_of(optimizer, step);
    struct pst_error err = {0};

    MUST(pst_exec_submit(real->exec, &batch, &update, &err));
}

/* Keeps three steps in flight. */
static inline void run_batches(struct real *real, uint32_t optimizer, uint32_t drain_every,
                               const struct batches *batches, struct pst_step_result *results)
{
    struct pst_error err = {0};
    uint32_t n = 0;

    for (uint32_t done = 0; done < STEPS; done++) {
        while (n < STEPS && pst_exec_in_flight(real->exec) < 3) {
            submit(real, batches, optimizer, n++);
            if (n == STEPS || (drain_every > 0 && n % drain_every == 0)) {
                pst_exec_drain(real->exec);
            }
        }
        MUST(pst_exec_collect(real->exec, &results[done], &err));
    }
}

/* --- scenes of every rule of versions ----------------------------------------------------------*/

typedef void scene_check(const struct scene *scene);

/* Every rule of update at every depth, and with n_clips = 2 with clipping, too. */
static inline void check_optimizers(scene_check *check, const char *mlp, uint32_t n_clips)
{
    for (uint32_t optimizer = PST_SGD; optimizer <= PST_ADAMW; optimizer++) {
        for (uint32_t i = 0; i < 4 * n_clips; i++) {
            check(&(struct scene){.model = "mlp",
                                  .settings = mlp,
                                  .dtype = PST_F32,
                                  .optimizer = optimizer,
                                  .n_stages = 1 + i % 4,
                                  .m = 4,
                                  .clip = i / 4 * 0.5});
        }
    }
}

static inline void check_drains(scene_check *check, const char *mlp, uint32_t m)
{
    for (uint32_t every = 0; every <= 4; every++) {
        check(&(struct scene){.model = "mlp",
                              .settings = mlp,
                              .dtype = PST_F32,
                              .optimizer = PST_MOMENTUM,
                              .n_stages = 4,
                              .m = m,
                              .drain_every = every});
    }
}

static inline void check_bf16(scene_check *check, const char *mlp, const char *gpt,
                              uint32_t n_clips)
{
    for (uint32_t i = 0; i < 2 * n_clips; i++) {
        check(&(struct scene){.model = i & 1 ? "gpt" : "mlp",
                              .settings = i & 1 ? gpt : mlp,
                              .dtype = PST_BF16,
                              .optimizer = PST_ADAMW,
                              .n_stages = 3,
                              .m = 4,
                              .clip = i / 2 * 0.5});
    }
}

/* --- what is left ------------------------------------------------------------------------------*/

static inline void check_weights(struct real *real, const struct reference *ref)
{
    for (uint32_t i = 0; i < ref->program->n_params; i++) {
        uint32_t parameter = ref->program->params[i].parameter;
        uint64_t n = real->graph->params[parameter].elems;
        float *values = malloc(n * sizeof *values);

        assert_int_equal(pst_exec_get_parameter(real->exec, parameter, values), PST_OK);
        assert_memory_equal(values, ref->now[i], n * sizeof *values);
        free(values);
    }
}

#endif
