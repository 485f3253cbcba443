/* SPDX-License-Identifier: Apache-2.0
 *
 * From names in a plan file to operators, their results and parameters of the graph.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/plan_file.h"

struct named {
    const char *name;
    uint32_t index;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* Indices 0 ... n - 1 sorted by name; name_at picks the name of one. */
static uint32_t *sort_names(struct pst_plan_reader *reader, uint32_t n,
                            const char *(*name_at)(const struct pst_graph *, uint32_t))
{
    struct named *names = malloc(((size_t)n + 1) * sizeof *names);
    uint32_t *order = pst_arena_array(&reader->plan->arena, (size_t)n + 1, sizeof *order);
    if (names == NULL || order == NULL) {
        free(names);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        names[i] = (struct named){name_at(reader->graph, i), i};
    }
    qsort(names, n, sizeof *names, compare_names);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = names[i].index;
    }
    free(names);
    return order;
}

static const char *op_name(const struct pst_graph *graph, uint32_t i)
{
    return graph->ops[i].name;
}

static const char *param_name(const struct pst_graph *graph, uint32_t i)
{
    return graph->params[i].name;
}

bool pst_plan_index_names(struct pst_plan_reader *reader)
{
    reader->op_order = sort_names(reader, reader->graph->n_ops, op_name);
    reader->param_order = sort_names(reader, reader->graph->n_params, param_name);
    if (reader->op_order == NULL || reader->param_order == NULL) {
        reader->status = pst_fail_nomem(reader->err);
        return false;
    }
    return true;
}

static uint32_t find(struct pst_plan_reader *reader, const uint32_t *order, uint32_t n,
                     const char *(*name_at)(const struct pst_graph *, uint32_t), const char *name,
                     const char *what)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(name_at(reader->graph, order[middle]), name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < n && strcmp(name_at(reader->graph, order[low]), name) == 0) {
        return order[low];
    }
    pst_plan_fail(reader, NULL, "the model has no %s \"%.64s\"", what, name);
    return PST_NONE;
}

uint32_t pst_plan_find_op(struct pst_plan_reader *reader, const char *name)
{
    return find(reader, reader->op_order, reader->graph->n_ops, op_name, name, "operator");
}

uint32_t pst_plan_find_result(struct pst_plan_reader *reader, const char *name)
{
    uint32_t op = pst_plan_find_op(reader, name);
    return op != PST_NONE ? reader->graph->ops[op].out[0] : PST_NONE;
}

uint32_t pst_plan_find_param(struct pst_plan_reader *reader, const char *name)
{
    return find(reader, reader->param_order, reader->graph->n_params, param_name, name,
                "parameter");
}
