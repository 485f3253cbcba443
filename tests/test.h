/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test of C includes: cmocka with what it needs, and tests that put themselves on the
 * list of their program, in the order in which they stand.
 *
 *     TEST(sums_are_exact)
 *     {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * test_main.c has the main of programs that have none.
 */
#ifndef PENSTOCK_TESTS_TEST_H
#define PENSTOCK_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void list_test(struct CMUnitTest test);
void set_test_group(CMFixtureFunction begin, CMFixtureFunction end);

/* Runs the tests of the list; the number of those that failed. The fixtures may be NULL. */
int run_own_tests(CMFixtureFunction begin, CMFixtureFunction end);

#define TEST_WITH(name, setup, teardown)                                                           \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void list_##name(void)                                     \
    {                                                                                              \
        list_test((struct CMUnitTest){#name, name, setup, teardown, NULL});                        \
    }                                                                                              \
    static void name(void **state __attribute__((unused)))
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* What is done before the first test and after the last one. */
#define TEST_GROUP(begin, end)                                                                     \
    __attribute__((constructor)) static void set_own_group(void)                                   \
    {                                                                                              \
        set_test_group(begin, end);                                                                \
    }

/* Before a local's type: at the end of its block, the function is called with its address. */
#define FINISHED_BY(function) __attribute__((cleanup(function)))

/* Behind OWNER(x) a local that is declared as OWN(x) *p is destroyed at the end of its block. */
#define OWN(kind) FINISHED_BY(own_##kind) struct pst_##kind
#define OWNER(kind)                                                                                \
    static inline void own_##kind(struct pst_##kind **owned)                                       \
    {                                                                                              \
        pst_##kind##_destroy(*owned);                                                              \
    }

/* What was asked for was done; else the fault is shown. */
#define assert_ok(status, err)                                                                     \
    do {                                                                                           \
        if ((status) != PST_OK) {                                                                  \
            fail_msg("%s\n%s", (err)->message, (err)->details);                                    \
        }                                                                                          \
    } while (0)

#endif
