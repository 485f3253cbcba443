/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of tests that a program has.
 */
#include "test.h"

#include <errno.h>

enum { MOST_TESTS = 64 };

static struct CMUnitTest tests[MOST_TESTS];
static size_t n_tests;
static CMFixtureFunction group_begin, group_end;

void list_test(struct CMUnitTest test)
{
    if (n_tests == MOST_TESTS) {
        abort();
    }
    tests[n_tests++] = test;
}

void set_test_group(CMFixtureFunction begin, CMFixtureFunction end)
{
    group_begin = begin;
    group_end = end;
}

int run_own_tests(CMFixtureFunction begin, CMFixtureFunction end)
{
    return _cmocka_run_group_tests(program_invocation_short_name, tests, n_tests,
                                   begin != NULL ? begin : group_begin,
                                   end != NULL ? end : group_end);
}
