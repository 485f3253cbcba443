/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may include whom: strategies, and data, only <penstock/...> and their own folder; models
 * base, graph and their own folder; in core and in the program a folder only those before it, the
 * program after core; modules base, graph and what exec is to them. None of them names a strategy,
 * nor core a module. What is particular to a kind of operator is in its row (core/graph/ops) or a
 * kernel, or of the ways of being divided: nothing else distinguishes kinds by a switch or a table.
 */
#include "test.h"

#include <ftw.h>

/* In the order in which they may use each other: core, its judges, training, the modules, the
 * program. */
static const char *const layers[] = {
    "base",       "config",   "graph",       "plan",    "host",      "planner", "exec",
    "session",    "prove",    "sim",         "models",  "job",       "data",    "weights",
    "checkpoint", "generate", "loop",        "device",  "transport", "ask",     "measure",
    "tune",       "exchange", "conformance", "reports", "figures",   "page",    "commands"};
static const char *const roots[] = {"/core/",          "/models/",         "/verify/",
                                    "/train/",         "/plugins/device/", "/plugins/transport/",
                                    "/tools/penstock/"};
enum { MODELS = 1 }; /* among them */
/* What exec is to a module: interfaces, and arithmetic that all devices share. */
static const char *const for_modules[] = {"base/",
                                          "graph/",
                                          "device/",
                                          "transport/",
                                          "exec/device.h",
                                          "exec/transport.h",
                                          "exec/kernels_early.h"};
#define N_LAYERS (sizeof layers / sizeof layers[0])

static char *strategies[64]; /* "\"gpipe\"" */
static size_t n_strategies;
/* Words that mean something else as well: a function of maps, how positions are scaled. */
static const char *const other_words[][2] = {{"\"sqrt\"", "/core/graph/ops/elementwise.c"},
                                             {"\"none\"", "/models/llama.c"}};
/* Files that may compare the kind of an operator, each for one question that no other file has. The
 * proof derives everything from masks of operands, but for layouts over parts. */
static const char *const kind_askers[] = {
    "/core/graph/graph_digest.c", /* kinds before PST_OP_PARAMETER keep the digests that they had */
    "/core/graph/ways.c",         /* how operators are divided over parts; what is asked of that: */
    "/core/graph/ways_check.c",   /* and the proof of it: */
    "/verify/prove/layout_table.c",
    "/verify/prove/layouts.c",
    "/core/session/parameter_groups.c",  /* Muon: weights of linear layers */
    "/models/onnx/emit_ops.c",           /* an operator that the same file has matched */
    "/models/plugin/model.c",            /* PST_OP_CALLS: kinds that a plugin may ask for */
    "/train/data/data.c",                /* operators that read tokens */
    "/tools/penstock/measure/describe.c" /* kinds with long kernels */
};
static char *modules[16];
static size_t n_modules;
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

/* From a job to its model, to the plugin that has it, or to files of it and of its weights. */
static bool builds_jobs(const char *below_root)
{
    return strncmp(below_root, "models/plugin/", 14) == 0 ||
           strncmp(below_root, "models/job_graph.", 17) == 0 ||
           strncmp(below_root, "models/model_file.", 18) == 0 ||
           strncmp(below_root, "models/published.", 17) == 0;
}

/* device/cpu/..., transport/threads/...: loaded beside the program, so they know little of it. */
static bool may_use(const char *below_root, const char *header)
{
    size_t used = layer_of(header, strcspn(header, "/"));
    size_t own = layer_of(below_root, strcspn(below_root, "/"));

    if (own == layer_of("prove", 5) || own == layer_of("sim", 3)) {
        return (used <= layer_of("plan", 4) && used != layer_of("config", 6)) ||
               (used >= layer_of("prove", 5) && used <= own);
    }
    if (strncmp(below_root, "models/", 7) == 0) {
        return strncmp(header, "base/", 5) == 0 || strncmp(header, "graph/", 6) == 0 ||
               strncmp(header, "models/", 7) == 0 || strncmp(header, "onnx/", 5) == 0 ||
               (strncmp(below_root, "models/costed/", 14) == 0 && used == layer_of("config", 6)) ||
               (builds_jobs(below_root) && used <= layer_of("planner", 7));
    }
    if (strncmp(below_root, "device/", 7) != 0 && strncmp(below_root, "transport/", 10) != 0) {
        return used >= N_LAYERS || own >= N_LAYERS || used <= own;
    }
    for (size_t i = 0; i < sizeof for_modules / sizeof *for_modules; i++) {
        if (strncmp(header, for_modules[i], strlen(for_modules[i])) == 0) {
            return true;
        }
    }
    return used >= N_LAYERS;
}

static bool is_other_word(const char *path, const char *word)
{
    for (size_t i = 0; i < sizeof other_words / sizeof *other_words; i++) {
        if (strcmp(word, other_words[i][0]) == 0 &&
            strcmp(path + strlen(PENSTOCK_SOURCE_DIR), other_words[i][1]) == 0) {
            return true;
        }
    }
    return false;
}

/* What a user need not say is said in the config's rows. */
static bool is_core(const char *path)
{
    return strncmp(path + strlen(PENSTOCK_SOURCE_DIR), "/core/", 6) == 0;
}

/* Returns true if a comparison stands before the word, as in "== PST_OP_ADD". */
static bool is_compared(const char *line, const char *word)
{
    return word >= line + 3 && word[-1] == ' ' &&
           (word[-2] == '<' || word[-2] == '>' ||
            (word[-2] == '=' && strchr("=!<>", word[-3]) != NULL));
}

/* Returns true if the line distinguishes kinds of operators, which rows and kernels alone may do.
 * PST_OP_KINDS, the number of kinds, is none. */
static bool asks_kind(const char *path, const char *line)
{
    const char *below = path + strlen(PENSTOCK_SOURCE_DIR);
    bool may_ask = false;

    for (size_t i = 0; i < sizeof kind_askers / sizeof *kind_askers; i++) {
        may_ask = may_ask || strcmp(below, kind_askers[i]) == 0;
    }
    for (const char *word = line; (word = strstr(word, "PST_OP_")) != NULL; word++) {
        const bool label = word >= line + 5 && strncmp(word - 5, "case ", 5) == 0;

        if (strncmp(word, "PST_OP_KINDS", 12) != 0 &&
            ((word > line && word[-1] == '[') ||
             (!may_ask && (label || is_compared(line, word))))) {
            return true;
        }
    }
    return false;
}

/* Data is drawn by the generator of the program's other draws: arithmetic in a header. */
static bool draws_data(const char *path, const char *header)
{
    return strncmp(path + strlen(PENSTOCK_SOURCE_DIR), "/plugins/data/", 14) == 0 &&
           strcmp(header, "base/philox.h\"\n") == 0;
}

/* `below_root`: path below core/, plugins/ or tools/penstock/, or NULL for a strategy. */
static void check_line(const char *path, const char *below_root, unsigned number, const char *line)
{
    const char *quoted = strstr(line, "#include \"");
    const char *header = quoted == NULL ? NULL : quoted + strlen("#include \"");

    if (below_root == NULL) {
        if (header != NULL && strchr(header, '/') != NULL && !draws_data(path, header)) {
            complain(path, number, line);
        }
        if (strncmp(line, "#include <penstock/", 19) != 0 &&
            strstr(line, "#include <penstock") != NULL) {
            complain(path, number, line);
        }
        return;
    }
    for (size_t i = 0; i < n_strategies; i++) {
        if (strstr(line, strategies[i]) != NULL && strstr(line, "/*") == NULL &&
            !is_other_word(path, strategies[i])) {
            complain(path, number, line);
        }
    }
    if (strncmp(below_root, "device/", 7) != 0 && strncmp(below_root, "graph/ops/", 10) != 0 &&
        asks_kind(path, line)) {
        complain(path, number, line);
    }
    for (size_t i = 0; i < n_modules; i++) {
        if (is_core(path) && strstr(line, modules[i]) != NULL && strstr(line, "/*") == NULL) {
            complain(path, number, line);
        }
    }
    if (header != NULL && strchr(header, '/') != NULL && !may_use(below_root, header)) {
        complain(path, number, line);
    }
}

/* NULL: below none of the roots. */
static const char *below_root_of(const char *path)
{
    const char *below = path + strlen(PENSTOCK_SOURCE_DIR);

    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (strncmp(below, roots[i], strlen(roots[i])) == 0) {
            bool module = strncmp(roots[i], "/plugins/", 9) == 0;

            return below + (module ? strlen("/plugins/") : i == MODELS ? 1 : strlen(roots[i]));
        }
    }
    return NULL;
}

static int visit(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    const char *dot = strrchr(path, '.');
    char line[1024];
    unsigned number = 0;
    FILE *file;

    if (kind != FTW_F || dot == NULL ||
        (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0 && strcmp(dot, ".cpp") != 0 &&
         strcmp(dot, ".cu") != 0)) {
        return 0;
    }
    file = fopen(path, "r");
    assert_non_null(file);
    n_files++;
    while (fgets(line, sizeof line, file) != NULL) {
        check_line(path, below_root_of(path), ++number, line);
    }
    fclose(file);
    return 0;
}

static char *quoted(const char *id)
{
    char *word = malloc(strlen(id) + 3);

    assert_non_null(word);
    sprintf(word, "\"%s\"", id);
    return word;
}

static int collect(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    const char *id = strrchr(path, '/') + 1;

    /* "offload" is an action and a capability first, and a memory optimizer's name as well. */
    if (kind == FTW_D && ftw->level == 1 && n_strategies < 64 && strcmp(id, "offload") != 0) {
        strategies[n_strategies++] = quoted(id);
    }
    return 0;
}

static int collect_module(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    const char *id = strrchr(path, '/') + 1;

    (void)info;
    /* "emulated" is a field of --json as well; common/ is no module. */
    if (kind == FTW_D && ftw->level == 1 && n_modules < 16 && strcmp(id, "emulated") != 0 &&
        strcmp(id, "common") != 0) {
        modules[n_modules++] = quoted(id);
    }
    return 0;
}

TEST(test_layers)
{
    static const char *const folders[] = {"partitioners", "schedulers", "memopt"};
    char path[512];

    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", PENSTOCK_SOURCE_DIR, folders[i]);
        assert_int_equal(nftw(path, collect, 8, FTW_PHYS), 0);
        assert_int_equal(nftw(path, visit, 8, FTW_PHYS), 0);
    }
    assert_int_equal(nftw(PENSTOCK_SOURCE_DIR "/plugins/data", visit, 8, FTW_PHYS), 0);
    assert_int_equal(nftw(PENSTOCK_SOURCE_DIR "/plugins/operator", visit, 8, FTW_PHYS), 0);
    assert_true(n_strategies >= 6);
    assert_int_equal(nftw(PENSTOCK_SOURCE_DIR "/plugins/device", collect_module, 8, FTW_PHYS), 0);
    assert_int_equal(nftw(PENSTOCK_SOURCE_DIR "/plugins/transport", collect_module, 8, FTW_PHYS),
                     0);
    assert_int_equal(n_modules, 5);
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        snprintf(path, sizeof path, "%s%s", PENSTOCK_SOURCE_DIR, roots[i]);
        path[strlen(path) - 1] = '\0';
        assert_int_equal(nftw(path, visit, 8, FTW_PHYS), 0);
    }
    assert_true(n_files > 100);
    for (size_t i = 0; i < n_strategies; i++) {
        free(strategies[i]);
    }
    for (size_t i = 0; i < n_modules; i++) {
        free(modules[i]);
    }
    assert_int_equal(n_faults, 0);
}
