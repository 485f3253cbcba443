/* SPDX-License-Identifier: Apache-2.0
 *
 * The models that scripts/record_torch.py recorded: their configuration stands among the other keys
 * of the file.
 */
#ifndef TESTS_RECORDED_MODEL_H
#define TESTS_RECORDED_MODEL_H

#include <jansson.h>

#include "unit/graph/model_support.h"

/* "key=value" of every parameter of the builder that the file has; as long as the program runs. */
static inline const char *recorded_settings(const json_t *root, const char *id)
{
    static char settings[512];
    const struct pst_model_builder *builder = pst_model_builder_find(id);
    size_t used = 0;

    assert_non_null(builder);
    settings[0] = '\0';
    for (uint32_t i = 0; i < builder->n_params; i++) {
        const json_t *value = json_object_get(root, builder->params[i].key);
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        const char *bare = json_is_string(value) ? json_string_value(value) : text;

        if (bare != NULL) {
            used += (size_t)snprintf(settings + used, sizeof settings - used, "%s=%s ",
                                     builder->params[i].key, bare);
        }
        assert_true(used < sizeof settings);
        free(text);
    }
    return settings;
}

#endif
