/* SPDX-License-Identifier: Apache-2.0
 *
 * Files, what they include, and what the command line overrides.
 */
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "config/report.h"
#include "config/tree.h"

void pst_config_destroy(struct pst_config *config)
{
    if (config != NULL) {
        pst_arena_finish(&config->arena);
        free(config);
    }
}

struct pst_config_node *pst_config_get(struct pst_config_node *table, const char *key)
{
    struct pst_config_node *node;

    if (table == NULL || table->kind != PST_CONFIG_TABLE) {
        return NULL;
    }
    node = pst_tree_find(table, key);
    if (node != NULL) {
        node->used = true;
    }
    return node;
}

static pst_status place_at(const struct pst_config_node *node, pst_status status,
                           struct pst_error *err)
{
    if (status != PST_OK && err != NULL && node != NULL && err->file[0] == '\0') {
        snprintf(err->file, sizeof err->file, "%s", node->file);
        err->line = node->line;
        err->column = node->column;
    }
    return status;
}

static struct pst_config_node *find_value(const struct pst_config *config, const char *section,
                                          const char *key)
{
    struct pst_config_node *node = config == NULL ? NULL : pst_config_get(config->root, section);

    return node == NULL ? NULL : pst_config_get(node, key);
}

pst_status pst_config_place(const struct pst_config *config, const char *section, const char *key,
                            pst_status status, struct pst_error *err)
{
    return place_at(find_value(config, section, key), status, err);
}

pst_status pst_config_place_item(const struct pst_config *config, const char *section,
                                 const char *key, uint32_t item, pst_status status,
                                 struct pst_error *err)
{
    const struct pst_config_node *node = find_value(config, section, key);

    return place_at(node != NULL && item < node->n_children ? node->children[item] : node, status,
                    err);
}

/* Returns true if `path` is one of the paths in the string, which ':' or newlines separate. */
static bool lists_path(const char *string, const char *path)
{
    const size_t n = strlen(path);

    for (const char *at = string; n > 0 && (at = strstr(at, path)) != NULL; at++) {
        if ((at == string || at[-1] == ':' || at[-1] == '\n') &&
            (at[n] == '\0' || at[n] == ':' || at[n] == '\n')) {
            return true;
        }
    }
    return false;
}

/* The string of the tree that names the file of *err: of its place, or one that its message quotes.
 */
static const struct pst_config_node *find_file(const struct pst_config_node *node,
                                               const struct pst_error *err)
{
    const struct pst_config_node *found = NULL;
    char quoted[sizeof err->file];

    for (uint32_t i = 0; found == NULL && i < node->n_children; i++) {
        found = find_file(node->children[i], err);
    }
    if (found != NULL || node->kind != PST_CONFIG_STRING) {
        return found;
    }
    snprintf(quoted, sizeof quoted, "\"%s\"", node->value.string);
    return err->file[0] != '\0' ? (lists_path(node->value.string, err->file) ? node : NULL)
           : strpbrk(quoted, "./") != NULL && strstr(err->message, quoted) != NULL ? node
                                                                                   : NULL;
}

void pst_config_name(const struct pst_config *config, struct pst_error *err)
{
    const struct pst_config_node *node =
        config == NULL || err->line != 0 ? NULL : find_file(config->root, err);

    if (node != NULL && strcmp(node->file, "--set") == 0) {
        pst_text_append(err->message, sizeof err->message, ", named by --set");
    } else if (node != NULL && node->line != 0) {
        pst_text_append(err->message, sizeof err->message, ", named by %.256s:%u", node->file,
                        node->line);
    }
}

/* `path` as seen from the folder of `file`. */
static const char *relative_to(struct pst_arena *arena, const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');

    if (slash == NULL || path[0] == '/') {
        return pst_arena_strdup(arena, path);
    }
    return pst_arena_printf(arena, "%.*s%s", (int)(slash - file + 1), file, path);
}

static pst_status load_file(struct pst_config_reader *reader, const char *path,
                            struct pst_config_node **ret_root, struct pst_error *err);

/* Reads one included file and lays it over what earlier ones gave. */
static pst_status include_one(struct pst_config_reader *reader, const struct pst_config_node *node,
                              struct pst_config_node *base, struct pst_error *err)
{
    struct pst_config_node *root = NULL;
    char word[64];
    const char *path;
    pst_status status;

    if (node->kind != PST_CONFIG_STRING || node->value.string[0] == '\0') {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", node->file, node->line,
                           node->column, "\"include\" must be the path of a file, or an array");
    }
    if (reader->n_open > PST_CONFIG_MAX_INCLUDE) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.limit", node->file, node->line,
                           node->column, "cannot include \"%s\": more than 8 files deep",
                           pst_report_word(word, node->value.string));
    }
    path = relative_to(reader->arena, node->file, node->value.string);
    status = load_file(reader, path, &root, err);
    if (status != PST_OK) {
        pst_error_detail(err, "included from %s:%u:%u\n", node->file, node->line, node->column);
        return status;
    }
    pst_tree_merge(reader->arena, base, root);
    return PST_OK;
}

static void remove_child(struct pst_config_node *table, const struct pst_config_node *child)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < table->n_children; i++) {
        if (table->children[i] != child) {
            table->children[n++] = table->children[i];
        }
    }
    table->n_children = n;
}

/* Replaces *root by what it includes with its own keys on top. */
static pst_status apply_includes(struct pst_config_reader *reader, struct pst_config_node **root,
                                 struct pst_error *err)
{
    struct pst_config_node *own = *root, *include = pst_tree_find(own, "include"), *base;
    const bool is_list = include != NULL && include->kind == PST_CONFIG_ARRAY;
    pst_status status = PST_OK;

    if (include == NULL) {
        return PST_OK;
    }
    base = pst_tree_node(reader->arena, PST_CONFIG_TABLE, NULL);
    base->file = own->file;
    base->line = own->line;
    base->column = own->column;
    for (uint32_t i = 0; status == PST_OK && i < (is_list ? include->n_children : 1); i++) {
        status = include_one(reader, is_list ? include->children[i] : include, base, err);
    }
    if (status != PST_OK) {
        return status;
    }
    remove_child(own, include);
    pst_tree_merge(reader->arena, base, own);
    *root = base;
    return PST_OK;
}

static pst_status parse_file(struct pst_config_reader *reader, const char *path,
                             struct pst_config_node **ret_root, struct pst_error *err)
{
    size_t length;
    char *text;
    pst_status status;

    status = pst_file_read(path, PST_CONFIG_MAX_BYTES, "config.file", &text, &length, err);
    if (status != PST_OK) {
        if (status == PST_ERR_IO && err != NULL) {
            err->status = PST_ERR_CONFIG;
        }
        return status == PST_ERR_IO ? PST_ERR_CONFIG : status;
    }
    status = pst_tree_from_toml(reader, text, length, path, 0, ret_root, err);
    free(text);
    return status;
}

/* path lives in the arena. */
static pst_status load_file(struct pst_config_reader *reader, const char *path,
                            struct pst_config_node **ret_root, struct pst_error *err)
{
    struct pst_config_node *root = NULL;
    char *real = realpath(path, NULL);
    pst_status status;

    if (real == NULL) {
        pst_heed_no_memory();
        return pst_fail_at(err, PST_ERR_CONFIG, "config.file", path, 0, 0,
                           "cannot open the file: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < reader->n_open; i++) {
        if (strcmp(reader->open_files[i], real) == 0) {
            free(real);
            return pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, 0, 0,
                               "the file includes itself");
        }
    }
    if (++reader->n_files > PST_CONFIG_MAX_FILES) {
        free(real);
        return pst_fail_at(err, PST_ERR_CONFIG, "config.limit", path, 0, 0,
                           "more than 64 files included");
    }
    reader->open_files[reader->n_open++] = real;
    status = parse_file(reader, path, &root, err);
    PST_TRY(status, apply_includes(reader, &root, err));
    reader->n_open--;
    free(real);
    if (status == PST_OK) {
        *ret_root = root;
    }
    return status;
}

static struct pst_config *make_config(struct pst_config_reader *reader, const char *path)
{
    struct pst_config *config = pst_alloc(1, sizeof *config);

    memset(reader, 0, sizeof *reader);
    reader->config = config;
    reader->arena = &config->arena;
    config->path = pst_arena_strdup(&config->arena, path);
    return config;
}

/* Applies --set and hands over the config; destroys it if `status` or a --set is a failure. */
static pst_status hand_over(struct pst_config_reader *reader, pst_status status,
                            const char *const *sets, uint32_t n_sets,
                            struct pst_config **ret_config, struct pst_error *err)
{
    for (uint32_t i = 0; status == PST_OK && i < n_sets; i++) {
        status = pst_tree_set(reader, sets[i], i, err);
    }
    if (status != PST_OK) {
        pst_config_destroy(reader->config);
        return status;
    }
    *ret_config = reader->config;
    return PST_OK;
}

pst_status pst_config_load(const char *path, const char *const *sets, uint32_t n_sets,
                           struct pst_config **ret_config, struct pst_error *err)
{
    struct pst_config_reader reader;
    struct pst_config *config = make_config(&reader, path);
    pst_status status;

    if (path[0] == '\0') {
        pst_config_destroy(config);
        return pst_fail(err, PST_ERR_CONFIG, "config.file", "the name of the config file is empty");
    }
    pst_doing("reading the config", config->path);
    status = load_file(&reader, config->path, &config->root, err);
    return hand_over(&reader, status, sets, n_sets, ret_config, err);
}

pst_status pst_config_parse(const char *text, size_t length, const char *name,
                            struct pst_config **ret_config, struct pst_error *err)
{
    struct pst_config_reader reader;
    struct pst_config *config;
    struct pst_config_node *include;
    pst_status status;

    config = make_config(&reader, name);
    status = pst_tree_from_toml(&reader, text, length, config->path, 0, &config->root, err);
    include = status == PST_OK ? pst_tree_find(config->root, "include") : NULL;
    if (include != NULL) {
        status = pst_fail_at(err, PST_ERR_CONFIG, "config.value", include->file, include->key_line,
                             include->key_column, "include works in files only");
    }
    return hand_over(&reader, status, NULL, 0, ret_config, err);
}

pst_status pst_config_from_sets(const char *const *sets, uint32_t n_sets,
                                struct pst_config **ret_config, struct pst_error *err)
{
    struct pst_config_reader reader;
    struct pst_config *config = make_config(&reader, "--set");

    config->root = pst_tree_node(&config->arena, PST_CONFIG_TABLE, NULL);
    return hand_over(&reader, PST_OK, sets, n_sets, ret_config, err);
}

/* Each of the paths that ':' separates; NULL: there is none. */
static const char *resolve_paths(struct pst_arena *arena, const struct pst_config_node *node)
{
    char *copy = pst_arena_strdup(arena, node->value.string), *save = NULL, *joined = NULL;

    for (char *at = strtok_r(copy, ":", &save); at != NULL; at = strtok_r(NULL, ":", &save)) {
        const char *path = relative_to(arena, node->file, at);

        joined = joined == NULL ? pst_arena_strdup(arena, path)
                                : pst_arena_printf(arena, "%s:%s", joined, path);
    }
    return joined;
}

/* A list becomes its strings, a line each. */
static const char *resolve_list(struct pst_arena *arena, const struct pst_config_node *list)
{
    char *joined = NULL;

    for (uint32_t i = 0; i < list->n_children; i++) {
        const struct pst_config_node *node = list->children[i];
        const char *paths = node->kind == PST_CONFIG_STRING ? resolve_paths(arena, node) : NULL;

        if (paths == NULL || strchr(paths, '\n') != NULL) {
            return NULL;
        }
        joined = joined == NULL ? pst_arena_strdup(arena, paths)
                                : pst_arena_printf(arena, "%s\n%s", joined, paths);
    }
    return joined;
}

void pst_config_resolve_node(struct pst_config *config, struct pst_config_node *node)
{
    if (!node->resolved && node->kind == PST_CONFIG_STRING) {
        node->resolved = true;
        if (node->value.string[0] != '\0') {
            node->value.string = relative_to(&config->arena, node->file, node->value.string);
        }
    }
}

void pst_config_resolve(struct pst_config *config, struct pst_config_node *table, const char *key)
{
    struct pst_config_node *node = pst_config_get(table, key);

    if (node != NULL) {
        pst_config_resolve_node(config, node);
    }
}

void pst_config_resolve_all(struct pst_config *config, struct pst_config_node *table,
                            const char *key)
{
    struct pst_config_node *node = pst_config_get(table, key);
    const char *paths = NULL;

    if (node == NULL || node->resolved) {
        return;
    }
    if (node->kind == PST_CONFIG_STRING) {
        paths = resolve_paths(&config->arena, node);
        node->resolved = true;
    } else if (node->kind == PST_CONFIG_ARRAY) {
        paths = resolve_list(&config->arena, node);
    }
    if (paths != NULL) {
        node->kind = PST_CONFIG_STRING;
        node->value.string = paths;
        node->resolved = true;
    }
}
