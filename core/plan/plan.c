/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static const char *const instr_names[PST_I_COUNT] = {
    [PST_I_F] = "F",         [PST_I_B] = "B",
    [PST_I_W] = "W",         [PST_I_BW] = "BW",
    [PST_I_R] = "R",         [PST_I_SEND] = "SEND",
    [PST_I_RECV] = "RECV",   [PST_I_OFFLOAD] = "OFFLOAD",
    [PST_I_FETCH] = "FETCH", [PST_I_REDUCE] = "REDUCE",
    [PST_I_TIE] = "TIE",     [PST_I_NORM] = "NORM",
    [PST_I_STEP] = "STEP",   [PST_I_GATHER] = "GATHER",
    [PST_I_MERGE] = "MERGE",
};

const char *pst_instr_name(uint32_t op)
{
    return op < PST_I_COUNT && instr_names[op] != NULL ? instr_names[op] : "?";
}

const char *pst_payload_name(uint32_t payload)
{
    static const char *const names[PST_PAYLOAD_COUNT] = {"act", "grad", "evict", "load"};

    return payload < PST_PAYLOAD_COUNT ? names[payload] : "?";
}

uint32_t pst_plan_node(const struct pst_plan_stage *stage, uint32_t op)
{
    uint32_t at = pst_first_from(stage->nodes, stage->n_nodes, op);

    return at < stage->n_nodes && stage->nodes[at] == op ? at : PST_NONE;
}

void pst_plan_create(const struct pst_graph *graph, uint32_t batch, uint32_t n_devices,
                     struct pst_plan **ret_plan)
{
    struct pst_plan *plan = pst_alloc(1, sizeof *plan);

    plan->batch = batch;
    plan->step_batch = batch;
    plan->slices = graph->slices;
    plan->version_rule = PST_VERSION_SYNC;
    plan->copies = 1;
    plan->barrier = true;
    plan->n_devices = n_devices;
    plan->capacity_bytes = UINT64_MAX;
    plan->kept_output = PST_NONE;
    plan->graph_digest = graph->digest;
    plan->devices = pst_arena_array(&plan->arena, n_devices, sizeof *plan->devices);
    *ret_plan = plan;
}

void pst_plan_copy_devices(struct pst_plan *plan, const struct pst_plan *from)
{
    plan->capacity_bytes = from->capacity_bytes;
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        plan->devices[r].lacks_bytes = from->devices[r].lacks_bytes;
        plan->devices[r].kind = pst_arena_strdup(&plan->arena, from->devices[r].kind);
    }
}

void pst_plan_destroy(struct pst_plan *plan)
{
    if (plan != NULL) {
        pst_arena_finish(&plan->arena);
        free(plan);
    }
}

void pst_plan_add_stage(struct pst_plan *plan, const uint32_t *nodes, uint32_t n_nodes,
                        const uint32_t *ranks, uint32_t n_ranks, uint32_t microbatch_size,
                        uint32_t k)
{
    struct pst_plan_stage *stage;

    /* Room doubles whenever the count reaches a power of two. */
    if ((plan->n_stages & (plan->n_stages - 1)) == 0) {
        uint32_t room = plan->n_stages == 0 ? 1 : 2 * plan->n_stages;
        struct pst_plan_stage *grown = pst_arena_array(&plan->arena, room, sizeof *grown);
        if (plan->n_stages > 0) {
            memcpy(grown, plan->stages, plan->n_stages * sizeof *grown);
        }
        plan->stages = grown;
    }
    stage = &plan->stages[plan->n_stages];
    memset(stage, 0, sizeof *stage);
    stage->nodes = pst_arena_copy(&plan->arena, nodes, n_nodes, sizeof *nodes);
    stage->n_nodes = n_nodes;
    stage->actions = pst_arena_array(&plan->arena, n_nodes, 1);
    stage->ranks = pst_arena_copy(&plan->arena, ranks, n_ranks, sizeof *ranks);
    stage->n_ranks = n_ranks;
    stage->tensor = 1;
    stage->microbatch_size = microbatch_size;
    stage->k = k;
    stage->n_microbatches = microbatch_size == 0 ? 0 : plan->batch / microbatch_size;
    stage->weight_versions = 1;
    plan->n_stages++;
}

/* --- edges and ties ----------------------------------------------------------------------------*/

struct crossing {
    uint32_t from, to, tensor;
};

static int compare_crossings(const void *a, const void *b)
{
    const struct crossing *x = a, *y = b;

    return PST_COMPARE_KEYS({x->from, y->from}, {x->to, y->to}, {x->tensor, y->tensor});
}

/* Every (producing stage, reading stage, tensor), once. */
static uint32_t find_crossings(const struct pst_graph *graph, const uint32_t *stage_of,
                               struct crossing *ret_crossings)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        const struct pst_tensor *tensor = &graph->tensors[t];
        uint32_t from;

        if (tensor->producer == PST_NONE) {
            continue;
        }
        from = stage_of[tensor->producer];
        for (uint32_t i = 0; i < tensor->n_consumers; i++) {
            uint32_t to = stage_of[tensor->consumers[i]];
            bool seen = to == from;

            for (uint32_t j = 0; j < i && !seen; j++) {
                seen = stage_of[tensor->consumers[j]] == to;
            }
            if (!seen) {
                ret_crossings[n++] = (struct crossing){from, to, t};
            }
        }
    }
    return n;
}

static void make_edges(struct pst_plan *plan, const struct pst_graph *graph,
                       struct crossing *crossings, uint32_t n)
{
    uint32_t *tensors = pst_arena_array(&plan->arena, n, sizeof *tensors);
    uint32_t n_edges = 0;

    if (n > 0) {
        qsort(crossings, n, sizeof *crossings, compare_crossings);
    }
    plan->edges = pst_arena_array(&plan->arena, n, sizeof *plan->edges);
    for (uint32_t i = 0; i < n; i++) {
        struct pst_plan_edge *edge = n_edges > 0 ? &plan->edges[n_edges - 1] : NULL;

        if (edge == NULL || edge->from != crossings[i].from || edge->to != crossings[i].to) {
            edge = &plan->edges[n_edges++];
            edge->from = crossings[i].from;
            edge->to = crossings[i].to;
            edge->tensors = &tensors[i];
        }
        tensors[i] = crossings[i].tensor;
        edge->n_tensors++;
        edge->bytes_per_sample += graph->tensors[tensors[i]].bytes;
    }
    plan->n_edges = n_edges;
}

static void make_ties(struct pst_plan *plan, const struct pst_graph *graph,
                      const uint32_t *stage_of)
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < graph->n_params; p++) {
        n += graph->params[p].n_users > 1;
    }
    plan->ties = pst_arena_array(&plan->arena, n, sizeof *plan->ties);
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct pst_parameter *parameter = &graph->params[p];
        uint32_t *stages;
        uint32_t count = 0;

        if (parameter->n_users < 2) {
            continue;
        }
        stages = pst_arena_array(&plan->arena, parameter->n_users, sizeof *stages);
        for (uint32_t u = 0; u < parameter->n_users; u++) {
            uint32_t stage = stage_of[parameter->users[u]], at = count;

            while (at > 0 && stages[at - 1] > stage) {
                at--;
            }
            if (at > 0 && stages[at - 1] == stage) {
                continue;
            }
            memmove(&stages[at + 1], &stages[at], (count - at) * sizeof *stages);
            stages[at] = stage;
            count++;
        }
        plan->ties[plan->n_ties++] = (struct pst_plan_tie){p, count, stages};
    }
}

pst_status pst_plan_connect(struct pst_plan *plan, const struct pst_graph *graph,
                            struct pst_error *err)
{
    uint32_t *stage_of = pst_alloc(graph->n_ops + 1, sizeof *stage_of);
    struct crossing *crossings = NULL;
    size_t uses = 1;
    pst_status status = PST_OK;

    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        uses += graph->tensors[t].n_consumers;
    }
    crossings = pst_alloc(uses, sizeof *crossings);
    memset(stage_of, 0xFF, (graph->n_ops + 1) * sizeof *stage_of);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            if (plan->stages[s].nodes[i] < graph->n_ops) {
                stage_of[plan->stages[s].nodes[i]] = s;
            }
        }
    }
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        if (stage_of[v] == PST_NONE) {
            status =
                pst_fail(err, PST_ERR_BUG, "plan.illegal",
                         "PART1: operator %s is in no stage; every operator belongs to exactly one",
                         graph->ops[v].name);
            goto out;
        }
    }
    make_edges(plan, graph, crossings, find_crossings(graph, stage_of, crossings));
    make_ties(plan, graph, stage_of);
out:
    free(crossings);
    free(stage_of);
    return status;
}

uint32_t pst_plan_used_devices(const struct pst_plan *plan)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < plan->n_devices; d++) {
        uint32_t s = 0;

        while (s < plan->n_stages && pst_plan_replica(&plan->stages[s], d) == PST_NONE) {
            s++;
        }
        n += s < plan->n_stages;
    }
    return n;
}

char *pst_plan_devices_text(const struct pst_plan *plan, char text[PST_DEVICES_TEXT])
{
    uint32_t n_used = pst_plan_used_devices(plan);

    if (n_used == plan->n_devices) {
        snprintf(text, PST_DEVICES_TEXT, "%u", n_used);
    } else {
        snprintf(text, PST_DEVICES_TEXT, "%u of %u", n_used, plan->n_devices);
    }
    return text;
}

bool pst_plan_tie_has(const struct pst_plan *plan, uint32_t tie, uint32_t rank)
{
    const struct pst_plan_tie *members = &plan->ties[tie];
    uint32_t i = 0;

    while (i < members->n_stages &&
           pst_plan_replica(&plan->stages[members->stages[i]], rank) == PST_NONE) {
        i++;
    }
    return i < members->n_stages;
}

bool pst_plan_merges(const struct pst_plan_stage *stage, const struct pst_graph *graph)
{
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        if (graph->ops[stage->nodes[n]].partial != 0) {
            return true;
        }
    }
    return false;
}

uint32_t pst_plan_logical(const struct pst_plan *plan, uint32_t *ret_device_of)
{
    uint32_t n = 0;

    memset(ret_device_of, 0xFF, plan->n_devices * sizeof *ret_device_of);
    for (uint32_t i = 0; i < plan->n_stages * plan->copies; i++) { /* their lowest, for now */
        const struct pst_plan_stage *stage = &plan->stages[i / plan->copies];
        struct pst_plan_stage copy = {
            .ranks = pst_plan_copy_ranks(plan, stage, i % plan->copies),
            .n_ranks = pst_plan_width(plan, stage),
        };

        for (uint32_t r = 0; r < copy.n_ranks; r++) {
            ret_device_of[copy.ranks[r]] = pst_plan_lowest(&copy);
        }
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        bool first = ret_device_of[r] == PST_NONE || ret_device_of[r] == r;

        ret_device_of[r] = first ? n++ : ret_device_of[ret_device_of[r]];
    }
    return n;
}

static uint32_t size_idle(uint32_t n_ranks, const uint32_t *size_of)
{
    uint32_t size = 1;
    bool even = true;

    for (uint32_t r = 0; r < n_ranks; r++) {
        size = size_of[r] > size ? size_of[r] : size;
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        even &= size_of[r] == 0 || (size_of[r] == size && r % size == 0);
    }
    return even && n_ranks % size == 0 ? size : 1;
}

uint32_t pst_plan_number_groups(uint32_t n_ranks, uint32_t *io_group_of)
{
    const uint32_t idle = size_idle(n_ranks, io_group_of);
    uint32_t n = 0;

    for (uint32_t first = 0, end; first < n_ranks; first = end, n++) {
        end = first + (io_group_of[first] > 0 ? io_group_of[first] : idle);
        end = end < n_ranks ? end : n_ranks;
        for (uint32_t r = first; r < end; r++) {
            io_group_of[r] = n;
        }
    }
    return n;
}

uint32_t pst_plan_groups(const struct pst_plan *plan, uint32_t *ret_group_of)
{
    memset(ret_group_of, 0, plan->n_devices * sizeof *ret_group_of);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        for (uint32_t i = 0; i < stage->n_ranks; i += stage->tensor) {
            ret_group_of[stage->ranks[i]] = stage->tensor;
        }
    }
    return pst_plan_number_groups(plan->n_devices, ret_group_of);
}

/* Counts on one rank go on from list to list. */
struct count {
    uint32_t held, most, row, longest;
    bool backward;
};

static void count_pass(struct count *count, uint8_t op)
{
    count->held += op == PST_I_F;
    count->held -= op == PST_I_W || op == PST_I_BW;
    count->most = count->held > count->most ? count->held : count->most;
    if (op == PST_I_B || op == PST_I_BW) {
        count->backward = true;
        count->row = 0;
    } else if (op == PST_I_F && count->backward) {
        count->row++;
        count->longest = count->row > count->longest ? count->row : count->longest;
    }
}

void pst_plan_count(const struct pst_plan *plan, uint32_t s, uint32_t *ret_held, uint32_t *ret_row)
{
    const struct pst_plan_stage *stage = &plan->stages[s];

    *ret_held = *ret_row = 0;
    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        struct count count = {0};

        for (uint32_t part = 0; part < PST_PARTS; part++) {
            uint32_t n;
            const struct pst_instr *list = pst_plan_list(&plan->devices[stage->ranks[r]], part, &n);

            for (uint32_t i = 0; i < n; i++) {
                if (list[i].stage == s && list[i].op < PST_I_SEND) {
                    count_pass(&count, list[i].op);
                }
            }
        }
        *ret_held = count.most > *ret_held ? count.most : *ret_held;
        *ret_row = count.longest > *ret_row ? count.longest : *ret_row;
    }
    *ret_row = *ret_row > 0 ? *ret_row : 1;
}
