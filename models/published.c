/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of families of published weights, as rows. A file may be a user's own, so all in it is
 * checked: keys and types by the rows of parameters, then that keys of [model] are there, that JSON
 * is JSON, and that no row is dead, because an earlier one takes all that it would.
 */
#include "models/published.h"

#include <jansson.h>
#include <string.h>

#include "config/config.h"
#include "host/search.h"
#include "models/builder.h"

/* --- what a text may be ----------------------------------------------------------------------- */

/* Returns true if the first n characters of the text may stand there. */
typedef bool fits_fn(const struct pst_model_builder *builder, const char *text, size_t n);

static const struct pst_param *find_key(const struct pst_model_builder *builder, const char *text,
                                        size_t n)
{
    for (uint32_t i = 0; builder != NULL && i < builder->n_params; i++) {
        if (strncmp(builder->params[i].key, text, n) == 0 && builder->params[i].key[n] == '\0') {
            return &builder->params[i];
        }
    }
    return NULL;
}

static bool is_key(const struct pst_model_builder *builder, const char *text, size_t n)
{
    return find_key(builder, text, n) != NULL;
}

/* KEY, or KEY=WORD, after an optional '!'. */
static bool is_part(const struct pst_model_builder *builder, const char *text, size_t n)
{
    const size_t negated = text[0] == '!', key = strcspn(text + negated, "=&");
    const struct pst_param *row = find_key(builder, text + negated, key);
    const char *word = text + negated + key + 1, *at = row == NULL ? NULL : row->range;
    const size_t length = (size_t)(text + n - word);

    if (row == NULL || negated + key == n) {
        return row != NULL;
    }
    while (at != NULL && !(strncmp(at, word, length) == 0 && strchr("|", at[length]) != NULL)) {
        at = strchr(at, '|') == NULL ? NULL : strchr(at, '|') + 1;
    }
    return row->type == PST_PARAM_ENUM && at != NULL;
}

static bool is_json(const struct pst_model_builder *builder, const char *text, size_t n)
{
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY, NULL);

    (void)builder;
    json_decref(value);
    return value != NULL;
}

static bool is_json_or_key(const struct pst_model_builder *builder, const char *text, size_t n)
{
    return (text[0] == '@' && n > 1) || is_json(builder, text, n);
}

static bool is_default_of_type(const struct pst_model_builder *builder, const char *text, size_t n)
{
    const size_t type = strcspn(text, "=");

    return type > 0 && type + 1 < n && is_json(builder, text + type + 1, n - type - 1);
}

static bool is_condition(const struct pst_model_builder *builder, const char *text, size_t n)
{
    const char *const end = text + n;
    size_t part;

    for (; text < end; text += part + 1) {
        part = strcspn(text, "&");
        if (!is_part(builder, text, part)) {
            return false;
        }
    }
    return true;
}

bool pst_published_fits(const char *pattern, const char *name,
                        struct pst_published_blanks *ret_blanks)
{
    *ret_blanks = (struct pst_published_blanks){.rest = ""};
    for (; *pattern != '\0' && *pattern != '*'; pattern++) {
        const size_t n = strspn(name, "0123456789#");

        if (*pattern != '#') {
            if (*pattern != *name++) {
                return false;
            }
        } else {
            if (n == 0 || n >= sizeof ret_blanks->number) {
                return false;
            }
            memcpy(ret_blanks->number, name, n);
            ret_blanks->number[n] = '\0';
            name += n;
        }
    }
    ret_blanks->rest = *pattern == '*' ? name : "";
    return *pattern == '*' || *name == '\0';
}

/* --- rows ------------------------------------------------------------------------------------- */

/* A parameter of a row, and what its text, or each text of its list, must be. */
struct field {
    struct pst_param is;
    fits_fn *fits;
    const char *what;
    bool list; /* it may be a list of texts */
};

#define FIELD(of, field, kind, initial, range, doc)                                                \
    .is = PST_PARAM(struct pst_published_##of, field, PST_PARAM_##kind, initial, range, doc)
#define KEY       .fits = is_key, .what = "a key of the model"
#define TEXTS     .list = true
#define CONDITION .fits = is_condition, .what = "keys of the model, joined by '&'"
#define JSON      .fits = is_json, .what = "JSON"

/* The first field, which is the first of the struct, names a row; `when` limits it to some models.
 */
static const struct field tensor_fields[] = {
    {FIELD(row, own, STRING, NULL, NULL, "the parameter's name")},
    {FIELD(row, theirs, STRING, NULL, NULL, "names of the tensors"), TEXTS},
    {FIELD(row, layout, ENUM, "same", "same|torch|rows|turned", "their layout")},
    {FIELD(row, parts, STRING, "", NULL, "their widths"), KEY, TEXTS},
    {FIELD(row, bare, BOOL, "false", NULL, "without the prefix")},
    {FIELD(row, root, STRING, "", NULL, "the factor's square"), KEY},
    {FIELD(row, inverse, BOOL, "false", NULL, "divided by the factor")},
    {FIELD(row, when, STRING, "", NULL, "which models"), CONDITION},
};
static const struct field alias_fields[] = {
    {FIELD(alias, end, STRING, NULL, NULL, "the end of a tensor's name")},
    {FIELD(alias, other, STRING, NULL, NULL, "another end that it may have")},
};
static const struct field twin_fields[] = {
    {FIELD(twin, end, STRING, NULL, NULL, "the end of a tensor's name")},
    {FIELD(twin, own, STRING, NULL, NULL, "the parameter that it repeats")},
};
static const struct field key_fields[] = {
    {FIELD(key, theirs, STRING, NULL, NULL, "the key of config.json")},
    {FIELD(key, own, STRING, "", NULL, "its key of [model]"), KEY},
    {FIELD(key, fixed, STRING, "", NULL, "its value in all models"), JSON, TEXTS},
    {FIELD(key, use, ENUM, "size", "size|free|must|read", "what depends on it")},
    {FIELD(key, times, INT, "1", "1..1000000", "theirs is so many times ours")},
    {FIELD(key, over, STRING, "", NULL, "and divided by this"), KEY},
    {FIELD(key, set, STRING, "", NULL, "the key to set"), KEY},
    {FIELD(key, final, BOOL, "false", NULL, "no key can be set")},
    {FIELD(key, absent, STRING, "", NULL, "its default"), .fits = is_json_or_key,
     .what = "JSON, or '@' and a key"},
    {FIELD(key, absent_by, STRING, "", NULL, "its default by model type"), TEXTS,
     .fits = is_default_of_type, .what = "a model type, '=' and JSON"},
    {FIELD(key, null, STRING, "", NULL, "what null means"), JSON},
    {FIELD(key, below, STRING, "", NULL, "where numbers below 0 count from"), KEY},
    {FIELD(key, elsewhere, STRING, "", NULL, "keys that say the same"), TEXTS},
    {FIELD(key, from, STRING, "", NULL, "from where numbers mean the same"), KEY},
    {FIELD(key, unless, STRING, "", NULL, "a key that turns it off")},
    {FIELD(key, unread_by, STRING, "", NULL, "the model type that does not read it")},
    {FIELD(key, when, STRING, "", NULL, "which models"), CONDITION},
};
static const struct field lack_fields[] = {
    {FIELD(lack, when, STRING, NULL, NULL, "which models"), CONDITION},
    {FIELD(lack, what, STRING, NULL, NULL, "what they have")},
};
static const struct field other_fields[] = {
    {FIELD(other, type, STRING, NULL, NULL, "its model type")},
    {FIELD(other, name, STRING, NULL, NULL, "its proper name")},
    {FIELD(other, begin, STRING, "", NULL, "how names of its tensors begin")},
};
static const struct pst_param head_rows[] = {
    PST_PARAM(struct pst_published, model, PST_PARAM_STRING, "", NULL, "[model] use"),
    PST_PARAM(struct pst_published, prefix, PST_PARAM_STRING, "", NULL, "the prefix of names"),
};

/* Returns how often a character is in the first n of a text. */
static uint32_t count_character(const char *text, size_t n, char character)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++) {
        count += text[i] == character;
    }
    return count;
}

/* Each `theirs` must have the '#' and '*' of `own`: otherwise several parameters would
   have one tensor. There is one number and one rest to go there. */
static const char *find_pattern_fault(const struct pst_published_row *row)
{
    const size_t n_own = strlen(row->own);
    const uint32_t numbers = count_character(row->own, n_own, '#');
    const bool rest = row->own[n_own - 1] == '*', several = strchr(row->theirs, '@') != NULL;
    size_t n;

    if (numbers > 1) {
        return "\"own\" must not have more than one '#'";
    }
    if (count_character(row->own, n_own, '*') > rest) {
        return "\"own\" may have '*' only as its last character";
    }
    for (const char *at = row->theirs; at != NULL; at = pst_published_next(at)) {
        n = strcspn(at, PST_PUBLISHED_BREAK);
        if (count_character(at, n, '#') != numbers || count_character(at, n, '*') != rest) {
            return "each of \"theirs\" must have as many '#' and '*' as \"own\"";
        }
        if (count_character(at, n, '@') != several) {
            return "each of \"theirs\" must have one '@', or none may have one";
        }
    }
    return NULL;
}

static const char *find_tensor_fault(const void *item)
{
    const struct pst_published_row *row = item;

    return row->parts != NULL && pst_published_count(row->parts) != pst_published_count(row->theirs)
               ? "\"parts\" must have a key for each of \"theirs\""
               : find_pattern_fault(row);
}

static const char *find_key_fault(const void *item)
{
    const struct pst_published_key *row = item;

    return (row->own == NULL) == (row->fixed == NULL)
               ? "a row must have either \"own\" or \"fixed\""
               : NULL;
}

/* The lists of a file. Without fields: of texts. */
static const struct list {
    const char *key;
    const struct field *fields;
    uint32_t n_fields;
    size_t size, offset;
    const char *(*find_fault)(const void *item); /* of a row whose fields are right; or NULL */
} lists[] = {
#define COUNT(rows)           rows, sizeof(rows) / sizeof *(rows)
#define AT(key)               offsetof(struct pst_published, key)
#define LIST(key, of, fields) #key, COUNT(fields), sizeof(struct pst_published_##of), AT(key)
#define WORDS(key)            #key, NULL, 0, sizeof(const char *), AT(key)
    {LIST(tensors, row, tensor_fields), find_tensor_fault},
    {LIST(aliases, alias, alias_fields), NULL},
    {LIST(twins, twin, twin_fields), NULL},
    {LIST(keys, key, key_fields), find_key_fault},
    {LIST(unpublished, lack, lack_fields), NULL},
    {LIST(others, other, other_fields), NULL},
    {WORDS(ignored), NULL},
    {WORDS(harmless), NULL},
    {WORDS(families), NULL},
};
enum { LISTS = sizeof lists / sizeof *lists };

/* --- reading ---------------------------------------------------------------------------------- */

struct reading {
    const struct pst_model_builder *builder;
    struct pst_config *config;
    struct pst_arena *arena;
    struct pst_error *err;
};

#define FAIL_AT(r, node, ...)                                                                      \
    pst_fail_at((r)->err, PST_ERR_CONFIG, "config.value", (node)->file, (node)->line,              \
                (node)->column, __VA_ARGS__)

static const char **text_at(const void *item, const struct pst_param *row)
{
    return (const char **)(uintptr_t)((const char *)item + row->offset);
}

/* Parameters join the texts of a list with commas, which none of them has. A text that is no list
   keeps its commas. */
static pst_status part_list(struct reading *r, const char *section, const char *key, bool may_be,
                            const char **text, const struct pst_config_node *node)
{
    char *parted;

    if (strpbrk(*text, PST_PUBLISHED_BREAK) != NULL) {
        return FAIL_AT(r, node, "\"%s\" in %s must not have a line break", key, section);
    }
    if (node == NULL || node->kind != PST_CONFIG_ARRAY) {
        return PST_OK;
    }
    if (!may_be) {
        return FAIL_AT(r, node, "\"%s\" in %s must be one text, not a list", key, section);
    }
    *text = parted = pst_arena_strdup(r->arena, *text);
    for (; *parted != '\0'; parted++) {
        *parted = *parted == ',' ? PST_PUBLISHED_BREAK[0] : *parted;
    }
    return PST_OK;
}

/* An empty text stands for none, which the first one of a row, its name, cannot be. */
static pst_status check_text(struct reading *r, const struct list *list, const struct field *field,
                             const char **text, struct pst_config_node *node)
{
    pst_status status = part_list(r, list->key, field->is.key, field->list, text,
                                  pst_config_get(node, field->is.key));

    if (status != PST_OK) {
        return status;
    }
    if (**text == '\0' && field->is.initial == NULL) {
        return FAIL_AT(r, node, "\"%s\" in %s must not be empty", field->is.key, list->key);
    }
    *text = **text == '\0' ? NULL : *text;
    for (const char *at = *text; at != NULL; at = pst_published_next(at)) {
        const size_t n = strcspn(at, PST_PUBLISHED_BREAK);

        if (n == 0 || (field->fits != NULL && !field->fits(r->builder, at, n))) {
            return FAIL_AT(r, node, "\"%s\" in %s must be %s, not \"%.*s\"", field->is.key,
                           list->key, n == 0 ? "texts that are not empty" : field->what, (int)n,
                           at);
        }
    }
    return PST_OK;
}

static pst_status read_item(struct reading *r, const struct list *list,
                            struct pst_config_node *node, void *item)
{
    const char *fault = NULL;
    pst_status status;

    if (list->fields == NULL) {
        const char *text = node->kind == PST_CONFIG_STRING ? node->value.string : "";

        *(const char **)item = pst_arena_strdup(r->arena, text);
        return text[0] != '\0' ? PST_OK : FAIL_AT(r, node, "%s must be a list of texts", list->key);
    }
    status = pst_params_fill(&list->fields->is, list->n_fields, sizeof *list->fields, node,
                             list->key, NULL, r->arena, item, r->err);
    for (uint32_t i = 0; status == PST_OK && i < list->n_fields; i++) {
        if (list->fields[i].is.type == PST_PARAM_STRING) {
            status =
                check_text(r, list, &list->fields[i], text_at(item, &list->fields[i].is), node);
        }
    }
    if (status == PST_OK && list->find_fault != NULL) {
        fault = list->find_fault(item);
    }
    return fault == NULL ? status : FAIL_AT(r, node, "%s: %s", list->key, fault);
}

/* The condition of a row; NULL: none. */
static const char *when_of(const struct list *list, const void *item)
{
    for (uint32_t i = 0; i < list->n_fields; i++) {
        if (strcmp(list->fields[i].is.key, "when") == 0) {
            return *text_at(item, &list->fields[i].is);
        }
    }
    return NULL;
}

/* Returns true if all models of the condition `is` are also models of `was`: it has no other parts.
   NULL: all models. */
static bool is_wider(const char *was, const char *is)
{
    size_t n = 0, m = 0;

    for (; was != NULL && *was != '\0'; was += n + (was[n] == '&')) {
        const char *part = is == NULL ? "" : is;

        n = strcspn(was, "&");
        for (; *part != '\0'; part += m + (part[m] == '&')) {
            m = strcspn(part, "&");
            if (m == n && strncmp(part, was, n) == 0) {
                break;
            }
        }
        if (*part == '\0') {
            return false;
        }
    }
    return true;
}

/* Returns true if an earlier row takes all that this one would. */
static bool is_dead(const struct list *list, const void *before, const void *item)
{
    const char *was = *(const char *const *)before, *is = *(const char *const *)item;
    struct pst_published_blanks blanks;

    return (list->fields == tensor_fields ? pst_published_fits(was, is, &blanks)
                                          : strcmp(was, is) == 0) &&
           is_wider(when_of(list, before), when_of(list, item));
}

/* The file's rows; the list stays NULL if it has none of that key. */
static pst_status read_list(struct reading *r, const struct list *list,
                            struct pst_published *family)
{
    struct pst_config_node *node = pst_config_get(r->config->root, list->key);
    char *items;
    pst_status status = PST_OK;

    if (node == NULL) {
        return PST_OK;
    }
    if (node->kind != PST_CONFIG_ARRAY) {
        return FAIL_AT(r, node, "%s must be a list", list->key);
    }
    items = pst_arena_array(r->arena, node->n_children + 1, list->size);
    for (uint32_t i = 0; status == PST_OK && i < node->n_children; i++) {
        char *item = items + i * list->size;

        status = read_item(r, list, node->children[i], item);
        for (uint32_t k = 0; status == PST_OK && k < i; k++) {
            if (is_dead(list, items + k * list->size, item)) {
                status = FAIL_AT(r, node->children[i],
                                 "%s: this is never used: line %u is for the same models",
                                 list->key, node->children[k]->line);
            }
        }
    }
    memcpy((char *)family + list->offset, &items, sizeof items);
    return status;
}

static pst_status read_file(const char *path, const char *model, struct pst_arena *arena,
                            struct pst_published *ret_family, struct pst_error *err)
{
    struct reading r = {.builder = pst_model_builder_find(model), .arena = arena, .err = err};
    const char *keys[LISTS + 1] = {NULL};
    pst_status status = pst_config_load(path, NULL, 0, &r.config, err);

    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; i < LISTS; i++) {
        keys[i] = lists[i].key;
    }
    status = pst_params_fill(COUNT(head_rows), sizeof *head_rows, r.config->root, "the file", keys,
                             arena, ret_family, err);
    for (uint32_t i = 0; status == PST_OK && i < sizeof head_rows / sizeof *head_rows; i++) {
        status =
            part_list(&r, "the file", head_rows[i].key, false, text_at(ret_family, &head_rows[i]),
                      pst_config_get(r.config->root, head_rows[i].key));
    }
    if (status == PST_OK && strcmp(ret_family->model, model) != 0) {
        status =
            pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, 0, 0,
                        "the file is for model \"%s\", not for \"%s\"", ret_family->model, model);
    }
    for (uint32_t i = 0; status == PST_OK && i < LISTS; i++) {
        status = read_list(&r, &lists[i], ret_family);
    }
    pst_config_destroy(r.config);
    return status;
}

static size_t count_items(const char *items, size_t size)
{
    size_t n = 0;

    while (items != NULL && *(const char *const *)(const void *)(items + n * size) != NULL) {
        n++;
    }
    return n;
}

/* Adds the rows of `more` after those of `family`. */
static void join(struct pst_published *family, const struct pst_published *more,
                 struct pst_arena *arena)
{
    for (uint32_t i = 0; i < LISTS; i++) {
        const struct list *list = &lists[i];
        char *a, *b, *items;
        size_t n, m;

        memcpy(&a, (char *)family + list->offset, sizeof a);
        memcpy(&b, (const char *)more + list->offset, sizeof b);
        n = count_items(a, list->size);
        m = count_items(b, list->size);
        items = pst_arena_array(arena, n + m + 1, list->size);
        memcpy(items, a == NULL ? "" : a, n * list->size);
        memcpy(items + n * list->size, b == NULL ? "" : b, m * list->size);
        memcpy((char *)family + list->offset, &items, sizeof items);
    }
}

pst_status pst_published_read(const char *path, const char *model, struct pst_arena *arena,
                              const struct pst_published **ret_family, struct pst_error *err)
{
    const char *folder = pst_search_data(arena, "families");
    struct pst_published *family = pst_arena_array(arena, 1, sizeof *family);
    struct pst_published common = {.model = NULL};
    pst_status status =
        read_file(pst_arena_printf(arena, "%s/common.toml", folder), "", arena, &common, err);

    if (status == PST_OK && common.families == NULL) {
        status = pst_fail_at(err, PST_ERR_CONFIG, "config.key",
                             pst_arena_printf(arena, "%s/common.toml", folder), 0, 0,
                             "there is no key \"families\", which lists the models with a file");
    }
    for (uint32_t i = 0; status == PST_OK && path[0] == '\0' && common.families[i] != NULL; i++) {
        if (strcmp(common.families[i], model) == 0) {
            path = pst_arena_printf(arena, "%s/%s.toml", folder, model);
        }
    }
    if (status == PST_OK && path[0] != '\0') {
        status = read_file(path, model, arena, family, err);
    }
    common.keys = family->keys == NULL ? NULL : common.keys;
    join(family, &common, arena);
    family->keys = common.keys == NULL ? NULL : family->keys;
    *ret_family = family;
    return status;
}
