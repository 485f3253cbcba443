/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json, as `transformers` keeps it beside weights: held against [model], or written from it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "config/config.h"
#include "config/json_fields.h"
#include "graph/builder.h"
#include "train/weights_impl.h"

#define CONFIG_BYTES ((size_t)16 << 20)

/* --- values of [model] ------------------------------------------------------------------------ */

/* As it would be written in the config. */
struct setting {
    uint32_t type; /* PST_PARAM_*; 0: there is no such key */
    double number;
    const char *text;
};

static const struct pst_param *row_of(const struct pst_job *job, const char *key)
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
    const struct pst_param *row = row_of(job, key);
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

static bool is_for(const struct pst_published_key *row, const struct pst_job *job)
{
    return pst_weights_when(row->when, job);
}

/* The first of its name that is for this model? */
static bool applies(const struct pst_published *family, const struct pst_published_key *row,
                    const struct pst_job *job)
{
    const struct pst_published_key *first = family->keys;

    while (first != row && (strcmp(first->theirs, row->theirs) != 0 || !is_for(first, job))) {
        first++;
    }
    return first == row && is_for(row, job);
}

/* Theirs is ours times that. */
static double times(const struct pst_published_key *row, const struct pst_job *job)
{
    double over = row->over == NULL ? 1 : setting_of(job, row->over).number;

    return (row->times == 0 ? 1 : row->times) / over;
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

static bool is_setting(const json_t *value, const struct setting *setting, double factor)
{
    return json_is_boolean(value) ? (setting->number != 0) == json_boolean_value(value)
           : json_is_string(value)
               ? strcmp(json_string_value(value), setting->text) == 0
               : same_number(json_number_value(value), factor * setting->number);
}

/* A value that the key of that row may have? */
static bool can_be(const struct pst_param *row, const json_t *value)
{
    const char *at = row->range;
    size_t n;

    if (row->type != PST_PARAM_ENUM || !json_is_string(value)) {
        return row->type != PST_PARAM_ENUM && !json_is_string(value);
    }
    for (; *at != '\0'; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        if (strncmp(json_string_value(value), at, n) == 0 && json_string_length(value) == n) {
            return true;
        }
    }
    return false;
}

/* One of the texts that '|' parts? */
static bool is_fixed(const json_t *value, const char *fixed)
{
    bool same = false;

    while (!same && *fixed != '\0') {
        size_t n = strcspn(fixed, "|");
        json_t *wanted = json_loadb(fixed, n, JSON_DECODE_ANY, NULL);

        same = json_is_number(value) && json_is_number(wanted)
                   ? same_number(json_number_value(wanted), json_number_value(value))
                   : json_equal(value, wanted);
        json_decref(wanted);
        fixed += n + (fixed[n] == '|');
    }
    return same;
}

/* own: the key that is to be set otherwise. */
static pst_status fail_setting(const struct pst_published_key *row, const char *own,
                               const struct pst_job *job, const char *path, const char *theirs,
                               struct pst_error *err)
{
    const struct setting setting = setting_of(job, own);
    char number[32];

    pst_fail(err, PST_ERR_CONFIG, "config.value",
             "\"%s\" in [model] is %s; %s of %s is %s, without which its weights mean something "
             "else",
             own,
             setting.type == PST_PARAM_BOOL ? (setting.number != 0 ? "true" : "false")
             : setting.text[0] != '\0'      ? setting.text
                                            : pst_number_format(number, setting.number),
             row->theirs, path, theirs);
    return pst_config_place(job->config, "model", own, PST_ERR_CONFIG, err);
}

/* A row of the same name that takes the value, for models that are set otherwise. */
static const struct pst_published_key *other_row(const struct pst_published *family,
                                                 const struct pst_published_key *row,
                                                 const json_t *value, const struct pst_job *job)
{
    for (const struct pst_published_key *other = family->keys; other->theirs != NULL; other++) {
        if (strcmp(other->theirs, row->theirs) == 0 && !is_for(other, job) &&
            (other->own != NULL ? can_be(row_of(job, other->own), value)
                                : is_fixed(value, other->fixed))) {
            return other;
        }
    }
    return NULL;
}

/* The key of [model] by which a model would be that row's; false: by a word, or by none. */
static bool deciding_key(const struct pst_published_key *row, const struct pst_job *job,
                         char key[64])
{
    size_t n;
    const char *part = first_failing(row->when, job, &n);

    snprintf(key, 64, "%.*s", (int)(row->own != NULL ? strlen(row->own) : n),
             row->own != NULL ? row->own : part);
    return row->own != NULL || (part[0] != '!' && strchr(key, '=') == NULL);
}

static void warn(const struct pst_published_key *row, const char *path, const char *theirs)
{
    const char *when = row->when == NULL ? "" : row->when + (row->when[0] == '!');

    pst_log(PST_LOG_WARN, "weights", "%s: %s is %.100s, this model computes with %.*s%s%.*s", path,
            row->theirs, theirs, (int)strcspn(row->fixed, "|"), row->fixed,
            row->when == NULL ? "" : ", as model.", (int)strcspn(when, "="), when);
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
    return !is_setting(value, &setting, times(row, job));
}

static pst_status check_row(const struct pst_published *family, const struct pst_published_key *row,
                            const json_t *root, const struct pst_job *job, const char *path,
                            bool tell, struct pst_error *err)
{
    const json_t *value = value_at(root, row->theirs);
    const struct pst_published_key *other;
    char key[64], *text;
    pst_status st = PST_OK;

    if (row->use == PST_KEY_SIZE || value == NULL || json_is_null(value) ||
        (row->unless != NULL && json_is_false(value_at(root, row->unless))) ||
        !differs(row, value, job)) {
        return PST_OK;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10) | JSON_COMPACT);
    if (text == NULL) {
        pst_out_of_memory();
    }
    other = row->own != NULL ? row : other_row(family, row, value, job);
    if (other != NULL && deciding_key(other, job, key)) {
        st = fail_setting(row, key, job, path, text, err);
    } else if (tell) {
        warn(row, path, text);
    }
    free(text);
    return st;
}

pst_status pst_weights_check_config(const char *folder, const struct pst_job *job,
                                    const struct pst_published *family, bool tell,
                                    struct pst_error *err)
{
    char *path = pst_printf("%s/config.json", folder);
    json_t *root = NULL;
    pst_status st = PST_OK;

    if (access(path, F_OK) == 0) {
        st = pst_json_load(path, CONFIG_BYTES, &root, err);
        if (st == PST_OK && !json_is_object(root)) {
            st = pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0, "no JSON object");
        }
    }
    for (const struct pst_published_key *row = family->keys;
         st == PST_OK && root != NULL && row->theirs != NULL; row++) {
        if (applies(family, row, job)) {
            st = check_row(family, row, root, job, path, tell, err);
        }
    }
    json_decref(root);
    free(path);
    return st;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_number(struct pst_json *json, const char *key, const struct setting *setting,
                       double factor)
{
    char number[40];

    if (setting->type == PST_PARAM_INT) {
        pst_json_int(json, key, (int64_t)(factor * setting->number));
        return;
    }
    pst_number_format(number, factor * setting->number); /* a float stays one: readers are strict */
    strcat(number, strpbrk(number, ".en") == NULL ? ".0" : "");
    pst_json_raw(json, key, number);
}

static void put_row(struct pst_json *json, const char *key, const struct pst_published_key *row,
                    const struct pst_job *job)
{
    struct setting setting;
    char *text;

    if (row->own == NULL) {
        text = pst_strndup(row->fixed, strcspn(row->fixed, "|"));
        pst_json_raw(json, key, text);
        free(text);
        return;
    }
    setting = setting_of(job, row->own);
    if (setting.type == PST_PARAM_BOOL) {
        pst_json_bool(json, key, setting.number != 0);
    } else if (setting.type == PST_PARAM_ENUM || setting.type == PST_PARAM_STRING) {
        pst_json_string(json, key, setting.text);
    } else {
        put_number(json, key, &setting, times(row, job));
    }
}

char *pst_weights_config(const struct pst_job *job, const struct pst_published *family)
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
