/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/pipedream_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/names.h"
#include "base/number.h"
#include "base/text.h"
#include "base/util.h"
#include "config/config.h"
#include "models/costed/costed_impl.h"

#define MAX_FILE ((size_t)64 << 20)
#define MAX_LINE ((size_t)64 << 10)
#define MAX_MS   (PST_COSTED_US / 1000)
#define DASHES   " -- "

/* --- lines -------------------------------------------------------------------------------------*/

/* The file as it stands. */
struct profile_file {
    const char *path;
    struct pst_arena arena; /* of names */
    struct pst_costed_node *nodes;
    uint32_t *node_lines;
    size_t n_nodes, node_room, node_line_room;
    struct profile_edge {
        const char *from, *to;
        uint32_t line;
    } * edges;
    size_t n_edges, edge_room;
    uint32_t n_staged;
};

enum { FORWARD, BACKWARD, ACTIVATION, PARAMETER, N_METRICS };

static const char *const metrics[] = {"forward_compute_time", "backward_compute_time",
                                      "activation_size", "parameter_size"};

struct lines {
    struct profile_file *file;
    uint32_t line;
    struct pst_error *err;
};

#define fail_line(l, kind, ...)                                                                    \
    pst_fail_at((l)->err, PST_ERR_CONFIG, kind, (l)->file->path, (l)->line, 0, __VA_ARGS__)

/* "12.5" or "[1; 2; 3]", whose sum it is; *text is moved after it. */
static bool read_value(const char **text, double *ret_value)
{
    const char *at = *text;
    double part;
    bool list = *at == '[';

    *ret_value = 0;
    do {
        at += strspn(at, list ? " [;" : "");
        if (!pst_number_parse(at, &at, &part)) {
            return false;
        }
        *ret_value += part;
    } while (list && *at == ';');
    if (list && *at++ != ']') {
        return false;
    }
    *text = at;
    return true;
}

/* "forward_compute_time=46.201, ..., parameter_size=147712.000": all four, once, in any order. */
static pst_status read_metrics(struct lines *l, const char *text, double values[N_METRICS])
{
    static const double most[] = {MAX_MS, MAX_MS, PST_COSTED_BYTES, PST_COSTED_BYTES};
    bool seen[N_METRICS] = {false};
    char key[64];

    for (;;) {
        size_t n = strcspn(text, "=");
        uint32_t m = 0;

        snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : sizeof key - 1), text);
        while (m < N_METRICS && strcmp(metrics[m], key) != 0) {
            m++;
        }
        if (key[0] == '\0') {
            break; /* which one is missing is said below */
        }
        if (text[n] != '=' && m < N_METRICS) {
            return fail_line(l, "input.syntax", "%s has no value", key);
        }
        if (m == N_METRICS) {
            char hint[96];

            return fail_line(l, "input.syntax", "\"%s\" is not a measure of a node%s", key,
                             pst_nearest_hint(hint, key, metrics, N_METRICS));
        }
        text += n + 1;
        if (seen[m]) {
            return fail_line(l, "input.syntax", "%s is there twice", key);
        }
        seen[m] = true;
        if (!read_value(&text, &values[m]) || !(values[m] >= 0 && values[m] <= most[m])) {
            return fail_line(l, "input.syntax",
                             "%s must be a number from 0 to %.15g, or a list \"[a; b]\" of them",
                             key, most[m]);
        }
        text += strspn(text, " ");
        if (*text == '\0') {
            break;
        }
        if (*text != ',') {
            return fail_line(l, "input.syntax", "expected a comma after %s, not \"%.20s\"", key,
                             text);
        }
        text += 1 + strspn(text + 1, " ");
    }
    for (uint32_t m = 0; m < N_METRICS; m++) {
        if (!seen[m]) {
            return fail_line(l, "input.syntax", "%s is missing", metrics[m]);
        }
    }
    return PST_OK;
}

/* Half of the backward pass of a node with parameters is theirs. */
static pst_status add_node(struct lines *l, const char *name, const char *description,
                           const double values[N_METRICS])
{
    struct profile_file *file = l->file;
    struct pst_costed_node *node;
    double backward = values[BACKWARD] * 1e6, part = values[PARAMETER] > 0 ? backward / 2 : 0;

    if (file->n_nodes >= PST_COSTED_NODES) {
        return fail_line(l, "input.limit", "more than %u nodes", PST_COSTED_NODES);
    }
    pst_grow(&file->nodes, &file->node_room, file->n_nodes, sizeof *file->nodes);
    pst_grow(&file->node_lines, &file->node_line_room, file->n_nodes, sizeof *file->node_lines);
    file->node_lines[file->n_nodes] = l->line;
    node = &file->nodes[file->n_nodes++];
    *node = (struct pst_costed_node){
        .name = pst_arena_strdup(&file->arena, name),
        .op = pst_arena_strndup(&file->arena, description, strcspn(description, "( \t")),
        .ns = {values[FORWARD] * 1e6, backward - part, part},
        .param_bytes = values[PARAMETER],
        .saved_bytes = values[ACTIVATION],
        .output_bytes = values[ACTIVATION],
    };
    return PST_OK;
}

static pst_status read_node(struct lines *l, char *text)
{
    char *description = strstr(text, DASHES), *numbers, *stage;
    double values[N_METRICS] = {0};
    pst_status status;

    if (description == NULL || description == text) {
        return fail_line(
            l, "input.syntax",
            "neither \"name -- description -- measures\" nor a tab and \"from -- to\"");
    }
    *description = '\0';
    description += strlen(DASHES);
    numbers = strstr(description, DASHES "forward_compute_time");
    if (numbers == NULL) { /* another order, or a mistake: what follows the last dashes */
        for (char *at = description; (at = strstr(at, DASHES)) != NULL; at++) {
            numbers = strncmp(at + strlen(DASHES), "stage_id=", 9) == 0 ? numbers : at;
        }
    }
    if (numbers == NULL) {
        return fail_line(l, "input.syntax", "node \"%.100s\" has no measures", text);
    }
    *numbers = '\0';
    numbers += strlen(DASHES);
    stage = strstr(numbers, DASHES);
    if (stage != NULL && strncmp(stage + strlen(DASHES), "stage_id=", 9) == 0) {
        *stage = '\0';
        l->file->n_staged++;
    }
    status = read_metrics(l, numbers, values);
    if (status != PST_OK) {
        pst_error_prefix(l->err, "node \"%.100s\"", text);
    }
    return status == PST_OK ? add_node(l, text, description, values) : status;
}

static pst_status read_edge(struct lines *l, char *text)
{
    struct profile_file *file = l->file;
    struct profile_edge *edge;
    char *to = strstr(text, DASHES);

    if (to == NULL || to == text || to[strlen(DASHES)] == '\0') {
        return fail_line(l, "input.syntax", "an edge is a tab and \"from -- to\"");
    }
    if (file->n_edges >= PST_COSTED_EDGES) {
        return fail_line(l, "input.limit", "more than %u edges", PST_COSTED_EDGES);
    }
    pst_grow(&file->edges, &file->edge_room, file->n_edges, sizeof *file->edges);
    *to = '\0';
    edge = &file->edges[file->n_edges++];
    edge->from = pst_arena_strdup(&file->arena, text);
    edge->to = pst_arena_strdup(&file->arena, to + strlen(DASHES));
    edge->line = l->line;
    return PST_OK;
}

static pst_status read_line(struct lines *l, char *text, size_t length)
{
    size_t step = 1;

    if (length > MAX_LINE) {
        return fail_line(l, "input.limit", "the line has more than %zu bytes", MAX_LINE);
    }
    for (size_t i = 0; i < length && step > 0; i += step) {
        step = pst_utf8_length(text + i);
    }
    if (step == 0) {
        return fail_line(l, "input.syntax", "not a text file: it is not UTF-8, or has a zero byte");
    }
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        text[--length] = '\0';
    }
    if (length == 0) {
        return PST_OK;
    }
    return text[0] == '\t' ? read_edge(l, text + strspn(text, " \t")) : read_node(l, text);
}

/* Finish *ret_file in any case. */
static pst_status read_lines(const char *path, struct profile_file *ret_file, struct pst_error *err)
{
    struct lines l = {.file = ret_file, .err = err};
    char *text = NULL, *at;
    size_t length = 0, left;
    pst_status status = pst_file_read(path, MAX_FILE, "input.path", &text, &length, err);

    if (status != PST_OK) {
        return status;
    }
    ret_file->path = path;
    at = text;
    left = length;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        at += 3;
        left -= 3;
    }
    while (status == PST_OK && left > 0) {
        char *end = memchr(at, '\n', left);
        size_t n = end == NULL ? left : (size_t)(end - at);

        at[n] = '\0'; /* there is a NUL after the file */
        l.line++;
        status = read_line(&l, at, n);
        left -= end == NULL ? n : n + 1;
        at += n + 1;
    }
    free(text);
    return status;
}

static void profile_file_finish(struct profile_file *file)
{
    pst_arena_finish(&file->arena);
    free(file->nodes);
    free(file->node_lines);
    free(file->edges);
    memset(file, 0, sizeof *file);
}

/* --- the graph: inputs dropped if that is wanted, nodes that take nothing made part of the one
   node that reads them -------------------------------------------------------------------------*/

struct work {
    const struct profile_file *file;
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
    const struct profile_file *file = w->file;
    struct pst_arena arena = {0};
    struct pst_names names;
    pst_status status = PST_OK;

    pst_names_init(&names, &arena, (uint32_t)file->n_nodes);
    for (uint32_t i = 0; status == PST_OK && i < file->n_nodes; i++) {
        if (pst_names_add(&names, file->nodes[i].name, i) != PST_NONE) {
            status =
                fail_at_line(w, file->node_lines[i], "graph.duplicate",
                             "node \"%.200s\" is already on an earlier line", file->nodes[i].name);
        }
    }
    for (size_t e = 0; status == PST_OK && e < file->n_edges; e++) {
        const struct profile_edge *edge = &file->edges[e];
        struct pst_costed_edge *to = &w->draft.edges[e];

        to->from = pst_names_find(&names, edge->from);
        to->to = pst_names_find(&names, edge->to);
        if (to->from == PST_NONE || to->to == PST_NONE) {
            status =
                fail_at_line(w, edge->line, "graph.edge", "there is no line of node \"%.200s\"",
                             to->from == PST_NONE ? edge->from : edge->to);
        } else if (to->from == to->to) {
            status = fail_at_line(w, edge->line, "graph.edge", "goes from \"%.200s\" to itself",
                                  edge->from);
        }
    }
    pst_arena_finish(&arena);
    return status;
}

static int by_ends(const void *a, const void *b)
{
    const struct pst_costed_edge *x = a, *y = b;

    return PST_COMPARE_KEYS({x->from, y->from}, {x->to, y->to});
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

/* The one node that reads what the node makes, once those after it are settled; else PST_NONE. */
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
    pst_status status = pst_costed_sort(draft, w->file->path, w->order, w->err);

    for (uint32_t e = draft->n_edges; status == PST_OK && e-- > 0;) {
        first[draft->edges[e].from] = e;
        w->n_in[draft->edges[e].to]++;
    }
    for (uint32_t k = draft->n_nodes; status == PST_OK && !w->options->keep_empty && k-- > 0;) {
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
    return status;
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
    pst_status status = resolve(w);

    if (status == PST_OK) {
        drop_inputs(w);
        status = collapse(w);
    }
    if (status == PST_OK) {
        compact(w);
        describe(w, &arena);
    }
    PST_TRY(status, pst_costed_build(&w->draft, w->file->path, "", ret_graph, w->err));
    pst_arena_finish(&arena);
    return status;
}

pst_status pst_pipedream_read(const char *path, const struct pst_pipedream_options *options,
                              struct pst_costed **ret_graph,
                              struct pst_pipedream_summary *ret_summary, struct pst_error *err)
{
    struct profile_file file = {.n_nodes = 0};
    struct work w = {.file = &file, .options = options, .err = err};
    pst_status status = read_lines(path, &file, err);

    if (status == PST_OK && file.n_nodes == 0) {
        status =
            pst_fail_at(err, PST_ERR_CONFIG, "graph.empty", path, 0, 0, "there is no node in it");
    }
    if (status == PST_OK) {
        w.draft.batch = options->batch;
        w.draft.nodes = file.nodes;
        w.draft.n_nodes = (uint32_t)file.n_nodes;
        w.draft.n_edges = (uint32_t)file.n_edges;
        w.draft.edges = pst_alloc(file.n_edges + 1, sizeof *w.draft.edges);
        w.order = pst_alloc(3 * file.n_nodes, sizeof *w.order);
        w.cap = pst_alloc(file.n_nodes, sizeof *w.cap);
    }
    if (status == PST_OK) {
        w.into = w.order + file.n_nodes;
        w.n_in = w.into + file.n_nodes;
        w.summary.n_nodes = (uint32_t)file.n_nodes;
        w.summary.n_edges = (uint32_t)file.n_edges;
        w.summary.n_staged = file.n_staged;
        status = build(&w, ret_graph);
    }
    if (status == PST_OK) {
        *ret_summary = w.summary;
    }
    free(w.draft.edges);
    free(w.order);
    free(w.cap);
    profile_file_finish(&file);
    return status;
}
