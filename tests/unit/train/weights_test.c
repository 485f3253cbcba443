/* SPDX-License-Identifier: Apache-2.0
 *
 * Published weights of every family: the logits of tests/data/published, which
 * scripts/record_published.py has from PyTorch; what is written again; files that do not fit.
 */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>

#include "base/log.h"
#include "base/safetensors.h"
#include "base/util.h"
#include "config/config.h"
#include "job_defaults.h"
#include "support.h"
#include "train/weights.h"
#include "unit/exec/real.h"

#define PUBLISHED PENSTOCK_SOURCE_DIR "/tests/data/published/"

struct family {
    const char *name, *model, *settings;
    bool exact; /* no factor rounds what is written again */
};

static const struct family families[] = {
    {"gpt", "gpt", "layers=2 dim=8 heads=2 context=8 vocab=19", true},
    {"bert", "bert", "layers=2 dim=8 heads=2 context=8 vocab=19 segments=2", true},
    {"t5", "t5",
     "layers=2 decoder_layers=1 dim=8 head_dim=6 ff=12 heads=2 vocab=19 context=8 targets=6 "
     "buckets=8 max_distance=16",
     false},
    {"resnet", "resnet", "image=8 classes=5 width=4 stages=2 blocks=1 bottleneck=true", true},
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

static void note(uint32_t level, const char *area, const char *text)
{
    size_t n = strlen(told);

    snprintf(told + n, sizeof told - n, "%s: %s\n", area, text);
}

static void open_model(struct opened *o, const struct family *family, const char *settings)
{
    char toml[1024], *line;
    struct pst_error err = {0};

    snprintf(toml, sizeof toml, "[model]\nuse='%s'\n%s\n", family->model, settings);
    for (line = strstr(toml, "\n") + 1; (line = strchr(line, ' ')) != NULL;) {
        *line = '\n';
    }
    memset(o, 0, sizeof *o);
    assert_ok(pst_config_parse(toml, strlen(toml), "test.toml", &o->config, &err), &err);
    assert_ok(pst_job_read(o->config, &o->job, &err), &err);
    o->graph = make_model(family->model, settings, PST_F32);
    told[0] = '\0';
    pst_log_set_sink(note);
}

static void close_model(struct opened *o)
{
    pst_log_set_sink(NULL);
    pst_weights_close(o->weights);
    pst_graph_destroy(o->graph);
    pst_job_finish(&o->job);
    pst_config_destroy(o->config);
}

static struct pst_st_file *open_file(const char *folder, const char *name)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    struct pst_st_file *file = NULL;
    struct pst_error err = {0};

    assert_ok(pst_st_open(fd, name, name, &file, &err), &err);
    close(fd);
    return file;
}

/* --- logits ----------------------------------------------------------------------------------- */

static void set_inputs(struct real *real, const struct pst_st_file *expected)
{
    struct pst_error err;

    for (uint32_t i = 0; i < real->graph->n_inputs; i++) {
        const struct pst_tensor *input = &real->graph->tensors[i];
        const struct pst_st_tensor *tensor = pst_st_find(expected, input->name);
        uint64_t bytes = input->bytes * real->batch;

        free(real->inputs[i]);
        real->inputs[i] = calloc(1, bytes);
        if (input->field != PST_FIELD_TARGET && input->field != PST_FIELD_MASKED) {
            assert_non_null(tensor);
            assert_int_equal(tensor->bytes, bytes);
            assert_ok(pst_st_read(expected, tensor, 0, bytes, real->inputs[i], &err), &err);
        }
    }
}

static void check_logits(const struct family *family, const struct pst_exec_source *source,
                         uint32_t stages)
{
    char folder[512];
    struct pst_st_file *expected;
    const struct pst_st_tensor *logits;
    const struct layout layout = {.n_stages = stages, .order = ORDER_GPIPE};
    struct pst_batch batch = {.first_sample = 0};
    struct pst_error err = {0};
    struct real real;
    float *ours, *theirs;
    double loss;

    snprintf(folder, sizeof folder, PUBLISHED "%s", family->name);
    expected = open_file(folder, "expected.safetensors");
    logits = pst_st_find(expected, "logits");
    ours = malloc(logits->bytes);
    theirs = malloc(logits->bytes);
    real_resumes.source = source;
    real_create(&real, family->model, family->settings, PST_F32, &layout, SIZE, 0, 0);
    real_resumes.source = NULL;
    set_inputs(&real, expected);
    memcpy(batch.inputs, real.inputs, sizeof real.inputs);
    assert_ok(pst_exec_eval(real.exec, &batch, &loss, ours, logits->elems, &err), &err);
    assert_ok(pst_st_read(expected, logits, 0, logits->bytes, theirs, &err), &err);
    for (uint64_t i = 0; i < logits->elems; i++) {
        if (!(fabs((double)ours[i] - (double)theirs[i]) <= 1e-4)) {
            fail_msg("%s: logit %llu is %.9g, PyTorch's %.9g", family->name, (unsigned long long)i,
                     (double)ours[i], (double)theirs[i]);
        }
    }
    real_destroy(&real);
    pst_st_close(expected);
    free(ours);
    free(theirs);
}

TEST(logits_are_those_of_pytorch)
{
    for (uint32_t i = 0; i < FAMILIES; i++) {
        struct pst_error err = {0};
        struct opened o;
        char folder[512];

        snprintf(folder, sizeof folder, PUBLISHED "%s", families[i].name);
        open_model(&o, &families[i], families[i].settings);
        assert_ok(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), &err);
        assert_string_equal(told, "");
        check_logits(&families[i], pst_weights_source(o.weights), 1);
        check_logits(&families[i], pst_weights_source(o.weights), 3);
        close_model(&o);
    }
}

/* --- what is written -------------------------------------------------------------------------- */

/* Each tensor of `is` has the values of the same in `was`. */
static uint32_t compare_files(const struct pst_st_file *is, const struct pst_st_file *was,
                              double bound)
{
    for (uint32_t i = 0; i < is->n; i++) {
        const struct pst_st_tensor *a = &is->tensors[i], *b = pst_st_find(was, a->name);
        struct pst_error err;
        float *x, *y;

        if (b == NULL) {
            fail_msg("%s is not in the published file", a->name);
        }
        assert_int_equal(a->rank, b->rank);
        assert_memory_equal(a->shape, b->shape, sizeof a->shape);
        x = malloc(a->bytes);
        y = malloc(a->bytes);
        assert_ok(pst_st_read_f32(is, a, 0, a->elems, x, &err), &err);
        assert_ok(pst_st_read_f32(was, b, 0, a->elems, y, &err), &err);
        for (uint64_t k = 0; k < a->elems; k++) {
            assert_true(fabs((double)x[k] - (double)y[k]) <= bound * fabs((double)y[k]));
        }
        free(x);
        free(y);
    }
    return is->n;
}

/* All but what is no parameter: a table that is there twice, counters. */
static uint32_t count_weights(const struct pst_st_file *file)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < file->n; i++) {
        n += file->tensors[i].dtype == PST_ST_F32;
    }
    return n;
}

TEST_WITH(what_is_written_is_what_was_read, support_begin, support_end)
{
    for (uint32_t i = 0; i < FAMILIES; i++) {
        const char *out = support_path(families[i].name);
        struct pst_error err = {0};
        struct pst_st_file *was, *is;
        struct opened o, again;
        char folder[512];

        snprintf(folder, sizeof folder, PUBLISHED "%s", families[i].name);
        open_model(&o, &families[i], families[i].settings);
        assert_ok(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), &err);
        assert_ok(pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, UINT64_MAX,
                                    &err),
                  &err);
        was = open_file(folder, "model.safetensors");
        is = open_file(out, "model.safetensors");
        assert_int_equal(compare_files(is, was, families[i].exact ? 0 : 0x1p-23),
                         count_weights(was));
        pst_st_close(is);
        /* in shards: one for each value */
        assert_ok(pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, 1, &err),
                  &err);
        assert_true(access(support_path(families[i].name), F_OK) == 0);
        snprintf(folder, sizeof folder, "%s/model.safetensors", out);
        assert_int_not_equal(access(folder, F_OK), 0);
        open_model(&again, &families[i], families[i].settings);
        assert_ok(pst_weights_open(out, &again.job, again.graph, true, &again.weights, &err), &err);
        assert_string_equal(told, "");
        check_logits(&families[i], pst_weights_source(again.weights), 1);
        close_model(&again);
        close_model(&o);
        pst_st_close(was);
    }
}
