/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of files that people write: absent ones, ranges, and messages that say what would do.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/codec.h"
#include "config/config.h"

void pst_codec_format(struct pst_codec *c, const char *format)
{
    const json_t *version;
    const char *word;

    if (!pst_codec_reads(c)) {
        pst_json_string(c->out, "format", format);
        pst_json_uint(c->out, "version", 1);
        return;
    }
    word = json_string_value(pst_codec_find(c, "format"));
    version = pst_codec_find(c, "version");
    if (word == NULL) {
        pst_codec_fail(c, NULL, "format", "must be \"%s\"", format);
    } else if (strcmp(word, format) != 0) {
        pst_codec_fail(c, NULL, "format", "must be \"%s\", not \"%.64s\"", format, word);
    } else if (!json_is_integer(version) || json_integer_value(version) != 1) {
        pst_codec_fail(c, NULL, "version", "this penstock reads version 1");
    }
}

static double read_number(struct pst_codec *c, const char *key, const json_t *value, double least,
                          double most)
{
    double number = json_number_value(value);

    if (!json_is_number(value)) {
        pst_codec_fail(c, "config.value", key, "must be a number from %.17g to %.17g", least, most);
        return least;
    }
    if (!(number >= least && number <= most)) {
        pst_codec_fail(c, "config.value", key, "must be a number from %.17g to %.17g, not %.15g",
                       least, most, number);
        return least;
    }
    return number + 0.0; /* no negative zero */
}

void pst_codec_amount(struct pst_codec *c, const char *key, double *amount, double least,
                      double most, double initial)
{
    const json_t *value;

    if (!pst_codec_reads(c)) {
        if (*amount != initial) {
            pst_json_number(c->out, key, *amount);
        }
        return;
    }
    value = pst_codec_find(c, key);
    *amount = value == NULL ? initial : read_number(c, key, value, least, most);
}

void pst_codec_count(struct pst_codec *c, const char *key, uint32_t *count, double least,
                     double most, uint32_t initial)
{
    const json_t *value;
    double n = initial;

    if (!pst_codec_reads(c)) {
        pst_json_uint(c->out, key, *count);
        return;
    }
    value = pst_codec_find(c, key);
    if (value != NULL) {
        n = read_number(c, key, value, least, fmin(most, UINT32_MAX));
    }
    if (n != floor(n)) {
        pst_codec_fail(c, "config.value", key, "must be a whole number, not %.15g", n);
    }
    *count = (uint32_t)n;
}

void pst_codec_label(struct pst_codec *c, const char *key, const char **text, const char *initial)
{
    const json_t *value;

    if (!pst_codec_reads(c)) {
        if (*text != NULL) {
            pst_json_string(c->out, key, *text);
        }
        return;
    }
    value = pst_codec_find(c, key);
    *text = value == NULL ? initial : json_string_value(value);
    if (value != NULL && json_string_length(value) == 0) {
        pst_codec_fail(c, "config.value", key, "must be a string that is not empty");
    }
}

void pst_codec_word(struct pst_codec *c, const char *key, uint32_t *word, const char *const *words,
                    uint32_t initial)
{
    const char *text = pst_codec_reads(c) ? NULL : words[*word];
    char all[256] = "", hint[96];
    uint32_t n = 0;

    pst_codec_label(c, key, &text, words[initial]);
    if (!pst_codec_reads(c) || !pst_codec_is_sound(c)) {
        return;
    }
    for (; words[n] != NULL && strcmp(words[n], text) != 0; n++) {
        pst_text_append(all, sizeof all, "%s%s", n == 0 ? "" : ", ", words[n]);
    }
    *word = n;
    if (words[n] == NULL) {
        *word = initial;
        pst_codec_fail(c, "config.value", key, "\"%.64s\" is none of %s%s", text, all,
                       pst_nearest_hint(hint, text, words, n));
    }
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void pst_codec_counts(struct pst_codec *c, const char *key, const uint32_t **counts, uint32_t *n,
                      double most)
{
    uint32_t *at, n_there;

    if (!pst_codec_has(c, key, *counts != NULL)) {
        return;
    }
    if (pst_codec_reads(c) && !json_is_array(pst_codec_find(c, key))) {
        *n = 1;
        *counts = at = pst_arena_array(c->arena, 1, sizeof *at);
        pst_codec_count(c, key, at, 1, most, 1);
        return;
    }
    at = pst_codec_items(c, key, counts, n, sizeof *at);
    if (*n == 0) {
        pst_codec_fail(c, "config.value", NULL, "must hold at least one number");
    }
    for (uint32_t i = 0; i < *n; i++) {
        pst_codec_count(c, NULL, &at[i], 1, most, 1);
    }
    pst_codec_end(c);
    if (pst_codec_reads(c)) {
        qsort(at, *n, sizeof *at, by_value);
        for (uint32_t i = n_there = 0; i < *n; i++) {
            if (i == 0 || at[i] != at[n_there - 1]) {
                at[n_there++] = at[i];
            }
        }
        *n = n_there;
    }
}
