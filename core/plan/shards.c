/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts the parameters of a stage into pieces for its replicas.
 */
#include "plan/shards.h"

/* --- cuts --------------------------------------------------------------------------------------*/

struct bucket {
    uint64_t elems, at; /* of all parameters; before the next one */
    uint32_t turn;      /* member that the first piece is for */
};

/* The first element of the parameter that is of piece q or later: its block begins in or after the
   q-th n-th of the bucket. */
static uint64_t first_of(const struct bucket *bucket, const struct pst_parameter *parameter,
                         uint32_t q, uint32_t n)
{
    const uint64_t block = parameter->muon != 0 ? parameter->elems : PST_SHARD_BLOCK;
    const uint64_t begin = (uint64_t)(((unsigned __int128)bucket->elems * q + n - 1) / n);
    uint64_t first = begin > bucket->at ? begin - bucket->at : 0;

    first = first < parameter->elems ? (first + block - 1) / block * block : parameter->elems;
    return first < parameter->elems ? first : parameter->elems;
}

/* Piece q of the next parameter of the bucket. */
static struct pst_shard piece_of(const struct bucket *bucket, const struct pst_parameter *parameter,
                                 uint32_t q, uint32_t n)
{
    const uint64_t first = first_of(bucket, parameter, q, n);

    return (struct pst_shard){first, first_of(bucket, parameter, q + 1, n) - first};
}

static void cut_parameter(const struct pst_shards *shards, const struct pst_parameter *parameter,
                          struct bucket *bucket, struct pst_shard *pieces)
{
    for (uint32_t q = 0; q < shards->n; q++) {
        pieces[(q + bucket->turn) % shards->n] = piece_of(bucket, parameter, q, shards->n);
    }
    bucket->at += parameter->elems;
}

struct pst_shard pst_shard_tied(const struct pst_graph *graph, uint32_t parameter, uint32_t n,
                                uint32_t member)
{
    const struct bucket bucket = {.elems = graph->params[parameter].elems};

    return piece_of(&bucket, &graph->params[parameter], (member + n - parameter % n) % n, n);
}

/* --- buckets -----------------------------------------------------------------------------------*/

static bool is_cut(const struct pst_op *op, uint32_t slot, const bool *whole)
{
    return op->param[slot] != PST_NONE && (whole == NULL || !whole[op->param[slot]]);
}

/* Elements of the bucket that begins with this node: untied parameters of its layer. */
static uint64_t bucket_elems(const struct pst_graph *graph, const uint32_t *nodes, uint32_t n_nodes,
                             uint32_t node, const bool *whole)
{
    const uint32_t layer = graph->ops[nodes[node]].layer;
    uint64_t elems = 0;

    for (; node < n_nodes && graph->ops[nodes[node]].layer == layer; node++) {
        const struct pst_op *op = &graph->ops[nodes[node]];

        for (uint32_t i = 0; i < op->n_param; i++) {
            if (is_cut(op, i, whole) && graph->params[op->param[i]].n_users == 1) {
                elems += graph->params[op->param[i]].elems;
            }
        }
    }
    return elems;
}

void pst_shards_make(const struct pst_graph *graph, const uint32_t *nodes, uint32_t n_nodes,
                     uint32_t n_members, const bool *whole, struct pst_arena *arena,
                     struct pst_shards *ret_shards)
{
    struct bucket layer = {.turn = PST_NONE};
    uint32_t n = 0;

    *ret_shards = (struct pst_shards){.n = n_members};
    if (n_members < 2) {
        return;
    }
    ret_shards->row_of = pst_arena_none(arena, graph->n_params);
    for (uint32_t v = 0; v < n_nodes; v++) {
        n += graph->ops[nodes[v]].n_param;
    }
    ret_shards->pieces = pst_arena_array(arena, (size_t)n * n_members, sizeof(struct pst_shard));
    n = 0;
    for (uint32_t v = 0; v < n_nodes; v++) {
        const struct pst_op *op = &graph->ops[nodes[v]];

        if (v == 0 || op->layer != graph->ops[nodes[v - 1]].layer) {
            layer = (struct bucket){.elems = bucket_elems(graph, nodes, n_nodes, v, whole),
                                    .turn = layer.turn + 1};
        }
        for (uint32_t i = 0; i < op->n_param; i++) {
            const uint32_t p = op->param[i];
            struct bucket own;

            if (!is_cut(op, i, whole) || ret_shards->row_of[p] != PST_NONE) {
                continue;
            }
            own = (struct bucket){.elems = graph->params[p].elems, .turn = p};
            ret_shards->row_of[p] = n++;
            cut_parameter(ret_shards, &graph->params[p],
                          graph->params[p].n_users == 1 ? &layer : &own,
                          &ret_shards->pieces[(size_t)ret_shards->row_of[p] * n_members]);
        }
    }
}

/* --- plans -------------------------------------------------------------------------------------*/

/* A rank that holds several uses of a parameter has one piece of it. Stages of a plan that is still
   to be proven may share some ranks alone, of which pst_plan_shares() says nothing. */
static bool are_alike(const struct pst_plan_stage *a, const struct pst_plan_stage *b)
{
    for (uint32_t r = 0; a->n_ranks == b->n_ranks && r < a->n_ranks; r++) {
        const uint32_t place = pst_plan_place(b, a->ranks[r]);

        if (place != PST_NONE && place != r) {
            return false;
        }
    }
    return a->n_ranks == b->n_ranks;
}

static bool may_cut(const struct pst_plan *plan, const struct pst_plan_tie *tie)
{
    for (uint32_t i = 0; i < tie->n_stages; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (!are_alike(&plan->stages[tie->stages[i]], &plan->stages[tie->stages[j]])) {
                return false;
            }
        }
    }
    return plan->zero > 0 && pst_plan_replicas(&plan->stages[tie->stages[0]]) > 1;
}

bool pst_plan_cuts(const struct pst_plan *plan, uint32_t stage, uint32_t parameter)
{
    for (uint32_t t = 0; t < plan->n_ties && plan->zero > 0; t++) {
        if (plan->ties[t].parameter == parameter) {
            return may_cut(plan, &plan->ties[t]);
        }
    }
    return plan->zero > 0 && pst_plan_replicas(&plan->stages[stage]) > 1;
}

bool pst_plan_scatters(const struct pst_plan *plan, uint32_t stage, uint32_t parameter)
{
    return plan->zero >= 2 && pst_plan_cuts(plan, stage, parameter);
}

bool pst_plan_gathers(const struct pst_plan *plan, uint32_t stage, uint32_t parameter)
{
    return plan->zero >= 3 && pst_plan_cuts(plan, stage, parameter);
}

void pst_plan_shards(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t stage,
                     struct pst_arena *arena, struct pst_shards *ret_shards)
{
    const struct pst_plan_stage *of = &plan->stages[stage];
    bool *whole = NULL;

    for (uint32_t t = 0; t < plan->n_ties && plan->zero > 0; t++) {
        if (!may_cut(plan, &plan->ties[t])) {
            whole = whole == NULL ? pst_arena_array(arena, graph->n_params, sizeof *whole) : whole;
            whole[plan->ties[t].parameter] = true;
        }
    }
    pst_shards_make(graph, of->nodes, of->n_nodes, plan->zero > 0 ? pst_plan_replicas(of) : 1,
                    whole, arena, ret_shards);
}
