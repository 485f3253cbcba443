/* SPDX-License-Identifier: Apache-2.0
 *
 * Overrides from the command line: --set table.key=value, and --options key=value,key=value.
 */
#include "config/tree.h"

#include <string.h>

#include "base/text.h"
#include "config/job.h"
#include "config/report.h"

struct override {
    struct pst_config_reader *reader;
    const char *text;  /* "a.b=value" */
    const char *value; /* after the '=' and white space */
    uint32_t line;     /* position in messages: number of the override, from 1 */
    const char *parts[PST_CONFIG_MAX_PARTS];
    uint32_t columns[PST_CONFIG_MAX_PARTS];
    uint32_t n_parts;
};

static pst_status fail_at(const struct override *set, const char *kind, uint32_t column,
                          const char *format, const char *word, struct pst_error *err)
    __attribute__((format(printf, 4, 0)));

static pst_status fail_at(const struct override *set, const char *kind, uint32_t column,
                          const char *format, const char *word, struct pst_error *err)
{
    char shown[64];

    return pst_fail_at(err, PST_ERR_CONFIG, kind, "--set", set->line, column, format,
                       pst_report_word(shown, word));
}

static bool key_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static pst_status split_key(struct override *set, const char *end, struct pst_error *err)
{
    const char *at = set->text;

    for (;;) {
        const char *start = at;

        while (at < end && key_character(*at)) {
            at++;
        }
        if (at == start || (at < end && *at != '.')) {
            return fail_at(set, "config.key", pst_tree_column(set->text, at),
                           "\"%s\" is not of the form table.key=value", set->text, err);
        }
        if (set->n_parts == PST_CONFIG_MAX_PARTS) {
            return fail_at(set, "config.limit", pst_tree_column(set->text, start),
                           "\"%s\" has more than 32 parts", set->text, err);
        }
        set->columns[set->n_parts] = pst_tree_column(set->text, start);
        set->parts[set->n_parts] =
            pst_arena_strndup(set->reader->arena, start, (size_t)(at - start));
        set->n_parts++;
        if (at == end) {
            return PST_OK;
        }
        at++;
    }
}

static pst_status split_override(struct override *set, struct pst_error *err)
{
    const char *equals = strchr(set->text, '='), *end;

    for (const char *s = set->text; *s != '\0'; s++) {
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7F) {
            return fail_at(set, "config.value", pst_tree_column(set->text, s),
                           "\"%s\" holds a control character; write it as an escape in quotes",
                           set->text, err);
        }
    }
    if (strlen(set->text) > PST_CONFIG_MAX_LINE) {
        return fail_at(set, "config.limit", 1, "\"%s\" is longer than 4096 bytes", set->text, err);
    }
    if (equals == NULL) {
        return fail_at(set, "config.key", 1, "\"%s\" is not of the form table.key=value", set->text,
                       err);
    }
    set->value = equals + 1 + strspn(equals + 1, " \t");
    if (*set->value == '\0') {
        pst_status status = fail_at(set, "config.value", pst_tree_column(set->text, set->value),
                                    "\"%s\" has no value", set->text, err);

        pst_error_hint(err, "the shell removed the quotes: use '%s\"\"'", set->text);
        return status;
    }
    for (end = equals; end > set->text && (end[-1] == ' ' || end[-1] == '\t'); end--) {
    }
    return split_key(set, end, err);
}

/* Positions inside the little document "v = value" to positions inside the override. */
static void move_positions(struct pst_config_node *node, uint32_t line, uint32_t shift)
{
    node->line = node->key_line = line;
    node->column += shift;
    node->key_column += shift;
    for (uint32_t i = 0; i < node->n_children; i++) {
        move_positions(node->children[i], line, shift);
    }
}

/* A number up to `end` that is none, such as one of too many digits, is not taken for a string. */
static bool looks_like_number(const char *text, char end)
{
    const char *digits = text + strspn(text, "+-");

    digits += digits[0] == '.';
    return digits[0] >= '0' && digits[0] <= '9' && text[strspn(text, "0123456789+-.eE_")] == end;
}

/* "12,model.dim=64": a second override, after a number or the name of a plugin; NULL: there is
   none. Other values may be text that holds all that, such as names of files, and model.tie. */
static const char *second_override(const struct override *set)
{
    const char *key = set->value + strcspn(set->value, ",");
    const bool names = key[0] == ',' && strcmp(set->parts[set->n_parts - 1], "use") == 0;
    const char *table;
    bool is_key;

    if (!names && !looks_like_number(set->value, ',')) {
        return NULL;
    }
    key += 1 + strspn(key + 1, " \t");
    table = pst_arena_strndup(set->reader->arena, key, strcspn(key, ".=,"));
    is_key = key[strlen(table)] == '.' && key[strcspn(key, "=,")] == '=';
    return is_key && pst_text_is_one_of(pst_job_tables, table) ? key : NULL;
}

/* A value in TOML, else a bare word, which is a string. */
static pst_status parse_value(struct override *set, struct pst_config_node **ret_node,
                              struct pst_error *err)
{
    static const char start[] = "v = ";
    struct pst_arena *arena = set->reader->arena;
    struct pst_config_node *root = NULL, *node;
    struct pst_error why;
    const char *second;
    char *text = pst_arena_printf(arena, "%s%s", start, set->value);
    uint32_t column = pst_tree_column(set->text, set->value);
    pst_status status;

    status =
        pst_tree_from_toml(set->reader, text, strlen(text), "--set", set->n_parts - 1, &root, &why);
    if (status == PST_OK) {
        *ret_node = root->children[0];
        move_positions(*ret_node, set->line, column - (uint32_t)strlen(start) - 1);
        return PST_OK;
    }
    if (strcmp(why.kind, "config.syntax") != 0 || strchr("\"'[{", set->value[0]) != NULL ||
        looks_like_number(set->value, '\0')) {
        why.line = set->line;
        why.column += column - (uint32_t)strlen(start) - 1;
        return pst_error_pass(err, &why);
    }
    second = second_override(set);
    if (second != NULL) {
        status = fail_at(set, "config.value", pst_tree_column(set->text, second),
                         "\"%s\" sets two keys; write one --set for each key", set->text, err);
        pst_error_hint(err, "write --set %.200s apart, or quote the value if it is text", second);
        return status;
    }
    node = pst_tree_node(arena, PST_CONFIG_STRING, NULL);
    node->value.string = pst_arena_strdup(arena, set->value);
    node->file = "--set";
    node->line = set->line;
    node->column = column;
    *ret_node = node;
    return PST_OK;
}

static bool is_index(const char *part, uint32_t *ret_index)
{
    uint32_t value = 0;

    if (strlen(part) > 4 || strspn(part, "0123456789") != strlen(part)) {
        return false;
    }
    for (; *part != '\0'; part++) {
        value = value * 10 + (uint32_t)(*part - '0');
    }
    *ret_index = value;
    return true;
}

/* A new, empty table or array at part i, positioned there. */
static struct pst_config_node *make_container(struct override *set, uint32_t kind, uint32_t i,
                                              const char *key)
{
    struct pst_config_node *node = pst_tree_node(set->reader->arena, kind, key);

    node->file = "--set";
    node->line = node->key_line = set->line;
    node->column = node->key_column = set->columns[i];
    return node;
}

/* Returns the kind of a missing part i: an array if the next part is the index 0, else a table. */
static uint32_t kind_of_missing(const struct override *set, uint32_t i)
{
    return strcmp(set->parts[i + 1], "0") == 0 ? PST_CONFIG_ARRAY : PST_CONFIG_TABLE;
}

/* Puts `value` at part i of parent: replaces, or appends. */
static void put_value(struct override *set, struct pst_config_node *parent, uint32_t i,
                      struct pst_config_node *old, struct pst_config_node *value)
{
    value->key = parent->kind == PST_CONFIG_TABLE ? set->parts[i] : NULL;
    value->key_line = set->line;
    value->key_column = set->columns[i];
    if (old != NULL) {
        *old = *value;
    } else {
        pst_tree_append(set->reader->arena, parent, value);
    }
}

/* A key applied to an array of tables: only its first element stays, and takes the key. */
static struct pst_config_node *first_table_only(struct pst_config_node *array)
{
    if (array->n_children == 0 || array->children[0]->kind != PST_CONFIG_TABLE) {
        return NULL;
    }
    array->n_children = 1;
    return array->children[0];
}

/* The child of *parent that part i names, NULL in *ret_child if it is missing. May step into an
   array's first element. */
static pst_status find_child(struct override *set, uint32_t i, struct pst_config_node **parent,
                             struct pst_config_node **ret_child, struct pst_error *err)
{
    struct pst_config_node *node = *parent;
    uint32_t index;

    if (node->kind == PST_CONFIG_ARRAY && is_index(set->parts[i], &index)) {
        if (index > node->n_children) {
            return fail_at(set, "config.key", set->columns[i], "\"%s\" skips elements of the array",
                           set->text, err);
        }
        *ret_child = index < node->n_children ? node->children[index] : NULL;
        return PST_OK;
    }
    if (node->kind == PST_CONFIG_ARRAY) {
        node = first_table_only(node);
    }
    if (node == NULL || node->kind != PST_CONFIG_TABLE) {
        return fail_at(set, "config.key", set->columns[i],
                       "\"%s\" names a key inside something that is not a table", set->text, err);
    }
    *parent = node;
    *ret_child = pst_tree_find(node, set->parts[i]);
    return PST_OK;
}

static pst_status apply_override(struct override *set, struct pst_config_node *value,
                                 struct pst_error *err)
{
    struct pst_config_node *node = set->reader->config->root, *child = NULL;

    for (uint32_t i = 0; i < set->n_parts; i++) {
        pst_status status = find_child(set, i, &node, &child, err);

        if (status != PST_OK) {
            return status;
        }
        if (i + 1 == set->n_parts) {
            put_value(set, node, i, child, value);
            return PST_OK;
        }
        if (child == NULL) {
            child = make_container(set, kind_of_missing(set, i), i,
                                   node->kind == PST_CONFIG_TABLE ? set->parts[i] : NULL);
            pst_tree_append(set->reader->arena, node, child);
        }
        node = child;
    }
    return PST_OK;
}

pst_status pst_tree_set(struct pst_config_reader *reader, const char *text, uint32_t i,
                        struct pst_error *err)
{
    struct override set = {.reader = reader, .text = text, .line = i + 1};
    struct pst_config_node *value = NULL;
    pst_status status;

    status = split_override(&set, err);
    if (status != PST_OK) {
        return status;
    }
    if (strcmp(set.parts[0], "include") == 0) {
        return fail_at(&set, "config.key", 1, "\"%s\": include works in files only", text, err);
    }
    status = parse_value(&set, &value, err);
    if (status != PST_OK) {
        return status;
    }
    return apply_override(&set, value, err);
}

/* --- several in one text ----------------------------------------------------------------------*/

#define MAX_PARTS 64

/* The comma that ends the part at `text`, or the end of all. */
static char *part_end(char *text)
{
    char quote = 0;
    int depth = 0;

    for (; *text != '\0'; text++) {
        if (quote != 0) {
            if (*text == '\\' && quote == '"' && text[1] != '\0') {
                text++;
            } else if (*text == quote) {
                quote = 0;
            }
        } else if (*text == '"' || *text == '\'') {
            quote = *text;
        } else if (*text == '[' || *text == '{') {
            depth++;
        } else if (*text == ']' || *text == '}') {
            depth--;
        } else if (*text == ',' && depth <= 0) {
            break;
        }
    }
    return text;
}

pst_status pst_config_from_list(const char *list, struct pst_config **ret_config,
                                struct pst_error *err)
{
    const char *parts[MAX_PARTS];
    struct pst_arena arena = {0};
    char *at = pst_arena_strdup(&arena, list);
    uint32_t n = 0;
    pst_status status = PST_OK;

    while (status == PST_OK && *at != '\0') {
        char *end = part_end(at);
        bool last = *end == '\0';

        *end = '\0';
        if (n == MAX_PARTS) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.limit",
                              "there are more than %d parts in %s", MAX_PARTS, list);
        } else if (strchr(at, '=') == NULL) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.syntax",
                              "\"%s\" is not of the form key=value", at);
        } else {
            parts[n++] = at;
        }
        at = last ? end : end + 1;
    }
    PST_TRY(status, pst_config_from_sets(parts, n, ret_config, err));
    pst_arena_finish(&arena);
    return status;
}
