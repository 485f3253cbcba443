/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of a few nodes for tests of the evaluator of memory plans. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_EVAL_RIG_H
#define PENSTOCK_TESTS_EVAL_RIG_H

#include <string.h>

#include "plugin/eval.h"

#define MAX_NODES 14

struct stage {
    struct pst_stage_view view;
    struct pst_stage_node nodes[MAX_NODES];
    uint32_t producers[MAX_NODES * MAX_NODES];
    uint32_t n_producers;
};

static inline void stage_init(struct stage *s, uint32_t k, uint64_t static_bytes,
                              uint64_t input_bytes)
{
    memset(s, 0, sizeof *s);
    s->view.size = sizeof s->view;
    s->view.node_size = sizeof s->nodes[0];
    s->view.nodes = s->nodes;
    s->view.producers = s->producers;
    s->view.n_stages = 1;
    s->view.in_flight = k;
    s->view.static_bytes = static_bytes;
    s->view.input_bytes = input_bytes;
    s->view.staging_copies = 2;
    s->view.link_directions = 1;
    s->view.capacity_bytes = UINT64_MAX;
}

/* A node that reads the positions of the mask. */
static inline void add_node(struct stage *s, uint64_t tf, uint64_t tb, uint64_t a, uint64_t wf,
                            uint64_t wb, uint32_t reads)
{
    uint32_t v = s->view.n_nodes++;
    struct pst_stage_node *node = &s->nodes[v];

    node->node = v;
    node->forward_ns = tf;
    node->backward_ns = tb;
    node->saved_bytes = a;
    node->forward_work_bytes = wf;
    node->backward_work_bytes = wb;
    node->first_producer = s->n_producers;
    for (uint32_t u = 0; u < v; u++) {
        if (reads >> u & 1) {
            s->producers[s->n_producers++] = u;
            node->n_producers++;
        }
    }
}

static inline void add_link(struct stage *s, uint64_t tf, uint64_t tb, uint64_t a)
{
    uint32_t v = s->view.n_nodes;

    add_node(s, tf, tb, a, 0, 0, v == 0 ? 0 : 1u << (v - 1));
}

static inline void letters(const char *text, uint8_t *actions)
{
    for (; *text != '\0'; text++) {
        *actions++ = *text == 'R'   ? PST_ACTION_RECOMPUTE
                     : *text == 'S' ? PST_ACTION_OFFLOAD
                                    : PST_ACTION_KEEP;
    }
}

static inline struct pst_stage_value value_of(const struct stage *s, const uint8_t *actions)
{
    struct pst_evaluator evaluator = {0};
    struct pst_stage_value value = {.size = sizeof value};

    assert_true(pst_evaluate(&evaluator, &s->view, actions, &value));
    pst_evaluator_finish(&evaluator);
    return value;
}

#endif
