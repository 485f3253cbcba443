/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/trace.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/util.h"
#include "exchange/trace_impl.h"

#define GZIP_WINDOW (15 + 16)  /* the largest window; + 16: with a gzip header */
#define PIECE       (1u << 30) /* zlib counts in unsigned int */

/* All events of one timeline; its ranks begin at pid_base. */
static void put_timeline(struct pst_json *json, const struct pst_timeline *timeline,
                         uint32_t pid_base, const char *prefix)
{
    struct pst_trace trace = {
        .json = json, .timeline = timeline, .pid_base = pid_base, .prefix = prefix};

    pst_trace_assign_rows(&trace);
    pst_trace_pair(&trace);
    for (uint32_t r = 0; r < timeline->n_ranks && !json->failed; r++) {
        pst_trace_find_gaps(&trace, r);
        pst_trace_put_rank(&trace, r);
    }
    if (pid_base == 0 && !json->failed) {
        pst_trace_put_steps(&trace);
    }
    pst_arena_finish(&trace.arena);
}

static void put_clock(struct pst_json *json, const struct pst_trace_clock *clocks, uint32_t n)
{
    pst_json_object(json, "clock");
    pst_json_uint(json, "reference_rank", 0);
    pst_json_array(json, "per_rank");
    for (uint32_t r = 0; r < n; r++) {
        pst_json_object(json, NULL);
        pst_json_number(json, "offset_us", clocks == NULL ? 0 : clocks[r].offset_us);
        pst_json_number(json, "uncertainty_us", clocks == NULL ? 0 : clocks[r].uncertainty_us);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    pst_json_end(json, '}');
}

char *pst_trace_to_json(const struct pst_timeline *timeline, const struct pst_trace_meta *meta)
{
    static const struct pst_trace_meta nothing;
    struct pst_json json;

    meta = meta == NULL ? &nothing : meta;
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "displayTimeUnit", "ms");
    pst_json_object(&json, "otherData");
    pst_json_string(&json, "penstock_version", PENSTOCK_VERSION);
    pst_json_string(&json, "title", timeline->title);
    pst_json_string(&json, "kind", timeline->kind);
    pst_json_string(&json, "run_id", meta->run_id);
    pst_json_string(&json, "plan_digest", meta->plan_digest);
    if (meta->sharing != NULL) {
        pst_json_string(&json, "sharing", meta->sharing);
    }
    put_clock(&json, meta->clocks, timeline->n_ranks);
    pst_json_end(&json, '}');
    pst_json_array(&json, "traceEvents");
    put_timeline(&json, timeline, 0, "");
    if (meta->predicted != NULL) {
        put_timeline(&json, meta->predicted, TRACE_PREDICTED, "predicted");
    }
    pst_json_end(&json, ']');
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    return pst_json_take(&json);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Feeds all bytes; the room is enough by deflateBound. */
static bool deflate_all(z_stream *stream, const unsigned char *bytes, size_t length, size_t room)
{
    int result = Z_OK;

    while (result == Z_OK) {
        size_t in = length < PIECE ? length : PIECE, out = room < PIECE ? room : PIECE;

        stream->next_in = (unsigned char *)bytes;
        stream->avail_in = (uInt)in;
        stream->avail_out = (uInt)out;
        result = deflate(stream, in == length ? Z_FINISH : Z_NO_FLUSH);
        bytes += in - stream->avail_in;
        length -= in - stream->avail_in;
        room -= out - stream->avail_out;
    }
    return result == Z_STREAM_END;
}

/* Compressed to the format of gzip (RFC 1952), without name and date: the same bytes in, the same
   bytes out. free() *ret_packed. */
static void pack(const void *bytes, size_t length, unsigned char **ret_packed, size_t *ret_length)
{
    z_stream stream = {0};
    unsigned char *packed;
    size_t room;

    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        pst_out_of_memory();
    }
    room = deflateBound(&stream, length) + 64;
    packed = pst_alloc(room, 1);
    stream.next_out = packed;
    if (!deflate_all(&stream, bytes, length, room)) {
        pst_out_of_memory();
    }
    *ret_length = (size_t)(stream.next_out - packed);
    *ret_packed = packed;
    deflateEnd(&stream);
}

pst_status pst_trace_write(const struct pst_timeline *timeline, const char *path,
                           const struct pst_trace_meta *meta, struct pst_error *err)
{
    char *text = pst_trace_to_json(timeline, meta);
    unsigned char *packed = NULL;
    size_t length = strlen(text), n_packed = 0;
    pst_status st;

    if (!ends_with(path, ".gz")) {
        st = pst_file_write(path, text, length, err);
    } else {
        pack(text, length, &packed, &n_packed);
        st = pst_file_write(path, packed, n_packed, err);
    }
    free(packed);
    free(text);
    return st;
}
