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

struct text_file {
    const char *name, *text;
};

static void write_texts(const struct text_file *files, size_t n)
{
    for (size_t i = 0; i < n && files[i].name != NULL; i++) {
        write_text(files[i].name, files[i].text);
    }
}

static void expect_loaded(const char *name, const char *json)
{
    struct pst_config *config = load_ok(name);

    expect_json(config, json);
    pst_config_destroy(config);
}

TEST_WITH(files_are_merged, make_folder, remove_folder)
{
    static const struct {
        struct text_file files[4]; /* the last one includes the others */
        const char *json;
    } cases[] = {
        /* Own keys win, arrays are replaced, kinds may change. */
        {{{"base.toml", "[train]\nsteps = 1\nlr = 0.5\n[cluster]\ndevices = 2\n"},
          {"main.toml", "include = \"base.toml\"\n[train]\nbatch = 8\nsteps = 7\n"}},
         "{\"train\":{\"steps\":7,\"lr\":0.5,\"batch\":8},\"cluster\":{\"devices\":2}}"},
        {{{"base.toml", "a = [1, 2, 3]\n[[memopt]]\nuse = \"x\"\n[[memopt]]\nuse = \"y\"\n"},
          {"main.toml", "include = \"base.toml\"\na = [4]\n[[memopt]]\nuse = \"z\"\n"}},
         "{\"a\":[4],\"memopt\":[{\"use\":\"z\"}]}"},
        {{{"base.toml", "a = 1\n[b]\nc = 1\n"},
          {"main.toml", "include = \"base.toml\"\nb = 2\n[a]\nx = 1\n"}},
         "{\"a\":{\"x\":1},\"b\":2}"},
        /* Paths start at the file that includes. */
        {{{"sub/deep/c.toml", "c = 1\n"},
          {"sub/b.toml", "include = \"deep/c.toml\"\nb = 1\n"},
          {"top.toml", "top = 1\n"},
          {"sub/a.toml", "include = [\"b.toml\", \"../top.toml\"]\na = 1\n"}},
         "{\"c\":1,\"b\":1,\"top\":1,\"a\":1}"},
        /* Later ones win over earlier ones. */
        {{{"x.toml", "a = 1\nx = 1\n"},
          {"y.toml", "a = 2\ny = 1\n"},
          {"main.toml", "include = [\"x.toml\", \"y.toml\"]\n"}},
         "{\"a\":2,\"x\":1,\"y\":1}"},
        /* The same file twice is no cycle. */
        {{{"x.toml", "a = 1\n"},
          {"y.toml", "include = \"x.toml\"\n"},
          {"main.toml", "include = [\"x.toml\", \"y.toml\"]\n"}},
         "{\"a\":1}"},
    };

    mkdir(in_folder("sub"), 0700);
    mkdir(in_folder("sub/deep"), 0700);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t last = 3;

        write_texts(cases[i].files, 4);
        while (cases[i].files[last].name == NULL) {
            last--;
        }
        expect_loaded(cases[i].files[last].name, cases[i].json);
    }
}

TEST_WITH(values_come_from_their_file, make_folder, remove_folder)
{
    struct pst_config *config;
    struct pst_config_node *train;

    write_text("base.toml", "[train]\nsteps = 1\nlr = 0.5\n");
    write_text("main.toml", "include = \"base.toml\"\n[train]\nbatch = 8\nsteps = 7\n");
    config = load_ok("main.toml");
    train = pst_config_get(config->root, "train");
    assert_string_equal(pst_config_get(train, "steps")->file, in_folder("main.toml"));
    assert_int_equal(pst_config_get(train, "steps")->line, 4);
    assert_string_equal(pst_config_get(train, "lr")->file, in_folder("base.toml"));
    assert_int_equal(pst_config_get(train, "lr")->line, 3);
    pst_config_destroy(config);
}

TEST_WITH(absolute_path, make_folder, remove_folder)
{
    char text[256];

    write_text("x.toml", "a = 1\n");
    snprintf(text, sizeof text, "include = '%s'\n", in_folder("x.toml"));
    write_text("main.toml", text);
    expect_loaded("main.toml", "{\"a\":1}");
}

TEST_WITH(depth, make_folder, remove_folder)
{
    char name[32], text[64];
    struct pst_config *config = NULL;
    struct pst_error err;

    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "%d.toml", i);
        snprintf(text, sizeof text, "include = \"%d.toml\"\n", i + 1);
        write_text(name, text);
    }
    write_text("9.toml", "a = 1\n");
    expect_loaded("1.toml", "{\"a\":1}"); /* 2 to 9: eight deep */
    assert_int_equal(pst_config_load(in_folder("0.toml"), NULL, 0, &config, &err), PST_ERR_CONFIG);
    expect_fault(&err, "config.limit", in_folder("8.toml"), 1, 11,
                 "cannot include \"9.toml\": more than 8 files deep");
}

TEST_WITH(number_of_files, make_folder, remove_folder)
{
    char text[4096] = "include = [";
    struct pst_config *config = NULL;
    struct pst_error err;

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

/* Names of files of the test as they are below its folder. */
static void leave_out_folder(char *text)
{
    const char *prefix = in_folder("");

    for (char *at = strstr(text, prefix); at != NULL; at = strstr(at, prefix)) {
        memmove(at, at + strlen(prefix), strlen(at + strlen(prefix)) + 1);
    }
}

#define FORM "\"include\" must be the path of a file, or an array\n"

TEST_WITH(what_is_refused, make_folder, remove_folder)
{
    static const struct text_file files[] = {
        {"self.toml", "include = \"self.toml\"\n"},
        {"a.toml", "include = \"b.toml\"\n"},
        {"b.toml", "\n include = [\"c.toml\"]\n"},
        {"missing.toml", "x = 1\ninclude = \"gone.toml\"\n"},
        {"number.toml", "include = 5\n"},
        {"mixed.toml", "include = [\"number.toml\", 5]\n"},
        {"empty.toml", "include = \"\"\n"},
        {"bad.toml", "a = \n"},
        {"main.toml", "include = \"bad.toml\"\n"},
        {"fifo.toml", "include = \"fifo\"\n"},
    };
    static const struct {
        const char *name, *fault;
    } cases[] = {
        {"self.toml", "config.value self.toml:0:0: the file includes itself\n"
                      "included from self.toml:1:11\n"},
        {"a.toml", "config.value c.toml:0:0: the file includes itself\n"
                   "included from b.toml:2:13\nincluded from a.toml:1:11\n"},
        {"missing.toml", "config.file gone.toml:0:0: cannot open the file: No such file or "
                         "directory\nincluded from missing.toml:2:11\n"},
        {"number.toml", "config.value number.toml:1:11: " FORM},
        {"mixed.toml", "config.value number.toml:1:11: " FORM "included from mixed.toml:1:12\n"},
        {"empty.toml", "config.value empty.toml:1:11: " FORM},
        {"main.toml", "config.syntax bad.toml:1:5: Error while parsing key-value pair: expected "
                      "value, saw '\\n'\nincluded from main.toml:1:11\n"},
        {"fifo.toml", "config.file fifo:0:0: a FIFO, not a regular file\n"
                      "included from fifo.toml:1:11\n"},
        {"none.toml",
         "config.file none.toml:0:0: cannot open the file: No such file or directory\n"},
        {"dir.toml", "config.file dir.toml:0:0: a folder, not a regular file\n"},
    };

    write_texts(files, sizeof files / sizeof *files);
    assert_int_equal(symlink("a.toml", in_folder("c.toml")), 0); /* by another name */
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    mkdir(in_folder("dir.toml"), 0700);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pst_config *config = NULL;
        struct pst_error err;
        char fault[16384];

        assert_int_equal(pst_config_load(in_folder(cases[i].name), NULL, 0, &config, &err),
                         PST_ERR_CONFIG);
        snprintf(fault, sizeof fault, "%s %s:%u:%u: %s\n%s", err.kind, err.file, err.line,
                 err.column, err.message, err.details);
        leave_out_folder(fault);
        assert_string_equal(fault, cases[i].fault);
        assert_int_equal(err.status, PST_ERR_CONFIG);
        assert_int_equal(pst_error_exit_code(&err), 2);
        assert_null(config);
    }
}

TEST_WITH(paths_become_relative_to_here, make_folder, remove_folder)
{
    struct pst_config *config, *again = NULL;
    struct pst_config_node *data;
    struct pst_error err;
    char expected[512], list[512];

    write_text("main.toml", "[data]\ntrain = \"a/*.txt:/abs/b:c\"\nnone = 5\nempty = \"\"\n"
                            "list = [\"a:/b\", \"c\"]\nmixed = [\"a\", 5]\none = \"x:y\"\n");
    config = load_ok("main.toml");
    data = pst_config_get(config->root, "data");
    for (int i = 0; i < 2; i++) { /* the second time changes nothing */
        pst_config_resolve_all(config, data, "train");
        pst_config_resolve_all(config, data, "none");
        pst_config_resolve_all(config, data, "list");
        pst_config_resolve_all(config, data, "mixed");
        pst_config_resolve_all(config, data, "empty");
        pst_config_resolve_all(config, data, "absent");
        pst_config_resolve_all(config, NULL, "absent");
        pst_config_resolve(config, data, "one");
    }
    snprintf(expected, sizeof expected, "%s/x:y", folder);
    assert_string_equal(pst_config_get(data, "one")->value.string, expected);
    snprintf(expected, sizeof expected, "%s/a/*.txt:/abs/b:%s/c", folder, folder);
    assert_string_equal(pst_config_get(data, "train")->value.string, expected);
    assert_string_equal(pst_config_get(data, "empty")->value.string, "");
    snprintf(list, sizeof list, "%s/a:/b\n%s/c", folder, folder); /* a line each */
    assert_string_equal(pst_config_get(data, "list")->value.string, list);
    assert_int_equal(pst_config_get(data, "mixed")->kind, PST_CONFIG_ARRAY);
    {
        char *json = pst_config_to_json(config);

        assert_ok(pst_config_from_json(json, &again, &err), &err);
        free(json);
    }
    data = pst_config_get(again->root, "data");
    pst_config_resolve_all(again, data, "train");
    assert_string_equal(pst_config_get(data, "train")->value.string, expected);
    assert_string_equal(pst_config_get(data, "list")->value.string, list);
    pst_config_destroy(again);
    pst_config_destroy(config);
}
