/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that include files.
 */
#include "unit/config/support.h"

static struct pst_config *load_ok(const char *name)
{
    struct pst_config *config = NULL;
    struct pst_error err;

    if (pst_config_load(in_folder(name), NULL, 0, &config, &err) != PST_OK) {
        fail_msg("%s:%u:%u: %s", err.file, err.line, err.column, err.message);
    }
    return config;
}

static void refuse(const char *name, const char *kind, const char *file, uint32_t line,
                   uint32_t column, const char *message, const char *details)
{
    struct pst_config *config = NULL;
    struct pst_error err;

    assert_int_equal(pst_config_load(in_folder(name), NULL, 0, &config, &err), PST_ERR_CONFIG);
    expect_fault(&err, kind, in_folder(file), line, column, message);
    assert_string_equal(err.details, details);
    assert_null(config);
}

static void own_keys_win(void **state)
{
    struct pst_config *config;
    struct pst_config_node *train;

    (void)state;
    write_text("base.toml", "[train]\nsteps = 1\nlr = 0.5\n[cluster]\ndevices = 2\n");
    write_text("main.toml", "include = \"base.toml\"\n[train]\nbatch = 8\nsteps = 7\n");
    config = load_ok("main.toml");
    expect_json(config, "{\"train\":{\"steps\":7,\"lr\":0.5,\"batch\":8},"
                        "\"cluster\":{\"devices\":2}}");
    train = pst_config_get(config->root, "train");
    assert_string_equal(pst_config_get(train, "steps")->file, in_folder("main.toml"));
    assert_int_equal(pst_config_get(train, "steps")->line, 4);
    assert_string_equal(pst_config_get(train, "lr")->file, in_folder("base.toml"));
    assert_int_equal(pst_config_get(train, "lr")->line, 3);
    pst_config_destroy(config);
}

static void arrays_are_replaced(void **state)
{
    struct pst_config *config;

    (void)state;
    write_text("base.toml", "a = [1, 2, 3]\n[[memopt]]\nuse = \"x\"\n[[memopt]]\nuse = \"y\"\n");
    write_text("main.toml", "include = \"base.toml\"\na = [4]\n[[memopt]]\nuse = \"z\"\n");
    config = load_ok("main.toml");
    expect_json(config, "{\"a\":[4],\"memopt\":[{\"use\":\"z\"}]}");
    pst_config_destroy(config);
}

static void kinds_may_change(void **state)
{
    struct pst_config *config;

    (void)state;
    write_text("base.toml", "a = 1\n[b]\nc = 1\n");
    write_text("main.toml", "include = \"base.toml\"\nb = 2\n[a]\nx = 1\n");
    config = load_ok("main.toml");
    expect_json(config, "{\"a\":{\"x\":1},\"b\":2}");
    pst_config_destroy(config);
}

static void paths_start_at_the_including_file(void **state)
{
    struct pst_config *config;

    (void)state;
    mkdir(in_folder("sub"), 0700);
    mkdir(in_folder("sub/deep"), 0700);
    write_text("sub/deep/c.toml", "c = 1\n");
    write_text("sub/b.toml", "include = \"deep/c.toml\"\nb = 1\n");
    write_text("top.toml", "top = 1\n");
    write_text("sub/a.toml", "include = [\"b.toml\", \"../top.toml\"]\na = 1\n");
    config = load_ok("sub/a.toml");
    expect_json(config, "{\"c\":1,\"b\":1,\"top\":1,\"a\":1}");
    pst_config_destroy(config);
}

static void later_includes_win(void **state)
{
    struct pst_config *config;

    (void)state;
    write_text("x.toml", "a = 1\nx = 1\n");
    write_text("y.toml", "a = 2\ny = 1\n");
    write_text("main.toml", "include = [\"x.toml\", \"y.toml\"]\n");
    config = load_ok("main.toml");
    expect_json(config, "{\"a\":2,\"x\":1,\"y\":1}");
    pst_config_destroy(config);
}

static void absolute_path(void **state)
{
    char text[256];
    struct pst_config *config;

    (void)state;
    write_text("x.toml", "a = 1\n");
    snprintf(text, sizeof text, "include = '%s'\n", in_folder("x.toml"));
    write_text("main.toml", text);
    config = load_ok("main.toml");
    expect_json(config, "{\"a\":1}");
    pst_config_destroy(config);
}

static void same_file_twice_is_no_cycle(void **state)
{
    struct pst_config *config;

    (void)state;
    write_text("x.toml", "a = 1\n");
    write_text("y.toml", "include = \"x.toml\"\n");
    write_text("main.toml", "include = [\"x.toml\", \"y.toml\"]\n");
    config = load_ok("main.toml");
    expect_json(config, "{\"a\":1}");
    pst_config_destroy(config);
}

static void cycles(void **state)
{
    char details[512];

    (void)state;
    write_text("self.toml", "include = \"self.toml\"\n");
    snprintf(details, sizeof details, "included from %s:1:11\n", in_folder("self.toml"));
    refuse("self.toml", "config.value", "self.toml", 0, 0, "the file includes itself", details);

    write_text("a.toml", "include = \"b.toml\"\n");
    write_text("b.toml", "\n include = [\"c.toml\"]\n");
    assert_int_equal(symlink("a.toml", in_folder("c.toml")), 0); /* by another name */
    snprintf(details, sizeof details, "included from %s:2:13\nincluded from %s:1:11\n",
             in_folder("b.toml"), in_folder("a.toml"));
    refuse("a.toml", "config.value", "c.toml", 0, 0, "the file includes itself", details);
}

static void depth(void **state)
{
    char name[32], text[64];
    struct pst_config *config;

    (void)state;
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "%d.toml", i);
        snprintf(text, sizeof text, "include = \"%d.toml\"\n", i + 1);
        write_text(name, text);
    }
    write_text("9.toml", "a = 1\n");
    config = load_ok("1.toml"); /* 2 to 9: eight deep */
    expect_json(config, "{\"a\":1}");
    pst_config_destroy(config);
    {
        struct pst_error err;

        assert_int_equal(pst_config_load(in_folder("0.toml"), NULL, 0, &config, &err),
                         PST_ERR_CONFIG);
        expect_fault(&err, "config.limit", in_folder("8.toml"), 1, 11,
                     "cannot include \"9.toml\": more than 8 files deep");
    }
}

static void number_of_files(void **state)
{
    char text[4096] = "include = [";
    struct pst_config *config = NULL;
    struct pst_error err;

    (void)state;
    write_text("x.toml", "");
    for (int i = 0; i < 63; i++) {
        strcat(text, "\"x.toml\",");
    }
    strcat(text, "]\n");
    write_text("many.toml", text);
    pst_config_destroy(load_ok("many.toml"));
    strcpy(text + strlen(text) - 2, "\"x.toml\"]\n");
    write_text("more.toml", text);
    assert_int_equal(pst_config_load(in_folder("more.toml"), NULL, 0, &config, &err),
                     PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.limit");
    assert_string_equal(err.message, "more than 64 files included");
}

static void what_cannot_be_included(void **state)
{
    char details[512];

    (void)state;
    write_text("none.toml", "x = 1\ninclude = \"gone.toml\"\n");
    snprintf(details, sizeof details, "included from %s:2:11\n", in_folder("none.toml"));
    refuse("none.toml", "config.file", "gone.toml", 0, 0,
           "cannot open the file: No such file or directory", details);

    write_text("number.toml", "include = 5\n");
    refuse("number.toml", "config.value", "number.toml", 1, 11,
           "\"include\" must be the path of a file, or an array", "");
    write_text("mixed.toml", "include = [\"number.toml\", 5]\n");
    refuse("mixed.toml", "config.value", "number.toml", 1, 11,
           "\"include\" must be the path of a file, or an array",
           (snprintf(details, sizeof details, "included from %s:1:12\n", in_folder("mixed.toml")),
            details));
    write_text("empty.toml", "include = \"\"\n");
    refuse("empty.toml", "config.value", "empty.toml", 1, 11,
           "\"include\" must be the path of a file, or an array", "");

    write_text("bad.toml", "a = \n");
    write_text("main.toml", "include = \"bad.toml\"\n");
    snprintf(details, sizeof details, "included from %s:1:11\n", in_folder("main.toml"));
    refuse("main.toml", "config.syntax", "bad.toml", 1, 5,
           "Error while parsing key-value pair: expected value, saw '\\n'", details);

    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    write_text("fifo.toml", "include = \"fifo\"\n");
    snprintf(details, sizeof details, "included from %s:1:11\n", in_folder("fifo.toml"));
    refuse("fifo.toml", "config.file", "fifo", 0, 0, "a FIFO, not a regular file", details);
}

static void no_such_config(void **state)
{
    (void)state;
    refuse("none.toml", "config.file", "none.toml", 0, 0,
           "cannot open the file: No such file or directory", "");
    mkdir(in_folder("dir.toml"), 0700);
    refuse("dir.toml", "config.file", "dir.toml", 0, 0, "a folder, not a regular file", "");
}

static void paths_become_relative_to_here(void **state)
{
    struct pst_config *config, *again = NULL;
    struct pst_config_node *data;
    struct pst_error err;
    char expected[512];

    (void)state;
    write_text("main.toml", "[data]\ntrain = \"a/*.txt:/abs/b:c\"\nnone = 5\nempty = \"\"\n");
    config = load_ok("main.toml");
    data = pst_config_get(config->root, "data");
    for (int i = 0; i < 2; i++) { /* the second time changes nothing */
        pst_config_resolve(config, data, "train");
        pst_config_resolve(config, data, "none");
        pst_config_resolve(config, data, "empty");
        pst_config_resolve(config, data, "absent");
        pst_config_resolve(config, NULL, "absent");
    }
    snprintf(expected, sizeof expected, "%s/a/*.txt:/abs/b:%s/c", folder, folder);
    assert_string_equal(pst_config_get(data, "train")->value.string, expected);
    assert_string_equal(pst_config_get(data, "empty")->value.string, "");
    {
        char *json = pst_config_to_json(config);

        assert_int_equal(pst_config_from_json(json, &again, &err), PST_OK);
        free(json);
    }
    data = pst_config_get(again->root, "data");
    pst_config_resolve(again, data, "train");
    assert_string_equal(pst_config_get(data, "train")->value.string, expected);
    pst_config_destroy(again);
    pst_config_destroy(config);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(own_keys_win),
        TEST(arrays_are_replaced),
        TEST(kinds_may_change),
        TEST(paths_start_at_the_including_file),
        TEST(later_includes_win),
        TEST(absolute_path),
        TEST(same_file_twice_is_no_cycle),
        TEST(cycles),
        TEST(depth),
        TEST(number_of_files),
        TEST(what_cannot_be_included),
        TEST(no_such_config),
        TEST(paths_become_relative_to_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
