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
    {"bert", "bert", "layers=2 dim=8 heads=2 context=8 vocab=19 segments=2", true},
    {"bert-erf", "bert", "layers=2 dim=8 heads=2 context=8 vocab=19 segments=2 gelu=erf", true},
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

static void note(uint32_t level, const char *area, const char *text)
{
    size_t n = strlen(told);

    snprintf(told + n, sizeof told - n, "%s: %s\n", area, text);
}

static void open_model(struct opened *o, const struct family *family, const char *settings)
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

/* The same, where samples are tokens of a text: SIZE at a time, the texts one behind the other. */
static void check_decoded(const struct family *family, const struct pst_exec_source *source,
                          uint32_t dtype, uint32_t stages)
{
    const struct layout layout = {.n_stages = stages, .order = ORDER_GPIPE};
    struct pst_batch batch = {.first_sample = 0};
    struct pst_error err = {0};
    struct pst_st_file *expected;
    const struct pst_st_tensor *logits, *tokens;
    struct real real;
    float *ours, *theirs;
    int32_t *x;
    double loss;
    char folder[512];

    snprintf(folder, sizeof folder, PUBLISHED "%s", family->name);
    expected = open_file(folder, "expected.safetensors");
    logits = pst_st_find(expected, "logits");
    tokens = pst_st_find(expected, "tokens");
    theirs = malloc(logits->bytes);
    x = malloc(tokens->bytes);
    assert_ok(pst_st_read(expected, logits, 0, logits->bytes, theirs, &err), &err);
    assert_ok(pst_st_read(expected, tokens, 0, tokens->bytes, x, &err), &err);
    real_resumes.source = source;
    real_decodes = true;
    real_create(&real, family->model, family->settings, dtype, &layout, SIZE, 0, 0);
    real_decodes = false;
    real_resumes.source = NULL;
    real_data(&real, 1);
    ours = malloc(SIZE * 19 * sizeof *ours);
    for (uint64_t t = 0; t < tokens->elems; t += SIZE) {
        batch.first_sample = t % 8;
        memcpy(real.inputs[0], x + t, SIZE * sizeof *x);
        memcpy(batch.inputs, real.inputs, sizeof real.inputs);
        assert_ok(pst_exec_eval(real.exec, &batch, &loss, ours, SIZE * 19, &err), &err);
        for (uint64_t i = 0; i < SIZE * 19; i++) {
            const double bound = dtype == PST_BF16 ? 0.1 : 1e-4;

            if (!(fabs((double)ours[i] - (double)theirs[t * 19 + i]) <= bound)) {
                fail_msg("%s: logit %llu of token %llu is %.9g, PyTorch's %.9g", family->name,
                         (unsigned long long)i % 19, (unsigned long long)(t + i / 19),
                         (double)ours[i], (double)theirs[t * 19 + i]);
            }
        }
    }
    real_destroy(&real);
    pst_st_close(expected);
    free(ours);
    free(theirs);
    free(x);
}

TEST(tokens_that_follow_give_the_logits_of_whole_texts)
{
    for (uint32_t i = 0; i < FAMILIES; i++) {
        const bool decodes = families[i].model[0] == 'g' || families[i].model[0] == 'l';
        struct pst_error err = {0};
        struct opened o;
        char folder[512];

        snprintf(folder, sizeof folder, PUBLISHED "%s", families[i].name);
        open_model(&o, &families[i], families[i].settings);
        if (decodes) {
            assert_ok(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), &err);
            check_decoded(&families[i], pst_weights_source(o.weights), PST_F32, 1);
            check_decoded(&families[i], pst_weights_source(o.weights), PST_F32, 3);
            check_decoded(&families[i], pst_weights_source(o.weights), PST_BF16, 2);
            real_kernels = "reference";
            check_decoded(&families[i], pst_weights_source(o.weights), PST_F32, 1);
            real_kernels = "auto";
        } else {
            assert_false(pst_graph_decode(o.graph));
        }
        close_model(&o);
    }
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
        assert_ok(pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, PST_ST_F32,
                                    UINT64_MAX, &err),
                  &err);
        was = open_file(folder, "model.safetensors");
        is = open_file(out, "model.safetensors");
        assert_int_equal(compare_files(is, was, families[i].exact ? 0 : 0x1p-23),
                         count_weights(was));
        pst_st_close(is);
        /* in shards: one for each value */
        assert_ok(pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, PST_ST_F32,
                                    1, &err),
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

/* --- other files ------------------------------------------------------------------------------ */

/* Renames, reshapes or leaves out (name NULL) a tensor of a copy. */
typedef void change_fn(struct pst_st_tensor *tensor);

/* A copy of a family's file in the test's folder, all of it read first. */
static const char *copy_file(const struct family *family, change_fn *change)
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

static void expect_refusal(const struct family *family, const char *folder, const char *kind,
                           const char *message, const char *details)
{
    struct pst_error err = {0};
    struct opened o;

    open_model(&o, family, family->settings);
    assert_int_not_equal(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), PST_OK);
    assert_null(o.weights);
    assert_string_equal(err.message, message);
    assert_string_equal(err.kind, kind);
    assert_int_equal(pst_error_exit_code(&err), 2);
    if (details != NULL) {
        assert_string_equal(err.details, details);
    }
    close_model(&o);
}

static void expect_logits(const struct family *family, const char *folder, const char *warnings)
{
    struct pst_error err = {0};
    struct opened o;

    open_model(&o, family, family->settings);
    assert_ok(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), &err);
    assert_string_equal(told, warnings);
    check_logits(family, pst_weights_source(o.weights), 2);
    close_model(&o);
}

static void without_prefix(struct pst_st_tensor *tensor)
{
    if (strncmp(tensor->name, "transformer.", 12) == 0) {
        tensor->name += 12;
    }
}

/* As the hub has "gpt2". */
TEST_WITH(names_without_the_prefix_are_found, support_begin, support_end)
{
    expect_logits(&families[0], copy_file(&families[0], without_prefix), "");
}

static char renamed[128][128];
static uint32_t n_renamed;

static void old_spelling(struct pst_st_tensor *tensor)
{
    static const char *const ends[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                          {"LayerNorm.bias", "LayerNorm.beta"}};
    char *name = renamed[n_renamed++ % 128];

    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(tensor->name, ends[i][0]);

        if (at != NULL) {
            snprintf(name, 128, "%.*s%s", (int)(at - tensor->name), tensor->name, ends[i][1]);
            tensor->name = name;
            return;
        }
    }
}

/* As the first files of BERT have it. */
TEST_WITH(old_spellings_are_found, support_begin, support_end)
{
    expect_logits(&families[1], copy_file(&families[1], old_spelling), "");
}

static void drop_some(struct pst_st_tensor *tensor)
{
    if (strcmp(tensor->name, "transformer.h.1.ln_1.bias") == 0) {
        tensor->name = NULL;
    } else if (strcmp(tensor->name, "transformer.h.0.mlp.c_fc.weight") == 0) {
        tensor->shape[0] = 32;
        tensor->shape[1] = 8;
    } else if (strcmp(tensor->name, "transformer.ln_f.weight") == 0) {
        tensor->dtype = PST_ST_I32;
    } else if (strcmp(tensor->name, "transformer.wte.weight") == 0) {
        tensor->rank = 1;
        tensor->shape[0] = 19 * 8;
    }
}

TEST_WITH(what_differs_is_named, support_begin, support_end)
{
    expect_refusal(
        &families[0], copy_file(&families[0], drop_some), "weights.mismatch",
        "not the weights of this model: of its 28 tensors 1 are missing and 3 have another shape "
        "or type",
        "wte.weight: tensor transformer.wte.weight is F32 [152], should be F32 [19, 8]\n"
        "h.0.mlp.c_fc.weight: tensor transformer.h.0.mlp.c_fc.weight is F32 [32, 8], should be "
        "F32 [8, 32]\n"
        "h.1.ln_1.bias: no tensor transformer.h.1.ln_1.bias\n"
        "ln_f.weight: tensor transformer.ln_f.weight is I32 [8], should be F32 [8]\n");
}

static void change_nothing(struct pst_st_tensor *tensor)
{
}

static void rename_all(struct pst_st_tensor *tensor)
{
    char *name = renamed[n_renamed++ % 128];

    snprintf(name, 128, "gpt_neox.%s", tensor->name);
    tensor->name = name;
}

/* Names and shapes alone say too little; names that differ are told first. */
TEST_WITH(weights_without_a_config_are_refused, support_begin, support_end)
{
    struct family half = families[0];
    const char *folder = copy_file(&half, change_nothing);

    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    expect_refusal(&half, folder, "config.value",
                   "there is no config.json that names the family of the weights, and other "
                   "families have the same names and shapes but compute something else",
                   NULL);
    half.settings = "layers=1 dim=8 heads=2 context=8 vocab=19";
    expect_refusal(&half, folder, "weights.mismatch",
                   "not the weights of this model: it does not have 12 of the tensors: "
                   "transformer.h.1.attn.c_attn.bias, transformer.h.1.attn.c_attn.weight, "
                   "transformer.h.1.attn.c_proj.bias, transformer.h.1.attn.c_proj.weight, "
                   "transformer.h.1.ln_1.bias, ...",
                   NULL);
    half.settings = families[0].settings;
    folder = copy_file(&half, rename_all);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    expect_refusal(&half, folder, "weights.mismatch",
                   "the names of its tensors are those of GPT-NeoX, which is unsupported", NULL);
}

static void hide_a_weight(struct pst_st_tensor *tensor)
{
    if (strcmp(tensor->name, "transformer.h.0.ln_1.weight") == 0) {
        tensor->name = "transformer.h.0.attn.bias"; /* a buffer that is no weight */
    }
}

TEST_WITH(what_the_model_lacks_is_told, support_begin, support_end)
{
    struct family half = families[0];
    struct pst_error err = {0};
    struct opened o;

    half.settings = "layers=1 dim=8 heads=2 context=4 vocab=19";
    open_model(&o, &half, half.settings);
    assert_ok(
        pst_weights_open(copy_file(&half, change_nothing), &o.job, o.graph, true, &o.weights, &err),
        &err);
    assert_non_null(strstr(told, "weights: /tmp/"));
    assert_non_null(strstr(told, "copy: 12 tensors that the model does not have are ignored: "
                                 "transformer.h.1.attn.c_attn.bias, "));
    assert_non_null(
        strstr(told, "copy: of the 8 rows of transformer.wpe.weight the first 4 are used\n"));
    close_model(&o);
    expect_refusal(&families[0], copy_file(&families[0], hide_a_weight), "weights.mismatch",
                   "not the weights of this model: of its 28 tensors 1 are missing and 0 have "
                   "another shape or type",
                   "h.0.ln_1.weight: no tensor transformer.h.0.ln_1.weight\n");
}

TEST_WITH(files_and_indexes_that_do_not_hold, support_begin, support_end)
{
    const char *folder = copy_file(&families[0], change_nothing);
    char path[256];

    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    expect_logits(&families[0], path, "");
    assert_int_equal(truncate(path, 3000), 0);
    {
        struct pst_error err = {0};
        struct opened o;

        open_model(&o, &families[0], families[0].settings);
        assert_int_equal(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err),
                         PST_ERR_CONFIG);
        assert_string_equal(err.kind, "input.syntax");
        close_model(&o);
    }
    assert_int_equal(rename(path, support_path("model.safetensors")), 0);
    expect_refusal(&families[0], folder, "input.path",
                   "there is neither model.safetensors nor model.safetensors.index.json in the "
                   "folder",
                   NULL);
    support_write("copy/model.safetensors.index.json", "{\"weight_map\":{\"a\":1}}");
    expect_refusal(&families[0], folder, "input.syntax",
                   "weight_map: \"a\" is not the name of a file", NULL);
    support_write("copy/model.safetensors.index.json", "{\"weight_map\":{}}");
    expect_refusal(&families[0], folder, "input.limit",
                   "weight_map names 0 files; there must be 1 to 10000", NULL);
    support_write("copy/model.safetensors.index.json", "[]");
    expect_refusal(&families[0], folder, "input.syntax", "there is no object weight_map", NULL);
    support_write("copy/model.safetensors.index.json",
                  "{\"weight_map\":{\"a\":\"../model.safetensors\"}}");
    expect_refusal(&families[0], folder, "input.syntax",
                   "\"../model.safetensors\" is not a plain file name", NULL);
    support_write("copy/model.safetensors.index.json", "{\"weight_map\":{\"a\":\"gone\"}}");
    expect_refusal(&families[0], folder, "input.path",
                   "cannot open the file: No such file or directory", NULL);
}

/* --- config.json ------------------------------------------------------------------------------ */

TEST_WITH(a_config_that_differs_is_told, support_begin, support_end)
{
    const char *folder = copy_file(&families[0], change_nothing), *file;
    char message[512];

    file = support_write("copy/config.json",
                         "{\"model_type\":\"gpt2\",\"n_head\":4,\"n_layer\":99,"
                         "\"activation_function\":\"gelu\",\"layer_norm_epsilon\":0.00001,"
                         "\"unknown\":[1],\"use_cache\":true,\"pad_token_id\":3}");
    snprintf(message, sizeof message,
             "%s is of another model: use = \"gpt\" cannot compute activation_function = \"gelu\", "
             "unknown = [1]; [model] must have heads = 4, layers = 99",
             file);
    expect_refusal(&families[0], folder, "config.value", message, NULL);
    support_write("copy/config.json", "{\"model_type\":\"gpt_neox\"}");
    snprintf(message, sizeof message, "%s: this is GPT-NeoX (gpt_neox), which is unsupported",
             file);
    expect_refusal(&families[0], folder, "config.value", message, NULL);
    support_write("copy/config.json", "{\"model_type\":\"llama\"}");
    snprintf(message, sizeof message, "%s: this is llama; set use = \"llama\"", file);
    expect_refusal(&families[0], folder, "config.value", message, NULL);
    support_write("copy/config.json", "{\"n_head\":2}");
    snprintf(message, sizeof message,
             "%s: model_type is missing, so the family of the weights is unknown", file);
    expect_refusal(&families[0], folder, "config.value", message, NULL);
    support_write("copy/config.json", "{\"n_head\":");
    {
        struct pst_error err = {0};
        struct opened o;

        open_model(&o, &families[0], families[0].settings);
        assert_int_equal(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err),
                         PST_ERR_CONFIG);
        assert_string_equal(err.kind, "input.syntax");
        close_model(&o);
    }
}

/* What a config.json of a decoder says, and the refusal that comes of it; NULL: none. Values that
   are not there are those of LlamaConfig of transformers 5. */
#define LLAMA  "\"model_type\":\"llama\",\"num_attention_heads\":4,\"num_key_value_heads\":2"
#define CANNOT "use = \"llama\" cannot compute "
#define WANT   "[model] must have "
static const struct {
    const char *settings, *config, *refusal;
} decoder_rows[] = {
    {"", "{" LLAMA "}", NULL},
    /* LlamaForCausalLM reads no window: its logits with and without that key are equal */
    {"", "{" LLAMA ",\"sliding_window\":5}", NULL},
    {"window=5", "{" LLAMA ",\"sliding_window\":5}", WANT "window = 0"},
    {"window=5", "{" LLAMA ",\"sliding_window\":5,\"use_sliding_window\":true}", WANT "window = 0"},
    {"",
     "{\"model_type\":\"mistral\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"sliding_window\":8}",
     NULL}, /* as far as the context */
    /* Qwen2Config without use_sliding_window has no window */
    {"qkv_bias=true",
     "{\"model_type\":\"qwen2\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"sliding_window\":5}",
     NULL},
    {"qkv_bias=true window=5",
     "{\"model_type\":\"qwen2\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"sliding_window\":5}",
     WANT "window = 0"},
    {"qkv_bias=true",
     "{\"model_type\":\"qwen2\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"sliding_window\":5,\"use_sliding_window\":true}",
     WANT "window = 5"},
    {"", "{" LLAMA ",\"sliding_window\":5,\"use_sliding_window\":false}", NULL},
    {"window=3", "{" LLAMA "}", WANT "window = 0"},
    {"window=3",
     "{\"model_type\":\"mistral\",\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"sliding_window\":5}",
     WANT "window = 5"},
    {"window=3",
     "{\"model_type\":\"mistral\",\"num_attention_heads\":4,"
     "\"num_key_value_heads\":2,\"sliding_window\":null}",
     WANT "window = 0"},
    {"", /* that key is Qwen's: MistralForCausalLM does not read it */
     "{\"model_type\":\"mistral\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"sliding_window\":5,\"use_sliding_window\":false}",
     WANT "window = 5"},
    {"window=5",
     "{\"model_type\":\"mistral\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"sliding_window\":5,\"use_sliding_window\":false}",
     NULL},
    {"window=3 qkv_bias=true",
     "{\"model_type\":\"qwen2\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"sliding_window\":3,\"use_sliding_window\":true,\"max_window_layers\":1}",
     CANNOT "max_window_layers = 1"},
    {"qkv_bias=true",
     "{\"model_type\":\"qwen2\",\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"layer_types\":[\"full_attention\",\"linear_attention\"]}",
     CANNOT "layer_types = [\"full_attention\",\"linear_attention\"]"},
    {"tied=true", "{" LLAMA ",\"tie_word_embeddings\":false}", WANT "tied = false"},
    {"tied=true", "{" LLAMA "}", WANT "tied = false"},
    {"", "{\"model_type\":\"qwen2\"}", WANT "qkv_bias = true"},
    {"", "{\"model_type\":\"qwen3\"}", WANT "qk_norm = true"},
    {"qkv_bias=true", "{" LLAMA "}", WANT "qkv_bias = false"},
    {"qk_norm=true", "{\"model_type\":\"qwen3_moe\"}", WANT "experts = true"},
    {"", "{\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts_per_tok\":3}",
     WANT "experts = 4, experts_per_token = 3"},
    {"", "{\"model_type\":\"gemma\"}", "this is Gemma (gemma), which is unsupported"},
    {"", "{\"model_type\":\"never_heard_of\"}", "this is never_heard_of, which is unsupported"},
    {"", "{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
     WANT "rope_scaling = \"linear\", rope_factor = 2"},
    {"", "{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"llama3\"}}",
     WANT "rope_scaling = \"llama3\""},
    {"rope_scaling=linear", "{" LLAMA "}", WANT "rope_scaling = \"none\""},
    {"", "{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\"}}",
     CANNOT "rope_scaling.rope_type = \"yarn\""},
    {"", "{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"mscale\":2}}",
     CANNOT "rope_parameters.mscale = 2"},
    {"", "{" LLAMA ",\"partial_rotary_factor\":0.5}", CANNOT "partial_rotary_factor = 0.5"},
    {"", "{" LLAMA ",\"rope_theta\":500000.0}", WANT "rope_theta = 500000"},
    {"", "{" LLAMA ",\"attention_bias\":true,\"mlp_bias\":true}",
     CANNOT "attention_bias = true, mlp_bias = true"},
    {"", "{" LLAMA ",\"hidden_act\":\"gelu\"}", CANNOT "hidden_act = \"gelu\""},
    {"", "{" LLAMA ",\"rms_norm_eps\":0.001,\"head_dim\":6}", WANT "head_dim = 6, eps = 0.001"},
    {"", "{" LLAMA ",\"no_rope_layers\":[1,0],\"logits_scaling\":8.0}",
     CANNOT "no_rope_layers = [1,0], logits_scaling = 8.0"},
    {"", "{" LLAMA ",\"auto_map\":{\"a\":\"b\"}}", CANNOT "auto_map = {\"a\":\"b\"}"},
    {"", "{" LLAMA ",\"torch_dtype\":\"float16\",\"_name_or_path\":\"x\",\"use_cache\":true}",
     NULL},
    {"", "[]", "not a JSON object"},
};

TEST_WITH(a_decoder_of_other_settings_is_refused, support_begin, support_end)
{
    for (size_t i = 0; i < sizeof decoder_rows / sizeof *decoder_rows; i++) {
        struct family family = {"llama", "llama", NULL, true};
        const struct pst_published *read = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        struct opened o;
        char settings[256];
        bool there;
        pst_status st;

        snprintf(settings, sizeof settings,
                 "layers=2 dim=8 heads=4 kv_heads=2 ff=12 context=8 vocab=19 eps=1e-6%s%s",
                 decoder_rows[i].settings[0] == '\0' ? "" : " ", decoder_rows[i].settings);
        open_model(&o, &family, settings);
        support_write("config.json", decoder_rows[i].config);
        assert_ok(pst_published_read("", o.graph->name, &arena, &read, &err), &err);
        st = pst_weights_check_config(support_path("."), &o.job, read, &there, &err);
        assert_true(there);
        if (decoder_rows[i].refusal == NULL) {
            assert_ok(st, &err);
        } else {
            assert_int_equal(st, PST_ERR_CONFIG);
            if (strstr(err.message, decoder_rows[i].refusal) == NULL) {
                fail_msg("%s: %s", decoder_rows[i].config, err.message);
            }
        }
        pst_arena_finish(&arena);
        close_model(&o);
    }
}

/* Mixtral's weights always have the sum 1. */
TEST_WITH(what_no_published_model_has_is_not_written, support_begin, support_end)
{
    const struct family family = {"mixtral", "llama",
                                  "layers=2 dim=8 heads=4 kv_heads=2 ff=12 context=8 vocab=19 "
                                  "experts=4 normalize=false",
                                  true};
    const char *out = support_path("none");
    struct pst_error err = {0};
    struct opened o;

    open_model(&o, &family, family.settings);
    assert_ok(pst_weights_open(PUBLISHED "mixtral", &o.job, o.graph, true, &o.weights, &err), &err);
    assert_int_not_equal(pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out,
                                           PST_ST_F32, UINT64_MAX, &err),
                         PST_OK);
    assert_string_equal(err.kind, "output.form");
    assert_int_not_equal(access(out, F_OK), 0);
    close_model(&o);
}

/* Keys that are meant for results say what the recorded files say; scripts/record_published.py
   --check has transformers load the rest. */
TEST_WITH(a_config_is_written, support_begin, support_end)
{
    for (uint32_t i = 0; i < 4; i++) {
        const char *out = support_path(families[i].name);
        struct pst_error err = {0};
        struct opened o, again;
        char folder[512];
        char *text;

        snprintf(folder, sizeof folder, PUBLISHED "%s", families[i].name);
        open_model(&o, &families[i], families[i].settings);
        assert_ok(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), &err);
        assert_ok(pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, PST_ST_F32,
                                    UINT64_MAX, &err),
                  &err);
        snprintf(folder, sizeof folder, "%s/config.json", out);
        text = support_read(folder);
        assert_non_null(text);
        assert_non_null(strstr(text, i == 0   ? "{\"model_type\":\"gpt2\",\"architectures\":"
                                                "[\"GPT2LMHeadModel\"],\"n_layer\":2,"
                                                "\"n_embd\":8,\"n_head\":2,\"n_positions\":8,"
                                                "\"vocab_size\":19,\"tie_word_embeddings\":true,"
                                                "\"embd_pdrop\":0.0,"
                                     : i == 1 ? "\"intermediate_size\":32,"
                                     : i == 2 ? "\"hidden_act\":\"gelu\","
                                              : "\"d_kv\":6,\"d_ff\":12,"));
        free(text);
        open_model(&again, &families[i], families[i].settings);
        assert_ok(pst_weights_open(out, &again.job, again.graph, true, &again.weights, &err), &err);
        assert_string_equal(told, "");
        close_model(&again);
        close_model(&o);
    }
}

/* --- files of families ------------------------------------------------------------------------ */

#define ALL    "tensors = [{ own = '*', theirs = '*' }]\n"
#define KEYS   "model = 'llama'\n" ALL "keys = ["
#define TENSOR "model = 'llama'\ntensors = ["

/* Line 3 has what is wrong, where a line has. */
static const struct {
    const char *text, *refusal;
    uint32_t line;
} family_rows[] = {
    {"model = 'llama'\n" ALL, NULL, 0},
    {KEYS
     "{ theirs = 'a', own = 'heads', times = 4, over = 'dim', when = 'rope_scaling=none&!tied' }]",
     NULL, 0},
    {ALL, "the file is for model \"\", not for \"llama\"", 0},
    {"model = 'gpt'\n" ALL, "the file is for model \"gpt\", not for \"llama\"", 0},
    {"model = 'llama'\nprefix = 'a'\nprefix = 'b'\n", "cannot redefine", 3},
    {"model = 'llama'\n\ntensor = []\n", "unknown key \"tensor\" in the file; did you mean", 3},
    {"model = 'llama'\n\ntensors = 3\n", "tensors must be a list", 3},
    {TENSOR "\n'a']", "tensors must be a table", 3},
    {TENSOR "\n{ own = '*' }]", "tensors needs the key \"theirs\"", 3},
    {TENSOR "\n{ own = '', theirs = '*' }]", "\"own\" in tensors must not be empty", 3},
    {TENSOR "\n{ own = '*', theirs = '*', layout = 'torsh' }]", "did you mean \"torch\"?", 3},
    {TENSOR "\n{ own = '*', theirs = '*', bare = 1 }]", "must be true or false", 3},
    {TENSOR "\n{ own = '*', theirs = '*', root = 'hedas' }]",
     "\"root\" in tensors must be a key of the model, not \"hedas\"", 3},
    {TENSOR "\n{ own = '*', theirs = ['a', 'b'], parts = 'heads' }]", "a key for each of", 3},
    {TENSOR "\n{ own = 'a.#.b.#', theirs = 'a.#.#' }]", "not have more than one '#'", 3},
    {TENSOR "\n{ own = 'a.*.b', theirs = 'a.*' }]", "'*' only as its last character", 3},
    {TENSOR "\n{ own = 'a.#.*', theirs = ['b.#.*', 'c.*'] }]", "as many '#' and '*' as", 3},
    {TENSOR "\n{ own = 'a.#', theirs = 'b.#.#' }]", "as many '#' and '*' as", 3},
    {TENSOR "\n{ own = 'a.*', theirs = 'b' }]", "as many '#' and '*' as", 3},
    {TENSOR "\n{ own = 'a', theirs = ['b@', 'c'] }]", "must have one '@', or none", 3},
    {TENSOR "{ own = '*', theirs = '*' },\n{ own = '*', theirs = 'a*', when = 'tied' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = '*', theirs = '*' },\n{ own = 'norm.weight', theirs = 'n' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = 'a.#.*', theirs = 'b.#.*', when = 'tied' },\n"
            "{ own = 'a.#.c.*', theirs = 'c.#.*', when = 'qk_norm&tied' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = 'a.#', theirs = 'b.#' },\n{ own = 'a.12', theirs = 'c' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = 'a.12', theirs = 'c' },\n{ own = 'a.#', theirs = 'b.#' },\n"
            "{ own = 'a.#.*', theirs = 'b.#.*', when = 'tied' },\n{ own = 'a.*', theirs = 'b.*' }]",
     NULL, 0},
    {KEYS "{ theirs = 'a' }]", "either \"own\" or \"fixed\"", 3},
    {KEYS "{ theirs = 'a', own = 'dim', fixed = '1' }]", "either \"own\" or \"fixed\"", 3},
    {KEYS "{ theirs = 'a', fixed = ['1', 'nul'] }]", "must be JSON, not \"nul\"", 3},
    {KEYS "{ theirs = 'a', own = 'dim', absent = 'x' }]", "must be JSON, or '@' and a key", 3},
    {KEYS "{ theirs = 'a', own = 'dim', when = 'tied&experst' }]", "not \"tied&experst\"", 3},
    {KEYS "{ theirs = 'a', own = 'dim', when = 'rope_scaling=lama3' }]", "joined by '&'", 3},
    {KEYS "{ theirs = 'a', own = 'dim', when = 'tied=yes' }]", "joined by '&'", 3},
    {KEYS "{ theirs = 'a', own = 'dim', times = 0 }]", "must be between 1 and 1000000", 3},
    {KEYS "{ theirs = 'a', own = ['heads', 'kv_heads'], use = 'must' }]",
     "\"own\" in keys must be one text, not a list", 3},
    {KEYS "{ theirs = 'a', own = 'heads,kv_heads' }]", "not \"heads,kv_heads\"", 3},
    {KEYS "{ theirs = 'a', own = 'heads', when = ['experts', 'qk_norm'] }]",
     "\"when\" in keys must be one text, not a list", 3},
    {KEYS "{ theirs = 'a', own = 'heads', when = 'experts,qk_norm' }]", "joined by '&'", 3},
    {KEYS "{ theirs = ['a', 'b'], own = 'heads' }]", "must be one text", 3},
    {KEYS "{ theirs = 'a', own = 'heads', absent = ['1', '2'] }]", "must be one text", 3},
    {KEYS "{ theirs = 'a', own = 'heads', over = ['dim', 'ff'] }]", "must be one text", 3},
    {TENSOR "\n{ own = ['a', 'b'], theirs = 'c' }]", "must be one text", 3},
    {TENSOR "\n{ own = 'a', theirs = ['b', ''] }]", "must be texts that are not empty", 3},
    {TENSOR "\n{ own = 'a', theirs = \"b\\nc\" }]", "must not have a line break", 3},
    {"model = 'llama'\n\nprefix = ['a', 'b']\n", "\"prefix\" in the file must be one text", 3},
    {KEYS "{ theirs = 'a', fixed = '[\"a\",\"b\"]' }, { theirs = 'b', fixed = ['1', '[2]'] }]",
     NULL, 0},
    {"model = 'llama'\n\nignored = ['a', 'b', 'a']", "this is never used: line 3", 3},
    {"model = 'llama'\n\nharmless = ['a', 3]", "harmless must be a list of texts", 3},
};

TEST_WITH(a_file_of_a_family_is_checked, support_begin, support_end)
{
    for (size_t i = 0; i < sizeof family_rows / sizeof *family_rows; i++) {
        const struct pst_published *family = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        pst_status st;

        support_write("own.toml", family_rows[i].text);
        st = pst_published_read(support_path("own.toml"), "llama", &arena, &family, &err);
        if (family_rows[i].refusal == NULL) {
            assert_ok(st, &err);
        } else {
            assert_int_equal(st, PST_ERR_CONFIG);
            if (strstr(err.message, family_rows[i].refusal) == NULL &&
                strstr(err.hint, family_rows[i].refusal) == NULL) {
                fail_msg("%s: %s", family_rows[i].text, err.message);
            }
            assert_string_equal(err.file, support_path("own.toml"));
            assert_int_equal(err.line, family_rows[i].line);
        }
        pst_arena_finish(&arena);
    }
}

/* The families that come with penstock, and that every one has the common rows once. */
TEST(each_family_has_a_file)
{
    static const char *const models[] = {"gpt", "bert", "t5", "resnet", "llama", "mlp", "onnx"};

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const struct pst_published *family = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        uint32_t n = 0;

        assert_ok(pst_published_read("", models[i], &arena, &family, &err), &err);
        assert_int_equal(family->model != NULL, i < 5);
        assert_int_equal(family->keys != NULL, i < 5 && i != 3);
        for (uint32_t k = 0; family->keys != NULL && family->keys[k].theirs != NULL; k++) {
            n += strcmp(family->keys[k].theirs, "is_decoder") == 0;
        }
        assert_int_equal(n, family->keys != NULL);
        assert_string_equal(family->families[4], "llama");
        assert_string_equal(family->others[0].name, "GPT-NeoX");
        pst_arena_finish(&arena);
    }
}

/* A row that does not divide its parameter is refused before anything is read or written. */
TEST_WITH(a_row_that_does_not_divide_is_refused, support_begin, support_end)
{
    static const char *const rows[] = {
        "theirs = ['a', 'b', 'c']",                               /* 8 columns among three */
        "theirs = ['a', 'b'], parts = ['rope_factor', 'window']", /* of widths 1 and 0: first */
        "theirs = '@'",                                           /* of a vector */
        "theirs = 'a', root = 'window'",                          /* times 0 */
    };
    const struct family family = {"gpt", "llama", "layers=2 dim=8 heads=2 ff=12 context=8 vocab=19",
                                  true};

    copy_file(&families[0], change_nothing);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pst_error err = {0};
        struct opened o;
        char text[256], sets[512];

        snprintf(text, sizeof text, "model = 'llama'\ntensors = [{ own = 'norm.weight', %s }]\n",
                 rows[i]);
        support_write("own.toml", text);
        open_model(&o, &family, family.settings);
        snprintf(sets, sizeof sets, "%s", support_path("own.toml"));
        o.job.training->loop.init_family = sets;
        assert_int_equal(
            pst_weights_open(support_path("copy"), &o.job, o.graph, true, &o.weights, &err),
            PST_ERR_CONFIG);
        assert_string_equal(err.kind, "weights.mismatch");
        if (i == 1) {
            assert_null(strstr(err.message, "cannot divide"));
        } else {
            assert_non_null(strstr(err.message, "cannot divide norm.weight"));
        }
        close_model(&o);
    }
}

/* A copy of GPT-2's file, opened with a user's own file of the family. */
static pst_status open_with(struct opened *o, const struct family *family, const char *file,
                            struct pst_error *err)
{
    support_write("own.toml", file);
    open_model(o, family, family->settings);
    o->job.training->loop.init_family = support_path("own.toml");
    return pst_weights_open(support_path("copy"), &o->job, o->graph, true, &o->weights, err);
}

/* Two parameters never have one tensor, neither of what is read nor of what is written. */
TEST_WITH(a_tensor_is_of_one_parameter, support_begin, support_end)
{
    static const char gpt[] =
        "model = 'gpt'\nprefix = 'transformer.'\n"
        "tensors = [{ own = 'h.#.ln_2.weight', theirs = 'h.#.ln_1.weight' },\n"
        "{ own = '*', theirs = '*' }]\n";
    const char *const out = support_path("none");
    struct pst_error err = {0};
    struct opened o;

    copy_file(&families[0], change_nothing);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    assert_int_equal(open_with(&o, &families[0], gpt, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "weights.mismatch");
    assert_string_equal(err.message,
                        "h.0.ln_2.weight: tensor \"transformer.h.0.ln_1.weight\" is read by "
                        "h.0.ln_1.weight already; each parameter must have tensors that no other "
                        "has");
    close_model(&o);

    open_model(&o, &families[0], families[0].settings);
    assert_ok(pst_weights_open(PUBLISHED "gpt", &o.job, o.graph, true, &o.weights, &err), &err);
    o.job.training->loop.init_family = support_path("own.toml");
    assert_int_equal(
        pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, PST_ST_F32, 1, &err),
        PST_ERR_CONFIG);
    assert_string_equal(err.message,
                        "h.0.ln_2.weight: tensor \"transformer.h.0.ln_1.weight\" is written for "
                        "h.0.ln_1.weight already; each parameter must have tensors that no other "
                        "has");
    assert_int_not_equal(access(out, F_OK), 0);
    close_model(&o);
}

/* A row of a user's own file that fits nothing is a name that is wrong. */
TEST_WITH(a_row_that_fits_no_parameter_is_refused, support_begin, support_end)
{
    static const char gpt[] = "model = 'gpt'\nprefix = 'transformer.'\n"
                              "tensors = [{ own = 'h.#.ln_3.*', theirs = 'h.#.ln_3.*'%s },\n"
                              "{ own = '*', theirs = '*' }]\n";
    const char *const out = support_path("none");
    struct pst_error err = {0};
    struct opened o;
    char text[512];

    copy_file(&families[0], change_nothing);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    snprintf(text, sizeof text, gpt, ", when = '!tied'");
    assert_ok(open_with(&o, &families[0], text, &err), &err);
    close_model(&o);
    snprintf(text, sizeof text, gpt, "");
    assert_int_equal(open_with(&o, &families[0], text, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_string_equal(err.message,
                        "tensors: the row of own = \"h.#.ln_3.*\" fits no parameter of this model");
    assert_string_equal(err.file, support_path("own.toml"));
    close_model(&o);

    open_model(&o, &families[0], families[0].settings);
    assert_ok(pst_weights_open(PUBLISHED "gpt", &o.job, o.graph, true, &o.weights, &err), &err);
    o.job.training->loop.init_family = support_path("own.toml");
    assert_int_equal(
        pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, PST_ST_F32, 1, &err),
        PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "fits no parameter of this model"));
    assert_int_not_equal(access(out, F_OK), 0);
    close_model(&o);
}

/* A copy of a shipped family is a file of one's own to begin with. */
TEST(a_shipped_family_can_be_a_file_of_ones_own)
{
    for (uint32_t i = 0; i < FAMILIES; i++) {
        struct pst_error err = {0};
        struct opened o;
        char folder[512], path[512];

        snprintf(folder, sizeof folder, PUBLISHED "%s", families[i].name);
        snprintf(path, sizeof path, PENSTOCK_SOURCE_DIR "/models/families/%s.toml",
                 families[i].model);
        open_model(&o, &families[i], families[i].settings);
        o.job.training->loop.init_family = path;
        assert_ok(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), &err);
        close_model(&o);
    }
}

/* What config.json has of a model with these rows, or why it has nothing. */
static const struct {
    const char *settings, *rows, *text, *refusal;
} quotient_rows[] = {
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'dim', times = 3, over = 'ff' }", "{\"a\":2}\n",
     NULL},
    /* 1 / 49 * 98 is less than 2 */
    {"dim=98 heads=49 ff=12", "{ theirs = 'a', own = 'dim', over = 'heads' }", "{\"a\":2}\n", NULL},
    {"dim=8 heads=2 ff=12",
     "{ theirs = 'a', own = 'dim', over = 'window', when = 'window' },"
     "{ theirs = 'b', fixed = '[\"x\",\"y\"]' }, { theirs = 'c', fixed = ['1', '2'] }",
     "{\"b\":[\"x\",\"y\"],\"c\":1}\n", NULL},
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'dim', over = 'window' }", NULL,
     "keys: the row of theirs = \"a\" divides by window, which is 0"},
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'eps', over = 'window' }", NULL,
     "keys: the row of theirs = \"a\" divides by window, which is 0"},
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'dim', over = 'ff' }", NULL,
     "keys: the row of theirs = \"a\" makes 8 * 1 / 12 of dim, which is not a whole number below "
     "2^53"},
    {"dim=8 heads=2 ff=12",
     "{ theirs = 'a.b', own = 'dim' }, { theirs = 'c', own = 'ff' }, { theirs = 'a.d', own = 'ff' "
     "}",
     NULL, "keys: the config.json of these rows is wrong: duplicate object key"},
};

TEST_WITH(a_config_has_only_numbers, support_begin, support_end)
{
    for (size_t i = 0; i < sizeof quotient_rows / sizeof *quotient_rows; i++) {
        struct family family = {"llama", "llama", NULL, true};
        const struct pst_published *read = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        struct opened o;
        char settings[256], text[512], *config = NULL;
        pst_status st;

        snprintf(settings, sizeof settings, "layers=2 context=8 vocab=19 %s",
                 quotient_rows[i].settings);
        snprintf(text, sizeof text, "model = 'llama'\nkeys = [%s]\n", quotient_rows[i].rows);
        support_write("own.toml", text);
        open_model(&o, &family, settings);
        assert_ok(pst_published_read(support_path("own.toml"), "llama", &arena, &read, &err), &err);
        st = pst_weights_config(&o.job, read, &config, &err);
        if (quotient_rows[i].text != NULL) {
            assert_ok(st, &err);
            assert_string_equal(config, quotient_rows[i].text);
        } else {
            assert_int_equal(st, PST_ERR_CONFIG);
            assert_string_equal(err.kind, "config.value");
            if (strstr(err.message, quotient_rows[i].refusal) != err.message) {
                fail_msg("%s: %s", quotient_rows[i].rows, err.message);
            }
        }
        free(config);
        pst_arena_finish(&arena);
        close_model(&o);
    }
}

/* A config.json is never left unread because a user's own file has no keys. */
TEST_WITH(a_file_without_keys_reads_no_config, support_begin, support_end)
{
    static const char gpt[] = "model = 'gpt'\nprefix = 'transformer.'\n"
                              "tensors = [{ own = '*', theirs = '*' }]\n";
    struct pst_error err = {0};
    struct opened o;

    copy_file(&families[0], change_nothing);
    assert_int_equal(open_with(&o, &families[0], gpt, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_non_null(strstr(err.message, "there are no \"keys\" to compare "));
    assert_non_null(strstr(err.message, "copy/config.json with"));
    assert_non_null(strstr(err.hint, "add rows of \"keys\""));
    close_model(&o);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    assert_ok(open_with(&o, &families[0], gpt, &err), &err);
    close_model(&o);
}
