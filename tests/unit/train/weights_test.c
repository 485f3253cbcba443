/* SPDX-License-Identifier: Apache-2.0
 *
 * Published weights of every family: the logits of tests/data/published, which
 * scripts/record_published.py has from PyTorch; what is written again; files that do not fit.
 */
#include "unit/train/weights_rig.h"

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
#define LLAMA    "\"model_type\":\"llama\",\"num_attention_heads\":4,\"num_key_value_heads\":2"
#define OF(type) "\"model_type\":\"" type "\",\"num_attention_heads\":4,\"num_key_value_heads\":2"
#define CANNOT   "use = \"llama\" cannot compute "
#define WANT     "[model] must have "
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
    /* MistralConfig().sliding_window is 4096, and so are Qwen2Config's and Qwen3Config's */
    {"window=3", "{" OF("mistral") "}", WANT "window = 4096"},
    {"window=4096", "{" OF("mistral") "}", NULL},
    {"context=8192", "{" OF("mistral") "}", WANT "window = 4096"},
    {"context=8192", "{" OF("mistral") ",\"sliding_window\":null}", NULL},
    {"context=8192", "{" LLAMA "}", NULL},
    {"context=8192 qkv_bias=true", "{" OF("qwen2") ",\"use_sliding_window\":true}",
     WANT "window = 4096"},
    {"context=8192 qkv_bias=true", "{" OF("qwen2") "}", NULL},
    /* Qwen2Config().max_window_layers is 28: the first 28 layers have no window */
    {"window=4096 qkv_bias=true", "{" OF("qwen2") ",\"use_sliding_window\":true}",
     CANNOT "max_window_layers = 28"},
    {"window=4096 qkv_bias=true",
     "{" OF("qwen2") ",\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\","
                     "\"sliding_attention\"]}",
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
    /* defaults of MistralConfig, MixtralConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig; null is
       as many as there are heads */
    {"", "{\"model_type\":\"mistral\",\"num_attention_heads\":4}", WANT "kv_heads = 8"},
    {"kv_heads=0", "{\"model_type\":\"mistral\",\"num_attention_heads\":4}", WANT "kv_heads = 8"},
    {"kv_heads=0",
     "{\"model_type\":\"mistral\",\"num_attention_heads\":4,\"num_key_value_heads\":null}", NULL},
    {"kv_heads=0", "{\"model_type\":\"llama\",\"num_attention_heads\":4}", NULL},
    {"experts=4", "{\"model_type\":\"mixtral\",\"num_attention_heads\":4,\"num_local_experts\":4}",
     WANT "kv_heads = 8"},
    {"qkv_bias=true", "{\"model_type\":\"qwen2\",\"num_attention_heads\":4}", WANT "kv_heads = 32"},
    {"qk_norm=true", "{\"model_type\":\"qwen3\",\"num_attention_heads\":4}", WANT "kv_heads = 32"},
    {"qk_norm=true experts=4",
     "{\"model_type\":\"qwen3_moe\",\"num_attention_heads\":4,\"num_experts\":4,"
     "\"num_experts_per_tok\":2}",
     WANT "normalize = false, kv_heads = 4"},
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
    {"", "{" LLAMA ",\"pad_token_id\":3}", WANT "pad_token = 3"},
    {"pad_token=3", "{" LLAMA ",\"pad_token_id\":3}", NULL},
    {"pad_token=3", "{" LLAMA ",\"pad_token_id\":null}", WANT "pad_token = -1"},
    {"pad_token=3", "{" LLAMA "}", WANT "pad_token = -1"},
    /* padding_idx of nn.Embedding counts from the end */
    {"", "{" LLAMA ",\"pad_token_id\":-1}", WANT "pad_token = 18"},
    {"pad_token=17", "{" LLAMA ",\"pad_token_id\":-2}", NULL},
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
