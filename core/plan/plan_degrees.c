/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor degrees of a plan file, read before the rest: the graph whose operators the plan names
 * is made by them.
 */
#include <jansson.h>

#include "base/names.h"
#include "config/json_fields.h"
#include "plan/plan.h"

static uint16_t read_degree(const json_t *stage, struct pst_fields *fields)
{
    const json_t *tensor = json_object_get(stage, "tensor");
    const json_int_t degree = tensor == NULL ? 1 : json_integer_value(tensor);

    if (degree < 1 || degree > UINT16_MAX) {
        pst_fields_fail(fields, NULL, "tensor", "expected a number of devices from 2 to %d",
                        UINT16_MAX);
        return 1;
    }
    return (uint16_t)degree;
}

/* Conversions have names that no operator of the whole has. */
static void take_stage(const json_t *stage, const struct pst_graph *whole, uint16_t degree,
                       uint16_t *degree_of)
{
    const json_t *nodes = json_object_get(stage, "nodes");

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const char *name = json_string_value(json_array_get(nodes, i));
        const uint32_t v = name == NULL ? PST_NONE : pst_names_find(&whole->op_names, name);

        if (v != PST_NONE) {
            degree_of[v] = degree;
        }
    }
}

pst_status pst_plan_read_degrees(const char *name, const char *text, size_t length,
                                 const struct pst_graph *whole, uint16_t *ret_degree_of,
                                 struct pst_error *err)
{
    struct pst_fields fields = {.path = name, .err = err};
    json_t *root = NULL, *stages;
    pst_status status = pst_json_parse(name, text, length, &root, err);

    if (status != PST_OK) {
        return status;
    }
    stages = json_object_get(root, "stages");
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        ret_degree_of[v] = 1;
    }
    for (size_t s = 0; s < json_array_size(stages); s++) {
        const json_t *stage = json_array_get(stages, s);
        const size_t mark = pst_fields_enter(&fields, "stages", s);
        const uint16_t degree = read_degree(stage, &fields);

        for (uint32_t v = 0; s == 0 && v < whole->n_ops; v++) { /* those that are in no stage */
            ret_degree_of[v] = degree;
        }
        take_stage(stage, whole, degree, ret_degree_of);
        pst_fields_leave(&fields, mark);
    }
    json_decref(root);
    return fields.status;
}
