/* SPDX-License-Identifier: Apache-2.0
 *
 * Overrides: --set table.key=value.
 */
#include "unit/config/support.h"

static pst_status load(const char *text, const char *const *sets, uint32_t n,
                       struct pst_config **ret_config, struct pst_error *err)
{
    write_text("main.toml", text);
    return pst_config_load(in_folder("main.toml"), sets, n, ret_config, err);
}

static void expect(const char *text, const char *const *sets, uint32_t n, const char *json)
{
    struct pst_config *config = NULL;
    struct pst_error err;

    if (load(text, sets, n, &config, &err) != PST_OK) {
        fail_msg("%s:%u:%u: %s", err.file, err.line, err.column, err.message);
    }
    expect_json(config, json);
    pst_config_destroy(config);
}

static void expect_one(const char *text, const char *set, const char *json)
{
    expect(text, &set, 1, json);
}

static void refuse(const char *text, const char *set, const char *kind, uint32_t column,
                   const char *message)
{
    struct pst_config *config = NULL;
    struct pst_error err;

    assert_int_equal(load(text, &set, 1, &config, &err), PST_ERR_CONFIG);
    expect_fault(&err, kind, "--set", 1, column, message);
    assert_null(config);
}

TEST_WITH(values_are_toml, make_folder, remove_folder)
{
    expect_one("", "a.b=5", "{\"a\":{\"b\":5}}");
    expect_one("", "a=0.5", "{\"a\":0.5}");
    expect_one("", "a = true", "{\"a\":true}");
    expect_one("", "a=\"x = y\"", "{\"a\":\"x = y\"}");
    expect_one("", "a='5'", "{\"a\":\"5\"}");
    expect_one("", "a=[1, {b=2}]", "{\"a\":[1,{\"b\":2}]}");
    expect_one("", "a={b.c=1}", "{\"a\":{\"b\":{\"c\":1}}}");
}

TEST_WITH(bare_words_are_strings, make_folder, remove_folder)
{
    expect_one("", "scheduler.use=v-half", "{\"scheduler\":{\"use\":\"v-half\"}}");
    expect_one("", "a=16 GiB", "{\"a\":\"16 GiB\"}");
    expect_one("", "a=../x/*.txt:y", "{\"a\":\"../x/*.txt:y\"}");
    expect_one("", "a=x=y", "{\"a\":\"x=y\"}");
    expect_one("", "a=1e-3x", "{\"a\":\"1e-3x\"}");
    expect_one("", "a=\xC3\xA9", "{\"a\":\"\xC3\xA9\"}");
}

TEST_WITH(sets_win_over_files, make_folder, remove_folder)
{
    static const char *const sets[] = {"train.steps=7", "train.new=1", "train.steps=8",
                                       "train.sub.x=1"};

    expect("[train]\nsteps = 1\nlr = 2\n", sets, 4,
           "{\"train\":{\"steps\":8,\"lr\":2,\"new\":1,\"sub\":{\"x\":1}}}");
    expect_one("[train]\nsteps = 1\n", "train={lr=1}", "{\"train\":{\"lr\":1}}");
}

TEST_WITH(array_of_tables_keeps_its_first, make_folder, remove_folder)
{
    static const char text[] = "[[memopt]]\nuse = \"a\"\nk = 1\n[[memopt]]\nuse = \"b\"\n";
    static const char *const two[] = {"memopt.use=full", "memopt.x=1"};

    expect_one(text, "memopt.use=full", "{\"memopt\":[{\"use\":\"full\",\"k\":1}]}");
    expect(text, two, 2, "{\"memopt\":[{\"use\":\"full\",\"k\":1,\"x\":1}]}");
    expect_one("", "memopt.use=full", "{\"memopt\":{\"use\":\"full\"}}");
    expect_one(text, "memopt=[]", "{\"memopt\":[]}");
}

TEST_WITH(elements_have_numbers, make_folder, remove_folder)
{
    static const char text[] = "[[memopt]]\nuse = \"a\"\n[[memopt]]\nuse = \"b\"\n";
    static const char *const two[] = {"memopt.0.use=x", "memopt.1.use=y"};

    expect_one(text, "memopt.0.use=c", "{\"memopt\":[{\"use\":\"c\"},{\"use\":\"b\"}]}");
    expect_one(text, "memopt.1.use=c", "{\"memopt\":[{\"use\":\"a\"},{\"use\":\"c\"}]}");
    expect_one(text, "memopt.2.use=c",
               "{\"memopt\":[{\"use\":\"a\"},{\"use\":\"b\"},{\"use\":\"c\"}]}");
    expect("", two, 2, "{\"memopt\":[{\"use\":\"x\"},{\"use\":\"y\"}]}");
    expect_one("a = [1, 2]\n", "a.1=5", "{\"a\":[1,5]}");
    refuse(text, "memopt.3.use=c", "config.key", 8,
           "\"memopt.3.use=c\" skips elements of the array");
}

TEST_WITH(text_may_look_like_overrides, make_folder, remove_folder)
{
    expect_one("", "model.tie=wte.weight=lm_head.weight, a.weight=b.weight",
               "{\"model\":{\"tie\":\"wte.weight=lm_head.weight, a.weight=b.weight\"}}");
    expect_one("", "model.inputs=input.1=segment,x.2=0",
               "{\"model\":{\"inputs\":\"input.1=segment,x.2=0\"}}");
    expect_one("", "checkpoint.folder=runs/train.lr=0.1,model.dim=64",
               "{\"checkpoint\":{\"folder\":\"runs/train.lr=0.1,model.dim=64\"}}");
}

TEST_WITH(overrides_have_a_place, make_folder, remove_folder)
{
    static const char *const sets[] = {"a=1", "train.steps=  five", "train.t={x = [1]}"};
    struct pst_config *config = NULL;
    struct pst_config_node *node;
    struct pst_error err;

    assert_ok(load("", sets, 3, &config, &err), &err);
    node = pst_config_get(pst_config_get(config->root, "train"), "steps");
    assert_string_equal(node->file, "--set");
    assert_int_equal(node->line, 2);
    assert_int_equal(node->column, 15);
    assert_int_equal(node->key_line, 2);
    assert_int_equal(node->key_column, 7);
    node = pst_config_get(pst_config_get(config->root, "train"), "t");
    assert_int_equal(node->column, 9);
    assert_int_equal(node->key_column, 7);
    node = node->children[0];
    assert_int_equal(node->line, 3);
    assert_int_equal(node->key_column, 10);
    assert_int_equal(node->column, 14);
    pst_config_destroy(config);
}

TEST_WITH(forms_that_are_refused, make_folder, remove_folder)
{
    refuse("", "steps", "config.key", 1, "\"steps\" is not of the form table.key=value");
    refuse("", "=5", "config.key", 1, "\"=5\" is not of the form table.key=value");
    refuse("", "a..b=5", "config.key", 3, "\"a..b=5\" is not of the form table.key=value");
    refuse("", "a b=5", "config.key", 2, "\"a b=5\" is not of the form table.key=value");
    refuse("", "a.b=", "config.value", 5, "\"a.b=\" has no value");
    refuse("", "a=1\nb=2", "config.value", 4,
           "\"a=1?b=2\" holds a control character; write it as an escape in quotes");
    refuse("", "a=.5", "config.syntax", 3,
           "Error while parsing floating-point: expected decimal digit, saw '.'");
    refuse("", "a.b=1,train.d=2", "config.value", 7,
           "\"a.b=1,train.d=2\" sets two keys; write one --set for each key");
    refuse("", "a.use=x, train.d=2", "config.value", 10,
           "\"a.use=x, train.d=2\" sets two keys; write one --set for each key");
    refuse("", "a=\"x", "config.syntax", 5, "the closing quote is missing");
    refuse("", "a.b=[1", "config.syntax", 7, "Error while parsing array: encountered end-of-file");
    refuse("", "a.b=nan", "config.value", 5, "inf and nan are no values here");
    refuse("", "include=x.toml", "config.key", 1,
           "\"include=x.toml\": include works in files only");
    refuse("[train]\nsteps = 1\n", "train.steps.x=1", "config.key", 13,
           "\"train.steps.x=1\" names a key inside something that is not a table");
    refuse("a = [1]\n", "a.x=1", "config.key", 3,
           "\"a.x=1\" names a key inside something that is not a table");
    refuse("a = []\n", "a.x=1", "config.key", 3,
           "\"a.x=1\" names a key inside something that is not a table");
}

TEST_WITH(limits_hold_here_too, make_folder, remove_folder)
{
    char text[6000] = "";
    struct pst_config *config = NULL;
    struct pst_error err;
    const char *set = text;

    for (int i = 0; i < 32; i++) {
        strcat(text, i == 0 ? "a" : ".a");
    }
    strcat(text, "=1");
    assert_ok(load("", &set, 1, &config, &err), &err);
    pst_config_destroy(config);
    strcpy(text + strlen(text) - 2, ".a=1");
    assert_int_equal(load("", &set, 1, &config, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.limit");
    strcpy(text + strlen(text) - 4, "={b=1}"); /* 32 parts and one more level */
    assert_int_equal(load("", &set, 1, &config, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.limit");
    assert_int_equal(err.column, 66);
    memset(text, 'x', 5000);
    memcpy(text, "a=", 2);
    text[5000] = '\0';
    assert_int_equal(load("", &set, 1, &config, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.limit");
}
