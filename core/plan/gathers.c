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

static bool is_there(const struct pst_gathers *gathers, uint32_t parameter)
{
    const uint32_t number = gathers->number[parameter];

    return number > 0 && number + PST_GATHERED_BUCKETS > gathers->n;
}

/* Finds the nodes of the layer that `node` is in: [*ret_first, the returned one). */
static uint32_t find_layer(const struct pst_graph *graph, const struct pst_plan_stage *stage,
                           uint32_t node, uint32_t *ret_first)
{
    const uint32_t layer = graph->ops[stage->nodes[node]].layer;
    uint32_t end = node + 1;

    while (node > 0 && graph->ops[stage->nodes[node - 1]].layer == layer) {
        node--;
    }
    while (end < stage->n_nodes && graph->ops[stage->nodes[end]].layer == layer) {
        end++;
    }
    *ret_first = node;
    return end;
}

/* Lists the untied parameters of the layer that `node` is in. */
static uint32_t list_layer(const struct pst_gathers *gathers, const struct pst_plan_stage *stage,
                           uint32_t node)
{
    const uint32_t end = find_layer(gathers->graph, stage, node, &node);
    uint32_t n = 0;

    for (; node < end; node++) {
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

bool pst_scatters_in_layer(const struct pst_plan *plan, const struct pst_graph *graph,
                           uint32_t stage, uint32_t parameter)
{
    return graph->params[parameter].n_users == 1 && pst_plan_scatters(plan, stage, parameter);
}

static bool adds_in_layer(const struct pst_plan *plan, const struct pst_graph *graph,
                          uint32_t stage, uint32_t node)
{
    const struct pst_op *op = &graph->ops[plan->stages[stage].nodes[node]];
    bool adds = false;

    for (uint32_t i = 0; i < op->n_param && !adds; i++) {
        adds = op->param[i] != PST_NONE && pst_scatters_in_layer(plan, graph, stage, op->param[i]);
    }
    return adds;
}

/* A backward pass runs the node with the least number last. The loop ends at the next node that has
   gradients, so all calls for the nodes of a layer take time linear in their number. */
bool pst_scatters_layer(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t stage,
                        uint32_t node, uint32_t *ret_end)
{
    const uint32_t *nodes = plan->stages[stage].nodes;
    const uint32_t layer = graph->ops[nodes[node]].layer;
    bool last = adds_in_layer(plan, graph, stage, node);
    uint32_t first;

    for (uint32_t at = node; last && at > 0 && graph->ops[nodes[at - 1]].layer == layer; at--) {
        last = !adds_in_layer(plan, graph, stage, at - 1);
    }
    if (last) {
        *ret_end = find_layer(graph, &plan->stages[stage], node, &first);
    }
    return last;
}

uint64_t pst_scatters_layer_bytes(const struct pst_plan *plan, const struct pst_graph *graph,
                                  uint32_t stage, uint32_t first, uint32_t end)
{
    uint64_t bytes = 0;

    for (uint32_t n = first; n < end; n++) {
        const struct pst_op *op = &graph->ops[plan->stages[stage].nodes[n]];

        for (uint32_t i = 0; i < op->n_param; i++) {
            const uint32_t p = op->param[i];

            bytes += p != PST_NONE && pst_scatters_in_layer(plan, graph, stage, p)
                         ? graph->params[p].elems * sizeof(float)
                         : 0;
        }
    }
    return bytes;
}
