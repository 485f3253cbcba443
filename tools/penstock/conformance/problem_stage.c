/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "conformance/problem.h"

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

bool pst_stage_problem_make(const struct pst_case *question, bool earlier_actions,
                            struct pst_region *region, struct pst_stage_view **ret_view)
{
    struct pst_stage_view *view = pst_region_alloc(region, sizeof *view);
    uint32_t n = question->n_nodes,
             size = (uint32_t)sizeof(struct pst_stage_node) + question->extra;
    char *nodes = pst_region_alloc(region, (size_t)n * size);
    uint32_t *producers = pst_region_alloc(region, 2 * (size_t)n * sizeof *producers);
    static const char *const kinds[] = {"linear", "attention", "add", NULL};
    uint64_t most = question->huge ? (uint64_t)1 << 50 : 1 << 20, saved = 0;
    uint64_t random = question->seed, outputs = ~question->seed;
    uint32_t n_producers = 0, i;

    if (view == NULL || nodes == NULL || producers == NULL) {
        return false;
    }
    for (i = 0; i < n; i++) {
        struct pst_stage_node *node = (void *)(nodes + (size_t)i * size);

        *node = (struct pst_stage_node){.node = 10 + i, .layer = i / 4, .op = kinds[i % 4]};
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
    *view = (struct pst_stage_view){
        .size = sizeof *view,
        .stage = (uint32_t)pst_random_between(&random, 0, question->n_devices - 1),
        .n_stages = question->n_devices,
        .n_nodes = n,
        .node_size = size,
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
    view->capacity_bytes = capacity(question, view, saved);
    *ret_view = view;
    return true;
}
