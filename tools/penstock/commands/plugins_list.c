/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/plugins.h"

#include "base/json.h"
#include "reports/table.h"

static const char *text_or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static void add_row(struct pst_table *table, const struct pst_plugin_file *file)
{
    pst_table_cell(table, "%s", file->kind);
    pst_table_cell(table, "%s", file->id);
    pst_table_cell(table, "%s", file->plugin != NULL ? text_or_empty(file->plugin->version) : "");
    pst_table_cell(table, "%s", file->plugin != NULL ? text_or_empty(file->plugin->summary) : "");
    if (file->shadowed_by != NULL) {
        pst_table_cell(table, "shadowed by %s", file->shadowed_by);
    } else if (file->plugin == NULL) {
        pst_table_cell(table, "refused: %s", file->refusal.message);
    } else {
        pst_table_cell(table, "ok");
    }
    pst_table_cell(table, "%s", file->path);
}

void pst_plugins_list_print(const struct pst_plugin_list *plugins, bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table, "kind|id|version|summary|state|file");
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        add_row(&table, &plugins->files[i]);
    }
    pst_table_end(&table, out, "", color);
    fputs("\nsearched, in this order\n", out);
    for (uint32_t i = 0; i < plugins->n_folders; i++) {
        fprintf(out, "  %s\n", plugins->folders[i]);
    }
}

static void add_file(struct pst_json *json, const struct pst_plugin_file *file)
{
    pst_json_object(json, NULL);
    pst_json_string(json, "kind", file->kind);
    pst_json_string(json, "id", file->id);
    if (file->plugin != NULL) {
        pst_json_string(json, "version", file->plugin->version);
        pst_json_string(json, "summary", file->plugin->summary);
    }
    pst_json_string(json, "file", file->path);
    pst_json_string(json, "state",
                    file->shadowed_by != NULL ? "shadowed"
                    : file->plugin != NULL    ? "ok"
                                              : "refused");
    if (file->shadowed_by != NULL) {
        pst_json_string(json, "shadowed_by", file->shadowed_by);
    } else if (file->plugin == NULL) {
        pst_json_object(json, "refusal");
        pst_json_string(json, "kind", file->refusal.kind);
        pst_json_string(json, "message", file->refusal.message);
        pst_json_end(json, '}');
    }
    pst_json_end(json, '}');
}

void pst_plugins_list_json(const struct pst_plugin_list *plugins, struct pst_json *json)
{
    pst_json_array(json, "plugins");
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        add_file(json, &plugins->files[i]);
    }
    pst_json_end(json, ']');
    pst_json_strings(json, "folders", (const char *const *)plugins->folders, plugins->n_folders);
}
