/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that need a whole model: builders by name with "key=value" settings on top of the
 * defaults in their rows, and look-ups by name.
 */
#ifndef TESTS_MODEL_SUPPORT_H
#define TESTS_MODEL_SUPPORT_H

#include "test.h"

#include "models/builder.h"

OWNER(graph)

/* Position of word in "a|b|c". */
static inline uint32_t word_index(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (uint32_t i = 0; words != NULL; i++) {
        if (strncmp(words, word, length) == 0 && (words[length] == '|' || words[length] == '\0')) {
            return i;
        }
        words = strchr(words, '|');
        words = words == NULL ? NULL : words + 1;
    }
    fail_msg("no word %s", word);
    return 0;
}

static inline void set_param(const struct pst_param *row, void *config, const char *text)
{
    char *field = (char *)config + row->offset;

    switch (row->type) {
    case PST_PARAM_BOOL:
        *(bool *)field = strcmp(text, "true") == 0;
        break;
    case PST_PARAM_INT:
        *(int64_t *)field = strtoll(text, NULL, 10);
        break;
    case PST_PARAM_FLOAT:
        *(double *)field = strtod(text, NULL);
        break;
    case PST_PARAM_ENUM:
        *(uint32_t *)field = word_index(row->range, text);
        break;
    default:
        fail_msg("row %s has a type that models do not use", row->key);
    }
}

/* settings: "key=value" separated by spaces. Returns the status of the build. */
static inline pst_status try_model(const char *id, const char *settings, uint32_t dtype,
                                   struct pst_graph **ret_graph, struct pst_error *err)
{
    const struct pst_model_builder *builder = pst_model_builder_find(id);
    char *copy = strdup(settings), *rest = copy, *word;
    pst_status status;
    void *config;

    assert_non_null(builder);
    config = calloc(1, builder->config_size);
    assert_non_null(config);
    for (uint32_t i = 0; i < builder->n_params; i++) {
        set_param(&builder->params[i], config, builder->params[i].initial);
    }
    while ((word = strsep(&rest, " ")) != NULL) {
        char *value = strchr(word, '=');
        bool found = false;

        if (value == NULL) {
            continue;
        }
        *value++ = '\0';
        for (uint32_t i = 0; i < builder->n_params; i++) {
            if (strcmp(builder->params[i].key, word) == 0) {
                set_param(&builder->params[i], config, value);
                found = true;
            }
        }
        if (!found) {
            fail_msg("model %s has no parameter %s", id, word);
        }
    }
    status = pst_model_build(builder, config, dtype, ret_graph, err);
    free(config);
    free(copy);
    return status;
}

static inline struct pst_graph *make_model(const char *id, const char *settings, uint32_t dtype)
{
    struct pst_graph *graph = NULL;
    struct pst_error err;

    if (try_model(id, settings, dtype, &graph, &err) != PST_OK) {
        fail_msg("model %s %s: %s", id, settings, err.message);
    }
    return graph;
}

static inline uint32_t find_op(const struct pst_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        if (strcmp(graph->ops[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no operator %s", name);
    return PST_NONE;
}

static inline const struct pst_parameter *find_param(const struct pst_graph *graph,
                                                     const char *name)
{
    for (uint32_t i = 0; i < graph->n_params; i++) {
        if (strcmp(graph->params[i].name, name) == 0) {
            return &graph->params[i];
        }
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

static inline uint64_t count_parameters(const struct pst_graph *graph)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < graph->n_params; i++) {
        n += graph->params[i].elems;
    }
    return n;
}

/* Result tensor of an operator by name. */
static inline const struct pst_tensor *find_output(const struct pst_graph *graph, const char *name,
                                                   uint32_t k)
{
    const struct pst_op *op = &graph->ops[find_op(graph, name)];

    assert_true(k < op->n_out);
    return &graph->tensors[op->out[k]];
}

static inline void check_dims(const struct pst_tensor *tensor, uint32_t rank, uint64_t a,
                              uint64_t b, uint64_t c)
{
    uint64_t dims[3] = {a, b, c};

    assert_int_equal(tensor->rank, rank);
    for (uint32_t i = 0; i < rank; i++) {
        assert_int_equal(tensor->dims[i], dims[i]);
    }
}

#endif
