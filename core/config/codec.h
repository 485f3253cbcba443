/* SPDX-License-Identifier: Apache-2.0
 *
 * One description of a JSON file for both directions: a writing codec writes the values of the
 * variables, a reading one fills them. Members are read by name, in any order; an object with other
 * members, or an array with more elements, fails at its end. After the first failure nothing is
 * read, and the remaining values are zero or initial. Failures: input.syntax, with the path of the
 * value; for files that people write those of codec_people.c.
 */
#ifndef PST_CONFIG_CODEC_H
#define PST_CONFIG_CODEC_H

#include "base/json.h"
#include "config/json_fields.h"

/* From here on integers are written as strings, because other readers have doubles. */
#define PST_CODEC_EXACT ((uint64_t)1 << 53)

#define PST_CODEC_MEMBERS 48 /* most of an object, with those that are asked for twice */

/* An object or an array that is open. */
struct pst_codec_level {
    json_t *at;      /* what is read; NULL: it is not there */
    const char *key; /* NULL: an element, or the top */
    size_t index;    /* of the next element of an array */
    bool is_array;
    bool lacks_member; /* which has failed: a misspelt one is named instead */
    uint32_t n_keys;   /* members of an object so far */
    const char *keys[PST_CODEC_MEMBERS];
};

/* One of out and in is there. */
struct pst_codec {
    struct pst_json *out;    /* where to write */
    struct pst_fields *in;   /* reads; keeps the first failure */
    json_t *root;            /* reads: the whole file */
    struct pst_arena *arena; /* where texts and arrays that are read live */
    bool lenient;            /* reads: members that nobody asks for are passed over */
    const char *format;      /* reads: that of a file which people write; NULL: programs write it */
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
/* Codes an object as text that is copied and not parsed. The open object is a member of the top.
   text: that of the file, while reading; *object is then in the arena. */
void pst_codec_verbatim(struct pst_codec *c, const char *key, const char *text, size_t length,
                        const char **object);
void pst_codec_newline(struct pst_codec *c);

/* Reads the JSON value of a member, which is known from here on, or of the next element. NULL: it
   is absent, or something has failed. Borrowed. */
json_t *pst_codec_find(struct pst_codec *c, const char *key);
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
/* Like pst_codec_string, but *text may be NULL, and reading copies it into the arena. */
void pst_codec_text(struct pst_codec *c, const char *key, const char **text);
/* Write a word or a number; reading fails if another value is there. */
void pst_codec_constant(struct pst_codec *c, const char *key, const char *word);
void pst_codec_position(struct pst_codec *c, const char *key, uint32_t number);
/* Begins an array of *n elements of that size each; a loop over them and pst_codec_end follow.
   items: the address of the pointer to them, which one that reads sets, to zeroed memory of the
   arena. Returns the pointer. */
void *pst_codec_items(struct pst_codec *c, const char *key, void *items, uint32_t *n, size_t size);
void pst_codec_uints(struct pst_codec *c, const char *key, const uint32_t **items, uint32_t *n);

/*
 * Files that people write (c->format): failures are config.key with the nearest key, and
 * config.value with what would do. A member may be absent: reading sets `initial` then.
 */
/* "format" and version 1, of the object that is open. */
void pst_codec_format(struct pst_codec *c, const char *format);
/* Reading fails if the member is absent: at the end of the object with an unknown key that is like
   a known one, else with `missing` (NULL: "KEY" is missing). */
void pst_codec_require(struct pst_codec *c, const char *key, const char *missing);
/* Writing leaves `initial` out. */
void pst_codec_amount(struct pst_codec *c, const char *key, double *amount, double least,
                      double most, double initial);
/* A whole number, at most UINT32_MAX. */
void pst_codec_count(struct pst_codec *c, const char *key, uint32_t *count, double least,
                     double most, uint32_t initial);
/* A string that is not empty; writing leaves NULL out. What is read belongs to the JSON value. */
void pst_codec_label(struct pst_codec *c, const char *key, const char **text, const char *initial);
/* An index in `words`, which NULL ends. */
void pst_codec_word(struct pst_codec *c, const char *key, uint32_t *word, const char *const *words,
                    uint32_t initial);
/* One whole number from 1, or an array of at least one; those that are read ascend, each once. NULL
   where it is absent. */
void pst_codec_counts(struct pst_codec *c, const char *key, const uint32_t **counts, uint32_t *n,
                      double most);

#endif
