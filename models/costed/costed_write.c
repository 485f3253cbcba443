/* SPDX-License-Identifier: Apache-2.0
 *
 * The penstock-graph file of a costed graph: a node or an edge on a line, what is 0 left out.
 */
#include <string.h>

#include "base/json.h"
#include "models/costed/costed_impl.h"

static const char *const pass_keys[] = {"forward_us", "backward_input_us", "backward_weight_us"};
static const char *const growth_keys[] = {"forward_growth_us", "backward_input_growth_us",
                                          "backward_input_last_saves_us"};

static void put_us(struct pst_json *json, const char *key, double ns)
{
    double same;

    if (ns != 0) {
        pst_json_number(json, key, pst_costed_us(ns, &same));
    }
}

static void put_bytes(struct pst_json *json, const char *key, double bytes)
{
    if (bytes != 0) {
        pst_json_number(json, key, bytes);
    }
}

static void put_times(struct pst_json *json, const struct pst_costed_node *node)
{
    pst_json_array(json, "times");
    for (uint32_t t = 0; t < node->n_times; t++) {
        pst_json_object(json, NULL);
        pst_json_uint(json, "batch", node->times[t].samples);
        for (uint32_t p = 0; p < 3; p++) {
            put_us(json, pass_keys[p], node->times[t].ns[p]);
        }
        for (uint32_t p = 0; p < 3; p++) {
            put_us(json, growth_keys[p], node->times[t].growth[p]);
        }
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static void put_configs(struct pst_json *json, const struct pst_costed_node *node)
{
    pst_json_array(json, "configs");
    for (uint32_t c = 0; c < node->n_configs; c++) {
        const struct pst_costed_config *config = &node->configs[c];

        pst_json_object(json, NULL);
        pst_json_string(json, "name", config->name);
        pst_json_uint(json, "tensor_degree", config->tensor_degree);
        put_us(json, "time_us", config->ns);
        pst_json_number(json, "param_bytes", config->param_bytes); /* 0 is not the default */
        put_bytes(json, "in_flight_bytes", config->in_flight_bytes);
        put_bytes(json, "fixed_bytes", config->fixed_bytes);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static void put_node(struct pst_json *json, const struct pst_costed_node *node)
{
    pst_json_object(json, NULL);
    pst_json_string(json, "name", node->name);
    pst_json_string(json, "op", node->op);
    if (node->module != NULL) {
        pst_json_string(json, "module", node->module);
    }
    for (uint32_t p = 0; p < 3; p++) {
        put_us(json, pass_keys[p], node->ns[p]);
    }
    put_us(json, "fixed_us", node->fixed_ns);
    if (node->n_times > 0) {
        put_times(json, node);
    }
    put_bytes(json, "param_bytes", node->param_bytes);
    put_bytes(json, "saved_bytes", node->saved_bytes);
    put_bytes(json, "output_bytes", node->output_bytes);
    put_bytes(json, "workspace_bytes", node->workspace_bytes);
    if (node->backward_workspace_bytes != node->workspace_bytes) {
        pst_json_number(json, "backward_workspace_bytes", node->backward_workspace_bytes);
    }
    if (node->n_configs > 0) {
        put_configs(json, node);
    }
    pst_json_end(json, '}');
}

char *pst_costed_write(const struct pst_costed *graph, size_t *ret_length)
{
    struct pst_json json;
    char *text;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "format", "penstock-graph");
    pst_json_uint(&json, "version", 1);
    pst_json_string(&json, "name", graph->name);
    if (graph->notes != NULL) {
        pst_json_string(&json, "notes", graph->notes);
    }
    pst_json_uint(&json, "batch", graph->batch);
    put_bytes(&json, "update_bytes_per_second", graph->update_bytes_per_second);
    if (graph->host_devices > 0) {
        put_us(&json, "host_step_us", graph->host_step_ns);
        put_us(&json, "host_sample_us", graph->host_sample_ns);
        pst_json_uint(&json, "host_devices", graph->host_devices);
    }
    pst_json_array(&json, "nodes");
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        pst_json_newline(&json);
        put_node(&json, &graph->nodes[i]);
    }
    pst_json_end(&json, ']');
    pst_json_array(&json, "edges");
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        const struct pst_costed_edge *edge = &graph->edges[i];

        pst_json_newline(&json);
        pst_json_object(&json, NULL);
        pst_json_string(&json, "from", graph->nodes[edge->from].name);
        pst_json_string(&json, "to", graph->nodes[edge->to].name);
        pst_json_number(&json, "bytes", edge->bytes); /* the default is not 0 */
        pst_json_end(&json, '}');
    }
    pst_json_end(&json, ']');
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    text = pst_json_take(&json);
    *ret_length = strlen(text);
    return text;
}
