/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "commands/plugins.h"
#include "config/job.h"
#include "host/plugin_host.h"
#include "host/search.h"
#include "reports/table.h"
#include "tune/toml_text.h"

enum { MAX_SHOWN = 8 };

struct shown {
    uint32_t n;
    struct pst_plugin_file *items[MAX_SHOWN];
};

static const char *state_of(const struct pst_plugin_file *file)
{
    return file->shadowed_by != NULL ? "shadowed" : file->plugin != NULL ? "ok" : "refused";
}

static void add_row(struct pst_table *table, const struct pst_plugin_file *file)
{
    pst_table_cell(table, "%s", file->kind);
    pst_table_cell(table, "%s", file->id);
    pst_table_cell(table, "%s", file->plugin != NULL ? file->plugin->version : "");
    pst_table_cell(table, "%s", file->plugin != NULL ? file->plugin->summary : "");
    pst_table_cell(table, "%s", state_of(file));
    pst_table_cell(table, "%s", file->path);
    pst_table_cell(table, "%s",
                   file->shadowed_by != NULL
                       ? pst_arena_printf(&table->arena, "by %s", file->shadowed_by)
                   : file->plugin == NULL ? file->refusal.message
                                          : "");
}

static void print_list(const struct pst_plugin_list *plugins, bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table, "kind|id|8version|~summary|state|9file|+why");
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        add_row(&table, &plugins->files[i]);
    }
    pst_table_end(&table, out, "", color);
    fputs("\nsearched, in this order\n", out);
    for (uint32_t i = 0; i < plugins->n_folders; i++) {
        pst_text_printf(out, "  %s\n", plugins->folders[i]);
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
    pst_json_string(json, "state", state_of(file));
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

static void add_list(const struct pst_plugin_list *plugins, struct pst_json *json)
{
    pst_json_array(json, "plugins");
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        add_file(json, &plugins->files[i]);
    }
    pst_json_end(json, ']');
    pst_json_strings(json, "folders", (const char *const *)plugins->folders, plugins->n_folders);
}

/* With the folders of plugins.path first, that of --config or, of these many, of --set. */
static struct pst_plugin_list *find_files(struct pst_cli *cli,
                                          const struct pst_plugins_options *options,
                                          uint32_t n_sets)
{
    struct pst_config *config = NULL;
    struct pst_plugin_list *plugins = NULL;
    struct pst_job job;

    pst_cli_must(cli, options->config != NULL
                          ? pst_config_load(options->config, cli->sets, n_sets, &config, &cli->err)
                          : pst_config_from_sets(cli->sets, n_sets, &config, &cli->err));
    pst_cli_must(cli, pst_job_read(config, &job, &cli->err));
    pst_cli_must(cli, pst_plugin_list_create(job.plugins.path, &plugins, &cli->err));
    pst_job_finish(&job);
    pst_config_destroy(config);
    return plugins;
}

static void list(struct pst_cli *cli, const struct pst_plugins_options *options)
{
    struct pst_plugin_list *plugins = find_files(cli, options, cli->n_sets);

    for (uint32_t i = 0; i < plugins->n_files; i++) {
        pst_plugin_file_describe(plugins, &plugins->files[i]);
    }
    if (cli->json) {
        add_list(plugins, &cli->answer);
    } else {
        print_list(plugins, cli->color, stdout);
    }
    pst_plugin_list_destroy(plugins);
}

static const char *const type_names[] = {"?",    "bool",  "int",  "float", "string",
                                         "enum", "bytes", "time", "rate",  "path"};

static const char *type_name(uint32_t type)
{
    return type < sizeof type_names / sizeof type_names[0] ? type_names[type] : "?";
}

static void print_field(FILE *out, const char *name, const char *value)
{
    char *text;

    if (value != NULL && value[0] != '\0') {
        text = pst_printf("  %-11s %s", name, value);
        pst_text_make_plain(text);
        pst_table_paragraph(out, text, 14);
        free(text);
    }
}

static void print_words(FILE *out, const char *name, const char *const *words)
{
    struct pst_arena arena = {0};
    const char *text = "";

    for (uint32_t i = 0; words != NULL && words[i] != NULL; i++) {
        text = pst_arena_printf(&arena, "%s%s%s", text, i == 0 ? "" : ", ", words[i]);
    }
    print_field(out, name, text);
    pst_arena_finish(&arena);
}

/* By plugins.isolate = "auto". */
static void print_isolated(FILE *out, const struct pst_plugin_file *file)
{
    char *why = pst_printf("yes: it %s", file->shipped ? "" : file->why_not_shipped);
    const char *kind = file->plugin->kind;
    const bool in_step = strcmp(kind, "operator") == 0 || strcmp(kind, "data") == 0;

    print_field(out, "isolated",
                in_step         ? "no: it runs in the process that trains"
                : file->shipped ? "no"
                                : why);
    free(why);
}

static void print_params(const struct pst_plugin *plugin, bool color, FILE *out)
{
    struct pst_table table;

    if (plugin->n_params == 0) {
        fputs("  no parameters\n", out);
        return;
    }
    pst_table_init(&table, "parameter|8type|9~range|7~default|~meaning");
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

static void print_info(const struct shown *shown, bool color, FILE *out)
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
        print_field(out, "vendor", pst_plugin_vendor(plugin));
        print_field(out, "url", pst_plugin_url(plugin));
        fprintf(out, "  %-11s %u.%u\n", "ABI", plugin->abi_major, plugin->abi_minor);
        print_words(out, "provides", plugin->provides);
        print_words(out, "needs", plugin->needs);
        print_params(plugin, color, out);
    }
}

static void add_words(struct pst_json *json, const char *key, const char *const *words)
{
    uint32_t n = 0;

    while (words != NULL && words[n] != NULL) {
        n++;
    }
    pst_json_strings(json, key, words, n);
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

static void add_info(const struct shown *shown, struct pst_json *json)
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
        pst_json_string(json, "vendor", pst_plugin_vendor(plugin));
        pst_json_string(json, "url", pst_plugin_url(plugin));
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

/* Does this file go by the name: "1f1b", "scheduler-1f1b"? */
static bool is_called(const struct pst_plugin_file *file, const char *name)
{
    size_t n = strlen(file->kind);

    return strcmp(file->id, name) == 0 || (strncmp(name, file->kind, n) == 0 && name[n] == '-' &&
                                           strcmp(name + n + 1, file->id) == 0);
}

static pst_status fail_unknown(const struct pst_plugin_list *plugins, const char *name,
                               struct pst_error *err)
{
    const char *ids[256];
    char hint[96];
    uint32_t n = 0;
    pst_status status;

    while (n < plugins->n_files && n < 256) {
        ids[n] = plugins->files[n].id;
        n++;
    }
    status = pst_fail(err, PST_ERR_CONFIG, "plugin.not-found", "no plugin \"%s\"%s", name,
                      pst_nearest_hint(hint, name, ids, n));
    if (hint[0] == '\0') {
        pst_error_hint(err, "\"penstock plugins\" lists them");
    }
    return status;
}

/* Every plugin that goes by the name: an id may serve several kinds. */
static pst_status find_all(const char *name, struct pst_plugin_list *plugins, struct shown *shown,
                           struct pst_error *err)
{
    for (uint32_t i = 0; i < plugins->n_files && shown->n < MAX_SHOWN; i++) {
        struct pst_plugin_file *file = &plugins->files[i];

        if (file->shadowed_by == NULL && is_called(file, name)) {
            shown->items[shown->n++] = file;
        }
    }
    return shown->n == 0 ? fail_unknown(plugins, name, err) : PST_OK;
}

static pst_status describe_all(struct pst_plugin_list *plugins, struct shown *shown,
                               struct pst_error *err)
{
    for (uint32_t i = 0; i < shown->n; i++) {
        struct pst_plugin_file *file = shown->items[i];

        pst_plugin_file_describe(plugins, file);
        if (file->plugin == NULL) {
            *err = file->refusal;
            return file->refusal.status;
        }
    }
    return PST_OK;
}

static void info(struct pst_cli *cli, const struct pst_plugins_options *options)
{
    const char *name = cli->arguments[1];
    struct pst_plugin_list *plugins = find_files(cli, options, cli->n_sets);
    struct pst_plugin_file file = {.path = name};
    struct shown shown = {0};

    if (pst_search_is_file(name)) {
        shown.items[shown.n++] = &file;
    } else {
        pst_cli_must(cli, find_all(name, plugins, &shown, &cli->err));
    }
    pst_cli_must(cli, describe_all(plugins, &shown, &cli->err));
    if (cli->json) {
        add_info(&shown, &cli->answer);
    } else {
        print_info(&shown, cli->color, stdout);
    }
    pst_plugin_list_destroy(plugins);
}

/* A test opens the one file; so a name that several have is none. */
static void check(struct pst_cli *cli, const struct pst_plugins_options *options)
{
    const char *name = cli->arguments[1];
    struct pst_plugin_list *plugins;
    struct shown shown = {0};

    if (pst_search_is_file(name)) {
        if (options->config != NULL) {
            pst_cli_usage(cli, "--config is for finding a NAME, but %s is a file", name);
        }
        pst_plugins_check(cli, options, name);
        return;
    }
    plugins = find_files(cli, options, 0); /* --set is the plugin's */
    pst_cli_must(cli, find_all(name, plugins, &shown, &cli->err));
    if (shown.n > 1) {
        pst_cli_usage(cli, "a %s and a %s are called \"%s\"; say \"%s-%s\" or \"%s-%s\"",
                      shown.items[0]->kind, shown.items[1]->kind, name, shown.items[0]->kind, name,
                      shown.items[1]->kind, name);
    }
    pst_plugins_check(cli, options, shown.items[0]->path);
    pst_plugin_list_destroy(plugins);
}

/* The actions of `penstock plugins`. */
static const struct {
    const char *word, *name, *arguments; /* name: with the command's, as messages begin */
    uint32_t min, max;                   /* words in all, itself included */
    void (*run)(struct pst_cli *cli, const struct pst_plugins_options *options);
} actions[] = {
    {"list", "plugins list", "", 0, 1, list},
    {"info", "plugins info", "NAME|FILE", 2, 2, info},
    {"check", "plugins check", "NAME|FILE", 2, 2, check},
    {"new", "plugins new", "KIND ID [FOLDER]", 3, 4, pst_plugins_new},
};

#define N_ACTIONS (sizeof actions / sizeof actions[0])

static void plugins(struct pst_cli *cli, void *request)
{
    const char *word = cli->n_arguments == 0 ? "list" : cli->arguments[0], *nearest;
    const char *words[N_ACTIONS];
    struct pst_command part = *cli->command;
    pst_status status;

    for (uint32_t i = 0; i < N_ACTIONS; i++) {
        words[i] = actions[i].word;
        if (strcmp(word, actions[i].word) == 0) {
            part.name = actions[i].name;
            part.arguments = actions[i].arguments;
            pst_cli_must(
                cli, pst_options_arguments(&part, cli, actions[i].min, actions[i].max, &cli->err));
            actions[i].run(cli, request);
            return;
        }
    }
    nearest = pst_nearest(word, words, N_ACTIONS);
    status = pst_fail(&cli->err, PST_ERR_CONFIG, "usage", "plugins: no action \"%s\"", word);
    if (nearest != NULL) {
        pst_error_hint(&cli->err, "did you mean \"%s\"?", nearest);
    } else if (pst_toml_is_name(word)) {
        pst_error_hint(&cli->err, "penstock plugins --config %s", word);
    } else {
        pst_error_hint(&cli->err, "penstock plugins %s", cli->command->arguments);
    }
    pst_cli_must(cli, status);
}

static const struct pst_option options[] = {
    {"config", 0, "FILE", "list, info, check: also search plugins.path of this config",
     offsetof(struct pst_plugins_options, config), 0},
    {"seed", 0, "N", "check: seed of the random graphs (default 1)",
     offsetof(struct pst_plugins_options, seed), 0},
    {"only", 0, "TEST", "check: run only this test", offsetof(struct pst_plugins_options, only), 0},
    {"time-limit", 0, "TIME", "check: time limit of one test (default 20 s)",
     offsetof(struct pst_plugins_options, time_limit), 0},
    {"lang", 0, "c|c++", "new: language of the project (default c)",
     offsetof(struct pst_plugins_options, language), 0},
};

static const struct pst_action completed[] = {
    {"list", NULL, NULL},
    {"info", NULL, "all"},
    {"check", NULL, "all"},
    {"new", "partitioner scheduler memopt model data operator", NULL},
    {NULL, NULL, NULL}};

const struct pst_command pst_cmd_plugins = {
    .name = "plugins",
    .arguments = "[list | info NAME|FILE | check NAME|FILE | new KIND ID [FOLDER]]",
    .summary = "Lists, checks and creates plugins",
    .text =
        "list shows all plugins and where they come from. info shows the description and the\n"
        "parameters of a plugin. A NAME is an id or KIND-ID, a FILE a path that ends in .so or\n"
        "begins with / or a dot. check tests whether a plugin keeps its contract (--set key=value\n"
        "sets a parameter); exit code 3 if not. new creates a project to start from: KIND is\n"
        "partitioner, scheduler, memopt, model, data or operator.",
    .actions = completed,
    .words = {0, UINT32_MAX}, /* as each action says */
    PST_CLI_OPTIONS(options, struct pst_plugins_options),
    .run = plugins,
};
