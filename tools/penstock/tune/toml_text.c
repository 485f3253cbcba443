/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/toml_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "tune/combinations_impl.h"

/* Keys whose texts are paths, in any table; the first N_LISTS may be several with ':' or a new line
   between them. */
enum { N_LISTS = 5 };
static const char *const path_keys[] = {
    "train", "valid", "train_labels", "valid_labels", "path", "tokenizer",  "init",
    "file",  "plan",  "folder",       "trace",        "log",  "tensorboard"};

bool pst_toml_is_name(const char *file)
{
    return strlen(file) > 5 && pst_text_ends(file, ".toml");
}

/* The characters that separate paths at this key; NULL: it has none. */
static const char *separators_of(const char *key)
{
    for (size_t i = 0; i < sizeof path_keys / sizeof *path_keys; i++) {
        if (strcmp(path_keys[i], key) == 0) {
            return i < N_LISTS ? ":\n" : "";
        }
    }
    return NULL;
}

/* The paths, which are meant from the current folder, from anywhere. */
static json_t *absolute(const char *paths, const char *separators, const char *folder)
{
    char *text = pst_strdup("");
    json_t *value;

    while (*paths != '\0') {
        const size_t n = strcspn(paths, separators), with = n + (paths[n] != '\0');
        char *longer = pst_printf("%s%s%s%.*s", text, n > 0 && paths[0] != '/' ? folder : "",
                                  n > 0 && paths[0] != '/' ? "/" : "", (int)with, paths);

        free(text);
        text = longer;
        paths += with;
    }
    value = pst_json_made(json_string(text));
    free(text);
    return value;
}

static void resolve_all(json_t *node, const char *folder)
{
    const char *key;
    json_t *value;
    size_t i;

    json_array_foreach(node, i, value)
    {
        resolve_all(value, folder);
    }
    json_object_foreach(node, key, value)
    {
        const char *separators = separators_of(key);

        if (json_is_string(value) && separators != NULL && json_string_length(value) > 0) {
            if (json_object_set_new(node, key,
                                    absolute(json_string_value(value), separators, folder)) != 0) {
                pst_out_of_memory();
            }
        } else {
            resolve_all(value, folder);
        }
    }
}

static void put_key(FILE *out, const char *key)
{
    const bool bare =
        strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
            strlen(key) &&
        key[0] != '\0';

    fprintf(out, bare ? "%s = " : "\"%s\" = ", key);
}

/* In one line. A text is the same in JSON and TOML, but for the one character of the latter. */
static void put_value(FILE *out, const json_t *value)
{
    const char *key, *separator = "";
    const json_t *one;
    char *text;
    size_t i;

    if (json_is_object(value)) {
        fputs("{ ", out);
        json_object_foreach((json_t *)value, key, one)
        {
            fputs(separator, out);
            put_key(out, key);
            put_value(out, one);
            separator = ", ";
        }
        fputs(" }", out);
        return;
    }
    if (json_is_array(value)) {
        fputc('[', out);
        json_array_foreach((json_t *)value, i, one)
        {
            fputs(separator, out);
            put_value(out, one);
            separator = ", ";
        }
        fputc(']', out);
        return;
    }
    text = pst_json_text(value);
    for (const char *at = text; *at != '\0'; at++) {
        fprintf(out, *at == 0x7F ? "\\u007F" : "%c", *at);
    }
    free(text);
}

static void put_table(FILE *out, const char *form, const char *name, const json_t *table)
{
    const char *key;
    const json_t *value;

    fprintf(out, form, name);
    json_object_foreach((json_t *)table, key, value)
    {
        put_key(out, key);
        put_value(out, value);
        fputc('\n', out);
    }
}

static void put_config(FILE *out, const json_t *config)
{
    const char *key;
    const json_t *value, *one;
    size_t i;

    json_object_foreach((json_t *)config, key, value)
    {
        if (json_is_object(value)) {
            put_table(out, "\n[%s]\n", key, value);
        }
        json_array_foreach((json_t *)value, i, one)
        {
            put_table(out, "\n[[%s]]\n", key, one);
        }
    }
}

char *pst_toml_of_config(const char *config_json, const char *file, const char *plan)
{
    json_t *config = pst_json_made(json_loads(config_json, 0, NULL)), *run;
    char folder[4096], *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    if (strchr(file, '/') != NULL && getcwd(folder, sizeof folder) != NULL) {
        resolve_all(config, folder);
    }
    fputs("# Written by penstock tune.\n", out);
    if (plan != NULL) {
        const char *slash = strrchr(plan, '/');

        fputs("# Remove run.plan to search for a plan again, as after a change of strategies.\n",
              out);
        run = json_object_get(config, "run");
        run = run == NULL ? pst_json_made(json_object()) : json_incref(run);
        if (json_object_set_new(
                run, "plan", pst_json_made(json_string(slash == NULL ? plan : slash + 1))) != 0 ||
            json_object_set_new(config, "run", run) != 0) {
            pst_out_of_memory();
        }
    }
    put_config(out, config);
    json_decref(config);
    if (ferror(out) != 0 || fclose(out) != 0) {
        pst_out_of_memory();
    }
    return text;
}
