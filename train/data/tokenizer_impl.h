/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a tokenizer: tokenizer_read.c fills it, tokenizer.c uses it. Everything except the
 * compiled patterns is in its arena.
 */
#ifndef PST_DATA_TOKENIZER_IMPL_H
#define PST_DATA_TOKENIZER_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/arena.h"
#include "base/names.h"
#include "data/tokenizer.h"

enum { PST_TOKENIZER_STEPS = 16, PST_TOKENIZER_FORMS = 4, PST_TOKENIZER_FRAME = 8 };

/* A step that cuts text into pieces at the matches of a pattern. */
struct pst_token_step {
    pcre2_code *pattern; /* NULL: it does not cut */
    bool keep_matches;   /* matches are pieces; what lies between them, where: */
    bool keep_gaps;
    bool prefix_space; /* a text that begins with no space gets one */
};

/* A token that is found in the text before anything else is done. */
struct pst_added_token {
    const char *content;
    uint32_t length, id;
    bool normalized; /* found after Unicode normalization, the others before */
};

/* A merge of the pair (left, right); the lowest rank goes first. A free slot has left PST_NONE. */
struct pst_token_pair {
    uint32_t left, right, rank, merged;
};

struct pst_token {
    const char *bytes; /* what it stands for; NULL: there is no such token */
    uint32_t length;
    bool special;
};

struct pst_tokenizer {
    struct pst_arena arena;
    struct pst_names names; /* of the vocabulary, each byte written as a character */
    struct pst_names added_names;
    uint32_t longest; /* name, in bytes */
    struct pst_token *tokens;
    uint32_t n_tokens;
    struct pst_added_token *added; /* not normalized first; then by first byte, the longest first */
    uint32_t first[2][257];        /* [normalized]: where those of a first byte begin in `added` */
    struct pst_token_pair *pairs;
    uint32_t pair_mask; /* slots - 1 */
    uint32_t of_byte[256];
    bool whole_words; /* a word that is a token is not merged from its bytes */
    struct pst_token_step steps[PST_TOKENIZER_STEPS];
    uint32_t n_steps;
    int forms[PST_TOKENIZER_FORMS]; /* options of utf8proc: normal forms, in order */
    uint32_t n_forms;
    uint32_t before[PST_TOKENIZER_FRAME], after[PST_TOKENIZER_FRAME]; /* tokens around a text */
    uint32_t n_before, n_after;
};

/* The text in the normal forms, in turn, with a final NUL; free() it. NULL: it has no other one.
 */
char *pst_token_normalize(const struct pst_tokenizer *t, const char *text, size_t *length);

/* A pattern of `tokenizers` as PCRE2 wants it; free() it. NULL: part of it is refused, which goes
 *to ret_refused; free() that. */
char *pst_token_pattern(const char *pattern, char **ret_refused);

/* Where the pair stands in the table, or would. */
static inline struct pst_token_pair *pst_token_pair_slot(const struct pst_tokenizer *t,
                                                         uint32_t left, uint32_t right)
{
    uint64_t mixed = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    uint32_t i = (uint32_t)(mixed >> 32) & t->pair_mask;

    while (t->pairs[i].left != PST_NONE &&
           (t->pairs[i].left != left || t->pairs[i].right != right)) {
        i = (i + 1) & t->pair_mask;
    }
    return &t->pairs[i];
}

/* The character that vocabularies write for a byte: printable ones of Latin-1 are themselves, the
   others follow from U+0100 on (bytes_to_unicode of GPT-2's encoder.py). */
static inline uint32_t pst_byte_character(uint32_t byte)
{
    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD)) {
        return byte;
    }
    return byte <= 0x20 ? 0x100 + byte : byte <= 0xA0 ? 0x121 + byte - 0x7F : 0x143;
}

/* That character as UTF-8, of two bytes at most; returns their number. */
static inline uint32_t pst_byte_name(uint32_t byte, char ret_name[2])
{
    uint32_t c = pst_byte_character(byte);

    if (c < 0x80) {
        ret_name[0] = (char)c;
        return 1;
    }
    ret_name[0] = (char)(0xC0 | c >> 6);
    ret_name[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

#endif
