/* SPDX-License-Identifier: Apache-2.0
 *
 * From the lines of a profile to a costed graph: inputs dropped if that is wanted, nodes that take
 * nothing made part of the one node that reads them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/names.h"
#include "exchange/pipedream_impl.h"

struct work {
    const struct pst_pipedream_file *file;
    const struct pst_pipedream_options *options;
    struct pst_costed draft; /* nodes: those of the file; edges */
    uint32_t *order;         /* topological */
    uint32_t *into;          /* of a node: itself, what it became part of, or PST_NONE: dropped */
    uint32_t *n_in;
    double *cap; /* what flows through a node that was made part of another, at most */
    struct pst_pipedream_summary summary;
    struct pst_error *err;
};

static bool is_input(const char *op)
{
    return strncmp(op, "Input", 5) == 0 && op[5 + strspn(op + 5, "0123456789")] == '\0';
}

static pst_status fail_at_line(const struct work *w, uint32_t line, const char *kind,
                               const char *what, const char *name)
{
    return pst_fail_at(w->err, PST_ERR_CONFIG, kind, w->file->path, line, 0, what, name);
}

/* Names to indices. */
static pst_status resolve(struct work *w)
{
    const struct pst_pipedream_file *file = w->file;
    struct pst_arena arena = {0};
    struct pst_names names;
    pst_status st = PST_OK;

    pst_names_init(&names, &arena, (uint32_t)file->n_nodes);
    for (uint32_t i = 0; st == PST_OK && i < file->n_nodes; i++) {
        if (pst_names_add(&names, file->nodes[i].name, i) != PST_NONE) {
            st = fail_at_line(w, file->node_lines[i], "graph.duplicate",
                              "node \"%.200s\" stands on an earlier line already",
                              file->nodes[i].name);
        }
    }
    for (size_t e = 0; st == PST_OK && e < file->n_edges; e++) {
        const struct pst_pipedream_edge *edge = &file->edges[e];
        struct pst_costed_edge *to = &w->draft.edges[e];

        to->from = pst_names_find(&names, edge->from);
        to->to = pst_names_find(&names, edge->to);
        if (to->from == PST_NONE || to->to == PST_NONE) {
            st = fail_at_line(w, edge->line, "graph.edge", "no line is about node \"%.200s\"",
                              to->from == PST_NONE ? edge->from : edge->to);
        } else if (to->from == to->to) {
            st = fail_at_line(w, edge->line, "graph.edge", "goes from \"%.200s\" to itself",
                              edge->from);
        }
    }
    pst_arena_finish(&arena);
    return st;
}

static int by_ends(const void *a, const void *b)
{
    const struct pst_costed_edge *x = a, *y = b;

    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return (x->to > y->to) - (x->to < y->to);
}

/* Sorted, without loops and dropped ends; of parallel edges, which carry one tensor, the largest.
 */
static void tidy_edges(struct pst_costed *draft)
{
    uint32_t n = 0;

    for (uint32_t e = 0; e < draft->n_edges; e++) {
        const struct pst_costed_edge *edge = &draft->edges[e];

        if (edge->from != PST_NONE && edge->to != PST_NONE && edge->from != edge->to) {
            draft->edges[n++] = *edge;
        }
    }
    draft->n_edges = n;
    qsort(draft->edges, n, sizeof *draft->edges, by_ends);
    n = 0;
    for (uint32_t e = 0; e < draft->n_edges; e++) {
        struct pst_costed_edge *last = n == 0 ? NULL : &draft->edges[n - 1];

        if (last != NULL && by_ends(last, &draft->edges[e]) == 0) {
            last->bytes = fmax(last->bytes, draft->edges[e].bytes);
        } else {
            draft->edges[n++] = draft->edges[e];
        }
    }
    draft->n_edges = n;
}

static void drop_inputs(struct work *w)
{
    for (uint32_t i = 0; i < w->draft.n_nodes; i++) {
        bool input = is_input(w->draft.nodes[i].op);

        w->into[i] = input && w->options->drop_inputs ? PST_NONE : i;
        w->cap[i] = INFINITY;
        w->summary.n_inputs += input;
    }
    for (uint32_t e = 0; e < w->draft.n_edges; e++) {
        struct pst_costed_edge *edge = &w->draft.edges[e];

        edge->bytes = w->draft.nodes[edge->from].output_bytes;
        edge->from = w->into[edge->from];
        edge->to = w->into[edge->to];
    }
    tidy_edges(&w->draft);
}

/* The one node that reads what the node makes, once those behind it are settled; else PST_NONE. */
static uint32_t only_consumer(const struct work *w, uint32_t first, uint32_t node)
{
    uint32_t only = PST_NONE;

    for (uint32_t e = first; e < w->draft.n_edges && w->draft.edges[e].from == node; e++) {
        uint32_t to = w->into[w->draft.edges[e].to];

        if (only != PST_NONE && to != only) {
            return PST_NONE;
        }
        only = to;
    }
    return only;
}

/*
 * From the sinks up, so that a node whose consumers became one has one. What a node with a single
 * producer puts out is all that need be sent between the two, whichever side it is computed on.
 */
static pst_status collapse(struct work *w)
{
    struct pst_costed *draft = &w->draft;
    uint32_t *first = pst_alloc(draft->n_nodes + (size_t)1, sizeof *first);
    pst_status st = pst_costed_sort(draft, w->file->path, w->order, w->err);

    for (uint32_t e = draft->n_edges; st == PST_OK && e-- > 0;) {
        first[draft->edges[e].from] = e;
        w->n_in[draft->edges[e].to]++;
    }
    for (uint32_t k = draft->n_nodes; st == PST_OK && !w->options->keep_empty && k-- > 0;) {
        uint32_t i = w->order[k], consumer = only_consumer(w, first[i], i);
        struct pst_costed_node *node = &draft->nodes[i];

        if (w->into[i] == PST_NONE || consumer == PST_NONE || node->param_bytes > 0 ||
            node->ns[0] + node->ns[1] + node->ns[2] > 0) {
            continue;
        }
        /* `consumer` may be what its consumer became part of. */
        w->cap[i] = 0;
        for (uint32_t e = first[i]; e < draft->n_edges && draft->edges[e].from == i; e++) {
            w->cap[i] = fmax(w->cap[i], w->cap[draft->edges[e].to]);
        }
        w->cap[i] = w->n_in[i] == 1 ? fmin(w->cap[i], node->output_bytes) : w->cap[i];
        w->into[i] = consumer;
        draft->nodes[consumer].saved_bytes += node->saved_bytes;
        w->summary.n_collapsed++;
    }
    free(first);
    return st;
}

/* Nodes that stay, numbered anew in the file's order. */
static void compact(struct work *w)
{
    struct pst_costed *draft = &w->draft;
    uint32_t *number = w->order, n = 0; /* the order has been used */

    for (uint32_t i = 0; i < draft->n_nodes; i++) {
        if (w->into[i] == i) {
            number[i] = n++;
        }
    }
    for (uint32_t e = 0; e < draft->n_edges; e++) {
        struct pst_costed_edge *edge = &draft->edges[e];
        uint32_t from = edge->from, to = w->into[edge->to];

        edge->bytes = fmin(edge->bytes, w->cap[edge->to]);
        edge->from = w->into[from] == from ? number[from] : PST_NONE;
        edge->to = to == PST_NONE ? PST_NONE : number[to];
    }
    tidy_edges(draft);
    n = 0;
    for (uint32_t i = 0; i < draft->n_nodes; i++) {
        if (w->into[i] == i) {
            draft->nodes[n++] = draft->nodes[i];
        }
    }
    draft->n_nodes = n;
}

static void describe(struct work *w, struct pst_arena *arena)
{
    const char *slash = strrchr(w->file->path, '/'),
               *base = slash == NULL ? w->file->path : slash + 1;
    const struct pst_pipedream_summary *s = &w->summary;
    const char *inputs = s->n_inputs == 0          ? ""
                         : w->options->drop_inputs ? " Input nodes are left out."
                                                   : " Input nodes carry the time of loading data.";

    w->draft.name = pst_arena_strndup(arena, base, strcspn(base, "."));
    w->draft.notes = pst_arena_printf(
        arena,
        "From PipeDream's profile %s, of %u samples. Half of the backward time of a node with "
        "parameters is that of their gradients, an assumption: the profile has one number. Every "
        "output is kept for the backward pass.%s%s",
        base, w->options->batch, inputs,
        s->n_collapsed == 0 ? ""
                            : " Nodes without time and parameters are part of their one consumer.");
}

static pst_status build(struct work *w, struct pst_costed **ret_graph)
{
    struct pst_arena arena = {NULL, 0, 0};
    pst_status st = resolve(w);

    if (st == PST_OK) {
        drop_inputs(w);
        st = collapse(w);
    }
    if (st == PST_OK) {
        compact(w);
        describe(w, &arena);
    }
    if (st == PST_OK) {
        st = pst_costed_build(&w->draft, w->file->path, "", ret_graph, w->err);
    }
    pst_arena_finish(&arena);
    return st;
}

pst_status pst_pipedream_read(const char *path, const struct pst_pipedream_options *options,
                              struct pst_costed **ret_graph,
                              struct pst_pipedream_summary *ret_summary, struct pst_error *err)
{
    struct pst_pipedream_file file = {.n_nodes = 0};
    struct work w = {.file = &file, .options = options, .err = err};
    pst_status st = pst_pipedream_read_lines(path, &file, err);

    if (st == PST_OK && file.n_nodes == 0) {
        st = pst_fail_at(err, PST_ERR_CONFIG, "graph.empty", path, 0, 0, "there is no node in it");
    }
    if (st == PST_OK) {
        w.draft.batch = options->batch;
        w.draft.nodes = file.nodes;
        w.draft.n_nodes = (uint32_t)file.n_nodes;
        w.draft.n_edges = (uint32_t)file.n_edges;
        w.draft.edges = pst_alloc(file.n_edges + 1, sizeof *w.draft.edges);
        w.order = pst_alloc(3 * file.n_nodes, sizeof *w.order);
        w.cap = pst_alloc(file.n_nodes, sizeof *w.cap);
    }
    if (st == PST_OK) {
        w.into = w.order + file.n_nodes;
        w.n_in = w.into + file.n_nodes;
        w.summary.n_nodes = (uint32_t)file.n_nodes;
        w.summary.n_edges = (uint32_t)file.n_edges;
        w.summary.n_staged = file.n_staged;
        st = build(&w, ret_graph);
    }
    if (st == PST_OK) {
        *ret_summary = w.summary;
    }
    free(w.draft.edges);
    free(w.order);
    free(w.cap);
    pst_pipedream_file_finish(&file);
    return st;
}
