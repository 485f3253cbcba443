/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan as JSON text, one stage, edge or instruction a line: the same plan gives the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "plan/plan_file.h"

static void put_u64(struct pst_json *json, const char *key, uint64_t value)
{
    if (value < PST_PLAN_FILE_EXACT) {
        pst_json_uint(json, key, value);
    } else {
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        pst_json_string(json, key, text);
    }
}

static void put_u32_array(struct pst_json *json, const char *key, const uint32_t *values,
                          uint32_t n)
{
    pst_json_array(json, key);
    for (uint32_t i = 0; i < n; i++) {
        pst_json_uint(json, NULL, values[i]);
    }
    pst_json_end(json, ']');
}

static void put_provenance(struct pst_json *json, const struct pst_plan *plan)
{
    char digest[20];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)plan->graph_digest);
    pst_json_object(json, "provenance");
    pst_json_raw(json, "config", plan->config_json != NULL ? plan->config_json : "null");
    pst_json_string(json, "partitioner", plan->partitioner);
    pst_json_string(json, "scheduler", plan->scheduler);
    pst_json_string(json, "memopt", plan->memopt);
    pst_json_bool(json, "isolated", plan->isolated);
    pst_json_string(json, "graph_digest", digest);
    if (plan->capacity_bytes == UINT64_MAX) {
        pst_json_raw(json, "capacity_bytes", "null");
    } else {
        put_u64(json, "capacity_bytes", plan->capacity_bytes);
    }
    pst_json_uint(json, "optimizer_slots", plan->optimizer_slots);
    pst_json_end(json, '}');
}

/* Names of the operators with one action. */
static void put_actions(struct pst_json *json, const char *key, const struct pst_plan_stage *stage,
                        const struct pst_graph *graph, uint32_t action)
{
    pst_json_array(json, key);
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        if (stage->actions[n] == action) {
            pst_json_string(json, NULL, graph->ops[stage->nodes[n]].name);
        }
    }
    pst_json_end(json, ']');
}

/* Replays of the stage, by the names of the operators; where there are any. */
static void put_sequence(struct pst_json *json, const struct pst_plan_stage *stage,
                         const struct pst_graph *graph)
{
    if (stage->n_replays == 0) {
        return;
    }
    pst_json_array(json, "sequence");
    for (uint32_t i = 0; i < stage->n_replays; i++) {
        const struct pst_replay *r = &stage->replays[i];
        pst_json_array(json, NULL);
        pst_json_string(json, NULL, graph->ops[stage->nodes[r->before]].name);
        pst_json_string(json, NULL, graph->ops[stage->nodes[r->first]].name);
        pst_json_string(json, NULL, graph->ops[stage->nodes[r->last]].name);
        pst_json_end(json, ']');
    }
    pst_json_end(json, ']');
}

static void put_stage(struct pst_json *json, const struct pst_plan *plan,
                      const struct pst_graph *graph, uint32_t s)
{
    const struct pst_plan_stage *stage = &plan->stages[s];
    pst_json_newline(json);
    pst_json_object(json, NULL);
    pst_json_uint(json, "id", s);
    pst_json_array(json, "nodes");
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        pst_json_string(json, NULL, graph->ops[stage->nodes[n]].name);
    }
    pst_json_end(json, ']');
    put_u32_array(json, "devices", stage->ranks, stage->n_ranks);
    pst_json_uint(json, "microbatch_size", stage->microbatch_size);
    pst_json_uint(json, "k", stage->k);
    pst_json_uint(json, "in_flight", stage->in_flight);
    pst_json_uint(json, "weight_versions", stage->weight_versions);
    put_actions(json, "recompute", stage, graph, PST_ACTION_RECOMPUTE);
    put_actions(json, "offload", stage, graph, PST_ACTION_OFFLOAD);
    put_actions(json, "peer", stage, graph, PST_ACTION_PEER);
    if (stage->n_guests > 0) {
        pst_json_array(json, "guests");
        for (uint32_t i = 0; i < stage->n_guests; i++) {
            put_u32_array(
                json, NULL,
                &(const uint32_t[]){stage->guests[i].microbatch, stage->guests[i].rank}[0], 2);
        }
        pst_json_end(json, ']');
    }
    put_sequence(json, stage, graph);
    /* of the device that the stage shares with its neighbours there */
    put_u64(json, "peak_bytes",
            stage->n_ranks > 0 && stage->ranks[0] < plan->n_devices
                ? plan->devices[stage->ranks[0]].peak_bytes
                : 0);
    pst_json_end(json, '}');
}

static void put_edges(struct pst_json *json, const struct pst_plan *plan,
                      const struct pst_graph *graph)
{
    pst_json_array(json, "edges");
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        pst_json_newline(json);
        pst_json_object(json, NULL);
        pst_json_uint(json, "id", e);
        pst_json_uint(json, "from", edge->from);
        pst_json_uint(json, "to", edge->to);
        pst_json_array(json, "tensors");
        for (uint32_t t = 0; t < edge->n_tensors; t++) {
            pst_json_string(json, NULL, graph->tensors[edge->tensors[t]].name);
        }
        pst_json_end(json, ']');
        put_u64(json, "bytes_per_sample", edge->bytes_per_sample);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    pst_json_newline(json);
    pst_json_array(json, "ties");
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        pst_json_newline(json);
        pst_json_object(json, NULL);
        pst_json_string(json, "parameter", graph->params[plan->ties[t].parameter].name);
        put_u32_array(json, "stages", plan->ties[t].stages, plan->ties[t].n_stages);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static void put_instr(struct pst_json *json, const struct pst_instr *instr,
                      const struct pst_graph *graph)
{
    pst_json_newline(json);
    pst_json_array(json, NULL);
    pst_json_string(json, NULL, pst_instr_name(instr->op));
    if (instr->op != PST_I_NORM) {
        pst_json_uint(json, NULL, instr->stage);
    }
    if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
        pst_json_string(json, NULL, pst_payload_name(instr->payload));
        pst_json_uint(json, NULL, instr->first_sample);
        pst_json_uint(json, NULL, instr->n_samples);
        pst_json_uint(json, NULL, instr->peer);
    } else if (instr->op < PST_I_SEND) {
        pst_json_uint(json, NULL, instr->microbatch);
    } else if (instr->op == PST_I_OFFLOAD || instr->op == PST_I_FETCH) {
        pst_json_uint(json, NULL, instr->microbatch);
        pst_json_string(json, NULL, graph->ops[instr->node].name);
    }
    if (instr->n_waits > 0) {
        pst_json_object(json, NULL);
        put_u32_array(json, "waits", instr->waits, instr->n_waits);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static void put_device(struct pst_json *json, const struct pst_plan *plan,
                       const struct pst_graph *graph, uint32_t rank)
{
    static const char *const parts[PST_PARTS] = {"fill", "body", "drain"};
    const struct pst_plan_device *device = &plan->devices[rank];
    pst_json_newline(json);
    pst_json_object(json, NULL);
    pst_json_uint(json, "rank", rank);
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        uint32_t n;
        const struct pst_instr *list = pst_plan_list(device, (enum pst_part)part, &n);
        pst_json_array(json, parts[part]);
        for (uint32_t i = 0; i < n; i++) {
            put_instr(json, &list[i], graph);
        }
        pst_json_end(json, ']');
    }
    put_u64(json, "peak_bytes", device->peak_bytes);
    put_u64(json, "arena_bytes", device->arena_bytes);
    if (device->host_bytes > 0) {
        put_u64(json, "host_bytes", device->host_bytes);
    }
    pst_json_end(json, '}');
}

static void put_head(struct pst_json *json, const struct pst_plan *plan)
{
    static const char *const rules[] = {
        [PST_VERSION_SYNC] = "sync",
        [PST_VERSION_DELAYED] = "delayed",
        [PST_VERSION_STASHED] = "stashed",
    };
    uint32_t versions = 0;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        versions =
            plan->stages[s].weight_versions > versions ? plan->stages[s].weight_versions : versions;
    }
    pst_json_string(json, "format", "penstock-plan");
    pst_json_int(json, "version", 1);
    pst_json_newline(json);
    put_provenance(json, plan);
    pst_json_newline(json);
    pst_json_uint(json, "batch", plan->batch);
    pst_json_string(json, "mode", plan->asynchronous ? "async" : "sync");
    pst_json_uint(json, "drain_every", plan->drain_every);
    pst_json_bool(json, "barrier", plan->barrier);
    pst_json_bool(json, "deferred_step", plan->deferred_step);
    pst_json_object(json, "versions");
    pst_json_string(json, "rule", rules[plan->version_rule]);
    pst_json_uint(json, "count", versions);
    pst_json_end(json, '}');
    pst_json_newline(json);
}

char *pst_plan_to_json(const struct pst_plan *plan, const struct pst_graph *graph)
{
    struct pst_json json;
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    put_head(&json, plan);
    pst_json_array(&json, "stages");
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        put_stage(&json, plan, graph, s);
    }
    pst_json_end(&json, ']');
    pst_json_newline(&json);
    put_edges(&json, plan, graph);
    pst_json_newline(&json);
    pst_json_array(&json, "devices");
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        put_device(&json, plan, graph, d);
    }
    pst_json_end(&json, ']');
    pst_json_newline(&json);
    pst_json_object(&json, "predicted");
    pst_json_number(&json, "step_us", (double)plan->step_ns / 1000.0);
    pst_json_end(&json, '}');
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    return pst_json_take(&json);
}

pst_status pst_plan_write(const struct pst_plan *plan, const struct pst_graph *graph,
                          const char *path, struct pst_error *err)
{
    char *text = pst_plan_to_json(plan, graph);
    pst_status status = pst_file_write(path, text, strlen(text), err);
    free(text);
    return status;
}
