/* SPDX-License-Identifier: Apache-2.0 */
#include "session/patterns.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/config.h"

/* The name that is most like the pattern: by its letters, or as the pattern begins. */
static const char *nearest_to(const char *pattern, const char *const *names, uint32_t n)
{
    const char *nearest = pst_nearest(pattern, names, n);
    char *begin = pst_alloc(strlen(pattern) + 2, 1);

    for (size_t length = strlen(pattern) + 1; nearest == NULL && length-- > 0;) {
        memcpy(begin, pattern, length);
        memcpy(begin + length, "*", 2);
        for (uint32_t i = 0; i < n && nearest == NULL; i++) {
            nearest = pst_list_matches(begin, names[i]) ? names[i] : NULL;
        }
    }
    free(begin);
    return nearest;
}

static bool matches_any(const char *pattern, const char *const *names, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && !pst_list_matches(pattern, names[i])) {
        i++;
    }
    return i < n;
}

pst_status pst_patterns_check(const char *patterns, const struct pst_graph *model, bool operators,
                              const char *where, struct pst_error *err)
{
    const uint32_t n = operators ? model->n_ops : model->n_params;
    const char **names = pst_alloc(n + 1, sizeof *names);
    pst_status status = PST_OK;
    const char *item;
    size_t length;

    for (uint32_t i = 0; i < n; i++) {
        names[i] = operators ? model->ops[i].name : model->params[i].name;
    }
    while (status == PST_OK && (item = pst_list_next(&patterns, &length)) != NULL) {
        char *pattern = pst_strndup(item, length);

        if (!matches_any(pattern, names, n)) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.value",
                              "%s: model %s has no %s \"%s\"; the nearest is \"%s\"", where,
                              model->name, operators ? "operator" : "parameter", pattern,
                              nearest_to(pattern, names, n));
        }
        free(pattern);
    }
    free(names);
    return status;
}
