/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of tokens, read in place: bare numbers (nanoGPT's train.bin), shards of llm.c, and
 * Megatron's .bin with its .idx. Their sequences lie one after the other and are read as one
 * stream.
 */
#include "data/data_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/link.h"
#include "base/memory.h"
#include "base/text.h"

#define LLMC_HEADER     1024
#define MEGATRON_HEADER 34
#define PIECE           4096 /* numbers of an index that are read at a time */

static uint32_t read_u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static uint64_t read_u64(const unsigned char *bytes)
{
    return read_u32(bytes) | (uint64_t)read_u32(bytes + 4) << 32;
}

/* --- llm.c ------------------------------------------------------------------------------------ */

/* The header is 256 numbers of 32 bits: magic, version, tokens, and zeros. */
pst_status pst_llmc_open(struct pst_part *part, uint32_t *ret_element, struct pst_error *err)
{
    static const struct {
        uint32_t magic, version, element;
    } forms[] = {{20240520, 1, PST_ELEMENT_U16}, {20240801, 7, PST_ELEMENT_U32}};
    const struct pst_data_file *file = &part->file;
    unsigned char header[12];
    uint32_t i = 0;
    pst_status status;

    if (file->size < LLMC_HEADER) {
        return pst_data_file_fail(file, err,
                                  "%llu bytes are too few for an llm.c shard: its header has 1024",
                                  (unsigned long long)file->size);
    }
    status = pst_data_file_read(file, 0, header, sizeof header, err);
    if (status != PST_OK) {
        return status;
    }
    while (i < 2 &&
           (read_u32(header) != forms[i].magic || read_u32(header + 4) != forms[i].version)) {
        i++;
    }
    if (i == 2) {
        return pst_data_file_fail(file, err,
                                  "byte 0: %u, version %u, is not an llm.c shard; one begins with "
                                  "20240520 (version 1, uint16) or 20240801 (version 7, uint32)",
                                  read_u32(header), read_u32(header + 4));
    }
    *ret_element = forms[i].element;
    part->offset = LLMC_HEADER;
    part->n = read_u32(header + 8);
    if (file->size - LLMC_HEADER != part->n * pst_element_bytes(*ret_element)) {
        return pst_data_file_fail(file, err,
                                  "byte 8: %llu tokens of %u bytes after a header of 1024 bytes do "
                                  "not match the file's %llu bytes",
                                  (unsigned long long)part->n, pst_element_bytes(*ret_element),
                                  (unsigned long long)file->size);
    }
    return PST_OK;
}

/* --- Megatron --------------------------------------------------------------------------------- */

/* Sequences, their lengths and begins, as the index has them. */
struct index {
    struct pst_data_file file;
    uint64_t n, n_documents, width;
};

static pst_status read_header(struct index *index, uint32_t *ret_element, struct pst_error *err)
{
    static const uint32_t elements[] = {
        [1] = PST_ELEMENT_U8,  [2] = PST_ELEMENT_I8,  [3] = PST_ELEMENT_I16,
        [4] = PST_ELEMENT_I32, [5] = PST_ELEMENT_I64, [8] = PST_ELEMENT_U16,
    };
    const struct pst_data_file *file = &index->file;
    unsigned char header[MEGATRON_HEADER] = {0};
    uint64_t extra;
    pst_status status = pst_data_file_read(
        file, 0, header, file->size < sizeof header ? file->size : sizeof header, err);

    if (status != PST_OK) {
        return status;
    }
    if (file->size < sizeof header || memcmp(header, "MMIDIDX\0\0", 9) != 0 ||
        read_u64(header + 9) != 1) {
        return pst_data_file_fail(
            file, err,
            "byte 0: not a Megatron index, which has MMIDIDX, version 1 and at least 34 bytes");
    }
    if (header[17] == 0 || header[17] > 8 || header[17] == 6 || header[17] == 7) {
        return pst_data_file_fail(
            file, err, "byte 17: dtype %u is not one of whole numbers: 1 to 5, 8", header[17]);
    }
    *ret_element = elements[header[17]];
    index->width = pst_element_bytes(*ret_element);
    index->n = read_u64(header + 18);
    index->n_documents = read_u64(header + 26);
    extra = file->size - sizeof header;
    if (index->n <= extra / 12 && index->n_documents <= (extra - 12 * index->n) / 8) {
        extra -= 12 * index->n + 8 * index->n_documents;
    } else {
        extra = UINT64_MAX;
    }
    if (extra != 0 && extra != index->n) { /* a mode of each sequence may stand after all */
        return pst_data_file_fail(file, err,
                                  "byte 18: %llu sequences and %llu document boundaries do not "
                                  "match the file's %llu bytes",
                                  (unsigned long long)index->n,
                                  (unsigned long long)index->n_documents,
                                  (unsigned long long)file->size);
    }
    return PST_OK;
}

/* Every sequence begins where the one before ends. *ret_tokens: of all of them, at most `most`. */
static pst_status add_lengths(const struct index *index, uint64_t most, uint64_t *ret_tokens,
                              struct pst_error *err)
{
    static const char *const wrong = "byte %llu: sequence %llu %s";
    unsigned char lengths[4 * PIECE], begins[8 * PIECE];
    uint64_t tokens = 0;

    for (uint64_t first = 0; first < index->n; first += PIECE) {
        uint64_t n = index->n - first < PIECE ? index->n - first : PIECE;
        uint64_t at = MEGATRON_HEADER + 4 * first,
                 begin_at = MEGATRON_HEADER + 4 * index->n + 8 * first;
        pst_status status = pst_data_file_read(&index->file, at, lengths, 4 * n, err);

        PST_TRY(status, pst_data_file_read(&index->file, begin_at, begins, 8 * n, err));
        for (uint64_t i = 0; status == PST_OK && i < n; i++) {
            if (read_u64(begins + 8 * i) != tokens * index->width) {
                status = pst_data_file_fail(
                    &index->file, err, wrong, (unsigned long long)(begin_at + 8 * i),
                    (unsigned long long)(first + i), "does not begin where the one before ends");
            } else if (read_u32(lengths + 4 * i) > most - tokens) {
                status =
                    pst_data_file_fail(&index->file, err, wrong, (unsigned long long)(at + 4 * i),
                                       (unsigned long long)(first + i),
                                       "is longer than what is left of the .bin file");
            }
            tokens += status == PST_OK ? read_u32(lengths + 4 * i) : 0;
        }
        if (status != PST_OK) {
            return status;
        }
    }
    *ret_tokens = tokens;
    return PST_OK;
}

pst_status pst_megatron_open(struct pst_part *part, uint32_t *ret_element, struct pst_error *err)
{
    size_t stem = strlen(part->file.path) - strlen(".bin");
    char *path = pst_printf("%.*s.idx", (int)stem, part->file.path);
    struct index index = {.n = 0};
    uint32_t none_kept = UINT32_MAX - 1;
    pst_status status = pst_link_follow(path, NULL, err);

    PST_TRY(status, pst_data_file_open(path, &none_kept, &index.file, err));
    free(path);
    if (status != PST_OK) {
        return status;
    }
    status = read_header(&index, ret_element, err);
    PST_TRY(status, add_lengths(&index, part->file.size / index.width, &part->n, err));
    if (status == PST_OK && part->file.size != part->n * index.width) {
        status = pst_data_file_fail(&part->file, err,
                                    "%llu bytes do not match its index: %llu tokens of %llu bytes",
                                    (unsigned long long)part->file.size,
                                    (unsigned long long)part->n, (unsigned long long)index.width);
    }
    pst_data_file_close(&index.file);
    return status;
}

/* .idx stands for .bin, and both names of a pair for one. */
pst_status pst_megatron_find(const char *patterns, const char *key, struct pst_paths *ret_paths,
                             struct pst_error *err)
{
    pst_status status = pst_paths_find(patterns, key, ".bin", ret_paths, err);
    uint32_t n = 0;

    for (uint32_t i = 0; status == PST_OK && i < ret_paths->n; i++) {
        char *path = ret_paths->paths[i];
        size_t length = strlen(path);
        bool known = false;

        if (length < 5 || !(pst_text_ends(path, ".idx") || pst_text_ends(path, ".bin"))) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "%s: \"%s\" is neither .bin nor .idx, as Megatron's files are", key,
                            path);
        }
        memcpy(path + length - 4, ".bin", 4);
        for (uint32_t k = 0; k < n && !known; k++) {
            known = strcmp(ret_paths->paths[k], path) == 0;
        }
        ret_paths->paths[i] = ret_paths->paths[n];
        ret_paths->paths[n] = path;
        n += !known;
    }
    for (uint32_t i = n; status == PST_OK && i < ret_paths->n; i++) {
        free(ret_paths->paths[i]);
    }
    ret_paths->n = status == PST_OK ? n : ret_paths->n;
    return status;
}

/* --- all of them ------------------------------------------------------------------------------ */

pst_status pst_raw_open(struct pst_part *part, uint32_t *ret_element, struct pst_error *err)
{
    uint32_t width = pst_element_bytes(*ret_element);

    part->n = part->file.size / width;
    if (part->file.size % width != 0) {
        return pst_data_file_fail(
            &part->file, err,
            "%llu bytes are not a whole number of tokens of %u bytes (data.dtype)",
            (unsigned long long)part->file.size, width);
    }
    return PST_OK;
}

static pst_status add_file(const struct pst_job *job, struct pst_data *data, const char *path,
                           struct pst_stream *stream, struct pst_error *err)
{
    struct pst_part part = {.offset = 0};
    uint32_t element = job->training->data.dtype == 0 ? PST_ELEMENT_U16 : PST_ELEMENT_U32;
    pst_status status = pst_data_file_open(path, &data->n_open, &part.file, err);

    if (status != PST_OK) {
        return status;
    }
    status = pst_data_check_file(data->kind->id, &part.file, err);
    PST_TRY(status, data->kind->open_tokens(&part, &element, err));
    if (status == PST_OK && stream->parts.n_parts > 0 && element != stream->element) {
        status =
            pst_data_file_fail(&part.file, err, "its tokens have %u bytes, those of %s have %u",
                               pst_element_bytes(element), stream->parts.parts[0].file.path,
                               pst_element_bytes(stream->element));
    }
    if (status != PST_OK) {
        pst_data_file_close(&part.file);
        return status;
    }
    stream->element = element;
    pst_parts_add(&stream->parts, &part);
    return PST_OK;
}

pst_status pst_data_open_tokens(const struct pst_job *job, struct pst_data *data,
                                const char *patterns, const char *labels, const char *key,
                                struct pst_store *store, struct pst_error *err)
{
    struct pst_paths paths = {.n = 0};
    pst_status status = data->kind->find != NULL ? data->kind->find(patterns, key, &paths, err)
                                                 : pst_paths_find(patterns, key, NULL, &paths, err);

    (void)labels;
    for (uint32_t i = 0; status == PST_OK && i < paths.n; i++) {
        status = add_file(job, data, paths.paths[i], &store->stream, err);
    }
    pst_paths_finish(&paths);
    return status;
}
