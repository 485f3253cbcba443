/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens are those of the package `tokenizers`: recorded ones (tests/data/tokenizer, made by
 * scripts/record_tokenizer.py) and, where a Python has the package, of random texts. What is
 * refused says why.
 */
#include "test.h"

#include <jansson.h>

#include "support.h"
#include "data/tokenizer.h"

#define RECORDED PENSTOCK_SOURCE_DIR "/tests/data/tokenizer"

/* The text of a case, in which \0 stands for a NUL. */
static char *text_of(const json_t *one, const char *key, uint64_t *ret_length)
{
    char *text = strdup(json_string_value(json_object_get(one, key))), *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        bool nul = from[0] == '\\' && from[1] == '0';

        *to++ = nul ? '\0' : *from;
        from += nul;
    }
    *ret_length = (uint64_t)(to - text);
    return text;
}

static void compare_tokens(const struct pst_tokenizer *tokenizer, const json_t *one, bool framed,
                           const char *text, uint64_t length)
{
    const json_t *wanted = json_object_get(one, framed ? "framed" : "tokens");
    struct pst_error err = {0};
    int32_t *tokens = NULL;
    uint64_t n = 0;

    assert_ok(pst_tokenizer_encode(tokenizer, text, length, framed, &tokens, &n, &err), &err);
    for (uint64_t i = 0; i < n || i < json_array_size(wanted); i++) {
        if (i >= n || i >= json_array_size(wanted) ||
            tokens[i] != json_integer_value(json_array_get(wanted, i))) {
            fail_msg("\"%s\": token %d is %d, not %d, of %d", text, (int)i, i < n ? tokens[i] : -1,
                     (int)json_integer_value(json_array_get(wanted, i)), (int)n);
        }
    }
    free(tokens);
}

static void compare_text(const struct pst_tokenizer *tokenizer, const json_t *one)
{
    const json_t *list = json_object_get(one, "framed");
    uint64_t n = json_array_size(list), length, wanted_length;
    int32_t *tokens = calloc(n + 1, sizeof *tokens);
    char *wanted = text_of(one, "decoded", &wanted_length), *text;

    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)json_integer_value(json_array_get(list, i));
    }
    text = pst_tokenizer_decode(tokenizer, tokens, n, true, &length);
    assert_int_equal(length, wanted_length);
    assert_memory_equal(text, wanted, length);
    free(text);
    free(wanted);
    free(tokens);
}

static uint32_t compare_folder(const char *folder)
{
    char path[256], last[64] = "";
    struct pst_tokenizer *tokenizer = NULL;
    struct pst_error err = {0};
    json_t *cases, *one;
    uint32_t n;
    size_t i;

    snprintf(path, sizeof path, "%s/cases.json", folder);
    cases = json_load_file(path, 0, NULL);
    assert_non_null(cases);
    json_array_foreach(cases, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "tokenizer"));
        uint64_t length;
        char *text = text_of(one, "text", &length);

        if (strcmp(name, last) != 0) {
            pst_tokenizer_destroy(tokenizer);
            snprintf(last, sizeof last, "%s", name);
            snprintf(path, sizeof path, "%s/%s.json", folder, name);
            assert_ok(pst_tokenizer_read(path, &tokenizer, &err), &err);
            assert_int_equal(pst_tokenizer_vocab(tokenizer), 332);
        }
        compare_tokens(tokenizer, one, false, text, length);
        compare_tokens(tokenizer, one, true, text, length);
        compare_text(tokenizer, one);
        free(text);
    }
    pst_tokenizer_destroy(tokenizer);
    n = (uint32_t)json_array_size(cases);
    json_decref(cases);
    return n;
}

TEST(test_recorded)
{
    assert_true(compare_folder(RECORDED) >= 100);
}

/* The seed is the time: a failure prints it in the folder's name. */
TEST(test_package)
{
    const char *python = getenv("PENSTOCK_TORCH_PYTHON");
    char command[512], folder[128];
    int rc = 0;

    python = python == NULL ? "/opt/torch/bin/python" : python;
    snprintf(folder, sizeof folder, "%s/%ld", support_folder, (long)time(NULL));
    snprintf(command, sizeof command, "%s %s/scripts/record_tokenizer.py %s %s", python,
             PENSTOCK_SOURCE_DIR, folder, strrchr(folder, '/') + 1);
    if (access(python, X_OK) != 0 || WEXITSTATUS(rc = system(command)) == 77) {
        skip();
    }
    assert_int_equal(rc, 0);
    print_message("seed %s\n", strrchr(folder, '/') + 1);
    assert_int_equal(compare_folder(folder), 2400);
}

/* Ties by place, and more merges than a word has room for on the stack of a recursion. */
TEST(test_long_word)
{
    struct pst_tokenizer *tokenizer = NULL;
    struct pst_error err = {0};
    enum { N = 1 << 20 };
    char *text = malloc(N + 1);
    int32_t *tokens = NULL;
    uint64_t n = 0;

    assert_ok(pst_tokenizer_read(RECORDED "/gpt2.json", &tokenizer, &err), &err);
    memset(text, 'x', N + 1);
    assert_ok(pst_tokenizer_encode(tokenizer, text, N, false, &tokens, &n, &err), &err);
    assert_int_equal(n, N); /* no merge of two x was learned */
    free(tokens);
    assert_int_not_equal(pst_tokenizer_encode(tokenizer, text, N + 1, false, &tokens, &n, &err),
                         PST_OK);
    assert_string_equal(err.kind, "input.limit");
    text[5] = (char)0xC3;
    assert_int_not_equal(pst_tokenizer_encode(tokenizer, text, 10, false, &tokens, &n, &err),
                         PST_OK);
    assert_string_equal(err.kind, "input.syntax");
    assert_non_null(strstr(err.message, "byte 5 "));
    pst_tokenizer_destroy(tokenizer);
    free(text);
}

/* A word of 300 characters that is a token, though no merges make it. */
TEST(test_long_token)
{
    char *text = support_read(RECORDED "/llama3.json"), word[301] = {0}, *changed;
    const char *at = strstr(text, "\"vocab\":{");
    struct pst_tokenizer *tokenizer = NULL;
    struct pst_error err = {0};
    int32_t *tokens = NULL;
    uint64_t n = 0;

    memset(word, 'x', 300);
    changed = malloc(strlen(text) + 400);
    sprintf(changed, "%.*s\"vocab\":{\"%s\":330,%s", (int)(at - text), text, word, at + 9);
    memcpy(strstr(changed, "\"id\":331"), "\"id\":332", 8);
    memcpy(strstr(changed, "\"id\":330"), "\"id\":331", 8);
    assert_ok(pst_tokenizer_read(support_write("long.json", changed), &tokenizer, &err), &err);
    assert_ok(pst_tokenizer_encode(tokenizer, word, 300, false, &tokens, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_int_equal(tokens[0], 330);
    free(tokens);
    pst_tokenizer_destroy(tokenizer);
    free(changed);
    free(text);
}

TEST(test_names)
{
    struct pst_tokenizer *tokenizer = NULL;
    struct pst_error err = {0};
    uint64_t length;
    char *text;

    assert_ok(pst_tokenizer_read(RECORDED "/llama3.json", &tokenizer, &err), &err);
    assert_int_equal(pst_tokenizer_token(tokenizer, "<|end|>"), 0);
    assert_int_equal(pst_tokenizer_token(tokenizer, "<extra>"), 330);
    assert_int_equal(pst_tokenizer_token(tokenizer, "<none>"), PST_NONE);
    text = pst_tokenizer_decode(tokenizer, (int32_t[]){0, -1, 400, 330, 1}, 5, false, &length);
    assert_string_equal(text, "<|end|><extra><|begin|>");
    free(text);
    text = pst_tokenizer_decode(tokenizer, (int32_t[]){0, 330, 1}, 3, true, &length);
    assert_string_equal(text, "<extra>");
    free(text);
    pst_tokenizer_destroy(tokenizer);
}

/* The recorded file with one thing changed. */
static void expect_refusal(const char *old, const char *new, const char *kind, const char *words)
{
    char *text = support_read(RECORDED "/llama3.json"), *at = strstr(text, old), *changed;
    struct pst_tokenizer *tokenizer = NULL;
    struct pst_error err = {0};

    assert_non_null(at);
    changed = malloc(strlen(text) + strlen(new) + 1);
    sprintf(changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_int_not_equal(
        pst_tokenizer_read(support_write("changed.json", changed), &tokenizer, &err), PST_OK);
    assert_null(tokenizer);
    assert_string_equal(err.kind, kind);
    assert_int_equal(pst_error_exit_code(&err), 2);
    if (strstr(err.message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    }
    free(changed);
    free(text);
}

TEST(test_refusals)
{
    expect_refusal("\"type\":\"BPE\"", "\"type\":\"Unigram\"", "input.unsupported", "Unigram");
    expect_refusal("\"dropout\":null", "\"dropout\":0.1", "input.unsupported", "dropout");
    expect_refusal("\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}",
                   "input.unsupported", "Lowercase");
    expect_refusal("\"type\":\"Split\"", "\"type\":\"Metaspace\"", "input.unsupported",
                   "Metaspace");
    expect_refusal("\"Isolated\"", "\"MergedWithNext\"", "input.unsupported", "MergedWithNext");
    expect_refusal("(?i:", "(?i:(", "input.unsupported", "pattern");
    expect_refusal("{1,3}", "{1,3}+", "input.unsupported", "\"{1,3}+\" is unsupported");
    expect_refusal("(?i:", "(?m:", "input.unsupported", "\"(?m:\" is unsupported");
    expect_refusal("[^\\\\s", "[a[b]\\\\s", "input.unsupported", "\"[b]\\s\\p{\" is unsupported");
    expect_refusal("[^\\\\s", "[\\\\w&&\\\\s", "input.unsupported", "\"\\w\" is unsupported");
    expect_refusal("[^\\\\s", "[a&&\\\\s", "input.unsupported", "\"&&\" is unsupported");
    expect_refusal("\\\\p{N}", "\\\\h", "input.unsupported", "\"\\h\" is unsupported");
    expect_refusal("\"lstrip\":false", "\"lstrip\":true", "input.unsupported", "lstrip");
    expect_refusal("\"id\":331", "\"id\":-1", "input.syntax", "whole number");
    expect_refusal("\"id\":331", "\"id\":1000000", "input.limit", "1000000");
    expect_refusal("\"id\":331", "\"id\":332", "input.syntax", "is 332, but the tokens before");
    expect_refusal("\"content\":\"<extra>\"", "\"content\":\"a\"", "input.syntax", "\"a\" is 330");
    expect_refusal("\"a\":", "\"a b\":", "input.unsupported", "byte 97");
    expect_refusal("\"merges\":[[", "\"merges\":[[\"a\",\"a\"],[", "input.syntax", "merges[0]");
    expect_refusal("\"merges\":[[", "\"merges\":[[\"a\"],[", "input.syntax", "merges[0]");
    expect_refusal("\"<|begin|>\",\"type_id\"", "\"<|start|>\",\"type_id\"", "input.unsupported",
                   "<|start|>");
    expect_refusal("{\"version\"", "{{\"version\"", "input.syntax", "");
}

TEST_GROUP(support_begin, support_end)
