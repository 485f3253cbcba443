/* SPDX-License-Identifier: Apache-2.0
 *
 * What cannot be had ends the program, once, with its handler; all else is there.
 */
#include "test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/memory.h"

static volatile size_t most = SIZE_MAX; /* the compiler must not know */

/* The exit code of a process that does so. */
static int exit_code_of(void (*act)(void))
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        close(2);
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void alloc_product(void)
{
    free(pst_alloc(most / 8, 16));
}

static void resize_product(void)
{
    free(pst_resize(NULL, most / 8, 16));
}

static void grow_count(void)
{
    size_t capacity = most / 2 + 1;
    char *items = NULL;

    pst_grow(&items, &capacity, capacity, 1);
}

static void grow_product(void)
{
    size_t capacity = most / 16;
    char *items = NULL;

    pst_grow(&items, &capacity, capacity, 64);
}

static void arena_product(void)
{
    struct pst_arena arena = {0};

    pst_arena_array(&arena, most / 8, 16);
}

static void arena_too_much(void)
{
    struct pst_arena arena = {0};

    pst_arena_alloc(&arena, most, 0);
}

TEST(what_is_not_there_ends_the_program)
{
    void (*const acts[])(void) = {alloc_product, resize_product, grow_count,
                                  grow_product,  arena_product,  arena_too_much};

    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        assert_int_equal(exit_code_of(acts[i]), 4);
    }
}

static void leave_with_seven(void)
{
    _exit(7);
}

static void with_a_handler(void)
{
    pst_on_out_of_memory(leave_with_seven);
    resize_product();
}

/* A handler that itself finds none. */
static void with_a_hungry_handler(void)
{
    pst_on_out_of_memory(resize_product);
    resize_product();
}

static int pipe_of_handler[2];

static void tell_and_leave(void)
{
    if (write(pipe_of_handler[1], "x", 1) == 1) {
        usleep(1000);
    }
    _exit(7);
}

static void *ask(void *unused)
{
    resize_product();
    return unused;
}

static void on_many_threads(void)
{
    pthread_t threads[8];

    pst_on_out_of_memory(tell_and_leave);
    for (size_t i = 0; i < 8; i++) {
        pthread_create(&threads[i], NULL, ask, NULL);
    }
    pthread_join(threads[0], NULL);
}

TEST(the_handler_runs_once)
{
    char told[16];

    assert_int_equal(exit_code_of(with_a_handler), 7);
    assert_int_equal(exit_code_of(with_a_hungry_handler), 4);
    assert_int_equal(pipe(pipe_of_handler), 0);
    assert_int_equal(exit_code_of(on_many_threads), 7);
    assert_int_equal(read(pipe_of_handler[0], told, sizeof told), 1);
    close(pipe_of_handler[0]);
    close(pipe_of_handler[1]);
}

TEST(memory_is_zeroed_and_grows)
{
    unsigned char *bytes = pst_alloc(3, 5);
    uint32_t *items = NULL;
    size_t capacity = 0, n = 0;

    for (size_t i = 0; i < 15; i++) {
        assert_int_equal(bytes[i], 0);
    }
    bytes = pst_resize(bytes, 1000, 7);
    bytes[6999] = 1;
    free(bytes);
    free(pst_alloc(0, 8));
    free(pst_resize(NULL, 0, 8));
    for (; n < 1000; n++) {
        pst_grow(&items, &capacity, n, sizeof *items);
        assert_true(capacity > n);
        items[n] = (uint32_t)(n * 7);
    }
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i], i * 7);
    }
    free(items);
}

TEST(texts_are_copies)
{
    char *all = pst_strdup("abc"), *part = pst_strndup("abcdef", 3), *ends = pst_strndup("ab", 9);
    char *text = pst_printf("%0*d", 100000, 7);

    assert_string_equal(all, "abc");
    assert_string_equal(part, "abc");
    assert_string_equal(ends, "ab");
    assert_null(pst_strdup(NULL));
    assert_null(pst_strndup(NULL, 3));
    assert_int_equal(strlen(text), 100000);
    assert_int_equal(text[99999], '7');
    free(all);
    free(part);
    free(ends);
    free(text);
}
