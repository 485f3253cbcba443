/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of error that the sources name stands in docs/commands.md, which promises that kinds
 * do not change.
 */
#include "test.h"

#include <ftw.h>

/* The first words of kinds. Those of bugs ("model.build", "transport.size") reach a user as
   "internal". */
static const char *const families[] = {"config.",  "input.",  "plugin.", "plan.",
                                       "machine.", "output.", "run."};

static char docs[1 << 16];
static unsigned n_found, n_faults;

static const char *family_of(const char *text)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strncmp(text, families[i], strlen(families[i])) == 0) {
            return families[i];
        }
    }
    return NULL;
}

/* "config.key" with its quotes; neither a sentence nor the name of a header. */
static void look_at(const char *path, const char *quote)
{
    size_t n = strspn(quote + 1, "abcdefghijklmnopqrstuvwxyz.-");
    char kind[64], cell[80];

    if (quote[1 + n] != '"' || n >= sizeof kind - 1 || family_of(quote + 1) == NULL ||
        strncmp(quote + n - 1, ".h", 2) == 0) {
        return;
    }
    snprintf(kind, sizeof kind, "%.*s", (int)n, quote + 1);
    if (strchr(kind, '.')[1] == '\0') {
        return; /* a family alone */
    }
    n_found++;
    snprintf(cell, sizeof cell, "`%s`", kind);
    if (strcmp(kind, "run.cancelled") != 0 && strstr(docs, cell) == NULL) {
        fprintf(stderr, "%s: %s is not in docs/commands.md\n", path, cell);
        n_faults++;
    }
}

static int visit(const char *path, const struct stat *info, int type, struct FTW *where)
{
    static char text[1 << 17];
    const char *end = strrchr(path, '.');
    FILE *file;
    size_t n;

    if (type != FTW_F || end == NULL || strcmp(end, ".c") != 0) {
        return 0;
    }
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    for (const char *at = text; (at = strchr(at, '"')) != NULL; at++) {
        look_at(path, at);
    }
    return 0;
}

TEST(test_kinds)
{
    FILE *file = fopen(PENSTOCK_SOURCE_DIR "/docs/commands.md", "rb");

    assert_non_null(file);
    assert_true(fread(docs, 1, sizeof docs - 1, file) > 1000);
    fclose(file);
    assert_int_equal(nftw(PENSTOCK_SOURCE_DIR "/core", visit, 16, FTW_PHYS), 0);
    assert_true(n_found > 100);
    assert_int_equal(n_faults, 0);
}
