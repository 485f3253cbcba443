/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <pthread.h>
#include <unistd.h>

#include "base/log.h"

static char text[1 << 16];

/* What `act` writes to standard error. */
static const char *captured(void (*act)(void))
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t n;

    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    act();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

static void one_of_each(void)
{
    pst_log(PST_LOG_ERROR, "exec", "e %d", 1);
    pst_log(PST_LOG_WARN, "exec", "w");
    pst_log(PST_LOG_INFO, "exec", "i");
    pst_log(PST_LOG_DEBUG, "exec", "d");
}

/* First: the level is not set yet. */
TEST(environment_decides_first)
{
    setenv("PENSTOCK_LOG", "info", 1);
    assert_string_equal(captured(one_of_each), "error exec: e 1\nwarn exec: w\ninfo exec: i\n");
    setenv("PENSTOCK_LOG", "debug", 1);
    assert_int_equal(pst_log_level(), PST_LOG_INFO); /* read once */
}

TEST(command_line_wins)
{
    pst_log_set_level(PST_LOG_ERROR);
    assert_string_equal(captured(one_of_each), "error exec: e 1\n");
    pst_log_set_level(PST_LOG_DEBUG);
    assert_string_equal(captured(one_of_each),
                        "error exec: e 1\nwarn exec: w\ninfo exec: i\ndebug exec: d\n");
    pst_log_set_level(99);
    assert_int_equal(pst_log_level(), PST_LOG_DEBUG);
}

static void log_nasty(void)
{
    pst_log(PST_LOG_WARN, "a", "x\ny\r\x1b[31mz");
}

TEST(one_record_is_one_line)
{
    assert_string_equal(captured(log_nasty), "warn a: x y  [31mz\n");
}

static void log_long(void)
{
    pst_log(PST_LOG_WARN, "a", "%05000d", 1);
}

TEST(long_lines_end_with_a_newline)
{
    const char *line;

    line = captured(log_long);
    assert_memory_equal(line, "warn a: 0000", 12);
    assert_int_equal(line[strlen(line) - 1], '\n');
    assert_true(strlen(line) > 900 && strlen(line) < 1100);
}

static void *log_many(void *letter)
{
    for (int i = 0; i < 100; i++) {
        pst_log(PST_LOG_WARN, "t", "%s%s%s%s", (char *)letter, (char *)letter, (char *)letter,
                (char *)letter);
    }
    return NULL;
}

static void log_from_threads(void)
{
    static char a[] = "aaaaaaaa", b[] = "bbbbbbbb";
    pthread_t threads[2];

    pthread_create(&threads[0], NULL, log_many, a);
    pthread_create(&threads[1], NULL, log_many, b);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

TEST(threads_do_not_mix)
{
    char *save = NULL;
    int n = 0;

    captured(log_from_threads);
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        assert_int_equal(strlen(line), 8 + 32);
        for (int i = 9; i < 40; i++) {
            assert_int_equal(line[i], line[8]);
        }
        n++;
    }
    assert_int_equal(n, 200);
}

static void the_same_again(void)
{
    for (int i = 0; i < 3; i++) {
        pst_log_once(PST_LOG_ERROR, "device", "a");
        pst_log_once(PST_LOG_ERROR, "exec", "b 100%");
    }
}

TEST(told_once)
{
    assert_string_equal(captured(the_same_again), "error device: a\nerror exec: b 100%\n");
    assert_string_equal(captured(the_same_again), "");
}
