/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of families: what their reader refuses, and what a user's own file makes of weights.
 */
#include "unit/train/weights_rig.h"

/* --- files of families ------------------------------------------------------------------------ */

#define ALL    "tensors = [{ own = '*', theirs = '*' }]\n"
#define KEYS   "model = 'llama'\n" ALL "keys = ["
#define TENSOR "model = 'llama'\ntensors = ["

/* Line 3 has what is wrong, where a line has. */
static const struct {
    const char *text, *refusal;
    uint32_t line;
} family_rows[] = {
    {"model = 'llama'\n" ALL, NULL, 0},
    {KEYS
     "{ theirs = 'a', own = 'heads', times = 4, over = 'dim', when = 'rope_scaling=none&!tied' }]",
     NULL, 0},
    {ALL, "the file is for model \"\", not for \"llama\"", 0},
    {"model = 'gpt'\n" ALL, "the file is for model \"gpt\", not for \"llama\"", 0},
    {"model = 'llama'\nprefix = 'a'\nprefix = 'b'\n", "cannot redefine", 3},
    {"model = 'llama'\n\ntensor = []\n", "unknown key \"tensor\" in the file; did you mean", 3},
    {"model = 'llama'\n\ntensors = 3\n", "tensors must be a list", 3},
    {TENSOR "\n'a']", "tensors must be a table", 3},
    {TENSOR "\n{ own = '*' }]", "tensors needs the key \"theirs\"", 3},
    {TENSOR "\n{ own = '', theirs = '*' }]", "\"own\" in tensors must not be empty", 3},
    {TENSOR "\n{ own = '*', theirs = '*', layout = 'torsh' }]", "did you mean \"torch\"?", 3},
    {TENSOR "\n{ own = '*', theirs = '*', bare = 1 }]", "must be true or false", 3},
    {TENSOR "\n{ own = '*', theirs = '*', root = 'hedas' }]",
     "\"root\" in tensors must be a key of the model, not \"hedas\"", 3},
    {TENSOR "\n{ own = '*', theirs = ['a', 'b'], parts = 'heads' }]", "a key for each of", 3},
    {TENSOR "\n{ own = 'a.#.b.#', theirs = 'a.#.#' }]", "not have more than one '#'", 3},
    {TENSOR "\n{ own = 'a.*.b', theirs = 'a.*' }]", "'*' only as its last character", 3},
    {TENSOR "\n{ own = 'a.#.*', theirs = ['b.#.*', 'c.*'] }]", "as many '#' and '*' as", 3},
    {TENSOR "\n{ own = 'a.#', theirs = 'b.#.#' }]", "as many '#' and '*' as", 3},
    {TENSOR "\n{ own = 'a.*', theirs = 'b' }]", "as many '#' and '*' as", 3},
    {TENSOR "\n{ own = 'a', theirs = ['b@', 'c'] }]", "must have one '@', or none", 3},
    {TENSOR "{ own = '*', theirs = '*' },\n{ own = '*', theirs = 'a*', when = 'tied' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = '*', theirs = '*' },\n{ own = 'norm.weight', theirs = 'n' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = 'a.#.*', theirs = 'b.#.*', when = 'tied' },\n"
            "{ own = 'a.#.c.*', theirs = 'c.#.*', when = 'qk_norm&tied' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = 'a.#', theirs = 'b.#' },\n{ own = 'a.12', theirs = 'c' }]",
     "this is never used: line 2", 3},
    {TENSOR "{ own = 'a.12', theirs = 'c' },\n{ own = 'a.#', theirs = 'b.#' },\n"
            "{ own = 'a.#.*', theirs = 'b.#.*', when = 'tied' },\n{ own = 'a.*', theirs = 'b.*' }]",
     NULL, 0},
    {KEYS "{ theirs = 'a' }]", "either \"own\" or \"fixed\"", 3},
    {KEYS "{ theirs = 'a', own = 'dim', fixed = '1' }]", "either \"own\" or \"fixed\"", 3},
    {KEYS "{ theirs = 'a', fixed = ['1', 'nul'] }]", "must be JSON, not \"nul\"", 3},
    {KEYS "{ theirs = 'a', own = 'dim', absent = 'x' }]", "must be JSON, or '@' and a key", 3},
    {KEYS "{ theirs = 'a', own = 'dim', when = 'tied&experst' }]", "not \"tied&experst\"", 3},
    {KEYS "{ theirs = 'a', own = 'dim', when = 'rope_scaling=lama3' }]", "joined by '&'", 3},
    {KEYS "{ theirs = 'a', own = 'dim', when = 'tied=yes' }]", "joined by '&'", 3},
    {KEYS "{ theirs = 'a', own = 'dim', times = 0 }]", "must be between 1 and 1000000", 3},
    {KEYS "{ theirs = 'a', own = ['heads', 'kv_heads'], use = 'must' }]",
     "\"own\" in keys must be one text, not a list", 3},
    {KEYS "{ theirs = 'a', own = 'heads,kv_heads' }]", "not \"heads,kv_heads\"", 3},
    {KEYS "{ theirs = 'a', own = 'heads', when = ['experts', 'qk_norm'] }]",
     "\"when\" in keys must be one text, not a list", 3},
    {KEYS "{ theirs = 'a', own = 'heads', when = 'experts,qk_norm' }]", "joined by '&'", 3},
    {KEYS "{ theirs = ['a', 'b'], own = 'heads' }]", "must be one text", 3},
    {KEYS "{ theirs = 'a', own = 'heads', absent = ['1', '2'] }]", "must be one text", 3},
    {KEYS "{ theirs = 'a', own = 'heads', over = ['dim', 'ff'] }]", "must be one text", 3},
    {TENSOR "\n{ own = ['a', 'b'], theirs = 'c' }]", "must be one text", 3},
    {TENSOR "\n{ own = 'a', theirs = ['b', ''] }]", "must be texts that are not empty", 3},
    {TENSOR "\n{ own = 'a', theirs = \"b\\nc\" }]", "must not have a line break", 3},
    {"model = 'llama'\n\nprefix = ['a', 'b']\n", "\"prefix\" in the file must be one text", 3},
    {KEYS "{ theirs = 'a', fixed = '[\"a\",\"b\"]' }, { theirs = 'b', fixed = ['1', '[2]'] }]",
     NULL, 0},
    {"model = 'llama'\n\nignored = ['a', 'b', 'a']", "this is never used: line 3", 3},
    {"model = 'llama'\n\nharmless = ['a', 3]", "harmless must be a list of texts", 3},
};

TEST_WITH(a_file_of_a_family_is_checked, support_begin, support_end)
{
    for (size_t i = 0; i < sizeof family_rows / sizeof *family_rows; i++) {
        const struct pst_published *family = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        pst_status st;

        support_write("own.toml", family_rows[i].text);
        st = pst_published_read(support_path("own.toml"), "llama", &arena, &family, &err);
        if (family_rows[i].refusal == NULL) {
            assert_ok(st, &err);
        } else {
            assert_int_equal(st, PST_ERR_CONFIG);
            if (strstr(err.message, family_rows[i].refusal) == NULL &&
                strstr(err.hint, family_rows[i].refusal) == NULL) {
                fail_msg("%s: %s", family_rows[i].text, err.message);
            }
            assert_string_equal(err.file, support_path("own.toml"));
            assert_int_equal(err.line, family_rows[i].line);
        }
        pst_arena_finish(&arena);
    }
}

/* The families that come with penstock, and that every one has the common rows once. */
TEST(each_family_has_a_file)
{
    static const char *const models[] = {"gpt", "bert", "t5", "resnet", "llama", "mlp", "onnx"};

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const struct pst_published *family = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        uint32_t n = 0;

        assert_ok(pst_published_read("", models[i], &arena, &family, &err), &err);
        assert_int_equal(family->model != NULL, i < 5);
        assert_int_equal(family->keys != NULL, i < 5 && i != 3);
        for (uint32_t k = 0; family->keys != NULL && family->keys[k].theirs != NULL; k++) {
            n += strcmp(family->keys[k].theirs, "is_decoder") == 0;
        }
        assert_int_equal(n, family->keys != NULL);
        assert_string_equal(family->families[4], "llama");
        assert_string_equal(family->others[0].name, "GPT-NeoX");
        pst_arena_finish(&arena);
    }
}

/* A row that does not divide its parameter is refused before anything is read or written. */
TEST_WITH(a_row_that_does_not_divide_is_refused, support_begin, support_end)
{
    static const char *const rows[] = {
        "theirs = ['a', 'b', 'c']",                               /* 8 columns among three */
        "theirs = ['a', 'b'], parts = ['rope_factor', 'window']", /* of widths 1 and 0: first */
        "theirs = '@'",                                           /* of a vector */
        "theirs = 'a', root = 'window'",                          /* times 0 */
    };
    const struct family family = {"gpt", "llama", "layers=2 dim=8 heads=2 ff=12 context=8 vocab=19",
                                  true};

    copy_file(&families[0], change_nothing);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pst_error err = {0};
        struct opened o;
        char text[256], sets[512];

        snprintf(text, sizeof text, "model = 'llama'\ntensors = [{ own = 'norm.weight', %s }]\n",
                 rows[i]);
        support_write("own.toml", text);
        open_model(&o, &family, family.settings);
        snprintf(sets, sizeof sets, "%s", support_path("own.toml"));
        o.job.training->loop.init_family = sets;
        assert_int_equal(
            pst_weights_open(support_path("copy"), &o.job, o.graph, true, &o.weights, &err),
            PST_ERR_CONFIG);
        assert_string_equal(err.kind, "weights.mismatch");
        if (i == 1) {
            assert_null(strstr(err.message, "cannot divide"));
        } else {
            assert_non_null(strstr(err.message, "cannot divide norm.weight"));
        }
        close_model(&o);
    }
}

/* A copy of GPT-2's file, opened with a user's own file of the family. */
static pst_status open_with(struct opened *o, const struct family *family, const char *file,
                            struct pst_error *err)
{
    support_write("own.toml", file);
    open_model(o, family, family->settings);
    o->job.training->loop.init_family = support_path("own.toml");
    return pst_weights_open(support_path("copy"), &o->job, o->graph, true, &o->weights, err);
}

/* GPT-2's weights are not written as own.toml says, and nothing is left. */
static void expect_not_written(const char *message)
{
    const char *const out = support_path("none");
    struct pst_error err = {0};
    struct opened o;

    open_model(&o, &families[0], families[0].settings);
    assert_ok(pst_weights_open(PUBLISHED "gpt", &o.job, o.graph, true, &o.weights, &err), &err);
    o.job.training->loop.init_family = support_path("own.toml");
    assert_int_equal(
        pst_weights_write(&o.job, o.graph, pst_weights_source(o.weights), out, PST_ST_F32, 1, &err),
        PST_ERR_CONFIG);
    assert_string_equal(err.message, message);
    assert_int_not_equal(access(out, F_OK), 0);
    close_model(&o);
}

/* Two parameters never have one tensor, neither of what is read nor of what is written. */
TEST_WITH(a_tensor_is_of_one_parameter, support_begin, support_end)
{
    static const char gpt[] =
        "model = 'gpt'\nprefix = 'transformer.'\n"
        "tensors = [{ own = 'h.#.ln_2.weight', theirs = 'h.#.ln_1.weight' },\n"
        "{ own = '*', theirs = '*' }]\n";
    struct pst_error err = {0};
    struct opened o;

    copy_file(&families[0], change_nothing);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    assert_int_equal(open_with(&o, &families[0], gpt, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "weights.mismatch");
    assert_string_equal(
        err.message, "h.0.ln_2.weight: tensor \"transformer.h.0.ln_1.weight\" is already read by "
                     "h.0.ln_1.weight; two parameters cannot share a tensor");
    close_model(&o);
    expect_not_written("h.0.ln_2.weight: tensor \"transformer.h.0.ln_1.weight\" is already written "
                       "for h.0.ln_1.weight; two parameters cannot share a tensor");
}

/* A row of a user's own file that fits nothing is a name that is wrong. */
TEST_WITH(a_row_that_fits_no_parameter_is_refused, support_begin, support_end)
{
    static const char gpt[] = "model = 'gpt'\nprefix = 'transformer.'\n"
                              "tensors = [{ own = 'h.#.ln_3.*', theirs = 'h.#.ln_3.*'%s },\n"
                              "{ own = '*', theirs = '*' }]\n";
    struct pst_error err = {0};
    struct opened o;
    char text[512];

    copy_file(&families[0], change_nothing);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    snprintf(text, sizeof text, gpt, ", when = '!tied'");
    assert_ok(open_with(&o, &families[0], text, &err), &err);
    close_model(&o);
    snprintf(text, sizeof text, gpt, "");
    assert_int_equal(open_with(&o, &families[0], text, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_string_equal(err.message,
                        "tensors: the row of own = \"h.#.ln_3.*\" fits no parameter of this model");
    assert_string_equal(err.file, support_path("own.toml"));
    close_model(&o);
    expect_not_written("tensors: the row of own = \"h.#.ln_3.*\" fits no parameter of this model");
}

/* A copy of a shipped family is a file of one's own to begin with. */
TEST(a_shipped_family_can_be_a_file_of_ones_own)
{
    for (uint32_t i = 0; i < FAMILIES; i++) {
        struct pst_error err = {0};
        struct opened o;
        char folder[512], path[512];

        snprintf(folder, sizeof folder, PUBLISHED "%s", families[i].name);
        snprintf(path, sizeof path, PENSTOCK_SOURCE_DIR "/models/families/%s.toml",
                 families[i].model);
        open_model(&o, &families[i], families[i].settings);
        o.job.training->loop.init_family = path;
        assert_ok(pst_weights_open(folder, &o.job, o.graph, true, &o.weights, &err), &err);
        close_model(&o);
    }
}

/* The config.json that these rows make, or the refusal. */
static const struct {
    const char *settings, *rows, *text, *refusal;
} quotient_rows[] = {
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'dim', times = 3, over = 'ff' }", "{\"a\":2}\n",
     NULL},
    /* 1 / 49 * 98 is less than 2 */
    {"dim=98 heads=49 ff=12", "{ theirs = 'a', own = 'dim', over = 'heads' }", "{\"a\":2}\n", NULL},
    {"dim=8 heads=2 ff=12",
     "{ theirs = 'a', own = 'dim', over = 'window', when = 'window' },"
     "{ theirs = 'b', fixed = '[\"x\",\"y\"]' }, { theirs = 'c', fixed = ['1', '2'] }",
     "{\"b\":[\"x\",\"y\"],\"c\":1}\n", NULL},
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'dim', over = 'window' }", NULL,
     "keys: the row of theirs = \"a\" divides by window, which is 0"},
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'eps', over = 'window' }", NULL,
     "keys: the row of theirs = \"a\" divides by window, which is 0"},
    {"dim=8 heads=2 ff=12", "{ theirs = 'a', own = 'dim', over = 'ff' }", NULL,
     "keys: the row of theirs = \"a\" makes 8 * 1 / 12 of dim, which is not a whole number below "
     "2^53"},
    {"dim=8 heads=2 ff=12",
     "{ theirs = 'a.b', own = 'dim' }, { theirs = 'c', own = 'ff' }, { theirs = 'a.d', own = 'ff' "
     "}",
     NULL, "keys: the config.json of these rows is wrong: duplicate object key"},
};

TEST_WITH(a_config_has_only_numbers, support_begin, support_end)
{
    for (size_t i = 0; i < sizeof quotient_rows / sizeof *quotient_rows; i++) {
        struct family family = {"llama", "llama", NULL, true};
        const struct pst_published *read = NULL;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        struct opened o;
        char settings[256], text[512], *config = NULL;
        pst_status st;

        snprintf(settings, sizeof settings, "layers=2 context=8 vocab=19 %s",
                 quotient_rows[i].settings);
        snprintf(text, sizeof text, "model = 'llama'\nkeys = [%s]\n", quotient_rows[i].rows);
        support_write("own.toml", text);
        open_model(&o, &family, settings);
        assert_ok(pst_published_read(support_path("own.toml"), "llama", &arena, &read, &err), &err);
        st = pst_weights_config(&o.job, read, &config, &err);
        if (quotient_rows[i].text != NULL) {
            assert_ok(st, &err);
            assert_string_equal(config, quotient_rows[i].text);
        } else {
            assert_int_equal(st, PST_ERR_CONFIG);
            assert_string_equal(err.kind, "config.value");
            if (strstr(err.message, quotient_rows[i].refusal) != err.message) {
                fail_msg("%s: %s", quotient_rows[i].rows, err.message);
            }
        }
        free(config);
        pst_arena_finish(&arena);
        close_model(&o);
    }
}

/* A config.json is never left unread because a user's own file has no keys. */
TEST_WITH(a_file_without_keys_reads_no_config, support_begin, support_end)
{
    static const char gpt[] = "model = 'gpt'\nprefix = 'transformer.'\n"
                              "tensors = [{ own = '*', theirs = '*' }]\n";
    struct pst_error err = {0};
    struct opened o;

    copy_file(&families[0], change_nothing);
    assert_int_equal(open_with(&o, &families[0], gpt, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_non_null(strstr(err.message, "there are no \"keys\" to compare "));
    assert_non_null(strstr(err.message, "copy/config.json with"));
    assert_non_null(strstr(err.hint, "add rows of \"keys\""));
    close_model(&o);
    assert_int_equal(unlink(support_path("copy/config.json")), 0);
    assert_ok(open_with(&o, &families[0], gpt, &err), &err);
    close_model(&o);
}
