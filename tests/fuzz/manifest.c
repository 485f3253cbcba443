/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a checkpoint: the input is its manifest, or its COMMIT where it begins like one. A
 * shard is there; what is opened is read to its last value, and what `penstock check` finds sound
 * is opened.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "fuzz.h"
#include "checkpoint/checkpoint.h"

#define COMMIT "penstock-checkpoint "

static char folder_path[] = "/tmp/penstock-fuzz-XXXXXX";
static int folder = -1;

static void put(const char *name, const void *data, size_t size)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0) {
        fuzz_fail("a file cannot be written");
    }
}

static void leave(void)
{
    unlinkat(folder, "COMMIT", 0);
    unlinkat(folder, "manifest.json", 0);
    unlinkat(folder, "s", 0);
    rmdir(folder_path);
}

/* A manifest of that shard: what it has is a tensor, or is each of two parts of a tensor of two
   sections, or of one whose last place is padding. */
static void keep_sound(const char *file, size_t size, const float values[6], uint32_t parts,
                       uint64_t padding)
{
    char sums[3][PST_HASH_TEXT];
    const struct pst_hash hashes[3] = {pst_hash_of(file, size),
                                       pst_hash_of(values, 3 * sizeof *values),
                                       pst_hash_of(values, 6 * sizeof *values)};
    struct pst_checkpoint_file files[] = {
        {.name = "s", .bytes = size, .xxh3 = pst_hash_text(&hashes[0], sums[0])}};
    struct pst_checkpoint_piece pieces[] = {
        {.key = "param/w", .shape = {3}, .xxh3 = pst_hash_text(&hashes[1], sums[1])},
        {.key = "param/w", .shape = {3}, .xxh3 = sums[1], .part = 1}};
    struct pst_checkpoint_tensor tensors[] = {{.name = "param/w",
                                               .rank = 1,
                                               .shape = {3 * parts - padding},
                                               .xxh3 = pst_hash_text(&hashes[parts], sums[parts]),
                                               .n_pieces = parts,
                                               .pieces = pieces}};
    struct pst_manifest manifest = {.run = "",
                                    .written_by = "",
                                    .model = "",
                                    .model_digest = "",
                                    .data_digest = "",
                                    .optimizer = "",
                                    .plan_digest = "",
                                    .partitioner = "",
                                    .scheduler = "",
                                    .memopt = "",
                                    .rule = "",
                                    .config = "{}",
                                    .n_files = 1,
                                    .n_tensors = 1,
                                    .files = files,
                                    .tensors = tensors};
    char *text;

    if (parts > 1) {
        tensors[0].box = padding > 0 ? (struct pst_box){parts, 0, 1, {5}, padding}
                                     : (struct pst_box){parts, 0, 2, {2, 4}, 0};
    }
    for (uint32_t i = 0; i < PST_NUMERICS; i++) {
        manifest.numerics[i] = "1";
    }
    text = pst_manifest_write(&manifest);
    fuzz_keep(text, strlen(text));
    free(text);
}

/* "param/w" is [1, 2, 3]. */
void fuzz_begin(void)
{
    static const char header[] =
        "{\"param/w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}   ";
    static const float values[6] = {1, 2, 3, 1, 2, 3};
    char file[8 + sizeof header - 1 + sizeof values / 2] = {sizeof header - 1};

    folder = mkdtemp(folder_path) != NULL ? open(folder_path, O_RDONLY | O_DIRECTORY) : -1;
    if (folder < 0) {
        fuzz_fail("no folder");
    }
    atexit(leave);
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, values, sizeof values / 2);
    put("s", file, sizeof file);
    put("manifest.json", "{}", 2);
    keep_sound(file, sizeof file, values, 1, 0);
    keep_sound(file, sizeof file, values, 2, 0);
    keep_sound(file, sizeof file, values, 2, 1);
    fuzz_keep(COMMIT "1 bytes=2 sha256=", strlen(COMMIT) + 17);
}

static void note(void *context, const struct pst_error *defect)
{
    (void)context;
    fuzz_judge(PST_ERR_CONFIG, defect);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_checkpoint *checkpoint = NULL;
    struct pst_error err = {0};
    char sum[PST_SHA256_TEXT], commit[160];
    bool opened, sound;

    if (size >= strlen(COMMIT) && memcmp(data, COMMIT, strlen(COMMIT)) == 0) {
        put("COMMIT", data, size);
    } else {
        put("manifest.json", data, size);
        snprintf(commit, sizeof commit, COMMIT "1 bytes=%zu sha256=%s\n", size,
                 pst_sha256(data, size, sum));
        put("COMMIT", commit, strlen(commit));
    }
    sound = pst_checkpoint_check(folder_path, note, NULL) == 0;
    opened = fuzz_judge(pst_checkpoint_open(folder_path, &checkpoint, &err), &err);
    if (sound && !opened) {
        fuzz_fail("sound, but not opened: %s", err.message);
    }
    for (uint32_t i = 0; opened && i < checkpoint->manifest.n_tensors; i++) {
        const struct pst_checkpoint_tensor *tensor = &checkpoint->manifest.tensors[i];
        float *values = pst_alloc(tensor->elems, sizeof *values);

        if (!fuzz_judge(pst_checkpoint_read(checkpoint, tensor, values, &err), &err) && sound) {
            fuzz_fail("sound, but not read: %s", err.message);
        }
        free(values);
    }
    pst_checkpoint_close(checkpoint);
    return 0;
}
