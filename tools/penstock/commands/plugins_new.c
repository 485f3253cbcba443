/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/plugins.h"
#include "host/search.h"

enum { TEMPLATE_MAX = 1 << 20, N_FILES = 2, ID_MAX = 48 };

static const char *const kinds[] = {"partitioner", "scheduler", "memopt",
                                    "model",       "data",      "operator"};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* Where things come from and go to. */
struct project {
    struct pst_arena arena;
    const char *kind, *id, *c_name, *folder;
    const char *file;   /* of the plugin: scheduler-lab.my-order */
    bool cpp, own_cpp;  /* in C++; with a template of its own, not that in C, which is both */
    const char *source; /* in the template */
    const char *templates, *package; /* folders: of the kind's template, of the CMake package */
    const char *files[N_FILES];
    bool made; /* the folder, by this command */
};

static pst_status check_words(struct project *project, struct pst_error *err)
{
    const char *nearest = pst_nearest(project->kind, kinds, N_KINDS);
    size_t i;
    pst_status status;

    for (i = 0; i < N_KINDS && strcmp(project->kind, kinds[i]) != 0; i++) {
    }
    if (i == N_KINDS) {
        status =
            pst_fail(err, PST_ERR_CONFIG, "usage", "plugins new: no kind \"%s\"", project->kind);
        if (nearest != NULL) {
            pst_error_hint(err, "did you mean \"%s\"?", nearest);
        } else {
            pst_error_hint(err,
                           "a kind is partitioner, scheduler, memopt, model, data or operator");
        }
        return status;
    }
    if (strlen(project->id) > ID_MAX || !pst_search_is_id(project->id)) {
        return pst_fail(err, PST_ERR_CONFIG, "usage",
                        "plugins new: \"%s\" is not an id: an id has lower-case letters, digits "
                        "and hyphens, at most %d of them, and may begin with a vendor and a slash",
                        project->id, ID_MAX);
    }
    return PST_OK;
}

static pst_status check_language(struct project *project, const char *language,
                                 struct pst_error *err)
{
    project->cpp = language != NULL && strcmp(language, "c++") == 0;
    if (language != NULL && !project->cpp && strcmp(language, "c") != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "usage",
                        "plugins new: --lang must be c or c++, not \"%s\"", language);
    }
    project->own_cpp = project->cpp && strcmp(project->kind, "scheduler") == 0;
    return PST_OK;
}

/* The templates beside the plugins of this binary, built or installed. */
static void locate(struct project *project)
{
    struct pst_arena *arena = &project->arena;
    const char *home = pst_search_home(arena), *templates;
    char *name;

    if (strcmp(home, PENSTOCK_BUILD_PLUGIN_DIR) == 0) {
        templates = PENSTOCK_BUILD_TEMPLATE_DIR;
        project->package = pst_arena_printf(arena, "%s/../cmake", home);
    } else {
        templates = pst_search_data(arena, "template");
        project->package = pst_arena_printf(arena, "%s/../cmake/penstock", home);
    }
    project->templates = pst_arena_printf(arena, "%s/%s%s", templates, project->kind,
                                          project->own_cpp ? "-c++" : "");
    project->files[0] = "CMakeLists.txt";
    project->source =
        pst_arena_printf(arena, "%s.%s", project->kind, project->own_cpp ? "cpp" : "c");
    project->files[1] = pst_arena_printf(arena, "%s.%s", project->kind, project->cpp ? "cpp" : "c");
    name = pst_search_join(arena, project->kind, project->id);
    name[strlen(name) - strlen(".so")] = '\0';
    project->file = name;
    /* A C name does not begin with a digit. */
    name = pst_arena_printf(arena, "%s%s",
                            project->id[0] >= '0' && project->id[0] <= '9' ? "plugin_" : "",
                            project->id);
    project->c_name = name;
    for (; *name != '\0'; name++) {
        *name = *name == '-' || *name == '/' ? '_' : *name;
    }
}

/* A word of a template, and the project's word for it. The name of the plugin's file comes first,
   because it contains the id. */
struct word {
    const char *from, *to;
};
enum { N_WORDS = 6 };

static void list_words(struct project *project, struct word words[N_WORDS])
{
    struct pst_arena *arena = &project->arena;
    const bool turns = project->cpp && !project->own_cpp; /* from C into C++ */
    const char *none = "\n\n\n\n";                        /* in no template */

    words[0] = (struct word){pst_arena_printf(arena, "%s-my-plugin", project->kind), project->file};
    words[1] = (struct word){"my-plugin", project->id};
    words[2] = (struct word){"my_plugin", project->c_name};
    words[3] = (struct word){turns ? project->source : none, project->files[1]};
    words[4] =
        (struct word){turns ? "LANGUAGES C)" : none, "LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD 20)\n"
                                                     "set(CMAKE_CXX_STANDARD_REQUIRED ON)"};
    words[5] = (struct word){turns ? "cc -std=c11" : none, "c++ -std=c++20"};
}

static char *rename_all(struct project *project, const char *text, size_t *ret_length)
{
    struct word words[N_WORDS];
    char *out = NULL;
    FILE *file = open_memstream(&out, ret_length);

    if (file == NULL) {
        pst_out_of_memory();
    }
    list_words(project, words);
    while (*text != '\0') {
        size_t i = 0;

        while (i < N_WORDS && strncmp(text, words[i].from, strlen(words[i].from)) != 0) {
            i++;
        }
        if (i < N_WORDS) {
            fputs(words[i].to, file);
            text += strlen(words[i].from);
        } else {
            fputc(*text++, file);
        }
    }
    if (fclose(file) != 0) {
        pst_out_of_memory();
    }
    return out;
}

static pst_status copy_file(struct project *project, const char *source, const char *name,
                            struct pst_error *err)
{
    char from[PATH_MAX], to[PATH_MAX], *text = NULL, *renamed;
    size_t length;
    pst_status status;

    snprintf(from, sizeof from, "%s/%s", project->templates, source);
    snprintf(to, sizeof to, "%s/%s", project->folder, name);
    status = pst_file_read(from, TEMPLATE_MAX, "input.path", &text, &length, err);
    if (status != PST_OK) {
        pst_error_prefix(err, "the template is missing, reinstall penstock");
        return status;
    }
    renamed = rename_all(project, text, &length);
    free(text);
    status = pst_file_write(to, renamed, length, err);
    free(renamed);
    return status;
}

/* Any entry but itself and the one above. */
static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry = NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL &&
           (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return entry == NULL;
}

static pst_status make_folder(struct project *project, struct pst_error *err)
{
    project->made = mkdir(project->folder, 0777) == 0;
    if (!project->made && errno != EEXIST) {
        return pst_fail(err, PST_ERR_IO, "output.write", "%s: cannot be made: %s", project->folder,
                        strerror(errno));
    }
    if (!is_empty(project->folder)) {
        return pst_fail(err, PST_ERR_CONFIG, "output.write",
                        "%s is not empty; name another folder, or remove it", project->folder);
    }
    return PST_OK;
}

/* Takes away what was made. */
static void abandon(const struct project *project)
{
    char path[PATH_MAX];

    for (uint32_t i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", project->folder, project->files[i]);
        unlink(path);
    }
    if (project->made) {
        rmdir(project->folder);
    }
}

static const struct project *unfinished;

static void abandon_unfinished(void)
{
    abandon(unfinished);
}

static void project_json(const struct project *project, struct pst_json *json)
{
    pst_json_string(json, "folder", project->folder);
    pst_json_strings(json, "files", project->files, N_FILES);
}

static void print_next(const struct project *project)
{
    char package[PATH_MAX];

    if (realpath(project->package, package) == NULL) {
        snprintf(package, sizeof package, "%s", project->package);
    }
    pst_text_printf(stdout,
                    "%s has a complete %s, %s. Build it, check it, then edit it:\n\n"
                    "  cd %s\n"
                    "  cmake -B build -Dpenstock_DIR=%s\n"
                    "  cmake --build build\n"
                    "  penstock plugins check build/%s.so\n",
                    project->folder, project->kind, project->files[1], project->folder, package,
                    project->file);
}

void pst_plugins_new(struct pst_cli *cli, const struct pst_plugins_options *options)
{
    struct project project = {.kind = cli->arguments[1], .id = cli->arguments[2]};
    const char *slash;
    pst_status status;

    pst_cli_must(cli, check_words(&project, &cli->err));
    pst_cli_must(cli, check_language(&project, options->language, &cli->err));
    slash = strrchr(project.id, '/');
    project.folder = cli->n_arguments > 3 ? cli->arguments[3]
                     : slash != NULL      ? slash + 1
                                          : project.id;
    locate(&project);
    pst_cli_must(cli, make_folder(&project, &cli->err));
    unfinished = &project;
    pst_cli_undo = abandon_unfinished;
    status = copy_file(&project, project.files[0], project.files[0], &cli->err);
    PST_TRY(status, copy_file(&project, project.source, project.files[1], &cli->err));
    if (status != PST_OK) {
        abandon(&project);
    }
    pst_cli_must(cli, status);
    if (cli->json) {
        project_json(&project, &cli->answer);
    } else {
        print_next(&project);
        status = pst_cli_flush(&cli->err);
        if (status != PST_OK) {
            abandon(&project);
        }
        pst_cli_must(cli, status);
    }
    pst_cli_undo = NULL;
    pst_arena_finish(&project.arena);
}
