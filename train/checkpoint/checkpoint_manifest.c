/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.json, both directions by one list of members, and the rules that what is read keeps:
 * plain names of files, each tensor the union of its pieces, checksums in their form.
 */
#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "config/codec.h"
#include "graph/split.h"

/* Version 3 has tensors in several files, without a checksum of the whole, which earlier readers
   would call damaged; version 4 is of a run whose replicas have parts, and has tensors in parts;
   version 5 is of one whose replicas sum the gradients of each micro-batch. Without all of it a
   manifest is of version 2, which all readers read. */
enum {
    VERSION = 5,
    VERSION_PARTS = 4,
    VERSION_FILES = 3,
    VERSION_SUMMED = 2,
    OLDEST_READER = 1,
    NAME_BYTES = 255
};

const char *const pst_numeric_names[PST_NUMERICS] = {
    "device",     "kernels",  "dtype",  "threads_per_device",
    "microbatch", "replicas", "tensor", "sequence",
    "ways",       "way",      "zero",
};

/* Those of later versions, and what earlier ones had. */
static const struct later {
    uint32_t since;
    const char *before;
} later_numerics[PST_NUMERICS] = {
    [PST_NUMERIC_TENSOR] = {VERSION_PARTS, "1"},
    [PST_NUMERIC_SEQUENCE] = {VERSION_PARTS, "false"},
    [PST_NUMERIC_WAYS] = {VERSION_PARTS, "auto"},
    [PST_NUMERIC_WAY] = {VERSION_PARTS, PST_CHECKPOINT_NO_WAY},
    [PST_NUMERIC_ZERO] = {VERSION, PST_CHECKPOINT_ZERO},
};

/* Is it written? NULL where it is read, and in tests. */
static bool differs(const struct pst_manifest *m, uint32_t numeric)
{
    const char *text = m->numerics[numeric];

    return text != NULL && strcmp(text, later_numerics[numeric].before) != 0;
}

/* --- names ------------------------------------------------------------------------------------ */

void pst_state_name(const struct pst_graph *graph, const struct pst_state_key *key,
                    char text[PST_CHECKPOINT_NAME])
{
    switch (key->kind) {
    case PST_STATE_PARAMETER:
        snprintf(text, PST_CHECKPOINT_NAME, "param/%s", graph->params[key->index].name);
        break;
    case PST_STATE_SLOT:
        snprintf(text, PST_CHECKPOINT_NAME, "opt/%u/%s", key->number,
                 graph->params[key->index].name);
        break;
    case PST_STATE_VERSION:
        snprintf(text, PST_CHECKPOINT_NAME, "version/%u/%s", key->number,
                 graph->params[key->index].name);
        break;
    default:
        snprintf(text, PST_CHECKPOINT_NAME, "state/%u/%s", key->number,
                 graph->ops[key->index].name);
        break;
    }
}

uint32_t pst_state_shape(const struct pst_graph *graph, const struct pst_state_key *key,
                         uint64_t elems, uint64_t ret_shape[PST_ST_RANK])
{
    const struct pst_parameter *parameter = &graph->params[key->index];

    memset(ret_shape, 0, PST_ST_RANK * sizeof *ret_shape);
    if (key->kind == PST_STATE_OPERATOR) {
        ret_shape[0] = elems;
        return 1;
    }
    for (uint32_t i = 0; i < parameter->rank; i++) {
        ret_shape[i] = parameter->dims[i];
    }
    if (pst_is_split(parameter)) {
        ret_shape[parameter->box.axis] = pst_box_dim(&parameter->box);
    }
    return parameter->rank;
}

/* --- members ---------------------------------------------------------------------------------- */

static bool is_plain(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
           strlen(name) <= NAME_BYTES;
}

static void code_text(struct pst_codec *c, const char *key, const char **text)
{
    pst_codec_text(c, key, text);
    if (pst_codec_reads(c) && *text == NULL) {
        pst_codec_fail(c, NULL, key, "null, expected a string");
        *text = "";
    }
}

static void code_hash(struct pst_codec *c, const char *key, const char **text)
{
    struct pst_hash hash;

    code_text(c, key, text);
    if (pst_codec_reads(c) && pst_codec_is_sound(c) && !pst_hash_parse(*text, &hash)) {
        pst_codec_fail(c, NULL, key, "expected a checksum, %d hexadecimal digits",
                       PST_HASH_TEXT - 1);
    }
}

static void code_list(struct pst_codec *c, const char *key, const char *what, uint32_t most,
                      uint64_t *sizes, uint32_t *ret_n)
{
    uint32_t n = pst_codec_array(c, key);

    n = pst_codec_reads(c) ? n : *ret_n;
    if (n > most) {
        pst_codec_fail(c, NULL, NULL, "%u %s, expected at most %u", n, what, most);
        n = 0;
    }
    for (uint32_t i = 0; i < n && pst_codec_is_sound(c); i++) {
        pst_codec_bytes(c, NULL, &sizes[i]);
    }
    *ret_n = n;
    pst_codec_end(c);
}

/* Numbers of a shape or of a place in it. */
static void code_sizes(struct pst_codec *c, const char *key, uint64_t *sizes, uint32_t *rank)
{
    code_list(c, key, "dimensions", PST_ST_RANK, sizes, rank);
}

static void code_box(struct pst_codec *c, struct pst_box *box)
{
    if (!pst_codec_has(c, "split", box->parts > 1)) {
        return;
    }
    pst_codec_object(c, "split");
    pst_codec_uint(c, "axis", &box->axis);
    code_list(c, "sections", "sections", PST_BOX_SECTIONS, box->sections, &box->n_sections);
    pst_codec_uint(c, "parts", &box->parts);
    if (pst_codec_has(c, "padding", box->padding > 0)) {
        pst_codec_bytes(c, "padding", &box->padding);
    }
    if (pst_codec_reads(c) && pst_codec_is_sound(c) && box->parts < 2) {
        pst_codec_fail(c, NULL, "parts", "%u, expected 2 or more", box->parts);
    }
    pst_codec_end(c);
}

static void code_file(struct pst_codec *c, struct pst_checkpoint_file *file)
{
    pst_codec_object(c, NULL);
    code_text(c, "name", &file->name);
    pst_codec_bytes(c, "bytes", &file->bytes);
    code_hash(c, "xxh3", &file->xxh3);
    if (pst_codec_reads(c) && pst_codec_is_sound(c) && !is_plain(file->name)) {
        pst_codec_fail(c, NULL, "name", "not the plain name of a file");
    }
    pst_codec_end(c);
}

static void code_piece(struct pst_codec *c, const struct pst_manifest *manifest,
                       const struct pst_checkpoint_tensor *tensor,
                       struct pst_checkpoint_piece *piece)
{
    uint32_t ranks[2] = {tensor->rank, tensor->rank};

    pst_codec_object(c, NULL);
    pst_codec_uint(c, "file", &piece->file);
    code_text(c, "key", &piece->key);
    if (tensor->box.parts > 1) {
        pst_codec_uint(c, "part", &piece->part);
    }
    code_sizes(c, "begin", piece->begin, &ranks[0]);
    code_sizes(c, "shape", piece->shape, &ranks[1]);
    code_hash(c, "xxh3", &piece->xxh3);
    if (pst_codec_reads(c) && pst_codec_is_sound(c)) {
        if (piece->file >= manifest->n_files) {
            pst_codec_fail(c, NULL, "file", "%u of %u files", piece->file, manifest->n_files);
        } else if (ranks[0] != tensor->rank || ranks[1] != tensor->rank) {
            pst_codec_fail(c, NULL, NULL, "not of the tensor's %u dimensions", tensor->rank);
        }
    }
    pst_codec_end(c);
}

uint64_t pst_checkpoint_part(const struct pst_checkpoint_tensor *tensor,
                             uint64_t ret_shape[PST_ST_RANK])
{
    uint64_t elems = 1;

    for (uint32_t i = 0; i < tensor->rank; i++) {
        ret_shape[i] = tensor->shape[i];
        if (tensor->box.parts > 1 && i == tensor->box.axis) {
            ret_shape[i] = (ret_shape[i] + tensor->box.padding) / tensor->box.parts;
        }
        elems *= ret_shape[i];
    }
    return elems;
}

uint64_t pst_checkpoint_box(const struct pst_checkpoint_tensor *tensor,
                            const struct pst_checkpoint_piece *piece, uint64_t from)
{
    const uint32_t parts = tensor->box.parts > 1 ? tensor->box.parts : 1;
    uint64_t part[PST_ST_RANK], first = 0, n = 1;
    const uint64_t before = piece->part * pst_checkpoint_part(tensor, part);
    bool whole = true; /* all dimensions after this one are */

    for (uint32_t i = tensor->rank; i-- > 0;) {
        const uint64_t begin = piece->begin[i], shape = piece->shape[i], all = part[i];

        if (begin > all || shape > all - begin || shape == 0 || (!whole && shape != 1)) {
            return 0;
        }
        whole = whole && shape == all;
        n *= shape;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        first = first * part[i] + piece->begin[i];
    }
    return piece->part < parts && before + first == from ? n : 0;
}

/* Elements of all pieces. Those of a part whose places are padding are there, too, and 0. */
static uint64_t stored_elems(const struct pst_checkpoint_tensor *tensor)
{
    uint64_t shape[PST_ST_RANK];

    return tensor->box.parts > 1 ? pst_checkpoint_part(tensor, shape) * tensor->box.parts
                                 : tensor->elems;
}

/* Elements below 2^48; false: they are more, or none. */
static bool count_elems(struct pst_checkpoint_tensor *tensor)
{
    tensor->elems = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0 || tensor->shape[i] >= ((uint64_t)1 << 48) / tensor->elems) {
            return false;
        }
        tensor->elems *= tensor->shape[i];
    }
    return true;
}

/* Is each section of the axis, or the one with its padding, the same for all parts? */
static bool divides(const struct pst_checkpoint_tensor *tensor)
{
    const struct pst_box *box = &tensor->box;
    uint64_t left;

    if (box->axis >= tensor->rank) {
        return false;
    }
    left = tensor->shape[box->axis];
    if (box->padding >= box->parts || (box->padding > 0 && box->n_sections > 1) ||
        box->padding >= ((uint64_t)1 << 48) / (tensor->elems / left)) {
        return false;
    }
    for (uint32_t i = 0; i < box->n_sections; i++) {
        if (box->sections[i] == 0 || box->sections[i] > left ||
            (box->sections[i] + box->padding) % box->parts != 0) {
            return false;
        }
        left -= box->sections[i];
    }
    return left == 0;
}

static void check_pieces(struct pst_codec *c, const struct pst_checkpoint_tensor *tensor)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < tensor->n_pieces; i++) {
        const uint64_t n = pst_checkpoint_box(tensor, &tensor->pieces[i], at);

        if (n == 0 || n > PST_CHECKPOINT_PIECE / sizeof(float)) {
            pst_codec_fail(c, NULL, "pieces", "%.300s: piece %u %s", tensor->name, i,
                           n == 0 ? "does not begin where the one before it ends"
                                  : "is larger than 64 MiB");
            return;
        }
        at += n;
    }
    if (at != stored_elems(tensor)) {
        pst_codec_fail(c, NULL, "pieces", "%.300s: they hold %llu of %llu elements", tensor->name,
                       (unsigned long long)at, (unsigned long long)stored_elems(tensor));
    }
}

/* The process that writes all of a tensor sums it. */
static bool lacks_sum(const struct pst_manifest *manifest,
                      const struct pst_checkpoint_tensor *tensor)
{
    bool several = false;

    for (uint32_t i = 1; i < tensor->n_pieces; i++) {
        several = several || tensor->pieces[i].file != tensor->pieces[0].file;
    }
    return tensor->xxh3 == NULL && (!several || manifest->version <= VERSION_SUMMED);
}

static void code_tensor(struct pst_codec *c, const struct pst_manifest *manifest, uint32_t index)
{
    struct pst_checkpoint_tensor *tensor = &manifest->tensors[index];
    struct pst_checkpoint_piece *pieces;

    pst_codec_newline(c);
    pst_codec_object(c, NULL);
    code_text(c, "name", &tensor->name);
    pst_codec_constant(c, "dtype", "F32");
    code_sizes(c, "shape", tensor->shape, &tensor->rank);
    if (manifest->version >= VERSION_PARTS) {
        code_box(c, &tensor->box);
    }
    if (pst_codec_has(c, "xxh3", tensor->xxh3 != NULL)) {
        code_hash(c, "xxh3", &tensor->xxh3);
    }
    pieces = pst_codec_items(c, "pieces", &tensor->pieces, &tensor->n_pieces, sizeof *pieces);
    for (uint32_t i = 0; i < tensor->n_pieces && pst_codec_is_sound(c); i++) {
        code_piece(c, manifest, tensor, &pieces[i]);
    }
    pst_codec_end(c);
    if (pst_codec_reads(c) && pst_codec_is_sound(c)) {
        if (!count_elems(tensor)) {
            pst_codec_fail(c, NULL, "shape", "it has no elements, or 2^48 or more");
        } else if (index > 0 && strcmp(manifest->tensors[index - 1].name, tensor->name) >= 0) {
            pst_codec_fail(c, NULL, "name", "names must ascend, without duplicates");
        } else if (tensor->box.parts > 1 && !divides(tensor)) {
            pst_codec_fail(
                c, NULL, "split",
                "%.300s: its sections are not those of an axis, each a multiple of %u, or the "
                "only one with its padding",
                tensor->name, tensor->box.parts);
        } else {
            check_pieces(c, tensor);
            if (lacks_sum(manifest, tensor)) { /* after what is worse: the first failure counts */
                pst_codec_fail(c, NULL, "xxh3",
                               "missing; %.300s could lack it from version %d on, with pieces in "
                               "several files",
                               tensor->name, VERSION_FILES);
            }
        }
    }
    pst_codec_end(c);
}

/* text, length: what is read. */
static void code_model(struct pst_codec *c, struct pst_manifest *m, const char *text, size_t length)
{
    pst_codec_newline(c);
    pst_codec_object(c, "model");
    code_text(c, "name", &m->model);
    code_text(c, "digest", &m->model_digest);
    pst_codec_uint(c, "parameters", &m->n_parameters);
    if (pst_codec_has(c, "file", m->model_file != NULL)) {
        code_text(c, "file", &m->model_file);
        code_hash(c, "file_xxh3", &m->model_file_hash);
    }
    if (pst_codec_has(c, "folder", m->folder != NULL)) {
        code_text(c, "folder", &m->folder);
    }
    pst_codec_verbatim(c, "config", text, length, &m->config);
    pst_codec_end(c);
}

static void code_counts(struct pst_codec *c, struct pst_checkpoint_counts *counts)
{
    pst_codec_object(c, "counts");
    pst_codec_bytes(c, "step", &counts->step);
    pst_codec_bytes(c, "samples", &counts->samples);
    pst_codec_bytes(c, "updates", &counts->updates);
    pst_codec_bytes(c, "skipped", &counts->skipped);
    pst_codec_bytes(c, "each", &counts->each);
    pst_codec_end(c);
}

static void code_run(struct pst_codec *c, struct pst_manifest *m)
{
    code_text(c, "run", &m->run);
    code_text(c, "written_by", &m->written_by);
    pst_codec_bytes(c, "step", &m->step);
    pst_codec_bytes(c, "updates", &m->updates);
    pst_codec_bytes(c, "samples", &m->samples);
    if (m->version >= 2) {
        code_counts(c, &m->counts);
    }
    pst_codec_newline(c);
    pst_codec_object(c, "data");
    code_text(c, "digest", &m->data_digest);
    pst_codec_bytes(c, "seed", &m->data_seed);
    pst_codec_bytes(c, "epoch", &m->epoch);
    pst_codec_bytes(c, "batch", &m->batch);
    pst_codec_end(c);
    pst_codec_newline(c);
    pst_codec_object(c, "rng");
    pst_codec_constant(c, "generator", "philox4x32-10");
    pst_codec_bytes(c, "seed", &m->seed);
    pst_codec_end(c);
    pst_codec_newline(c);
    pst_codec_object(c, "train");
    code_text(c, "optimizer", &m->optimizer);
    pst_codec_uint(c, "skipped", &m->skipped);
    pst_codec_end(c);
    pst_codec_newline(c);
    pst_codec_object(c, "numerics");
    for (uint32_t i = 0; i < PST_NUMERICS; i++) {
        const struct later *later = &later_numerics[i];

        if (later->since == 0 ||
            (m->version >= later->since &&
             pst_codec_has(c, pst_numeric_names[i],
                           (i != PST_NUMERIC_WAYS && i != PST_NUMERIC_WAY) || differs(m, i)))) {
            code_text(c, pst_numeric_names[i], &m->numerics[i]);
        } else {
            m->numerics[i] = later->before;
        }
    }
    pst_codec_end(c);
    pst_codec_newline(c);
    pst_codec_object(c, "plan");
    code_text(c, "digest", &m->plan_digest);
    code_text(c, "partitioner", &m->partitioner);
    code_text(c, "scheduler", &m->scheduler);
    code_text(c, "memopt", &m->memopt);
    code_text(c, "rule", &m->rule);
    pst_codec_uint(c, "drain_every", &m->drain_every);
    pst_codec_bool(c, "drained", &m->drained);
    pst_codec_end(c);
}

static void code_contents(struct pst_codec *c, struct pst_manifest *m)
{
    struct pst_checkpoint_file *files;

    pst_codec_newline(c);
    files = pst_codec_items(c, "files", &m->files, &m->n_files, sizeof *files);
    for (uint32_t i = 0; i < m->n_files && pst_codec_is_sound(c); i++) {
        code_file(c, &files[i]);
    }
    pst_codec_end(c);
    pst_codec_newline(c);
    pst_codec_items(c, "tensors", &m->tensors, &m->n_tensors, sizeof *m->tensors);
    for (uint32_t i = 0; i < m->n_tensors && pst_codec_is_sound(c); i++) {
        code_tensor(c, m, i);
    }
    pst_codec_end(c);
}

/* A later format is read as far as it says that it can be. */
static void code_format(struct pst_codec *c, struct pst_manifest *m)
{
    uint32_t version = differs(m, PST_NUMERIC_ZERO)     ? VERSION
                       : differs(m, PST_NUMERIC_TENSOR) ? VERSION_PARTS
                                                        : VERSION_SUMMED;
    uint32_t least;

    for (uint32_t i = 0; i < m->n_tensors && version < VERSION_PARTS; i++) { /* none yet then */
        version = m->tensors[i].box.parts > 1  ? VERSION_PARTS
                  : m->tensors[i].xxh3 == NULL ? VERSION_FILES
                                               : version;
    }
    least = version > VERSION_SUMMED ? version : OLDEST_READER;
    pst_codec_constant(c, "format", "penstock-checkpoint");
    pst_codec_uint(c, "version", &version);
    pst_codec_uint(c, "min_reader", &least);
    c->lenient = version > VERSION;
    m->version = version;
    if (pst_codec_reads(c) && pst_codec_is_sound(c) && (version < 1 || least > VERSION)) {
        pst_codec_fail(c, "input.unsupported", NULL,
                       "format version %u needs a later version of penstock", version);
    }
}

static void code_all(struct pst_codec *c, struct pst_manifest *m, const char *text, size_t length)
{
    pst_codec_object(c, NULL);
    code_format(c, m);
    code_model(c, m, text, length);
    pst_codec_newline(c);
    code_run(c, m);
    code_contents(c, m);
    pst_codec_end(c);
}

char *pst_manifest_write(struct pst_manifest *manifest)
{
    struct pst_json json;
    struct pst_codec c = {.out = &json};

    pst_json_init(&json);
    code_all(&c, manifest, NULL, 0);
    pst_json_newline(&json);
    return pst_json_take(&json);
}

pst_status pst_manifest_parse(const char *path, const char *text, size_t length,
                              struct pst_arena *arena, struct pst_manifest *ret_manifest,
                              struct pst_error *err)
{
    struct pst_fields fields = {.path = path, .err = err};
    struct pst_codec c = {.in = &fields, .arena = arena};

    *ret_manifest = (struct pst_manifest){.n_files = 0};
    fields.status = pst_json_parse(path, text, length, &c.root, err);
    if (fields.status == PST_OK) {
        code_all(&c, ret_manifest, text, length);
    }
    json_decref(c.root);
    if (fields.status != PST_OK && err != NULL && strcmp(err->kind, "input.unsupported") != 0 &&
        err->status == PST_ERR_CONFIG) {
        snprintf(err->kind, sizeof err->kind, "checkpoint.damaged");
    }
    return fields.status;
}
