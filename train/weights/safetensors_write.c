/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing safetensors files: tensors by descending rank of their dtype, then by name, so that each
 * lies aligned, as the safetensors package has them; the header is padded to eight bytes.
 */
#include "weights/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/util.h"

struct pst_st_writer {
    struct pst_file_out out;
    struct pst_st_tensor *tensors; /* as they were given; names are not owned once it is begun */
    uint32_t n;
    char *header; /* with its length in front */
    uint64_t n_header, data_bytes;
};

static int by_rank(const void *a, const void *b)
{
    const struct pst_st_tensor *one = *(const struct pst_st_tensor *const *)a;
    const struct pst_st_tensor *other = *(const struct pst_st_tensor *const *)b;

    return one->dtype != other->dtype ? (one->dtype > other->dtype ? -1 : 1)
                                      : strcmp(one->name, other->name);
}

static void put_tensor(struct pst_json *json, const struct pst_st_tensor *tensor)
{
    const uint64_t offsets[2] = {tensor->begin, tensor->begin + tensor->bytes};

    pst_json_object(json, tensor->name);
    pst_json_string(json, "dtype", pst_st_dtype_name(tensor->dtype));
    pst_json_bytes(json, "shape", tensor->shape, tensor->rank);
    pst_json_bytes(json, "data_offsets", offsets, 2);
    pst_json_end(json, '}');
}

static void put_metadata(struct pst_json *json, const struct pst_st_pair *pairs, uint32_t n)
{
    if (n > 0) {
        pst_json_object(json, "__metadata__");
        for (uint32_t i = 0; i < n; i++) {
            pst_json_string(json, pairs[i].key, pairs[i].value);
        }
        pst_json_end(json, '}');
    }
}

/* Gives each tensor its place; returns the text of the header, with a final NUL. */
static char *lay_out(struct pst_st_writer *writer, const struct pst_st_pair *metadata,
                     uint32_t n_metadata)
{
    struct pst_st_tensor **order = pst_alloc(writer->n + 1, sizeof *order);
    struct pst_json json;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    put_metadata(&json, metadata, n_metadata);
    for (uint32_t i = 0; i < writer->n; i++) {
        order[i] = &writer->tensors[i];
    }
    qsort(order, writer->n, sizeof *order, by_rank);
    for (uint32_t i = 0; i < writer->n; i++) {
        order[i]->elems = 1;
        for (uint32_t d = 0; d < order[i]->rank; d++) {
            order[i]->elems *= order[i]->shape[d];
        }
        order[i]->bytes = order[i]->elems * pst_st_dtype_bytes(order[i]->dtype);
        order[i]->begin = writer->data_bytes;
        writer->data_bytes += order[i]->bytes;
        put_tensor(&json, order[i]);
    }
    pst_json_end(&json, '}');
    free(order);
    return pst_json_take(&json);
}

/* The length, the text, spaces. */
static void put_header(struct pst_st_writer *writer, const char *text)
{
    uint64_t length = strlen(text), padded = (length + 7) / 8 * 8;

    writer->n_header = 8 + padded;
    writer->header = pst_alloc((size_t)writer->n_header, 1);
    for (uint32_t i = 0; i < 8; i++) {
        writer->header[i] = (char)(padded >> (8 * i));
    }
    memset(writer->header + 8, ' ', (size_t)padded);
    memcpy(writer->header + 8, text, (size_t)length);
}

pst_status pst_st_create(const char *path, const struct pst_st_tensor *tensors, uint32_t n,
                         const struct pst_st_pair *metadata, uint32_t n_metadata,
                         struct pst_st_writer **ret_writer, struct pst_error *err)
{
    struct pst_st_writer *writer = pst_alloc(1, sizeof *writer);
    pst_status status = PST_OK;
    char *text;

    writer->out.fd = -1;
    writer->n = n;
    writer->tensors = pst_alloc(n + 1, sizeof *tensors);
    memcpy(writer->tensors, tensors, n * sizeof *tensors);
    text = lay_out(writer, metadata, n_metadata);
    put_header(writer, text);
    free(text);
    if (writer->n_header - 8 > PST_ST_HEADER || n > PST_ST_TENSORS) {
        status = pst_fail_at(err, PST_ERR_UNSUPPORTED, "output.form", path, 0, 0,
                             "a safetensors file holds at most %u tensors and %u bytes of names; "
                             "write several files",
                             PST_ST_TENSORS, PST_ST_HEADER);
    }
    PST_TRY(status, pst_file_begin(path, pst_st_file_bytes(writer), &writer->out, err));
    PST_TRY(status, pst_file_put(&writer->out, writer->header, (size_t)writer->n_header, 0, err));
    if (status != PST_OK) {
        pst_st_abandon(writer);
        return status;
    }
    *ret_writer = writer;
    return PST_OK;
}

const struct pst_st_tensor *pst_st_place(const struct pst_st_writer *writer, uint32_t tensor)
{
    return &writer->tensors[tensor];
}

const void *pst_st_header(const struct pst_st_writer *writer, uint64_t *ret_bytes)
{
    *ret_bytes = writer->n_header;
    return writer->header;
}

uint64_t pst_st_file_bytes(const struct pst_st_writer *writer)
{
    return writer->n_header + writer->data_bytes;
}

pst_status pst_st_write(const struct pst_st_writer *writer, uint32_t tensor, uint64_t offset,
                        const void *data, uint64_t bytes, struct pst_error *err)
{
    const struct pst_st_tensor *of = &writer->tensors[tensor];

    PST_ASSERT(offset <= of->bytes && bytes <= of->bytes - offset);
    return pst_file_put(&writer->out, data, (size_t)bytes, writer->n_header + of->begin + offset,
                        err);
}

static void finish(struct pst_st_writer *writer)
{
    free(writer->tensors);
    free(writer->header);
    free(writer);
}

pst_status pst_st_finish(struct pst_st_writer *writer, struct pst_error *err)
{
    pst_status status = pst_file_end(&writer->out, err);

    finish(writer);
    return status;
}

void pst_st_abandon(struct pst_st_writer *writer)
{
    if (writer != NULL) {
        pst_file_abandon(&writer->out);
        finish(writer);
    }
}
