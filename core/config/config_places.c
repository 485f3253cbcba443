/* SPDX-License-Identifier: Apache-2.0
 *
 * Where every key and value of a config stands, apart from its JSON form: with both, another
 * process reports mistakes at the same file, line and column.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"
#include "config/config.h"

static void write_place(struct pst_json *json, const struct pst_config_node *node)
{
    pst_json_array(json, NULL);
    pst_json_string(json, NULL, node->file);
    pst_json_uint(json, NULL, node->line);
    pst_json_uint(json, NULL, node->column);
    pst_json_uint(json, NULL, node->key_line);
    pst_json_uint(json, NULL, node->key_column);
    pst_json_end(json, ']');
    for (uint32_t i = 0; i < node->n_children; i++) {
        write_place(json, node->children[i]);
    }
}

char *pst_config_places_to_json(const struct pst_config *config)
{
    struct pst_json json;

    pst_json_init(&json);
    pst_json_array(&json, NULL);
    pst_json_string(&json, NULL, config->path);
    write_place(&json, config->root);
    pst_json_end(&json, ']');
    return pst_json_take(&json);
}

struct reader {
    struct pst_arena *arena;
    json_t *rows;
    size_t next;
    const char *last; /* the file of the node before: most nodes share one */
    bool broken;
};

static const char *copy_file(struct reader *reader, const char *file)
{
    if (file == NULL || (reader->last != NULL && strcmp(file, reader->last) == 0)) {
        return file == NULL ? NULL : reader->last;
    }
    reader->last = pst_arena_strdup(reader->arena, file);
    return reader->last;
}

/* The same order as in write_place: a node, then its children. */
static void read_place(struct reader *reader, struct pst_config_node *node)
{
    json_t *row = json_array_get(reader->rows, reader->next++);

    if (json_array_size(row) != 5) {
        reader->broken = true;
        return;
    }
    node->file = copy_file(reader, json_string_value(json_array_get(row, 0)));
    node->line = (uint32_t)json_integer_value(json_array_get(row, 1));
    node->column = (uint32_t)json_integer_value(json_array_get(row, 2));
    node->key_line = (uint32_t)json_integer_value(json_array_get(row, 3));
    node->key_column = (uint32_t)json_integer_value(json_array_get(row, 4));
    for (uint32_t i = 0; i < node->n_children; i++) {
        read_place(reader, node->children[i]);
    }
}

pst_status pst_config_places_from_json(struct pst_config *config, const char *json,
                                       struct pst_error *err)
{
    struct reader reader = {.arena = &config->arena, .rows = json_loads(json, 0, NULL), .next = 1};
    const char *path = json_string_value(json_array_get(reader.rows, 0));

    read_place(&reader, config->root);
    if (path != NULL) {
        config->path = pst_arena_strdup(&config->arena, path);
    }
    reader.broken = reader.broken || reader.next != json_array_size(reader.rows);
    json_decref(reader.rows);
    return reader.broken ? pst_fail(err, PST_ERR_CONFIG, "config.syntax",
                                    "the places do not belong to this config")
                         : PST_OK;
}
