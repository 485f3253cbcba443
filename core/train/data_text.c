/* SPDX-License-Identifier: Apache-2.0
 *
 * Text files as a stream in memory: bytes, or the tokens that a tokenizer makes of each file.
 */
#include "train/data_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "train/tokenizer.h"

#define MAX_TEXT ((uint64_t)1 << 30)

/* What the files before have made of themselves. */
struct gathered {
    char *bytes; /* tokens are int32_t */
    uint64_t n, text_bytes;
    uint32_t width;
};

static void append(struct gathered *g, const void *tokens, uint64_t n)
{
    g->bytes = pst_resize(g->bytes, g->n + n + 1, g->width);
    memcpy(g->bytes + g->n * g->width, tokens, n * g->width);
    g->n += n;
}

static pst_status append_file(struct gathered *g, const struct pst_tokenizer *tokenizer,
                              const char *path, const char *key, struct pst_error *err)
{
    char *text = NULL;
    size_t length = 0;
    int32_t *tokens = NULL;
    uint64_t n = 0;
    pst_status st = pst_file_read(path, (size_t)MAX_TEXT, "input.path", &text, &length, err);

    if (st != PST_OK) {
        pst_error_prefix(err, "%s", key);
        return st;
    }
    g->text_bytes += length;
    if (g->text_bytes > MAX_TEXT) {
        st = pst_fail(err, PST_ERR_CONFIG, "input.limit",
                      "%s: \"%s\" brings the text above 1 GiB, the most that is held in memory",
                      key, path);
    } else if (tokenizer == NULL) {
        append(g, text, length);
    } else {
        st = pst_tokenizer_encode(tokenizer, text, length, false, &tokens, &n, err);
        if (st == PST_OK) {
            append(g, tokens, n);
        } else {
            pst_error_prefix(err, "%s: \"%s\"", key, path);
        }
        free(tokens);
    }
    free(text);
    return st;
}

pst_status pst_data_open_text(struct pst_data *data, const char *patterns, const char *key,
                              struct pst_store *store, struct pst_error *err)
{
    struct gathered g = {.width = data->tokenizer == NULL ? 1 : sizeof(int32_t)};
    struct pst_paths paths;
    pst_status st = pst_paths_find(patterns, key, NULL, &paths, err);

    if (st != PST_OK) {
        return st;
    }
    for (uint32_t i = 0; st == PST_OK && i < paths.n; i++) {
        st = append_file(&g, data->tokenizer, paths.paths[i], key, err);
    }
    pst_paths_finish(&paths);
    if (st != PST_OK) {
        free(g.bytes);
        return st;
    }
    store->stream.element = data->tokenizer == NULL ? PST_ELEMENT_U8 : PST_ELEMENT_I32;
    store->stream.memory = g.bytes;
    pst_stream_add(&store->stream, &(struct pst_token_part){.held = g.bytes, .n = g.n});
    return PST_OK;
}
