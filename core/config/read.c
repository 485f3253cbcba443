/* SPDX-License-Identifier: Apache-2.0
 *
 * From the events of the TOML parser to the tree, within the limits on what a config may hold.
 */
#include "config/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/report.h"
#include "config/toml.h"

struct pst_config_node *pst_tree_node(struct pst_arena *arena, uint32_t kind, const char *key)
{
    struct pst_config_node *node = pst_arena_alloc(arena, sizeof *node, 0);

    node->kind = kind;
    node->file = "";
    if (key != NULL) {
        node->key = pst_arena_strdup(arena, key);
    }
    return node;
}

void pst_tree_append(struct pst_arena *arena, struct pst_config_node *parent,
                     struct pst_config_node *child)
{
    uint32_t n = parent->n_children;

    /* Full at 0 and at the powers of two from 4. */
    if (n == 0 || (n >= 4 && (n & (n - 1)) == 0)) {
        struct pst_config_node **grown =
            pst_arena_array(arena, n == 0 ? 4 : (size_t)n * 2, sizeof *grown);
        if (n > 0) {
            memcpy(grown, parent->children, n * sizeof *grown);
        }
        parent->children = grown;
    }
    parent->children[parent->n_children++] = child;
}

struct pst_config_node *pst_tree_find(const struct pst_config_node *table, const char *key)
{
    for (uint32_t i = 0; i < table->n_children; i++) {
        if (strcmp(table->children[i]->key, key) == 0) {
            return table->children[i];
        }
    }
    return NULL;
}

void pst_tree_merge(struct pst_arena *arena, struct pst_config_node *table,
                    struct pst_config_node *over)
{
    for (uint32_t i = 0; i < over->n_children; i++) {
        struct pst_config_node *mine = over->children[i];
        struct pst_config_node *old = pst_tree_find(table, mine->key);

        if (old == NULL) {
            pst_tree_append(arena, table, mine);
        } else if (old->kind == PST_CONFIG_TABLE && mine->kind == PST_CONFIG_TABLE) {
            pst_tree_merge(arena, old, mine);
            old->file = mine->file;
            old->line = mine->line;
            old->column = mine->column;
            old->key_line = mine->key_line;
            old->key_column = mine->key_column;
        } else {
            *old = *mine;
        }
    }
}

struct build {
    struct pst_config_reader *reader;
    const char *name;
    struct pst_config_node *open[PST_CONFIG_MAX_NESTING + 1]; /* open[0] is the root */
    uint32_t n_open, depth;
    struct pst_config_node *root;
    struct pst_error *err;
    pst_status st; /* why the visit stopped */
};

static int by_position(const void *a, const void *b)
{
    const struct pst_config_node *x = *(struct pst_config_node *const *)a;
    const struct pst_config_node *y = *(struct pst_config_node *const *)b;

    if (x->key_line != y->key_line) {
        return x->key_line < y->key_line ? -1 : 1;
    }
    return (x->key_column > y->key_column) - (x->key_column < y->key_column);
}

static void close_node(struct build *build)
{
    struct pst_config_node *node = build->open[--build->n_open];

    if (node->kind == PST_CONFIG_TABLE && node->n_children > 1) {
        qsort(node->children, node->n_children, sizeof *node->children, by_position);
    }
}

/* Stops the visit; `at_key`: the position is the key's. */
static bool stop(struct build *build, const struct pst_toml_event *event, const char *kind,
                 bool at_key, const char *message)
{
    build->st = pst_fail_at(build->err, PST_ERR_CONFIG, kind, build->name,
                            at_key ? event->key_line : event->line,
                            at_key ? event->key_column : event->column, "%s", message);
    return false;
}

static bool check_event(struct build *build, const struct pst_toml_event *event)
{
    bool has_key = event->key != NULL;

    if (event->kind == PST_TOML_OTHER) {
        return stop(build, event, "config.value", false,
                    "dates and times have no use here; text stands in quotes");
    }
    if (event->kind == PST_TOML_FLOAT && !isfinite(event->number)) {
        return stop(build, event, "config.value", false, "inf and nan are no values here");
    }
    if ((has_key && event->key_length > PST_CONFIG_MAX_STRING) ||
        (event->kind == PST_TOML_STRING && event->string_length > PST_CONFIG_MAX_STRING)) {
        return stop(build, event, "config.limit", false, "a string of more than 64 KiB");
    }
    if (has_key && memchr(event->key, '\0', event->key_length) != NULL) {
        return stop(build, event, "config.value", true, "a key must not hold the character U+0000");
    }
    if (event->kind == PST_TOML_STRING && event->string_length > 0 &&
        memchr(event->string, '\0', event->string_length) != NULL) {
        return stop(build, event, "config.value", false,
                    "a string must not hold the character U+0000");
    }
    if (build->n_open + build->depth > PST_CONFIG_MAX_NESTING) {
        return stop(build, event, "config.limit", has_key, PST_CONFIG_TOO_DEEP);
    }
    if (build->n_open > 0 && ++build->reader->n_values > PST_CONFIG_MAX_VALUES) {
        return stop(build, event, "config.limit", has_key,
                    "more than 10000 keys and array elements");
    }
    return true;
}

static void set_value(struct pst_config_node *node, const struct pst_toml_event *event,
                      struct pst_arena *arena)
{
    switch (event->kind) {
    case PST_TOML_STRING:
        node->kind = PST_CONFIG_STRING;
        node->value.string = pst_arena_strndup(arena, event->string == NULL ? "" : event->string,
                                               event->string_length);
        break;
    case PST_TOML_INT:
        node->kind = PST_CONFIG_INT;
        node->value.integer = event->integer;
        break;
    case PST_TOML_FLOAT:
        node->kind = PST_CONFIG_FLOAT;
        node->value.number = event->number;
        break;
    case PST_TOML_BOOL:
        node->kind = PST_CONFIG_BOOL;
        node->value.boolean = event->boolean;
        break;
    case PST_TOML_ARRAY:
        node->kind = PST_CONFIG_ARRAY;
        break;
    default:
        node->kind = PST_CONFIG_TABLE;
    }
}

static bool visit(void *self, const struct pst_toml_event *event)
{
    struct build *build = self;
    struct pst_arena *arena = build->reader->arena;
    struct pst_config_node *node;

    if (event->kind == PST_TOML_END) {
        close_node(build);
        return true;
    }
    if (!check_event(build, event)) {
        return false;
    }
    node = pst_tree_node(arena, 0, NULL);
    set_value(node, event, arena);
    node->key = pst_arena_strndup(arena, event->key, event->key_length);
    if (build->n_open > 0) {
        pst_tree_append(arena, build->open[build->n_open - 1], node);
    }
    node->file = build->name;
    node->line = event->line;
    node->column = event->column;
    node->key_line = event->key_line;
    node->key_column = event->key_column;
    if (build->n_open == 0) {
        build->root = node;
    }
    if (event->kind == PST_TOML_TABLE || event->kind == PST_TOML_ARRAY) {
        build->open[build->n_open++] = node;
    }
    return true;
}

static pst_status fail_syntax(const struct pst_toml_fault *fault, const char *name,
                              struct pst_error *err)
{
    pst_fail_at(err, PST_ERR_CONFIG, "config.syntax", name, fault->line, fault->column, "%s",
                fault->message);
    if (strstr(fault->message, "could not determine value type") != NULL) {
        pst_error_hint(err, "text stands in quotes: key = \"value\"");
    }
    return PST_ERR_CONFIG;
}

pst_status pst_tree_from_toml(struct pst_config_reader *reader, const char *text, size_t length,
                              const char *name, uint32_t depth, struct pst_config_node **ret_root,
                              struct pst_error *err)
{
    struct build build = {.reader = reader, .name = name, .depth = depth, .err = err, .st = PST_OK};
    struct pst_toml_fault fault;
    pst_status st;

    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        length -= 3;
    }
    st = pst_tree_scan(text, length, name, err);
    if (st != PST_OK) {
        return st;
    }
    switch (pst_toml_read(text, length, visit, &build, &fault)) {
    case PST_TOML_SYNTAX:
        return fail_syntax(&fault, name, err);
    case PST_TOML_STOPPED:
        return build.st;
    case PST_TOML_NO_MEMORY:
        pst_out_of_memory();
    default:
        *ret_root = build.root;
        return PST_OK;
    }
}
