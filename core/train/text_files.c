/* SPDX-License-Identifier: Apache-2.0 */
#include "train/data_impl.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"

#define MAX_TEXT ((uint64_t)1 << 30)

/* Grows with each file. */
struct gathered {
    const char *key;
    char *text;
    uint64_t length;
    struct {
        dev_t device;
        ino_t inode;
    } * seen;
    size_t n_seen, seen_capacity;
    struct pst_error *err;
};

static pst_status fail(struct gathered *g, pst_status status, const char *kind, const char *name,
                       const char *why)
{
    return pst_fail(g->err, status, kind, "%s: \"%s\"%s", g->key, name, why);
}

static bool already_seen(const struct gathered *g, const struct stat *info)
{
    for (size_t i = 0; i < g->n_seen; i++) {
        if (g->seen[i].device == info->st_dev && g->seen[i].inode == info->st_ino) {
            return true;
        }
    }
    return false;
}

static pst_status append(struct gathered *g, const char *path)
{
    char *bytes = NULL, *grown;
    size_t length = 0;
    pst_status st = pst_file_read(path, (size_t)MAX_TEXT, "input.path", &bytes, &length, g->err);

    if (st != PST_OK) {
        pst_error_prefix(g->err, "%s", g->key);
        return st;
    }
    if (g->length + length > MAX_TEXT) {
        free(bytes);
        return fail(g, PST_ERR_CONFIG, "input.limit", path,
                    " brings the text above 1 GiB, the most that is held in memory");
    }
    grown = pst_resize(g->text, g->length + length + 1, 1);
    memcpy(grown + g->length, bytes, length);
    g->text = grown;
    g->length += length;
    g->text[g->length] = '\0';
    free(bytes);
    return PST_OK;
}

/* A glob may meet folders, empty files and second names of a file: those are passed over. What was
   named outright must be a file with something in it. */
static pst_status take(struct gathered *g, const char *path, bool named)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        return named ? fail(g, PST_ERR_IO, "input.path", path, " cannot be read") : PST_OK;
    }
    if (!S_ISREG(info.st_mode)) {
        return named ? fail(g, PST_ERR_CONFIG, "input.path", path, " is not a regular file")
                     : PST_OK;
    }
    if (info.st_size == 0) {
        return named ? fail(g, PST_ERR_CONFIG, "input.syntax", path, " is empty") : PST_OK;
    }
    if (already_seen(g, &info)) {
        return PST_OK;
    }
    pst_grow(&g->seen, &g->seen_capacity, g->n_seen, sizeof *g->seen);
    g->seen[g->n_seen].device = info.st_dev;
    g->seen[g->n_seen].inode = info.st_ino;
    g->n_seen++;
    return append(g, path);
}

/* Adds the matches of one pattern to `found`. A plain name must exist; a glob may match nothing. */
static pst_status expand(struct gathered *g, const char *pattern, int flags, glob_t *found)
{
    int rc = glob(pattern, flags, NULL, found);

    if (rc == GLOB_NOSPACE) {
        pst_out_of_memory();
    }
    if (rc != 0 && strpbrk(pattern, "*?[") == NULL) {
        return fail(g, PST_ERR_IO, "input.path", pattern, ": there is no such file");
    }
    return PST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Was this path written out in the list, rather than matched by a glob? */
static bool is_named(const char *patterns, const char *path)
{
    size_t n = strlen(path);

    for (const char *p = patterns; (p = strstr(p, path)) != NULL; p++) {
        if ((p == patterns || p[-1] == ':') && (p[n] == ':' || p[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static pst_status expand_all(struct gathered *g, const char *patterns, glob_t *found)
{
    char *copy = pst_strdup(patterns), *rest = copy, *pattern;
    int flags = GLOB_NOSORT;
    pst_status st = PST_OK;

    while (st == PST_OK && (pattern = strsep(&rest, ":")) != NULL) {
        if (pattern[0] != '\0') {
            st = expand(g, pattern, flags, found);
            flags |= GLOB_APPEND;
        }
    }
    free(copy);
    if (st == PST_OK && found->gl_pathc == 0) {
        st = fail(g, PST_ERR_IO, "input.path", patterns, ": no file matches");
    }
    return st;
}

pst_status pst_text_files_read(const char *patterns, const char *key, char **ret_text,
                               uint64_t *ret_length, struct pst_error *err)
{
    struct gathered g = {.key = key, .err = err};
    glob_t found = {0};
    pst_status st;

    if (patterns == NULL || patterns[0] == '\0') {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "%s: names no file; give files or globs, separated by ':'", key);
    }
    st = expand_all(&g, patterns, &found);
    if (st == PST_OK) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_name);
    }
    for (size_t i = 0; st == PST_OK && i < found.gl_pathc; i++) {
        st = take(&g, found.gl_pathv[i], is_named(patterns, found.gl_pathv[i]));
    }
    if (st == PST_OK && g.length == 0) {
        st = fail(&g, PST_ERR_CONFIG, "input.syntax", patterns, ": no text in any of these files");
    }
    globfree(&found);
    free(g.seen);
    if (st != PST_OK) {
        free(g.text);
        return st;
    }
    *ret_text = g.text;
    *ret_length = g.length;
    return PST_OK;
}
