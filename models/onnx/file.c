/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes to messages. What protobuf-c would do with them is walked through first, without memory:
 * every length against what is left, the nesting, what unpacking would take. Then protobuf-c may
 * have them.
 */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define MAX_FILE   ((size_t)1 << 31)
#define MAX_DEPTH  64
#define MAX_NODES  (1u << 20)
#define MAX_GROWTH 64 /* memory of the messages over bytes of the file */

struct scan {
    const uint8_t *bytes;
    size_t at, end;
    const char *path;
    struct pst_error *err;
    size_t memory, most;
    uint64_t n_nodes;
};

#define BAD(scan, ...)                                                                             \
    pst_fail_at((scan)->err, PST_ERR_CONFIG, "input.syntax", (scan)->path, 0, 0, __VA_ARGS__)

static pst_status varint(struct scan *s, size_t end, uint64_t *ret_value)
{
    const size_t first = s->at;
    uint64_t value = 0;

    for (uint32_t i = 0; i < 10 && s->at < end; i++) {
        const uint8_t byte = s->bytes[s->at++];

        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            *ret_value = value;
            return PST_OK;
        }
    }
    return BAD(s, "byte %zu: a number does not end; this is no ONNX model, or it is cut off",
               first);
}

/* Text of messages is C's: it ends at a NUL. */
static pst_status check_text(struct scan *s, const ProtobufCFieldDescriptor *field, size_t n)
{
    if (field != NULL && field->type == PROTOBUF_C_TYPE_STRING &&
        memchr(s->bytes + s->at, '\0', n) != NULL) {
        return BAD(s, "byte %zu: a text (%s) with a NUL byte", s->at, field->name);
    }
    return PST_OK;
}

/* One field of a message that ends at `end`; *ret_inside: the message that it holds, and where that
   one ends. Else it is after the field. */
static pst_status field(struct scan *s, const ProtobufCMessageDescriptor *message, size_t end,
                        const ProtobufCMessageDescriptor **ret_inside, size_t *ret_end)
{
    const size_t first = s->at;
    const ProtobufCFieldDescriptor *row;
    uint64_t key = 0, n = 0;
    pst_status status = varint(s, end, &key);

    *ret_inside = NULL;
    if (status != PST_OK) {
        return status;
    }
    row = key >> 3 <= INT32_MAX
              ? protobuf_c_message_descriptor_get_field(message, (unsigned)(key >> 3))
              : NULL;
    if ((key & 7) == 0) {
        s->memory += 8;
        return varint(s, end, &n);
    }
    n = (key & 7) == 1 ? 8 : 4;
    if ((key & 7) == 2) {
        status = varint(s, end, &n);
    } else if ((key & 7) != 1 && (key & 7) != 5) {
        return BAD(s, "byte %zu: a field of wire type %u in %s", first, (unsigned)(key & 7),
                   message->short_name);
    }
    if (status != PST_OK) {
        return status;
    }
    if (n > end - s->at) {
        return BAD(s,
                   "byte %zu: a field of %s has %llu bytes, of which %zu are there; the file "
                   "is cut off or damaged",
                   first, message->short_name, (unsigned long long)n, end - s->at);
    }
    s->memory += 24;
    if ((key & 7) == 2 && row != NULL && row->type == PROTOBUF_C_TYPE_MESSAGE) {
        *ret_inside = row->descriptor;
        *ret_end = s->at + (size_t)n;
        return PST_OK;
    }
    status = check_text(s, row, (size_t)n);
    s->memory += (key & 7) == 2 ? (size_t)n : 8;
    s->at += (size_t)n;
    return status;
}

static pst_status count(struct scan *s, const ProtobufCMessageDescriptor *message)
{
    s->memory += message->sizeof_message + 24;
    s->n_nodes += message == &onnx__node_proto__descriptor;
    if (s->n_nodes > MAX_NODES) {
        return pst_fail_at(s->err, PST_ERR_CONFIG, "input.limit", s->path, 0, 0,
                           "the model has more than %u nodes", MAX_NODES);
    }
    if (s->memory > s->most) {
        return pst_fail_at(s->err, PST_ERR_CONFIG, "input.limit", s->path, 0, 0,
                           "byte %zu: the messages take more than %d times the memory of the file",
                           s->at, MAX_GROWTH);
    }
    return PST_OK;
}

static pst_status scan(struct scan *s)
{
    struct {
        const ProtobufCMessageDescriptor *message;
        size_t end;
    } open[MAX_DEPTH] = {{&onnx__model_proto__descriptor, s->end}};
    uint32_t depth = 0;
    pst_status status = PST_OK;

    while (status == PST_OK) {
        const ProtobufCMessageDescriptor *inside;
        size_t end;

        if (s->at == open[depth].end) {
            if (depth == 0) {
                return PST_OK;
            }
            depth--;
            continue;
        }
        status = field(s, open[depth].message, open[depth].end, &inside, &end);
        if (status == PST_OK && inside != NULL) {
            if (++depth == MAX_DEPTH) {
                return pst_fail_at(s->err, PST_ERR_CONFIG, "input.limit", s->path, 0, 0,
                                   "byte %zu: messages are nested more than %d deep", s->at,
                                   MAX_DEPTH);
            }
            open[depth].message = inside;
            open[depth].end = end;
            status = count(s, inside);
        }
    }
    return status;
}

static pst_status parse(const void *bytes, size_t n, const char *path, Onnx__ModelProto **ret_proto,
                        struct pst_error *err)
{
    struct scan s = {
        .bytes = bytes, .end = n, .path = path, .err = err, .most = n * MAX_GROWTH + 4096};
    pst_status status = scan(&s);
    Onnx__ModelProto *proto;

    if (status != PST_OK) {
        return status;
    }
    proto = onnx__model_proto__unpack(NULL, n, bytes);
    if (proto == NULL || proto->graph == NULL) {
        onnx__model_proto__free_unpacked(proto, NULL);
        return BAD(&s, "this is no ONNX model: it has no graph");
    }
    *ret_proto = proto;
    return PST_OK;
}

pst_status onnx_file_read(const char *path, Onnx__ModelProto **ret_proto, struct pst_error *err)
{
    char *bytes;
    size_t n;
    pst_status status = pst_file_read(path, MAX_FILE, "input.path", &bytes, &n, err);

    if (status != PST_OK) {
        return status;
    }
    status = parse(bytes, n, path, ret_proto, err);
    free(bytes);
    return status;
}
