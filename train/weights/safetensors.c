/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading: the header's limits, then its JSON, then each tensor by itself, then all of them against
 * the data. The rules are those of the safetensors package (format.md, and the checks of its
 * reader): tensors tile the data without holes, sizes follow from shapes.
 */
#include "weights/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/util.h"

#define PREFIX  8u /* bytes: the length of the header */
#define NESTING 4u

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[PST_ST_DTYPES] = {
    [PST_ST_BOOL] = {"BOOL", 1}, [PST_ST_U8] = {"U8", 1},   [PST_ST_I8] = {"I8", 1},
    [PST_ST_I16] = {"I16", 2},   [PST_ST_U16] = {"U16", 2}, [PST_ST_F16] = {"F16", 2},
    [PST_ST_BF16] = {"BF16", 2}, [PST_ST_I32] = {"I32", 4}, [PST_ST_U32] = {"U32", 4},
    [PST_ST_F32] = {"F32", 4},   [PST_ST_F64] = {"F64", 8}, [PST_ST_I64] = {"I64", 8},
    [PST_ST_U64] = {"U64", 8},
};

struct file {
    struct pst_st_file base;
    struct pst_arena arena;
    int fd;
    uint64_t data_begin, data_bytes; /* in the file */
    json_t *header;
    struct pst_error *err; /* while it is opened */
};

const char *pst_st_dtype_name(enum pst_st_dtype dtype)
{
    return dtypes[dtype].name;
}

uint32_t pst_st_dtype_bytes(enum pst_st_dtype dtype)
{
    return dtypes[dtype].bytes;
}

/* --- the header's text -------------------------------------------------------------------------*/

#define fail_file(file, status, kind, ...)                                                         \
    pst_fail_at((file)->err, status, kind, (file)->base.path, 0, 0, __VA_ARGS__)
#define fail_syntax(file, ...) fail_file(file, PST_ERR_CONFIG, "input.syntax", __VA_ARGS__)

static pst_status read_at(const struct file *file, uint64_t at, uint64_t bytes, void *data,
                          struct pst_error *err)
{
    for (uint64_t done = 0; done < bytes;) {
        size_t piece = bytes - done < PST_FILE_PIECE ? (size_t)(bytes - done) : PST_FILE_PIECE;
        ssize_t n = pread(file->fd, (char *)data + done, piece, (off_t)(at + done));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return pst_fail_at(err, PST_ERR_IO, "input.path", file->base.path, 0, 0,
                               "cannot read byte %llu: %s", (unsigned long long)(at + done),
                               n < 0 ? strerror(errno) : "the file ends there");
        }
        done += (uint64_t)n;
    }
    return PST_OK;
}

/* Checks depth and number of brackets, before the parser recurses or allocates for them. */
static pst_status check_brackets(const struct file *file, const char *text, uint64_t length)
{
    uint32_t depth = 0;
    uint64_t n = 0;
    bool quoted = false;

    for (uint64_t at = 0; at < length; at++) {
        char c = text[at];

        if (quoted) {
            quoted = c != '"';
            at += c == '\\';
            continue;
        }
        quoted = c == '"';
        if (c == '{' || c == '[') {
            if (++depth > NESTING) {
                return fail_file(file, PST_ERR_CONFIG, "input.limit",
                                 "byte %llu: brackets nested more than %u deep",
                                 (unsigned long long)(PREFIX + at), NESTING);
            }
            if (++n > 3 * (uint64_t)PST_ST_TENSORS + 2) {
                return fail_file(file, PST_ERR_CONFIG, "input.limit", "more than %u tensors",
                                 PST_ST_TENSORS);
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return PST_OK;
}

static pst_status parse_header(struct file *file, const char *text, uint64_t length)
{
    json_error_t error;
    pst_status status = check_brackets(file, text, length);

    if (status != PST_OK) {
        return status;
    }
    if (length == 0 || text[0] != '{') {
        return fail_syntax(file, "byte %u: the header must begin with {", PREFIX);
    }
    file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    return file->header != NULL
               ? PST_OK
               : fail_syntax(file, "byte %d of the header: %s", error.position, error.text);
}

/* --- tensors -----------------------------------------------------------------------------------*/

#define fail_tensor(file, name, kind, format, ...)                                                 \
    fail_file(file, PST_ERR_CONFIG, kind, "tensor \"%.200s\": " format, name, __VA_ARGS__)

static bool take_count(const json_t *value, uint64_t *ret)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

static pst_status take_dtype(struct file *file, const json_t *of, struct pst_st_tensor *tensor)
{
    const char *word = json_string_value(json_object_get(of, "dtype"));
    uint32_t i = 0;

    if (word == NULL) {
        return fail_tensor(file, tensor->name, "input.syntax", "it has no %s", "dtype");
    }
    while (i < PST_ST_DTYPES && strcmp(dtypes[i].name, word) != 0) {
        i++;
    }
    if (i == PST_ST_DTYPES) {
        return fail_tensor(file, tensor->name, "input.unsupported",
                           "dtype %.32s cannot be read; F32, F16, BF16, F64 and integers can",
                           word);
    }
    tensor->dtype = (enum pst_st_dtype)i;
    return PST_OK;
}

static pst_status take_shape(struct file *file, const json_t *of, struct pst_st_tensor *tensor)
{
    const json_t *shape = json_object_get(of, "shape");
    uint64_t bytes;

    if (!json_is_array(shape)) {
        return fail_tensor(file, tensor->name, "input.syntax", "it has no %s", "shape");
    }
    if (json_array_size(shape) > PST_ST_RANK) {
        return fail_tensor(file, tensor->name, "input.limit", "more than %d dimensions",
                           PST_ST_RANK);
    }
    tensor->rank = (uint32_t)json_array_size(shape);
    tensor->elems = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!take_count(json_array_get(shape, i), &tensor->shape[i])) {
            return fail_tensor(file, tensor->name, "input.syntax",
                               "shape[%u] is not a number from 0", i);
        }
        if (__builtin_mul_overflow(tensor->elems, tensor->shape[i], &tensor->elems)) {
            return fail_tensor(file, tensor->name, "input.limit", "%s", "its size overflows");
        }
    }
    if (__builtin_mul_overflow(tensor->elems, dtypes[tensor->dtype].bytes, &bytes)) {
        return fail_tensor(file, tensor->name, "input.limit", "%s", "its size overflows");
    }
    return PST_OK;
}

static pst_status take_place(struct file *file, const json_t *of, struct pst_st_tensor *tensor)
{
    const json_t *offsets = json_object_get(of, "data_offsets");
    uint64_t end, need = tensor->elems * dtypes[tensor->dtype].bytes;

    if (json_array_size(offsets) != 2 || !take_count(json_array_get(offsets, 0), &tensor->begin) ||
        !take_count(json_array_get(offsets, 1), &end)) {
        return fail_tensor(file, tensor->name, "input.syntax", "it has no %s",
                           "data_offsets of two numbers");
    }
    if (end < tensor->begin || end > file->data_bytes) {
        return fail_tensor(file, tensor->name, "input.syntax",
                           "data_offsets [%llu, %llu] are not within the %llu bytes of data%s",
                           (unsigned long long)tensor->begin, (unsigned long long)end,
                           (unsigned long long)file->data_bytes,
                           end > file->data_bytes ? "; is the file truncated?" : "");
    }
    tensor->bytes = end - tensor->begin;
    if (tensor->bytes != need) {
        return fail_tensor(file, tensor->name, "input.syntax",
                           "its shape needs %llu bytes, data_offsets give it %llu",
                           (unsigned long long)need, (unsigned long long)tensor->bytes);
    }
    return PST_OK;
}

static pst_status take_tensor(struct file *file, const json_t *of, struct pst_st_tensor *tensor)
{
    pst_status status;

    if (!json_is_object(of)) {
        return fail_tensor(file, tensor->name, "input.syntax", "it is not %s", "an object");
    }
    status = take_dtype(file, of, tensor);
    PST_TRY(status, take_shape(file, of, tensor));
    return status == PST_OK ? take_place(file, of, tensor) : status;
}

static pst_status check_metadata(struct file *file, json_t *pairs)
{
    const char *key;
    json_t *value;

    if (!json_is_object(pairs)) {
        return fail_syntax(file, "__metadata__ is not an object");
    }
    json_object_foreach(pairs, key, value)
    {
        if (!json_is_string(value)) {
            return fail_syntax(file, "__metadata__: \"%.200s\" is not a string", key);
        }
    }
    return PST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pst_st_tensor *)a)->name, ((const struct pst_st_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct pst_st_tensor *one = *(const struct pst_st_tensor *const *)a;
    const struct pst_st_tensor *other = *(const struct pst_st_tensor *const *)b;

    /* empty ones first */
    return PST_COMPARE_KEYS({one->begin, other->begin}, {one->bytes, other->bytes});
}

/* From the first byte of data to the last, each belongs to one tensor. */
static pst_status check_tiles(struct file *file)
{
    const struct pst_st_tensor **order = pst_alloc(file->base.n + 1, sizeof *order);
    uint64_t at = 0;
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < file->base.n; i++) {
        order[i] = &file->base.tensors[i];
    }
    qsort(order, file->base.n, sizeof *order, by_place);
    for (uint32_t i = 0; status == PST_OK && i < file->base.n; i++) {
        if (order[i]->begin != at) {
            status =
                fail_tensor(file, order[i]->name, "input.syntax",
                            "it begins at byte %llu of the data, the tensor before ends at %llu",
                            (unsigned long long)order[i]->begin, (unsigned long long)at);
        }
        at = order[i]->begin + order[i]->bytes;
    }
    if (status == PST_OK && at != file->data_bytes) {
        status = fail_syntax(file, "%llu bytes of data belong to no tensor",
                             (unsigned long long)(file->data_bytes - at));
    }
    free(order);
    return status;
}

static pst_status take_tensors(struct file *file)
{
    struct pst_st_tensor *tensors;
    const char *key;
    json_t *value;
    pst_status status = PST_OK;

    if (json_object_size(file->header) > PST_ST_TENSORS + 1) {
        return fail_file(file, PST_ERR_CONFIG, "input.limit", "more than %u tensors",
                         PST_ST_TENSORS);
    }
    tensors = pst_arena_array(&file->arena, json_object_size(file->header) + 1, sizeof *tensors);
    file->base.tensors = tensors;
    json_object_foreach(file->header, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            status = check_metadata(file, value);
        } else {
            tensors[file->base.n].name = key;
            status = take_tensor(file, value, &tensors[file->base.n++]);
        }
        if (status != PST_OK) {
            return status;
        }
    }
    qsort(tensors, file->base.n, sizeof *tensors, by_name);
    return check_tiles(file);
}

/* --- a header as writers write it
 * ---------------------------------------------------------------*/

/* A general parser takes 50 s for a header of 100 MB. This one takes what every writer writes:
   plain names, no other keys. It says no to all else, and to everything that is wrong; then the
   general one reads the header, and tells why. */
struct scan {
    const char *at, *end;
};

static void skip_spaces(struct scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n')) {
        scan->at++;
    }
}

static bool skip_to(struct scan *scan, char wanted)
{
    skip_spaces(scan);
    if (scan->at == scan->end || *scan->at != wanted) {
        return false;
    }
    scan->at++;
    return true;
}

/* Reads a string of ASCII characters without escapes. */
static bool scan_string(struct scan *scan, const char **ret_text, size_t *ret_n)
{
    const char *begin;

    if (!skip_to(scan, '"')) {
        return false;
    }
    begin = scan->at;
    while (scan->at < scan->end && *scan->at >= ' ' && *scan->at < 0x7f && *scan->at != '"' &&
           *scan->at != '\\') {
        scan->at++;
    }
    *ret_text = begin;
    *ret_n = (size_t)(scan->at - begin);
    return skip_to(scan, '"');
}

/* At most `most` numbers from 0 in brackets. */
static bool scan_numbers(struct scan *scan, uint32_t most, uint64_t *ret_numbers, uint32_t *ret_n)
{
    uint32_t n = 0;

    if (!skip_to(scan, '[')) {
        return false;
    }
    if (skip_to(scan, ']')) {
        *ret_n = 0;
        return true;
    }
    do {
        const char *begin;
        uint64_t number = 0;

        skip_spaces(scan);
        for (begin = scan->at; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';) {
            number = 10 * number + (uint64_t)(*scan->at++ - '0');
        }
        if (n == most || scan->at == begin || scan->at - begin > 18 ||
            (*begin == '0' && scan->at - begin > 1)) {
            return false;
        }
        ret_numbers[n++] = number;
    } while (skip_to(scan, ','));
    *ret_n = n;
    return skip_to(scan, ']');
}

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

static bool scan_dtype(struct scan *scan, enum pst_st_dtype *ret_dtype)
{
    const char *text;
    size_t n;
    uint32_t i = 0;

    if (!scan_string(scan, &text, &n)) {
        return false;
    }
    while (i < PST_ST_DTYPES && !is_word(text, n, dtypes[i].name)) {
        i++;
    }
    *ret_dtype = (enum pst_st_dtype)i;
    return i < PST_ST_DTYPES;
}

static bool scan_tensor(struct scan *scan, uint64_t data_bytes, struct pst_st_tensor *tensor)
{
    uint64_t places[2] = {0, 0};
    uint32_t n_places, seen = 0;

    if (!skip_to(scan, '{')) {
        return false;
    }
    do {
        const char *key;
        size_t n;
        uint32_t bit;

        if (!scan_string(scan, &key, &n) || !skip_to(scan, ':')) {
            return false;
        }
        bit = is_word(key, n, "dtype") ? 1 : is_word(key, n, "shape") ? 2 : 4;
        if ((seen & bit) != 0 || (bit == 1 && !scan_dtype(scan, &tensor->dtype)) ||
            (bit == 2 && !scan_numbers(scan, PST_ST_RANK, tensor->shape, &tensor->rank)) ||
            (bit == 4 && (!is_word(key, n, "data_offsets") ||
                          !scan_numbers(scan, 2, places, &n_places) || n_places != 2))) {
            return false;
        }
        seen |= bit;
    } while (skip_to(scan, ','));
    tensor->elems = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (__builtin_mul_overflow(tensor->elems, tensor->shape[i], &tensor->elems)) {
            return false;
        }
    }
    tensor->begin = places[0];
    tensor->bytes = places[1] - places[0];
    return seen == 7 && skip_to(scan, '}') && places[0] <= places[1] && places[1] <= data_bytes &&
           tensor->elems <= data_bytes && /* which keeps the product small */
           tensor->elems * dtypes[tensor->dtype].bytes == tensor->bytes;
}

static bool scan_metadata(struct scan *scan)
{
    const char *text;
    size_t n;

    if (!skip_to(scan, '{')) {
        return false;
    }
    if (skip_to(scan, '}')) {
        return true;
    }
    do {
        if (!scan_string(scan, &text, &n) || !skip_to(scan, ':') || !scan_string(scan, &text, &n)) {
            return false;
        }
    } while (skip_to(scan, ','));
    return skip_to(scan, '}');
}

/* Tensors by name; false: the general parser is to read the header. */
static bool scan_header(struct file *file, const char *text, uint64_t length)
{
    struct scan scan = {text, text + length};
    size_t room = 0;
    struct pst_st_tensor *tensors = NULL;
    bool good = skip_to(&scan, '{'), metadata = false;
    uint32_t n = 0;

    do {
        const char *name;
        size_t size;

        good = good && scan_string(&scan, &name, &size) && skip_to(&scan, ':');
        if (good && is_word(name, size, "__metadata__")) {
            good = !metadata && scan_metadata(&scan);
            metadata = true;
        } else if (good) {
            pst_grow(&tensors, &room, n, sizeof *tensors);
            tensors[n] =
                (struct pst_st_tensor){.name = pst_arena_strndup(&file->arena, name, size)};
            good = n < PST_ST_TENSORS && scan_tensor(&scan, file->data_bytes, &tensors[n++]);
        }
    } while (good && skip_to(&scan, ','));
    good = good && skip_to(&scan, '}') && n > 0;
    skip_spaces(&scan);
    good = good && scan.at == scan.end;
    if (good) {
        qsort(tensors, n, sizeof *tensors, by_name);
    }
    for (uint32_t i = 1; good && i < n; i++) {
        good = strcmp(tensors[i].name, tensors[i - 1].name) != 0;
    }
    if (good) {
        file->base.tensors = pst_arena_array(&file->arena, n, sizeof *tensors);
        memcpy((void *)(uintptr_t)file->base.tensors, tensors, n * sizeof *tensors);
        file->base.n = n;
    }
    free(tensors);
    return good;
}

static uint64_t little_endian(const unsigned char *bytes)
{
    uint64_t number = 0;

    for (uint32_t i = 0; i < PREFIX; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

static pst_status read_header(struct file *file, uint64_t size)
{
    unsigned char prefix[PREFIX];
    uint64_t length;
    char *text;
    pst_status status;

    if (size < PREFIX) {
        return fail_syntax(file, "not a safetensors file: it has only %llu bytes",
                           (unsigned long long)size);
    }
    status = read_at(file, 0, PREFIX, prefix, file->err);
    if (status != PST_OK) {
        return status;
    }
    length = little_endian(prefix);
    if (length > PST_ST_HEADER) {
        return fail_file(
            file, PST_ERR_CONFIG, "input.limit",
            "not a safetensors file: its first 8 bytes give the header %llu bytes, more than %u",
            (unsigned long long)length, PST_ST_HEADER);
    }
    if (length > size - PREFIX) {
        return fail_syntax(file, "truncated: the header has %llu bytes, the file %llu",
                           (unsigned long long)length, (unsigned long long)size);
    }
    file->data_begin = PREFIX + length;
    file->data_bytes = size - file->data_begin;
    text = pst_alloc((size_t)length + 1, 1);
    status = read_at(file, PREFIX, length, text, file->err);
    if (status == PST_OK && !scan_header(file, text, length)) {
        status = parse_header(file, text, length);
    }
    free(text);
    return status;
}

/* --- the interface -----------------------------------------------------------------------------*/

static pst_status open_at(struct file *file, int folder, const char *name, uint64_t *ret_size)
{
    struct stat info;

    if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, "..") == 0 ||
        strcmp(name, ".") == 0) {
        return fail_file(file, PST_ERR_CONFIG, "input.syntax",
                         "\"%.200s\" is not a plain file name", name);
    }
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    file->fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
    if (file->fd < 0 || fstat(file->fd, &info) != 0) {
        return fail_file(file, PST_ERR_IO, "input.path", "cannot open the file: %s",
                         errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return fail_file(file, PST_ERR_IO, "input.path", "not a regular file");
    }
    *ret_size = (uint64_t)info.st_size;
    return PST_OK;
}

pst_status pst_st_open(int folder, const char *name, const char *path,
                       struct pst_st_file **ret_file, struct pst_error *err)
{
    struct file *file = pst_alloc(1, sizeof *file);
    uint64_t size = 0;
    pst_status status;

    file->fd = -1;
    file->err = err;
    file->base.path = pst_arena_strdup(&file->arena, path);
    status = open_at(file, folder, name, &size);
    PST_TRY(status, read_header(file, size));
    if (status == PST_OK) {
        status = file->header == NULL ? check_tiles(file) : take_tensors(file);
    }
    if (status != PST_OK) {
        pst_st_close(&file->base);
        return status;
    }
    *ret_file = &file->base;
    return PST_OK;
}

void pst_st_close(struct pst_st_file *base)
{
    struct file *file = (struct file *)base;

    if (file != NULL) {
        if (file->fd >= 0) {
            close(file->fd);
        }
        json_decref(file->header);
        pst_arena_finish(&file->arena);
        free(file);
    }
}

const struct pst_st_tensor *pst_st_find(const struct pst_st_file *file, const char *name)
{
    struct pst_st_tensor key = {.name = name};

    return bsearch(&key, file->tensors, file->n, sizeof *file->tensors, by_name);
}

pst_status pst_st_read(const struct pst_st_file *file, const struct pst_st_tensor *tensor,
                       uint64_t offset, uint64_t bytes, void *ret_data, struct pst_error *err)
{
    const struct file *own = (const struct file *)file;

    PST_ASSERT(offset <= tensor->bytes && bytes <= tensor->bytes - offset);
    return read_at(own, own->data_begin + tensor->begin + offset, bytes, ret_data, err);
}

static float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7FFFu, bits;
    float value;

    if (rest < 0x400u) { /* zero or a subnormal: units of 2^-24 */
        value = (float)rest * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
    } else if (rest >= 0x7C00u) {
        bits = 0x7F800000u | (rest & 0x3FFu) << 13;
    } else {
        bits = (rest << 13) + ((127u - 15u) << 23);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* n elements of 2 or 8 bytes. */
static void to_f32(enum pst_st_dtype dtype, const char *bytes, uint64_t n, float *values)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        uint32_t bits;
        double wide;

        if (dtype == PST_ST_F64) {
            memcpy(&wide, bytes + i * 8, 8);
            values[i] = (float)wide;
        } else {
            memcpy(&half, bytes + i * 2, 2);
            if (dtype == PST_ST_F16) {
                values[i] = from_f16(half);
            } else {
                bits = (uint32_t)half << 16;
                memcpy(&values[i], &bits, sizeof bits);
            }
        }
    }
}

pst_status pst_st_read_f32(const struct pst_st_file *file, const struct pst_st_tensor *tensor,
                           uint64_t first, uint64_t n, float *ret_values, struct pst_error *err)
{
    uint32_t size = dtypes[tensor->dtype].bytes;
    char piece[1 << 16];

    if (tensor->dtype == PST_ST_F32) {
        return pst_st_read(file, tensor, first * 4, n * 4, ret_values, err);
    }
    if (tensor->dtype != PST_ST_F16 && tensor->dtype != PST_ST_BF16 &&
        tensor->dtype != PST_ST_F64) {
        return pst_fail_at(err, PST_ERR_CONFIG, "input.unsupported", file->path, 0, 0,
                           "tensor \"%.200s\": dtype %s is not one of real numbers", tensor->name,
                           dtypes[tensor->dtype].name);
    }
    for (uint64_t done = 0; done < n;) {
        uint64_t m = n - done < sizeof piece / size ? n - done : sizeof piece / size;
        pst_status status = pst_st_read(file, tensor, (first + done) * size, m * size, piece, err);

        if (status != PST_OK) {
            return status;
        }
        to_f32(tensor->dtype, piece, m, ret_values + done);
        done += m;
    }
    return PST_OK;
}
