/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of tokens, of whatever files and width: a sample is a window of context + 1 tokens, its
 * targets are the same tokens shifted by one. Windows run on over the borders of files.
 */
#include "data/data_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"

void pst_stream_finish(struct pst_stream *stream)
{
    pst_parts_finish(&stream->parts);
    free(stream->memory);
}

/* Tokens begin ... begin + n - 1 as they are in the files. */
static pst_status read_bytes(const struct pst_stream *stream, uint64_t begin, uint64_t n,
                             char *ret_bytes, struct pst_error *err)
{
    uint64_t width = pst_element_bytes(stream->element);

    for (const struct pst_part *part = pst_parts_find(&stream->parts, begin); n > 0; part++) {
        uint64_t from = begin - part->first, left = part->n - from, size = n < left ? n : left;
        uint64_t at = part->offset + from * width;

        if (part->file.path == NULL) {
            memcpy(ret_bytes, (const char *)part->held + at, size * width);
        } else {
            pst_status status = pst_data_file_read(&part->file, at, ret_bytes, size * width, err);

            if (status != PST_OK) {
                return status;
            }
        }
        ret_bytes += size * width;
        begin += size;
        n -= size;
    }
    return PST_OK;
}

/* Names the first token that the model does not have. */
static pst_status fail_token(const struct pst_stream *stream, uint64_t begin, const void *tokens,
                             uint64_t vocab, struct pst_error *err)
{
    const struct pst_part *part;
    uint64_t i = 0, at, token;

    /* Negative ones are the largest, so that one comparison finds all that are no tokens. */
    while ((token = (uint64_t)pst_element_whole(stream->element, tokens, i)) < vocab) {
        i++;
    }
    part = pst_parts_find(&stream->parts, begin + i);
    at = begin + i - part->first;
    if (part->file.path == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "input.syntax",
                        "token %llu of the text is %lld, but the model has %llu (model.vocab)",
                        (unsigned long long)at, (long long)token, (unsigned long long)vocab);
    }
    return pst_data_file_fail(
        &part->file, err,
        "token %llu (byte %llu) is %lld, but the model has %llu (model.vocab): 0 to %llu",
        (unsigned long long)at,
        (unsigned long long)(part->offset + at * pst_element_bytes(stream->element)),
        (long long)token, (unsigned long long)vocab, (unsigned long long)vocab - 1);
}

#define CONVERT(type)                                                                              \
    do {                                                                                           \
        const type *restrict tokens = room;                                                        \
        type top = tokens[context];                                                                \
                                                                                                   \
        for (uint64_t t = 0; t < context; t++) {                                                   \
            ret_x[t] = (int32_t)tokens[t];                                                         \
            ret_targets[t] = (int32_t)tokens[t + 1];                                               \
            top = tokens[t] > top ? tokens[t] : top;                                               \
        }                                                                                          \
        largest = top;                                                                             \
    } while (0)

/* Returns the largest. Signed ones are taken as unsigned ones of their width: what is above all of
   the signed type is negative. */
static uint64_t convert(uint32_t element, const void *room, uint64_t context,
                        int32_t *restrict ret_x, int32_t *restrict ret_targets)
{
    const uint32_t bytes = pst_element_bytes(element);
    uint64_t most = UINT64_MAX >> (64 - 8 * bytes), largest;

    switch (bytes) {
    case 1:
        CONVERT(uint8_t);
        break;
    case 2:
        CONVERT(uint16_t);
        break;
    case 4:
        CONVERT(uint32_t);
        break;
    default:
        CONVERT(uint64_t);
        break;
    }
    most >>= element % 2; /* signed */
    return largest <= most ? largest : UINT64_MAX;
}

pst_status pst_stream_read(const struct pst_stream *stream, uint64_t begin, uint64_t context,
                           uint64_t vocab, void *room, int32_t *ret_x, int32_t *ret_targets,
                           struct pst_error *err)
{
    pst_status status;

    PST_ASSERT(begin + context < stream->parts.n);
    status = read_bytes(stream, begin, context + 1, room, err);
    if (status == PST_OK && convert(stream->element, room, context, ret_x, ret_targets) >= vocab) {
        status = fail_token(stream, begin, room, vocab, err);
    }
    return status;
}
