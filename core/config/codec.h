/* SPDX-License-Identifier: Apache-2.0
 *
 * One description of a JSON file for both directions: a writing codec writes the values of the
 * variables, a reading one fills them. Members are read by name, in any order; an object with other
 * members, or an array with more elements, fails at its end. After the first failure nothing is
 * read, and the remaining values are zero. Failures: input.syntax, with the path of the
 * value.
 */
#ifndef PST_CONFIG_CODEC_H
#define PST_CONFIG_CODEC_H

#include "base/json.h"
#include "config/json_fields.h"

/* From here on integers are written as strings, because other readers have doubles. */
#define PST_CODEC_EXACT ((uint64_t)1 << 53)

#define PST_CODEC_MEMBERS 24 /* most of an object */

/* An object or an array that is open. */
struct pst_codec_level {
    json_t *at;      /* what is read; NULL: it is not there */
    const char *key; /* NULL: an element, or the top */
    size_t index;    /* of the next element of an array */
    bool is_array;
    uint32_t n_keys; /* members of an object so far */
    const char *keys[PST_CODEC_MEMBERS];
};

/* One of out and in is there. */
struct pst_codec {
    struct pst_json *out;    /* where to write */
    struct pst_fields *in;   /* reads; keeps the first failure */
    json_t *root;            /* reads: the whole file */
    struct pst_arena *arena; /* where texts and arrays that are read live */
    bool lenient;            /* reads: members that nobody asks for are passed over */
    uint32_t depth;
    struct pst_codec_level levels[PST_JSON_NESTING + 1];
};

static inline bool pst_codec_reads(const struct pst_codec *c)
{
    return c->in != NULL;
}

/* Returns true if nothing has failed so far. */
static inline bool pst_codec_is_sound(const struct pst_codec *c)
{
    return c->in == NULL || c->in->status == PST_OK;
}

/* The path of what is open becomes the place of the next failure, `element`: of its last element.
   Only a failure needs it, so values are read without. Returns c->in. */
struct pst_fields *pst_codec_place(struct pst_codec *c, bool element);
/* Fails at member `key` (NULL: at what is open); kind NULL: input.syntax. */
#define pst_codec_fail(c, kind, key, ...)                                                          \
    pst_fields_fail(pst_codec_place(c, false), kind, key, __VA_ARGS__)

/* key is NULL for the next element of an array and at the top. */
void pst_codec_object(struct pst_codec *c, const char *key);
/* n: the number of its elements where it is read. */
uint32_t pst_codec_array(struct pst_codec *c, const char *key);
void pst_codec_end(struct pst_codec *c); /* of either */
/* Skips an object that other code reads from the text; only when reading. False: it is absent. */
bool pst_codec_skip_object(struct pst_codec *c, const char *key);
void pst_codec_newline(struct pst_codec *c);

/* Returns true if there is such a member, or a next element; when writing, returns `there`. */
bool pst_codec_has(struct pst_codec *c, const char *key, bool there);
/* Returns true if it is null; when writing, writes null if is_null. */
bool pst_codec_null(struct pst_codec *c, const char *key, bool is_null);

void pst_codec_uint(struct pst_codec *c, const char *key, uint32_t *number);  /* below UINT32_MAX */
void pst_codec_bytes(struct pst_codec *c, const char *key, uint64_t *number); /* all 64 bits */
void pst_codec_bool(struct pst_codec *c, const char *key, bool *flag);
void pst_codec_number(struct pst_codec *c, const char *key, double *number, double least,
                      double most);
/* When reading, *text belongs to the JSON value. */
void pst_codec_string(struct pst_codec *c, const char *key, const char **text);
/* As pst_codec_string, but *text may be NULL, and reading copies it into the arena. */
void pst_codec_text(struct pst_codec *c, const char *key, const char **text);
/* Write a word or a number; reading fails if another value is there. */
void pst_codec_constant(struct pst_codec *c, const char *key, const char *word);
void pst_codec_position(struct pst_codec *c, const char *key, uint32_t number);
/* Begins an array of *n elements of that size each; a loop over them and pst_codec_end follow.
   items: the address of the pointer to them, which one that reads sets, to zeroed memory of the
   arena. Returns the pointer. */
void *pst_codec_items(struct pst_codec *c, const char *key, void *items, uint32_t *n, size_t size);
void pst_codec_uints(struct pst_codec *c, const char *key, const uint32_t **items, uint32_t *n);

#endif
