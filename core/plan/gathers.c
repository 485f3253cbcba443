/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/gathers.h"

#include "plan/shards.h"

void pst_gathers_init(struct pst_gathers *gathers, const struct pst_plan *plan,
                      const struct pst_graph *graph, struct pst_arena *arena)
{
    *gathers = (struct pst_gathers){.plan = plan, .graph = graph};
    if (plan->zero >= 3) {
        gathers->number = pst_arena_array(arena, graph->n_params, sizeof *gathers->number);
        gathers->bucket = pst_arena_array(arena, graph->n_params, sizeof *gathers->bucket);
    }
}

void pst_gathers_begin(struct pst_gathers *gathers)
{
    gathers->before = gathers->n;
}

static bool is_there(const struct pst_gathers *gathers, uint32_t parameter)
{
    const uint32_t number = gathers->number[parameter];

    return number > gathers->before && number + PST_GATHERED_BUCKETS > gathers->n;
}

static uint32_t layer_at(const struct pst_gathers *gathers, const struct pst_plan_stage *stage,
                         uint32_t node)
{
    return gathers->graph->ops[stage->nodes[node]].layer;
}

/* Lists the untied parameters of the layer that `node` is in. */
static uint32_t list_layer(const struct pst_gathers *gathers, const struct pst_plan_stage *stage,
                           uint32_t node)
{
    const uint32_t layer = layer_at(gathers, stage, node);
    uint32_t n = 0;

    while (node > 0 && layer_at(gathers, stage, node - 1) == layer) {
        node--;
    }
    for (; node < stage->n_nodes && layer_at(gathers, stage, node) == layer; node++) {
        const struct pst_op *op = &gathers->graph->ops[stage->nodes[node]];

        for (uint32_t i = 0; i < op->n_param; i++) {
            if (op->param[i] != PST_NONE && gathers->graph->params[op->param[i]].n_users == 1) {
                gathers->bucket[n++] = op->param[i];
            }
        }
    }
    return n;
}

uint32_t pst_gathers_need(struct pst_gathers *gathers, uint32_t stage, uint32_t node,
                          uint32_t parameter, const uint32_t **ret_bucket)
{
    uint32_t n = 1;

    if (!pst_plan_gathers(gathers->plan, stage, parameter) || is_there(gathers, parameter)) {
        return 0;
    }
    gathers->bucket[0] = parameter;
    if (gathers->graph->params[parameter].n_users == 1) {
        n = list_layer(gathers, &gathers->plan->stages[stage], node);
    }
    gathers->n++;
    for (uint32_t i = 0; i < n; i++) {
        gathers->number[gathers->bucket[i]] = gathers->n;
    }
    *ret_bucket = gathers->bucket;
    return n;
}
