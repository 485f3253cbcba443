/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitions: every node in one stage, stages in topological order and convex, each on devices of
 * its own.
 */
#include <string.h>

#include "conformance/answer.h"
#include "conformance/verdict.h"

struct cut {
    struct pst_answer *answer;
    const struct pst_partition_in *in;
    uint32_t n_stages;
    uint32_t *stage_of;  /* [n_nodes] PST_NONE while it is in none */
    uint32_t *rank_of;   /* [n_devices] the stage that it holds, or PST_NONE */
    unsigned char *mark; /* [n_nodes] of the convexity test */
};

static bool is_in(const uint32_t *list, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    return false;
}

static void judge_nodes(struct cut *cut, const struct pst_stage_decl *stage)
{
    uint32_t n = cut->in->graph->n_nodes, i;

    for (i = 0; i < stage->n_nodes; i++) {
        uint32_t node = stage->nodes[i];

        if (node >= n) {
            pst_answer_break(cut->answer, "stage %u has a node %u, but the graph has only %u",
                             cut->n_stages, node, n);
            return;
        }
        if (i > 0 && node <= stage->nodes[i - 1]) {
            pst_answer_break(cut->answer, "the nodes of stage %u are not in ascending order",
                             cut->n_stages);
            return;
        }
        if (cut->stage_of[node] != PST_NONE) {
            pst_answer_break(cut->answer, "node %u is in stage %u and in stage %u", node,
                             cut->stage_of[node], cut->n_stages);
            return;
        }
        cut->stage_of[node] = cut->n_stages;
    }
}

/* A node outside that comes after one inside must not come before another inside. */
static void judge_convex(struct cut *cut, const struct pst_stage_decl *stage)
{
    const struct pst_graph_view *graph = cut->in->graph;
    uint32_t i, k;

    memset(cut->mark, 0, graph->n_nodes);
    for (i = 0; i < graph->n_nodes; i++) {
        const struct pst_node *node = pst_graph_node(graph, i);
        bool inside = cut->stage_of[i] == cut->n_stages;

        for (k = 0; k < node->n_in; k++) {
            uint32_t from = pst_graph_edge(graph, graph->in_edges[node->first_in + k])->from;

            if (inside && cut->mark[from]) {
                pst_answer_break(cut->answer,
                                 "stage %u is not convex: a path leaves it and comes back through "
                                 "node %u to node %u",
                                 cut->n_stages, from, i);
                return;
            }
            if (!inside && (cut->mark[from] || cut->stage_of[from] == cut->n_stages)) {
                cut->mark[i] = 1;
            }
        }
    }
    (void)stage;
}

static void judge_ranks(struct cut *cut, const struct pst_stage_decl *stage)
{
    const struct pst_partition_in *in = cut->in;
    uint32_t i;

    if (!is_in(in->degrees, in->n_degrees, stage->n_ranks)) {
        pst_answer_break(cut->answer, "stage %u has %u replicas, which is none of the degrees",
                         cut->n_stages, stage->n_ranks);
        return;
    }
    for (i = 0; i < stage->n_ranks; i++) {
        uint32_t rank = stage->ranks[i];

        if (rank >= in->n_devices) {
            pst_answer_break(cut->answer, "stage %u is on rank %u, but there are only %u devices",
                             cut->n_stages, rank, in->n_devices);
            return;
        }
        if (cut->rank_of[rank] != PST_NONE) {
            pst_answer_break(cut->answer, "rank %u is given to stage %u and to stage %u", rank,
                             cut->rank_of[rank], cut->n_stages);
            return;
        }
        cut->rank_of[rank] = cut->n_stages;
    }
    if (!is_in(in->micro_batches, in->n_micro_batches, stage->microbatch_size)) {
        pst_answer_break(cut->answer,
                         "stage %u has micro-batches of %u samples, which is none of "
                         "the candidates",
                         cut->n_stages, stage->microbatch_size);
    } else if (stage->microbatch_size % stage->n_ranks != 0 || stage->k == 0 ||
               (stage->k - 1) * (uint64_t)stage->microbatch_size >= in->batch) {
        pst_answer_break(cut->answer, "stage %u has %u samples for %u replicas and k = %u",
                         cut->n_stages, stage->microbatch_size, stage->n_ranks, stage->k);
    }
}

static pst_status take_stage(struct pst_partition_out *out, const struct pst_stage_decl *stage)
{
    struct cut *cut = out->impl;
    struct pst_answer *answer = cut->answer;
    uint32_t i;

    if (!PST_HAS(stage, k)) {
        pst_answer_break(answer, "stage() was given a stage of %u bytes; set .size = sizeof",
                         stage->size);
        return PST_ERR_BUG;
    }
    if (stage->n_nodes == 0 || stage->nodes == NULL || stage->n_ranks == 0 ||
        stage->ranks == NULL) {
        pst_answer_break(answer, "stage %u has no %s", cut->n_stages,
                         stage->n_nodes == 0 || stage->nodes == NULL ? "nodes" : "ranks");
        return PST_ERR_BUG;
    }
    if (stage->n_nodes > cut->in->graph->n_nodes || stage->n_ranks > cut->in->n_devices) {
        pst_answer_break(answer, "stage %u has %u nodes on %u ranks, but there are only %u and %u",
                         cut->n_stages, stage->n_nodes, stage->n_ranks, cut->in->graph->n_nodes,
                         cut->in->n_devices);
        return PST_ERR_BUG;
    }
    pst_answer_record(answer, stage->n_nodes);
    for (i = 0; i < stage->n_nodes; i++) {
        pst_answer_record(answer, stage->nodes[i]);
    }
    pst_answer_record(answer, stage->n_ranks);
    for (i = 0; i < stage->n_ranks; i++) {
        pst_answer_record(answer, stage->ranks[i]);
    }
    pst_answer_record(answer, stage->microbatch_size);
    pst_answer_record(answer, stage->k);
    judge_nodes(cut, stage);
    if (answer->broken[0] == '\0') {
        judge_convex(cut, stage);
    }
    if (answer->broken[0] == '\0') {
        judge_ranks(cut, stage);
    }
    cut->n_stages++;
    return answer->broken[0] == '\0' ? PST_OK : PST_ERR_BUG;
}

/* All stages are there: nothing left out, all edges forward, as many as were wanted. */
static void judge_whole(struct cut *cut)
{
    const struct pst_graph_view *graph = cut->in->graph;
    uint32_t i;

    for (i = 0; i < graph->n_nodes; i++) {
        if (cut->stage_of[i] == PST_NONE) {
            pst_answer_break(cut->answer, "node %u is in no stage", i);
            return;
        }
    }
    for (i = 0; i < graph->n_edges; i++) {
        const struct pst_edge *edge = pst_graph_edge(graph, i);

        if (cut->stage_of[edge->from] > cut->stage_of[edge->to]) {
            pst_answer_break(cut->answer,
                             "stages are not in topological order: stage %u reads what stage %u "
                             "makes",
                             cut->stage_of[edge->to], cut->stage_of[edge->from]);
            return;
        }
    }
    if (cut->in->n_stages != 0 && cut->n_stages != cut->in->n_stages) {
        pst_answer_break(cut->answer, "%u stages were wanted, %u are given", cut->in->n_stages,
                         cut->n_stages);
    }
}

static bool make_question(const struct pst_rig *rig, const struct pst_case *question,
                          const struct pst_graph_problem *problem, struct pst_region *region,
                          struct pst_partition_in *ret_in)
{
    bool several = pst_subject_provides(rig->subject, "per-stage-microbatch");
    bool replicas = pst_subject_provides(rig->subject, "replicas");
    uint32_t *sizes = pst_region_alloc(region, 2 * sizeof *sizes);
    uint32_t *degrees = pst_region_alloc(region, 2 * sizeof *degrees);

    if (sizes == NULL || degrees == NULL) {
        return false;
    }
    sizes[0] = degrees[0] = 1;
    sizes[1] = degrees[1] = 2;
    *ret_in = (struct pst_partition_in){
        .size = sizeof *ret_in,
        .graph = problem->view,
        .cluster = problem->cluster,
        .batch = 2 * question->n_microbatches,
        .micro_batches = several ? sizes : sizes + 1,
        .n_micro_batches = several ? 2 : 1,
        .degrees = degrees,
        .n_degrees = replicas ? 2 : 1,
        .n_stages = question->seed % 2 == 0 ? question->n_devices : 0,
        .n_devices = question->n_devices,
        .capacity_bytes = UINT64_MAX,
    };
    if (question->memory == PST_MEMORY_TIGHT) {
        ret_in->capacity_bytes = problem->total_bytes / question->n_devices + 1;
    } else if (question->memory == PST_MEMORY_NONE) {
        ret_in->capacity_bytes = 1;
    }
    return true;
}

void pst_ask_partitioner(struct pst_rig *rig, const struct pst_case *question,
                         struct pst_region *region, struct pst_answer *answer)
{
    const struct pst_partitioner *partitioner = pst_subject_interface(rig->subject);
    struct cut cut = {.answer = answer};
    struct pst_partition_out out = {.size = sizeof out, .impl = &cut, .stage = take_stage};
    struct pst_graph_problem problem;
    struct pst_partition_in in;
    struct pst_arena arena = {0};
    pst_status st;

    if (!pst_graph_problem_make(question, region, &problem) ||
        !make_question(rig, question, &problem, region, &in)) {
        pst_verdict_skip("the checker ran out of memory");
    }
    cut.in = &in;
    cut.stage_of = pst_arena_array(&arena, question->n_nodes, sizeof *cut.stage_of);
    cut.rank_of = pst_arena_array(&arena, question->n_devices, sizeof *cut.rank_of);
    cut.mark = pst_arena_array(&arena, question->n_nodes, 1);
    memset(cut.stage_of, 0xFF, question->n_nodes * sizeof *cut.stage_of);
    memset(cut.rank_of, 0xFF, question->n_devices * sizeof *cut.rank_of);
    rig->graph = &problem;
    pst_region_seal(region);
    pst_ask_begin(answer, "partition()");
    st = partitioner->partition(rig->self, &in, &out);
    if (pst_ask_end(answer, rig, region, st)) {
        judge_whole(&cut);
    }
    pst_arena_finish(&arena);
}
