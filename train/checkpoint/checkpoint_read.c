/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading checkpoints. Files are opened by their names in the open folder, and no link is followed.
 * Nothing is believed that a checksum does not confirm: COMMIT has the manifest's, the manifest
 * those of all pieces.
 */
#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/util.h"
#include "graph/split.h"

#define COMMIT_BYTES 256

/* An open one. */
struct opened {
    struct pst_checkpoint base;
    struct pst_arena arena;
    int folder;
    struct pst_st_file **shards; /* one per file */
};

static const struct opened *opened_of(const struct pst_checkpoint *checkpoint)
{
    return (const struct opened *)checkpoint;
}

/* The machine does not let this process open it, which says nothing of the checkpoint. */
static bool is_refused(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == EACCES || code == EPERM;
}

static pst_status fail_reading(struct pst_error *err, const char *path, const char *name)
{
    const int code = errno;

    return is_refused(code) ? pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0,
                                          "cannot open %s: %s", name, strerror(code))
                            : pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", path, 0, 0,
                                          "%s: %s", name, strerror(code));
}

/* Whatever a reader of files says is wrong with it; errno: what the system said, 0: nothing. */
static pst_status blame_file(struct pst_error *err, const char *path)
{
    if (err == NULL || err->status == PST_ERR_NOMEM || is_refused(errno)) {
        return err == NULL ? PST_ERR_CONFIG : err->status;
    }
    snprintf(err->kind, sizeof err->kind, "checkpoint.damaged");
    if (err->file[0] == '\0') {
        snprintf(err->file, sizeof err->file, "%s", path);
    }
    err->status = PST_ERR_CONFIG;
    return PST_ERR_CONFIG;
}

/* --- COMMIT and the manifest ------------------------------------------------------------------ */

/* A regular file of the folder, as long as *length says (at most that, where `exact` is not set),
   with a final NUL; free() it. */
static pst_status read_file(const struct opened *opened, const char *name, size_t *length,
                            bool exact, char **ret_text, struct pst_error *err)
{
    const int fd = openat(opened->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    const char *path = opened->base.path;
    struct stat info;
    size_t done = 0;
    char *text;

    if (fd < 0) {
        return fail_reading(err, path, name);
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        (exact ? (uint64_t)info.st_size != *length : (uint64_t)info.st_size > *length)) {
        close(fd);
        return pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", path, 0, 0,
                           "%s: not a file of %s%zu bytes", name, exact ? "" : "at most ", *length);
    }
    *length = (size_t)info.st_size;
    text = pst_alloc(*length + 1, 1);
    while (done < *length) {
        const ssize_t n = read(fd, text + done, *length - done);

        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            pst_status status;

            errno = n == 0 ? EIO : errno;
            status = fail_reading(err, path, name);
            close(fd);
            free(text);
            return status;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    *ret_text = text;
    return PST_OK;
}

/* "penstock-checkpoint 1 bytes=… sha256=…", and nothing else. */
static pst_status read_commit(struct opened *opened, size_t *ret_bytes, struct pst_error *err)
{
    size_t length = COMMIT_BYTES;
    char *text = NULL, again[COMMIT_BYTES];
    unsigned long long bytes = 0;
    pst_status status = read_file(opened, "COMMIT", &length, false, &text, err);

    if (status != PST_OK) {
        return status;
    }
    if (sscanf(text, "penstock-checkpoint 1 bytes=%20llu sha256=%64[0-9a-f]", &bytes,
               opened->base.sha256) == 2) {
        snprintf(again, sizeof again, "penstock-checkpoint 1 bytes=%llu sha256=%s\n", bytes,
                 opened->base.sha256);
    } else {
        again[0] = '\0';
    }
    if (strlen(text) != length || strcmp(text, again) != 0 || bytes > PST_CHECKPOINT_MANIFEST) {
        status = pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", opened->base.path, 0, 0,
                             "COMMIT: not a line that penstock writes");
    }
    *ret_bytes = (size_t)bytes;
    free(text);
    return status;
}

/* "step-" and twelve digits. */
static bool parse_step(const char *name, uint64_t *ret_step)
{
    if (strncmp(name, "step-", 5) != 0 || strlen(name) != 17 ||
        strspn(name + 5, "0123456789") != 12) {
        return false;
    }
    *ret_step = strtoull(name + 5, NULL, 10);
    return true;
}

/* The step by the folder's name; false: it has another kind of name. */
static bool step_of_path(const char *path, uint64_t *ret_step)
{
    size_t length = strlen(path);
    const char *slash;
    char *name;
    bool found;

    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    name = pst_strndup(path, length);
    slash = strrchr(name, '/');
    found = parse_step(slash == NULL ? name : slash + 1, ret_step);
    free(name);
    return found;
}

/* a == b + c * d, without overflow. */
static bool is_sum(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t product, sum;

    return !__builtin_mul_overflow(c, d, &product) && !__builtin_add_overflow(b, product, &sum) &&
           a == sum;
}

/* The step of the folder's name, samples and updates. */
static pst_status check_counts(const struct opened *opened, struct pst_error *err)
{
    const struct pst_manifest *m = &opened->base.manifest;
    const struct pst_checkpoint_counts *since = &m->counts;
    const uint64_t steps = m->step - since->step;
    uint64_t named = m->step;
    const char *wrong = NULL;

    if (step_of_path(opened->base.path, &named) && named != m->step) {
        return pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", opened->base.path, 0, 0,
                           "manifest.json: its step is %llu, but the folder is named for step %llu",
                           (unsigned long long)m->step, (unsigned long long)named);
    }
    if (m->version < 2) {
        return PST_OK; /* which had no counts */
    }
    if (since->step > m->step) {
        wrong = "counts.step";
    } else if (!is_sum(m->samples, since->samples, steps, m->batch)) {
        wrong = "samples";
    } else if (since->skipped > steps ||
               !is_sum(m->updates + since->skipped, since->updates, steps, since->each)) {
        wrong = "updates";
    }
    return wrong == NULL ? PST_OK
                         : pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", opened->base.path,
                                       0, 0, "manifest.json: %s does not agree with step %llu",
                                       wrong, (unsigned long long)m->step);
}

static pst_status read_manifest(struct opened *opened, struct pst_error *err)
{
    char sum[PST_SHA256_TEXT], *text = NULL, *path;
    size_t bytes = 0;
    pst_status status = read_commit(opened, &bytes, err);

    PST_TRY(status, read_file(opened, "manifest.json", &bytes, true, &text, err));
    if (status == PST_OK && strcmp(pst_sha256(text, bytes, sum), opened->base.sha256) != 0) {
        status = pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", opened->base.path, 0, 0,
                             "manifest.json: SHA-256 mismatch with COMMIT");
    }
    if (status == PST_OK) {
        path = pst_arena_printf(&opened->arena, "%s/manifest.json", opened->base.path);
        status = pst_manifest_parse(path, text, bytes, &opened->arena, &opened->base.manifest, err);
    }
    PST_TRY(status, check_counts(opened, err));
    free(text);
    return status;
}

/* --- shards ----------------------------------------------------------------------------------- */

static pst_status open_shard(struct opened *opened, uint32_t i, struct pst_error *err)
{
    const struct pst_checkpoint_file *file = &opened->base.manifest.files[i];
    const char *path = pst_arena_printf(&opened->arena, "%s/%s", opened->base.path, file->name);
    struct stat info;

    if (fstatat(opened->folder, file->name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return fail_reading(err, opened->base.path, file->name);
    }
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != file->bytes) {
        return pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", path, 0, 0,
                           "not a file of %llu bytes", (unsigned long long)file->bytes);
    }
    errno = 0;
    return pst_st_open(opened->folder, file->name, path, &opened->shards[i], err) == PST_OK
               ? PST_OK
               : blame_file(err, path);
}

static pst_status fail_piece(const struct opened *opened, const struct pst_checkpoint_piece *piece,
                             const char *what, struct pst_error *err)
{
    return pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", opened->shards[piece->file]->path,
                       0, 0, "tensor %s %s", piece->key, what);
}

/* Checks that a shard has the piece, with the type and shape of the manifest. */
static pst_status check_piece(const struct opened *opened,
                              const struct pst_checkpoint_tensor *tensor,
                              const struct pst_checkpoint_piece *piece, struct pst_error *err)
{
    const struct pst_st_tensor *found = pst_st_find(opened->shards[piece->file], piece->key);

    if (found == NULL) {
        return fail_piece(opened, piece, "is missing", err);
    }
    if (found->dtype != PST_ST_F32 || found->rank != tensor->rank ||
        memcmp(found->shape, piece->shape, tensor->rank * sizeof *piece->shape) != 0) {
        return fail_piece(opened, piece, "differs in type or shape from the manifest", err);
    }
    return PST_OK;
}

static pst_status check_tensor(const struct opened *opened,
                               const struct pst_checkpoint_tensor *tensor, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < tensor->n_pieces && status == PST_OK; i++) {
        status = check_piece(opened, tensor, &tensor->pieces[i], err);
    }
    return status;
}

/* --- opening ---------------------------------------------------------------------------------- */

static pst_status open_folder(const char *path, struct opened **ret_opened, struct pst_error *err)
{
    struct opened *opened;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0 && is_refused(errno)) {
        return fail_reading(err, path, "the folder");
    }
    if (folder < 0) {
        return pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.none", path, 0, 0,
                           "no checkpoint there: %s", strerror(errno));
    }
    opened = pst_alloc(1, sizeof *opened);
    opened->folder = folder;
    opened->base.path = pst_arena_strdup(&opened->arena, path);
    *ret_opened = opened;
    return PST_OK;
}

/* After the manifest was read. */
static void make_shards(struct opened *opened)
{
    opened->shards = pst_arena_array(&opened->arena, opened->base.manifest.n_files,
                                     sizeof(struct pst_st_file *));
}

bool pst_checkpoint_is_unfit(pst_status status, const struct pst_error *err)
{
    return status == PST_ERR_CONFIG && strncmp(err->kind, "checkpoint.", 11) == 0;
}

pst_status pst_checkpoint_open(const char *path, struct pst_checkpoint **ret_checkpoint,
                               struct pst_error *err)
{
    struct opened *opened = NULL;
    pst_status status;

    pst_doing("reading the checkpoint", path);
    status = open_folder(path, &opened, err);
    if (status != PST_OK) {
        return status;
    }
    status = read_manifest(opened, err);
    if (status == PST_OK) {
        make_shards(opened);
    }
    for (uint32_t i = 0; i < opened->base.manifest.n_files && status == PST_OK; i++) {
        status = open_shard(opened, i, err);
    }
    for (uint32_t i = 0; i < opened->base.manifest.n_tensors && status == PST_OK; i++) {
        status = check_tensor(opened, &opened->base.manifest.tensors[i], err);
    }
    if (status != PST_OK) {
        pst_checkpoint_close(&opened->base);
        return status;
    }
    *ret_checkpoint = &opened->base;
    return PST_OK;
}

void pst_checkpoint_close(struct pst_checkpoint *checkpoint)
{
    struct opened *opened = (struct opened *)checkpoint;

    if (opened == NULL) {
        return;
    }
    for (uint32_t i = 0; opened->shards != NULL && i < opened->base.manifest.n_files; i++) {
        pst_st_close(opened->shards[i]);
    }
    close(opened->folder);
    pst_arena_finish(&opened->arena);
    free(opened);
}

static int by_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct pst_checkpoint_tensor *)tensor)->name);
}

const struct pst_checkpoint_tensor *pst_checkpoint_find(const struct pst_checkpoint *checkpoint,
                                                        const char *name)
{
    const struct pst_manifest *manifest = &checkpoint->manifest;

    return manifest->n_tensors == 0 ? NULL
                                    : bsearch(name, manifest->tensors, manifest->n_tensors,
                                              sizeof *manifest->tensors, by_name);
}

/* --- values ----------------------------------------------------------------------------------- */

static pst_status read_piece(const struct opened *opened, const struct pst_checkpoint_piece *piece,
                             uint64_t elems, float *values, struct pst_error *err)
{
    const struct pst_st_file *shard = opened->shards[piece->file];
    const uint64_t bytes = elems * sizeof *values;
    struct pst_hash stated, found;
    pst_status status;

    errno = 0;
    status = pst_st_read(shard, pst_st_find(shard, piece->key), 0, bytes, values, err);
    if (status != PST_OK || pst_fault("ckpt.load", 0)) {
        return status != PST_OK ? blame_file(err, shard->path)
                                : fail_piece(opened, piece, "cannot be read: PENSTOCK_FAULT", err);
    }
    pst_hash_parse(piece->xxh3, &stated);
    found = pst_hash_of(values, bytes);
    return pst_hash_equal(&stated, &found)
               ? PST_OK
               : fail_piece(opened, piece, "is damaged: checksum mismatch", err);
}

struct scatter {
    const float *part;
    float *values;
};

static void put_run(void *context, uint64_t whole, uint64_t own, uint64_t n)
{
    const struct scatter *scatter = context;

    memcpy(scatter->values + whole, scatter->part + own, n * sizeof *scatter->values);
}

static void put_part(const struct pst_checkpoint_tensor *tensor, uint32_t part, const float *from,
                     float *ret_values)
{
    struct pst_parameter own = {.rank = tensor->rank, .box = tensor->box};

    own.elems = pst_checkpoint_part(tensor, own.dims);
    pst_box_runs(&own, part, put_run, &(struct scatter){from, ret_values});
}

/* Parts are read one by one. */
static pst_status read_parts(const struct pst_checkpoint *checkpoint,
                             const struct pst_checkpoint_tensor *tensor, float *ret_values,
                             struct pst_error *err)
{
    uint64_t shape[PST_ST_RANK], at = 0;
    const uint64_t elems = pst_checkpoint_part(tensor, shape);
    float *part = pst_alloc(elems, sizeof *part);
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < tensor->n_pieces && status == PST_OK; i++) {
        const uint64_t n = pst_checkpoint_box(tensor, &tensor->pieces[i], at);

        status = read_piece(opened_of(checkpoint), &tensor->pieces[i], n, part + at % elems, err);
        at += n;
        if (status == PST_OK && at % elems == 0) {
            put_part(tensor, (uint32_t)(at / elems) - 1, part, ret_values);
        }
    }
    free(part);
    return status;
}

pst_status pst_checkpoint_read(const struct pst_checkpoint *checkpoint,
                               const struct pst_checkpoint_tensor *tensor, float *ret_values,
                               struct pst_error *err)
{
    const uint64_t most = PST_CHECKPOINT_PIECE / sizeof(float);
    uint64_t at = 0;
    float *room;
    pst_status status = PST_OK;

    if (tensor->box.parts > 1 && ret_values != NULL) {
        return read_parts(checkpoint, tensor, ret_values, err);
    }
    room = ret_values != NULL
               ? NULL
               : pst_alloc(tensor->elems < most ? tensor->elems : most, sizeof *room);
    for (uint32_t i = 0; i < tensor->n_pieces && status == PST_OK; i++) {
        const uint64_t n = pst_checkpoint_box(tensor, &tensor->pieces[i], at);

        status = read_piece(opened_of(checkpoint), &tensor->pieces[i], n,
                            room != NULL ? room : ret_values + at, err);
        at += n;
    }
    free(room);
    return status;
}

static pst_status load_value(void *context, const struct pst_state_key *key, uint64_t elems,
                             float *ret_values, bool *ret_found, struct pst_error *err)
{
    const struct pst_checkpoint_source *source = context;
    const struct pst_checkpoint_tensor *tensor;
    char name[PST_CHECKPOINT_NAME];

    pst_state_name(source->graph, key, name);
    tensor = key->kind == PST_STATE_SLOT && source->without_slots
                 ? NULL
                 : pst_checkpoint_find(source->checkpoint, name);
    *ret_found = tensor != NULL;
    if (tensor == NULL) {
        return PST_OK;
    }
    if (tensor->elems != elems) {
        return pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.mismatch", source->checkpoint->path, 0,
                           0, "%s has %llu values, but the model has %llu", name,
                           (unsigned long long)tensor->elems, (unsigned long long)elems);
    }
    return pst_checkpoint_read(source->checkpoint, tensor, ret_values, err);
}

struct pst_exec_source pst_checkpoint_source(struct pst_checkpoint_source *source)
{
    return (struct pst_exec_source){.context = source, .load = load_value};
}

/* --- all defects ------------------------------------------------------------------------------ */

struct checking {
    void (*tell)(void *context, const struct pst_error *defect);
    void *context;
    uint32_t n;
};

static void note_defect(struct checking *checking, pst_status status, const struct pst_error *err)
{
    if (status != PST_OK) {
        checking->n++;
        checking->tell(checking->context, err);
    }
}

/* Checks the checksum of the whole file, its header included. */
static pst_status check_sum(const struct opened *opened, uint32_t i, struct pst_error *err)
{
    const struct pst_checkpoint_file *file = &opened->base.manifest.files[i];
    struct pst_hash stated, found;

    if (!pst_hash_file(opened->folder, file->name, O_NOFOLLOW, &found)) {
        return fail_reading(err, opened->base.path, file->name);
    }
    pst_hash_parse(file->xxh3, &stated);
    return pst_hash_equal(&stated, &found)
               ? PST_OK
               : pst_fail_at(err, PST_ERR_CONFIG, "checkpoint.damaged", opened->base.path, 0, 0,
                             "%s: checksum mismatch with the manifest", file->name);
}

/* A tensor whose pieces' shards are open. */
static void check_values(const struct opened *opened, const struct pst_checkpoint_tensor *tensor,
                         float *room, struct pst_hasher *hasher, struct checking *checking)
{
    struct pst_error err = {0};
    struct pst_hash stated, found;
    uint64_t at = 0;
    bool sound = true;

    for (uint32_t i = 0; i < tensor->n_pieces; i++) {
        const struct pst_checkpoint_piece *piece = &tensor->pieces[i];
        const uint64_t n = pst_checkpoint_box(tensor, piece, at);
        pst_status status = PST_OK;

        at += n;
        if (opened->shards[piece->file] == NULL) { /* which was told */
            sound = false;
            continue;
        }
        status = check_piece(opened, tensor, piece, &err);
        PST_TRY(status, read_piece(opened, piece, n, room, &err));
        note_defect(checking, status, &err);
        sound = sound && status == PST_OK;
        if (status == PST_OK) {
            pst_hasher_add(hasher, room, n * sizeof *room);
        }
    }
    found = pst_hasher_end(hasher);
    if (sound && tensor->xxh3 != NULL && pst_hash_parse(tensor->xxh3, &stated) &&
        !pst_hash_equal(&stated, &found)) {
        note_defect(
            checking,
            pst_fail_at(&err, PST_ERR_CONFIG, "checkpoint.damaged", opened->base.path, 0, 0,
                        "manifest.json: the checksum of %s does not match those of its pieces",
                        tensor->name),
            &err);
    }
}

static void check_all(struct opened *opened, struct checking *checking)
{
    const struct pst_manifest *manifest = &opened->base.manifest;
    struct pst_hasher *hasher = pst_hasher_create();
    float *room = pst_alloc(PST_CHECKPOINT_PIECE / sizeof *room, sizeof *room);
    struct pst_error err = {0};

    make_shards(opened);
    for (uint32_t i = 0; i < manifest->n_files; i++) {
        pst_status status = open_shard(opened, i, &err);

        note_defect(checking, status, &err);
        if (status == PST_OK) {
            note_defect(checking, check_sum(opened, i, &err), &err);
        }
    }
    for (uint32_t i = 0; i < manifest->n_tensors; i++) {
        check_values(opened, &manifest->tensors[i], room, hasher, checking);
    }
    free(room);
    pst_hasher_destroy(hasher);
}

uint32_t pst_checkpoint_check(const char *path,
                              void (*tell)(void *context, const struct pst_error *defect),
                              void *context)
{
    struct checking checking = {.tell = tell, .context = context};
    struct pst_error err = {0};
    struct opened *opened = NULL;
    pst_status status = open_folder(path, &opened, &err);

    PST_TRY(status, read_manifest(opened, &err));
    note_defect(&checking, status, &err);
    if (status == PST_OK) {
        check_all(opened, &checking);
    }
    if (opened != NULL) {
        pst_checkpoint_close(&opened->base);
    }
    return checking.n;
}

/* --- folders of checkpoints ------------------------------------------------------------------- */

pst_status pst_checkpoint_list(const char *folder, uint64_t **ret_steps, uint32_t *ret_n,
                               struct pst_error *err)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    uint64_t *steps = NULL, step;
    size_t capacity = 0;
    uint32_t n = 0;
    int code;

    *ret_steps = NULL;
    *ret_n = 0;
    if (dir == NULL) {
        pst_heed_no_memory();
        return errno == ENOENT ? PST_OK
                               : pst_fail_at(err, PST_ERR_IO, "input.path", folder, 0, 0,
                                             "cannot read the folder: %s", strerror(errno));
    }
    for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0) {
        if (parse_step(entry->d_name, &step)) {
            pst_grow(&steps, &capacity, n, sizeof *steps);
            steps[n++] = step;
        }
    }
    code = errno;
    closedir(dir);
    if (code != 0) {
        free(steps);
        return pst_fail_at(err, PST_ERR_IO, "input.path", folder, 0, 0,
                           "cannot read the folder: %s", strerror(code));
    }
    if (n > 0) {
        qsort(steps, n, sizeof *steps, pst_by_number);
    }
    *ret_steps = steps;
    *ret_n = n;
    return PST_OK;
}

char *pst_checkpoint_path(const char *folder, uint64_t step)
{
    return pst_printf("%s/step-%012llu", folder, (unsigned long long)step);
}

bool pst_checkpoint_is_one(const char *path)
{
    static const char *const names[] = {"COMMIT", "manifest.json"};
    uint64_t step;
    bool found = step_of_path(path, &step);

    for (uint32_t i = 0; i < 2 && !found; i++) {
        char *file = pst_printf("%s/%s", path, names[i]);

        found = access(file, F_OK) == 0;
        free(file);
    }
    return found;
}
