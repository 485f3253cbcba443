/* SPDX-License-Identifier: Apache-2.0
 *
 * Topological order by Kahn's algorithm (CACM 5(11), 1962), where a heap takes the node that stands
 * first in the file, so that a file in topological order keeps it.
 */
#include "base/memory.h"
#include "base/text.h"
#include "models/costed/costed_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sort {
    const struct pst_costed *draft;
    uint32_t *first, *next; /* edges of a node: first[node], then next[edge]; edge + 1, 0 ends */
    uint32_t *n_in;         /* predecessors not yet placed; PST_NONE: placed */
    uint32_t *heap, n_heap;
};

static void push(struct sort *sort, uint32_t node)
{
    uint32_t at = sort->n_heap++;

    while (at > 0 && sort->heap[(at - 1) / 2] > node) {
        sort->heap[at] = sort->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sort->heap[at] = node;
}

static uint32_t pop(struct sort *sort)
{
    uint32_t top = sort->heap[0], node = sort->heap[--sort->n_heap], at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < sort->n_heap && sort->heap[child + 1] < sort->heap[child]) {
            child++;
        }
        if (child >= sort->n_heap || sort->heap[child] >= node) {
            break;
        }
        sort->heap[at] = sort->heap[child];
        at = child;
    }
    sort->heap[at] = node;
    return top;
}

/* Some predecessor of the node that could not be placed. */
static void find_stuck(const struct sort *sort, uint32_t *predecessor)
{
    for (uint32_t e = sort->draft->n_edges; e-- > 0;) {
        const struct pst_costed_edge *edge = &sort->draft->edges[e];

        if (sort->n_in[edge->from] != PST_NONE && sort->n_in[edge->to] != PST_NONE) {
            predecessor[edge->to] = edge->from;
        }
    }
}

/*
 * Every node that is left has a predecessor that is left, so going back from any of them comes
 * upon a cycle. It is told from the node that stands first in the file.
 */
static pst_status fail_cycle(struct sort *sort, const char *path, struct pst_error *err)
{
    const struct pst_costed *draft = sort->draft;
    uint32_t *predecessor = sort->heap, *ring = sort->next;
    uint32_t node = 0, length = 0, first = 0;
    char text[900] = "";

    find_stuck(sort, predecessor);
    while (sort->n_in[node] == PST_NONE) {
        node++;
    }
    while (sort->n_in[node] != 0) { /* 0: been here */
        sort->n_in[node] = 0;
        node = predecessor[node];
    }
    /* n_edges >= length: `ring` has room. */
    for (uint32_t at = node; length == 0 || at != node; at = predecessor[at]) {
        ring[length++] = at;
    }
    for (uint32_t i = 1; i < length; i++) {
        first = ring[i] < ring[first] ? i : first;
    }
    for (uint32_t i = 0; i <= length; i++) {
        const char *name = draft->nodes[ring[(first + length - i % length) % length]].name;

        if (strlen(text) + strlen(name) > sizeof text - 64) {
            pst_text_append(text, sizeof text, " -> ... (%u nodes)", length);
            break;
        }
        pst_text_append(text, sizeof text, "%s%s", i == 0 ? "" : " -> ", name);
    }
    return pst_fail_at(err, PST_ERR_CONFIG, "graph.cycle", path, 0, 0,
                       "the edges go round in a circle: %s", text);
}

static pst_status place_all(struct sort *sort, const char *path, uint32_t *order,
                            struct pst_error *err)
{
    const struct pst_costed *draft = sort->draft;
    uint32_t n = 0;

    for (uint32_t e = draft->n_edges; e-- > 0;) {
        sort->next[e] = sort->first[draft->edges[e].from];
        sort->first[draft->edges[e].from] = e + 1;
        sort->n_in[draft->edges[e].to]++;
    }
    for (uint32_t i = 0; i < draft->n_nodes; i++) {
        if (sort->n_in[i] == 0) {
            push(sort, i);
        }
    }
    while (sort->n_heap > 0) {
        uint32_t node = pop(sort);

        order[n++] = node;
        sort->n_in[node] = PST_NONE;
        for (uint32_t e = sort->first[node]; e != 0; e = sort->next[e - 1]) {
            if (--sort->n_in[draft->edges[e - 1].to] == 0) {
                push(sort, draft->edges[e - 1].to);
            }
        }
    }
    return n < draft->n_nodes ? fail_cycle(sort, path, err) : PST_OK;
}

pst_status pst_costed_sort(const struct pst_costed *draft, const char *path, uint32_t *order,
                           struct pst_error *err)
{
    struct sort sort = {.draft = draft};
    size_t n = draft->n_nodes;
    uint32_t *rows = pst_alloc(3 * n + draft->n_edges, sizeof *rows);
    pst_status status;

    sort.first = rows;
    sort.n_in = rows + n;
    sort.heap = rows + 2 * n;
    sort.next = rows + 3 * n;
    status = place_all(&sort, path, order, err);
    free(rows);
    return status;
}

/* Stable counting sort of edges by one end. */
static void sort_by(const struct pst_costed_edge *in, uint32_t n, size_t end, uint32_t *count,
                    uint32_t n_nodes, struct pst_costed_edge *out)
{
    memset(count, 0, (n_nodes + (size_t)1) * sizeof *count);
    for (uint32_t i = 0; i < n; i++) {
        count[*(const uint32_t *)((const char *)&in[i] + end) + 1]++;
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        count[i + 1] += count[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        out[count[*(const uint32_t *)((const char *)&in[i] + end)]++] = in[i];
    }
}

pst_status pst_costed_merge_edges(const struct pst_costed *draft, const uint32_t *position,
                                  struct pst_costed *graph, struct pst_error *err)
{
    uint32_t n = draft->n_edges, *count = pst_alloc(draft->n_nodes + (size_t)1, sizeof *count);
    struct pst_costed_edge *edges = pst_arena_array(&graph->arena, n, sizeof *edges);
    struct pst_costed_edge *other = pst_alloc(n + (size_t)1, sizeof *other);
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < n; i++) {
        edges[i] = (struct pst_costed_edge){.from = position[draft->edges[i].from],
                                            .to = position[draft->edges[i].to],
                                            .bytes = draft->edges[i].bytes + 0.0};
    }
    sort_by(edges, n, offsetof(struct pst_costed_edge, to), count, draft->n_nodes, other);
    sort_by(other, n, offsetof(struct pst_costed_edge, from), count, draft->n_nodes, edges);
    graph->edges = edges;
    for (uint32_t i = 0; i < n; i++) {
        struct pst_costed_edge *last = graph->n_edges == 0 ? NULL : &edges[graph->n_edges - 1];

        if (last != NULL && last->from == edges[i].from && last->to == edges[i].to) {
            last->bytes += edges[i].bytes;
            if (last->bytes > PST_COSTED_BYTES) {
                status = pst_fail(err, PST_ERR_CONFIG, "input.limit",
                                  "the edges between nodes %u and %u have too many bytes together",
                                  last->from, last->to);
            }
        } else {
            edges[graph->n_edges++] = edges[i];
        }
    }
    free(count);
    free(other);
    return status;
}
