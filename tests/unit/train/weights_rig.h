/* SPDX-License-Identifier: Apache-2.0
 *
 * Published weights of every family in tests/data/published, with models that have their settings.
 */
#ifndef PST_TESTS_UNIT_TRAIN_WEIGHTS_RIG_H
#define PST_TESTS_UNIT_TRAIN_WEIGHTS_RIG_H

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>

#include "base/log.h"
#include "base/util.h"
#include "config/config.h"
#include "weights/safetensors.h"
#include "job_defaults.h"
#include "support.h"
#include "unit/exec/real.h"
#include "weights/weights.h"
#include "weights/weights_impl.h"

#define PUBLISHED PENSTOCK_SOURCE_DIR "/tests/data/published/"

struct family {
    const char *name, *model, *settings;
    bool exact; /* no factor rounds what is written again */
};

static const struct family families[] = {
    {"gpt", "gpt", "layers=2 dim=8 heads=2 context=8 vocab=19", true},
    {"bert", "bert", "layers=2 dim=8 heads=2 context=8 vocab=19 segments=2 pad_token=0", true},
    {"bert-erf", "bert", "layers=2 dim=8 heads=2 context=8 vocab=19 segments=2 gelu=erf pad_token=0", true},
    {"t5", "t5",
     "layers=2 decoder_layers=1 dim=8 head_dim=6 ff=12 heads=2 vocab=19 context=8 targets=6 "
     "buckets=8 max_distance=16",
     false},
    {"t5-v1.1", "t5",
     "layers=2 decoder_layers=1 dim=8 head_dim=6 ff=12 heads=2 vocab=19 context=8 targets=6 "
     "buckets=8 max_distance=16 gated=true tied=false",
     false},
    {"resnet", "resnet", "image=8 classes=5 width=4 stages=2 blocks=1 bottleneck=true", true},
    {"llama", "llama",
     "layers=2 dim=8 heads=4 kv_heads=2 ff=12 context=8 vocab=19 eps=1e-6 rope_theta=500 "
     "rope_scaling=llama3 rope_factor=4 rope_original_context=6",
     true},
    {"mistral", "llama",
     "layers=2 dim=8 heads=4 kv_heads=2 head_dim=2 ff=12 context=8 vocab=19 eps=1e-6 window=3",
     true},
    {"qwen2", "llama",
     "layers=2 dim=8 heads=4 kv_heads=2 ff=12 context=8 vocab=19 eps=1e-6 qkv_bias=true tied=true",
     true},
    {"qwen3", "llama",
     "layers=2 dim=8 heads=4 kv_heads=2 head_dim=6 ff=12 context=8 vocab=19 eps=1e-6 qk_norm=true",
     true},
    {"mixtral", "llama", "layers=2 dim=8 heads=4 kv_heads=2 ff=12 context=8 vocab=19 experts=4",
     true},
    {"qwen3-moe", "llama",
     "layers=2 dim=8 heads=4 kv_heads=2 head_dim=6 ff=12 context=8 vocab=19 eps=1e-6 qk_norm=true "
     "experts=4 normalize=false",
     true},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* A job of a model and its graph. */
struct opened {
    struct pst_config *config;
    struct pst_job job;
    struct pst_graph *graph;
    struct pst_weights *weights;
};

static char told[4096];

static inline void note(uint32_t level, const char *area, const char *text)
{
    size_t n = strlen(told);

    snprintf(told + n, sizeof told - n, "%s: %s\n", area, text);
}

static inline void open_model(struct opened *o, const struct family *family, const char *settings)
{
    char *copy = strdup(settings), *rest = copy, *word, texts[24][64];
    const char *sets[24];
    struct pst_error err = {0};
    uint32_t n = 0;

    snprintf(texts[n++], sizeof texts[0], "model.use=%s", family->model);
    while ((word = strsep(&rest, " ")) != NULL) {
        assert_true(n < 24);
        snprintf(texts[n++], sizeof texts[0], "model.%s", word);
    }
    for (uint32_t i = 0; i < n; i++) {
        sets[i] = texts[i];
    }
    memset(o, 0, sizeof *o);
    assert_ok(pst_config_from_sets(sets, n, &o->config, &err), &err);
    assert_ok(pst_job_read(o->config, &o->job, &err), &err);
    o->graph = make_model(family->model, settings, PST_F32);
    told[0] = '\0';
    pst_log_set_sink(note);
    free(copy);
}

static inline void close_model(struct opened *o)
{
    pst_log_set_sink(NULL);
    pst_weights_close(o->weights);
    pst_graph_destroy(o->graph);
    pst_job_finish(&o->job);
    pst_config_destroy(o->config);
}

static inline struct pst_st_file *open_file(const char *folder, const char *name)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    struct pst_st_file *file = NULL;
    struct pst_error err = {0};

    assert_ok(pst_st_open(fd, name, name, &file, &err), &err);
    close(fd);
    return file;
}

/* Renames, reshapes or leaves out (name NULL) a tensor of a copy. */
typedef void change_fn(struct pst_st_tensor *tensor);

/* A copy of a family's file in the test's folder, all of it read first. */
static inline const char *copy_file(const struct family *family, change_fn *change)
{
    const char *out = support_path("copy");
    struct pst_st_writer *writer = NULL;
    struct pst_st_tensor tensors[128];
    const struct pst_st_tensor *from[128];
    struct pst_error err;
    struct pst_st_file *file;
    char path[512], *bytes;
    uint32_t n = 0;

    snprintf(path, sizeof path, PUBLISHED "%s", family->name);
    file = open_file(path, "model.safetensors");
    for (uint32_t i = 0; i < file->n; i++) {
        assert_true(n < 128);
        tensors[n] = file->tensors[i];
        from[n] = &file->tensors[i];
        change(&tensors[n]);
        n += tensors[n].name != NULL;
    }
    mkdir(out, 0700);
    snprintf(path, sizeof path, "%s/model.safetensors", out);
    assert_ok(pst_st_create(path, tensors, n, NULL, 0, &writer, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t size = pst_st_place(writer, i)->bytes;

        bytes = calloc(1, size + from[i]->bytes);
        assert_ok(pst_st_read(file, from[i], 0, from[i]->bytes, bytes, &err), &err);
        assert_ok(pst_st_write(writer, i, 0, bytes, size, &err), &err);
        free(bytes);
    }
    assert_ok(pst_st_finish(writer, &err), &err);
    pst_st_close(file);
    snprintf(path, sizeof path, PUBLISHED "%s/config.json", family->name);
    bytes = support_read(path);
    support_write("copy/config.json", bytes);
    free(bytes);
    return out;
}

static inline void change_nothing(struct pst_st_tensor *tensor)
{
}

#endif
