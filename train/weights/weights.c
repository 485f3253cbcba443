/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading published weights: which files there are, which tensors a parameter is made of, whether
 * they have its shape. Values are read when a rank asks for them.
 */
#include "weights/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/link.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "config/json_fields.h"
#include "weights/safetensors.h"
#include "weights/weights_impl.h"

#define SHARDS      10000u
#define INDEX_BYTES ((size_t)256 << 20)
#define BLOCK       PST_WEIGHTS_BLOCK
#define SHOWN       10u /* differences that a message names */

/* A tensor of a file. */
struct found {
    const struct pst_st_file *file;
    const struct pst_st_tensor *tensor;
    const char *reader; /* the value or constant of the model that it is read for; NULL: none */
};

struct value {
    struct pst_weights_value is;
    struct pst_weights_piece *pieces;
    struct found **found; /* as many */
    uint32_t n_pieces;
};

struct pst_weights {
    struct pst_arena arena;
    struct pst_exec_source source;
    const struct pst_graph *graph;
    const struct pst_published *family;
    const char *path, *folder_path;
    int folder;
    bool has_config; /* config.json beside them says whose they are */
    bool stated;     /* [train] init_type does */
    struct pst_st_file **files;
    uint32_t n_files;
    struct found *all; /* tensors of all files */
    uint32_t n_all;
    struct pst_names names; /* to places in `all` */
    struct value *values;
    uint32_t n_values, n_params;            /* values are parameters first */
    uint32_t *first_state;                  /* by operator: its first value */
    uint32_t n_tensors, n_missing, n_wrong; /* of the model's */
    uint32_t n_other;                       /* with other values than the model's file */
};

/* --- files ------------------------------------------------------------------------------------ */

static pst_status fail_folder(const char *path, struct pst_error *err)
{
    return pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0, "cannot open the folder: %s",
                       strerror(errno));
}

static pst_status open_shard(struct pst_weights *w, const char *name, struct pst_error *err)
{
    char *path = pst_arena_printf(&w->arena, "%s/%s", w->folder_path, name), target[PATH_MAX], *at;
    struct pst_st_file **file = &w->files[w->n_files];
    pst_status status;
    int folder;

    if (strchr(name, '/') != NULL) {
        return pst_st_open(w->folder, name, path, file, err); /* refuses it */
    }
    status = pst_link_follow(path, target, err);
    if (status != PST_OK) {
        return status;
    }
    at = strrchr(target, '/');
    *at = '\0';
    folder = open(at == target ? "/" : target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    status = folder < 0 ? fail_folder(path, err) : pst_st_open(folder, at + 1, path, file, err);
    w->n_files += status == PST_OK;
    close(folder);
    return status;
}

/* Each file that the weight_map names, once. */
static pst_status open_shards_of(struct pst_weights *w, const json_t *map, const char *path,
                                 struct pst_error *err)
{
    size_t n = 0, room = json_object_size(map);
    const char **names = pst_arena_array(&w->arena, room + 1, sizeof *names), *key;
    json_t *value;
    pst_status status = PST_OK;
    uint32_t n_files = 0;

    json_object_foreach((json_t *)map, key, value)
    {
        if (!json_is_string(value)) {
            return pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0,
                               "weight_map: \"%.200s\" is not the name of a file", key);
        }
        names[n++] = json_string_value(value);
    }
    qsort(names, n, sizeof *names, pst_by_text);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0) {
            names[n_files++] = names[i];
        }
    }
    if (n_files == 0 || n_files > SHARDS) {
        return pst_fail_at(err, PST_ERR_CONFIG, "input.limit", path, 0, 0,
                           "weight_map names %u files; there must be 1 to %u", n_files, SHARDS);
    }
    w->files = pst_arena_array(&w->arena, n_files, sizeof(struct pst_st_file *));
    for (uint32_t i = 0; status == PST_OK && i < n_files; i++) {
        status = open_shard(w, names[i], err);
    }
    return status;
}

static pst_status open_index(struct pst_weights *w, const char *name, struct pst_error *err)
{
    char *path = pst_arena_printf(&w->arena, "%s/%s", w->folder_path, name);
    json_t *root = NULL, *map;
    pst_status status = pst_link_follow(path, NULL, err);

    PST_TRY(status, pst_json_load(path, INDEX_BYTES, &root, err));
    if (status != PST_OK) {
        return status;
    }
    map = json_object_get(root, "weight_map");
    status = json_is_object(map) ? open_shards_of(w, map, path, err)
                                 : pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0,
                                               "there is no object weight_map");
    json_decref(root);
    return status;
}

static bool is_there(const struct pst_weights *w, const char *name)
{
    struct stat info;

    return fstatat(w->folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0; /* or a link to nowhere */
}

/* The file of `path`, or of the folder that it is. */
static pst_status open_files(struct pst_weights *w, struct pst_error *err)
{
    const char *slash = strrchr(w->path, '/'), *name = NULL;
    struct stat info;

    if (stat(w->path, &info) != 0) {
        return pst_fail_at(err, PST_ERR_IO, "input.path", w->path, 0, 0,
                           "cannot open the file or folder: %s", strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        w->folder_path = w->path;
    } else {
        name = slash == NULL ? w->path : slash + 1;
        w->folder_path = slash == NULL
                             ? "."
                             : pst_arena_strndup(&w->arena, w->path,
                                                 slash == w->path ? 1 : (size_t)(slash - w->path));
    }
    w->folder = open(w->folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->folder < 0) {
        return fail_folder(w->path, err);
    }
    if (name == NULL) {
        name = is_there(w, PST_WEIGHTS_INDEX) ? PST_WEIGHTS_INDEX : PST_WEIGHTS_FILE;
        if (!is_there(w, name)) {
            pst_status status = pst_fail_at(err, PST_ERR_IO, "input.path", w->path, 0, 0,
                                            "there is neither %s nor %s in the folder",
                                            PST_WEIGHTS_FILE, PST_WEIGHTS_INDEX);

            pst_error_hint(err, "save_pretrained of transformers writes them");
            return status;
        }
    }
    if (pst_text_ends(name, ".json")) {
        return open_index(w, name, err);
    }
    w->files = pst_arena_array(&w->arena, 1, sizeof(struct pst_st_file *));
    return open_shard(w, name, err);
}

static pst_status list_tensors(struct pst_weights *w, struct pst_error *err)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < w->n_files; i++) {
        n += w->files[i]->n;
    }
    if (n > PST_ST_TENSORS) {
        return pst_fail_at(err, PST_ERR_CONFIG, "input.limit", w->path, 0, 0,
                           "more than %u tensors", PST_ST_TENSORS);
    }
    w->all = pst_arena_array(&w->arena, n + 1, sizeof *w->all);
    pst_names_init(&w->names, &w->arena, (uint32_t)n);
    for (uint32_t i = 0; i < w->n_files; i++) {
        for (uint32_t k = 0; k < w->files[i]->n; k++) {
            const struct pst_st_tensor *tensor = &w->files[i]->tensors[k];

            if (pst_names_add(&w->names, tensor->name, w->n_all) != PST_NONE) {
                return pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", w->files[i]->path, 0, 0,
                                   "tensor \"%.200s\" is in another file, too", tensor->name);
            }
            w->all[w->n_all++] = (struct found){.file = w->files[i], .tensor = tensor};
        }
    }
    return PST_OK;
}

/* --- tensors of parameters -------------------------------------------------------------------- */

static struct found *find_exactly(const struct pst_weights *w, const char *name)
{
    uint32_t i = pst_names_find(&w->names, name);

    return i == PST_NONE ? NULL : &w->all[i];
}

static struct found *find_spelled(const struct pst_weights *w, const char *name)
{
    struct found *found = find_exactly(w, name);

    for (const struct pst_published_alias *alias = w->family->aliases;
         found == NULL && alias->end != NULL; alias++) {
        if (pst_text_ends(name, alias->end)) {
            char *other =
                pst_printf("%.*s%s", (int)(strlen(name) - strlen(alias->end)), name, alias->other);

            found = find_exactly(w, other);
            free(other);
        }
    }
    return found;
}

static struct found *find_piece(const struct pst_weights *w, const struct pst_weights_piece *piece)
{
    struct found *found = find_spelled(w, piece->name);

    return found != NULL ? found : find_spelled(w, piece->bare);
}

static void note_missing(struct pst_weights *w, const struct value *value,
                         const struct pst_weights_piece *piece, struct pst_error *err)
{
    if (w->n_missing++ < SHOWN) {
        pst_error_detail(err, "%s: no tensor %s\n", value->is.name, piece->name);
    }
}

static void note_wrong(struct pst_weights *w, const struct value *value, const struct found *found,
                       const struct pst_weights_shape *wanted, struct pst_error *err)
{
    const struct pst_st_tensor *tensor = found->tensor;
    char is[192], should[192];

    if (w->n_wrong++ < SHOWN) {
        pst_error_detail(err, "%s: tensor %.200s is %s %s, should be F32 %s\n", value->is.name,
                         tensor->name, pst_st_dtype_name(tensor->dtype),
                         pst_shape_text(is, sizeof is, tensor->rank, tensor->shape),
                         pst_shape_text(should, sizeof should, wanted->rank, wanted->dims));
    }
}

/* A tensor has the values of one parameter: a second reader means that a name is wrong. */
static pst_status claim_tensor(const struct pst_weights *w, struct found *found, const char *reader,
                               struct pst_error *err)
{
    if (found->reader != NULL) {
        return pst_fail_at(
            err, PST_ERR_CONFIG, "weights.mismatch", w->path, 0, 0,
            "%s: tensor \"%.200s\" is already read by %s; two parameters cannot share "
            "a tensor",
            reader, found->tensor->name, found->reader);
    }
    found->reader = reader;
    return PST_OK;
}

static bool is_real(enum pst_st_dtype dtype)
{
    return dtype == PST_ST_F32 || dtype == PST_ST_F16 || dtype == PST_ST_BF16 ||
           dtype == PST_ST_F64;
}

static bool has_shape(const struct pst_st_tensor *tensor, const struct pst_weights_shape *wanted,
                      bool more_rows)
{
    if (tensor->rank != wanted->rank || !is_real(tensor->dtype)) {
        return false;
    }
    for (uint32_t i = 0; i < wanted->rank; i++) {
        if (tensor->shape[i] != wanted->dims[i] &&
            !(i == 0 && more_rows && tensor->shape[i] > wanted->dims[i])) {
            return false;
        }
    }
    return true;
}

static void note_other(struct pst_weights *w, const char *name, const char *why,
                       struct pst_error *err)
{
    if (w->n_other++ < SHOWN) {
        pst_error_detail(err, "%s: %s\n", name, why);
    }
}

static pst_status read_block(void *context, uint64_t first, uint64_t n, float *block,
                             struct pst_error *err)
{
    const struct found *found = context;

    return pst_st_read_f32(found->file, found->tensor, first, n, block, err);
}

static pst_status read_piece(const struct value *value, uint32_t piece, float *values,
                             struct pst_error *err)
{
    return pst_weights_pass(&value->pieces[piece], values, false, read_block, value->found[piece],
                            err);
}

/* Returns true if two tensors have the same values; false, too, if one cannot be read. */
static bool same_pieces(const struct value *value, uint32_t a, uint32_t b)
{
    float *values = pst_alloc(2 * value->is.elems + 1, sizeof *values);
    float *others = values + value->is.elems;
    struct pst_error err = {0};
    bool same = read_piece(value, a, values, &err) == PST_OK &&
                read_piece(value, b, others, &err) == PST_OK &&
                memcmp(values, others, value->is.elems * sizeof *values) == 0;

    free(values);
    return same;
}

/* A value that has several names: files may lack all but one. Differences go to `details`. */
static pst_status match_names(struct pst_weights *w, struct value *value, struct pst_error *details,
                              struct pst_error *err)
{
    uint32_t first = PST_NONE;
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < value->n_pieces; i++) {
        struct found *found = find_exactly(w, value->pieces[i].name);
        const struct pst_weights_shape wanted = pst_weights_shape_of(&value->is, &value->pieces[i]);

        value->found[i] = found;
        if (found == NULL) {
            continue;
        }
        status = claim_tensor(w, found, value->is.name, err);
        if (!has_shape(found->tensor, &wanted, false)) {
            note_wrong(w, value, found, &wanted, details);
        } else if (first == PST_NONE) {
            first = i;
        } else if (!same_pieces(value, first, i)) {
            note_other(w, value->pieces[i].name,
                       "the model shares it with another tensor, which has other values", details);
        }
    }
    if (first == PST_NONE && w->n_wrong == 0) {
        note_missing(w, value, &value->pieces[0], details);
    }
    first = first == PST_NONE ? 0 : first;
    value->pieces[0] = value->pieces[first];
    value->found[0] = value->found[first];
    value->n_pieces = 1;
    return status;
}

/* Differences go to `details`. */
static pst_status match_value(struct pst_weights *w, struct value *value, struct pst_error *details,
                              struct pst_error *err)
{
    bool complete = true;
    pst_status status = PST_OK;

    if (value->n_pieces > 0 && value->pieces[0].of_file != NULL) {
        return match_names(w, value, details, err);
    }
    for (uint32_t i = 0; status == PST_OK && i < value->n_pieces; i++) {
        struct found *found = find_piece(w, &value->pieces[i]);

        value->found[i] = found;
        if (found == NULL) {
            note_missing(w, value, &value->pieces[i], details);
            complete = false;
        } else {
            status = claim_tensor(w, found, value->is.name, err);
        }
    }
    for (uint32_t i = 0; status == PST_OK && complete && i < value->n_pieces; i++) {
        const struct pst_weights_piece *piece = &value->pieces[i];
        struct pst_weights_shape wanted = pst_weights_shape_of(&value->is, piece);

        if (!has_shape(value->found[i]->tensor, &wanted, piece->more_rows)) {
            note_wrong(w, value, value->found[i], &wanted, details);
        }
    }
    return status;
}

/* n elements of a constant, from `first`, as the file beside the weights has them: are they those
   of the model's file? Weights of half the bits are rounded. */
static bool same_reals(enum pst_st_dtype dtype, const float *theirs, const float *ours, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t rounded = pst_bf16_round(ours[i]);
        uint32_t bits;

        memcpy(&bits, &theirs[i], sizeof bits);
        if (theirs[i] != ours[i] && !(dtype == PST_ST_BF16 && bits >> 16 == rounded) &&
            !(dtype == PST_ST_F16 &&
              fabsf(theirs[i] - ours[i]) <= 0x1p-11f * fabsf(ours[i]) + 0x1p-25f)) {
            return false;
        }
    }
    return true;
}

static bool same_constant(const struct pst_weights *w, const struct pst_initial_tensor *tensor,
                          const struct found *found)
{
    const struct pst_initial *initial = &w->graph->initial;
    const struct pst_st_tensor *theirs = found->tensor;
    const uint32_t size = tensor->kind == PST_TENSOR_TRUTH  ? 1
                          : tensor->kind == PST_TENSOR_REAL ? 4
                                                            : 8;
    const uint32_t dtype = tensor->kind == PST_TENSOR_TRUTH ? PST_ST_BOOL : PST_ST_I64;
    char *values = pst_alloc(2 * BLOCK, 8), *ours = values + BLOCK * 8;
    bool same = true;
    struct pst_error err = {0};

    for (uint64_t first = 0; same && first < theirs->elems; first += BLOCK) {
        const uint64_t left = theirs->elems - first, n = left < BLOCK ? left : BLOCK;

        same = initial->read(initial->context, tensor, first, n, ours, &err) == PST_OK;
        if (same && tensor->kind == PST_TENSOR_REAL) {
            same = pst_st_read_f32(found->file, theirs, first, n, (float *)(void *)values, &err) ==
                       PST_OK &&
                   same_reals(theirs->dtype, (float *)(void *)values, (float *)(void *)ours, n);
        } else if (same) {
            same =
                theirs->dtype == dtype &&
                pst_st_read(found->file, theirs, first * size, n * size, values, &err) == PST_OK &&
                memcmp(values, ours, n * size) == 0;
        }
    }
    free(values);
    return same;
}

/* Constants of the file that the model was read from: other values would have no effect.
   Differences go to `details`. */
static pst_status match_constants(struct pst_weights *w, struct pst_error *details,
                                  struct pst_error *err)
{
    const struct pst_published_file *file = pst_weights_file(w->graph);
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && file != NULL && i < file->n_tensors; i++) {
        const struct pst_initial_tensor *tensor = &file->tensors[i];
        struct found *found = tensor->own == NULL ? find_exactly(w, tensor->name) : NULL;

        if (found == NULL) {
            continue;
        }
        status = claim_tensor(w, found, tensor->name, err);
        if (tensor->needed &&
            (found->tensor->rank != tensor->rank ||
             memcmp(found->tensor->shape, tensor->dims, tensor->rank * sizeof *tensor->dims) != 0 ||
             !same_constant(w, tensor, found))) {
            note_other(w, tensor->name,
                       "it is a constant of the model's file, but has other values here", details);
        }
    }
    return status;
}

/* Nothing that the model has is there. */
static pst_status fail_strange(const struct pst_weights *w, struct pst_error *err)
{
    for (uint32_t i = 0; i < w->n_all; i++) {
        const char *name = w->all[i].tensor->name;

        for (const struct pst_published_other *o = w->family->others; o->type != NULL; o++) {
            if (o->begin != NULL && strncmp(name, o->begin, strlen(o->begin)) == 0) {
                return pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", w->path, 0, 0,
                                   "the names of its tensors are those of %s, which is unsupported",
                                   o->name);
            }
        }
    }
    return pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", w->path, 0, 0,
                       "not the weights of this model: none of its %u tensors is there; the first "
                       "of the %u in the file is \"%.100s\"",
                       w->n_tensors, w->n_all, w->n_all == 0 ? "" : w->all[0].tensor->name);
}

static pst_status match_all(struct pst_weights *w, const struct pst_job *job, struct pst_error *err)
{
    struct pst_weights_value *values = pst_weights_values(w->graph, &w->arena, &w->n_values);
    struct pst_error found = {.details = ""};
    pst_status status = pst_weights_check_rows(w->graph, job, w->family, values, w->n_values, err);

    w->n_params = w->graph->n_params;
    w->values = pst_arena_array(&w->arena, w->n_values + 1, sizeof *w->values);
    w->first_state = pst_arena_array(&w->arena, w->graph->n_ops + 1, sizeof *w->first_state);
    for (uint32_t i = 0; status == PST_OK && i < w->n_values; i++) {
        struct value *value = &w->values[i];

        value->is = values[i];
        if (values[i].kind == PST_STATE_OPERATOR && values[i].number == 0) {
            w->first_state[values[i].index] = i;
        }
        status = pst_weights_pieces(w->graph, job, w->family, &value->is, &w->arena, &value->pieces,
                                    &value->n_pieces, err);
        if (status == PST_OK) {
            value->found = pst_arena_array(&w->arena, value->n_pieces, sizeof *value->found);
            w->n_tensors += value->n_pieces;
            status = match_value(w, value, &found, err);
        }
    }
    PST_TRY(status, match_constants(w, &found, err));
    if (status != PST_OK) {
        return status;
    }
    if (w->n_missing + w->n_wrong + w->n_other == 0) {
        return PST_OK;
    }
    if (w->n_missing + w->n_wrong == 0) {
        pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", w->path, 0, 0,
                    "not the weights of this model: %u of its tensors have other values than %s",
                    w->n_other, pst_weights_file(w->graph)->path);
        pst_error_detail(err, "%s", found.details);
        return PST_ERR_CONFIG;
    }
    if (w->n_missing == w->n_tensors) {
        return fail_strange(w, err);
    }
    pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", w->path, 0, 0,
                "not the weights of this model: of its %u tensors %u are missing and %u have "
                "another shape or type",
                w->n_tensors, w->n_missing, w->n_wrong);
    pst_error_detail(err, "%s", found.details);
    return PST_ERR_CONFIG;
}

/* A shipped family without `keys` has no config.json. A user's own file may only lack them, and
   then the config.json of the weights would be compared with nothing. */
static pst_status check_config(struct pst_weights *w, const struct pst_job *job,
                               struct pst_error *err)
{
    const char *path = job->training->loop.init_family;

    if (w->family->keys != NULL) {
        return pst_weights_check_config(w->folder_path, job, w->family, &w->has_config, err);
    }
    if (path[0] == '\0' || !is_there(w, "./config.json")) {
        return PST_OK;
    }
    pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, 0, 0,
                "there are no \"keys\" to compare %s/config.json with", w->folder_path);
    pst_error_hint(err, "add rows of \"keys\", or move config.json to another folder if its values "
                        "are those of [model]");
    return PST_ERR_CONFIG;
}

/* --- what is left out ------------------------------------------------------------------------- */

static bool is_ignored(const struct pst_weights *w, const char *name)
{
    for (const char *const *end = w->family->ignored; *end != NULL; end++) {
        if (pst_text_ends(name, *end)) {
            return true;
        }
    }
    return false;
}

/* Returns true if two tensors have the same numbers; false, too, if one cannot be read. */
static bool same_values(const struct found *a, const struct found *b)
{
    float *values = pst_alloc(2 * BLOCK, sizeof *values);
    bool same = a->tensor->elems == b->tensor->elems;
    struct pst_error err = {0};

    for (uint64_t first = 0; same && first < a->tensor->elems; first += BLOCK) {
        uint64_t left = a->tensor->elems - first, n = left < BLOCK ? left : BLOCK;

        same = pst_st_read_f32(a->file, a->tensor, first, n, values, &err) == PST_OK &&
               pst_st_read_f32(b->file, b->tensor, first, n, values + BLOCK, &err) == PST_OK &&
               memcmp(values, values + BLOCK, n * sizeof *values) == 0;
    }
    free(values);
    return same;
}

/* The tensor that a parameter is read from, where this one repeats it; NULL: it repeats none. */
static const struct found *twin_of(const struct pst_weights *w, const char *name)
{
    const struct pst_published_twin *twin = w->family->twins;
    uint32_t param;

    while (twin->end != NULL && !pst_text_ends(name, twin->end)) {
        twin++;
    }
    param = twin->end == NULL ? PST_NONE : pst_names_find(&w->graph->param_names, twin->own);
    return param == PST_NONE ? NULL : w->values[param].found[0];
}

/* Releases of transformers differ in which of the two they compute with. */
static pst_status fail_twin(const struct pst_weights *w, const char *name, const struct found *twin,
                            struct pst_error *err)
{
    pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", w->path, 0, 0,
                "%.100s has other values than %.100s, to which it is tied", name,
                twin->tensor->name);
    pst_error_hint(err, "delete %.100s from the file to use the other tensor", name);
    return PST_ERR_CONFIG;
}

/* Where a config.json says that they are weights of this family, the rest is of another head, or of
   blocks that the job leaves out. Else names alone say it, and must say it exactly. */
static pst_status check_left_out(const struct pst_weights *w, bool tell, struct pst_error *err)
{
    char names[400] = "";
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n_all; i++) {
        const char *name = w->all[i].tensor->name;
        const struct found *twin = twin_of(w, name);

        if (w->all[i].reader != NULL || is_ignored(w, name) ||
            (twin != NULL && same_values(&w->all[i], twin))) {
            continue;
        }
        if (twin != NULL && w->has_config) {
            return fail_twin(w, name, twin, err);
        }
        if (n++ < 5) {
            pst_text_append(names, sizeof names, "%s%.100s", n > 1 ? ", " : "", name);
        }
    }
    if (n > 0 && w->family->model != NULL && !w->has_config) {
        pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", w->path, 0, 0,
                    "not the weights of this model: it does not have %u of the tensors: %s%s", n,
                    names, n > 5 ? ", ..." : "");
        if (w->family->keys != NULL) {
            pst_error_hint(err,
                           "put the config.json of the weights beside them: it names their family");
        }
        return PST_ERR_CONFIG;
    }
    if (n > 0 && tell) {
        pst_log(PST_LOG_WARN, "weights",
                "%s: %u tensor%s that the model does not have %s ignored: %s%s", w->path, n,
                n == 1 ? "" : "s", n == 1 ? "is" : "are", names, n > 5 ? ", ..." : "");
    }
    if (w->family->keys != NULL && !w->has_config && !w->stated) {
        pst_fail_at(err, PST_ERR_CONFIG, "config.value", w->path, 0, 0,
                    "there is no config.json that names the family of the weights, and other "
                    "families have the same names and shapes but compute something else");
        pst_error_hint(err, "put the config.json of the weights beside them, or state their "
                            "model_type: [train] init_type = \"llama\"");
        return PST_ERR_CONFIG;
    }
    return PST_OK;
}

/* Tensors of more rows than the model has. */
static void tell_cut(const struct pst_weights *w)
{
    for (uint32_t i = 0; i < w->n_values; i++) {
        const struct pst_weights_piece *piece = &w->values[i].pieces[0];
        const struct pst_st_tensor *tensor = w->values[i].found[0]->tensor;

        if (piece->more_rows && tensor->shape[0] > piece->rows) {
            pst_log(PST_LOG_WARN, "weights", "%s: of the %llu rows of %s the first %llu are used",
                    w->path, (unsigned long long)tensor->shape[0], tensor->name,
                    (unsigned long long)piece->rows);
        }
    }
}

/* --- values ----------------------------------------------------------------------------------- */

static pst_status load_value(void *context, const struct pst_state_key *key, uint64_t elems,
                             float *ret_values, bool *ret_found, struct pst_error *err)
{
    const struct pst_weights *w = context;
    const struct value *value;
    pst_status status = PST_OK;

    *ret_found = key->kind == PST_STATE_PARAMETER || key->kind == PST_STATE_OPERATOR;
    if (!*ret_found) {
        return PST_OK;
    }
    value = &w->values[key->kind == PST_STATE_PARAMETER ? key->index
                                                        : w->first_state[key->index] + key->number];
    PST_ASSERT(value->is.elems == elems);
    for (uint32_t i = 0; status == PST_OK && i < value->n_pieces; i++) {
        status = read_piece(value, i, ret_values, err);
    }
    return status;
}

const struct pst_exec_source *pst_weights_source(const struct pst_weights *weights)
{
    return &weights->source;
}

pst_status pst_weights_open(const char *path, const struct pst_job *job,
                            const struct pst_graph *graph, bool tell,
                            struct pst_weights **ret_weights, struct pst_error *err)
{
    struct pst_weights *w = pst_alloc(1, sizeof *w);
    pst_status status;

    w->folder = -1;
    w->graph = graph;
    w->stated = job->training->loop.init_type[0] != '\0';
    w->path = pst_arena_strdup(&w->arena, path);
    w->source = (struct pst_exec_source){w, load_value};
    status = pst_published_read(job->training->loop.init_family, graph->name, &w->arena, &w->family,
                                err);
    PST_TRY(status, open_files(w, err));
    PST_TRY(status, list_tensors(w, err));
    PST_TRY(status, check_config(w, job, err));
    PST_TRY(status, match_all(w, job, err));
    PST_TRY(status, check_left_out(w, tell, err));
    if (status != PST_OK) {
        pst_weights_close(w);
        return status;
    }
    if (tell) {
        tell_cut(w);
    }
    *ret_weights = w;
    return PST_OK;
}

void pst_weights_close(struct pst_weights *w)
{
    if (w != NULL) {
        for (uint32_t i = 0; i < w->n_files; i++) {
            pst_st_close(w->files[i]);
        }
        if (w->folder >= 0) {
            close(w->folder);
        }
        pst_arena_finish(&w->arena);
        free(w);
    }
}
