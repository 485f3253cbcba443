/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of data that are built in, one row each, and what their configs are checked for before
 * a file is opened.
 */
#include "data/data_impl.h"

#include <string.h>

#include "data/data_plugin.h"

#define FILES                                                                                      \
    .prepare = pst_files_prepare, .open = pst_files_open, .read = pst_files_read,                  \
    .close = pst_files_close
#define PLUGIN                                                                                     \
    .open = pst_plugin_data_open, .read = pst_plugin_data_read, .close = pst_plugin_data_close
#define TOKENS  FILES, .tokens = true, .open_store = pst_data_open_tokens
#define RECORDS FILES, .open_store = pst_data_open_arrays

static const struct pst_data_kind kinds[] = {
    {"text", FILES, .tokens = true, .open_store = pst_data_open_text, .reads = " tokenizer field "},
    /* It ignores the keys of other kinds: any config may be tried with it. */
    {"synthetic", PLUGIN},
    {"tokens", TOKENS, .open_tokens = pst_raw_open, .reads = " dtype tokenizer "},
    {"llmc", TOKENS, .open_tokens = pst_llmc_open, .reads = " tokenizer "},
    {"megatron", TOKENS, .open_tokens = pst_megatron_open, .find = pst_megatron_find,
     .reads = " tokenizer "},
    {"npy", RECORDS, .open_column = pst_npy_open, .mean = "", .std = "", .scale = 1,
     .reads = " mean std train_labels valid_labels "},
    {"cifar10", RECORDS, .open_column = pst_cifar_open, .n_labels = 1, .scale = 255,
     .mean = "0.4914,0.4822,0.4465", .std = "0.2470,0.2435,0.2616", .reads = " mean std "},
    {"cifar100", RECORDS, .open_column = pst_cifar_open, .n_labels = 2, .scale = 255,
     .mean = "0.5071,0.4865,0.4409", .std = "0.2673,0.2564,0.2762", .reads = " mean std "},
    {"mnist", RECORDS, .open_column = pst_idx_open, .labels_beside = pst_idx_labels_beside,
     .scale = 255, .mean = "0.1307", .std = "0.3081",
     .reads = " mean std train_labels valid_labels "},
    {NULL, PLUGIN},
};

const struct pst_data_kind *pst_data_kind_of(const char *id)
{
    const struct pst_data_kind *kind = kinds;

    while (kind->id != NULL && strcmp(kind->id, id) != 0) {
        kind++;
    }
    return kind;
}

bool pst_data_is_built_in(const char *id)
{
    return pst_data_kind_of(id)->open == pst_files_open;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Tokens are for models that predict the next one, records for those of one input. */
static pst_status check_model(const struct pst_job *job, const struct pst_data *data,
                              struct pst_error *err)
{
    static const char *const losses[] = {NULL, NULL, "mse", "bce"}; /* of numbers */
    const struct pst_sample_shape *shape = &data->shape;
    const char *kind = data->kind->id;
    bool tokens = data->kind->tokens;
    uint32_t n_x = 0;

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        n_x += shape->inputs[i].field == PST_FIELD_X;
    }
    if (tokens && losses[job->train.loss] != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "train.loss = \"%s\" is for targets that are numbers, but those of "
                        "data.kind = \"%s\" are tokens; use train.loss = \"cross-entropy\"",
                        losses[job->train.loss], kind);
    }
    if (tokens && (shape->x->dtype != PST_I32 || shape->target->dtype != PST_I32 || n_x != 1 ||
                   shape->shifted != NULL || shape->rows != shape->x->elems || shape->rows == 0)) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "data.kind = \"%s\" needs a model that predicts the next token, such as "
                        "gpt; use data.kind = \"synthetic\" for this one",
                        kind);
    }
    if (!tokens && n_x != 1) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "data.kind = \"%s\" needs a model with one input, but this one has %u; use "
                        "data.kind = \"synthetic\" for it",
                        kind, n_x);
    }
    return PST_OK;
}

static pst_status open_tokenizer(const struct pst_job *job, struct pst_data *data,
                                 struct pst_error *err)
{
    unsigned long long vocab = pst_data_vocab(data);
    pst_status status = PST_OK;

    if (is_given(job->training->data.tokenizer)) {
        status = pst_tokenizer_read(job->training->data.tokenizer, &data->tokenizer, err);
        if (status == PST_OK && pst_tokenizer_vocab(data->tokenizer) > vocab) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "model.vocab: the tokenizer has %u tokens, but the model has %llu",
                            pst_tokenizer_vocab(data->tokenizer), vocab);
        }
    } else if (pst_data_is_text(data) && vocab < 256) {
        return pst_fail(
            err, PST_ERR_CONFIG, "config.value",
            "model.vocab: text is read as bytes, which have 256 values, but the model has %llu",
            vocab);
    }
    return pst_config_place(job->config, "data", "tokenizer", status, err);
}

/* In [data], rather than its default. */
static bool is_written(const struct pst_job *job, const char *key)
{
    struct pst_config_node *table =
        job->config == NULL ? NULL : pst_config_get(job->config->root, "data");

    return table != NULL && pst_config_get(table, key) != NULL;
}

/* Whole numbers are not shifted and scaled: the last two of these words do not count for them. */
static bool reads_key(const struct pst_data *data, const char *key)
{
    const char *at = strstr(data->kind->reads, key);
    const size_t n = strlen(key);

    while (at != NULL && (at[-1] != ' ' || at[n] != ' ')) {
        at = strstr(at + n, key);
    }
    return at != NULL && (data->shape.x->dtype != PST_I32 ||
                          (strcmp(key, "mean") != 0 && strcmp(key, "std") != 0));
}

/* A key that this kind of data does not read is a mistake. */
static pst_status check_keys(const struct pst_job *job, const struct pst_data *data,
                             struct pst_error *err)
{
    const struct pst_job_data *given = &job->training->data;
    const struct {
        const char *key, *value;
    } keys[] = {
        {"dtype", is_written(job, "dtype") ? "a word" : ""},
        {"tokenizer", given->tokenizer},
        {"field", is_written(job, "field") ? given->field : ""},
        {"mean", given->mean},
        {"std", given->std},
        {"train_labels", given->train_labels},
        {"valid_labels", given->valid_labels},
        {"path", given->path},
    };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (is_given(keys[i].value) && !reads_key(data, keys[i].key)) {
            return pst_config_place(
                job->config, "data", keys[i].key,
                pst_fail(err, PST_ERR_CONFIG, "config.value",
                         "data.%s is not read with data.kind = \"%s\"%s; leave it out", keys[i].key,
                         data->kind->id,
                         !data->kind->tokens && data->shape.x->dtype == PST_I32
                             ? " for whole numbers"
                             : ""),
                err);
        }
    }
    if (is_given(given->valid_labels) && !is_given(given->valid)) {
        return pst_config_place(job->config, "data", "valid_labels",
                                pst_fail(err, PST_ERR_CONFIG, "config.value",
                                         "data.valid_labels is not read without data.valid; set "
                                         "data.valid, or leave it out"),
                                err);
    }
    return PST_OK;
}

pst_status pst_files_prepare(const struct pst_job *job, struct pst_data *data,
                             struct pst_error *err)
{
    pst_status status;

    data->field = is_written(job, "field") ? job->training->data.field : NULL;
    status = check_keys(job, data, err);
    PST_TRY(status, check_model(job, data, err));
    if (status == PST_OK && data->kind->tokens) {
        status = open_tokenizer(job, data, err);
    }
    pst_config_place(job->config, "data", "kind", status, err);
    return pst_config_place(job->config, "model", "use", status, err);
}
