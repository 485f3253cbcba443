/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/plugins.h"

#include "base/json.h"
#include "base/text.h"
#include "reports/table.h"

static const char *const type_names[] = {"?",    "bool",  "int",  "float", "string",
                                         "enum", "bytes", "time", "rate",  "path"};

static const char *type_name(uint32_t type)
{
    return type < sizeof type_names / sizeof type_names[0] ? type_names[type] : "?";
}

static void print_field(FILE *out, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        fprintf(out, "  %-11s %s\n", name, value);
    }
}

static void print_words(FILE *out, const char *name, const char *const *words)
{
    if (words == NULL || words[0] == NULL) {
        return;
    }
    fprintf(out, "  %-11s ", name);
    for (uint32_t i = 0; words[i] != NULL; i++) {
        fprintf(out, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
    fputc('\n', out);
}

/* By plugins.isolate = "auto". */
static void print_isolated(FILE *out, const struct pst_plugin_file *file)
{
    fprintf(out, "  %-11s %s", "isolated", file->shipped ? "no" : "yes: it ");
    pst_text_print(out, file->shipped ? "" : file->why_not_shipped);
    fputc('\n', out);
}

static void print_params(const struct pst_plugin *plugin, bool color, FILE *out)
{
    struct pst_table table;

    if (plugin->n_params == 0) {
        fputs("  no parameters\n", out);
        return;
    }
    pst_table_init(&table, "parameter|type|range|default|meaning");
    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *p = pst_plugin_param(plugin, i);

        pst_table_cell(&table, "%s", p->key);
        pst_table_cell(&table, "%s", type_name(p->type));
        pst_table_cell(&table, "%s", p->range == NULL ? "" : p->range);
        pst_table_cell(&table, "%s", p->initial == NULL ? "(required)" : p->initial);
        pst_table_cell(&table, "%s", p->doc);
    }
    fputc('\n', out);
    pst_table_end(&table, out, "  ", color);
}

void pst_plugins_info_print(const struct pst_plugins_shown *shown, bool color, FILE *out)
{
    for (uint32_t i = 0; i < shown->n; i++) {
        const struct pst_plugin *plugin = shown->items[i]->plugin;

        fprintf(out, "%s%s%s %s%s: %s\n", i == 0 ? "" : "\n", color ? "\033[1m" : "", plugin->kind,
                plugin->id, color ? "\033[0m" : "", plugin->summary);
        print_field(out, "version", plugin->version);
        print_field(out, "file", shown->items[i]->path);
        print_isolated(out, shown->items[i]);
        print_field(out, "reference", plugin->reference);
        print_field(out, "license", plugin->license);
        fprintf(out, "  %-11s %u.%u\n", "ABI", plugin->abi_major, plugin->abi_minor);
        print_words(out, "provides", plugin->provides);
        print_words(out, "needs", plugin->needs);
        print_params(plugin, color, out);
    }
}

static void add_words(struct pst_json *json, const char *key, const char *const *words)
{
    pst_json_array(json, key);
    for (uint32_t i = 0; words != NULL && words[i] != NULL; i++) {
        pst_json_string(json, NULL, words[i]);
    }
    pst_json_end(json, ']');
}

static void add_params(struct pst_json *json, const struct pst_plugin *plugin)
{
    pst_json_array(json, "parameters");
    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *p = pst_plugin_param(plugin, i);

        pst_json_object(json, NULL);
        pst_json_string(json, "key", p->key);
        pst_json_string(json, "type", type_name(p->type));
        pst_json_string(json, "range", p->range);
        pst_json_string(json, "default", p->initial);
        pst_json_string(json, "help", p->doc);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

void pst_plugins_info_json(const struct pst_plugins_shown *shown, struct pst_json *json)
{
    pst_json_array(json, "plugins");
    for (uint32_t i = 0; i < shown->n; i++) {
        const struct pst_plugin *plugin = shown->items[i]->plugin;

        pst_json_object(json, NULL);
        pst_json_string(json, "kind", plugin->kind);
        pst_json_string(json, "id", plugin->id);
        pst_json_string(json, "version", plugin->version);
        pst_json_string(json, "summary", plugin->summary);
        pst_json_string(json, "reference", plugin->reference);
        pst_json_string(json, "license", plugin->license);
        pst_json_string(json, "file", shown->items[i]->path);
        pst_json_bool(json, "shipped", shown->items[i]->shipped);
        if (!shown->items[i]->shipped) {
            pst_json_string(json, "not_shipped", shown->items[i]->why_not_shipped);
        }
        pst_json_uint(json, "abi_major", plugin->abi_major);
        pst_json_uint(json, "abi_minor", plugin->abi_minor);
        add_words(json, "provides", plugin->provides);
        add_words(json, "needs", plugin->needs);
        add_params(json, plugin);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}
