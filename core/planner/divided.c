/* SPDX-License-Identifier: Apache-2.0
 *
 * Prices of stages whose operators several ranks share. Each tensor degree has its own planner: its
 * graph is that of a part, its devices are groups of ranks. It divides the whole model. So tensors
 * have, at the borders of a stage, the layouts that they would have if the neighbours had the
 * degree, too; this file adds what it takes to make them whole.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/saturate.h"
#include "graph/split.h"
#include "planner/state.h"

/* The partitioner has other degrees to choose from, but for the usual one. */
static bool can_forgo(const struct pst_planner *planner, const struct pst_divided *divided)
{
    return divided->tensor != planner->in.tensors[0] &&
           (divided->status == PST_ERR_CONFIG || divided->status == PST_ERR_UNSUPPORTED);
}

static struct pst_divided *make_divided(struct pst_planner *planner, uint32_t tensor)
{
    struct pst_divided *divided = pst_alloc(1, sizeof *divided);
    const struct pst_search *whole = planner->in.search;
    struct pst_search search = *whole;

    *divided = (struct pst_divided){.next = planner->divided, .tensor = tensor};
    planner->divided = divided;
    divided->status = whole->divide(whole->divider, tensor, &search, &divided->why);
    PST_TRY(divided->status, planner->in.open(&divided->planner, &search, &divided->why));
    divided->planner.in.search = NULL; /* it is asked about no other degree */
    if (can_forgo(planner, divided)) {
        pst_log(PST_LOG_WARN, "plan", "no stage gets tensor degree %u: %s", tensor,
                divided->why.message);
    }
    return divided;
}

/* *ret_part NULL: there is none. */
static pst_status find_planner(struct pst_planner *planner, uint32_t tensor,
                               struct pst_planner **ret_part)
{
    struct pst_divided *divided = planner->divided;

    while (divided != NULL && divided->tensor != tensor) {
        divided = divided->next;
    }
    divided = divided == NULL ? make_divided(planner, tensor) : divided;
    *ret_part = divided->status == PST_OK ? &divided->planner : NULL;
    if (divided->status == PST_OK || can_forgo(planner, divided)) {
        return PST_OK;
    }
    planner->pending = divided->why;
    return divided->status;
}

/* The operators of a part that serve those of the stage. */
static void map_nodes(const struct pst_graph *graph, struct pst_stage_question *question,
                      struct pst_arena *arena)
{
    bool *is_asked = pst_arena_array(arena, pst_graph_model(graph)->n_ops, sizeof *is_asked);
    uint32_t *nodes = pst_arena_array(arena, graph->n_ops, sizeof *nodes);

    for (uint32_t i = 0; i < question->n_nodes; i++) {
        is_asked[question->nodes[i]] = true;
    }
    question->nodes = nodes;
    question->n_nodes = 0;
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        if (is_asked[graph->op_of[o]]) {
            nodes[question->n_nodes++] = o;
        }
    }
}

pst_status pst_divided_find(struct pst_planner *planner, struct pst_stage_question *question,
                            struct pst_arena *arena, struct pst_planner **ret_who)
{
    pst_status status = PST_OK;

    *ret_who = planner;
    if (question->tensor > 1) {
        status = find_planner(planner, question->tensor, ret_who);
    }
    if (status == PST_OK && *ret_who != NULL && *ret_who != planner) {
        map_nodes((*ret_who)->in.graph, question, arena);
    }
    return status;
}

/* --- borders of a stage ------------------------------------------------------------------------*/

static bool has_split(const struct pst_graph *graph, const struct pst_stage_question *question)
{
    bool is_split = false;

    for (uint32_t i = 0; i < question->n_nodes && !is_split; i++) {
        const struct pst_op *op = &graph->ops[question->nodes[i]];

        for (uint32_t k = 0; k < op->n_param; k++) {
            is_split |= op->param[k] != PST_NONE && pst_is_split(&graph->params[op->param[k]]);
        }
    }
    return is_split;
}

/* How a result lies on the parts. */
enum cut { CUT_NONE, CUT_TOKENS, CUT_ELSE };

static enum cut find_cut(const struct pst_tensor *own, const struct pst_tensor *whole)
{
    return own->elems >= whole->elems ? CUT_NONE
           : own->rank == whole->rank && own->dims[0] < whole->dims[0] &&
                   own->elems / own->dims[0] == whole->elems / whole->dims[0]
               ? CUT_TOKENS
               : CUT_ELSE;
}

static bool crosses(const struct pst_tensor *result, const bool *is_inside)
{
    bool is_read[2] = {false, false};

    for (uint32_t i = 0; i < result->n_consumers; i++) {
        is_read[is_inside[result->consumers[i]]] = true;
    }
    return is_inside[result->producer] ? is_read[false] : is_read[true];
}

/*
 * Tokens that cross a border are put together there: forward if a stage of another degree reads
 * them, backward if it made them. Where other parts of a result would cross, how operators are
 * divided depends on the neighbours, so such a stage has no price. False: it is one.
 */
static bool add_borders(const struct pst_planner *part, const struct pst_stage_question *question,
                        uint64_t *io_ns)
{
    const struct pst_graph *graph = part->in.graph, *whole = pst_graph_model(graph);
    const uint64_t samples = question->microbatch_size / question->n_ranks;
    bool *is_inside = pst_alloc(graph->n_ops, sizeof *is_inside), is_sound = true;

    for (uint32_t i = 0; i < question->n_nodes; i++) {
        is_inside[question->nodes[i]] = true;
    }
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        const struct pst_tensor *own = &graph->tensors[graph->ops[o].out[0]];
        const struct pst_tensor *all = &whole->tensors[whole->ops[graph->op_of[o]].out[0]];
        const struct pst_meet_bytes bytes = {.copied = pst_tensor_bytes(all, samples)};
        const enum cut cut = find_cut(own, all);

        if (cut != CUT_NONE && crosses(own, is_inside)) {
            is_sound &= cut == CUT_TOKENS;
            *io_ns =
                pst_sat_add(*io_ns, pst_cost_ring_ns(part->in.cost, bytes, question->tensor, 1));
        }
    }
    free(is_inside);
    return is_sound;
}

void pst_divided_border(const struct pst_planner *part, const struct pst_stage_question *question,
                        struct pst_stage_price *io_price)
{
    const struct pst_graph *graph = part->in.graph;

    if (question->tensor == 1 || !pst_ways_mix(graph->ways) || graph->n_by_name > 0) {
        return; /* its neighbours have its degree */
    }
    if (!add_borders(part, question, &io_price->period_ns) || !has_split(graph, question)) {
        io_price->fits = 0;
    }
}
