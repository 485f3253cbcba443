/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage begins where a module begins or where the one before ends. Which modules there are, and
 * which nodes each of them runs, the costed graph says: a module runs the nodes of its path and
 * those of paths beneath it. Of a path that no node has itself nobody knows whether it is called (a
 * ModuleList is not), so it is no place to split at.
 */
#include "exchange/torch_split.h"

#include <string.h>

#include "base/json.h"
#include "graph/costed.h"

#define REFUSE(...) pst_fail(err, PST_ERR_INFEASIBLE, "output.form", __VA_ARGS__)

/* A module: the first `length` characters of a node's path. */
struct module {
    const char *path; /* NULL: there is none */
    size_t length;
};

struct split {
    const struct pst_costed *costed;
    struct pst_arena arena;
    uint32_t *stage_of; /* per node */
    uint32_t n_used;
    struct module *used; /* that stand in the answer already */
};

/* Does a node of that path run in the module? */
static bool runs_in(const struct module *module, const char *path)
{
    return path != NULL && strncmp(path, module->path, module->length) == 0 &&
           (path[module->length] == '\0' || path[module->length] == '.');
}

/* The nodes from the first to the last are those that the module runs, in one call. */
static bool find_nodes(const struct split *split, const struct module *module, uint32_t *ret_first,
                       uint32_t *ret_last)
{
    const struct pst_costed *costed = split->costed;
    uint32_t first = PST_NONE, last = 0, n = 0;
    bool called = false;

    for (uint32_t i = 0; i < costed->n_nodes; i++) {
        if (runs_in(module, costed->nodes[i].module)) {
            first = first == PST_NONE ? i : first;
            last = i;
            n++;
            called = called || costed->nodes[i].module[module->length] == '\0';
        }
    }
    *ret_first = first;
    *ret_last = last;
    return called && n == last - first + 1;
}

static bool is_used(const struct split *split, const struct module *module)
{
    for (uint32_t i = 0; i < split->n_used; i++) {
        if (split->used[i].length == module->length &&
            memcmp(split->used[i].path, module->path, module->length) == 0) {
            return true;
        }
    }
    return false;
}

/* Where in a module a node is to be. A module has one split point: where it fills a stage, the one
   at its end may be the only one there. */
enum place { BEGINS_PART, BEGINS, ENDS };

static bool is_at(const struct split *split, const struct module *module, uint32_t v,
                  enum place place)
{
    const uint32_t n_nodes = split->costed->n_nodes;
    uint32_t first, last;

    if (!find_nodes(split, module, &first, &last) || v != (place == ENDS ? last : first)) {
        return false;
    }
    return place != BEGINS_PART || last + 1 == n_nodes ||
           split->stage_of[last + 1] == split->stage_of[last];
}

/* The outermost module that has node v there. */
static struct module find_module(const struct split *split, uint32_t v, enum place place)
{
    const char *path = split->costed->nodes[v].module;

    for (size_t n = 1; path != NULL && path[n - 1] != '\0'; n++) {
        const struct module module = {path, n};

        if ((path[n] == '.' || path[n] == '\0') && !is_used(split, &module) &&
            is_at(split, &module, v, place)) {
            return module;
        }
    }
    return (struct module){NULL, 0};
}

/* Nodes v - 1 and v are in two stages. */
static pst_status put_split(struct split *split, uint32_t v, struct pst_json *json,
                            struct pst_error *err)
{
    const struct pst_costed_node *nodes = split->costed->nodes;
    struct module module = find_module(split, v, BEGINS_PART);
    bool beginning = module.path != NULL;

    if (module.path == NULL) {
        module = find_module(split, v - 1, ENDS);
    }
    if (module.path == NULL) {
        module = find_module(split, v, BEGINS);
        beginning = true;
    }
    if (module.path == NULL) {
        REFUSE("a stage begins between nodes %.100s and %.100s, where PyTorch cannot split: it "
               "splits before or after a module, at one of the two for each",
               nodes[v - 1].name, nodes[v].name);
        pst_error_hint(
            err, "cut elsewhere, with partitioner.use = \"manual\", or trace with --by-modules");
        return PST_ERR_INFEASIBLE;
    }
    split->used[split->n_used++] = module;
    pst_json_string(json, pst_arena_strndup(&split->arena, module.path, module.length),
                    beginning ? "BEGINNING" : "END");
    return PST_OK;
}

static pst_status check_modules(const struct pst_costed *costed, struct pst_error *err)
{
    for (uint32_t v = 0; v < costed->n_nodes; v++) {
        if (costed->nodes[v].module != NULL) {
            return PST_OK;
        }
    }
    return REFUSE("no node of costed graph %.100s has a \"module\"; write its file again with "
                  "penstock_from_torch.py",
                  costed->name);
}

/* Stages one after the other, each with nodes of its own. */
static pst_status check_order(const struct pst_plan *plan, struct split *split,
                              struct pst_error *err)
{
    const struct pst_costed *costed = split->costed;
    uint32_t n = 1;

    split->used = pst_arena_array(&split->arena, plan->n_stages, sizeof *split->used);
    split->stage_of = pst_arena_array(&split->arena, costed->n_nodes, sizeof *split->stage_of);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            if (plan->stages[s].nodes[i] < costed->n_nodes) {
                split->stage_of[plan->stages[s].nodes[i]] = s;
            }
        }
    }
    for (uint32_t v = 1; v < costed->n_nodes; v++) {
        if (split->stage_of[v] < split->stage_of[v - 1]) {
            return REFUSE("PyTorch runs node %.100s before %.100s, but the plan has it in a later "
                          "stage; PyTorch's stages are runs of nodes in their order",
                          costed->nodes[v - 1].name, costed->nodes[v].name);
        }
        n += split->stage_of[v] != split->stage_of[v - 1];
    }
    return n == plan->n_stages ? PST_OK
                               : REFUSE("the last stage has only the loss; use fewer stages");
}

pst_status pst_torch_split_of_plan(const struct pst_plan *plan, const struct pst_graph *graph,
                                   char **ret_text, struct pst_error *err)
{
    struct split split = {.costed = graph->costed};
    struct pst_json json;
    pst_status status;

    if (graph->costed == NULL) {
        return REFUSE("split points are paths of PyTorch modules, but model %s has none; set "
                      "[model] use = \"costed\"",
                      graph->name);
    }
    status = check_modules(split.costed, err);
    PST_TRY(status, check_order(plan, &split, err));
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    for (uint32_t v = 1; status == PST_OK && v < split.costed->n_nodes; v++) {
        if (split.stage_of[v] != split.stage_of[v - 1]) {
            status = put_split(&split, v, &json, err);
        }
    }
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    if (status == PST_OK) {
        *ret_text = pst_json_take(&json);
    } else {
        pst_json_finish(&json);
    }
    pst_arena_finish(&split.arena);
    return status;
}
