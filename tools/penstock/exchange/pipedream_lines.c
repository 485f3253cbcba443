/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "base/util.h"
#include "config/config.h"
#include "exchange/pipedream_impl.h"

#define MAX_FILE ((size_t)64 << 20)
#define MAX_LINE ((size_t)64 << 10)
#define MAX_MS   (PST_COSTED_US / 1000)
#define DASHES   " -- "

enum { FORWARD, BACKWARD, ACTIVATION, PARAMETER, N_METRICS };

static const char *const metrics[] = {"forward_compute_time", "backward_compute_time",
                                      "activation_size", "parameter_size"};

struct lines {
    struct pst_pipedream_file *file;
    uint32_t line;
    struct pst_error *err;
};

#define fail_line(l, kind, ...)                                                                    \
    pst_fail_at((l)->err, PST_ERR_CONFIG, kind, (l)->file->path, (l)->line, 0, __VA_ARGS__)

/* "12.5" or "[1; 2; 3]", whose sum it is; *text behind it. */
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
            const char *nearest = pst_nearest(key, metrics, N_METRICS);

            return fail_line(l, "input.syntax", "\"%s\" is no measure of a node%s%s%s", key,
                             nearest == NULL ? "" : "; did you mean \"",
                             nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
        }
        text += n + 1;
        if (seen[m]) {
            return fail_line(l, "input.syntax", "%s stands twice", key);
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
            return fail_line(l, "input.syntax", "expected a comma behind %s, not \"%.20s\"", key,
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
    struct pst_pipedream_file *file = l->file;
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
    pst_status st;

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
    st = read_metrics(l, numbers, values);
    if (st != PST_OK) {
        pst_error_prefix(l->err, "node \"%.100s\"", text);
    }
    return st == PST_OK ? add_node(l, text, description, values) : st;
}

static pst_status read_edge(struct lines *l, char *text)
{
    struct pst_pipedream_file *file = l->file;
    struct pst_pipedream_edge *edge;
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
        return fail_line(l, "input.syntax", "not UTF-8, or a zero byte: no text file");
    }
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        text[--length] = '\0';
    }
    if (length == 0) {
        return PST_OK;
    }
    return text[0] == '\t' ? read_edge(l, text + strspn(text, " \t")) : read_node(l, text);
}

pst_status pst_pipedream_read_lines(const char *path, struct pst_pipedream_file *ret_file,
                                    struct pst_error *err)
{
    struct lines l = {.file = ret_file, .err = err};
    char *text = NULL, *at;
    size_t length = 0, left;
    pst_status st = pst_file_read(path, MAX_FILE, "input.path", &text, &length, err);

    if (st != PST_OK) {
        return st;
    }
    ret_file->path = path;
    at = text;
    left = length;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        at += 3;
        left -= 3;
    }
    while (st == PST_OK && left > 0) {
        char *end = memchr(at, '\n', left);
        size_t n = end == NULL ? left : (size_t)(end - at);

        at[n] = '\0'; /* there is a NUL behind the file */
        l.line++;
        st = read_line(&l, at, n);
        left -= end == NULL ? n : n + 1;
        at += n + 1;
    }
    free(text);
    return st;
}

void pst_pipedream_file_finish(struct pst_pipedream_file *file)
{
    pst_arena_finish(&file->arena);
    free(file->nodes);
    free(file->node_lines);
    free(file->edges);
    memset(file, 0, sizeof *file);
}
