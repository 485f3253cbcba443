/* SPDX-License-Identifier: Apache-2.0
 *
 * From TOML to the tree: kinds, order, positions, limits, and the JSON form.
 */
#include "unit/config/support.h"

static struct pst_config_node *child(struct pst_config_node *node, uint32_t i)
{
    assert_true(i < node->n_children);
    return node->children[i];
}

static void expect_place(const struct pst_config_node *node, const char *key, uint32_t key_line,
                         uint32_t key_column, uint32_t line, uint32_t column)
{
    assert_string_equal(node->key, key);
    assert_string_equal(node->file, "t.toml");
    assert_int_equal(node->key_line, key_line);
    assert_int_equal(node->key_column, key_column);
    assert_int_equal(node->line, line);
    assert_int_equal(node->column, column);
}

TEST(everything_knows_its_place)
{
    struct pst_config *config = parse_ok("z = 1\n"
                                         "[train]\n"
                                         "  steps  =  5 # five\n"
                                         "\"\xC3\xA9t\xC3\xA9\" = 'x'\n"
                                         "a.b = [1, 2.5,\n"
                                         "  {k = true}]\n");
    struct pst_config_node *train = child(config->root, 1), *array;

    assert_null(config->root->key);
    expect_place(child(config->root, 0), "z", 1, 1, 1, 5);
    expect_place(train, "train", 2, 2, 2, 1);
    expect_place(child(train, 0), "steps", 3, 3, 3, 13);
    /* 5 code points with the quotes, 7 bytes */
    expect_place(child(train, 1), "\xC3\xA9t\xC3\xA9", 4, 1, 4, 9);
    expect_place(child(child(train, 2), 0), "b", 5, 3, 5, 7);
    array = child(child(train, 2), 0);
    assert_int_equal(array->kind, PST_CONFIG_ARRAY);
    assert_null(child(array, 1)->key);
    assert_int_equal(child(array, 1)->line, 5);
    assert_int_equal(child(array, 1)->column, 11);
    expect_place(child(child(array, 2), 0), "k", 6, 4, 6, 8);
    pst_config_destroy(config);
}

TEST(kinds_and_values)
{
    struct pst_config *config = parse_ok("h = 0xff\n"
                                         "f = 1e3\n"
                                         "b = false\n"
                                         "s = \"a\\u00e9\\n\"\n"
                                         "l = 'C:\\x'\n"
                                         "m = \"\"\"\ntwo\nlines\"\"\"\n"
                                         "big = 9223372036854775807\n"
                                         "e = []\n"
                                         "t = {}\n");
    struct pst_config_node *root = config->root;

    assert_int_equal(pst_config_get(root, "h")->value.integer, 255);
    assert_int_equal(pst_config_get(root, "f")->kind, PST_CONFIG_FLOAT);
    assert_true(pst_config_get(root, "f")->value.number == 1000);
    assert_int_equal(pst_config_get(root, "b")->kind, PST_CONFIG_BOOL);
    assert_false(pst_config_get(root, "b")->value.boolean);
    assert_string_equal(pst_config_get(root, "s")->value.string, "a\xC3\xA9\n");
    assert_string_equal(pst_config_get(root, "l")->value.string, "C:\\x");
    assert_string_equal(pst_config_get(root, "m")->value.string, "two\nlines");
    assert_true(pst_config_get(root, "big")->value.integer == INT64_MAX);
    assert_int_equal(pst_config_get(root, "e")->n_children, 0);
    assert_int_equal(pst_config_get(root, "t")->kind, PST_CONFIG_TABLE);
    pst_config_destroy(config);
}

TEST(order_is_the_files)
{
    struct pst_config *config = parse_ok("zeta = 1\nalpha = 2\n[m]\ny = 1\nb = 2\na = 3\n");

    expect_json(config, "{\"zeta\":1,\"alpha\":2,\"m\":{\"y\":1,\"b\":2,\"a\":3}}");
    pst_config_destroy(config);
}

TEST(lookups_mark)
{
    struct pst_config *config = parse_ok("a = 1\nb = 2\n");

    assert_non_null(pst_config_get(config->root, "b"));
    assert_null(pst_config_get(config->root, "c"));
    assert_null(pst_config_get(NULL, "c"));
    assert_null(pst_config_get(child(config->root, 0), "c"));
    assert_false(child(config->root, 0)->used);
    assert_true(child(config->root, 1)->used);
    pst_config_destroy(config);
}

TEST(bom_and_other_line_ends)
{
    struct pst_config *config = parse_ok("\xEF\xBB\xBFone = 1\r\ntwo = 2\r\n");

    expect_json(config, "{\"one\":1,\"two\":2}");
    expect_place(child(config->root, 0), "one", 1, 1, 1, 7);
    expect_place(child(config->root, 1), "two", 2, 1, 2, 7);
    pst_config_destroy(config);
    config = parse_ok("");
    expect_json(config, "{}");
    pst_config_destroy(config);
}

static void refuse_n(const char *text, size_t n, const char *kind, uint32_t line, uint32_t column,
                     const char *message)
{
    struct pst_config *config = NULL;
    struct pst_error err;

    assert_int_equal(pst_config_parse(text, n, "t.toml", &config, &err), PST_ERR_CONFIG);
    expect_fault(&err, kind, "t.toml", line, column, message);
    assert_null(config);
}

static void refuse(const char *text, const char *kind, uint32_t line, uint32_t column,
                   const char *message)
{
    refuse_n(text, strlen(text), kind, line, column, message);
}

TEST(syntax_errors_have_a_place)
{
    refuse("a = 1\nb = 2 x\n", "config.syntax", 2, 7,
           "Error while parsing key-value pair: expected a comment or whitespace, saw 'x'");
    refuse("a = 1\na = 2\n", "config.syntax", 2, 5,
           "Error while parsing key-value pair: cannot redefine existing integer 'a'");
    refuse("[a]\nb = 1\n[a]\nc = 1\n", "config.syntax", 3, 1,
           "Error while parsing table header: cannot redefine existing table 'a'");
    refuse("a = \"\xFF\"\n", "config.syntax", 1, 5, "Encountered invalid utf-8 sequence");
    refuse_n("a = 1\n\0", 7, "config.syntax", 2, 1,
             "Error while parsing root table: expected keys, tables, whitespace or comments, "
             "saw '\\u0000'");
}

TEST(values_without_use)
{
    refuse("a = 1\nb = inf\n", "config.value", 2, 5, "inf and nan are no values here");
    refuse("b = [1.0, nan]\n", "config.value", 1, 11, "inf and nan are no values here");
    refuse("when = 2024-01-01\n", "config.value", 1, 8,
           "dates and times have no use here; text stands in quotes");
    refuse("s = \"a\\u0000b\"\n", "config.value", 1, 5,
           "a string must not hold the character U+0000");
    refuse("\"k\\u0000\" = 1\n", "config.value", 1, 1, "a key must not hold the character U+0000");
    refuse("[a]\ninclude = 1\n[b]\n[c.d]\n[include]\n", "config.value", 5, 2,
           "include works in files only");
}

TEST(unquoted_text_gets_a_hint)
{
    struct pst_config *config = NULL;
    static const char text[] = "use = gpipe\n";
    struct pst_error err;

    assert_int_equal(pst_config_parse(text, strlen(text), "t", &config, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.syntax");
    assert_string_equal(err.hint, "text stands in quotes: use = \"gpipe\"");
}

/* The message of a text that is refused, with its hint. */
static void expect_words(const char *text, uint32_t line, const char *words, const char *hint)
{
    struct pst_config *config = NULL;
    struct pst_error err = {.hint = ""};

    assert_int_equal(pst_config_parse(text, strlen(text), "t", &config, &err), PST_ERR_CONFIG);
    assert_int_equal(err.line, line);
    assert_non_null(strstr(err.message, words));
    assert_string_equal(err.hint, hint);
}

TEST(syntax_errors_say_what_to_write)
{
    static const char none[] = "write \"none\" where it is a word, else leave the key out";

    expect_words("[a]\nuse = 1f1b\n", 2, "", "text stands in quotes: use = \"1f1b\"");
    expect_words("a = [\"x\", 2bw]\n", 1, "", "text stands in quotes: \"2bw\"");
    expect_words("a = [x]\n", 1, "", "text stands in quotes: \"x\"");
    expect_words("m = { use = gpt, n = 3 }\n", 1, "", "text stands in quotes: \"gpt\"");
    expect_words("m = { size = 16 GiB }\n", 1, "", "text stands in quotes: \"16 GiB\"");
    expect_words("size = 16 GiB # each\n", 1, "", "text stands in quotes: size = \"16 GiB\"");
    expect_words("lr = .001\n", 1, "", "write 0.001");
    expect_words("lr = -.5e-3\n", 1, "", "write -0.5e-3");
    expect_words("lr = 1.e-4\n", 1, "", "write 1.0e-4");
    expect_words("lr = 5.\n", 1, "", "write 5.0");
    expect_words("lr = 1e\u22124 # prose\n", 1, "", "write 1e-4");
    expect_words("a = [1, .5]\n", 1, "", "write 0.5");
    expect_words("steps = 10k\n", 1, "", "write 10000");
    expect_words("steps = 10m\n", 1, "", "text stands in quotes: steps = \"10m\"");
    expect_words("steps = .5e\n", 1, "", "text stands in quotes: steps = \".5e\"");
    expect_words("on = yes\n", 1, "", "write true, or \"yes\" where a word is wanted");
    expect_words("graphs = Off\n", 1, "", "write false, or \"off\" where a word is wanted");
    expect_words("seed = None\n", 1, "", none);
    expect_words("memopts = [none, full]\n", 1, "", none);
    expect_words("[[memopt]]\nuse = none\n", 2, "", "text stands in quotes: use = \"none\"");
    expect_words("path = /a/b\n", 1, "", "text stands in quotes: path = \"/a/b\"");
    expect_words("n = 0x1g\n", 1, "", "text stands in quotes: n = \"0x1g\"");
    expect_words("day = 1970-01-01x\n", 1, "", "text stands in quotes: day = \"1970-01-01x\"");
    expect_words("on = True\n", 1, "", "write true");
    expect_words("n = 3 4\n", 1, "saw '4'", "");
    expect_words("[a\nn = 3\n", 1, "expected ']'", "");
    expect_words("n: 3\n", 1, "expected '='", "");
    expect_words("s = \"a\\qb\"\n", 1, "unknown escape", "");
    expect_words("a = 1\ns = \"abc\nb = 2\n", 2, "the closing quote is missing on line 2", "");
    expect_words("a = 1\ns = 'abc\nb = 2\n", 2, "the closing quote is missing on line 2", "");
    expect_words("a = 1\n\"key = 2\n", 2, "the closing quote is missing on line 2", "");
    expect_words("s = \"abc", 1, "the closing quote is missing", "");
    expect_words("a = 1\ns = \"\"\"abc\ndef\n", 3,
                 "the closing \"\"\" is missing; the string began on line 2", "");
    expect_words("s = '''abc\n\n", 2, "the closing ''' is missing; the string began on line 1", "");
}

TEST(a_zero_byte_is_no_unit)
{
    static const char text[] = "steps = 10\0\n";
    struct pst_config *config = NULL;
    struct pst_error err = {.hint = ""};

    assert_int_equal(pst_config_parse(text, sizeof text - 1, "t", &config, &err), PST_ERR_CONFIG);
    assert_null(strstr(err.hint, "10000"));
}

TEST(what_is_defined_twice_says_where_it_began)
{
    expect_words("[a]\nx = 1\n[b]\n[a]\n", 4, "redefine", "it began on line 1");
    expect_words("[a]\nx = 1\n[[a.b]]\ny = 1\n[a]\n", 5, "redefine", "it began on line 1");
    expect_words("[a.b]\nx = 1\n[a.b]\n", 3, "redefine", "it began on line 1");
    expect_words("x = 1\ny = 2\nx = 3\n", 3, "redefine", "it began on line 1");
    expect_words("[a]\nx = 1\n[b]\nx = 1\nx = 2\n", 5, "redefine", "it began on line 4");
    expect_words("a.x = 1\n[a]\ny = 2\n", 2, "redefine", "it began on line 1");
    expect_words("a = { x = 1 }\n[a]\ny = 2\n", 2, "redefine", "it began on line 1");
}

/* n copies of unit behind prefix. */
static char *repeat(const char *prefix, const char *unit, size_t n, const char *suffix)
{
    size_t length = strlen(unit);
    char *text = malloc(strlen(prefix) + n * length + strlen(suffix) + 1), *at = text;

    assert_non_null(text);
    at = stpcpy(at, prefix);
    for (size_t i = 0; i < n; i++) {
        at = stpcpy(at, unit);
    }
    strcpy(at, suffix);
    return text;
}

/* What is at the limit is read, what is above it is refused; both are freed. */
static void expect_limit(char *at, char *above, uint32_t line, uint32_t column, const char *message)
{
    pst_config_destroy(parse_ok(at));
    refuse(above, "config.limit", line, column, message);
    free(at);
    free(above);
}

TEST(limit_of_lines)
{
    expect_limit(repeat("a = 1\n# ", "x", 4094, "\nb = 2\n"),
                 repeat("a = 1\n# ", "x", 4095, "\nb = 2\n"), 2, 1,
                 "a line of 4097 bytes; at most 4096, break it up");
}

TEST_WITH(limit_of_files, make_folder, remove_folder)
{
    char *at = repeat("", "#aaaaaaaaaaaaaa\n", 65536, "");
    char *above = repeat("", "#aaaaaaaaaaaaaa\n", 65536, "\n");
    struct pst_config *config = NULL;
    struct pst_error err;

    assert_int_equal(strlen(at), 1 << 20);
    pst_config_destroy(parse_ok(at));
    refuse(above, "config.limit", 0, 0, "the file is larger than 1 MiB");
    write_text("big.toml", above);
    assert_int_equal(pst_config_load(in_folder("big.toml"), NULL, 0, &config, &err),
                     PST_ERR_CONFIG);
    expect_fault(&err, "config.limit", in_folder("big.toml"), 0, 0,
                 "the file is larger than 1.00 MiB");
    free(at);
    free(above);
}

TEST(limit_of_nesting)
{
    static const char too_deep[] = "nested more than 32 deep (each part of a dotted key counts)";
    char *at = repeat("", "[", 31, ""), *below = repeat("a = ", at, 1, "");
    char *closed = repeat(below, "]", 31, "\n");
    char *deep = repeat("a = ", "[", 33, ""), *deep_closed = repeat(deep, "]", 33, "\n");
    char *far = repeat("a = ", "[\n", 100000, "");
    char *mixed = repeat("", "{a.b.c.d.e.f.g.h.i.j = [\n", 100, "");
    char *tables = repeat("a = [\n", "{k = [1]},\n", 100, "]\n");

    pst_config_destroy(parse_ok(closed));
    pst_config_destroy(parse_ok(tables));
    refuse(deep_closed, "config.limit", 1, 5 + 32, too_deep);
    refuse(far, "config.limit", 65, 1, too_deep); /* never reaches the parser */
    refuse(mixed, "config.limit", 6, 24, too_deep);
    free(at);
    free(below);
    free(closed);
    free(deep);
    free(deep_closed);
    free(far);
    free(mixed);
    free(tables);
}

TEST(limit_of_dotted_keys)
{
    static const char parts[] = "a dotted key of more than 32 parts";
    char *at = repeat("", "a.", 31, "a = 1\n"), *above = repeat("", "a.", 32, "a = 1\n");
    char *far = repeat("", "a.", 2000, "a = 1\n");
    char *header = repeat("x = 1\n[\"\xC3\xA9\".", "a.", 31, "a]\n");
    char *both = repeat("[a.b]\n", "a.", 31, "a = 1\n");

    pst_config_destroy(parse_ok(at));
    refuse(above, "config.limit", 1, 64, parts);
    refuse(far, "config.limit", 1, 64, parts);
    refuse(header, "config.limit", 2, 67, parts);
    refuse(both, "config.limit", 2, 61,
           "nested more than 32 deep (each part of a dotted key counts)");
    free(at);
    free(above);
    free(far);
    free(header);
    free(both);
}

/* Dots and brackets in strings and comments are text. */
TEST(limits_do_not_look_into_strings)
{
    char *dots = repeat("", ".[{", 40, ""), text[2000];

    snprintf(text, sizeof text,
             "# %s\na = \"\\\"%s\" # \"\nb = '%s\\'\nc = \"\"\"\n%s \\\"\"\" \" %s\"\"\"\"\"\n"
             "d = '''\n%s'' ' %s'''''\ne = \"\"\nf = ['', \"\"\"\"\"\", '''''', 1.5, 1.5]\n",
             dots, dots, dots, dots, dots, dots, dots);
    pst_config_destroy(parse_ok(text));
    free(dots);
}

/* toml++ 3.3 runs into undefined behaviour on these by itself. */
TEST(accented_letters_behind_white_space)
{
    struct pst_config *config = parse_ok("a = \"\"\"x\\\n  \xC3\xA9\"\"\"\n");

    expect_json(config, "{\"a\":\"x\xC3\xA9\"}");
    pst_config_destroy(config);
    refuse("a = \xC3\xA9\n", "config.syntax", 1, 5,
           "Error while parsing value: could not determine value type");
    refuse(" \xD0\x96 = 1\n", "config.syntax", 1, 2,
           "Error while parsing root table: expected keys, tables, whitespace or comments, "
           "saw '\xD0\x96'");
}

TEST(limit_of_strings)
{
    expect_limit(repeat("a = '''\n", "xxxxxxxxxxxxxxx\n", 4096, "'''\n"),
                 repeat("a = '''\n", "xxxxxxxxxxxxxxx\n", 4096, "x'''\n"), 1, 5,
                 "a string of more than 64 KiB");
}

TEST(limit_of_keys)
{
    expect_limit(repeat("a = [\n", "1,\n", 9999, "]\n"), repeat("a = [\n", "1,\n", 10000, "]\n"),
                 10001, 1, "more than 10000 keys and array elements");
}

TEST(json_round_trip)
{
    static const char json[] = "{\"i\":-9223372036854775808,\"f\":2.0,\"g\":0.1,\"h\":1e-300,"
                               "\"s\":\"a\\\"\\n\",\"b\":true,\"a\":[1,[],{\"k\":[{}]}],"
                               "\"t\":{\"u\":{}}}";
    struct pst_config *config = parse_ok("i = -9223372036854775808\nf = 2.0\ng = 0.1\n"
                                         "h = 1e-300\ns = \"a\\\"\\n\"\nb = true\n"
                                         "a = [1, [], {k = [{}]}]\n[t.u]\n");
    struct pst_config *again = NULL;
    struct pst_error err;

    expect_json(config, json);
    assert_ok(pst_config_from_json(json, &again, &err), &err);
    expect_json(again, json);
    assert_int_equal(pst_config_get(again->root, "f")->kind, PST_CONFIG_FLOAT);
    pst_config_destroy(again);
    pst_config_destroy(config);
}

static void refuse_json(const char *text, const char *kind)
{
    struct pst_config *config = NULL;
    struct pst_error err;

    assert_int_equal(pst_config_from_json(text, &config, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, kind);
    assert_null(config);
}

TEST(json_that_is_refused)
{
    char *deep = repeat("{\"a\":", "[", 40, ""), *closed = repeat(deep, "]", 40, "}");

    refuse_json("", "config.syntax");
    refuse_json("[1]", "config.syntax");
    refuse_json("{\"a\":1,\"a\":2}", "config.syntax");
    refuse_json("{\"a\":1} x", "config.syntax");
    refuse_json("{\"a\":99999999999999999999}", "config.syntax");
    refuse_json("{\"a\":1e999}", "config.syntax");
    refuse_json("{\"a\":\"\\u0000\"}", "config.syntax");
    refuse_json("{\"a\":null}", "config.value");
    refuse_json(closed, "config.limit");
    free(deep);
    free(closed);
}

TEST(nothing_to_destroy)
{
    pst_config_destroy(NULL);
}
