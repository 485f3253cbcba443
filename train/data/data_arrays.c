/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of arrays: NumPy's .npy, CIFAR's binary files, MNIST's IDX. Each says where its records lie
 * and what they are made of; headers are checked against the size of the file.
 */
#include "data/data_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MAX_HEADER ((uint64_t)64 << 10)

/* --- .npy ------------------------------------------------------------------------------------- */

/* The header is a Python dict, as text: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}.
 */
struct dict {
    const char *text, *at;
};

static void skip_spaces(struct dict *d)
{
    d->at += strspn(d->at, " \t\r\n");
}

static bool take_word(struct dict *d, const char *word)
{
    size_t n = strlen(word);

    skip_spaces(d);
    if (strncmp(d->at, word, n) != 0) {
        return false;
    }
    d->at += n;
    return true;
}

static bool take_string(struct dict *d, char ret_text[32])
{
    const char quote = take_word(d, "'") ? '\'' : take_word(d, "\"") ? '"' : '\0';
    const char *end = quote == '\0' ? NULL : strchr(d->at, quote);

    if (end == NULL || end - d->at > 31) {
        return false;
    }
    snprintf(ret_text, 32, "%.*s", (int)(end - d->at), d->at);
    d->at = end + 1;
    return true;
}

static bool take_number(struct dict *d, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t n;

    skip_spaces(d);
    n = strspn(d->at, "0123456789");
    for (size_t i = 0; i < n; i++) {
        number = number * 10 + (uint64_t)(d->at[i] - '0');
    }
    d->at += n;
    *ret_number = number;
    return n > 0 && n <= 18;
}

/* "(5, 2, 2)", "(5,)". */
static bool take_shape(struct dict *d, uint64_t dims[PST_COLUMN_RANK + 1], uint32_t *ret_rank)
{
    uint32_t rank = 0;

    if (!take_word(d, "(")) {
        return false;
    }
    while (!take_word(d, ")")) {
        if (rank > PST_COLUMN_RANK || !take_number(d, &dims[rank]) ||
            (!take_word(d, ",") && (rank == 0 || *d->at != ')'))) {
            return false;
        }
        rank++;
    }
    *ret_rank = rank;
    return true;
}

/* The fields of a header. */
struct npy {
    char type[32];
    bool fortran;
    uint64_t dims[PST_COLUMN_RANK + 1];
    uint32_t rank;
};

static bool read_dict(struct dict *d, struct npy *npy)
{
    uint32_t seen = 0, one;
    char key[32];

    if (!take_word(d, "{")) {
        return false;
    }
    while (!take_word(d, "}")) {
        if (!take_string(d, key) || !take_word(d, ":")) {
            return false;
        }
        if (strcmp(key, "descr") == 0 && take_string(d, npy->type)) {
            one = 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            npy->fortran = take_word(d, "True");
            one = npy->fortran || take_word(d, "False") ? 2 : 0;
        } else if (strcmp(key, "shape") == 0 && take_shape(d, npy->dims, &npy->rank)) {
            one = 4;
        } else {
            one = 0;
        }
        if (one == 0 || (seen & one) != 0) {
            return false;
        }
        seen |= one;
        take_word(d, ",");
    }
    skip_spaces(d);
    return seen == 7 && *d->at == '\0';
}

static bool element_of(const char *type, uint32_t *ret_element)
{
    static const char *const types[] = {"u1",  "i1",  "<u2", "<i2", "<u4",
                                        "<i4", "<u8", "<i8", "<f4", "<f8"};

    if (strcmp(type, "|b1") == 0) {
        *ret_element = PST_ELEMENT_U8;
        return true;
    }
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(type[0] != '\0' && i < 2 ? type + 1 : type, types[i]) == 0) {
            *ret_element = i;
            return true;
        }
    }
    return false;
}

/* dims: of all records. Checks the size of the file, too. */
static pst_status set_shape(struct pst_column *column, struct pst_part *part, const uint64_t *dims,
                            uint32_t rank, struct pst_error *err)
{
    const struct pst_data_file *file = &part->file;
    uint64_t elems = 1, size = file->size - part->offset;

    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0) {
            return pst_data_file_fail(file, err, "byte %llu: the array has no elements",
                                      (unsigned long long)part->offset);
        }
    }
    for (uint32_t i = 1; i < rank; i++) {
        if (elems > size / dims[i]) {
            elems = 0;
            break;
        }
        elems *= dims[i];
    }
    part->stride = elems * pst_element_bytes(column->element);
    if (elems == 0 || dims[0] != size / part->stride || size % part->stride != 0) {
        return pst_data_file_fail(file, err,
                                  "byte %llu: the %llu bytes from here on are not what the shape "
                                  "in the header needs",
                                  (unsigned long long)part->offset, (unsigned long long)size);
    }
    part->n = dims[0];
    if (column->parts.n_parts > 0) {
        bool same = column->rank == rank - 1;

        for (uint32_t i = 1; same && i < rank; i++) {
            same = column->dims[i - 1] == dims[i];
        }
        return same ? PST_OK
                    : pst_data_file_fail(file, err, "its records differ in shape from those of %s",
                                         column->parts.parts[0].file.path);
    }
    column->rank = rank - 1;
    memcpy(column->dims, dims + 1, (rank - 1) * sizeof *dims);
    column->elems = elems;
    return PST_OK;
}

/* The header's text, with a NUL after it; free() it. */
static pst_status read_npy_header(const struct pst_data_file *file, uint64_t *ret_end,
                                  char **ret_text, struct pst_error *err)
{
    unsigned char begin[12] = {0};
    uint64_t length, from;
    char *text;
    pst_status status = pst_data_file_read(file, 0, begin, file->size < 12 ? file->size : 12, err);

    if (status != PST_OK) {
        return status;
    }
    if (file->size < 12 || memcmp(begin, "\x93NUMPY", 6) != 0 || begin[6] < 1 || begin[6] > 3) {
        return pst_data_file_fail(file, err, "byte 0: not a .npy file of version 1, 2 or 3");
    }
    from = begin[6] == 1 ? 10 : 12;
    length = (uint64_t)begin[8] | (uint64_t)begin[9] << 8;
    length |= begin[6] == 1 ? 0 : (uint64_t)begin[10] << 16 | (uint64_t)begin[11] << 24;
    if (length > file->size - from || length > MAX_HEADER) {
        return pst_data_file_fail(file, err, "byte 8: the header has %llu bytes, the file %llu",
                                  (unsigned long long)length, (unsigned long long)file->size);
    }
    text = pst_alloc(length + 1, 1);
    status = pst_data_file_read(file, from, text, length, err);
    if (status != PST_OK || strlen(text) != length) {
        status = status != PST_OK
                     ? status
                     : pst_data_file_fail(file, err, "byte %llu: the header has a zero byte",
                                          (unsigned long long)(from + strlen(text)));
        free(text);
        return status;
    }
    *ret_end = from + length;
    *ret_text = text;
    return PST_OK;
}

pst_status pst_npy_open(const struct pst_data_kind *kind, bool labels, struct pst_column *column,
                        struct pst_part *part, struct pst_error *err)
{
    const struct pst_data_file *file = &part->file;
    struct npy npy = {.rank = 0};
    struct dict dict;
    uint32_t element = 0;
    char *text = NULL;
    pst_status status = read_npy_header(file, &part->offset, &text, err);

    (void)kind;
    (void)labels;
    if (status != PST_OK) {
        return status;
    }
    dict.text = dict.at = text;
    if (!read_dict(&dict, &npy)) {
        status = pst_data_file_fail(file, err,
                                    "byte %llu: the header is not {'descr': a simple type, "
                                    "'fortran_order': False, 'shape': (...)}",
                                    (unsigned long long)(part->offset - strlen(text)) +
                                        (unsigned long long)(dict.at - dict.text));
    } else if (!element_of(npy.type, &element)) {
        status = pst_data_file_fail(file, err,
                                    "elements of type \"%s\" are unsupported; supported are "
                                    "little-endian f4 and f8, whole numbers and b1",
                                    npy.type);
    } else if (npy.fortran || npy.rank == 0) {
        status = pst_data_file_fail(
            file, err, "%s",
            npy.fortran ? "the array is in Fortran order; save numpy.ascontiguousarray of it"
                        : "the array is one number, not records");
    } else if (column->parts.n_parts > 0 && element != column->element) {
        status = pst_data_file_fail(file, err, "its elements differ in type from those of %s",
                                    column->parts.parts[0].file.path);
    } else {
        column->element = element;
        status = set_shape(column, part, npy.dims, npy.rank, err);
    }
    free(text);
    return status;
}

/* --- IDX -------------------------------------------------------------------------------------- */

/* Big-endian: two zeros, type, number of dimensions; the dimensions; bytes. */
pst_status pst_idx_open(const struct pst_data_kind *kind, bool labels, struct pst_column *column,
                        struct pst_part *part, struct pst_error *err)
{
    const struct pst_data_file *file = &part->file;
    unsigned char header[4 + 4 * PST_COLUMN_RANK] = {0};
    uint64_t dims[PST_COLUMN_RANK];
    uint32_t rank;
    pst_status status = pst_data_file_read(
        file, 0, header, file->size < sizeof header ? file->size : sizeof header, err);

    (void)kind;
    (void)labels;
    if (status != PST_OK) {
        return status;
    }
    rank = header[3];
    if (header[0] != 0 || header[1] != 0 || header[2] != 8 || rank == 0 || rank > PST_COLUMN_RANK ||
        file->size < 4 + 4 * (uint64_t)rank) {
        return pst_data_file_fail(file, err,
                                  "byte 0: not an IDX file of bytes, which begins with 00 00 08 "
                                  "and the number of dimensions");
    }
    for (uint32_t i = 0; i < rank; i++) {
        const unsigned char *at = header + 4 + 4 * i;

        dims[i] = (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
    }
    column->element = PST_ELEMENT_U8;
    part->offset = 4 + 4 * (uint64_t)rank;
    return set_shape(column, part, dims, rank, err);
}

/* "train-images-idx3-ubyte" -> "train-labels-idx1-ubyte", in the last part of a path. NULL: it has
   no such words. */
char *pst_idx_labels_beside(const char *path)
{
    const char *name = strrchr(path, '/'), *images, *idx;

    name = name == NULL ? path : name + 1;
    images = strstr(name, "images");
    idx = images == NULL ? NULL : strstr(images, "idx3");
    if (idx == NULL) {
        return NULL;
    }
    return pst_printf("%.*slabels%.*sidx1%s", (int)(images - path), path, (int)(idx - images - 6),
                      images + 6, idx + 4);
}

/* --- CIFAR ------------------------------------------------------------------------------------ */

enum { CIFAR_PIXELS = 3 * 32 * 32 };

/* Records of one or two labels, the fine one last, and three planes of 32 x 32. */
pst_status pst_cifar_open(const struct pst_data_kind *kind, bool labels, struct pst_column *column,
                          struct pst_part *part, struct pst_error *err)
{
    const uint32_t n_labels = kind->n_labels;

    part->stride = CIFAR_PIXELS + n_labels;
    part->n = part->file.size / part->stride;
    part->offset = labels ? n_labels - 1 : n_labels;
    if (part->file.size % part->stride != 0) {
        return pst_data_file_fail(
            &part->file, err, "%llu bytes are not a whole number of records of %llu bytes",
            (unsigned long long)part->file.size, (unsigned long long)part->stride);
    }
    *column = (struct pst_column){.element = PST_ELEMENT_U8,
                                  .rank = labels ? 0 : 3,
                                  .dims = {3, 32, 32},
                                  .planar = !labels,
                                  .elems = labels ? 1 : CIFAR_PIXELS,
                                  .parts = column->parts};
    return PST_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

static pst_status add_file(struct pst_data *data, bool labels, const char *path,
                           struct pst_column *column, struct pst_error *err)
{
    struct pst_part part = {.offset = 0};
    pst_status status = pst_data_file_open(path, &data->n_open, &part.file, err);

    if (status != PST_OK) {
        return status;
    }
    status = pst_data_check_file(data->kind->id, &part.file, err);
    PST_TRY(status, data->kind->open_column(data->kind, labels, column, &part, err));
    if (status != PST_OK) {
        pst_data_file_close(&part.file);
        return status;
    }
    pst_parts_add(&column->parts, &part);
    return PST_OK;
}

static pst_status add_files(struct pst_data *data, bool labels, const struct pst_paths *paths,
                            struct pst_column *column, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < paths->n; i++) {
        status = add_file(data, labels, paths->paths[i], column, err);
    }
    return status;
}

/* Adds the named files, else the files beside the images, where labels are not in the same files.
 */
static pst_status add_labels(struct pst_data *data, const struct pst_paths *paths,
                             const char *patterns, const char *key, struct pst_column *column,
                             struct pst_error *err)
{
    bool named = patterns != NULL && patterns[0] != '\0';
    struct pst_paths found = {.n = 0};
    pst_status status = PST_OK;

    if (data->kind->n_labels > 0) {
        return add_files(data, true, paths, column, err);
    }
    if (named || data->kind->labels_beside == NULL) {
        status = pst_paths_find(patterns, key, NULL, &found, err);
        PST_TRY(status, add_files(data, true, &found, column, err));
        pst_paths_finish(&found);
        return status;
    }
    for (uint32_t i = 0; status == PST_OK && i < paths->n; i++) {
        char *path = data->kind->labels_beside(paths->paths[i]);

        status = path != NULL ? add_file(data, true, path, column, err)
                              : pst_fail(err, PST_ERR_CONFIG, "config.value",
                                         "%s is not set, and the name \"%s\" has no \"images\" and "
                                         "\"idx3\", from which the name of its labels would follow",
                                         key, paths->paths[i]);
        free(path);
    }
    return status;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Files of features and of labels belong together in sorted order. */
static pst_status check_pairs(const struct pst_records *records, const char *key,
                              const char *labels_key, struct pst_error *err)
{
    const struct pst_parts *x = &records->x.parts, *labels = &records->labels.parts;

    if (x->n_parts != labels->n_parts) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value", "%s has %u files and %s has %u", key,
                        x->n_parts, labels_key, labels->n_parts);
    }
    for (uint32_t i = 0; i < x->n_parts; i++) {
        if (x->parts[i].n != labels->parts[i].n) {
            return pst_data_file_fail(&labels->parts[i].file, err,
                                      "it has %llu labels, and %s has %llu records",
                                      (unsigned long long)labels->parts[i].n, x->parts[i].file.path,
                                      (unsigned long long)x->parts[i].n);
        }
    }
    return PST_OK;
}

pst_status pst_data_open_arrays(const struct pst_job *job, struct pst_data *data,
                                const char *patterns, const char *labels, const char *key,
                                struct pst_store *store, struct pst_error *err)
{
    const char *mean = job->training->data.mean, *std = job->training->data.std;
    struct pst_records *records = &store->records;
    struct pst_paths paths = {.n = 0};
    char labels_key[64];
    pst_status status = pst_paths_find(patterns, key, NULL, &paths, err);

    snprintf(labels_key, sizeof labels_key, "%s_labels", key);
    PST_TRY(status, add_files(data, false, &paths, &records->x, err));
    PST_TRY(status, add_labels(data, &paths, labels, labels_key, &records->labels, err));
    pst_paths_finish(&paths);
    if (status == PST_OK) {
        records->ignored = job->training->loop.ignore_index;
        records->scale = data->kind->scale;
        status = pst_records_fit(records, &data->shape, is_given(mean) ? mean : data->kind->mean,
                                 is_given(std) ? std : data->kind->std, err);
    }
    return status == PST_OK ? check_pairs(records, key, labels_key, err) : status;
}
