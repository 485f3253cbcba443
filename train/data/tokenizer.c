/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding and decoding. A text is cut at the added tokens in it, normalized, cut by each step, and
 * what is left of it, words, is merged from its bytes: always the pair of the lowest rank, the
 * leftmost of several, as long as there is one.
 */
#include "data/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/memory.h"
#include "base/hash.h"

#define MAX_WORD   (1u << 20) /* bytes */
#define CHUNK      (1u << 20) /* bytes that are normalized at a time, and up to the next line */
#define JIT_STACK  (1u << 20)
#define N_KNOWN    (1u << 15)
#define KNOWN_TEXT 22
#define KNOWN_IDS  10

/* A word and its tokens, as they were found last. */
struct known {
    uint8_t length, n;
    char text[KNOWN_TEXT];
    int32_t ids[KNOWN_IDS];
};

/* Part of a word that is merged; a list by places. */
struct symbol {
    uint32_t id; /* PST_NONE: it is part of the one before */
    uint32_t previous, next;
};

/* A pair that could be merged, or could have been. */
struct candidate {
    uint64_t order; /* rank, then place */
    uint32_t merged;
};

struct encoder {
    const struct pst_tokenizer *t;
    int32_t *tokens;
    size_t n, capacity;
    struct known *known;
    char *name; /* of a word, with room for those of twice the longest */
    struct symbol *symbols;
    struct candidate *heap;
    size_t n_heap, heap_capacity, symbol_capacity;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t at; /* where the segment in hand begins in the text */
    pst_status status;
    struct pst_error *err;
};

static void emit_token(struct encoder *e, uint32_t id)
{
    pst_grow(&e->tokens, &e->capacity, e->n, sizeof *e->tokens);
    e->tokens[e->n++] = (int32_t)id;
}

/* --- words ------------------------------------------------------------------------------------ */

static void heap_push(struct encoder *e, struct candidate new)
{
    size_t i;

    pst_grow(&e->heap, &e->heap_capacity, e->n_heap, sizeof *e->heap);
    for (i = e->n_heap++; i > 0 && e->heap[(i - 1) / 2].order > new.order; i = (i - 1) / 2) {
        e->heap[i] = e->heap[(i - 1) / 2];
    }
    e->heap[i] = new;
}

static struct candidate heap_pop(struct encoder *e)
{
    struct candidate top = e->heap[0], last = e->heap[--e->n_heap];
    size_t i = 0;

    for (size_t child = 1; child < e->n_heap; child = 2 * i + 1) {
        if (child + 1 < e->n_heap && e->heap[child + 1].order < e->heap[child].order) {
            child++;
        }
        if (e->heap[child].order >= last.order) {
            break;
        }
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

/* The symbol at `place` and the next one, where they can be merged. */
static void consider(struct encoder *e, uint32_t place)
{
    uint32_t next = e->symbols[place].next;
    const struct pst_token_pair *pair;

    if (next == PST_NONE) {
        return;
    }
    pair = pst_token_pair_slot(e->t, e->symbols[place].id, e->symbols[next].id);
    if (pair->left != PST_NONE) {
        heap_push(e, (struct candidate){(uint64_t)pair->rank << 32 | place, pair->merged});
    }
}

/* Is it still the pair that it was? */
static bool still_holds(const struct encoder *e, const struct candidate *best)
{
    uint32_t place = (uint32_t)best->order, next = e->symbols[place].next;
    const struct pst_token_pair *pair;

    if (e->symbols[place].id == PST_NONE || next == PST_NONE) {
        return false;
    }
    pair = pst_token_pair_slot(e->t, e->symbols[place].id, e->symbols[next].id);
    return pair->left != PST_NONE && pair->rank == best->order >> 32;
}

static void merge_pair(struct encoder *e, uint32_t place, uint32_t id)
{
    struct symbol *symbol = &e->symbols[place], *next = &e->symbols[symbol->next];

    symbol->id = id;
    symbol->next = next->next;
    next->id = PST_NONE;
    if (symbol->next != PST_NONE) {
        e->symbols[symbol->next].previous = place;
    }
    consider(e, place);
    if (symbol->previous != PST_NONE) {
        consider(e, symbol->previous);
    }
}

static void merge_word(struct encoder *e, const char *text, uint32_t length)
{
    if (length > e->symbol_capacity) {
        e->symbols = pst_resize(e->symbols, length, sizeof *e->symbols);
        e->symbol_capacity = length;
    }
    for (uint32_t i = 0; i < length; i++) {
        e->symbols[i] =
            (struct symbol){e->t->of_byte[(unsigned char)text[i]], i == 0 ? PST_NONE : i - 1,
                            i + 1 == length ? PST_NONE : i + 1};
    }
    for (uint32_t i = 0; i < length; i++) {
        consider(e, i);
    }
    while (e->n_heap > 0) {
        struct candidate best = heap_pop(e);

        if (still_holds(e, &best)) {
            merge_pair(e, (uint32_t)best.order, best.merged);
        }
    }
    for (uint32_t i = 0; i != PST_NONE; i = e->symbols[i].next) {
        emit_token(e, e->symbols[i].id);
    }
}

/* The token that a whole word is, or PST_NONE. */
static uint32_t whole_token(struct encoder *e, const char *text, size_t length)
{
    uint32_t n = 0;

    if (length > e->t->longest) {
        return PST_NONE;
    }
    for (size_t i = 0; i < length; i++) {
        n += pst_byte_name((unsigned char)text[i], e->name + n);
    }
    e->name[n] = '\0';
    return pst_names_find(&e->t->names, e->name);
}

static struct known *known_at(struct encoder *e, const char *text, size_t length)
{
    const uint64_t mixed = pst_fnv1a_bytes(length, text, length);

    return &e->known[(mixed * 0x9E3779B97F4A7C15u >> 32) % N_KNOWN];
}

static void encode_word(struct encoder *e, const char *text, size_t length)
{
    struct known *known = length <= KNOWN_TEXT ? known_at(e, text, length) : NULL;
    size_t first = e->n;
    uint32_t whole;

    if (known != NULL && known->length == length && memcmp(known->text, text, length) == 0) {
        for (uint32_t i = 0; i < known->n; i++) {
            emit_token(e, (uint32_t)known->ids[i]);
        }
        return;
    }
    if (length > MAX_WORD) {
        e->status = pst_fail(e->err, PST_ERR_CONFIG, "input.limit",
                             "after byte %llu: a word of more than 1 MiB; the tokenizer's pattern "
                             "finds no place to cut it",
                             (unsigned long long)e->at);
        return;
    }
    whole = e->t->whole_words ? whole_token(e, text, length) : PST_NONE;
    if (whole != PST_NONE) {
        emit_token(e, whole);
    } else {
        merge_word(e, text, (uint32_t)length);
    }
    if (known != NULL && e->n - first <= KNOWN_IDS) {
        known->length = (uint8_t)length;
        known->n = (uint8_t)(e->n - first);
        memcpy(known->text, text, length);
        memcpy(known->ids, e->tokens + first, known->n * sizeof *known->ids);
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

static void cut_text(struct encoder *e, uint32_t i, const char *text, size_t length);

/* From `from` on; false: there is no further match. */
static bool next_match(struct encoder *e, const struct pst_token_step *step, const char *text,
                       size_t length, size_t from, size_t *ret_begin, size_t *ret_end)
{
    int rc = pcre2_match(step->pattern, (PCRE2_SPTR)text, length, from, PCRE2_NO_UTF_CHECK,
                         e->match, e->context);
    const size_t *found = pcre2_get_ovector_pointer(e->match);

    if (rc == PCRE2_ERROR_NOMEMORY) {
        pst_out_of_memory();
    }
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        e->status = pst_fail(e->err, PST_ERR_CONFIG, "input.limit",
                             "after byte %llu: the tokenizer's pattern takes too many steps to "
                             "find the end of a word",
                             (unsigned long long)(e->at + from));
    }
    if (rc < 0) {
        return false;
    }
    *ret_begin = found[0];
    *ret_end = found[1];
    return true;
}

static void cut_by_pattern(struct encoder *e, uint32_t i, const char *text, size_t length)
{
    const struct pst_token_step *step = &e->t->steps[i];
    size_t done = 0, from = 0, begin, end;

    while (from < length && e->status == PST_OK &&
           next_match(e, step, text, length, from, &begin, &end) && end <= length) {
        if (step->keep_gaps && begin > done) {
            cut_text(e, i + 1, text + done, begin - done);
        }
        if (step->keep_matches && end > begin) {
            cut_text(e, i + 1, text + begin, end - begin);
        }
        done = from = end;
        if (end == begin) { /* nothing, which cuts: one character on */
            while (++from < length && ((unsigned char)text[from] & 0xC0) == 0x80) {
            }
        }
    }
    if (step->keep_gaps && done < length && e->status == PST_OK) {
        cut_text(e, i + 1, text + done, length - done);
    }
}

/* Steps i and up on a piece of text that is not empty. */
static void cut_text(struct encoder *e, uint32_t i, const char *text, size_t length)
{
    char *copy;

    if (e->status != PST_OK) {
        return;
    }
    if (i == e->t->n_steps) {
        encode_word(e, text, length);
    } else if (e->t->steps[i].pattern != NULL) {
        cut_by_pattern(e, i, text, length);
    } else if (e->t->steps[i].prefix_space && text[0] != ' ') {
        copy = pst_resize(NULL, length + 1, 1);
        copy[0] = ' ';
        memcpy(copy + 1, text, length);
        cut_text(e, i + 1, copy, length + 1);
        free(copy);
    } else {
        cut_text(e, i + 1, text, length);
    }
}

/* --- added tokens and normal forms ------------------------------------------------------------ */

/* The longest added token that the text begins with, or NULL. */
static const struct pst_added_token *added_at(const struct pst_tokenizer *t, bool normalized,
                                              const char *text, size_t length)
{
    const uint32_t *first = &t->first[normalized][(unsigned char)text[0]];

    for (uint32_t i = first[0]; i < first[1]; i++) {
        if (t->added[i].length <= length &&
            memcmp(text, t->added[i].content, t->added[i].length) == 0) {
            return &t->added[i];
        }
    }
    return NULL;
}

static bool is_ascii(const char *text, size_t length)
{
    unsigned char all = 0;

    for (size_t i = 0; i < length; i++) {
        all |= (unsigned char)text[i];
    }
    return all < 0x80;
}

/* One form, with a final NUL; free() it. Normalization never crosses the end of a line, so that it
 * goes in parts. */
static char *normalize(const char *text, size_t length, int form, size_t *ret_length)
{
    char *result = pst_resize(NULL, length + 1, 1);
    size_t n = 0, capacity = length + 1;

    for (size_t at = 0, end; at < length; at = end) {
        const char *line =
            length - at > CHUNK ? memchr(text + at + CHUNK, '\n', length - at - CHUNK) : NULL;
        utf8proc_uint8_t *part = NULL;
        utf8proc_ssize_t size;

        end = line == NULL ? length : (size_t)(line - text) + 1;
        size = utf8proc_map((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(end - at),
                            &part, (utf8proc_option_t)form);
        if (size < 0) { /* the text is UTF-8 */
            pst_out_of_memory();
        }
        if (n + (size_t)size + 1 > capacity) {
            capacity = 2 * (n + (size_t)size) + 1;
            result = pst_resize(result, capacity, 1);
        }
        memcpy(result + n, part, (size_t)size);
        n += (size_t)size;
        free(part);
    }
    result[n] = '\0';
    *ret_length = n;
    return result;
}

char *pst_token_normalize(const struct pst_tokenizer *t, const char *text, size_t *length)
{
    char *copy = NULL;

    for (uint32_t i = 0; i < t->n_forms && !is_ascii(text, *length); i++) {
        char *form = normalize(text, *length, t->forms[i], length);

        free(copy);
        text = copy = form;
    }
    return copy;
}

static void encode_segment(struct encoder *e, bool normalized, const char *text, size_t length);

/* A segment without added tokens that stand in it as they are. */
static void encode_normalized(struct encoder *e, const char *text, size_t length)
{
    char *copy = pst_token_normalize(e->t, text, &length);

    encode_segment(e, true, copy == NULL ? text : copy, length);
    free(copy);
}

static void end_segment(struct encoder *e, bool normalized, const char *text, size_t length)
{
    if (length > 0 && normalized) {
        cut_text(e, 0, text, length);
    } else if (length > 0) {
        encode_normalized(e, text, length);
    }
}

/* The added tokens of one sort in a text, and what lies between them. */
static void encode_segment(struct encoder *e, bool normalized, const char *text, size_t length)
{
    const uint32_t *first = e->t->first[normalized];
    size_t done = 0;

    for (size_t i = 0; first[0] < first[256] && i < length && e->status == PST_OK;) {
        const struct pst_added_token *added = added_at(e->t, normalized, text + i, length - i);

        if (added == NULL) {
            i++;
            continue;
        }
        end_segment(e, normalized, text + done, i - done);
        emit_token(e, added->id);
        i += added->length;
        done = i;
        e->at = normalized ? e->at : done;
    }
    if (e->status == PST_OK) {
        end_segment(e, normalized, text + done, length - done);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

static pst_status check_utf8(const char *text, uint64_t length, struct pst_error *err)
{
    for (uint64_t i = 0; i < length;) {
        utf8proc_ssize_t step = 1;
        utf8proc_int32_t character;

        if ((unsigned char)text[i] >= 0x80) {
            step = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                    (utf8proc_ssize_t)(length - i), &character);
        }
        if (step <= 0) {
            return pst_fail(err, PST_ERR_CONFIG, "input.syntax",
                            "byte %llu is not UTF-8, which a tokenizer needs",
                            (unsigned long long)i);
        }
        i += (uint64_t)step;
    }
    return PST_OK;
}

static void begin_encoder(struct encoder *e)
{
    e->known = pst_alloc(N_KNOWN, sizeof *e->known);
    e->name = pst_alloc(2 * (size_t)e->t->longest + 1, 1);
    e->match = pcre2_match_data_create(1, NULL);
    e->context = pcre2_match_context_create(NULL);
    e->stack = pcre2_jit_stack_create(32768, JIT_STACK, NULL);
    if (e->match == NULL || e->context == NULL) {
        pst_out_of_memory();
    }
    if (e->stack != NULL) {
        pcre2_jit_stack_assign(e->context, NULL, e->stack);
    }
}

static void finish_encoder(struct encoder *e)
{
    pcre2_match_data_free(e->match);
    pcre2_match_context_free(e->context);
    pcre2_jit_stack_free(e->stack);
    free(e->known);
    free(e->name);
    free(e->symbols);
    free(e->heap);
}

pst_status pst_tokenizer_encode(const struct pst_tokenizer *t, const char *text, uint64_t length,
                                bool framed, int32_t **ret_tokens, uint64_t *ret_n,
                                struct pst_error *err)
{
    struct encoder e = {.t = t, .err = err};

    e.status = check_utf8(text, length, err);
    if (e.status != PST_OK) {
        return e.status;
    }
    begin_encoder(&e);
    for (uint32_t i = 0; framed && i < t->n_before; i++) {
        emit_token(&e, t->before[i]);
    }
    encode_segment(&e, false, text, length);
    for (uint32_t i = 0; framed && i < t->n_after; i++) {
        emit_token(&e, t->after[i]);
    }
    finish_encoder(&e);
    if (e.status != PST_OK) {
        free(e.tokens);
        return e.status;
    }
    *ret_tokens = e.tokens;
    *ret_n = e.n;
    return PST_OK;
}

/* NULL: it stands for nothing. */
static const struct pst_token *token_at(const struct pst_tokenizer *t, int32_t id,
                                        bool skip_special)
{
    const struct pst_token *token = id >= 0 && (uint32_t)id < t->n_tokens ? &t->tokens[id] : NULL;

    return token == NULL || token->bytes == NULL || (skip_special && token->special) ? NULL : token;
}

bool pst_tokenizer_is_special(const struct pst_tokenizer *t, int32_t token)
{
    const struct pst_token *is = token_at(t, token, false);

    return is != NULL && is->special;
}

char *pst_tokenizer_decode(const struct pst_tokenizer *t, const int32_t *tokens, uint64_t n,
                           bool skip_special, uint64_t *ret_length)
{
    uint64_t length = 0, at = 0;
    char *text;

    for (uint64_t i = 0; i < n; i++) {
        const struct pst_token *token = token_at(t, tokens[i], skip_special);

        length += token == NULL ? 0 : token->length;
    }
    text = pst_alloc(length + 1, 1);
    for (uint64_t i = 0; i < n; i++) {
        const struct pst_token *token = token_at(t, tokens[i], skip_special);

        if (token != NULL) {
            memcpy(text + at, token->bytes, token->length);
            at += token->length;
        }
    }
    *ret_length = length;
    return text;
}

uint32_t pst_tokenizer_vocab(const struct pst_tokenizer *t)
{
    return t->n_tokens;
}

uint32_t pst_tokenizer_token(const struct pst_tokenizer *t, const char *content)
{
    uint32_t id = pst_names_find(&t->added_names, content);

    return id != PST_NONE ? id : pst_names_find(&t->names, content);
}
