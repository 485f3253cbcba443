/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of parameters: filling a struct, every refusal, and the soundness of the rows.
 */

#include "unit/config/support.h"

struct filled {
    bool flag;
    int64_t count;
    double ratio;
    const char *name;
    uint32_t mode;
    uint64_t memory, delay, speed;
};

#define ROW(field, type, initial, range)                                                           \
    PST_PARAM(struct filled, field, PST_PARAM_##type, initial, range, "What it is.")

static const struct pst_param rows[] = {
    ROW(flag, BOOL, "true", NULL),        ROW(count, INT, "-3", "-5..64"),
    ROW(ratio, FLOAT, "1e-3", "0..1"),    ROW(name, STRING, "abc", NULL),
    ROW(mode, ENUM, "b", "a|b|long-one"), ROW(memory, BYTES, "16 MiB", "1 KiB.."),
    ROW(delay, TIME, "5 us", "..1 s"),    ROW(speed, RATE, "900 MB/s", NULL),
};
#define N_ROWS ((uint32_t)(sizeof rows / sizeof *rows))

static struct pst_arena arena;
static struct filled got;
static struct pst_error err;

static int drop(void **state)
{
    pst_arena_finish(&arena);
    return 0;
}

static pst_status fill(const char *toml)
{
    static const char *const others[] = {"use", "path", NULL};
    struct pst_config *config = parse_ok(toml);
    pst_status st = pst_params_fill(rows, N_ROWS, sizeof *rows, pst_config_get(config->root, "t"),
                                    "[t]", others, &arena, &got, &err);

    pst_config_destroy(config); /* strings must not need it */
    return st;
}

/* The same with other rows, from the whole of a text. */
static pst_status fill_with(const struct pst_param *params, uint32_t n, const char *toml)
{
    struct pst_config *config = parse_ok(toml);
    pst_status st =
        pst_params_fill(params, n, sizeof *params, config->root, "[t]", NULL, &arena, &got, &err);

    pst_config_destroy(config);
    return st;
}

TEST_WITH(defaults, NULL, drop)
{
    memset(&got, 0xA5, sizeof got);
    assert_ok(pst_params_fill(rows, N_ROWS, sizeof *rows, NULL, "[t]", NULL, &arena, &got, &err),
              &err);
    assert_true(got.flag);
    assert_true(got.count == -3);
    assert_true(got.ratio == 1e-3);
    assert_string_equal(got.name, "abc");
    assert_int_equal(got.mode, 1);
    assert_true(got.memory == 16u << 20);
    assert_true(got.delay == 5000);
    assert_true(got.speed == 900000000);
}

TEST_WITH(values, NULL, drop)
{
    assert_ok(fill("[t]\nuse = 'x'\npath = 5\nflag = false\ncount = 64\nratio = 1\n"
                   "name = 'x'\nmode = 'long-one'\nmemory = 2048\ndelay = 0.25\n"
                   "speed = 8e9\n"),
              &err);
    assert_false(got.flag);
    assert_true(got.count == 64);
    assert_true(got.ratio == 1.0);
    assert_string_equal(got.name, "x");
    assert_int_equal(got.mode, 2);
    assert_true(got.memory == 2048);
    assert_true(got.delay == 250000000);
    assert_true(got.speed == 8000000000);
    assert_ok(fill("[t]\nmemory = '2 GiB'\ndelay = '1 s'\nspeed = '1 Gbit/s'\n"), &err);
    assert_true(got.memory == 2ull << 30);
    assert_true(got.delay == 1000000000);
    assert_true(got.speed == 125000000);
    assert_ok(fill("[t]\ndelay = 1\n"), &err);
    assert_true(got.delay == 1000000000);
    assert_ok(fill("[t]\nname = [4, -1, 20]\n"), &err);
    assert_string_equal(got.name, "4,-1,20");
}

TEST_WITH(booleans_are_words_where_they_are_named, NULL, drop)
{
    static const struct pst_param row =
        PST_PARAM(struct filled, mode, PST_PARAM_ENUM, "auto", "auto|true|false", "d");
    static const char *const texts[] = {"mode = 'auto'\n", "mode = true\n", "mode = false\n",
                                        "mode = 'true'\n"};
    static const uint32_t words[] = {0, 1, 2, 1};

    for (uint32_t i = 0; i < 4; i++) {

        assert_ok(fill_with(&row, 1, texts[i]), &err);
        assert_int_equal(got.mode, words[i]);
    }
}

/* A word, or a number in the range: kept as text. */
TEST_WITH(strings_with_a_range_take_numbers, NULL, drop)
{
    static const struct pst_param row =
        PST_PARAM(struct filled, name, PST_PARAM_STRING, "auto", "1..8", "d");
    static const struct {
        const char *toml, *expected; /* NULL: refused */
    } cases[] = {{"name = 4\n", "4"},        {"name = 'auto'\n", "auto"},
                 {"name = [1, 2]\n", "1,2"}, {"name = ['auto', 0.5, 3]\n", "auto,0.5,3"},
                 {"name = 9\n", NULL},       {"name = 4.5\n", NULL}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pst_status st = fill_with(&row, 1, cases[i].toml);

        assert_int_equal(st, cases[i].expected == NULL ? PST_ERR_CONFIG : PST_OK);
        if (st == PST_OK) {
            assert_string_equal(got.name, cases[i].expected);
        }
    }
}

/* A default that is a number, or empty: numbers are taken as text. Parts of a hundred are numbers.
 */
TEST_WITH(numbers_as_text_and_per_cent, NULL, drop)
{
    static const struct pst_param of_number = PST_PARAM(struct filled, name, PST_PARAM_STRING, "0",
                                                        NULL, "d"),
                                  of_none = PST_PARAM(struct filled, name, PST_PARAM_STRING, "",
                                                      NULL, "d"),
                                  ratio = PST_PARAM(struct filled, ratio, PST_PARAM_FLOAT, "0.5",
                                                    "0..1", "d");

    assert_ok(fill_with(&of_number, 1, "name = 0.25\n"), &err);
    assert_string_equal(got.name, "0.25");
    assert_ok(fill_with(&of_none, 1, "name = 3\n"), &err);
    assert_string_equal(got.name, "3");
    assert_ok(fill_with(&ratio, 1, "ratio = '75%'\n"), &err);
    assert_true(got.ratio == 0.75);
}

TEST_WITH(wrong_values, NULL, drop)
{
    static const struct {
        const char *value; /* "key = " stands in front; the value begins in column 7 or so */
        const char *message;
    } cases[] = {
        {"flag = 1", "\"flag\" in [t] must be true or false, not an integer"},
        {"count = 1.0", "\"count\" in [t] must be an integer, not a float"},
        {"count = 'x'", "\"count\" in [t] must be an integer, not a string"},
        {"count = 65", "\"count\" in [t] must be between -5 and 64, not 65"},
        {"count = -6", "\"count\" in [t] must be between -5 and 64, not -6"},
        {"ratio = true", "\"ratio\" in [t] must be a number, not a boolean"},
        {"ratio = 1.5", "\"ratio\" in [t] must be between 0 and 1, not 1.5"},
        {"ratio = -1", "\"ratio\" in [t] must be between 0 and 1, not -1"},
        {"name = []", "\"name\" in [t] must be a string, or a list of numbers and of strings "
                      "without commas, of 1 to 510 bytes"},
        {"name = [true]", "\"name\" in [t] must be a string, or a list of numbers and of strings "
                          "without commas, of 1 to 510 bytes"},
        {"name = ['a,b']", "\"name\" in [t] must be a string, or a list of numbers and of strings "
                           "without commas, of 1 to 510 bytes"},
        {"name = [['x']]", "\"name\" in [t] must be a string, or a list of numbers and of strings "
                           "without commas, of 1 to 510 bytes"},
        {"name = 2.5", "\"name\" in [t] must be a string, not a float"},
        {"ratio = '0.5'", "\"ratio\" in [t] must be a number, not a string"},
        {"ratio = '75 %'", "\"ratio\" in [t] must be a number, not a string"},
        {"ratio = '101%'", "\"ratio\" in [t] must be between 0 and 1, not 1.01"},
        {"name.x = 1", "\"name\" in [t] must be a string, not a table"},
        {"mode = 1", "\"mode\" in [t] must be a, b or long-one, not an integer"},
        {"mode = 'long_on'",
         "\"mode\" in [t] must be a, b or long-one, not \"long_on\"; did you mean \"long-one\"?"},
        {"mode = 'zebra'", "\"mode\" in [t] must be a, b or long-one, not \"zebra\""},
        {"mode = ''", "\"mode\" in [t] must be a, b or long-one, not \"\""},
        {"memory = '16 GiBs'",
         "\"memory\" in [t] must be bytes, or a string such as \"16 GiB\", not \"16 GiBs\""},
        {"memory = -1", "\"memory\" in [t] must be bytes, or a string such as \"16 GiB\", not -1"},
        {"memory = 1024.5",
         "\"memory\" in [t] must be bytes, or a string such as \"16 GiB\", not 1024.5"},
        {"memory = 1e300",
         "\"memory\" in [t] must be bytes, or a string such as \"16 GiB\", not 1e+300"},
        {"memory = 1023", "\"memory\" in [t] must be at least 1 KiB, not 1023"},
        {"memory = true",
         "\"memory\" in [t] must be bytes, or a string such as \"16 GiB\", not a boolean"},
        {"delay = '5 MB'",
         "\"delay\" in [t] must be seconds, or a string such as \"5 us\", not \"5 MB\""},
        {"delay = -0.1",
         "\"delay\" in [t] must be seconds, or a string such as \"5 us\", not -0.1"},
        {"delay = 1.5", "\"delay\" in [t] must be at most 1 s, not 1500000000 ns"},
        {"speed = '5 MB'", "\"speed\" in [t] must be bytes per second, or a string such as "
                           "\"900 MB/s\", not \"5 MB\""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *equals = strchr(cases[i].value, '=');
        bool dotted = strchr(cases[i].value, '.') != NULL && strchr(cases[i].value, '.') < equals;
        char toml[200];

        snprintf(toml, sizeof toml, "[t]\n%s\n", cases[i].value);
        assert_int_equal(fill(toml), PST_ERR_CONFIG);
        expect_fault(&err, "config.value", "t.toml", 2,
                     dotted ? 1 : (uint32_t)(equals - cases[i].value) + 3, cases[i].message);
        assert_string_equal(err.details, "");
    }
}

TEST_WITH(unknown_keys, NULL, drop)
{
    assert_int_equal(fill("[t]\n  cuont = 1\n"), PST_ERR_CONFIG);
    expect_fault(&err, "config.key", "t.toml", 2, 3,
                 "unknown key \"cuont\" in [t]; did you mean \"count\"?");
    assert_int_equal(fill("[t]\nuze = 1\n"), PST_ERR_CONFIG);
    assert_string_equal(err.message, "unknown key \"uze\" in [t]; did you mean \"use\"?");
    assert_int_equal(fill("[t]\nelephant = 1\n"), PST_ERR_CONFIG);
    assert_string_equal(err.message, "unknown key \"elephant\" in [t]");
    assert_string_equal(
        err.hint, "[t] takes flag, count, ratio, name, mode, memory, delay, speed, use, path");
    assert_int_equal(fill("[t]\n\"a\\nb\" = 1\n"), PST_ERR_CONFIG);
    assert_string_equal(err.message, "unknown key \"a?b\" in [t]");
}

TEST_WITH(all_faults_at_once, NULL, drop)
{
    char many[1000] = "[t]\n";
    int n = 0;

    assert_int_equal(fill("[t]\nratio = 2\nflog = 1\ncount = 'x'\n"), PST_ERR_CONFIG);
    expect_fault(&err, "config.value", "t.toml", 2, 9,
                 "\"ratio\" in [t] must be between 0 and 1, not 2");
    assert_string_equal(err.details,
                        "t.toml:3:1: unknown key \"flog\" in [t]; did you mean \"flag\"?\n"
                        "t.toml:4:9: \"count\" in [t] must be an integer, not a string\n");
    for (int i = 0; i < 20; i++) {
        snprintf(many + strlen(many), sizeof many - strlen(many), "key_%d = 1\n", i + 100);
    }
    assert_int_equal(fill(many), PST_ERR_CONFIG);
    for (const char *at = err.details; (at = strchr(at, '\n')) != NULL; at++) {
        n++;
    }
    assert_int_equal(n, 11); /* ten more faults and a last line */
    assert_non_null(strstr(err.details, "\nand 9 more\n"));
}

TEST_WITH(required_keys, NULL, drop)
{
    static const struct pst_param needy[] = {
        PST_PARAM(struct filled, count, PST_PARAM_INT, NULL, NULL, "Number of things."),
    };
    struct pst_config *config = parse_ok("x = 1\n\n[t]\n");

    assert_int_equal(pst_params_fill(needy, 1, sizeof *needy, pst_config_get(config->root, "t"),
                                     "[t]", NULL, &arena, &got, &err),
                     PST_ERR_CONFIG);
    expect_fault(&err, "config.key", "t.toml", 3, 1,
                 "[t] needs the key \"count\": Number of things.");
    assert_int_equal(
        pst_params_fill(needy, 1, sizeof *needy, NULL, "[t]", NULL, &arena, &got, &err),
        PST_ERR_CONFIG);
    expect_fault(&err, "config.key", "", 0, 0, "[t] needs the key \"count\": Number of things.");
    assert_int_equal(pst_params_fill(needy, 1, sizeof *needy, pst_config_get(config->root, "x"),
                                     "[t]", NULL, &arena, &got, &err),
                     PST_ERR_CONFIG);
    expect_fault(&err, "config.value", "t.toml", 1, 5, "[t] must be a table");
    assert_int_equal(
        pst_params_fill(needy, 1, sizeof *needy, NULL, "[t]", NULL, &arena, &got, NULL),
        PST_ERR_CONFIG);
    pst_config_destroy(config);
}

/* A plugin of a later version has longer rows. */
TEST_WITH(rows_may_be_longer, NULL, drop)
{
    struct {
        struct pst_param row;
        uint64_t future;
    } longer[] = {{rows[1], 1}, {rows[2], 2}};

    memset(&got, 0, sizeof got);
    assert_ok(pst_params_verify(&longer[0].row, 2, sizeof *longer, sizeof got, &err), &err);
    assert_ok(
        pst_params_fill(&longer[0].row, 2, sizeof *longer, NULL, "[t]", NULL, &arena, &got, &err),
        &err);
    assert_true(got.count == -3 && got.ratio == 1e-3);
}

TEST(sound_rows)
{
    assert_ok(pst_params_verify(rows, N_ROWS, sizeof *rows, sizeof(struct filled), &err), &err);
    assert_ok(pst_params_verify(NULL, 0, 0, 0, &err), &err);
}

static void expect_unsound(struct pst_param row, const char *message)
{
    assert_int_equal(pst_params_verify(&row, 1, sizeof row, sizeof(struct filled), &err),
                     PST_ERR_BUG);
    assert_string_equal(err.kind, "plugin.descriptor");
    assert_string_equal(err.message, message);
    assert_int_equal(pst_error_exit_code(&err), 3);
}

TEST(unsound_rows)
{
    static const char range[] = "parameter row 0: \"k\" has a range that cannot be understood";
    static const char initial[] = "parameter row 0: \"k\" has a default that is not of its type";
    static const char outside[] = "parameter row 0: \"k\" has a default outside its range";
    static const char offset[] =
        "parameter row 0: \"k\" has an offset that is not a field of the struct";

#define EXPECT(message, key, initial_text, range_text, doc, type, at)                              \
    expect_unsound((struct pst_param){key, initial_text, range_text, doc, PST_PARAM_##type, at},   \
                   message)
    EXPECT(range, "k", "1", "a..b", "d", INT, 8);
    EXPECT(range, "k", "1", "2..1", "d", INT, 8);
    EXPECT(range, "k", "1", "..", "d", INT, 8);
    EXPECT(range, "k", "1", "5", "d", INT, 8);
    EXPECT(range, "k", "1", "0..1 s", "d", BYTES, 8);
    EXPECT(range, "k", "a", "a|b", "d", STRING, 8);
    EXPECT(range, "k", "a", NULL, "d", ENUM, 8);
    EXPECT(range, "k", "a", "a||b", "d", ENUM, 8);
    EXPECT(range, "k", "a", "a|b|a", "d", ENUM, 8);
    EXPECT(range, "k", "a", "", "d", ENUM, 8);
    EXPECT(initial, "k", "1.5", NULL, "d", INT, 8);
    EXPECT(initial, "k", "yes", NULL, "d", BOOL, 8);
    EXPECT(initial, "k", "inf", NULL, "d", FLOAT, 8);
    EXPECT(initial, "k", "c", "a|b", "d", ENUM, 8);
    EXPECT(initial, "k", "5 MB", NULL, "d", TIME, 8);
    EXPECT(outside, "k", "5", "1..4", "d", INT, 8);
    EXPECT(outside, "k", "2 s", "..1 s", "d", TIME, 8);
    EXPECT(offset, "k", "1", NULL, "d", INT, 9);
    EXPECT(offset, "k", "1", NULL, "d", INT, (uint32_t)sizeof(struct filled));
    EXPECT(offset, "k", "1", NULL, "d", INT, UINT32_MAX - 7);
    EXPECT("parameter row 0: \"k\" has no doc", "k", "1", NULL, NULL, INT, 8);
    EXPECT("parameter row 0: \"k\" has no doc", "k", "1", NULL, "", INT, 8);
    expect_unsound((struct pst_param){"k", "1", NULL, "d", 99, 8},
                   "parameter row 0: \"k\" has an unknown type");
    EXPECT("parameter row 0: \"\" is not a key: use lower-case letters, digits and underscores, at "
           "most 63",
           NULL, "1", NULL, "d", INT, 8);
    EXPECT("parameter row 0: \"A.b\" is not a key: use lower-case letters, digits and underscores, "
           "at most 63",
           "A.b", "1", NULL, "d", INT, 8);
}

TEST(unsound_tables)
{
    struct pst_param two[2] = {rows[1], rows[1]};

    assert_int_equal(pst_params_verify(two, 2, sizeof *two, sizeof(struct filled), &err),
                     PST_ERR_BUG);
    assert_string_equal(err.message, "parameter row 1: \"count\" appears twice");
    two[1].key = "other";
    assert_int_equal(pst_params_verify(two, 2, sizeof *two, sizeof(struct filled), &err),
                     PST_ERR_BUG);
    assert_string_equal(err.message,
                        "parameter row 1: \"other\" overlaps the field of another row");
    assert_int_equal(pst_params_verify(NULL, 2, sizeof *two, 100, &err), PST_ERR_BUG);
    assert_int_equal(pst_params_verify(two, 1, sizeof *two - 1, 100, &err), PST_ERR_BUG);
    assert_int_equal(pst_params_verify(two, 1001, sizeof *two, 100, &err), PST_ERR_BUG);
}

TEST(nearest_words)
{
    static const char *const words[] = {"steps",  "batch", "microbatch", "lr",
                                        "min_lr", "",      "memopt",     "memory_bytes"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"stepz", "steps"},
        {"step", "steps"},
        {"setps", "steps"}, /* swapped neighbours are one mistake */
        {"STEPS", "steps"},
        {"min-lr", "min_lr"},
        {"micro_batch", "microbatch"},
        {"micro_batsh", "microbatch"},
        {"mcrobtch", "microbatch"},
        {"lrr", "lr"},
        {"r", NULL}, /* nothing of it was right */
        {"x", NULL},
        {"xyz", NULL},
        {"stxxs", NULL}, /* two mistakes in five letters */
        {"", NULL},
        {"elephant", NULL},
        {"memory", "memory_bytes"}, /* without its unit */
        {"memopr", "memopt"},
    };
    char huge[1000];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = pst_nearest(cases[i].word, words, sizeof words / sizeof *words);

        if ((found == NULL) != (cases[i].nearest == NULL) ||
            (found != NULL && strcmp(found, cases[i].nearest) != 0)) {
            fail_msg("%s: %s", cases[i].word, found == NULL ? "none" : found);
        }
    }
    memset(huge, 'a', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    assert_null(pst_nearest(huge, words, sizeof words / sizeof *words));
    assert_null(pst_nearest("steps", NULL, 0));
}
