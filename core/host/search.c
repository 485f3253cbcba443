/* SPDX-License-Identifier: Apache-2.0
 *
 * Where plugins and modules lie, and who could have put them there.
 */
#include "host/search.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"

static bool has_raised_rights(void)
{
    return getauxval(AT_SECURE) != 0 || getuid() != geteuid() || getgid() != getegid();
}

static bool holds_shared_objects(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    bool found = false;

    if (dir == NULL) {
        pst_heed_no_memory();
        return errno != ENOENT && errno != ENOTDIR; /* whoever reads it says what is wrong */
    }
    while (!found && (entry = readdir(dir)) != NULL) {
        found = strchr(entry->d_name, '-') != NULL && pst_text_ends(entry->d_name, ".so");
    }
    closedir(dir);
    return found;
}

/* The first folder of the pattern that holds something; NULL if none does. */
static char *first_match(struct pst_arena *arena, const char *pattern)
{
    glob_t matches;
    char *folder = NULL;
    size_t i;

    if (pst_glob(pattern, 0, &matches) != 0) {
        return NULL;
    }
    for (i = 0; folder == NULL && i < matches.gl_pathc; i++) {
        if (holds_shared_objects(matches.gl_pathv[i])) {
            folder = pst_arena_strdup(arena, matches.gl_pathv[i]);
        }
    }
    globfree(&matches);
    return folder;
}

/* Is the executable inside the build tree that this code was compiled in? */
static bool in_build_tree(const char *exe)
{
    const char *plugins = PENSTOCK_BUILD_PLUGIN_DIR;
    const char *slash = strrchr(plugins, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - plugins);

    return n > 0 && strncmp(exe, plugins, n) == 0 && exe[n] == '/';
}

const char *pst_search_home(struct pst_arena *arena)
{
    static const char *const installed[] = {"lib/penstock", "lib64/penstock", "lib/*/penstock"};
    char exe[PATH_MAX];
    ssize_t n;
    size_t i;
    char *slash, *folder;

    if (has_raised_rights()) {
        return PENSTOCK_INSTALL_PLUGIN_DIR;
    }
    n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) {
        return PENSTOCK_INSTALL_PLUGIN_DIR;
    }
    exe[n] = '\0';
    if (in_build_tree(exe)) {
        return PENSTOCK_BUILD_PLUGIN_DIR;
    }
    slash = strrchr(exe, '/');
    *slash = '\0';
    folder = pst_arena_printf(arena, "%s/plugins", exe);
    if (holds_shared_objects(folder)) {
        return folder;
    }
    slash = strrchr(exe, '/');
    if (slash != NULL) { /* from bin up */
        *slash = '\0';
    }
    for (i = 0; i < sizeof installed / sizeof installed[0]; i++) {
        const char *pattern = pst_arena_printf(arena, "%s/%s", exe, installed[i]);
        folder = first_match(arena, pattern);
        if (folder != NULL) {
            return folder;
        }
    }
    return PENSTOCK_INSTALL_PLUGIN_DIR;
}

const char *pst_search_data(struct pst_arena *arena, const char *name)
{
    const char *home = pst_search_home(arena), *lib = NULL;
    const size_t n = strlen(home), beside = sizeof "/plugins" - 1;

    if (n > beside && strcmp(home + n - beside, "/plugins") == 0) {
        return pst_arena_printf(arena, "%.*s/%s", (int)(n - beside), home, name);
    }
    for (const char *at = home; (at = strstr(at, "/lib")) != NULL; at++) {
        lib = at; /* the last in <prefix>/lib[/<machine>]/penstock */
    }
    return lib == NULL
               ? pst_arena_printf(arena, PENSTOCK_INSTALL_DATA_DIR "/%s", name)
               : pst_arena_printf(arena, "%.*s/share/penstock/%s", (int)(lib - home), home, name);
}

/* The entries of a list that `parts` part; NULL: there are none. */
static void add_folders(struct pst_arena *arena, const char *list, const char *parts, bool absolute,
                        const char **folders, uint32_t *n)
{
    for (const char *c = list; c != NULL && *c != '\0';) {
        size_t length = strcspn(c, parts);

        if (length > 0 && absolute && *c != '/') {
            pst_log(PST_LOG_WARN, "plugin",
                    "PENSTOCK_PLUGIN_PATH: \"%.*s\" is not an absolute path and is left out",
                    (int)length, c);
        } else if (length > 0) {
            folders[(*n)++] = pst_arena_strndup(arena, c, length);
        }
        c += length + (c[length] != '\0');
    }
}

static size_t count_parts(const char *list)
{
    size_t n = 1;

    for (const char *c = list; c != NULL && *c != '\0'; c++) {
        n += *c == ':' || *c == '\n';
    }
    return n;
}

void pst_search_folders(struct pst_arena *arena, const char *first, const char ***ret_folders,
                        uint32_t *ret_n_first, uint32_t *ret_n_folders)
{
    const char *path = has_raised_rights() ? NULL : getenv("PENSTOCK_PLUGIN_PATH");
    const char **folders =
        pst_arena_array(arena, count_parts(first) + count_parts(path) + 1, sizeof *folders);
    uint32_t n = 0;

    add_folders(arena, first, ":\n", false, folders, &n);
    *ret_n_first = n;
    add_folders(arena, path, ":", true, folders, &n);
    folders[n++] = pst_search_home(arena);
    *ret_folders = folders;
    *ret_n_folders = n;
}

bool pst_search_is_file(const char *name)
{
    return pst_text_ends(name, ".so") || name[0] == '/' || strncmp(name, "./", 2) == 0 ||
           strncmp(name, "../", 3) == 0;
}

/* Returns true if n bytes are an id that has this character between vendor and name. */
static bool is_id(const char *text, size_t n, char slash)
{
    static const char signs[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t word = strspn(text, signs);

    if (word > 0 && word < n && text[word] == slash) {
        size_t second = strspn(text + word + 1, signs);

        word += second > 0 ? 1 + second : 0;
    }
    return n > 0 && word >= n;
}

bool pst_search_is_id(const char *id)
{
    return is_id(id, strlen(id), '/');
}

static char *exchange(char *text, char from, char to)
{
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == from ? to : *c;
    }
    return text;
}

char *pst_search_join(struct pst_arena *arena, const char *kind, const char *id)
{
    return exchange(pst_arena_printf(arena, "%s-%s.so", kind, id), '/', '.');
}

bool pst_search_split(struct pst_arena *arena, const char *file_name, const char **ret_kind,
                      const char **ret_id)
{
    static const char *const kinds[] = {"partitioner", "scheduler", "memopt",
                                        "model",       "data",      "operator"};
    size_t i, n = strlen(file_name);

    *ret_kind = NULL;
    if (!pst_text_ends(file_name, ".so")) {
        return false;
    }
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t k = strlen(kinds[i]);

        if (strncmp(file_name, kinds[i], k) != 0 || file_name[k] != '-' || n <= k + 4) {
            continue;
        }
        if (!is_id(file_name + k + 1, n - k - 4, '.')) {
            return false;
        }
        *ret_kind = kinds[i];
        *ret_id = exchange(pst_arena_strndup(arena, file_name + k + 1, n - k - 4), '.', '/');
        return true;
    }
    return false;
}

/* --- may it be trusted? -----------------------------------------------------------------------*/

/* Whoever may write it, beside root and the effective user and that user's own group. `use`: what
   is done with the file, for the message. */
static pst_status check_owner(const char *path, const char *what, const char *use,
                              const struct stat *info, struct pst_error *err)
{
    if (info->st_uid != 0 && info->st_uid != geteuid()) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure",
                        "%s: this %s is owned by user %u; it must be owned by root or you: %s only "
                        "from places that nobody else can change",
                        path, what, (unsigned)info->st_uid, use);
    }
    if ((info->st_mode & S_IWOTH) != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure",
                        "%s: this %s can be written by everybody; \"chmod o-w %s\" helps, or move "
                        "it elsewhere",
                        path, what, path);
    }
    if ((info->st_mode & S_IWGRP) != 0 && info->st_gid != 0 && info->st_gid != getegid()) {
        return pst_fail(
            err, PST_ERR_CONFIG, "plugin.insecure",
            "%s: this %s can be written by group %u, which is not your own; \"chmod g-w "
            "%s\" helps, or move it elsewhere",
            path, what, (unsigned)info->st_gid, path);
    }
    return PST_OK;
}

/*
 * Every folder from `folder` (which is overwritten) up to the root. A sticky one that all may write
 * to, such as /tmp, is no place for the plugin itself but may stand higher up: there nobody else
 * can exchange the folder that holds it.
 */
static pst_status check_folders(char *folder, const char *use, struct pst_error *err)
{
    for (bool first = true;; first = false) {
        struct stat info;
        char *slash;
        pst_status status;

        if (stat(folder, &info) != 0) {
            return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure", "%s: %s", folder,
                            strerror(errno));
        }
        if (!first && (info.st_mode & S_ISVTX) != 0) {
            info.st_mode &= ~(mode_t)(S_IWOTH | S_IWGRP);
        }
        status = check_owner(folder, "folder", use, &info, err);
        if (status != PST_OK || strcmp(folder, "/") == 0) {
            return status;
        }
        slash = strrchr(folder, '/');
        slash[slash == folder ? 1 : 0] = '\0';
    }
}

/* The program's own folder: whoever can change it can exchange the program as well. */
static bool is_home(struct pst_arena *arena, const char *folder)
{
    const char *home = pst_search_home(arena);
    char real[PATH_MAX];

    return home != NULL && realpath(home, real) != NULL && strcmp(real, folder) == 0;
}

/* There is no such file, or what it is cannot be told. */
static pst_status fail_absent(const char *path, struct pst_error *err)
{
    const int code = errno;

    return code == ENOENT || code == ENOTDIR
               ? pst_fail(err, PST_ERR_CONFIG, "plugin.not-found", "%s: %s", path, strerror(code))
               : pst_fail(err, PST_ERR_CONFIG, "plugin.insecure", "%s cannot be inspected: %s",
                          path, strerror(code));
}

pst_status pst_search_trusted(struct pst_arena *arena, const char *path, const char *use,
                              bool own_home, const char **ret_path, struct pst_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    char *given = slash == NULL   ? pst_arena_strdup(arena, ".")
                  : slash == path ? pst_arena_strdup(arena, "/")
                                  : pst_arena_strndup(arena, path, (size_t)(slash - path));
    char folder[PATH_MAX];
    struct stat info;
    char *full;
    pst_status status;

    if (realpath(given, folder) == NULL) {
        pst_heed_no_memory();
        return fail_absent(path, err);
    }
    full = pst_arena_printf(arena, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
    if (lstat(full, &info) != 0) {
        return fail_absent(full, err);
    }
    if (!S_ISREG(info.st_mode)) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.insecure",
                        "%s: not a regular file (links are not followed)", full);
    }
    if (!own_home || !is_home(arena, folder)) {
        status = check_owner(full, "file", use, &info, err);
        PST_TRY(status, check_folders(folder, use, err));
        if (status != PST_OK) {
            return status;
        }
    }
    *ret_path = full;
    return PST_OK;
}

pst_status pst_search_secure(struct pst_arena *arena, const char *path, const char **ret_path,
                             struct pst_error *err)
{
    return pst_search_trusted(arena, path, "plugins are loaded", true, ret_path, err);
}
