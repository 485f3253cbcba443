/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "commands/options.h"

static struct request {
    bool hot;
    const char *pan;
    uint32_t minutes;
} request;

static const struct pst_option options[] = {
    {"hot", 't', NULL, "hot", offsetof(struct request, hot), 0},
    {"pan", 'p', "NAME", "pan", offsetof(struct request, pan), 0},
    {"minutes", 0, "N", "so long", offsetof(struct request, minutes), 60},
};

static const struct pst_command command = {.name = "cook",
                                           .arguments = "DISH",
                                           .summary = "Cooks",
                                           .options = options,
                                           .n_options = 3,
                                           .request_size = sizeof request};

static struct pst_cli cli;
static struct pst_error err;

/* Splits a line at blanks and parses it. */
static pst_status parse(const char *line)
{
    static char words[256];
    static char *argv[16];
    char *save = NULL;
    int argc = 0;

    memset(&request, 0, sizeof request);
    memset(&err, 0, sizeof err);
    strcpy(words, line);
    for (char *w = strtok_r(words, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        argv[argc++] = w;
    }
    argv[argc] = NULL;
    return pst_options_parse(&command, argc, argv, &request, &cli, &err);
}

TEST(test_common)
{
    assert_int_equal(parse("cook a --json b --set x=1 --set y=2 --color=never"), PST_OK);
    assert_true(cli.json);
    assert_false(cli.color);
    assert_int_equal(cli.n_arguments, 2);
    assert_string_equal(cli.arguments[0], "a");
    assert_string_equal(cli.arguments[1], "b");
    assert_int_equal(cli.n_sets, 2);
    assert_string_equal(cli.sets[0], "x=1");
    assert_string_equal(cli.sets[1], "y=2");
    assert_int_equal(parse("cook --color always"), PST_OK);
    assert_true(cli.color);
    assert_false(cli.json);
    assert_int_equal(cli.n_arguments, 0);
    assert_int_equal(parse("cook -- --json"), PST_OK);
    assert_false(cli.json);
    assert_string_equal(cli.arguments[0], "--json");
}

TEST(test_own)
{
    assert_int_equal(parse("cook --hot --pan iron"), PST_OK);
    assert_true(request.hot);
    assert_string_equal(request.pan, "iron");
    assert_int_equal(parse("cook -tp iron dish"), PST_OK);
    assert_true(request.hot);
    assert_string_equal(request.pan, "iron");
    assert_string_equal(cli.arguments[0], "dish");
    assert_int_equal(parse("cook"), PST_OK);
    assert_false(request.hot);
    assert_null(request.pan);
}

TEST(test_number)
{
    assert_int_equal(parse("cook --minutes 60"), PST_OK);
    assert_int_equal(request.minutes, 60);
    for (const char *const *wrong = (const char *const[]){"0", "61", "6x", "-1", "", NULL};
         *wrong != NULL; wrong++) {
        char line[64];

        snprintf(line, sizeof line, "cook --minutes=%s", *wrong);
        assert_int_equal(parse(line), PST_ERR_CONFIG);
        assert_non_null(strstr(err.message, "cook: --minutes must be a number from 1 to 60"));
    }
}

static void expect_usage(const char *line, const char *message, const char *hint)
{
    assert_int_equal(parse(line), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "usage");
    assert_int_equal(pst_error_exit_code(&err), 2);
    assert_non_null(strstr(err.message, message));
    assert_non_null(strstr(err.hint, hint));
}

TEST(test_errors)
{
    expect_usage("cook --jsn", "--jsn", "--json");
    expect_usage("cook --pon x", "--pon", "--pan");
    expect_usage("cook -x", "-x", "--help");
    expect_usage("cook --pan", "--pan", "--help");
    expect_usage("cook -p", "-p", "--help");
    expect_usage("cook --hot=3", "--hot=3", "");
    expect_usage("cook --set x", "KEY=VALUE", "");
    expect_usage("cook --color red", "red", "");
}

TEST(test_arguments)
{
    assert_int_equal(parse("cook a b"), PST_OK);
    assert_ok(pst_options_arguments(&command, &cli, 1, 2, &err), &err);
    assert_int_equal(pst_options_arguments(&command, &cli, 3, 3, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "DISH"));
    assert_int_equal(pst_options_arguments(&command, &cli, 0, 1, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "\"b\""));
}

TEST(test_want_json)
{
    static char words[5][16] = {"penstock", "cook", "--nonsense", "--json", "--"};
    char *with[] = {words[0], words[1], words[2], words[3]};
    char *behind[] = {words[0], words[1], words[4], words[3]};

    assert_true(pst_options_want_json(4, with));
    assert_false(pst_options_want_json(3, with));
    assert_false(pst_options_want_json(4, behind));
}
