/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON writer into a growing buffer: commas, escapes and number forms in one place, so that every
 * file and every --json answer is well formed. Reading JSON is jansson's.
 */
#ifndef PST_BASE_JSON_H
#define PST_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct pst_json {
    char *text; /* NUL-terminated; owned; free with pst_json_finish or take it */
    size_t length, capacity;
    uint32_t depth;
    bool comma[64];
    FILE *out;   /* NULL: all of the text stays in memory */
    bool lent;   /* the room is the caller's */
    bool failed; /* nested too deeply: everything after is dropped */
};

void pst_json_init(struct pst_json *json);
/* Writes into the caller's room, without allocation; a text that does not fit ends the program. */
void pst_json_init_in(struct pst_json *json, char *room, size_t size);
/* From now on a full buffer is written to `out`: for a long answer, after the last call that can
   fail. The caller writes the rest of `text` at the end. */
void pst_json_stream(struct pst_json *json, FILE *out);
void pst_json_finish(struct pst_json *json);
/* Hands the text over (free() it, unless the room was the caller's) and finishes; NULL if the
   writer failed. */
char *pst_json_take(struct pst_json *json);

/* key is NULL inside arrays and at the top. */
void pst_json_object(struct pst_json *json, const char *key);
void pst_json_array(struct pst_json *json, const char *key);
void pst_json_end(struct pst_json *json, char bracket);                          /* '}' or ']' */
void pst_json_string(struct pst_json *json, const char *key, const char *value); /* NULL: null */
void pst_json_int(struct pst_json *json, const char *key, int64_t value);
void pst_json_uint(struct pst_json *json, const char *key, uint64_t value);
void pst_json_number(struct pst_json *json, const char *key, double value); /* not finite: null */
/* Finite; always with a point or exponent, so that it comes back as a float: 1.0, 1e+20. */
void pst_json_float(struct pst_json *json, const char *key, double value);
/* Rounded to this many decimals, without zeros at the end, to show no false precision. */
void pst_json_real(struct pst_json *json, const char *key, double value, int decimals);
/* To twelve digits: rates, and quotients of any size. */
void pst_json_figure(struct pst_json *json, const char *key, double value);
/* Times of a report: microseconds to the nanosecond. */
void pst_json_us(struct pst_json *json, const char *key, double ns);
void pst_json_bool(struct pst_json *json, const char *key, bool value);
void pst_json_raw(struct pst_json *json, const char *key, const char *text); /* already JSON */
/* From here on jansson allocates with pst_alloc, which ends the program if memory runs out, so NULL
   from jansson never means that. Programs call it before other threads start. */
void pst_json_share_memory(void);
/* A value of jansson as text on one line, with the shortest form of each number; free() it. */
struct json_t;
char *pst_json_text(const struct json_t *value);
/* The string at a key of an object; "" if there is none. */
const char *pst_json_text_at(const struct json_t *object, const char *key);
/* Arrays. */
void pst_json_uints(struct pst_json *json, const char *key, const uint32_t *values, uint32_t n);
void pst_json_bytes(struct pst_json *json, const char *key, const uint64_t *values, uint32_t n);
void pst_json_strings(struct pst_json *json, const char *key, const char *const *values,
                      uint32_t n);
/* Adds an error to an object, as all answers do: code, kind, message, hint, enough memory. */
void pst_json_error(struct pst_json *json, const struct pst_error *err);
void pst_json_newline(struct pst_json *json); /* white space for readable files */

#endif
