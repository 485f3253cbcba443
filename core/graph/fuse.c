/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion on the draft, before anything is partitioned, so that every plan runs the same kernels:
 *   linear + gelu | relu  ->  linear with act
 *   batchnorm + relu      ->  batchnorm with act
 *   add(x, dropout(z))    ->  add with p, which keeps the dropout's random stream
 * A pair merges only where the first result has that one reader and is not asked for by name.
 */
#include "base/memory.h"
#include "graph/draft.h"

#include <stdlib.h>

struct fusion {
    struct pst_graph_builder *builder;
    uint32_t *uses; /* per tensor; what must stay counts as used twice */
};

static struct pst_op *producer(const struct fusion *fusion, uint32_t tensor)
{
    uint32_t op = fusion->builder->tensors[tensor].producer;

    return op == PST_NONE ? NULL : &fusion->builder->ops[op];
}

/* act(x) where x comes from a linear or batch norm without act: the result moves there. */
static void fuse_act(const struct fusion *fusion, struct pst_op *act)
{
    struct pst_op *host = producer(fusion, act->in[0]);
    uint32_t *out;

    if (host == NULL || fusion->uses[act->in[0]] != 1 || host->act != PST_ACT_NONE ||
        !((host->kind == PST_OP_LINEAR && act->act != PST_ACT_SILU) ||
          (host->kind == PST_OP_BATCHNORM && act->act == PST_ACT_RELU))) {
        return;
    }
    out = (uint32_t *)host->out;
    host->act = act->act;
    if (act->act == PST_ACT_GELU) { /* what was the result is now saved for the backward pass */
        out[1] = out[0];
        host->n_out = 2;
    }
    out[0] = act->out[0];
    fusion->builder->tensors[out[0]].producer = (uint32_t)(host - fusion->builder->ops);
    act->kind = PST_OP_KINDS;
}

static void fuse_dropout(const struct fusion *fusion, struct pst_op *add)
{
    struct pst_op *dropout = producer(fusion, add->in[1]);

    if (dropout == NULL || dropout->kind != PST_OP_DROPOUT || fusion->uses[add->in[1]] != 1 ||
        add->p > 0.0f || !(dropout->p > 0.0f)) {
        return;
    }
    ((uint32_t *)add->in)[1] = dropout->in[0];
    add->p = dropout->p;
    add->salt = dropout->salt;
    dropout->kind = PST_OP_KINDS;
}

void pst_graph_fuse(struct pst_graph_builder *builder, const uint32_t *keep, uint32_t n_keep)
{
    struct fusion fusion = {.builder = builder};

    fusion.uses = pst_alloc((size_t)builder->n_tensors + 1, sizeof *fusion.uses);
    for (uint32_t i = 0; i < builder->n_ops; i++) {
        for (uint32_t k = 0; k < builder->ops[i].n_in; k++) {
            fusion.uses[builder->ops[i].in[k]]++;
        }
    }
    for (uint32_t i = 0; i < n_keep; i++) {
        if (keep[i] != PST_NONE) {
            fusion.uses[keep[i]] += 2;
        }
    }
    for (uint32_t i = 0; i < builder->n_ops; i++) {
        if (builder->ops[i].kind == PST_OP_ACT) {
            fuse_act(&fusion, &builder->ops[i]);
        } else if (builder->ops[i].kind == PST_OP_ADD) {
            fuse_dropout(&fusion, &builder->ops[i]);
        }
    }
    free(fusion.uses);
}
