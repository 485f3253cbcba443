/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json into struct pst_tokenizer: vocabulary, merges, added tokens, the steps that cut a
 * text, the tokens around it. What the file says is checked here; encoding trusts it.
 */
#include "data/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/json.h"
#include "base/link.h"
#include "base/memory.h"
#include "config/json_fields.h"

#define MAX_TOKENS  (1u << 20)
#define MAX_PATTERN 4096

#define UNSUPPORTED "input.unsupported"

/* ByteLevel's own pattern: that of GPT-2. */
#define GPT2_PATTERN                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

struct reading {
    struct pst_tokenizer *t;
    struct pst_fields fields;
    uint32_t n_words;        /* of the vocabulary, without added tokens */
    uint16_t byte_of[0x144]; /* of a character of a name, + 1; 0: it is none of the 256 */
};

static bool has_failed(const struct reading *r)
{
    return r->fields.status != PST_OK;
}

static bool is_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static bool is_type(const json_t *object, const char *type)
{
    return strcmp(pst_json_text_at(object, "type"), type) == 0;
}

/* The member, NULL where it is absent or null. */
static json_t *find_member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* The bytes that a name of the vocabulary writes; a name with another character stands for itself.
 */
static void set_token(struct reading *r, uint32_t id, const char *name, bool special)
{
    size_t length = strlen(name), n = 0;
    char *bytes = pst_arena_alloc(&r->t->arena, length + 1, 1);

    for (size_t i = 0; i < length;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)name + i,
                                                 (utf8proc_ssize_t)(length - i), &c);

        if (step <= 0 || c >= 0x144 || r->byte_of[c] == 0) {
            memcpy(bytes, name, length);
            n = length;
            break;
        }
        bytes[n++] = (char)(r->byte_of[c] - 1);
        i += (size_t)step;
    }
    r->t->tokens[id] = (struct pst_token){bytes, (uint32_t)n, special};
}

/* A token of the file: its number is in range. */
static bool read_id(struct reading *r, const json_t *value, uint32_t *ret_id)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= MAX_TOKENS) {
        pst_fields_fail(&r->fields, NULL, NULL, "a token must be a whole number below %u",
                        MAX_TOKENS);
        return false;
    }
    *ret_id = (uint32_t)json_integer_value(value);
    return true;
}

/* The largest token and the number of tokens, before any memory is reserved. */
static void count_tokens(struct reading *r, json_t *vocab, json_t *added)
{
    const char *name;
    size_t i;
    json_t *value;
    uint32_t id;

    json_object_foreach(vocab, name, value)
    {
        if (read_id(r, value, &id) && id >= r->t->n_tokens) {
            r->t->n_tokens = id + 1;
        }
    }
    json_array_foreach(added, i, value)
    {
        if (read_id(r, json_object_get(value, "id"), &id) && id >= r->t->n_tokens) {
            r->t->n_tokens = id + 1;
        }
    }
    if (r->t->n_tokens > 1024 + 16 * (json_object_size(vocab) + json_array_size(added))) {
        pst_fields_fail(&r->fields, "input.limit", "model.vocab",
                        "token %u, but only %zu of those before it", r->t->n_tokens - 1,
                        json_object_size(vocab) + json_array_size(added) - 1);
    }
}

static void read_vocab(struct reading *r, json_t *vocab)
{
    struct pst_tokenizer *t = r->t;
    const char *name;
    json_t *value;

    r->n_words = (uint32_t)json_object_size(vocab);
    pst_names_init(&t->names, &t->arena, r->n_words);
    json_object_foreach(vocab, name, value)
    {
        uint32_t id = (uint32_t)json_integer_value(value), length = (uint32_t)strlen(name);

        if (t->tokens[id].bytes != NULL) {
            pst_fields_fail(&r->fields, NULL, "model.vocab", "token %u is there twice", id);
            return;
        }
        t->longest = length > t->longest ? length : t->longest;
        pst_names_add(&t->names, pst_arena_strdup(&t->arena, name), id);
        set_token(r, id, name, false);
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[3] = {0};

        pst_byte_name(byte, text);
        t->of_byte[byte] = pst_names_find(&t->names, text);
        if (t->of_byte[byte] == PST_NONE) {
            pst_fields_fail(&r->fields, UNSUPPORTED, "model.vocab",
                            "no token for byte %u (\"%s\"): not a byte-level BPE", byte, text);
            return;
        }
    }
}

/* --- merges ----------------------------------------------------------------------------------- */

/* "a b" or ["a", "b"] into its two names, which are copied to *ret_joined one after the other. */
static bool read_pair(const json_t *value, char **ret_left, char **ret_joined)
{
    const char *left = json_string_value(json_array_get(value, 0));
    const char *right = json_string_value(json_array_get(value, 1)), *space;

    if (json_is_string(value)) {
        left = json_string_value(value);
        space = strchr(left, ' ');
        if (space == NULL || strchr(space + 1, ' ') != NULL) {
            return false;
        }
        *ret_left = pst_strndup(left, (size_t)(space - left));
        *ret_joined = pst_printf("%s%s", *ret_left, space + 1);
        return true;
    }
    if (left == NULL || right == NULL || json_array_size(value) != 2) {
        return false;
    }
    *ret_left = pst_strdup(left);
    *ret_joined = pst_printf("%s%s", left, right);
    return true;
}

static void read_merge(struct reading *r, const json_t *value, size_t i)
{
    struct pst_tokenizer *t = r->t;
    char *left = NULL, *joined = NULL;
    struct pst_token_pair *slot;
    uint32_t ids[3];

    if (json_is_string(value) && strncmp(json_string_value(value), "#version", 8) == 0) {
        return;
    }
    if (!read_pair(value, &left, &joined)) {
        pst_fields_fail(&r->fields, NULL, NULL,
                        "model.merges[%zu] must be two tokens: \"a b\" or [\"a\", \"b\"]", i);
        return;
    }
    ids[0] = pst_names_find(&t->names, left);
    ids[1] = pst_names_find(&t->names, joined + strlen(left));
    ids[2] = pst_names_find(&t->names, joined);
    if (ids[0] == PST_NONE || ids[1] == PST_NONE || ids[2] == PST_NONE) {
        pst_fields_fail(&r->fields, NULL, NULL,
                        "model.merges[%zu]: \"%.64s\" is not in the vocabulary", i,
                        ids[0] == PST_NONE   ? left
                        : ids[1] == PST_NONE ? joined + strlen(left)
                                             : joined);
    } else {
        slot = pst_token_pair_slot(t, ids[0], ids[1]);
        *slot = (struct pst_token_pair){ids[0], ids[1], (uint32_t)i, ids[2]};
    }
    free(left);
    free(joined);
}

static void read_merges(struct reading *r, json_t *merges)
{
    struct pst_tokenizer *t = r->t;
    uint32_t slots = 16;
    size_t i;
    json_t *value;

    if (json_array_size(merges) > MAX_TOKENS) {
        pst_fields_fail(&r->fields, "input.limit", "model.merges", "more than %u", MAX_TOKENS);
        return;
    }
    while (slots < 2 * json_array_size(merges)) {
        slots *= 2;
    }
    t->pair_mask = slots - 1;
    t->pairs = pst_arena_array(&t->arena, slots, sizeof *t->pairs);
    for (uint32_t k = 0; k < slots; k++) {
        t->pairs[k].left = PST_NONE;
    }
    json_array_foreach(merges, i, value)
    {
        read_merge(r, value, i);
    }
}

static void read_model(struct reading *r, json_t *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};

    if ((find_member(model, "type") != NULL && !is_type(model, "BPE")) ||
        !json_is_object(json_object_get(model, "vocab")) ||
        !json_is_array(json_object_get(model, "merges"))) {
        pst_fields_fail(&r->fields, UNSUPPORTED, "model",
                        "\"%.32s\" is unsupported; use byte-level BPE with vocab and merges",
                        pst_json_text_at(model, "type"));
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (pst_json_text_at(model, affixes[i])[0] != '\0') {
            pst_fields_fail(&r->fields, UNSUPPORTED, "model", "%s is unsupported", affixes[i]);
        }
    }
    if (json_number_value(json_object_get(model, "dropout")) > 0) {
        pst_fields_fail(&r->fields, UNSUPPORTED, "model.dropout", "text has one form here");
    }
    r->t->whole_words = is_true(model, "ignore_merges");
    if (!has_failed(r)) {
        read_vocab(r, json_object_get(model, "vocab"));
    }
    if (!has_failed(r)) {
        read_merges(r, json_object_get(model, "merges"));
    }
}

/* --- added tokens ----------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct pst_added_token *x = a, *y = b;
    int order = (int)x->normalized - (int)y->normalized;

    order = order != 0 ? order : (unsigned char)x->content[0] - (unsigned char)y->content[0];
    return order != 0 ? order : (x->length < y->length) - (x->length > y->length);
}

/* A token that is looked for in normalized text is normalized, too. */
static void set_content(struct pst_tokenizer *t, struct pst_added_token *added, const char *content)
{
    size_t length = strlen(content);
    char *form = added->normalized ? pst_token_normalize(t, content, &length) : NULL;

    added->content = pst_arena_strdup(&t->arena, form == NULL ? content : form);
    added->length = (uint32_t)length;
    free(form);
}

/* next: the token that one gets whose content is not in the vocabulary. */
static void read_added_token(struct reading *r, const json_t *value, uint32_t next,
                             struct pst_added_token *added)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    struct pst_tokenizer *t = r->t;
    const char *content = pst_json_text_at(value, "content");
    uint32_t known = pst_tokenizer_token(t, content), expected = known == PST_NONE ? next : known;

    for (uint32_t i = 0; i < 3; i++) {
        if (is_true(value, flags[i])) {
            pst_fields_fail(&r->fields, UNSUPPORTED, "added_tokens", "%s of \"%.64s\"", flags[i],
                            content);
        }
    }
    if (content[0] == '\0') {
        pst_fields_fail(&r->fields, NULL, "added_tokens", "a token has no content");
        return;
    }
    *added =
        (struct pst_added_token){.id = (uint32_t)json_integer_value(json_object_get(value, "id")),
                                 .normalized = is_true(value, "normalized")};
    if (added->id != expected) {
        pst_fields_fail(&r->fields, NULL, "added_tokens",
                        "\"%.64s\" is %u, but the tokens before it require %u", content, added->id,
                        expected);
        return;
    }
    pst_names_add(&t->added_names, pst_arena_strdup(&t->arena, content), added->id);
    set_content(t, added, content);
    set_token(r, added->id, added->content, is_true(value, "special"));
}

static void read_added(struct reading *r, json_t *list)
{
    struct pst_tokenizer *t = r->t;
    uint32_t next = r->n_words;
    size_t n = json_array_size(list), i;
    json_t *value;

    pst_names_init(&t->added_names, &t->arena, (uint32_t)n);
    t->added = pst_arena_array(&t->arena, n + 1, sizeof *t->added);
    json_array_foreach(list, i, value)
    {
        read_added_token(r, value, next, &t->added[i]);
        next = t->added[i].id >= next ? t->added[i].id + 1 : next;
    }
    if (has_failed(r)) {
        return;
    }
    qsort(t->added, n, sizeof *t->added, by_place);
    for (uint32_t k = 0, at = 0; k < 2 * 256; k++) {
        t->first[k / 256][k % 256] = at;
        while (at < n && t->added[at].normalized == (k >= 256) &&
               (unsigned char)t->added[at].content[0] == k % 256) {
            at++;
        }
        t->first[k / 256][k % 256 + 1] = at;
    }
}

/* --- steps before the merges ------------------------------------------------------------------ */

static struct pst_token_step *add_step(struct reading *r)
{
    if (r->t->n_steps == PST_TOKENIZER_STEPS) {
        pst_fields_fail(&r->fields, "input.limit", "pre_tokenizer", "more than %d steps",
                        PST_TOKENIZER_STEPS);
        return NULL;
    }
    return &r->t->steps[r->t->n_steps++];
}

static void compile_pattern(struct reading *r, struct pst_token_step *step, const char *pattern,
                            uint32_t options)
{
    int code = 0;
    size_t at = 0;
    char why[128];

    step->pattern = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                  options | PCRE2_UTF | PCRE2_NO_UTF_CHECK, &code, &at, NULL);
    if (code == PCRE2_ERROR_HEAP_FAILED) {
        pst_out_of_memory();
    }
    if (step->pattern == NULL) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        pst_fields_fail(&r->fields, UNSUPPORTED, "pre_tokenizer",
                        "the pattern cannot be used: %s (character %zu)", why, at);
        return;
    }
    pcre2_jit_compile(step->pattern, PCRE2_JIT_COMPLETE); /* where there is none: slower */
}

static void add_pattern(struct reading *r, const char *pattern, bool literal)
{
    struct pst_token_step *step = add_step(r);
    char *text, *refused = NULL;

    if (step == NULL) {
        return;
    }
    step->keep_matches = step->keep_gaps = true;
    if (strlen(pattern) > MAX_PATTERN) {
        pst_fields_fail(&r->fields, UNSUPPORTED, "pre_tokenizer",
                        "the pattern has more than %d bytes", MAX_PATTERN);
        return;
    }
    text = literal ? pst_strdup(pattern) : pst_token_pattern(pattern, &refused);
    if (text == NULL) {
        pst_fields_fail(&r->fields, UNSUPPORTED, "pre_tokenizer",
                        "the pattern cannot be used: \"%s\" is unsupported", refused);
    } else {
        compile_pattern(r, step, text,
                        literal ? PCRE2_LITERAL
                                : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
    }
    free(text);
    free(refused);
}

static void read_split(struct reading *r, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *string = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = pst_json_text_at(step, "behavior");
    bool removed = strcmp(behavior, "Removed") == 0;

    if ((regex == NULL) == (string == NULL) || (!removed && strcmp(behavior, "Isolated") != 0)) {
        pst_fields_fail(
            &r->fields, UNSUPPORTED, "pre_tokenizer",
            "a split needs a pattern and the behavior Isolated or Removed, not \"%.32s\"",
            behavior);
        return;
    }
    add_pattern(r, regex != NULL ? regex : string, regex == NULL);
    if (!has_failed(r) && removed) {
        r->t->steps[r->t->n_steps - 1].keep_matches = is_true(step, "invert");
        r->t->steps[r->t->n_steps - 1].keep_gaps = !is_true(step, "invert");
    }
}

/* Absent keys have the defaults of `tokenizers`: a space in front, and the pattern. */
static void read_byte_level(struct reading *r, const json_t *step)
{
    struct pst_token_step *added = add_step(r);

    if (added != NULL) {
        *added = (struct pst_token_step){
            .prefix_space = !json_is_false(json_object_get(step, "add_prefix_space"))};
    }
    if (!has_failed(r) && !json_is_false(json_object_get(step, "use_regex"))) {
        add_pattern(r, GPT2_PATTERN, false);
    }
}

/* ByteLevel last: it says that tokens are made of bytes. */
static void read_steps(struct reading *r, const json_t *top)
{
    bool sequence = is_type(top, "Sequence");
    const json_t *list = json_object_get(top, "pretokenizers");
    size_t n = sequence ? json_array_size(list) : top != NULL;

    for (size_t i = 0; i < n && !has_failed(r); i++) {
        const json_t *step = sequence ? json_array_get(list, i) : top;

        if (i + 1 == n && is_type(step, "ByteLevel")) {
            read_byte_level(r, step);
            return;
        }
        if (is_type(step, "Split")) {
            read_split(r, step);
        } else if (is_type(step, "Digits")) {
            add_pattern(r, is_true(step, "individual_digits") ? "\\p{N}" : "\\p{N}+", false);
        } else {
            pst_fields_fail(&r->fields, UNSUPPORTED, "pre_tokenizer",
                            "\"%.32s\" is unsupported; use Split, Digits and, last, ByteLevel",
                            pst_json_text_at(step, "type"));
        }
    }
    if (!has_failed(r)) {
        pst_fields_fail(&r->fields, UNSUPPORTED, "pre_tokenizer",
                        "does not end with ByteLevel: this is not a byte-level BPE");
    }
}

static void read_forms(struct reading *r, const json_t *top)
{
    static const struct {
        const char *name;
        int options;
    } forms[] = {{"NFC", UTF8PROC_COMPOSE},
                 {"NFD", UTF8PROC_DECOMPOSE},
                 {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                 {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    bool sequence = is_type(top, "Sequence");
    const json_t *list = json_object_get(top, "normalizers");
    size_t n = sequence ? json_array_size(list) : top != NULL;

    for (size_t i = 0; i < n; i++) {
        const char *type = pst_json_text_at(sequence ? json_array_get(list, i) : top, "type");
        uint32_t k = 0;

        while (k < 4 && strcmp(forms[k].name, type) != 0) {
            k++;
        }
        if (k == 4 || r->t->n_forms == PST_TOKENIZER_FORMS) {
            pst_fields_fail(&r->fields, UNSUPPORTED, "normalizer",
                            "\"%.32s\" is unsupported; use up to four of NFC, NFD, NFKC and NFKD",
                            type);
            return;
        }
        r->t->forms[r->t->n_forms++] = forms[k].options | UTF8PROC_STABLE;
    }
}

/* --- tokens around a text --------------------------------------------------------------------- */

static void read_template(struct reading *r, const json_t *processor)
{
    struct pst_tokenizer *t = r->t;
    const json_t *single = json_object_get(processor, "single");
    bool behind = false;

    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const char *name = pst_json_text_at(json_object_get(item, "SpecialToken"), "id");
        uint32_t id = pst_tokenizer_token(t, name);
        uint32_t *n = behind ? &t->n_after : &t->n_before;

        if (json_object_get(item, "Sequence") != NULL) {
            behind = true;
        } else if (id == PST_NONE || *n == PST_TOKENIZER_FRAME) {
            pst_fields_fail(&r->fields, UNSUPPORTED, "post_processor",
                            "\"%.64s\" is not a token, or more than %d are on one side", name,
                            PST_TOKENIZER_FRAME);
            return;
        } else {
            (behind ? t->after : t->before)[(*n)++] = id;
        }
    }
}

/* ByteLevel changes no token there. */
static void read_frame(struct reading *r, const json_t *top)
{
    bool sequence = is_type(top, "Sequence");
    const json_t *list = json_object_get(top, "processors");
    size_t n = sequence ? json_array_size(list) : top != NULL;

    for (size_t i = 0; i < n && !has_failed(r); i++) {
        const json_t *item = sequence ? json_array_get(list, i) : top;

        if (is_type(item, "TemplateProcessing")) {
            read_template(r, item);
        } else if (!is_type(item, "ByteLevel")) {
            pst_fields_fail(&r->fields, UNSUPPORTED, "post_processor",
                            "\"%.32s\" is unsupported; use ByteLevel and TemplateProcessing",
                            pst_json_text_at(item, "type"));
        }
    }
}

static void read_all(struct reading *r, json_t *root)
{
    json_t *model = json_object_get(root, "model"), *added = find_member(root, "added_tokens");
    const json_t *decoder = find_member(root, "decoder");

    if (decoder != NULL && !is_type(decoder, "ByteLevel")) {
        pst_fields_fail(&r->fields, UNSUPPORTED, "decoder",
                        "\"%.32s\" is unsupported: this is not a byte-level BPE",
                        pst_json_text_at(decoder, "type"));
    }
    read_steps(r, find_member(root, "pre_tokenizer"));
    read_forms(r, find_member(root, "normalizer"));
    count_tokens(r, json_object_get(model, "vocab"), added);
    if (has_failed(r)) {
        return;
    }
    r->t->tokens = pst_arena_array(&r->t->arena, r->t->n_tokens + 1, sizeof *r->t->tokens);
    read_model(r, model);
    if (!has_failed(r)) {
        read_added(r, added);
    }
    if (!has_failed(r)) {
        read_frame(r, find_member(root, "post_processor"));
    }
}

pst_status pst_tokenizer_read(const char *path, struct pst_tokenizer **ret_tokenizer,
                              struct pst_error *err)
{
    struct reading r = {.fields = {.path = path, .err = err}};
    json_t *root = NULL;
    pst_status status = pst_link_follow(path, NULL, err);

    PST_TRY(status, pst_json_load(path, PST_TOKENIZER_BYTES, &root, err));
    if (status != PST_OK) {
        return status;
    }
    r.t = pst_alloc(1, sizeof *r.t);
    for (uint32_t byte = 0; byte < 256; byte++) {
        r.byte_of[pst_byte_character(byte)] = (uint16_t)(byte + 1);
    }
    read_all(&r, root);
    json_decref(root);
    if (has_failed(&r)) {
        pst_tokenizer_destroy(r.t);
        return r.fields.status;
    }
    *ret_tokenizer = r.t;
    return PST_OK;
}

void pst_tokenizer_destroy(struct pst_tokenizer *t)
{
    if (t != NULL) {
        for (uint32_t i = 0; i < t->n_steps; i++) {
            pcre2_code_free(t->steps[i].pattern);
        }
        pst_arena_finish(&t->arena);
        free(t);
    }
}
