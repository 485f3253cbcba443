/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading JSON files: limits, then the parser; and failures of readers that keep the first one and
 * go on to the end, with messages that say where. codec.h reads values.
 */
#ifndef PST_CONFIG_JSON_FIELDS_H
#define PST_CONFIG_JSON_FIELDS_H

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

#define PST_JSON_NESTING 32
#define PST_JSON_STRING  ((size_t)64 << 10)
#define PST_JSON_LISTS   200000000u /* arrays and objects of a file */

/*
 * The value in a file. At most max_bytes, PST_JSON_NESTING brackets deep, strings of at most
 * PST_JSON_STRING bytes, no key twice; a UTF-8 byte order mark is skipped. Errors: those of
 * pst_file_read with input.path; input.limit; input.syntax with line and column. json_decref() it.
 */
pst_status pst_json_load(const char *path, size_t max_bytes, json_t **ret_root,
                         struct pst_error *err);
/* Like pst_json_load, from a text that ends in NUL; path, for messages, may be NULL. */
pst_status pst_json_parse(const char *path, const char *text, size_t length, json_t **ret_root,
                          struct pst_error *err);
/* Finds the value of member `key` of the top-level member `of` in a text that pst_json_parse
   accepts. Returns its length in bytes, 0 if there is none; *ret_at is its first byte. */
size_t pst_json_find(const char *text, size_t length, const char *of, const char *key,
                     const char **ret_at);

struct pst_fields {
    const char *path;      /* for messages; may be NULL */
    struct pst_error *err; /* may be NULL */
    pst_status status;     /* the first failure; later ones are dropped */
    char where[160];       /* "stages[3]": what is being read; "" at the top */
    const char *item;      /* its name, for messages; NULL: it has none */
};

/* PST_ERR_CONFIG, "stages[3].key: text" ("stages[3]: text" where key is NULL); with an item
   "stages[3].key ("item"): text". kind NULL: input.syntax. */
void pst_fields_fail(struct pst_fields *fields, const char *kind, const char *key,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#define PST_FIELDS_NO_INDEX SIZE_MAX

/* Goes into "key[index]", or "key" without an index. Give what it returns to leave. */
size_t pst_fields_enter(struct pst_fields *fields, const char *key, size_t index);
void pst_fields_leave(struct pst_fields *fields, size_t mark);

#endif
