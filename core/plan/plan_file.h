/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the plan file: a first look at the text (plan_file_scan.c), fields with their path in
 * messages (plan_file_field.c).
 */
#ifndef PST_PLAN_PLAN_FILE_H
#define PST_PLAN_PLAN_FILE_H

#include <jansson.h>

#include "plan/plan.h"

#define PST_PLAN_FILE_BYTES        ((size_t)2 << 30)
#define PST_PLAN_FILE_NESTING      32
#define PST_PLAN_FILE_STRING       (64u * 1024u)
#define PST_PLAN_FILE_INSTRS       100000000u
#define PST_PLAN_FILE_DEVICES      65536u
#define PST_PLAN_FILE_STAGES       65536u
#define PST_PLAN_FILE_MICROBATCHES (1u << 20)
/* From here on integers are written as strings, because other readers have doubles. */
#define PST_PLAN_FILE_EXACT ((uint64_t)1 << 53)

/*
 * Limits that a parser would only meet after it has allocated: nesting, length of strings, number
 * of arrays. On the way, where the value of provenance.config stands: [*ret_begin, *ret_end), both
 * 0 where there is none. Not a check of the syntax.
 */
pst_status pst_plan_file_scan(const char *path, const char *text, size_t length, size_t *ret_begin,
                              size_t *ret_end, struct pst_error *err);

struct pst_plan_reader {
    const char *path;
    const struct pst_graph *graph;
    struct pst_plan *plan;
    struct pst_error *err;
    pst_status status; /* the first failure; everything after it is skipped */
    char field[192];   /* "devices[2].body[17]" */
    size_t field_length;
    uint32_t *op_order, *param_order; /* indices sorted by name */
    uint64_t n_instrs;
};

/* Enters a field: ".name" or "[index]"; returns what leave takes back. */
size_t pst_plan_enter(struct pst_plan_reader *reader, const char *key);
size_t pst_plan_enter_index(struct pst_plan_reader *reader, size_t index);
void pst_plan_leave(struct pst_plan_reader *reader, size_t mark);

/* input.syntax (kind NULL) or another kind, in front of which the field is named. */
void pst_plan_fail(struct pst_plan_reader *reader, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Members of an object; they fail where the member is missing or of another type. */
json_t *pst_plan_array(struct pst_plan_reader *reader, json_t *object, const char *key);
json_t *pst_plan_object(struct pst_plan_reader *reader, json_t *object, const char *key);
const char *pst_plan_string(struct pst_plan_reader *reader, json_t *object, const char *key);
uint32_t pst_plan_u32(struct pst_plan_reader *reader, json_t *object, const char *key);
uint64_t pst_plan_u64(struct pst_plan_reader *reader, json_t *object, const char *key);
/* An element of an array. */
uint32_t pst_plan_u32_at(struct pst_plan_reader *reader, json_t *array, size_t index);
/* All elements, from the plan's arena. */
uint32_t *pst_plan_u32_array(struct pst_plan_reader *reader, json_t *array);

/* Fails where the object has a key that is not among keys, which NULL ends. */
void pst_plan_known_keys(struct pst_plan_reader *reader, json_t *object, const char *const *keys);

/* Names to indices. PST_NONE and a failure where there is none. */
void pst_plan_index_names(struct pst_plan_reader *reader);
uint32_t pst_plan_find_op(struct pst_plan_reader *reader, const char *name);
/* The result of the operator of that name, which is the tensor's name too. */
uint32_t pst_plan_find_result(struct pst_plan_reader *reader, const char *name);
uint32_t pst_plan_find_param(struct pst_plan_reader *reader, const char *name);

#endif
