/* SPDX-License-Identifier: Apache-2.0
 *
 * The writing thread writes a shard, in the order of the file, with checksums. On the first process
 * it also writes manifest and COMMIT, renames the folder, which makes it a checkpoint, and removes
 * older ones.
 */
#include "checkpoint/saver_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/util.h"

static pst_status meet_fault(const struct saver_job *job, const char *point, struct pst_error *err)
{
    return pst_fault(point, job->process)
               ? pst_fail(err, PST_ERR_IO, "output.write", "PENSTOCK_FAULT at %s", point)
               : PST_OK;
}

static char *partial_path(const struct saver_job *job)
{
    return pst_printf("%s/%s%012llu-%s", job->folder, SAVER_PARTIAL,
                      (unsigned long long)job->moment.step, job->run);
}

void saver_remove_partial(const struct saver_job *job)
{
    char *path = partial_path(job);

    saver_remove_folder(path);
    free(path);
}

static pst_status sync_folder(const char *path, struct pst_error *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pst_status status = PST_OK;

    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) {
        status = saver_fail(err, path, "sync the folder");
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

/* --- shards ----------------------------------------------------------------------------------- */

struct order {
    const char *key;
    uint32_t piece; /* of the process */
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct order *)a)->key, ((const struct order *)b)->key);
}

static pst_status begin_shard(const struct saver_job *job, const char *path,
                              struct pst_st_writer **ret_writer, struct pst_error *err)
{
    const struct saver_layout *layout = job->layout;
    const uint32_t first = layout->first_piece[job->process];
    const uint32_t n = layout->first_piece[job->process + 1] - first;
    struct pst_st_tensor *tensors = pst_alloc(n, sizeof *tensors);
    char step[24];
    const struct pst_st_pair metadata[] = {
        {"format", "penstock-checkpoint"}, {"run", job->run}, {"step", step}};
    pst_status status;

    snprintf(step, sizeof step, "%llu", (unsigned long long)job->moment.step);
    for (uint32_t i = 0; i < n; i++) {
        const struct saver_piece *piece = &layout->pieces[first + i];

        tensors[i] = (struct pst_st_tensor){.name = piece->is.key,
                                            .dtype = PST_ST_F32,
                                            .rank = layout->tensors[piece->tensor].is.rank};
        memcpy(tensors[i].shape, piece->is.shape, sizeof tensors[i].shape);
    }
    status = pst_st_create(path, tensors, n, metadata, 3, ret_writer, err);
    free(tensors);
    return status;
}

/* In the order of the file, so that its own checksum is made on the way, and by pieces that are
   still near when the second checksum and the copy want them. */
enum { NEAR = 256 << 10 };

static pst_status write_pieces(struct saver_job *job, const struct pst_st_writer *writer,
                               struct pst_error *err)
{
    const struct saver_layout *layout = job->layout;
    const uint32_t first = layout->first_piece[job->process];
    const uint32_t n = layout->first_piece[job->process + 1] - first;
    struct order *order = pst_alloc(n, sizeof *order);
    struct pst_hasher *file = pst_hasher_create(), *own = pst_hasher_create();
    const void *header;
    uint64_t n_header;
    pst_status status = PST_OK;

    header = pst_st_header(writer, &n_header);
    pst_hasher_add(file, header, n_header);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = (struct order){.key = layout->pieces[first + i].is.key, .piece = i};
    }
    qsort(order, n, sizeof *order, by_key);
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        const uint32_t index = order[i].piece;
        const struct saver_piece *piece = &layout->pieces[first + index];
        const char *values = (const char *)(job->values + piece->offset);
        const uint64_t bytes = piece->elems * sizeof(float);

        for (uint64_t at = 0; at < bytes && status == PST_OK; at += NEAR) {
            const uint64_t part = bytes - at < NEAR ? bytes - at : NEAR;

            pst_hasher_add(own, values + at, part);
            pst_hasher_add(file, values + at, part);
            status = pst_st_write(writer, index, at, values + at, part, err);
        }
        *saver_piece_sum(job, first + index) = pst_hasher_end(own);
    }
    saver_sums_of(job, job->process)->file = pst_hasher_end(file);
    saver_sums_of(job, job->process)->bytes = pst_st_file_bytes(writer);
    pst_hasher_destroy(file);
    pst_hasher_destroy(own);
    free(order);
    return status;
}

/* Sums the tensors of which this process has all elements. */
static void sum_tensors(struct saver_job *job)
{
    const struct saver_layout *layout = job->layout;
    struct pst_hasher *hasher = pst_hasher_create();

    for (uint32_t from = 0, end; from < layout->n_tensors; from = end) {
        const struct saver_tensor *first = layout->order[from];
        bool one;

        end = saver_tensor_end(layout, from, &one);
        if (!one || first->process != job->process) {
            continue;
        }
        if (first->is.n_pieces == 1 && end - from == 1) {
            *saver_tensor_sum(job, first) = *saver_piece_sum(job, first->first_piece);
            continue;
        }
        for (uint32_t i = from; i < end; i++) {
            const struct saver_tensor *tensor = layout->order[i];

            pst_hasher_add(hasher, job->values + tensor->offset, tensor->elems * sizeof(float));
        }
        *saver_tensor_sum(job, first) = pst_hasher_end(hasher);
    }
    pst_hasher_destroy(hasher);
}

static uint64_t bytes_of(const struct saver_job *job)
{
    uint64_t elems = 0;

    for (uint32_t p = 0; p < job->layout->n_processes; p++) {
        elems += job->process == 0 || p == job->process ? job->layout->elems[p] : 0;
    }
    return elems * sizeof(float);
}

pst_status saver_write_shard(struct saver_job *job, struct pst_error *err)
{
    char *folder = partial_path(job), name[32], *path;
    struct pst_st_writer *writer = NULL;
    pst_status status = saver_check_space(job->folder, bytes_of(job), err);

    saver_shard_name(job->process, name);
    path = pst_printf("%s/%s", folder, name);
    saver_sums_of(job, job->process)->bytes = 0;
    if (status == PST_OK && mkdir(folder, 0777) != 0 && errno != EEXIST) {
        status = saver_fail(err, folder, "make the folder of a checkpoint");
    }
    PST_TRY(status, meet_fault(job, "ckpt.shard", err));
    if (status == PST_OK && job->layout->elems[job->process] > 0) {
        status = begin_shard(job, path, &writer, err);
    }
    if (writer != NULL) {
        status = write_pieces(job, writer, err);
        if (status == PST_OK) {
            sum_tensors(job);
            status = pst_st_finish(writer, err);
        } else {
            pst_st_abandon(writer);
        }
    }
    free(path);
    free(folder);
    return status;
}

/* --- the first process ------------------------------------------------------------------------ */

static pst_status write_text(const char *folder, const char *name, const char *text,
                             struct pst_error *err)
{
    char *path = pst_printf("%s/%s", folder, name);
    pst_status status = pst_file_write(path, text, strlen(text), err);

    free(path);
    return status;
}

static pst_status write_manifest(struct saver_job *job, const char *folder, struct pst_error *err)
{
    char *text = saver_manifest(job), sum[PST_SHA256_TEXT], *commit;
    pst_status status = meet_fault(job, "ckpt.manifest", err);

    commit = pst_printf("penstock-checkpoint 1 bytes=%zu sha256=%s\n", strlen(text),
                        pst_sha256(text, strlen(text), sum));
    PST_TRY(status, write_text(folder, "manifest.json", text, err));
    PST_TRY(status, meet_fault(job, "ckpt.commit", err));
    PST_TRY(status, write_text(folder, "COMMIT", commit, err));
    job->written_bytes = strlen(text) + strlen(commit);
    for (uint32_t p = 0; p < job->layout->n_processes; p++) {
        job->written_bytes += saver_sums_of(job, p)->bytes;
    }
    free(commit);
    free(text);
    return status;
}

static void note_defect(void *context, const struct pst_error *defect)
{
    struct pst_error *err = context;

    *err = *defect;
}

/* Reads back the checkpoint that was written. */
static pst_status verify_written(const struct saver_job *job, const char *path,
                                 struct pst_error *err)
{
    struct pst_checkpoint *checkpoint = NULL;
    struct pst_error found = {0};
    pst_status status;

    if (job->config->session->job->training->checkpoint.verify == PST_VERIFY_FULL) {
        status = pst_checkpoint_check(path, note_defect, &found) > 0 ? PST_ERR_IO : PST_OK;
    } else {
        status = pst_checkpoint_open(path, &checkpoint, &found);
        pst_checkpoint_close(checkpoint);
    }
    return status == PST_OK
               ? PST_OK
               : pst_fail_at(err, PST_ERR_IO, "output.write", path, 0, 0,
                             "the new checkpoint cannot be read back: %.400s", found.message);
}

/* The checkpoint gets a name that is none of a checkpoint: it is there whole, or not at all. */
static pst_status set_aside(const struct saver_job *job, const char *path, char **ret_aside,
                            struct pst_error *err)
{
    char *aside =
        pst_printf("%s/%s%s-%s", job->folder, SAVER_RETIRED, strrchr(path, '/') + 1, job->run);
    pst_status status = PST_OK;

    if (rename(path, aside) != 0) {
        status = saver_fail(err, path, "remove an old checkpoint");
        free(aside);
        aside = NULL;
    }
    *ret_aside = aside;
    return status;
}

/* The new name is on the disk before files go. */
static pst_status retire_checkpoint(const struct saver_job *job, const char *path,
                                    struct pst_error *err)
{
    char *aside;
    pst_status status = set_aside(job, path, &aside, err);

    PST_TRY(status, sync_folder(job->folder, err));
    if (status == PST_OK) {
        saver_remove_folder(aside);
    }
    if (status == PST_OK && access(aside, F_OK) == 0) {
        status = pst_fail_at(err, PST_ERR_IO, "output.write", aside, 0, 0,
                             "%.400s cannot be removed; the next save tries again", aside);
    }
    free(aside);
    return status;
}

/* Old checkpoints that nobody wants kept; what cannot be removed is told, and no failure. */
static void retire_old(const struct saver_job *job)
{
    const struct pst_job_checkpoint *rules = &job->config->session->job->training->checkpoint;
    uint64_t *steps = NULL;
    uint32_t n = 0;
    struct pst_error err = {0};
    pst_status status = meet_fault(job, "ckpt.retire", &err);

    saver_remove_all(job->folder, SAVER_RETIRED); /* where a removal was cut short */
    PST_TRY(status, pst_checkpoint_list(job->folder, &steps, &n, &err));
    for (uint32_t i = 0; i + rules->keep_last < n && status == PST_OK; i++) {
        char *path = pst_checkpoint_path(job->folder, steps[i]);

        if (rules->keep_every == 0 || steps[i] % (uint64_t)rules->keep_every != 0) {
            status = retire_checkpoint(job, path, &err);
        }
        free(path);
    }
    free(steps);
    if (status != PST_OK) {
        pst_log(PST_LOG_WARN, "checkpoint", "an old checkpoint was not removed: %s", err.message);
    }
}

/* One of the same step that is there is damaged, or a run was begun anew from before it. */
static pst_status put_in_place(const struct saver_job *job, const char *from, const char *to,
                               struct pst_error *err)
{
    pst_status status = meet_fault(job, "ckpt.rename", err);
    char *aside = NULL;

    if (status == PST_OK && access(to, F_OK) == 0) {
        status = set_aside(job, to, &aside, err);
    }
    if (status == PST_OK && rename(from, to) != 0) {
        status = saver_fail(err, to, "put the checkpoint in place");
    }
    PST_TRY(status, sync_folder(job->folder, err));
    if (status == PST_OK && aside != NULL) {
        saver_remove_folder(aside);
    }
    free(aside);
    return status;
}

pst_status saver_commit(struct saver_job *job, struct pst_error *err)
{
    char *partial = partial_path(job);
    char *path = pst_checkpoint_path(job->folder, job->moment.step);
    pst_status status = write_manifest(job, partial, err);

    PST_TRY(status, verify_written(job, partial, err));
    PST_TRY(status, put_in_place(job, partial, path, err));
    if (status == PST_OK) {
        retire_old(job);
    }
    free(path);
    free(partial);
    return status;
}
