/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may include whom: strategies only <penstock/...> and their own folder; in core a folder only
 * those before it, and modules only base, model, device and transport. And core names no strategy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which they may use each other. */
static const char *const layers[] = {"base", "config", "model",  "cluster", "cost",
                                     "plan", "plugin", "sim",    "device",  "transport",
                                     "exec", "train",  "report", "check",   "cli"};
#define N_LAYERS (sizeof layers / sizeof layers[0])

static char *strategies[64]; /* "\"gpipe\"" */
static size_t n_strategies;
static unsigned n_files, n_faults;

static size_t layer_of(const char *name, size_t n)
{
    size_t i;

    for (i = 0; i < N_LAYERS; i++) {
        if (strlen(layers[i]) == n && strncmp(layers[i], name, n) == 0) {
            break;
        }
    }
    return i;
}

static void complain(const char *path, unsigned line, const char *what)
{
    print_message("%s:%u: %s", path, line, what);
    n_faults++;
}

/* device/cpu/..., transport/threads/...: loaded beside the program, so they know little of it. */
static bool is_module(const char *below_core)
{
    const char *slash = strchr(below_core, '/');

    return (strncmp(below_core, "device/", 7) == 0 || strncmp(below_core, "transport/", 10) == 0) &&
           strchr(slash + 1, '/') != NULL;
}

static bool is_for_modules(const char *layer)
{
    return strcmp(layer, "base") == 0 || strcmp(layer, "model") == 0 ||
           strcmp(layer, "device") == 0 || strcmp(layer, "transport") == 0;
}

/* `below_core`: path below core/ or NULL for a strategy. */
static void check_line(const char *path, const char *below_core, unsigned number, const char *line)
{
    const char *quoted = strstr(line, "#include \"");
    const char *slash;

    if (below_core == NULL) {
        if (quoted != NULL && strchr(quoted, '/') != NULL) {
            complain(path, number, line);
        }
        if (strncmp(line, "#include <penstock/", 19) != 0 &&
            strstr(line, "#include <penstock") != NULL) {
            complain(path, number, line);
        }
        return;
    }
    for (size_t i = 0; i < n_strategies; i++) {
        if (strstr(line, strategies[i]) != NULL && strstr(line, "/*") == NULL) {
            complain(path, number, line);
        }
    }
    slash = quoted == NULL ? NULL : strchr(quoted, '/');
    if (slash != NULL) {
        const char *name = quoted + strlen("#include \"");
        size_t used = layer_of(name, (size_t)(slash - name));
        size_t own = layer_of(below_core, strcspn(below_core, "/"));

        if (used < N_LAYERS && own < N_LAYERS && used > own) {
            complain(path, number, line);
        } else if (used < N_LAYERS && is_module(below_core) && !is_for_modules(layers[used])) {
            complain(path, number, line);
        }
    }
}

static int visit(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    const char *core = strstr(path, PENSTOCK_SOURCE_DIR "/core/");
    const char *dot = strrchr(path, '.');
    char line[1024];
    unsigned number = 0;
    FILE *file;

    (void)info;
    (void)ftw;
    if (kind != FTW_F || dot == NULL ||
        (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0 && strcmp(dot, ".cpp") != 0)) {
        return 0;
    }
    file = fopen(path, "r");
    assert_non_null(file);
    n_files++;
    while (fgets(line, sizeof line, file) != NULL) {
        check_line(path, core == NULL ? NULL : core + strlen(PENSTOCK_SOURCE_DIR "/core/"),
                   ++number, line);
    }
    fclose(file);
    return 0;
}

static int collect(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    const char *id = strrchr(path, '/') + 1;

    /* "offload" is an action and a capability first, and a memory optimizer's name as well. */
    if (kind == FTW_D && ftw->level == 1 && n_strategies < 64 && strcmp(id, "offload") != 0) {
        char *word = malloc(strlen(id) + 3);

        assert_non_null(word);
        sprintf(word, "\"%s\"", id);
        strategies[n_strategies++] = word;
    }
    return 0;
}

static void test_layers(void **state)
{
    static const char *const folders[] = {"partitioners", "schedulers", "memopt"};
    char path[512];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", PENSTOCK_SOURCE_DIR, folders[i]);
        assert_int_equal(nftw(path, collect, 8, FTW_PHYS), 0);
        assert_int_equal(nftw(path, visit, 8, FTW_PHYS), 0);
    }
    assert_true(n_strategies >= 6);
    snprintf(path, sizeof path, "%s/core", PENSTOCK_SOURCE_DIR);
    assert_int_equal(nftw(path, visit, 8, FTW_PHYS), 0);
    assert_true(n_files > 100);
    for (size_t i = 0; i < n_strategies; i++) {
        free(strategies[i]);
    }
    assert_int_equal(n_faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
