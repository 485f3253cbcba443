/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's questions: a graph, a graph of stages and a stage from the numbers of a case.
 */
#include "conformance/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "models/costed/costed_file.h"

uint64_t pst_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t pst_random_between(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + pst_random(state) % (high - low + 1);
}

static uint64_t most_of(const struct pst_case *question, uint64_t usual)
{
    return question->huge ? (uint64_t)1 << 49 : usual;
}

/* --- graphs ------------------------------------------------------------------------------------*/

static void join(struct pst_costed *graph, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        if (graph->edges[i].from == from && graph->edges[i].to == to) {
            return;
        }
    }
    graph->edges[graph->n_edges++] =
        (struct pst_costed_edge){from, to, graph->nodes[from].output_bytes};
}

/* Chain: a line. Diamond: two branches that part and meet, again and again. Random: a line with
   skips, so that the graph has one source. */
static void connect(const struct pst_case *question, uint64_t *random, struct pst_costed *graph)
{
    for (uint32_t i = 1; i < graph->n_nodes; i++) {
        if (question->shape == PST_SHAPE_DIAMOND) {
            uint32_t base = (i - 1) / 3 * 3; /* base parts into +1 and +2, which meet in +3 */

            join(graph, (i - 1) % 3 == 2 ? i - 2 : base, i);
            if ((i - 1) % 3 == 2) {
                join(graph, i - 1, i);
            }
        } else if (question->shape == PST_SHAPE_CHAIN) {
            join(graph, i - 1, i);
        } else {
            for (uint32_t k = 0; k < (i > 1 ? 2 : 1); k++) {
                join(graph, (uint32_t)pst_random_between(random, 0, i - 1), i);
            }
        }
    }
}

/* Returns what nodes take: parameters, and saved bytes of one sample. */
static double fill_nodes(const struct pst_case *question, uint64_t *random,
                         struct pst_costed *graph, struct pst_arena *arena)
{
    static const char *const ops[] = {"linear", "layernorm", "attention", "add"};
    uint64_t most = most_of(question, 1 << 20);
    double bytes = 0;

    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct pst_costed_node *node = &graph->nodes[i];

        node->name = pst_arena_printf(arena, "layer%u.node%u", i / 4, i);
        node->op = ops[i % 4];
        node->param_bytes = i % 4 == 0 ? (double)pst_random_between(random, 0, most) : 0;
        node->saved_bytes = (double)pst_random_between(random, 0, most);
        node->output_bytes = (double)pst_random_between(random, 1, most);
        node->workspace_bytes = (double)pst_random_between(random, 0, 4096);
        node->backward_workspace_bytes = (double)pst_random_between(random, 0, 4096);
        node->ns[0] = (double)pst_random_between(random, 1, question->huge ? most : 100000);
        node->ns[1] = node->ns[0];
        node->ns[2] = node->param_bytes > 0 ? node->ns[0] : 0;
        bytes += node->param_bytes + node->saved_bytes;
    }
    return bytes;
}

void pst_graph_problem_make(const struct pst_case *question, bool several, bool replicas,
                            struct pst_problem *ret_problem)
{
    static const uint32_t both[] = {1, 2};
    struct pst_arena *arena = &ret_problem->arena;
    struct pst_costed draft = {.name = "graph", .batch = 1, .n_nodes = question->n_nodes};
    uint64_t random = question->seed;
    struct pst_error err;
    double bytes;

    *ret_problem = (struct pst_problem){
        .n_devices = question->n_devices,
        .node_size = 4,
        .mini_batch = 2 * question->n_microbatches,
        .micro_batches = several ? both : both + 1,
        .n_micro_batches = several ? 2 : 1,
        .degrees = both,
        .n_degrees = replicas ? 2 : 1,
        .weight_multiplier = 4,
        .p2p_bandwidth = 16e9,
        .allreduce_bandwidth = 8e9,
        .comm_model = PST_COMM_MAX,
        .planned = true, /* sizes are those that are offered, and no others */
    };
    draft.nodes = pst_arena_array(arena, draft.n_nodes, sizeof *draft.nodes);
    draft.edges = pst_arena_array(arena, 2 * (size_t)draft.n_nodes, sizeof *draft.edges);
    bytes = fill_nodes(question, &random, &draft, arena);
    connect(question, &random, &draft);
    PST_ASSERT(pst_costed_create(&draft, &ret_problem->graph, &err) == PST_OK);
    ret_problem->memory_bytes = question->memory == PST_MEMORY_AMPLE ? (double)INFINITY
                                : question->memory == PST_MEMORY_TIGHT
                                    ? bytes / question->n_devices + 1
                                    : 1;
}

void pst_graph_problem_finish(struct pst_problem *problem)
{
    pst_costed_destroy(problem->graph);
    pst_arena_finish(&problem->arena);
    memset(problem, 0, sizeof *problem);
}

/* --- stage graphs ------------------------------------------------------------------------------*/

/* Links between stages, each from an earlier one to a later one. */
static uint32_t make_links(const struct pst_case *question, uint32_t n_stages, uint64_t *random,
                           struct pst_schedule_link *links)
{
    uint32_t n = 0, to, from;

    for (to = 1; to < n_stages; to++) {
        uint32_t other = question->shape == PST_SHAPE_CHAIN
                             ? to - 1
                             : (uint32_t)pst_random_between(random, 0, to - 1);

        for (from = 0; from < to; from++) {
            bool linked = from == other;

            if (question->shape == PST_SHAPE_DIAMOND) {
                /* base parts into +1 and +2, which meet in +3 */
                linked = (to - 1) % 3 == 2 ? from + 2 >= to : from == (to - 1) / 3 * 3;
            } else if (question->shape == PST_SHAPE_RANDOM) {
                linked |= from + 1 == to && pst_random(random) % 2 == 0;
            }
            if (linked) {
                links[n++] = (struct pst_schedule_link){.from = from, .to = to};
            }
        }
    }
    return n;
}

void pst_schedule_problem_make(const struct pst_case *question, uint32_t n_stages, uint32_t copies,
                               const uint32_t *devices, const uint32_t *sizes, uint32_t batch,
                               struct pst_order_question *ret_asked)
{
    uint64_t most = most_of(question, 1000), random = question->seed;
    struct pst_schedule_link *links = pst_alloc(2 * (size_t)n_stages, sizeof *links);
    uint32_t n_links, i;

    n_links = make_links(question, n_stages / copies, &random, links);
    for (i = n_links; i < n_links * copies; i++) {
        links[i].from = links[i - n_links].from + n_stages / copies;
        links[i].to = links[i - n_links].to + n_stages / copies;
    }
    n_links *= copies;
    pst_order_question_alloc(ret_asked, question->n_devices, n_stages, n_links);
    for (i = 0; i < n_stages; i++) {
        struct pst_schedule_stage *stage = &ret_asked->stages[i];

        *stage = (struct pst_schedule_stage){.device = devices[i],
                                             .microbatch_size = sizes[i],
                                             .n_microbatches = batch / sizes[i],
                                             .k = 1};
        stage->forward_ns = pst_random_between(&random, 1, most);
        stage->backward_input_ns = pst_random_between(&random, 0, most);
        stage->backward_weight_ns = pst_random_between(&random, 0, most);
        stage->input_bytes = pst_random_between(&random, 1, most);
        stage->saved_bytes = stage->input_bytes + pst_random_between(&random, 0, most);
        stage->saved_weight_bytes = stage->saved_bytes / 2;
    }
    for (i = 0; i < n_links; i++) {
        ret_asked->links[i] = links[i];
        if (devices[links[i].from] != devices[links[i].to]) {
            ret_asked->links[i].transfer_ns = pst_random_between(&random, 0, 100);
        }
    }
    for (i = 0; question->memory == PST_MEMORY_NONE && i < question->n_devices; i++) {
        ret_asked->activation_bytes[i] = 1;
    }
    free(links);
    pst_order_question_connect(ret_asked);
}

/* --- stages ------------------------------------------------------------------------------------*/

static uint32_t random_flags(uint64_t *random)
{
    uint32_t flags = 0;

    flags |= pst_random(random) % 3 == 0 ? PST_NODE_CHEAP : 0;
    flags |= pst_random(random) % 8 == 0 ? PST_NODE_RNG : 0;
    flags |= pst_random(random) % 6 == 0 ? PST_NODE_NO_RECOMPUTE : 0;
    flags |= pst_random(random) % 6 == 0 ? PST_NODE_NO_OFFLOAD : 0;
    return flags;
}

/* The node before it, and one or two before that: none of them twice. */
static uint32_t make_producers(const struct pst_case *question, uint32_t i, uint64_t *random,
                               uint32_t *producers)
{
    uint32_t other;

    if (i == 0) {
        return 0;
    }
    producers[0] = question->shape == PST_SHAPE_DIAMOND && i % 3 == 2 ? i - 2 : i - 1;
    if (question->shape == PST_SHAPE_CHAIN || i < 3 || pst_random(random) % 3 != 0) {
        return 1;
    }
    other = (uint32_t)pst_random_between(random, 0, i - 1);
    if (other == producers[0]) {
        return 1;
    }
    producers[1] = other;
    return 2;
}

/* Saved bytes as they are, in flight, with room to spare; half of that; nothing. */
static uint64_t capacity(const struct pst_case *question, const struct pst_stage_view *view,
                         uint64_t saved)
{
    switch (question->memory) {
    case PST_MEMORY_AMPLE:
        return UINT64_MAX;
    case PST_MEMORY_TIGHT:
        return view->static_bytes + (saved + view->input_bytes) * view->in_flight / 2 + 8192;
    default:
        return 1;
    }
}

struct pst_stage_node *pst_stage_problem_make(const struct pst_case *question, bool earlier_actions,
                                              struct pst_arena *arena,
                                              struct pst_stage_view *ret_view)
{
    static const char *const kinds[] = {"linear", "attention", "add", NULL};
    uint32_t n = question->n_nodes, n_producers = 0;
    struct pst_stage_node *nodes = pst_arena_array(arena, n, sizeof *nodes);
    uint32_t *producers = pst_arena_array(arena, 2 * (size_t)n, sizeof *producers);
    uint64_t most = most_of(question, 1 << 20), saved = 0;
    uint64_t random = question->seed, outputs = ~question->seed;

    for (uint32_t i = 0; i < n; i++) {
        struct pst_stage_node *node = &nodes[i];

        *node = (struct pst_stage_node){.node = i, .layer = i / 4, .op = kinds[i % 4]};
        node->flags = random_flags(&random);
        if (earlier_actions && pst_random(&random) % 5 == 0 &&
            (node->flags & PST_NODE_NO_OFFLOAD) == 0) {
            node->action = PST_ACTION_OFFLOAD;
        }
        node->forward_ns = pst_random_between(&random, 1, most);
        node->backward_ns = 2 * node->forward_ns;
        node->saved_bytes = pst_random_between(&random, 0, most);
        node->forward_work_bytes = pst_random_between(&random, 0, 4096);
        node->backward_work_bytes = pst_random_between(&random, 0, 4096);
        node->output_saved = pst_random(&outputs) % 4 != 0;
        node->output_bytes =
            pst_random_between(&outputs, 0, node->output_saved ? node->saved_bytes : most);
        node->first_producer = n_producers;
        node->n_producers = make_producers(question, i, &random, producers + n_producers);
        n_producers += node->n_producers;
        saved += node->saved_bytes;
    }
    *ret_view = (struct pst_stage_view){
        .size = sizeof *ret_view,
        .stage = (uint32_t)pst_random_between(&random, 0, question->n_devices - 1),
        .n_stages = question->n_devices,
        .n_nodes = n,
        .node_size = sizeof *nodes,
        .nodes = nodes,
        .producers = producers,
        .in_flight = question->n_microbatches,
        .weight_versions = 1,
        .staging_copies = (uint32_t)pst_random_between(&random, 1, 2),
        .link_directions = (uint32_t)pst_random_between(&random, 1, 2),
        .static_bytes = pst_random_between(&random, 0, most),
        .input_bytes = pst_random_between(&random, 1, most),
        .host_capacity_bytes = UINT64_MAX,
        .link_bytes_per_s = earlier_actions || pst_random(&random) % 2 == 0 ? 1000000000 : 0,
    };
    ret_view->capacity_bytes = capacity(question, ret_view, saved);
    return nodes;
}
