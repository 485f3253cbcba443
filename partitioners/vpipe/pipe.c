/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "vpipe.h"

/* --- blocks ------------------------------------------------------------------------------------*/

/* Nodes of one layer are a block; of too few layers every node is one. */
static void set_first(struct vpipe *pipe)
{
    const struct part_problem *problem = pipe->problem;
    const struct pst_graph_view *graph = problem->in->graph;
    struct blocks *b = &pipe->blocks;
    uint32_t v;

    b->n = 0;
    for (v = 0; v < problem->n; v++) {
        if (v == 0 || pst_graph_node(graph, v)->layer != pst_graph_node(graph, v - 1)->layer) {
            b->first[b->n++] = v;
        }
    }
    if (pipe->config->unit == UNIT_NODE || b->n < pipe->n_stages) {
        for (b->n = 0; b->n < problem->n; b->n++) {
            b->first[b->n] = b->n;
        }
    }
    b->first[b->n] = problem->n;
}

static void set_blocks(struct vpipe *pipe, const struct part_ranges *ranges)
{
    struct blocks *b = &pipe->blocks;
    size_t n = (size_t)pipe->problem->n + 1;
    uint32_t i;

    CALL_TAKE(b->first, n);
    CALL_TAKE(b->ns, n);
    CALL_TAKE(b->f_ns, n);
    CALL_TAKE(b->saved, n);
    CALL_TAKE(b->weight, n);
    CALL_TAKE(pipe->by_price, n);
    CALL_TAKE(pipe->action, 2 * n);
    part_ranges_times(pipe->problem, pipe->size, b->ns, b->f_ns);
    set_first(pipe);
    for (i = 0; i <= b->n; i++) {
        /* first[i] >= i: what is read is not yet written over */
        b->ns[i] = b->ns[b->first[i]];
        b->f_ns[i] = b->f_ns[b->first[i]];
        b->saved[i] = ranges->saved[b->first[i]] * pipe->size;
        b->weight[i] = ranges->weight[b->first[i]];
    }
}

pst_status vpipe_init(struct vpipe *pipe, const struct part_problem *problem,
                      const struct config *config, const struct part_ranges *ranges,
                      uint32_t n_stages, uint32_t size)
{
    pst_status status;

    memset(pipe, 0, sizeof *pipe);
    pipe->problem = problem;
    pipe->config = config;
    pipe->n_stages = n_stages;
    pipe->size = size;
    pipe->costs.value_size = sizeof(struct stage_cost);
    set_blocks(pipe, ranges);
    if (problem->figures.reference != 0) {
        return PST_OK;
    }
    status = part_asker_init(problem, n_stages, size, 1, &pipe->asker);
    if (status == PST_OK) {
        part_asker_share(&pipe->asker);
    }
    return status;
}

/* --- what a stage costs ------------------------------------------------------------------------*/

uint32_t vpipe_held(const struct vpipe *pipe, uint32_t stage)
{
    uint32_t held = pipe->n_stages - stage, m = pipe->problem->batch / pipe->size;

    /* A pipeline that never drains fills up whatever the batch is. */
    return pipe->config->versions == VERSIONS_ONE && m < held ? m : held;
}

uint32_t vpipe_versions(const struct vpipe *pipe, uint32_t stage)
{
    switch (pipe->config->versions) {
    case VERSIONS_TWO:
        return 2;
    case VERSIONS_STASH:
        return pipe->n_stages - stage;
    default:
        return 1;
    }
}

static void ask(struct vpipe *pipe, uint32_t stage, uint32_t first, uint32_t end,
                struct stage_cost *ret_cost)
{
    const struct blocks *b = &pipe->blocks;
    double capacity = pipe->problem->capacity_bytes;
    struct pst_stage_price price;

    part_asker_price(&pipe->asker, stage, b->first[first], b->first[end], &price);
    *ret_cost =
        (struct stage_cost){.ns = (double)price.period_ns, .bytes = (double)price.peak_bytes};
    if (price.fits == 0) {
        /* Not even the best that the optimizer could say need be above. */
        ret_cost->missing =
            (double)price.peak_bytes > capacity ? (double)price.peak_bytes - capacity : 1;
        ret_cost->ns = b->ns[end] - b->ns[first];
    }
}

void vpipe_cost(struct vpipe *pipe, uint32_t stage, uint32_t first, uint32_t end,
                struct stage_cost *ret_cost)
{
    uint64_t n = (uint64_t)pipe->blocks.n + 1;
    uint64_t key = (stage * n + first) * n + end; /* end >= 1: never 0 */
    const struct stage_cost *known;
    struct stage_cost *made;

    if (pipe->problem->figures.reference == 0) {
        ask(pipe, stage, first, end, ret_cost);
        return;
    }
    known = part_map_find(&pipe->costs, key);
    if (known != NULL) {
        *ret_cost = *known;
        return;
    }
    call_go_on(pipe->problem->host);
    vpipe_inner(pipe, stage, first, end, ret_cost);
    made = part_map_put(&pipe->costs, key);
    *made = *ret_cost;
}
