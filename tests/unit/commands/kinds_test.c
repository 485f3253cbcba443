/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kinds, the kinds that the sources name and those in docs/commands.md, which promises
 * that they do not change: the same words with the same exit codes.
 */
#include "test.h"

#include <ftw.h>

#include "base/error_kinds.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyz.-"

static unsigned n_found, n_faults;

static bool has_row(const char *kind)
{
    for (size_t i = 0; i < pst_n_kinds; i++) {
        if (pst_kinds[i].kind != NULL && strcmp(pst_kinds[i].kind, kind) == 0) {
            return true;
        }
    }
    return false;
}

/* "config." where some kind begins so; tokenizer.json has fields of that form, and jobs have keys.
 */
static bool is_family(const char *path, const char *text)
{
    if (strstr(path, "/job_words.c") != NULL) {
        return false;
    }
    size_t n = strcspn(text, ".") + 1;

    for (size_t i = 0; i < pst_n_kinds; i++) {
        if (pst_kinds[i].kind != NULL && strncmp(pst_kinds[i].kind, text, n) == 0 &&
            strncmp(text, "data.", 5) != 0 &&
            !(strncmp(text, "model.", 6) == 0 && strstr(path, "/tokenizer_read.c") != NULL)) {
            return true;
        }
    }
    return false;
}

/* Does a failure with a status take it as its kind? */
static bool is_argument(const char *text, const char *quote)
{
    while (quote > text && strchr(" \n", quote[-1]) != NULL) {
        quote--;
    }
    if (quote == text || *--quote != ',') {
        return false;
    }
    while (quote > text && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", quote[-1]) != NULL) {
        quote--;
    }
    return strncmp(quote, "PST_ERR_", 8) == 0;
}

/* "config.key" with its quotes; neither a sentence nor the name of a header. */
static void look_at(const char *path, const char *text, const char *quote)
{
    size_t n = strspn(quote + 1, LETTERS);
    char kind[64];

    if (quote[1 + n] != '"' || n == 0 || n >= sizeof kind || strncmp(quote + n - 1, ".h", 2) == 0) {
        return;
    }
    snprintf(kind, sizeof kind, "%.*s", (int)n, quote + 1);
    if (!is_argument(text, quote) &&
        (strchr(kind, '.') == NULL || strchr(kind, '.')[1] == '\0' || !is_family(path, kind))) {
        return;
    }
    n_found++;
    if (!has_row(kind)) {
        fprintf(stderr, "%s: %s is no row of core/base/error_kinds.c\n", path, kind);
        n_faults++;
    }
}

static int visit(const char *path, const struct stat *info, int type, struct FTW *where)
{
    static char text[1 << 17];
    const char *end = strrchr(path, '.');
    FILE *file;
    size_t n;

    if (type != FTW_F || end == NULL || (strcmp(end, ".c") != 0 && strcmp(end, ".cu") != 0)) {
        return 0;
    }
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    for (const char *at = text; (at = strchr(at, '"')) != NULL; at++) {
        look_at(path, text, at);
    }
    return 0;
}

TEST(test_sources)
{
    static const char *const folders[] = {
        "core",           "verify",         "models",           "train",
        "tools/penstock", "plugins/device", "plugins/transport"};
    char path[512];

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", PENSTOCK_SOURCE_DIR, folders[i]);
        assert_int_equal(nftw(path, visit, 16, FTW_PHYS), 0);
    }
    assert_true(n_found > 400);
    assert_int_equal(n_faults, 0);
}

/* The row of docs that names the kind, or NULL; its end is at the end of the line. */
static const char *find_line(const char *docs, const char *kind)
{
    static char line[2048];
    char cell[80];
    const char *table = strstr(docs, "| kind | when | code |"), *at, *begin;

    assert_non_null(table);
    snprintf(cell, sizeof cell, "`%s`", kind);
    for (at = table; (at = strstr(at, cell)) != NULL; at++) {
        for (begin = at; begin[-1] != '\n'; begin--) {
        }
        if (begin[0] == '|' && memchr(begin + 1, '|', (size_t)(at - begin - 1)) == NULL) {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(begin, "\n"), begin);
            return line;
        }
    }
    return NULL;
}

/* Bugs reach a user as "internal", and a search that is stopped as "run.stopped". */
static bool is_told(const struct pst_kind *row)
{
    return row->kind != NULL && strcmp(row->kind, "run.cancelled") != 0 &&
           (row->exit_code != PST_EXIT_BUG || strcmp(row->kind, "internal") == 0);
}

/* Is the code in the last column, or "(in that case: 4)" in another? */
static bool says(const char *line, int exit_code)
{
    const char *cell = strrchr(line, '|');
    char code[16];

    snprintf(code, sizeof code, ": %d)", exit_code);
    if (strstr(line, code) != NULL) {
        return true;
    }
    while (cell > line && cell[-1] != '|') {
        cell--;
    }
    for (; *cell != '\0'; cell++) {
        if (*cell >= '0' && *cell <= '9') {
            char *end;

            if (strtol(cell, &end, 10) == exit_code) {
                return true;
            }
            cell = end - 1;
        }
    }
    return false;
}

TEST(test_docs)
{
    static char docs[1 << 17];
    FILE *file = fopen(PENSTOCK_SOURCE_DIR "/docs/commands.md", "rb");

    assert_non_null(file);
    assert_true(fread(docs, 1, sizeof docs - 1, file) > 1000);
    fclose(file);
    for (size_t i = 0; i < pst_n_kinds; i++) {
        const struct pst_kind *row = &pst_kinds[i];
        const char *line = row->kind == NULL ? NULL : find_line(docs, row->kind);

        if (!is_told(row)) {
            continue;
        }
        if (line == NULL) {
            fail_msg("%s is not in docs/commands.md", row->kind);
        }
        if (strcmp(row->kind, "run.stopped") != 0 && !says(line, row->exit_code)) {
            fail_msg("%s has another exit code in docs/commands.md than %d", row->kind,
                     row->exit_code);
        }
    }
}
