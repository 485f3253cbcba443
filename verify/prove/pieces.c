/* SPDX-License-Identifier: Apache-2.0
 *
 * Who updates which elements of a parameter, worked out block by block from the rule that
 * plan/shards.h states and not from its code; SHARD4: the norm counts every element once.
 */
#include "graph/split.h"
#include "prove/internal.h"

/* --- pieces ------------------------------------------------------------------------------------*/

struct bucket {
    uint64_t elems, at; /* in all; before the next parameter */
    uint32_t number;
};

/* Each block goes to the member in whose n-th of the bucket it begins. Members of neighbouring
   blocks are the same or neighbours, so what a member gets is one piece. */
static void deal_blocks(struct pst_check *check, const struct bucket *bucket, uint32_t p,
                        uint32_t n)
{
    const struct pst_parameter *parameter = &check->graph->params[p];
    const uint64_t block = parameter->muon != 0 ? parameter->elems : PST_SHARD_BLOCK;
    struct pst_shard *pieces = pst_check_array(check, n, sizeof *pieces);
    for (uint64_t at = 0; at < parameter->elems; at += block) {
        uint64_t left = parameter->elems - at;
        uint64_t nth = (uint64_t)((unsigned __int128)(bucket->at + at) * n / bucket->elems);
        struct pst_shard *piece = &pieces[(nth + bucket->number) % n];
        piece->first = piece->elems == 0 ? at : piece->first;
        piece->elems += left < block ? left : block;
    }
    check->pieces[p] = pieces;
}

/* Adds up the parameters that only this operator uses, or deals them out. */
static void walk_op(struct pst_check *check, uint32_t op, struct bucket *bucket, uint32_t n_members)
{
    const struct pst_op *of = &check->graph->ops[op];
    for (uint32_t i = 0; i < of->n_param; i++) {
        uint32_t p = of->param[i];
        if (p == PST_NONE || check->graph->params[p].n_users > 1) {
            continue;
        }
        if (n_members > 0) {
            deal_blocks(check, bucket, p, n_members);
            bucket->at += check->graph->params[p].elems;
        } else {
            bucket->elems += check->graph->params[p].elems;
        }
    }
}

/* A bucket is a row of operators of one layer. */
static void deal_stage(struct pst_check *check, const struct pst_plan_stage *stage)
{
    const struct pst_op *ops = check->graph->ops;
    struct bucket bucket = {0};
    for (uint32_t first = 0, end; first < stage->n_nodes; first = end, bucket.number++) {
        bucket.elems = bucket.at = 0;
        for (end = first;
             end < stage->n_nodes && ops[stage->nodes[end]].layer == ops[stage->nodes[first]].layer;
             end++) {
            walk_op(check, stage->nodes[end], &bucket, 0);
        }
        for (uint32_t v = first; v < end; v++) {
            walk_op(check, stage->nodes[v], &bucket, pst_plan_replicas(stage));
        }
    }
}

/* As many ranks; one that is in both is the same replica, and part, of both. */
static bool are_alike(const struct pst_plan_stage *a, const struct pst_plan_stage *b)
{
    for (uint32_t r = 0; a->n_ranks == b->n_ranks && r < a->n_ranks; r++) {
        uint32_t place = pst_plan_place(b, a->ranks[r]);
        if (place != PST_NONE && place != r) {
            return false;
        }
    }
    return a->n_ranks == b->n_ranks;
}

bool pst_check_cuts_tie(const struct pst_plan *plan, uint32_t tie)
{
    const struct pst_plan_tie *of = &plan->ties[tie];
    bool alike = plan->zero > 0 && pst_plan_replicas(&plan->stages[of->stages[0]]) > 1;
    for (uint32_t i = 0; alike && i < of->n_stages; i++) {
        for (uint32_t j = 0; alike && j < i; j++) {
            alike = are_alike(&plan->stages[of->stages[i]], &plan->stages[of->stages[j]]);
        }
    }
    return alike;
}

void pst_check_cuts(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    check->pieces = pst_check_array(check, check->graph->n_params, sizeof *check->pieces);
    for (uint32_t s = 0; plan->zero > 0 && s < plan->n_stages; s++) {
        if (pst_plan_replicas(&plan->stages[s]) > 1) {
            deal_stage(check, &plan->stages[s]);
        }
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        const uint32_t p = plan->ties[t].parameter;
        const struct bucket own = {.elems = check->graph->params[p].elems, .number = p};
        if (pst_check_cuts_tie(plan, t)) {
            deal_blocks(check, &own, p, pst_plan_replicas(&plan->stages[plan->ties[t].stages[0]]));
        }
    }
}

/* --- the norm ----------------------------------------------------------------------------------*/

/* A whole parameter is counted by the first part, a split one by each of its own, which form one
   where a rank stands for them all. */
static uint32_t counting_parts(const struct pst_check *check, uint32_t parameter)
{
    const struct pst_parameter *of = &check->graph->params[parameter];
    return pst_is_split(of) && pst_check_tensor(check) > 1 ? of->box.parts : 1;
}

/* An aligned part of the binary tree over the blocks of its parameter, all of it in the piece of
   its member. */
static bool is_subtree(const struct pst_check *check, const struct pst_square_tree *tree)
{
    const struct pst_shard *pieces = check->pieces[tree->parameter], *piece;
    const uint64_t all = check->graph->params[tree->parameter].elems;
    uint64_t width = PST_SHARD_BLOCK;
    while (width < tree->elems) {
        width *= 2;
    }
    if (tree->elems == 0 || tree->elems > all - tree->first || tree->first % width != 0 ||
        (tree->elems < width && tree->first + tree->elems < all)) {
        return false;
    }
    piece = pieces != NULL ? &pieces[tree->member] : NULL;
    return piece == NULL ? tree->member == 0
                         : tree->first >= piece->first &&
                               tree->first - piece->first + tree->elems <= piece->elems;
}

/* Elements that trees from *at on count of a parameter, in a row from the first. */
static uint64_t count_elems(const struct pst_check *check, uint32_t p, uint32_t part,
                            const struct pst_square_tree *trees, uint32_t n, uint32_t *at)
{
    uint64_t elems = 0;
    for (; *at < n && trees[*at].parameter == p && trees[*at].part == part &&
           elems < check->graph->params[p].elems && trees[*at].first == elems &&
           is_subtree(check, &trees[*at]);
         (*at)++) {
        elems += trees[*at].elems;
    }
    return elems;
}

void pst_check_trees(struct pst_check *check, const struct pst_square_tree *trees, uint32_t n)
{
    uint32_t i = 0;
    for (uint32_t p = 0; p < check->graph->n_params; p++) {
        const struct pst_parameter *parameter = &check->graph->params[p];
        const uint32_t n_parts = counting_parts(check, p);
        uint64_t at = parameter->elems;
        uint32_t part = 0;
        for (; part < n_parts && at == parameter->elems; part++) {
            at = count_elems(check, p, part, trees, n, &i);
        }
        if (at < parameter->elems || (i < n && trees[i].parameter <= p)) {
            pst_check_add(check, "SHARD4", PST_NONE, PST_NONE,
                          "parameter %s: the norm does not count each of its elements once, on the "
                          "device that updates it; wrong from element %llu of part %u on",
                          parameter->name, (unsigned long long)at, part - 1);
            return;
        }
    }
    if (i < n) {
        pst_check_add(check, "SHARD4", PST_NONE, PST_NONE,
                      "the norm counts parameters that do not exist");
    }
}
