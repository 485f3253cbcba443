/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/reference.h"

#include <ctype.h>
#include <penstock/params.h>

#include "config/job.h"
#include "graph/cluster.h"
#include "host/plugin_host.h"
#include "models/builder.h"
#include "reports/rows.h"

static void put_title(FILE *out, const char *title, const char *rest)
{
    fprintf(out, "# %s\n\n`scripts/docs.py` generates this page from the program's tables.\n%s\n",
            title, rest);
}

/* A bar would end the cell of a table. */
static void put_cell(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
    }
}

/* --- commands ----------------------------------------------------------------------------------*/

static void put_options(FILE *out, const struct pst_option *options, uint32_t n)
{
    if (n > 0) {
        fputs("\n| option | effect |\n| --- | --- |\n", out);
    }
    for (uint32_t i = 0; i < n; i++) {
        fputs("| ", out);
        if (options[i].letter != 0) {
            fprintf(out, "`-%c`, ", options[i].letter);
        }
        fprintf(out, "`--%s%s", options[i].name, options[i].value_name != NULL ? " " : "");
        put_cell(out, options[i].value_name != NULL ? options[i].value_name : "");
        fputs("` | ", out);
        put_cell(out, options[i].doc);
        fputs(" |\n", out);
    }
}

static void put_commands(const struct pst_manual *manual, FILE *out)
{
    put_title(out, "Commands and options",
              "[commands.md](../commands.md) explains them, their answers and exit codes.");
    for (uint32_t i = 0; i < manual->n_commands; i++) {
        const struct pst_command *command = manual->commands[i];

        fprintf(out, "\n## %s\n\n    penstock %s %s\n\n%s.\n", command->name, command->name,
                command->arguments, command->summary);
        if (command->text != NULL) {
            fprintf(out, "\n%s\n", command->text);
        }
        put_options(out, command->options, command->n_options);
    }
    fputs("\n## Every command\n", out);
    put_options(out, pst_common_options, pst_n_common_options);
}

/* --- parameters --------------------------------------------------------------------------------*/

static const char *type_word(uint32_t type)
{
    static const char *const words[] = {[PST_PARAM_BOOL] = "`true` or `false`",
                                        [PST_PARAM_INT] = "integer",
                                        [PST_PARAM_FLOAT] = "number",
                                        [PST_PARAM_STRING] = "string",
                                        [PST_PARAM_ENUM] = "word",
                                        [PST_PARAM_BYTES] = "bytes",
                                        [PST_PARAM_TIME] = "time",
                                        [PST_PARAM_RATE] = "rate",
                                        [PST_PARAM_PATH] = "path"};

    return type < sizeof words / sizeof words[0] && words[type] != NULL ? words[type] : "?";
}

static void put_param(FILE *out, const struct pst_param *row)
{
    const char *initial = row->initial == NULL ? "" : row->initial;

    fprintf(out, "| `%s` | %s | ", row->key, type_word(row->type));
    fprintf(out, row->initial == NULL ? "required" : "`%s`", initial[0] == '\0' ? "\"\"" : initial);
    fputs(row->range == NULL ? " | " : " | `", out);
    for (const char *c = row->range; c != NULL && *c != '\0'; c++) {
        fprintf(out, *c == '|' ? "`, `" : "%c", *c);
    }
    fputs(row->range == NULL ? " | " : "` | ", out);
    put_cell(out, row->doc);
    fputs(" |\n", out);
}

static void put_params(FILE *out, const struct pst_param *rows, uint32_t n, size_t row_size)
{
    fputs(n == 0
              ? "\nNo parameters.\n"
              : "\n| key | type | default | range | meaning |\n| --- | --- | --- | --- | --- |\n",
          out);
    for (uint32_t i = 0; i < n; i++) {
        put_param(out, (const struct pst_param *)(const void *)((const char *)rows + i * row_size));
    }
}

static void put_config(FILE *out)
{
    put_title(out, "Keys of the config",
              "[config.md](../config.md) explains the file and these sections. Parameters of "
              "[models](models.md) and\n[plugins](plugins.md) have pages of their own. Where a "
              "string may have several values, a list is accepted, too.");
    for (uint32_t i = 0; pst_job_sections[i].name != NULL; i++) {
        fprintf(out, "\n## [%s]\n", pst_job_sections[i].name);
        put_params(out, pst_job_sections[i].rows, pst_job_sections[i].n_rows,
                   sizeof(struct pst_param));
    }
    fputs("\n## [cluster]\n", out);
    put_params(out, pst_cluster_params, pst_cluster_n_params, sizeof(struct pst_param));
}

static void put_models(FILE *out)
{
    put_title(out, "Parameters of models",
              "These keys belong in `[model]`, beside `use`. [models.md](../models.md) has sizes "
              "and sources.");
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        const struct pst_model_builder *builder = pst_model_builders[i];

        fprintf(out, "\n## %s\n\n%c%s.\n", builder->id, toupper(builder->summary[0]),
                builder->summary + 1);
        put_params(out, builder->params, builder->n_params, sizeof(struct pst_param));
    }
}

static void put_words(FILE *out, const char *what, const char *const *words)
{
    for (uint32_t i = 0; words != NULL && words[i] != NULL; i++) {
        fprintf(out, "%s`%s`", i == 0 ? what : ", ", words[i]);
    }
    fputs(words != NULL && words[0] != NULL ? ".\n" : "", out);
}

static void put_plugin(FILE *out, const struct pst_plugin *plugin)
{
    fprintf(out, "\n## %s %s\n\n%s\n", plugin->kind, plugin->id, plugin->summary);
    put_words(out, "Provides ", plugin->provides);
    put_words(out, "Needs ", plugin->needs);
    put_params(out, plugin->params, plugin->n_params, plugin->param_size);
}

static pst_status put_plugins(FILE *out, struct pst_error *err)
{
    struct pst_plugin_list *list = NULL;
    pst_status status = pst_plugin_list_create(NULL, &list, err);

    if (status != PST_OK) {
        return status;
    }
    put_title(out, "Parameters of plugins",
              "These keys belong in the table of the strategy, beside `use`; those of data in "
              "`[data]`.\n[algorithms.md](../algorithms.md) describes each, "
              "[plugins.md](../plugins.md#capability-words) says what the words\nmean.");
    for (uint32_t i = 0; i < list->n_files; i++) {
        pst_plugin_file_describe(list, &list->files[i]);
        if (list->files[i].shipped && list->files[i].plugin != NULL) {
            put_plugin(out, list->files[i].plugin);
        }
    }
    pst_plugin_list_destroy(list);
    return PST_OK;
}

/* --- answers -----------------------------------------------------------------------------------*/

static const struct {
    const char *title;
    const struct pst_row *rows;
} answers[] = {
    {"train: a step", pst_step_rows},
    {"train: an evaluation", pst_eval_rows},
    {"train: a checkpoint", pst_saved_rows},
    {"train: a resumed run", pst_resumed_rows},
    {"train: the end", pst_done_rows},
    {"plan", pst_plan_rows},
    {"simulate", pst_simulate_rows},
    {"profile", pst_profile_rows},
    {"schedule", pst_schedule_rows},
    {"partition", pst_partition_rows},
    {"memopt", pst_memopt_rows},
    {"check: a plan", pst_check_rows},
    {"check: checkpoints", pst_check_folder_rows},
    {"doctor", pst_doctor_rows},
};

static void put_answers(FILE *out)
{
    put_title(out, "Fields of --json",
              "[commands.md](../commands.md) explains the figures, and describes the answers of "
              "the other commands. `stages[].id` is\nthe field `id` of each object in the list "
              "`stages`.");
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        fprintf(out, "\n## %s\n\n| field | type | meaning |\n| --- | --- | --- |\n",
                answers[i].title);
        pst_rows_document(answers[i].rows, "", out);
    }
}

/* --- pages -------------------------------------------------------------------------------------*/

const char *const pst_reference_pages[] = {"commands", "config", "models", "plugins", "json", NULL};

pst_status pst_reference_page(const struct pst_manual *manual, uint32_t page, FILE *out,
                              struct pst_error *err)
{
    switch (page) {
    case 0:
        put_commands(manual, out);
        return PST_OK;
    case 1:
        put_config(out);
        return PST_OK;
    case 2:
        put_models(out);
        return PST_OK;
    case 4:
        put_answers(out);
        return PST_OK;
    default:
        return put_plugins(out, err);
    }
}
