/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing weights as they are published: tensors in the order of the model, in files of a limited
 * size, an index where there are several, config.json. One value is in memory at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/names.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/util.h"
#include "weights/weights.h"
#include "weights/weights_impl.h"

#define BLOCK PST_WEIGHTS_BLOCK

/* A value, and where its pieces are among the tensors. */
struct value {
    const struct pst_weights_value *is;
    const struct pst_initial_tensor *constant; /* of the model's file, in the place of a value */
    struct pst_weights_piece *pieces;
    uint32_t n_pieces, first;
};

struct export
{
    struct pst_arena arena;
    const struct pst_exec_source *source;
    const struct pst_initial *initial;
    const char *folder;
    enum pst_st_dtype dtype;
    struct value *values;
    struct pst_st_tensor *tensors; /* of all values, in order */
    uint32_t n_values, n_tensors;
    uint32_t n_files;
    uint32_t *first_value; /* n_files + 1: the values of a file */
    uint64_t bytes;
    char **written; /* files that are to go where a later one fails */
    uint32_t n_written;
};

/* --- what there is ---------------------------------------------------------------------------- */

static const char *name_of(const struct value *value)
{
    return value->is == NULL ? value->constant->name : value->is->name;
}

static void list_constant(struct export *x, const struct value *value)
{
    const struct pst_initial_tensor *constant = value->constant;
    struct pst_st_tensor *tensor = &x->tensors[value->first];

    *tensor = (struct pst_st_tensor){.name = constant->name,
                                     .dtype = constant->kind == PST_TENSOR_REAL    ? x->dtype
                                              : constant->kind == PST_TENSOR_TRUTH ? PST_ST_BOOL
                                                                                   : PST_ST_I64,
                                     .rank = constant->rank};
    memcpy(tensor->shape, constant->dims, sizeof tensor->shape);
}

static pst_status list_values(struct export *x, const struct pst_job *job,
                              const struct pst_graph *graph, const struct pst_published *family,
                              struct pst_error *err)
{
    const struct pst_published_file *file = pst_weights_file(graph);
    uint32_t n;
    struct pst_weights_value *values = pst_weights_values(graph, &x->arena, &n);
    pst_status status = pst_weights_check_rows(graph, job, family, values, n, err);

    x->values =
        pst_arena_array(&x->arena, n + 1 + (file == NULL ? 0 : file->n_tensors), sizeof *x->values);
    for (uint32_t i = 0; i < n; i++) {
        struct value *value = &x->values[i];

        value->is = &values[i];
        value->first = x->n_tensors;
        PST_TRY(status, pst_weights_pieces(graph, job, family, &values[i], &x->arena,
                                           &value->pieces, &value->n_pieces, err));
        x->n_tensors += value->n_pieces;
    }
    x->n_values = n;
    for (uint32_t i = 0; file != NULL && i < file->n_tensors; i++) {
        if (file->tensors[i].own == NULL) {
            x->values[x->n_values++] =
                (struct value){.constant = &file->tensors[i], .first = x->n_tensors++};
        }
    }
    x->tensors = pst_arena_array(&x->arena, x->n_tensors + 1, sizeof *x->tensors);
    for (uint32_t i = 0; status == PST_OK && i < x->n_values; i++) {
        const struct value *value = &x->values[i];

        if (value->constant != NULL) {
            list_constant(x, value);
        }
        for (uint32_t k = 0; k < value->n_pieces; k++) {
            struct pst_st_tensor *tensor = &x->tensors[value->first + k];
            struct pst_weights_shape shape = pst_weights_shape_of(&values[i], &value->pieces[k]);

            *tensor = (struct pst_st_tensor){
                .name = value->pieces[k].name, .dtype = x->dtype, .rank = shape.rank};
            memcpy(tensor->shape, shape.dims, sizeof tensor->shape);
        }
    }
    return status;
}

/* A second tensor of a name would take the place of the first when the file is read. */
static pst_status check_names(struct export *x, struct pst_error *err)
{
    struct pst_names names;
    pst_status status = PST_OK;

    pst_names_init(&names, &x->arena, x->n_tensors);
    for (uint32_t i = 0; status == PST_OK && i < x->n_values; i++) {
        const struct value *value = &x->values[i];
        const uint32_t n = value->is == NULL ? 1 : value->n_pieces;

        for (uint32_t t = value->first; status == PST_OK && t < value->first + n; t++) {
            const uint32_t other = pst_names_add(&names, x->tensors[t].name, i);

            if (other != PST_NONE) {
                status = pst_fail(err, PST_ERR_CONFIG, "weights.mismatch",
                                  "%s: tensor \"%.200s\" is already written for %s; two parameters "
                                  "cannot share a tensor",
                                  name_of(value), x->tensors[t].name, name_of(&x->values[other]));
            }
        }
    }
    return status;
}

static uint64_t elems_of(const struct pst_st_tensor *tensor)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < tensor->rank; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

/* Values go into a file until it has so many bytes. */
static void share_out(struct export *x, uint64_t shard_bytes)
{
    uint64_t in_file = 0;

    x->first_value = pst_arena_array(&x->arena, x->n_values + 2, sizeof *x->first_value);
    x->n_files = 1;
    for (uint32_t i = 0; i < x->n_values; i++) {
        const struct value *value = &x->values[i];
        uint64_t bytes = 0;

        for (uint32_t t = value->first; t < value->first + value->n_pieces + (value->is == NULL);
             t++) {
            bytes += elems_of(&x->tensors[t]) * pst_st_dtype_bytes(x->tensors[t].dtype);
        }

        if (in_file > 0 && in_file + bytes > shard_bytes) {
            x->first_value[x->n_files++] = i;
            in_file = 0;
        }
        in_file += bytes;
        x->bytes += bytes;
    }
    x->first_value[x->n_files] = x->n_values;
}

static char *file_name(struct export *x, uint32_t file)
{
    return x->n_files == 1 ? pst_arena_strdup(&x->arena, PST_WEIGHTS_FILE)
                           : pst_arena_printf(&x->arena, "model-%05u-of-%05u.safetensors", file + 1,
                                              x->n_files);
}

/* --- files ------------------------------------------------------------------------------------ */

/* In place. */
static void round_all(float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t rounded = pst_bf16_round(values[i]);

        memcpy((char *)values + i * sizeof rounded, &rounded, sizeof rounded);
    }
}

/* A tensor of a file that is written. */
struct target {
    const struct pst_st_writer *writer;
    uint32_t tensor;
    enum pst_st_dtype dtype; /* of values that are written as f32 or bf16 */
};

static pst_status write_block(void *context, uint64_t first, uint64_t n, float *block,
                              struct pst_error *err)
{
    const struct target *to = context;
    const uint64_t bytes = pst_st_dtype_bytes(to->dtype);

    if (to->dtype == PST_ST_BF16) {
        round_all(block, n);
    }
    return pst_st_write(to->writer, to->tensor, first * bytes, block, n * bytes, err);
}

/* Elements [first, first + n) of a tensor of the model's file as it has them. */
static pst_status write_of_file(const struct export *x, const struct pst_initial_tensor *from,
                                struct target *to, uint64_t first, uint64_t n,
                                struct pst_error *err)
{
    void *block = pst_alloc(BLOCK, 8);
    pst_status status = PST_OK;

    for (uint64_t done = 0; status == PST_OK && done < n; done += BLOCK) {
        const uint64_t m = n - done < BLOCK ? n - done : BLOCK;

        status = x->initial->read(x->initial->context, from, first + done, m, block, err);
        PST_TRY(status, write_block(to, first + done, m, block, err));
    }
    free(block);
    return status;
}

/* The rows of a tensor before and after those that the model has are as the file has them. */
static pst_status write_other_rows(const struct export *x, const struct value *value, uint32_t i,
                                   struct target *to, struct pst_error *err)
{
    const struct pst_initial_tensor *from = value->pieces[i].of_file;
    const uint64_t end = from == NULL ? 0 : from->first + value->is->elems;
    pst_status status = PST_OK;

    if (from != NULL) {
        status = write_of_file(x, from, to, 0, from->first, err);
        PST_TRY(status, write_of_file(x, from, to, end,
                                      elems_of(&x->tensors[value->first + i]) - end, err));
    }
    return status;
}

static pst_status write_value(const struct export *x, const struct value *value,
                              const struct pst_st_writer *writer, uint32_t first_tensor,
                              struct pst_error *err)
{
    struct pst_state_key key;
    float *values;
    bool found = false;
    pst_status status;

    if (value->constant != NULL) {
        struct target to = {writer, value->first - first_tensor, x->tensors[value->first].dtype};

        return write_of_file(x, value->constant, &to, 0, elems_of(&x->tensors[value->first]), err);
    }
    key = (struct pst_state_key){value->is->kind, value->is->index, value->is->number};
    values = pst_alloc(value->is->elems + 1, sizeof *values);
    status = x->source->load(x->source->context, &key, value->is->elems, values, &found, err);
    if (status == PST_OK && !found) {
        status = pst_fail(err, PST_ERR_CONFIG, "weights.mismatch", "there is no %s to write",
                          value->is->name);
    }
    for (uint32_t i = 0; status == PST_OK && i < value->n_pieces; i++) {
        struct target to = {writer, value->first + i - first_tensor, x->dtype};

        status = pst_weights_pass(&value->pieces[i], values, true, write_block, &to, err);
        PST_TRY(status, write_other_rows(x, value, i, &to, err));
    }
    free(values);
    return status;
}

static pst_status write_file(struct export *x, uint32_t file, struct pst_error *err)
{
    static const struct pst_st_pair format = {"format", "pt"}; /* transformers asks for it */
    uint32_t begin = x->first_value[file], end = x->first_value[file + 1];
    uint32_t first = x->values[begin].first;
    uint32_t last = end < x->n_values ? x->values[end].first : x->n_tensors;
    char *path = pst_arena_printf(&x->arena, "%s/%s", x->folder, file_name(x, file));
    struct pst_st_writer *writer = NULL;
    pst_status status =
        pst_st_create(path, x->tensors + first, last - first, &format, 1, &writer, err);

    for (uint32_t i = begin; status == PST_OK && i < end; i++) {
        status = pst_stop_requested() ? pst_stop_fail(err)
                                      : write_value(x, &x->values[i], writer, first, err);
    }
    if (status != PST_OK) {
        pst_st_abandon(writer);
        return status;
    }
    x->written[x->n_written++] = path;
    return pst_st_finish(writer, err);
}

/* name: with a slash. */
static pst_status write_text(struct export *x, const char *name, const char *text,
                             struct pst_error *err)
{
    char *path = pst_arena_printf(&x->arena, "%s%s", x->folder, name);

    return pst_file_write(path, text, strlen(text), err);
}

static pst_status write_index(struct export *x, struct pst_error *err)
{
    struct pst_json json;
    pst_status status;
    char *text;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_object(&json, "metadata");
    pst_json_uint(&json, "total_size", x->bytes);
    pst_json_end(&json, '}');
    pst_json_object(&json, "weight_map");
    for (uint32_t f = 0; f < x->n_files; f++) {
        uint32_t end = x->first_value[f + 1];
        uint32_t last = end < x->n_values ? x->values[end].first : x->n_tensors;

        for (uint32_t i = x->values[x->first_value[f]].first; i < last; i++) {
            pst_json_string(&json, x->tensors[i].name, file_name(x, f));
        }
    }
    pst_json_end(&json, '}');
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    text = pst_json_take(&json);
    status = write_text(x, "/" PST_WEIGHTS_INDEX, text, err);
    free(text);
    return status;
}

static pst_status make_folder(const char *folder, bool *ret_made, struct pst_error *err)
{
    *ret_made = mkdir(folder, 0777) == 0;
    return *ret_made || errno == EEXIST
               ? PST_OK
               : pst_fail_at(err, PST_ERR_IO, "output.write", folder, 0, 0,
                             "cannot make the folder: %s", strerror(errno));
}

/* Readers take an index before a single file: what stays of older weights must not be read. */
static void remove_other_form(struct export *x)
{
    char *path = pst_arena_printf(&x->arena, "%s/%s", x->folder,
                                  x->n_files == 1 ? PST_WEIGHTS_INDEX : PST_WEIGHTS_FILE);

    unlink(path);
}

/* There may be no published model that computes what this one does. */
static pst_status check_form(const struct pst_published *family, const struct pst_job *job,
                             struct pst_error *err)
{
    for (const struct pst_published_lack *lack = family->unpublished; lack->when != NULL; lack++) {
        if (pst_weights_when(lack->when, job)) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "output.form",
                            "this model has %s, but no published model has", lack->what);
        }
    }
    return PST_OK;
}

/* "a is b, c is d": of the tensors with that remark, at most five. How many there are. */
static uint32_t list_remarked(const struct pst_published_file *file, uint32_t remark, char *text,
                              size_t size)
{
    uint32_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < file->n_tensors; i++) {
        const struct pst_initial_tensor *tensor = &file->tensors[i];

        if (tensor->remark == remark && n++ < 5) {
            pst_text_append(text, size, "%s%.80s", n > 1 ? ", " : "", tensor->of_file);
            if (remark == PST_TENSOR_GUESSED) {
                pst_text_append(text, size, " is %.80s", tensor->name);
            }
        }
    }
    pst_text_append(text, size, "%s", n > 5 ? ", ..." : "");
    return n;
}

/* Names that a file of a model does not say, and what it does not have. */
static void tell_names(const struct pst_published_file *file)
{
    char text[1024] = "";
    uint32_t n;

    if (file == NULL) {
        return;
    }
    if (list_remarked(file, PST_TENSOR_GUESSED, text, sizeof text) > 0) {
        pst_log(PST_LOG_WARN, "weights",
                "%s: tensors that the file does not name are named after their readers: %s",
                file->path, text);
    }
    n = list_remarked(file, PST_TENSOR_NAMELESS, text, sizeof text);
    if (n > 0) {
        pst_log(
            PST_LOG_WARN, "weights",
            "%s: the exporter of the file computed %u tensors, which have no name in the module: "
            "%s; export the module again with do_constant_folding=False, or with optimize=False",
            file->path, n, text);
    }
    text[0] = '\0';
    for (uint32_t i = 0; i < file->n_absent && i < 5; i++) {
        pst_text_append(text, sizeof text, "%s%.80s", i > 0 ? ", " : "", file->absent[i]);
    }
    if (file->n_absent > 0) {
        pst_log(PST_LOG_WARN, "weights",
                "%s: %u tensors of the module are not in the file, because its exporter omits "
                "tensors that no output depends on and tensors that it computes itself: %s%s; "
                "load_state_dict needs strict=False",
                file->path, file->n_absent, text, file->n_absent > 5 ? ", ..." : "");
    }
}

pst_status pst_weights_write(const struct pst_job *job, const struct pst_graph *graph,
                             const struct pst_exec_source *source, const char *folder,
                             enum pst_st_dtype dtype, uint64_t shard_bytes, struct pst_error *err)
{
    const struct pst_published *family = NULL;
    struct export x = {
        .source = source, .initial = &graph->initial, .folder = folder, .dtype = dtype};
    bool made = false;
    char *text = NULL;
    pst_status status =
        pst_published_read(job->training->loop.init_family, graph->name, &x.arena, &family, err);

    PST_TRY(status, check_form(family, job, err));
    PST_TRY(status, list_values(&x, job, graph, family, err));
    PST_TRY(status, check_names(&x, err));
    PST_TRY(status, family->keys == NULL ? PST_OK : pst_weights_config(job, family, &text, err));
    PST_TRY(status, make_folder(folder, &made, err));

    share_out(&x, shard_bytes);
    x.written = pst_arena_array(&x.arena, x.n_files, sizeof *x.written);
    for (uint32_t i = 0; status == PST_OK && i < x.n_files; i++) {
        status = write_file(&x, i, err);
    }
    if (status == PST_OK && x.n_files > 1) {
        status = write_index(&x, err);
    }
    if (status == PST_OK && text != NULL) {
        status = write_text(&x, "/config.json", text, err);
    }
    if (status == PST_OK) {
        remove_other_form(&x);
        tell_names(pst_weights_file(graph));
    }
    for (uint32_t i = 0; status != PST_OK && i < x.n_written; i++) {
        unlink(x.written[i]);
    }
    if (status != PST_OK && made) {
        rmdir(folder);
    }
    free(text);
    pst_arena_finish(&x.arena);
    return status;
}
