/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/config_paths.h"

#include <jansson.h>
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
    "train",       "valid", "train_labels", "valid_labels", "path",  "tokenizer", "init",
    "init_family", "file",  "plan",         "folder",       "trace", "log",       "tensorboard"};

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

struct place {
    const char *folder;
    enum pst_paths which;
};

static bool is_moved(const struct place *place, const char *path, size_t n)
{
    char *moved = pst_printf("%s/%.*s", place->folder, (int)n, path), *here = pst_strndup(path, n);
    const bool is = n > 0 && path[0] != '/' &&
                    (place->which == PST_PATHS_ALL || access(moved, F_OK) == 0) &&
                    (place->which != PST_PATHS_ONLY_THERE || access(here, F_OK) != 0);

    free(moved);
    free(here);
    return is;
}

static json_t *move_paths(const char *paths, const char *separators, const struct place *place)
{
    char *text = pst_strdup("");
    json_t *value;

    while (*paths != '\0') {
        const size_t n = strcspn(paths, separators), with = n + (paths[n] != '\0');
        const bool moves = is_moved(place, paths, n);
        char *longer = pst_printf("%s%s%s%.*s", text, moves ? place->folder : "", moves ? "/" : "",
                                  (int)with, paths);

        free(text);
        text = longer;
        paths += with;
    }
    value = pst_json_made(json_string(text));
    free(text);
    return value;
}

static void set_made(int failed)
{
    if (failed != 0) {
        pst_out_of_memory();
    }
}

static void move_all(json_t *node, const struct place *place)
{
    const char *key;
    json_t *value;
    size_t i;

    json_array_foreach(node, i, value)
    {
        /* operators of the model; others may be ids of plugins */
        if (json_is_string(value) && pst_text_ends(json_string_value(value), ".so")) {
            set_made(json_array_set_new(node, i, move_paths(json_string_value(value), "", place)));
        }
        move_all(value, place);
    }
    json_object_foreach(node, key, value)
    {
        const char *separators = separators_of(key);

        if (json_is_string(value) && separators != NULL && json_string_length(value) > 0) {
            set_made(json_object_set_new(node, key,
                                         move_paths(json_string_value(value), separators, place)));
        } else {
            move_all(value, place);
        }
    }
}

char *pst_config_paths_move(const char *config_json, const char *folder, enum pst_paths which)
{
    const struct place place = {folder, which};
    json_t *config = json_loads(config_json, 0, NULL);
    char *text;

    if (config == NULL) {
        return pst_strdup(config_json);
    }
    move_all(config, &place);
    text = pst_json_text(config);
    json_decref(config);
    return text;
}
