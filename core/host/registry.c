/* SPDX-License-Identifier: Apache-2.0 */
#include "host/plugin_host.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "host/describe.h"
#include "host/search.h"

/* Sort key that breaks ties: position in the search order, kept in line until the end. */
static int compare(const void *a_, const void *b_)
{
    const struct pst_plugin_file *a = a_, *b = b_;
    int order = strcmp(a->kind, b->kind);

    if (order == 0) {
        order = strcmp(a->id, b->id);
    }
    if (order == 0) {
        order = a->refusal.line < b->refusal.line ? -1 : a->refusal.line > b->refusal.line;
    }
    return order;
}

static pst_status scan_folder(struct pst_plugin_list *list, uint32_t folder, bool must_be,
                              size_t *room, struct pst_error *err)
{
    DIR *dir = opendir(list->folders[folder]);
    const struct dirent *entry;
    pst_status status = PST_OK;

    if (dir == NULL && !must_be && (errno == ENOENT || errno == ENOTDIR)) {
        return PST_OK; /* a folder that is not there holds nothing */
    }
    if (dir == NULL) {
        pst_heed_no_memory();
        return pst_fail_at(err, PST_ERR_CONFIG, "plugin.not-found", list->folders[folder], 0, 0,
                           "cannot open the folder of plugins: %s", strerror(errno));
    }
    while (status == PST_OK && (entry = readdir(dir)) != NULL) {
        const char *kind, *id = NULL;
        struct pst_plugin_file *file;

        if (entry->d_type == DT_DIR || !pst_search_split(&list->arena, entry->d_name, &kind, &id)) {
            continue;
        }
        pst_grow(&list->files, room, list->n_files, sizeof *file);
        file = &list->files[list->n_files++];
        *file = (struct pst_plugin_file){.kind = kind, .id = id};
        file->refusal.line = folder; /* until sorted */
        file->path = pst_arena_printf(&list->arena, "%s/%s", list->folders[folder], entry->d_name);
    }
    closedir(dir);
    return status;
}

static void mark_shadowed(struct pst_plugin_list *list)
{
    const struct pst_plugin_file *winner = NULL;
    uint32_t i;

    for (i = 0; i < list->n_files; i++) {
        struct pst_plugin_file *file = &list->files[i];

        file->refusal.line = 0;
        if (winner != NULL && strcmp(winner->kind, file->kind) == 0 &&
            strcmp(winner->id, file->id) == 0) {
            file->shadowed_by = winner->path;
        } else {
            winner = file;
        }
    }
}

pst_status pst_plugin_list_create(const char *folders, struct pst_plugin_list **ret_list,
                                  struct pst_error *err)
{
    struct pst_plugin_list *list = pst_alloc(1, sizeof *list);
    uint32_t n_first;
    size_t room = 0;
    pst_status status = PST_OK;

    pst_search_folders(&list->arena, folders, &list->folders, &n_first, &list->n_folders);
    for (uint32_t i = 0; status == PST_OK && i < list->n_folders; i++) {
        status = scan_folder(list, i, i < n_first, &room, err);
    }
    if (status != PST_OK) {
        pst_plugin_list_destroy(list);
        return status;
    }
    if (list->n_files > 0) {
        qsort(list->files, list->n_files, sizeof *list->files, compare);
    }
    mark_shadowed(list);
    *ret_list = list;
    return PST_OK;
}

void pst_plugin_file_describe(struct pst_plugin_list *list, struct pst_plugin_file *file)
{
    struct pst_shipped shipped = {.is = false};

    if (pst_plugin_describe(&list->arena, file->path, file->kind, file->id, PST_DESCRIBE_NS,
                            &file->plugin, &shipped, &file->refusal) != PST_OK) {
        file->plugin = NULL;
    }
    file->shipped = shipped.is;
    file->why_not_shipped = pst_arena_strdup(&list->arena, shipped.why_not);
}

void pst_plugin_list_destroy(struct pst_plugin_list *list)
{
    if (list == NULL) {
        return;
    }
    free(list->files);
    pst_arena_finish(&list->arena);
    free(list);
}

/* The file of that name that wins, for they are sorted; n_files: there is none. */
static uint32_t find_name(const struct pst_plugin_list *list, const char *kind, const char *id)
{
    uint32_t i = 0;

    while (i < list->n_files &&
           (strcmp(list->files[i].kind, kind) != 0 || strcmp(list->files[i].id, id) != 0)) {
        i++;
    }
    return i;
}

static void add_folders(const struct pst_plugin_list *list, struct pst_error *err)
{
    for (uint32_t i = 0; i < list->n_folders; i++) {
        pst_error_detail(err, "searched: %s\n", list->folders[i]);
    }
}

static pst_status not_found(const struct pst_plugin_list *list, const char *kind, const char *id,
                            struct pst_error *err)
{
    const char **names = pst_alloc(list->n_files + 1, sizeof *names);
    char hint[96];
    uint32_t i, n = 0;
    pst_status status;

    for (i = 0; i < list->n_files; i++) {
        if (strcmp(list->files[i].kind, kind) == 0) {
            names[n++] = list->files[i].id;
        }
    }
    status = pst_fail(err, PST_ERR_CONFIG, "plugin.not-found",
                      "no %s \"%s\"%s \"penstock plugins\" lists them", kind, id,
                      pst_nearest_hint(hint, id, names, n)[0] == '\0' ? ";" : hint);
    add_folders(list, err);
    free(names);
    return status;
}

/* The file that is meant: `path`, or the one of that name that wins, and the next one of that name
   (NULL: there is none); "": there is none, which fails where it is needed. Live in the arena. */
static pst_status find_file(struct pst_arena *arena, const char *kind, const char *id,
                            const char *path, const char *folders, bool needed,
                            const char **ret_file, const char **ret_shadowed, struct pst_error *err)
{
    struct pst_plugin_list *list;
    uint32_t i;
    pst_status status;

    *ret_file = path;
    *ret_shadowed = NULL;
    if (path != NULL) {
        return PST_OK;
    }
    status = pst_plugin_list_create(folders, &list, err);
    if (status != PST_OK) {
        return status;
    }
    i = find_name(list, kind, id);
    *ret_file = i < list->n_files ? pst_arena_strdup(arena, list->files[i].path) : "";
    if (i + 1 < list->n_files && list->files[i + 1].shadowed_by != NULL) {
        *ret_shadowed = pst_arena_strdup(arena, list->files[i + 1].path);
    }
    if (i == list->n_files && needed) {
        status = not_found(list, kind, id, err);
    }
    pst_plugin_list_destroy(list);
    return status;
}

const char *pst_plugin_where(struct pst_arena *arena, const char *kind, const char *id,
                             const char *folders)
{
    const char *file, *shadowed;

    return find_file(arena, kind, id, NULL, folders, false, &file, &shadowed, NULL) == PST_OK ? file
                                                                                              : "";
}

pst_status pst_plugin_find(const char *kind, const char *id, const char *path, const char *folders,
                           const struct pst_plugin **ret_plugin, struct pst_error *err)
{
    struct pst_arena arena = {0};
    const char *file, *shadowed;
    pst_status status = find_file(&arena, kind, id, path, folders, true, &file, &shadowed, err);

    PST_TRY(status, pst_plugin_open(file, kind, id, ret_plugin, err));
    pst_arena_finish(&arena);
    return status;
}

static void tell_shadowed(struct pst_arena *arena, const char *kind, const char *id,
                          const char *file, const char *shadowed)
{
    pst_log_once(
        PST_LOG_WARN, "plugin",
        pst_arena_printf(arena, "%s \"%s\" is %s, which hides %s", kind, id, file, shadowed));
}

pst_status pst_plugin_is_foreign(const char *kind, const char *id, const char *path,
                                 const char *folders, uint64_t most_ns, bool *ret_foreign,
                                 struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_shipped shipped;
    const char *file, *shadowed;
    pst_status status = find_file(&arena, kind, id, path, folders, false, &file, &shadowed, err);

    if (status == PST_OK && shadowed != NULL) {
        tell_shadowed(&arena, kind, id, file, shadowed);
    }
    if (status == PST_OK && file[0] != '\0') {
        pst_shipped_find(file, &shipped);
        if (!shipped.is) {
            pst_log(PST_LOG_INFO, "plugin", "%s (%s) %s", kind, file, shipped.why_not);
            *ret_foreign = true;
            status = pst_plugin_check_loading(file, kind, id, most_ns, err);
        }
    }
    pst_arena_finish(&arena);
    return status;
}

/* Names the words that are built in, then the files of the list. */
static pst_status fail_unknown(const char *kind, const struct pst_config_node *use,
                               const struct pst_plugin_list *list, const char *const *own,
                               uint32_t n_own, struct pst_error *err)
{
    const char *names[64];
    uint32_t n = n_own;
    char hint[96];

    memcpy(names, own, n_own * sizeof *names);
    for (uint32_t i = 0; n < 64 && i < list->n_files; i++) {
        const struct pst_plugin_file *file = &list->files[i];
        bool listed = false; /* a plugin may stand for a word that is built in */

        for (uint32_t k = 0; k < n_own; k++) {
            listed = listed || strcmp(own[k], file->id) == 0;
        }
        if (strcmp(file->kind, kind) == 0 && file->shadowed_by == NULL && !listed) {
            names[n++] = file->id;
        }
    }
    pst_fail_at(err, PST_ERR_CONFIG, "config.value", use->file, use->line, use->column,
                "no %s \"%s\"%s", kind, use->value.string,
                pst_nearest_hint(hint, use->value.string, names, n));
    pst_error_hint_words(err, "there are", names, n);
    add_folders(list, err);
    return PST_ERR_CONFIG;
}

pst_status pst_plugin_is_known(const char *kind, const struct pst_config_node *use,
                               const char *folders, const char *const *own, uint32_t n_own,
                               struct pst_error *err)
{
    struct pst_plugin_list *list = NULL;
    pst_status status = pst_plugin_list_create(folders, &list, err);

    if (status != PST_OK) {
        return status;
    }
    if (find_name(list, kind, use->value.string) == list->n_files) {
        status = fail_unknown(kind, use, list, own, n_own, err);
    }
    pst_plugin_list_destroy(list);
    return status;
}
