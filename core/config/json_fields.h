/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading JSON files that people write: limits, then the parser, then fields by name with messages
 * that say where. For readers that keep the first failure and go on to the end.
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
/* As pst_json_load, from a text that ends in NUL; path, for messages, may be NULL. */
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

/* Where the top is inside another object: "graph." or "graph". */
void pst_fields_begin(struct pst_fields *fields, const char *where);

/* PST_ERR_CONFIG, "stages[3].key: text" ("stages[3]: text" where key is NULL); with an item
   "stages[3].key ("item"): text". kind NULL: input.syntax. */
void pst_fields_fail(struct pst_fields *fields, const char *kind, const char *key,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#define PST_FIELDS_NO_INDEX SIZE_MAX

/* Goes into "key[index]", or "key" without an index. Give what it returns to leave. */
size_t pst_fields_enter(struct pst_fields *fields, const char *key, size_t index);
void pst_fields_leave(struct pst_fields *fields, size_t mark);

/* Returns true if the value is an object with this "format" and "version": 1. */
bool pst_fields_format(struct pst_fields *fields, const json_t *root, const char *format);

/* Fails with config.key and the nearest name if the object has a key that is not among the n. */
void pst_fields_known(struct pst_fields *fields, const json_t *object, const char *const *keys,
                      uint32_t n);

/* config.key if it is absent. */
bool pst_fields_require(struct pst_fields *fields, const json_t *object, const char *key);

/*
 * Members. `initial` where the key is absent; config.value and `least` (NULL, 0) where the value is
 * of another type or out of range.
 */
double pst_fields_number(struct pst_fields *fields, const json_t *object, const char *key,
                         double least, double most, double initial);
/* A whole number, at most UINT32_MAX. */
uint32_t pst_fields_count(struct pst_fields *fields, const json_t *object, const char *key,
                          double least, double most, double initial);
/* Borrowed from the JSON value; not empty. */
const char *pst_fields_string(struct pst_fields *fields, const json_t *object, const char *key,
                              const char *initial);
/* Index in `words`, which NULL ends. */
uint32_t pst_fields_word(struct pst_fields *fields, const json_t *object, const char *key,
                         const char *const *words, uint32_t initial);
/* NULL where it is absent. Borrowed. */
json_t *pst_fields_object(struct pst_fields *fields, const json_t *object, const char *key);
json_t *pst_fields_array(struct pst_fields *fields, const json_t *object, const char *key);
/* One whole number or an array of at least one, ascending, each once. NULL where it is absent. */
uint32_t *pst_fields_counts(struct pst_fields *fields, const json_t *object, const char *key,
                            double least, double most, struct pst_arena *arena, uint32_t *ret_n);

#endif
