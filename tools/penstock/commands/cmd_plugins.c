/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "commands/plugins.h"

static void list(struct pst_cli *cli, const struct pst_plugins_options *options)
{
    struct pst_plugin_list *plugins = NULL;

    (void)options;
    pst_cli_must(cli, pst_plugin_list_create(&plugins, &cli->err));
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        pst_plugin_file_describe(plugins, &plugins->files[i]);
    }
    if (cli->json) {
        pst_plugins_list_json(plugins, &cli->answer);
    } else {
        pst_plugins_list_print(plugins, cli->color, stdout);
    }
    pst_plugin_list_destroy(plugins);
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
    pst_status st;

    while (n < plugins->n_files && n < 256) {
        ids[n] = plugins->files[n].id;
        n++;
    }
    st = pst_fail(err, PST_ERR_CONFIG, "plugin.not-found", "no plugin \"%s\"%s", name,
                  pst_nearest_hint(hint, name, ids, n));
    if (hint[0] == '\0') {
        pst_error_hint(err, "\"penstock plugins\" lists them");
    }
    return st;
}

/* Every plugin that goes by the name: an id may serve several kinds. */
static pst_status find_all(const char *name, struct pst_plugin_list *plugins,
                           struct pst_plugins_shown *shown, struct pst_error *err)
{
    for (uint32_t i = 0; i < plugins->n_files && shown->n < PST_PLUGINS_SHOWN; i++) {
        struct pst_plugin_file *file = &plugins->files[i];

        if (file->shadowed_by != NULL || !is_called(file, name)) {
            continue;
        }
        pst_plugin_file_describe(plugins, file);
        if (file->plugin == NULL) {
            *err = file->refusal;
            return file->refusal.status;
        }
        shown->items[shown->n++] = file;
    }
    return shown->n == 0 ? fail_unknown(plugins, name, err) : PST_OK;
}

static void info(struct pst_cli *cli, const struct pst_plugins_options *options)
{
    const char *name = cli->arguments[1];
    struct pst_plugin_list *plugins = NULL;
    struct pst_plugin_file file = {.path = name};
    struct pst_plugins_shown shown = {0};

    (void)options;
    pst_cli_must(cli, pst_plugin_list_create(&plugins, &cli->err));
    if (strchr(name, '/') != NULL) {
        pst_plugin_file_describe(plugins, &file);
        shown.items[shown.n++] = &file;
        cli->err = file.refusal;
        pst_cli_must(cli, file.refusal.status);
    } else {
        pst_cli_must(cli, find_all(name, plugins, &shown, &cli->err));
    }
    if (cli->json) {
        pst_plugins_info_json(&shown, &cli->answer);
    } else {
        pst_plugins_info_print(&shown, cli->color, stdout);
    }
    pst_plugin_list_destroy(plugins);
}

/* What follows `penstock plugins`. */
static const struct {
    const char *word, *name, *arguments; /* name: with the command's, as messages begin */
    uint32_t min, max;                   /* words in all, itself included */
    void (*run)(struct pst_cli *cli, const struct pst_plugins_options *options);
} actions[] = {
    {"list", "plugins list", "", 0, 1, list},
    {"info", "plugins info", "NAME|FILE", 2, 2, info},
    {"check", "plugins check", "FILE", 2, 2, pst_plugins_check},
    {"new", "plugins new", "KIND ID [FOLDER]", 3, 4, pst_plugins_new},
};

#define N_ACTIONS (sizeof actions / sizeof actions[0])

static void plugins(struct pst_cli *cli, void *request)
{
    const char *word = cli->n_arguments == 0 ? "list" : cli->arguments[0], *nearest;
    const char *words[N_ACTIONS];
    struct pst_command part = *cli->command;
    pst_status st;

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
    st = pst_fail(&cli->err, PST_ERR_CONFIG, "usage", "plugins: no action \"%s\"", word);
    if (nearest != NULL) {
        pst_error_hint(&cli->err, "did you mean \"%s\"?", nearest);
    } else {
        pst_error_hint(&cli->err, "penstock plugins %s", cli->command->arguments);
    }
    pst_cli_must(cli, st);
}

static const struct pst_option options[] = {
    {"seed", 0, "N", "check: seed of the random graphs (default 1)",
     offsetof(struct pst_plugins_options, seed), 0},
    {"only", 0, "TEST", "check: run this test alone", offsetof(struct pst_plugins_options, only),
     0},
    {"time-limit", 0, "SECONDS", "check: of one test (default 20)",
     offsetof(struct pst_plugins_options, time_limit), 0},
};

const struct pst_command pst_cmd_plugins = {
    .name = "plugins",
    .arguments = "[list | info NAME|FILE | check FILE | new KIND ID [FOLDER]]",
    .summary = "Shows which strategies there are and where they come from",
    .text =
        "info tells all that a plugin says about itself, parameters included. A NAME is an id or\n"
        "KIND-ID, a FILE a path with a slash in it. check proves that a plugin keeps its contract\n"
        "(--set key=value gives it a parameter); exit code 3 if not. new makes a project to start\n"
        "from: KIND is partitioner, scheduler or memopt.",
    .words = {0, UINT32_MAX}, /* as each action says */
    PST_CLI_OPTIONS(options, struct pst_plugins_options),
    .run = plugins,
};
