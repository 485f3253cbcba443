/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json, as `transformers` keeps it beside weights: held against [model], or written from it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/link.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "config/config.h"
#include "config/json_fields.h"
#include "models/builder.h"
#include "weights/weights_impl.h"

#define CONFIG_BYTES ((size_t)16 << 20)

/* --- values of [model] ------------------------------------------------------------------------ */

/* As it would be written in the config. */
struct setting {
    uint32_t type; /* PST_PARAM_*; 0: there is no such key */
    double number;
    const char *text;
};

static const struct pst_param *find_row(const struct pst_job *job, const char *key)
{
    struct pst_config_node *use = pst_config_get(job->model, "use");
    const struct pst_model_builder *builder =
        use == NULL ? NULL : pst_model_builder_find(use->value.string);

    for (uint32_t i = 0; builder != NULL && i < builder->n_params; i++) {
        if (strcmp(builder->params[i].key, key) == 0) {
            return &builder->params[i];
        }
    }
    return NULL;
}

static struct setting setting_of(const struct pst_job *job, const char *key)
{
    const struct pst_param *row = find_row(job, key);
    const struct pst_config_node *node = row == NULL ? NULL : pst_config_get(job->model, key);
    struct setting setting = {.type = row == NULL ? 0 : row->type, .text = ""};
    const char *end;

    if (node == NULL && row != NULL) {
        setting.text = row->initial;
        setting.number = strcmp(row->initial, "true") == 0;
        pst_number_parse(row->initial, &end, &setting.number);
    } else if (node != NULL && node->kind == PST_CONFIG_STRING) {
        setting.text = node->value.string;
    } else if (node != NULL) {
        setting.number = node->kind == PST_CONFIG_INT    ? (double)node->value.integer
                         : node->kind == PST_CONFIG_BOOL ? (double)node->value.boolean
                                                         : node->value.number;
    }
    return setting;
}

double pst_weights_model_number(const struct pst_job *job, const char *key)
{
    return setting_of(job, key).number;
}

/* One part of a condition, of n characters. */
static bool part_holds(const char *part, size_t n, const struct pst_job *job)
{
    const bool negated = part[0] == '!';
    char text[64], *word = text;
    const char *key;
    bool holds;

    snprintf(text, sizeof text, "%.*s", (int)n - negated, part + negated);
    key = strsep(&word, "=");
    holds = word != NULL ? strcmp(setting_of(job, key).text, word) == 0
                         : setting_of(job, key).number != 0;
    return holds != negated;
}

/* The first part of a condition that does not hold; its length 0: all do. */
static const char *first_failing(const char *when, const struct pst_job *job, size_t *ret_n)
{
    size_t n = 0;

    for (; when != NULL && *when != '\0'; when += n + (when[n] == '&')) {
        n = strcspn(when, "&");
        if (!part_holds(when, n, job)) {
            *ret_n = n;
            return when;
        }
    }
    *ret_n = 0;
    return when;
}

bool pst_weights_when(const char *when, const struct pst_job *job)
{
    size_t n;

    first_failing(when, job, &n);
    return n == 0;
}

static bool is_for_model(const struct pst_published_key *row, const struct pst_job *job)
{
    return pst_weights_when(row->when, job);
}

/* The first of its name that is for this model? */
static bool applies(const struct pst_published *family, const struct pst_published_key *row,
                    const struct pst_job *job)
{
    const struct pst_published_key *first = family->keys;

    while (first != row && (strcmp(first->theirs, row->theirs) != 0 || !is_for_model(first, job))) {
        first++;
    }
    return first == row && is_for_model(row, job);
}

static double over_of(const struct pst_published_key *row, const struct pst_job *job)
{
    return row->over == NULL ? 1 : setting_of(job, row->over).number;
}

/* The number of config.json for one of [model]. The quotient comes last: it is exact if it is
 * whole. */
static double to_theirs(const struct pst_published_key *row, const struct pst_job *job,
                        double number)
{
    return number * (double)row->times / over_of(row, job);
}

static pst_status check_quotient(const struct pst_published_key *row, const struct pst_job *job,
                                 struct pst_error *err)
{
    const struct setting own = setting_of(job, row->own);
    const double theirs = to_theirs(row, job, own.number);
    char number[32], over[32];

    if (over_of(row, job) == 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "keys: the row of theirs = \"%.80s\" divides by %s, which is 0",
                        row->theirs, row->over);
    }
    if (own.type == PST_PARAM_INT && !(theirs == floor(theirs) && fabs(theirs) < 0x1p53)) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "keys: the row of theirs = \"%.80s\" makes %s * %lld / %s of %s, which is "
                        "not a whole number below 2^53",
                        row->theirs, pst_number_format(number, own.number), (long long)row->times,
                        pst_number_format(over, over_of(row, job)), row->own);
    }
    return PST_OK;
}

/* Rows for this model must have a number for config.json. */
static pst_status check_quotients(const struct pst_published *family, const struct pst_job *job,
                                  struct pst_error *err)
{
    pst_status status = PST_OK;

    for (const struct pst_published_key *row = family->keys;
         status == PST_OK && row->theirs != NULL; row++) {
        if (row->own != NULL && applies(family, row, job)) {
            status = check_quotient(row, job, err);
        }
    }
    return status;
}

/* --- comparing -------------------------------------------------------------------------------- */

static const json_t *value_at(const json_t *root, const char *path)
{
    const char *dot = strchr(path, '.');
    char key[64];

    if (dot == NULL) {
        return json_object_get(root, path);
    }
    snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
    return value_at(json_object_get(root, key), dot + 1);
}

static bool same_number(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(a);
}

/* Returns true if the value has the type of a key of [model]: true is not a number, nor is "2". */
static bool has_type(uint32_t type, const json_t *value)
{
    return type == PST_PARAM_BOOL                               ? json_is_boolean(value)
           : type == PST_PARAM_ENUM || type == PST_PARAM_STRING ? json_is_string(value)
                                                                : json_is_number(value);
}

/* theirs: the number that it would be. */
static bool is_setting(const json_t *value, const struct setting *setting, double theirs)
{
    return has_type(setting->type, value) &&
           (json_is_boolean(value)  ? (setting->number != 0) == json_boolean_value(value)
            : json_is_string(value) ? strcmp(json_string_value(value), setting->text) == 0
                                    : same_number(json_number_value(value), theirs));
}

/* A value that the key of that row may have? */
static bool can_have_value(const struct pst_param *row, const json_t *value)
{
    const char *at = row->range;
    size_t n;

    if (row->type != PST_PARAM_ENUM || !has_type(row->type, value)) {
        return has_type(row->type, value);
    }
    for (; *at != '\0'; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        if (strncmp(json_string_value(value), at, n) == 0 && json_string_length(value) == n) {
            return true;
        }
    }
    return false;
}

/* One of the texts? */
static bool is_fixed(const json_t *value, const char *fixed)
{
    const char *at = fixed;
    bool same = false;
    const size_t n = json_is_array(value) && fixed[0] != '[' ? json_array_size(value) : 0;

    if (n > 0) { /* of a list every element */
        same = true;
        for (size_t i = 0; i < n; i++) {
            same = same && is_fixed(json_array_get(value, i), fixed);
        }
        return same;
    }
    for (; !same && at != NULL; at = pst_published_next(at)) {
        json_t *wanted = json_loadb(at, strcspn(at, PST_PUBLISHED_BREAK), JSON_DECODE_ANY, NULL);

        same = json_is_number(value) && json_is_number(wanted)
                   ? same_number(json_number_value(wanted), json_number_value(value))
                   : json_equal(value, wanted);
        json_decref(wanted);
    }
    return same;
}

/* The differences between a config.json and [model]. */
struct comparison {
    const struct pst_published *family;
    const struct pst_job *job;
    const json_t *root;
    bool stated;     /* the model_type is all that is known: nothing has a default */
    char musts[512]; /* what [model] must have, each after a comma: ", kv_heads = 2, tied = true" */
    char others[512]; /* what it cannot have, alike: ", mlp_bias = true, logit_scale = 0.5" */
    uint32_t n_others, n_asked;
    char first[64]; /* key of [model] that is the first of musts */
};

static void add_must(struct comparison *c, const char *key, const char *text)
{
    char word[72];

    c->n_asked++;
    snprintf(word, sizeof word, ", %.64s = ", key);
    if (strstr(c->musts, word) == NULL) {
        if (c->musts[0] == '\0') {
            snprintf(c->first, sizeof c->first, "%s", key);
        }
        pst_text_append(c->musts, sizeof c->musts, "%s%.80s", word, text);
    }
}

static void add_other(struct comparison *c, const char *theirs, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10) | JSON_COMPACT);

    if (text == NULL) {
        pst_out_of_memory();
    }
    pst_text_append(c->others, sizeof c->others, ", %.80s = %.80s", theirs, text);
    c->n_others++;
    free(text);
}

/* Writes the value that the [model] key of a row would have for a value of the file. */
static void own_text(const struct pst_published_key *row, const json_t *value,
                     const struct pst_job *job, char text[100])
{
    char number[40];

    if (json_is_string(value)) {
        snprintf(text, 100, "\"%.90s\"", json_string_value(value));
    } else if (json_is_boolean(value)) {
        snprintf(text, 100, "%s", json_is_true(value) ? "true" : "false");
    } else {
        const double theirs = json_number_value(value);

        pst_number_format(
            number, row->set != NULL ? theirs : theirs * over_of(row, job) / (double)row->times);
        snprintf(text, 100, "%s", number);
    }
}

/* Where it is null nothing is there. */
static const json_t *value_there(const struct comparison *c, const char *path)
{
    const json_t *value = value_at(c->root, path);

    return json_is_null(value) ? NULL : value;
}

/* What is in the place of a key that is missing: JSON, where `absent` is '@' and another key that
   of the other key. NULL: none. */
static const char *absent_of(const struct comparison *c, const struct pst_published_key *row)
{
    const struct pst_published_key *other = c->family->keys;

    if (row->absent == NULL || row->absent[0] != '@') {
        return row->absent;
    }
    while (other->theirs != NULL &&
           (strcmp(other->theirs, row->absent + 1) != 0 || !applies(c->family, other, c->job))) {
        other++;
    }
    return other->theirs == NULL || other->absent == NULL || other->absent[0] == '@'
               ? NULL
               : other->absent;
}

/* The same, where the file's model type has another default; what is null is not missing. */
static const char *absent_of_type(const struct comparison *c, const struct pst_published_key *row)
{
    const char *type = json_string_value(value_at(c->root, "model_type"));
    const char *at = type != NULL && value_at(c->root, row->theirs) == NULL ? row->absent_by : NULL;

    for (; at != NULL; at = pst_published_next(at)) {
        const size_t n = strcspn(at, "=");

        if (strncmp(at, type, n) == 0 && type[n] == '\0') {
            return at + n + 1;
        }
    }
    return NULL;
}

/* The value that a row reads, or what `transformers` takes where there is none; NULL: nothing.
   json_decref it. */
static json_t *value_of(const struct comparison *c, const struct pst_published_key *row)
{
    const json_t *value = value_there(c, row->theirs);
    const char *other = row->elsewhere, *by_type = absent_of_type(c, row);
    const char *absent = by_type != NULL ? by_type : absent_of(c, row);

    if (value == NULL && c->stated) {
        return NULL;
    }
    if (row->below != NULL && json_is_integer(value) && json_integer_value(value) < 0) {
        return json_integer(json_integer_value(value) +
                            (json_int_t)setting_of(c->job, row->below).number);
    }
    if (row->null != NULL && json_is_null(value_at(c->root, row->theirs))) {
        return json_loads(row->null, JSON_DECODE_ANY, NULL);
    }
    while (value == NULL && (row->absent != NULL || by_type != NULL) && other != NULL) {
        char path[64];

        snprintf(path, sizeof path, "%.*s", (int)strcspn(other, PST_PUBLISHED_BREAK), other);
        if (value_there(c, path) != NULL) {
            return NULL;
        }
        other = pst_published_next(other);
    }
    if (value == NULL && by_type == NULL && row->absent != NULL && row->absent[0] == '@') {
        value = value_there(c, row->absent + 1);
    }
    return value != NULL ? json_deep_copy(value)
           : absent != NULL
               ? json_loadb(absent, strcspn(absent, PST_PUBLISHED_BREAK), JSON_DECODE_ANY, NULL)
               : NULL;
}

/* Another row of the same name that takes the value, for models that are set otherwise. */
static const struct pst_published_key *other_row(const struct comparison *c,
                                                 const struct pst_published_key *row,
                                                 const json_t *value)
{
    for (const struct pst_published_key *other = c->family->keys; other->theirs != NULL; other++) {
        if (other != row && strcmp(other->theirs, row->theirs) == 0 &&
            (other->own != NULL ? can_have_value(find_row(c->job, other->own), value)
                                : is_fixed(value, other->fixed))) {
            return other;
        }
    }
    return NULL;
}

/* Another value than the model's? */
static bool differs(const struct pst_published_key *row, const json_t *value,
                    const struct pst_job *job)
{
    struct setting setting;

    if (row->own == NULL) {
        return !is_fixed(value, row->fixed) &&
               !(row->from != NULL && json_is_number(value) &&
                 json_number_value(value) >= setting_of(job, row->from).number);
    }
    setting = setting_of(job, row->own);
    return !is_setting(value, &setting, to_theirs(row, job, setting.number));
}

/* Adds the differences in keys that have a meaning only if this key of [model] is set. */
static void add_dependent_keys(struct comparison *c, const char *key)
{
    for (const struct pst_published_key *row = c->family->keys; row->theirs != NULL; row++) {
        const json_t *value = row->own == NULL ? NULL : value_there(c, row->theirs);
        const size_t n = strlen(key);
        const char *when = row->when == NULL ? "" : row->when + (row->when[0] == '!');
        char text[100];

        if (value != NULL && strncmp(when, key, n) == 0 && strchr("=&", when[n]) != NULL &&
            row->use != PST_KEY_FREE && row->use != PST_KEY_SIZE && strcmp(row->own, key) != 0 &&
            can_have_value(find_row(c->job, row->own), value) && differs(row, value, c->job)) {
            own_text(row, value, c->job, text);
            add_must(c, row->set != NULL ? row->set : row->own, text);
        }
    }
}

/* A key of [model] that must be set: to what the file says of it, if it does. */
static void must_be_set(struct comparison *c, const char *key)
{
    const struct pst_published_key *row = c->family->keys;
    char text[100] = "true";

    while (row->theirs != NULL && (row->own == NULL || strcmp(row->own, key) != 0 ||
                                   !json_is_number(value_at(c->root, row->theirs)))) {
        row++;
    }
    if (row->theirs != NULL) {
        own_text(row, value_at(c->root, row->theirs), c->job, text);
    }
    add_must(c, key, text);
    add_dependent_keys(c, key);
}

/* [model] must be such that a condition holds, or such that one does not. */
static void must_hold(struct comparison *c, const char *when, bool holds)
{
    size_t n;

    for (; when != NULL && *when != '\0'; when += n + (when[n] == '&')) {
        const bool negated = when[0] == '!';
        char part[64], text[80], *word = part;
        const char *key;

        n = strcspn(when, "&");
        if (part_holds(when, n, c->job) == holds) {
            continue;
        }
        snprintf(part, sizeof part, "%.*s", (int)n - negated, when + negated);
        key = strsep(&word, "=");
        if (word != NULL) {
            snprintf(text, sizeof text, "\"%s\"", word);
            add_must(c, key, text);
        } else if (negated == holds) {
            add_must(c, key, setting_of(c->job, key).type == PST_PARAM_BOOL ? "false" : "0");
        } else {
            must_be_set(c, key);
        }
    }
}

static void note_difference(struct comparison *c, const struct pst_published_key *row,
                            const json_t *value)
{
    const struct pst_published_key *other = row->own != NULL ? row : other_row(c, row, value);
    const uint32_t before = c->n_asked;
    char text[100];

    if (row->final) {
        other = NULL;
    } else if (row->own == NULL && row->set != NULL) {
        add_must(c, row->set, "0");
    } else if (other != NULL && other->own != NULL && json_is_string(value) &&
               strcmp(json_string_value(value), "default") == 0) {
        add_must(c, other->own, "\"none\"");
    } else if (other != NULL && other->own != NULL &&
               can_have_value(find_row(c->job, other->own), value)) {
        own_text(other, value, c->job, text);
        add_must(c, other->set != NULL ? other->set : other->own, text);
        add_dependent_keys(c, other->own);
    } else if (other != NULL && other->own == NULL) {
        must_hold(c, is_for_model(other, c->job) ? row->when : other->when,
                  !is_for_model(other, c->job));
    }
    if (c->n_asked == before) {
        add_other(c, row->theirs, value);
    }
}

/* Returns true if files of this model type give the row's key no meaning, or this file takes it
   away. */
static bool is_meaningless(const struct comparison *c, const struct pst_published_key *row)
{
    const char *type = json_string_value(value_at(c->root, "model_type"));
    const size_t n = row->unless == NULL ? 0 : strcspn(row->unless, "!");
    const json_t *switched;
    char key[64];

    if (type != NULL && row->unread_by != NULL && strcmp(type, row->unread_by) == 0) {
        return true;
    }
    if (n == 0 || (type != NULL && strstr(row->unless + n, type) != NULL)) {
        return false;
    }
    snprintf(key, sizeof key, "%.*s", (int)n, row->unless);
    switched = value_at(c->root, key);
    return json_is_false(switched) || (switched == NULL && type != NULL);
}

/* use: rows of that kind alone, or the others. */
static void compare_rows(struct comparison *c, bool sizes)
{
    for (const struct pst_published_key *row = c->family->keys; row->theirs != NULL; row++) {
        json_t *value;

        if (row->use == PST_KEY_FREE || (row->use == PST_KEY_SIZE) != sizes ||
            (sizes && row->own == NULL) || !applies(c->family, row, c->job) ||
            is_meaningless(c, row)) {
            continue;
        }
        value = value_of(c, row);
        if (value != NULL && differs(row, value, c->job)) {
            note_difference(c, row, value);
        }
        json_decref(value);
    }
}

/* --- keys that nobody has thought of ---------------------------------------------------------- */

/* Returns true if the tables have this key or, if `within`, a key inside it. */
static bool has_row(const struct pst_published *family, const char *path, bool within)
{
    const size_t n = strlen(path);

    for (const struct pst_published_key *row = family->keys; row->theirs != NULL; row++) {
        if (strncmp(row->theirs, path, n) == 0 && row->theirs[n] == (within ? '.' : '\0')) {
            return true;
        }
    }
    return false;
}

static void find_unknown(struct comparison *c, const json_t *object, const char *scope)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char *path = pst_printf("%s%s%s", scope, scope[0] == '\0' ? "" : ".", key);

        if (json_is_object(value) && has_row(c->family, path, true)) {
            find_unknown(c, value, path);
        } else if (!json_is_null(value) && !has_row(c->family, path, false) &&
                   !pst_text_ends(path, "_token_id") &&
                   !pst_text_is_one_of(c->family->harmless, path)) {
            add_other(c, path, value);
        }
        free(path);
    }
}

/* --- whose it is ------------------------------------------------------------------------------ */

/* A model_type of this family, or of another one. */
static bool is_type_of(const struct pst_published *family, const json_t *type)
{
    for (const struct pst_published_key *row = family->keys; row != NULL && row->theirs != NULL;
         row++) {
        if (row->fixed != NULL && is_fixed(type, row->fixed) &&
            strcmp(row->theirs, json_is_array(type) ? "architectures" : "model_type") == 0) {
            return true;
        }
    }
    return false;
}

/* The family of that model_type; NULL: none has a file. */
static pst_status find_family(const struct comparison *c, const json_t *type,
                              struct pst_arena *arena, const struct pst_published **ret_family,
                              struct pst_error *err)
{
    const struct pst_published *family = NULL;
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && c->family->families[i] != NULL; i++) {
        status = pst_published_read("", c->family->families[i], arena, &family, err);
        if (status == PST_OK && is_type_of(family, type)) {
            *ret_family = family;
            return PST_OK;
        }
    }
    *ret_family = NULL;
    return status;
}

/* The type is of no family that has a file; NULL: it is missing. */
static pst_status fail_type(const struct comparison *c, const char *path, const char *type,
                            struct pst_error *err)
{
    const struct pst_published_other *other = c->family->others;

    while (type != NULL && other->type != NULL && strcmp(other->type, type) != 0) {
        other++;
    }
    if (type == NULL) {
        pst_fail(err, PST_ERR_CONFIG, "config.value",
                 "%s: model_type is missing, so the family of the weights is unknown", path);
    } else if (other->type != NULL) {
        pst_fail(err, PST_ERR_CONFIG, "config.value", "%s: this is %s (%s), which is unsupported",
                 path, other->name, type);
    } else {
        pst_fail(err, PST_ERR_CONFIG, "config.value", "%s: this is %.90s, which is unsupported",
                 path, type);
    }
    pst_error_hint(err, "docs/weights.md lists the supported families; any module of PyTorch can "
                        "be exported to ONNX (docs/onnx.md)");
    return PST_ERR_CONFIG;
}

/* No model is loaded because it looks alike. */
static pst_status check_type(const struct comparison *c, const char *path, struct pst_error *err)
{
    const json_t *type = value_there(c, "model_type"), *of = value_there(c, "architectures");
    const char *word = json_string_value(type);
    const struct pst_published *other = NULL;
    struct pst_arena arena = {0};
    pst_status status = PST_OK;

    type = type != NULL ? type : of;
    if (type != NULL && is_type_of(c->family, type)) {
        return PST_OK;
    }
    if (type != NULL) {
        status = find_family(c, type, &arena, &other, err);
    }
    if (status == PST_OK && other == NULL) {
        status = fail_type(c, path, word, err);
    } else if (status == PST_OK && strcmp(other->model, c->family->model) == 0) {
        pst_fail(err, PST_ERR_CONFIG, "config.value",
                 "%s: this is %.80s, but the file of train.init_family is for other weights", path,
                 word != NULL ? word : "another model");
        status = pst_config_place(c->job->config, "train", "init_family", PST_ERR_CONFIG, err);
    } else if (status == PST_OK) {
        pst_fail(err, PST_ERR_CONFIG, "config.value", "%s: this is %.80s; set use = \"%s\"", path,
                 word != NULL ? word : "another model", other->model);
        status = pst_config_place(c->job->config, "model", "use", PST_ERR_CONFIG, err);
    }
    pst_arena_finish(&arena);
    return status;
}

static pst_status compare(struct comparison *c, const char *path, struct pst_error *err)
{
    pst_status status = check_type(c, path, err);

    if (status != PST_OK) {
        return status;
    }
    compare_rows(c, false);
    find_unknown(c, c->root, "");
    if (c->musts[0] == '\0' && c->n_others == 0) {
        return PST_OK;
    }
    compare_rows(c, true);
    pst_fail(err, PST_ERR_CONFIG, "config.value", "%s is of another model: ", path);
    if (c->n_others > 0) {
        pst_text_append(err->message, sizeof err->message, "use = \"%s\" cannot compute %s%s",
                        c->family->model, c->others + 2, c->musts[0] != '\0' ? "; " : "");
    }
    if (c->musts[0] != '\0') {
        pst_text_append(err->message, sizeof err->message, "[model] must have %s", c->musts + 2);
        return pst_config_place(c->job->config, "model", c->first, PST_ERR_CONFIG, err);
    }
    return PST_ERR_CONFIG;
}

pst_status pst_weights_check_config(const char *folder, const struct pst_job *job,
                                    const struct pst_published *family, bool *ret_there,
                                    struct pst_error *err)
{
    pst_status status = check_quotients(family, job, err);
    char *path;
    struct stat info;
    json_t *root = NULL;

    if (status != PST_OK) {
        return status;
    }
    path = pst_printf("%s/config.json", folder);

    *ret_there =
        lstat(path, &info) == 0 || errno != ENOENT; /* a link that leads nowhere is there */
    if (!*ret_there && job->training->loop.init_type[0] != '\0') {
        struct comparison c = {.family = family, .job = job, .stated = true};

        root = json_pack("{s:s}", "model_type", job->training->loop.init_type);
        c.root = root;
        status = compare(&c, "train.init_type", err);
    } else if (*ret_there) {
        status = pst_link_follow(path, NULL, err);
        PST_TRY(status, pst_json_load(path, CONFIG_BYTES, &root, err));
        if (status == PST_OK && !json_is_object(root)) {
            status =
                pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0, "not a JSON object");
        }
        if (status == PST_OK) {
            struct comparison c = {.family = family, .job = job, .root = root};

            status = compare(&c, path, err);
        }
    }
    json_decref(root);
    free(path);
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_number(struct pst_json *json, const char *key, uint32_t type, double theirs)
{
    char number[40];

    if (type == PST_PARAM_INT) {
        pst_json_int(json, key, (int64_t)theirs); /* check_quotient */
        return;
    }
    pst_number_format(number, theirs); /* a float stays one: readers are strict */
    strcat(number, strpbrk(number, ".en") == NULL ? ".0" : "");
    pst_json_raw(json, key, number);
}

static void put_row(struct pst_json *json, const char *key, const struct pst_published_key *row,
                    const struct pst_job *job)
{
    struct setting setting;
    char *text;

    if (row->own == NULL) {
        text = pst_strndup(row->fixed, strcspn(row->fixed, PST_PUBLISHED_BREAK));
        pst_json_raw(json, key, text);
        free(text);
        return;
    }
    setting = setting_of(job, row->own);
    if (row->null != NULL && setting.number == strtod(row->null, NULL)) {
        pst_json_raw(json, key, "null");
    } else if (setting.type == PST_PARAM_BOOL) {
        pst_json_bool(json, key, setting.number != 0);
    } else if (setting.type == PST_PARAM_ENUM || setting.type == PST_PARAM_STRING) {
        pst_json_string(json, key, setting.text);
    } else {
        put_number(json, key, setting.type, to_theirs(row, job, setting.number));
    }
}

static char *write_rows(const struct pst_job *job, const struct pst_published *family)
{
    struct pst_json json;
    char inside[64] = ""; /* of which object the last row was */

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    for (const struct pst_published_key *row = family->keys; row->theirs != NULL; row++) {
        const char *dot = strchr(row->theirs, '.');
        size_t n = dot == NULL ? 0 : (size_t)(dot - row->theirs);

        if (row->use == PST_KEY_READ || !applies(family, row, job)) {
            continue;
        }
        if (strncmp(inside, row->theirs, n) != 0 || inside[n] != '\0') {
            if (inside[0] != '\0') {
                pst_json_end(&json, '}');
            }
            snprintf(inside, sizeof inside, "%.*s", (int)n, row->theirs);
            if (n > 0) {
                pst_json_object(&json, inside);
            }
        }
        put_row(&json, dot == NULL ? row->theirs : dot + 1, row, job);
    }
    if (inside[0] != '\0') {
        pst_json_end(&json, '}');
    }
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    return pst_json_take(&json);
}

pst_status pst_weights_config(const struct pst_job *job, const struct pst_published *family,
                              char **ret_text, struct pst_error *err)
{
    pst_status status = check_quotients(family, job, err);
    json_error_t error;
    json_t *root;
    char *text;

    if (status != PST_OK) {
        return status;
    }
    text = write_rows(job, family);
    root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) { /* rows of one object that others part, or of a key and of keys in it */
        free(text);
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "keys: the config.json of these rows is wrong: %s", error.text);
    }
    json_decref(root);
    *ret_text = text;
    return PST_OK;
}
