/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/gzip.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/memory.h"

#define GZIP_WINDOW (15 + 16)  /* the largest window; + 16: with a gzip header */
#define PIECE       (1u << 30) /* zlib counts in unsigned int */

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

void pst_gzip(const void *bytes, size_t length, unsigned char **ret_packed, size_t *ret_length)
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
