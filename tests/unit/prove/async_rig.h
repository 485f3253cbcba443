/* SPDX-License-Identifier: Apache-2.0
 *
 * Legal asynchronous plans for tests: a model cut at random places, one stage a device, 1F1B
 * without a flush written out here from its definition, then lowered.
 */
#ifndef TESTS_CHECK_ASYNC_RIG_H
#define TESTS_CHECK_ASYNC_RIG_H

#include "unit/prove/rig.h"

struct async_shape {
    uint32_t p, m;
    uint32_t size; /* of a micro-batch */
    bool barrier, recompute, replicas, offload, zero;
    const uint32_t *ends; /* as a rig_shape's */
};

struct async_orders {
    struct pst_pass *passes[PST_PARTS][RIG_MAX];
    uint32_t n[PST_PARTS][RIG_MAX];
};

static inline void async_add(struct async_orders *o, uint32_t part, uint32_t s, uint8_t op,
                             uint32_t number)
{
    uint32_t n = o->n[part][s]++;
    o->passes[part][s] = realloc(o->passes[part][s], (n + 1) * sizeof(struct pst_pass));
    o->passes[part][s][n] = (struct pst_pass){op, s, number};
}

/* w forwards; m pairs F(w + i), BW(i); the same without what is of the next batch. */
static inline void async_order(struct async_orders *o, uint32_t p, uint32_t m)
{
    memset(o, 0, sizeof *o);
    for (uint32_t s = 0; s < p; s++) {
        uint32_t w = p - 1 - s < m ? p - 1 - s : m;
        for (uint32_t i = 0; i < w; i++) {
            async_add(o, PST_FILL, s, PST_PASS_F, i);
        }
        for (uint32_t i = 0; i < m; i++) {
            async_add(o, PST_BODY, s, PST_PASS_F, w + i);
            async_add(o, PST_BODY, s, PST_PASS_BW, i);
            if (w + i < m) {
                async_add(o, PST_DRAIN, s, PST_PASS_F, w + i);
            }
            async_add(o, PST_DRAIN, s, PST_PASS_BW, i);
        }
    }
}

static inline void async_free(struct async_orders *o)
{
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        for (uint32_t s = 0; s < RIG_MAX; s++) {
            free(o->passes[part][s]);
        }
    }
}

/* Every rank of a stage runs its list. */
static inline pst_status async_lower(struct rig *rig, const struct async_orders *o,
                                     struct pst_error *err)
{
    const struct pst_pass *lists[PST_PARTS][RIG_MAX] = {{NULL}};
    const struct pst_pass *const *passes[PST_PARTS];
    uint32_t counts[PST_PARTS][RIG_MAX] = {{0}};
    const uint32_t *n[PST_PARTS];
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        for (uint32_t s = 0; s < rig->plan->n_stages; s++) {
            for (uint32_t r = 0; r < rig->plan->stages[s].n_ranks; r++) {
                lists[part][rig->plan->stages[s].ranks[r]] = o->passes[part][s];
                counts[part][rig->plan->stages[s].ranks[r]] = o->n[part][s];
            }
        }
        passes[part] = lists[part];
        n[part] = counts[part];
    }
    return pst_plan_lower_parts(rig->plan, rig->graph, &rig->cost, passes, n, err);
}

static inline struct async_shape async_draw_shape(struct rig *rig, uint32_t i)
{
    struct async_shape shape = {.p = 2 + rig_draw(rig, 3),
                                .m = 1 + rig_draw(rig, 5),
                                .size = 1 + rig_draw(rig, 2),
                                .barrier = rig_draw(rig, 2) == 0};
    shape.replicas = i % 4 == 3;
    shape.size *= shape.replicas ? 3 : 1;
    return shape;
}

/* False: refused because of rows that skip stages where the pipeline is never full, or all devices
 * meet. */
static inline bool async_plan(struct rig *rig, const struct async_shape *shape)
{
    struct rig_shape cut = {.devices = shape->p,
                            .chunks = 1,
                            .batch = shape->m * shape->size,
                            .microbatch = shape->size,
                            .recompute = shape->recompute,
                            .offload = shape->offload,
                            .no_barrier = !shape->barrier,
                            .replicas = shape->replicas,
                            .zero = shape->zero,
                            .ends = shape->ends};
    struct async_orders orders;
    struct pst_error err = {0};
    rig_cut(rig, &cut);
    for (uint32_t s = 0; s < shape->p; s++) {
        rig->plan->stages[s].weight_versions = 2;
    }
    async_order(&orders, shape->p, shape->m);
    pst_status status = async_lower(rig, &orders, &err);
    async_free(&orders);
    if (status == PST_ERR_UNSUPPORTED &&
        (shape->m < shape->p || shape->p > 5 || rig->plan->deferred_step)) {
        return false;
    }
    if (status != PST_OK) {
        fail_msg("lowering p=%u m=%u: %s\n%s", shape->p, shape->m, err.message, err.details);
    }
    return true;
}

#endif
