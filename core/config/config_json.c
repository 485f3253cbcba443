/* SPDX-License-Identifier: Apache-2.0
 *
 * The effective config as JSON, for the provenance of a plan, and back; and all of it, with the
 * place of every key and value, to another process, so that mistakes are reported there as here.
 */
#include "config/config.h"

#include <jansson.h>

#include "base/json.h"
#include "base/memory.h"
#include "config/tree.h"
#include "base/wire.h"

static void write_node(struct pst_json *json, const struct pst_config_node *node)
{
    switch (node->kind) {
    case PST_CONFIG_TABLE:
    case PST_CONFIG_ARRAY:
        if (node->kind == PST_CONFIG_TABLE) {
            pst_json_object(json, node->key);
        } else {
            pst_json_array(json, node->key);
        }
        for (uint32_t i = 0; i < node->n_children; i++) {
            write_node(json, node->children[i]);
        }
        pst_json_end(json, node->kind == PST_CONFIG_TABLE ? '}' : ']');
        break;
    case PST_CONFIG_STRING:
        pst_json_string(json, node->key, node->value.string);
        break;
    case PST_CONFIG_INT:
        pst_json_int(json, node->key, node->value.integer);
        break;
    case PST_CONFIG_FLOAT:
        pst_json_float(json, node->key, node->value.number);
        break;
    default:
        pst_json_bool(json, node->key, node->value.boolean);
    }
}

char *pst_config_value_json(const struct pst_config_node *node)
{
    struct pst_config_node value = *node;
    struct pst_json json;

    value.key = NULL;
    pst_json_init(&json);
    write_node(&json, &value);
    return pst_json_take(&json);
}

char *pst_config_to_json(const struct pst_config *config)
{
    return pst_config_value_json(config->root);
}

static pst_status read_node(struct pst_config_reader *reader, json_t *value, const char *key,
                            uint32_t depth, struct pst_config_node **ret_node,
                            struct pst_error *err);

static pst_status read_children(struct pst_config_reader *reader, json_t *value, uint32_t depth,
                                struct pst_config_node *node, struct pst_error *err)
{
    struct pst_config_node *child;
    pst_status status = PST_OK;
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_object(value)) {
        json_object_foreach(value, key, item)
        {
            status = read_node(reader, item, key, depth + 1, &child, err);
            if (status != PST_OK) {
                return status;
            }
            pst_tree_append(reader->arena, node, child);
        }
        return PST_OK;
    }
    json_array_foreach(value, i, item)
    {
        status = read_node(reader, item, NULL, depth + 1, &child, err);
        if (status != PST_OK) {
            return status;
        }
        pst_tree_append(reader->arena, node, child);
    }
    return PST_OK;
}

static pst_status read_node(struct pst_config_reader *reader, json_t *value, const char *key,
                            uint32_t depth, struct pst_config_node **ret_node,
                            struct pst_error *err)
{
    struct pst_config_node *node = pst_tree_node(reader->arena, PST_CONFIG_TABLE, key);

    if (depth > PST_CONFIG_MAX_NESTING || ++reader->n_values > PST_CONFIG_MAX_VALUES) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit",
                        "config as JSON: nested more than 32 deep, or more than 10000 values");
    }
    *ret_node = node;
    node->resolved = true; /* paths were relative to the current folder when it was written */
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return read_children(reader, value, depth, node, err);
    case JSON_ARRAY:
        node->kind = PST_CONFIG_ARRAY;
        return read_children(reader, value, depth, node, err);
    case JSON_STRING:
        node->kind = PST_CONFIG_STRING;
        node->value.string = pst_arena_strdup(reader->arena, json_string_value(value));
        return PST_OK;
    case JSON_INTEGER:
        node->kind = PST_CONFIG_INT;
        node->value.integer = json_integer_value(value);
        return PST_OK;
    case JSON_REAL:
        node->kind = PST_CONFIG_FLOAT;
        node->value.number = json_real_value(value);
        return PST_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        node->kind = PST_CONFIG_BOOL;
        node->value.boolean = json_is_true(value);
        return PST_OK;
    default:
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "config as JSON: null is not allowed here");
    }
}

pst_status pst_config_from_json(const char *text, struct pst_config **ret_config,
                                struct pst_error *err)
{
    struct pst_config *config = pst_alloc(1, sizeof *config);
    struct pst_config_reader reader = {.config = config};
    json_error_t fault;
    json_t *root;
    pst_status status;

    reader.arena = &config->arena;
    config->path = "";
    root = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(root)) {
        status = pst_fail(err, PST_ERR_CONFIG, "config.syntax", "config as JSON: %s",
                          root == NULL ? fault.text : "not an object");
    } else {
        status = read_node(&reader, root, NULL, 0, &config->root, err);
    }
    json_decref(root);
    if (status != PST_OK) {
        pst_config_destroy(config);
        return status;
    }
    *ret_config = config;
    return PST_OK;
}

/* --- to another process -----------------------------------------------------------------------*/

static void pass_node(struct pst_wire *w, struct pst_config_node **at)
{
    struct pst_config_node *node = w->reads ? pst_tree_node(w->arena, 0, NULL) : *at;
    uint32_t n = node->n_children;

    pst_wire_uint(w, &node->kind);
    pst_wire_text(w, &node->key);
    pst_wire_text(w, &node->file);
    pst_wire_uint(w, &node->line);
    pst_wire_uint(w, &node->column);
    pst_wire_uint(w, &node->key_line);
    pst_wire_uint(w, &node->key_column);
    pst_wire_flag(w, &node->resolved);
    if (node->kind == PST_CONFIG_STRING) {
        pst_wire_text(w, &node->value.string);
    } else {
        pst_wire_bytes(w, &node->value, sizeof node->value);
    }
    pst_wire_count(w, &n, sizeof(uint64_t));
    for (uint32_t i = 0; !w->failed && i < n; i++) {
        struct pst_config_node *child = w->reads ? NULL : node->children[i];

        pass_node(w, &child);
        if (w->reads) {
            pst_tree_append(w->arena, node, child);
        }
    }
    *at = node;
}

void pst_config_pass(struct pst_wire *w, struct pst_config **config)
{
    if (w->reads) {
        *config = pst_alloc(1, sizeof **config);
    }
    pst_wire_text(w, &(*config)->path);
    pass_node(w, &(*config)->root);
}
