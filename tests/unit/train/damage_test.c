/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint with each byte flipped and each file cut anywhere, made longer or gone: a check
 * tells it, and nobody who reads on gets other values.
 */
#include "test.h"

#include "base/util.h"
#include "support.h"
#include "checkpoint/checkpoint.h"

#ifdef __SANITIZE_THREAD__
#define STRIDE 37
#elif defined(__SANITIZE_ADDRESS__)
#define STRIDE 11
#else
#define STRIDE 1
#endif

enum { FILES = 3, MOST = 1 << 15, VALUES = 1 << 10 };

static const char *const names[FILES] = {"COMMIT", "manifest.json", "shard-00000.safetensors"};

/* What the program saved; values: of all tensors, one behind the other. */
struct saved {
    char folder[256];
    char bytes[FILES][MOST];
    size_t n_bytes[FILES];
    float values[VALUES];
    size_t n_values;
};

static void save(struct saved *saved)
{
    const char *config = support_write(
        "job.toml", "model = { use = \"mlp\", layers = 2, inputs = 3, hidden = 3, classes = 2 }\n"
                    "data = { kind = \"synthetic\" }\n"
                    "train = { steps = 1, batch = 2, microbatch = 2, eval_batches = 0 }\n"
                    "partitioner = { use = \"uniform\" }\n"
                    "scheduler = { use = \"1f1b\" }\n");
    char folder[160];
    struct outcome outcome;

    snprintf(folder, sizeof folder, "checkpoint.folder=%s", support_path("ck"));
    outcome = penstock("train", config, "--quiet", "--set", folder);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    snprintf(saved->folder, sizeof saved->folder, "%s/step-000000000001", support_path("ck"));
}

/* In place: a file that is emptied first goes to the disk when it is closed. */
static void put(const struct saved *saved, int file, const char *bytes, size_t n)
{
    char path[512];
    int fd;

    snprintf(path, sizeof path, "%s/%s", saved->folder, names[file]);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    assert_int_equal(close(fd), 0);
}

static void read_all(struct saved *saved)
{
    for (int i = 0; i < FILES; i++) {
        char path[512];
        FILE *from;

        snprintf(path, sizeof path, "%s/%s", saved->folder, names[i]);
        from = fopen(path, "rb");
        assert_non_null(from);
        saved->n_bytes[i] = fread(saved->bytes[i], 1, MOST, from);
        assert_in_range(saved->n_bytes[i], 1, MOST - 1);
        fclose(from);
    }
}

static void count(void *context, const struct pst_error *defect)
{
    assert_string_equal(defect->kind, "checkpoint.damaged");
    assert_true(defect->message[0] != '\0');
}

/* As a run that goes on reads it. */
static pst_status load(const struct saved *saved, float values[VALUES], size_t *ret_n)
{
    struct pst_checkpoint *checkpoint = NULL;
    struct pst_error err = {0};
    pst_status st = pst_checkpoint_open(saved->folder, &checkpoint, &err);

    *ret_n = 0;
    for (uint32_t i = 0; st == PST_OK && i < checkpoint->manifest.n_tensors; i++) {
        const struct pst_checkpoint_tensor *tensor = &checkpoint->manifest.tensors[i];

        assert_true(*ret_n + tensor->elems <= VALUES);
        st = pst_checkpoint_read(checkpoint, tensor, values + *ret_n, &err);
        *ret_n += tensor->elems;
    }
    assert_true(st == PST_OK || strcmp(err.kind, "checkpoint.damaged") == 0);
    pst_checkpoint_close(checkpoint);
    return st;
}

/* Told; whether a run would not begin. */
static bool is_refused(const struct saved *saved, int file, size_t at)
{
    float values[VALUES];
    size_t n;

    if (pst_checkpoint_check(saved->folder, count, NULL) == 0) {
        fail_msg("%s, byte %zu: found sound", names[file], at);
    }
    if (load(saved, values, &n) != PST_OK) {
        return true;
    }
    assert_int_equal(n, saved->n_values);
    if (memcmp(values, saved->values, n * sizeof *values) != 0) {
        fail_msg("%s, byte %zu: other values are read", names[file], at);
    }
    return false;
}

TEST(every_byte)
{
    static struct saved saved;
    char path[512];

    support_begin(NULL);
    save(&saved);
    read_all(&saved);
    assert_int_equal(load(&saved, saved.values, &saved.n_values), PST_OK);
    assert_int_equal(pst_checkpoint_check(saved.folder, count, NULL), 0);
    for (int i = 0; i < FILES; i++) {
        char *bytes = saved.bytes[i];
        const size_t n = saved.n_bytes[i];
        size_t n_passed = 0;

        for (size_t at = 0; at < n; at += STRIDE) {
            bytes[at] ^= (char)(1 << at % 8);
            put(&saved, i, bytes, n);
            n_passed += !is_refused(&saved, i, at);
            bytes[at] ^= (char)(1 << at % 8);
        }
        /* What the shard says of the run and the step in its header says the manifest, too. */
        assert_in_range(n_passed, 0, i == FILES - 1 ? 100 : 0);
        for (size_t length = 0; length < n; length += STRIDE) {
            put(&saved, i, bytes, length);
            assert_true(is_refused(&saved, i, length));
        }
        put(&saved, i, bytes, n + 1);
        assert_true(is_refused(&saved, i, n));
        snprintf(path, sizeof path, "%s/%s", saved.folder, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_true(is_refused(&saved, i, 0));
        put(&saved, i, bytes, n);
    }
    assert_int_equal(pst_checkpoint_check(saved.folder, count, NULL), 0);
    support_end(NULL);
}
