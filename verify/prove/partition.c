/* SPDX-License-Identifier: Apache-2.0
 *
 * PART1 ... PART6: the stages are a partition of the graph, their edges and ties are those that the
 * graph implies, and samples are dealt out completely.
 */
#include "prove/internal.h"

#include <string.h>

/* PART1. Fills stage_of. */
static void check_cover(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    check->stage_of = pst_arena_none(&check->arena, check->graph->n_ops);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t n = 0; n < plan->stages[s].n_nodes; n++) {
            uint32_t op = plan->stages[s].nodes[n];
            if (check->stage_of[op] != PST_NONE) {
                pst_check_add(check, "PART1", PST_NONE, PST_NONE,
                              "operator %s is in stages %u and %u; it belongs to exactly one",
                              check->graph->ops[op].name, check->stage_of[op], s);
            }
            check->stage_of[op] = s;
        }
    }
    for (uint32_t op = 0; op < check->graph->n_ops; op++) {
        if (check->stage_of[op] == PST_NONE) {
            pst_check_add(check, "PART1", PST_NONE, PST_NONE,
                          "operator %s is in no stage; it belongs to exactly one",
                          check->graph->ops[op].name);
        }
    }
}

struct crossing {
    uint32_t from, to, tensor;
};

/*
 * Every (producing stage, other reading stage, tensor), in order of tensors. PART2: data flows to
 * higher stages only, so the stages are convex and their graph has no cycle.
 */
static uint64_t find_crossings(struct pst_check *check, uint32_t *seen, struct crossing *crossings)
{
    uint64_t n = 0;
    for (uint32_t t = 0; t < check->graph->n_tensors; t++) {
        const struct pst_tensor *tensor = &check->graph->tensors[t];
        if (tensor->producer == PST_NONE) {
            continue;
        }
        uint32_t from = check->stage_of[tensor->producer];
        for (uint32_t c = 0; c < tensor->n_consumers; c++) {
            uint32_t to = check->stage_of[tensor->consumers[c]];
            if (to < from) {
                pst_check_add(check, "PART2", PST_NONE, PST_NONE,
                              "operator %s of stage %u reads %s of stage %u; stages must be convex "
                              "and numbered along the data",
                              check->graph->ops[tensor->consumers[c]].name, to, tensor->name, from);
            } else if (to > from && seen[to] != t + 1) {
                seen[to] = t + 1;
                crossings[n++] = (struct crossing){from, to, t};
            }
        }
    }
    return n;
}

/* Stable counting sort by one of the two stages. */
static void sort_crossings(struct pst_check *check, const struct crossing *in, uint64_t n,
                           bool by_from, struct crossing *ret_out)
{
    uint64_t *first = pst_check_array(check, (uint64_t)check->plan->n_stages + 1, sizeof(uint64_t));
    for (uint64_t i = 0; i < n; i++) {
        first[(by_from ? in[i].from : in[i].to) + 1]++;
    }
    for (uint32_t s = 0; s < check->plan->n_stages; s++) {
        first[s + 1] += first[s];
    }
    for (uint64_t i = 0; i < n; i++) {
        ret_out[first[by_from ? in[i].from : in[i].to]++] = in[i];
    }
}

/* PART2: the plan's edges are the crossings, in order, with their bytes. */
static void compare_edges(struct pst_check *check, const struct crossing *crossings, uint64_t n)
{
    const struct pst_plan *plan = check->plan;
    uint64_t at = 0;
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < edge->n_tensors; i++, at++) {
            if (at >= n || crossings[at].from != edge->from || crossings[at].to != edge->to ||
                crossings[at].tensor != edge->tensors[i]) {
                pst_check_add(check, "PART2", PST_NONE, PST_NONE,
                              "edge %u carries %s from stage %u to %u, which the operators do not "
                              "imply there",
                              e, check->graph->tensors[edge->tensors[i]].name, edge->from,
                              edge->to);
                return;
            }
            bytes += check->graph->tensors[edge->tensors[i]].bytes;
        }
        if (bytes != edge->bytes_per_sample) {
            pst_check_add(check, "PART2", PST_NONE, PST_NONE,
                          "edge %u: %llu bytes per sample, expected %llu", e,
                          (unsigned long long)edge->bytes_per_sample, (unsigned long long)bytes);
        }
    }
    if (at < n) {
        pst_check_add(check, "PART2", PST_NONE, PST_NONE,
                      "no edge carries %s from stage %u to %u, where it is read",
                      check->graph->tensors[crossings[at].tensor].name, crossings[at].from,
                      crossings[at].to);
    }
}

static void check_edges(struct pst_check *check)
{
    uint32_t before = check->report->n_violations;
    uint64_t uses = 0;
    for (uint32_t t = 0; t < check->graph->n_tensors; t++) {
        uses += check->graph->tensors[t].n_consumers;
    }
    uint32_t *seen = pst_check_array(check, check->plan->n_stages, sizeof *seen);
    struct crossing *crossings = pst_check_array(check, uses + 1, sizeof *crossings);
    struct crossing *sorted = pst_check_array(check, uses + 1, sizeof *sorted);
    uint64_t n = find_crossings(check, seen, crossings);
    if (check->report->n_violations != before) {
        return;
    }
    sort_crossings(check, crossings, n, false, sorted);
    sort_crossings(check, sorted, n, true, crossings);
    compare_edges(check, crossings, n);
}

/* PART3; fills the stages of each rank. */
static void check_devices(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint64_t total = 0;
    uint32_t *seen = pst_check_array(check, plan->n_devices, sizeof *seen);
    uint32_t *first = pst_check_array(check, (uint64_t)plan->n_devices + 2, sizeof *first);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        if (stage->n_ranks == 0) {
            pst_check_add(check, "PART3", PST_NONE, PST_NONE, "stage %u is on no device", s);
        }
        if (pst_plan_replicas(stage) % plan->copies != 0) {
            pst_check_add(check, "PART3", PST_NONE, PST_NONE,
                          "stage %u has %u replicas, which %u copies cannot share", s,
                          pst_plan_replicas(stage), plan->copies);
        }
        for (uint32_t r = 0; r < stage->n_ranks; r++) {
            if (seen[stage->ranks[r]] == s + 1) {
                pst_check_add(
                    check, "PART3", stage->ranks[r], PST_NONE,
                    "holds stage %u twice; replicas and their parts must be on different devices",
                    s);
            }
            seen[stage->ranks[r]] = s + 1;
            first[stage->ranks[r] + 2]++;
            total++;
        }
    }
    check->rank_stages = pst_check_array(check, total + 1, sizeof(uint32_t));
    if (total >= UINT32_MAX) {
        pst_check_add(check, "PART3", PST_NONE, PST_NONE, "too many replicas: %llu",
                      (unsigned long long)total);
        return;
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        first[d + 2] += first[d + 1];
    }
    check->rank_first = first; /* first[d + 1] moves up to the end of row d below */
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t r = 0; r < plan->stages[s].n_ranks; r++) {
            check->rank_stages[first[plan->stages[s].ranks[r] + 1]++] = s;
        }
    }
}

/* Have the stages the same ranks, copy by copy in any order, and each copy in the same order? */
static bool same_devices(const struct pst_plan *plan, const struct pst_plan_stage *a,
                         const struct pst_plan_stage *b)
{
    uint32_t width = pst_plan_width(plan, a), n_same = 0;
    for (uint32_t c = 0; c < plan->copies && a->n_ranks == b->n_ranks; c++) {
        for (uint32_t d = 0; d < plan->copies; d++) {
            n_same += memcmp(pst_plan_copy_ranks(plan, a, c), pst_plan_copy_ranks(plan, b, d),
                             width * sizeof *a->ranks) == 0;
        }
    }
    return n_same == plan->copies;
}

/* PART3: stages that share a device share all of theirs, replica by replica. */
static void check_groups(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = check->rank_first[d] + 1; i < check->rank_first[d + 1]; i++) {
            uint32_t first = check->rank_stages[check->rank_first[d]], s = check->rank_stages[i];
            const struct pst_plan_stage *a = &plan->stages[first], *b = &plan->stages[s];
            if (!same_devices(plan, a, b)) {
                pst_check_add(check, "PART3", d, PST_NONE,
                              "holds stages %u and %u, which do not have all their devices in "
                              "common, in the same order",
                              first, s);
            }
        }
    }
}

/* The stages that use the parameter are exactly those of the tie. */
static bool tie_matches(const struct pst_check *check, const struct pst_plan_tie *tie,
                        uint32_t *seen)
{
    const struct pst_parameter *parameter = &check->graph->params[tie->parameter];
    uint32_t n = 0;
    for (uint32_t u = 0; u < parameter->n_users; u++) {
        uint32_t stage = check->stage_of[parameter->users[u]];
        n += seen[stage] != tie->parameter + 1;
        seen[stage] = tie->parameter + 1;
    }
    for (uint32_t s = 0; s < tie->n_stages; s++) {
        if (seen[tie->stages[s]] != tie->parameter + 1) {
            return false;
        }
    }
    return n == tie->n_stages;
}

/* PART4: one tie for each parameter with several users, over the stages of those users. */
static void check_ties(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint32_t *n_ties = pst_check_array(check, check->graph->n_params, sizeof *n_ties);
    uint32_t *seen = pst_check_array(check, plan->n_stages, sizeof *seen);
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        n_ties[plan->ties[t].parameter]++;
        if (!tie_matches(check, &plan->ties[t], seen)) {
            pst_check_add(check, "PART4", PST_NONE, PST_NONE,
                          "tie %u of %s has other stages than those that use the parameter", t,
                          check->graph->params[plan->ties[t].parameter].name);
        }
    }
    for (uint32_t p = 0; p < check->graph->n_params; p++) {
        uint32_t expected = check->graph->params[p].n_users > 1;
        if (n_ties[p] != expected) {
            pst_check_add(check, "PART4", PST_NONE, PST_NONE,
                          "%s is in %u ties, expected %u: %u operators use it",
                          check->graph->params[p].name, n_ties[p], expected,
                          check->graph->params[p].n_users);
        }
    }
}

/* PART5, PART6 */
static void check_samples(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        if ((uint64_t)stage->microbatch_size * stage->n_microbatches != plan->batch) {
            pst_check_add(check, "PART5", PST_NONE, PST_NONE,
                          "stage %u: %u micro-batches of %u samples, expected %u samples in all", s,
                          stage->n_microbatches, stage->microbatch_size, plan->batch);
        }
        if (stage->n_ranks > 0 && stage->microbatch_size % pst_plan_replicas(stage) != 0) {
            pst_check_add(check, "PART6", PST_NONE, PST_NONE,
                          "stage %u: micro-batches of %u samples cannot be shared by %u replicas",
                          s, stage->microbatch_size, pst_plan_replicas(stage));
        }
        if (!check->plan->asynchronous && !check->limits->forward_only &&
            stage->weight_versions != 1) {
            pst_check_add(check, "WVER1", PST_NONE, PST_NONE,
                          "stage %u keeps %u weight versions; a synchronous plan has one", s,
                          stage->weight_versions);
        }
    }
}

/*
 * PART5: what stays in the memory of a rank is handed over whole, micro-batch by micro-batch.
 * Programs rely on it.
 */
static void check_local_sizes(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint32_t *seen = pst_check_array(check, plan->n_devices, sizeof *seen);
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_stage *from = &plan->stages[plan->edges[e].from];
        const struct pst_plan_stage *to = &plan->stages[plan->edges[e].to];
        bool alike = from->microbatch_size == to->microbatch_size && from->n_ranks == to->n_ranks;
        for (uint32_t r = 0; r < from->n_ranks; r++) {
            seen[from->ranks[r]] = e + 1;
        }
        for (uint32_t r = 0; r < to->n_ranks && !alike; r++) {
            if (seen[to->ranks[r]] == e + 1) {
                pst_check_add(check, "PART5", to->ranks[r], PST_NONE,
                              "holds stages %u and %u with micro-batches of %u and %u samples; "
                              "neighbours on a device have one size",
                              plan->edges[e].from, plan->edges[e].to, from->microbatch_size,
                              to->microbatch_size);
                break;
            }
        }
    }
}

void pst_check_partition(struct pst_check *check)
{
    if (pst_check_is_clean(check, check_devices)) {
        check_groups(check);
    }
    check_samples(check);
    if (pst_check_is_clean(check, check_cover)) {
        check_edges(check);
        check_ties(check);
        check_local_sizes(check);
    }
}
