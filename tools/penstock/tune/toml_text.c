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
#include "tune/config_paths.h"

bool pst_toml_is_name(const char *file)
{
    return strlen(file) > 5 && pst_text_ends(file, ".toml");
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
    char folder[4096], *text = NULL;
    const bool moves = strchr(file, '/') != NULL && getcwd(folder, sizeof folder) != NULL;
    char *moved =
        moves ? pst_config_paths_move(config_json, folder, PST_PATHS_ALL) : pst_strdup(config_json);
    json_t *config = pst_json_made(json_loads(moved, 0, NULL)), *run;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    free(moved);
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
