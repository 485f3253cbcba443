/* SPDX-License-Identifier: Apache-2.0
 *
 * The program works wherever it is put, with its plugins beside it: below /tmp, and in a tree of
 * another user, as in a container. What others could exchange and the program itself not, is
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

static const char config[] = "[model]\n"
                             "use = \"mlp\"\n"
                             "[data]\n"
                             "kind = \"synthetic\"\n"
                             "[partitioner]\n"
                             "use = \"uniform\"\n"
                             "[scheduler]\n"
                             "use = \"1f1b\"\n"
                             "[cluster]\n"
                             "devices = 2\n";

/* Runs a shell command with $T, the folder of the test; returns its exit code. */
static int shell(const char *command)
{
    int status;

    assert_int_equal(setenv("T", support_folder, 1), 0);
    status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_below_tmp(void **state)
{
    (void)state;
    support_write("a.toml", config);
    assert_int_equal(shell("mkdir -p $T/app && cp '" PENSTOCK_BINARY "' $T/app/ &&"
                           " cp -r '" PENSTOCK_PLUGIN_DIR "' $T/app/plugins"),
                     0);
    assert_int_equal(shell("$T/app/penstock plan $T/a.toml -o $T/plan.json > $T/out"), 0);
    assert_int_equal(shell("grep -q predicted $T/out && test -s $T/plan.json"), 0);
}

static void test_other_owner(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip(); /* only root can give files away */
    }
    assert_int_equal(shell("chown -R 12345 $T/app"), 0);
    assert_int_equal(shell("$T/app/penstock plan $T/a.toml > $T/out"), 0);
    assert_int_equal(shell("mkdir $T/more && cp $T/app/plugins/scheduler-1f1b.so $T/more &&"
                           " chown -R 12345 $T/more"),
                     0);
    assert_int_equal(shell("PENSTOCK_PLUGIN_PATH=$T/more $T/app/penstock plan $T/a.toml"
                           " > $T/out 2> $T/err"),
                     2);
    assert_int_equal(shell("grep -q 'belongs to user 12345' $T/err"), 0);
    assert_int_equal(shell("chown -R 0 $T/app $T/more"), 0);
}

static void test_open_folder(void **state)
{
    (void)state;
    assert_int_equal(shell("mkdir -p $T/open && cp $T/app/plugins/scheduler-1f1b.so $T/open &&"
                           " chmod o+w $T/open"),
                     0);
    assert_int_equal(shell("PENSTOCK_PLUGIN_PATH=$T/open $T/app/penstock plan $T/a.toml --json"
                           " > $T/out"),
                     2);
    assert_int_equal(shell("grep -q plugin.insecure $T/out && grep -q 'chmod o-w' $T/out"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_below_tmp),
        cmocka_unit_test(test_other_owner),
        cmocka_unit_test(test_open_folder),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
