/* SPDX-License-Identifier: Apache-2.0 */
#include "host/plugin_host.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/memory.h"
#include "base/util.h"
#include "config/job.h"
#include "host/dl.h"
#include "host/search.h"

#define MAX_IDS 32

static const struct pst_module_known none;
static const struct pst_module_known *told = &none;

/* Id of the module that is used where the job names none. */
static const char *usual_id(const char *kind)
{
    const struct pst_module_known *k = told;

    while (k->kind != NULL && (strcmp(k->kind, kind) != 0 || (k->traits & PST_MODULE_USUAL) == 0)) {
        k++;
    }
    return k->kind != NULL ? k->id : "";
}

void pst_modules_set(const struct pst_module_known *known)
{
    told = known;
    pst_job_set_defaults(usual_id("device"), usual_id("transport"));
}

const struct pst_module_known *pst_modules_told(void)
{
    return told;
}

static bool is_module_id(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static const struct pst_module_known *find_known(const char *kind, const char *id)
{
    for (const struct pst_module_known *k = told; k->kind != NULL; k++) {
        if (strcmp(k->kind, kind) == 0 && strcmp(k->id, id) == 0) {
            return k;
        }
    }
    return NULL;
}

bool pst_module_has(const char *kind, const char *id, uint32_t trait)
{
    const struct pst_module_known *known = find_known(kind, id);

    return known != NULL && (known->traits & trait) != 0;
}

const char *pst_module_between(const char *device)
{
    const char *id = "";

    for (const struct pst_module_known *k = told; k->kind != NULL; k++) {
        if ((k->traits & PST_MODULE_PROCESSES) != 0 &&
            (k->device != NULL ? strcmp(k->device, device) == 0 : id[0] == '\0')) {
            id = k->id;
        }
    }
    return id;
}

/* The id in "KIND-ID.so"; NULL: another file. */
static const char *id_of_file(struct pst_arena *arena, const char *kind, const char *name)
{
    const size_t n_kind = strlen(kind), n = strlen(name);

    return n > n_kind + 4 && strncmp(name, kind, n_kind) == 0 && name[n_kind] == '-' &&
                   strcmp(name + n - 3, ".so") == 0
               ? pst_arena_strndup(arena, name + n_kind + 1, n - n_kind - 4)
               : NULL;
}

/* The modules of a kind that lie next to the binary, sorted; at most `max`. */
static void list_modules(struct pst_arena *arena, const char *kind, const char **ret_ids,
                         uint32_t max, uint32_t *ret_n)
{
    DIR *dir = opendir(pst_search_home(arena));
    const struct dirent *entry;

    *ret_n = 0;
    if (dir == NULL) {
        pst_heed_no_memory();
    }
    while (dir != NULL && *ret_n < max && (entry = readdir(dir)) != NULL) {
        const char *id = id_of_file(arena, kind, entry->d_name);

        if (id != NULL) {
            ret_ids[(*ret_n)++] = id;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    qsort(ret_ids, *ret_n, sizeof *ret_ids, pst_by_text);
}

/* There is no such file: a word that means something elsewhere, or none at all. */
static pst_status fail_absent(struct pst_arena *arena, const char *kind, const char *id,
                              struct pst_error *err)
{
    const struct pst_module_known *known = find_known(kind, id);
    const char *ids[MAX_IDS + 8];
    char hint[96];
    uint32_t n;
    pst_status status;

    list_modules(arena, kind, ids, MAX_IDS, &n);
    if (known != NULL && known->serves != NULL) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                          "this build has no %s \"%s\", which serves %s", kind, id, known->serves);
    } else {
        status = pst_fail(err, PST_ERR_CONFIG, "config.value", "no %s \"%s\"%s", kind, id,
                          pst_nearest_hint(hint, id, ids, n));
    }
    pst_error_hint_words(err, "this build has", ids, n);
    return status;
}

pst_status pst_module_check(const char *kind, const char *id, struct pst_error *err)
{
    struct pst_arena arena = {0};
    const char *ids[MAX_IDS + 8];
    uint32_t n;
    bool found = find_known(kind, id) != NULL;
    pst_status status;

    list_modules(&arena, kind, ids, MAX_IDS, &n);
    for (uint32_t i = 0; i < n && !found; i++) {
        found = strcmp(ids[i], id) == 0;
    }
    status = found ? PST_OK : fail_absent(&arena, kind, id, err);
    pst_arena_finish(&arena);
    return status;
}

/* Where the module runs out of memory, the program does. */
static void share_handler(void *module)
{
    void *function = pst_dl_symbol(module, "pst_on_out_of_memory");
    void (*set)(void (*handler)(void));

    if (function != NULL) {
        memcpy(&set, &function, sizeof set);
        set(pst_out_of_memory);
    }
}

pst_status pst_module_load(const char *kind, const char *id, const char *symbol,
                           void **ret_function, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_error why;
    char reason[512];
    char *path;
    const char *canonical;
    void *handle, *function;
    pst_status status;

    if (!is_module_id(id)) {
        status = fail_absent(&arena, kind, id, err);
        goto out;
    }
    path = pst_arena_printf(&arena, "%s/%s-%s.so", pst_search_home(&arena), kind, id);
    status = pst_search_secure(&arena, path, &canonical, &why);
    if (status != PST_OK) {
        status = strcmp(why.kind, "plugin.not-found") == 0 ? fail_absent(&arena, kind, id, err)
                                                           : pst_error_pass(err, &why);
        goto out;
    }
    if (!pst_dl_open(canonical, &handle, reason, sizeof reason)) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                          "%s \"%s\" cannot be used: %s", kind, id, reason);
        goto out;
    }
    pst_float_mode_reset(); /* a library that it brought may have changed it */
    function = pst_dl_symbol(handle, symbol);
    if (function == NULL) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                          "%s exports no %s; it belongs to another build of penstock", canonical,
                          symbol);
        goto out;
    }
    share_handler(handle);
    *ret_function = function;
out:
    pst_arena_finish(&arena);
    return status;
}
