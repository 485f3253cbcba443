/* SPDX-License-Identifier: Apache-2.0
 *
 * Completes the argument of --set: keys of the config, and the values of keys that have a list of
 * them. Opens no plugin.
 */
#include <stdlib.h>
#include <string.h>

#include <penstock/params.h>

#include "base/text.h"
#include "base/util.h"
#include "commands/manual.h"
#include "config/job.h"
#include "graph/cluster.h"
#include "host/plugin_host.h"
#include "models/builder.h"

struct typed {
    const char *text;
    size_t length;
    FILE *out;
};

/* One line, if it begins with what is typed. */
static void offer(const struct typed *typed, const char *section, const char *key,
                  const char *value, size_t length)
{
    char *line = pst_printf("%s.%s=%.*s", section, key, (int)length, value);

    if (strncmp(line, typed->text, typed->length) == 0) {
        pst_text_printf(typed->out, "%s\n", line);
    }
    free(line);
}

/* Keys as long as there is no "=", then values. */
static void offer_row(const struct typed *typed, const char *section, const struct pst_param *row)
{
    const char *words = row->type == PST_PARAM_BOOL ? "true|false" : row->range;

    if (strchr(typed->text, '=') == NULL) {
        offer(typed, section, row->key, "", 0);
    } else if (words != NULL && strstr(words, "..") == NULL) {
        for (; *words != '\0'; words += strcspn(words, "|") + (strchr(words, '|') != NULL)) {
            offer(typed, section, row->key, words, strcspn(words, "|"));
        }
    }
}

static void offer_rows(const struct typed *typed, const char *section, const struct pst_param *rows,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        offer_row(typed, section, &rows[i]);
    }
}

static void offer_models(const struct typed *typed)
{
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        const struct pst_model_builder *builder = pst_model_builders[i];

        offer_rows(typed, "model", builder->params, builder->n_params);
        if (strchr(typed->text, '=') != NULL) {
            offer(typed, "model", "use", builder->id, strlen(builder->id));
        }
    }
}

static pst_status offer_plugins(const struct typed *typed, struct pst_error *err)
{
    static const struct pst_param use = {.key = "use", .type = PST_PARAM_STRING};
    static const char *const kinds[] = {"model", "partitioner", "scheduler", "memopt"};
    struct pst_plugin_list *list = NULL;
    pst_status status = PST_OK;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        offer_row(typed, kinds[i], &use);
    }
    if (strchr(typed->text, '=') != NULL) {
        status = pst_plugin_list_create(NULL, &list, err);
    }
    for (uint32_t i = 0; list != NULL && i < list->n_files; i++) {
        const char *kind = list->files[i].kind, *id = list->files[i].id;
        const bool is_operator = strcmp(kind, "operator") == 0;

        offer(typed, is_operator ? "model" : kind,
              is_operator                 ? "operators"
              : strcmp(kind, "data") == 0 ? "kind"
                                          : "use",
              id, strlen(id));
    }
    pst_plugin_list_destroy(list);
    return status;
}

pst_status pst_manual_complete_set(const char *text, FILE *out, struct pst_error *err)
{
    const struct typed typed = {text, strlen(text), out};

    for (uint32_t i = 0; pst_job_sections[i].name != NULL; i++) {
        if (strchr(pst_job_sections[i].name, '.') == NULL) { /* not a list of tables */
            offer_rows(&typed, pst_job_sections[i].name, pst_job_sections[i].rows,
                       pst_job_sections[i].n_rows);
        }
    }
    offer_rows(&typed, "cluster", pst_cluster_params, pst_cluster_n_params);
    offer_models(&typed);
    return offer_plugins(&typed, err);
}
