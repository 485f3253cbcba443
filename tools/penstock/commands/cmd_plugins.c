/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "commands/plugins_kit.h"
#include "commands/plugins_show.h"

struct request {
    const struct pst_cli *cli;
    struct pst_plugins_options options;
};

static pst_status list(const struct request *request, int *ret_code, struct pst_error *err)
{
    const struct pst_cli *cli = request->cli;
    struct pst_plugin_list *plugins = NULL;
    pst_status st = pst_plugin_list_create(&plugins, err);

    (void)ret_code;
    if (st != PST_OK) {
        return st;
    }
    for (uint32_t i = 0; i < plugins->n_files; i++) {
        pst_plugin_file_describe(plugins, &plugins->files[i]);
    }
    if (cli->json) {
        st = pst_cli_print_json(pst_plugins_list_json(plugins), err);
    } else {
        pst_plugins_list_print(plugins, cli->color, stdout);
    }
    pst_plugin_list_destroy(plugins);
    return st;
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
    const char *ids[256], *nearest;
    uint32_t n = 0;
    pst_status st;

    while (n < plugins->n_files && n < 256) {
        ids[n] = plugins->files[n].id;
        n++;
    }
    nearest = pst_nearest(name, ids, n);
    st = pst_fail(err, PST_ERR_CONFIG, "plugin.not-found", "no plugin \"%s\"%s%s%s", name,
                  nearest == NULL ? "" : "; did you mean \"", nearest == NULL ? "" : nearest,
                  nearest == NULL ? "" : "\"?");
    if (nearest == NULL) {
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

static pst_status info(const struct request *request, int *ret_code, struct pst_error *err)
{
    const struct pst_cli *cli = request->cli;
    const char *name = cli->arguments[1];
    struct pst_plugin_list *plugins = NULL;
    struct pst_plugin_file file = {.path = name};
    struct pst_plugins_shown shown = {0};
    pst_status st = pst_plugin_list_create(&plugins, err);

    (void)ret_code;
    if (st == PST_OK && strchr(name, '/') != NULL) {
        pst_plugin_file_describe(plugins, &file);
        shown.items[shown.n++] = &file;
        *err = file.refusal;
        st = file.refusal.status;
    } else if (st == PST_OK) {
        st = find_all(name, plugins, &shown, err);
    }
    if (st == PST_OK && cli->json) {
        st = pst_cli_print_json(pst_plugins_info_json(&shown), err);
    } else if (st == PST_OK) {
        pst_plugins_info_print(&shown, cli->color, stdout);
    }
    pst_plugin_list_destroy(plugins);
    return st;
}

static pst_status check(const struct request *request, int *ret_code, struct pst_error *err)
{
    return pst_plugins_check(request->cli, &request->options, ret_code, err);
}

static pst_status make_new(const struct request *request, int *ret_code, struct pst_error *err)
{
    (void)ret_code;
    return pst_plugins_new(request->cli, err);
}

/* What follows `penstock plugins`. */
static const struct {
    const char *word, *name, *arguments; /* name: with the command's, as messages begin */
    uint32_t min, max;                   /* words in all, itself included */
    pst_status (*run)(const struct request *request, int *ret_code, struct pst_error *err);
} actions[] = {
    {"list", "plugins list", "", 0, 1, list},
    {"info", "plugins info", "NAME|FILE", 2, 2, info},
    {"check", "plugins check", "FILE", 2, 2, check},
    {"new", "plugins new", "KIND ID [FOLDER]", 3, 4, make_new},
};

#define N_ACTIONS (sizeof actions / sizeof actions[0])

static pst_status act(const struct pst_command *command, const struct request *request,
                      int *ret_code, struct pst_error *err)
{
    const struct pst_cli *cli = request->cli;
    const char *word = cli->n_arguments == 0 ? "list" : cli->arguments[0], *nearest;
    const char *words[N_ACTIONS];
    struct pst_command part = *command;
    pst_status st;

    for (uint32_t i = 0; i < N_ACTIONS; i++) {
        words[i] = actions[i].word;
        if (strcmp(word, actions[i].word) == 0) {
            part.name = actions[i].name;
            part.arguments = actions[i].arguments;
            st = pst_options_arguments(&part, cli, actions[i].min, actions[i].max, err);
            return st == PST_OK ? actions[i].run(request, ret_code, err) : st;
        }
    }
    nearest = pst_nearest(word, words, N_ACTIONS);
    st = pst_fail(err, PST_ERR_CONFIG, "usage", "plugins: no action \"%s\"", word);
    if (nearest != NULL) {
        pst_error_hint(err, "did you mean \"%s\"?", nearest);
    } else {
        pst_error_hint(err, "penstock plugins %s", command->arguments);
    }
    return st;
}

int pst_cmd_plugins(const struct pst_command *command, int argc, char **argv)
{
    bool json = pst_options_want_json(argc, argv);
    struct pst_error err = {0};
    struct pst_cli cli;
    struct request request = {.cli = &cli};
    const struct pst_option options[] = {
        {"seed", 0, "N", "check: seed of the random graphs (default 1)", NULL,
         &request.options.seed},
        {"only", 0, "TEST", "check: run this test alone", NULL, &request.options.only},
        {"time-limit", 0, "SECONDS", "check: of one test (default 20)", NULL,
         &request.options.time_limit},
    };
    int code = 0, end;
    pst_status st = pst_options_parse(command, options, 3, argc, argv, &cli, &err);

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    end = pst_cli_end(act(command, &request, &code, &err), cli.json, &err);
    return end != 0 ? end : code;
}
