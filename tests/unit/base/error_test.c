/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

TEST(failing_fills_everything)
{
    struct pst_error err;

    memset(&err, 0xA5, sizeof err);
    assert_int_equal(pst_fail(&err, PST_ERR_IO, "input.path", "no %s", "disk"), PST_ERR_IO);
    assert_int_equal(err.status, PST_ERR_IO);
    assert_string_equal(err.kind, "input.path");
    assert_string_equal(err.message, "no disk");
    assert_string_equal(err.file, "");
    assert_string_equal(err.hint, "");
    assert_string_equal(err.details, "");
    assert_int_equal(err.line, 0);
    assert_int_equal(err.column, 0);
    assert_int_equal(err.exit_code, 0);
    pst_fail_at(&err, PST_ERR_CONFIG, "config.key", "a.toml", 3, 9, "x");
    assert_string_equal(err.file, "a.toml");
    assert_int_equal(err.line, 3);
    assert_int_equal(err.column, 9);
}

TEST(nobody_needs_to_listen)
{
    assert_int_equal(pst_fail(NULL, PST_ERR_BUG, "internal", "x"), PST_ERR_BUG);
    assert_int_equal(pst_fail_at(NULL, PST_ERR_BUG, "internal", "f", 1, 1, "x"), PST_ERR_BUG);
    assert_int_equal(pst_fail_nomem(NULL), PST_ERR_NOMEM);
    pst_error_hint(NULL, "x");
    pst_error_detail(NULL, "x");
    pst_error_prefix(NULL, "x");
}

TEST(context_goes_in_front)
{
    struct pst_error err;

    pst_fail(&err, PST_ERR_IO, "x", "disk full");
    pst_error_prefix(&err, "saving step %d", 5);
    pst_error_prefix(&err, "rank 2");
    assert_string_equal(err.message, "rank 2: saving step 5: disk full");
    pst_error_hint(&err, "make %s", "room");
    pst_error_hint(&err, "or wait");
    assert_string_equal(err.hint, "or wait");
    pst_error_detail(&err, "a %d\n", 1);
    pst_error_detail(&err, "b\n");
    assert_string_equal(err.details, "a 1\nb\n");
}

TEST(long_texts_are_cut)
{
    struct pst_error err;
    char text[10000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    pst_fail_at(&err, PST_ERR_IO, text, text, 1, 1, "%s", text);
    assert_int_equal(strlen(err.kind), sizeof err.kind - 1);
    assert_int_equal(strlen(err.file), sizeof err.file - 1);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_string_equal(err.file + sizeof err.file - 5, "x...");
    assert_string_equal(err.message + sizeof err.message - 5, "x...");
    pst_error_prefix(&err, "y");
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_memory_equal(err.message, "y: xxx", 6);
    pst_error_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    for (int i = 0; i < 3; i++) {
        pst_error_detail(&err, "%s", text);
        pst_error_hint(&err, "%s", text);
    }
    assert_int_equal(strlen(err.details), sizeof err.details - 1);
    assert_int_equal(strlen(err.hint), sizeof err.hint - 1);
}

TEST(exit_codes)
{
    static const struct {
        pst_status status;
        const char *kind;
        int code;
    } cases[] = {
        {PST_OK, "", 0},
        {PST_ERR_CONFIG, "config.key", 2},
        {PST_ERR_INFEASIBLE, "plan.infeasible", 1},
        {PST_ERR_UNSUPPORTED, "machine.missing", 4},
        {PST_ERR_UNSUPPORTED, "machine.process", 4},
        {PST_ERR_UNSUPPORTED, "plan.mismatch", 2},
        {PST_ERR_NOMEM, "machine.memory", 4},
        {PST_ERR_IO, "output.write", 2},
        {PST_ERR_DEVICE, "machine.missing", 4},
        {PST_ERR_BUG, "internal", 70},
        {PST_ERR_BUG, "run.stalled", 1},
    };
    struct pst_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_fail(&err, cases[i].status, cases[i].kind, "x");
        assert_int_equal(pst_error_exit_code(&err), cases[i].code);
    }
    err.exit_code = 3;
    assert_int_equal(pst_error_exit_code(&err), 3);
}

/* One that is kept, such as a builder's first, goes to whoever asks; PST_OK hands nothing on. */
TEST(kept_errors_are_handed_on)
{
    struct pst_error kept = {.status = PST_OK}, err;

    pst_fail(&err, PST_ERR_IO, "input.path", "before");
    assert_int_equal(pst_error_pass(&err, &kept), PST_OK);
    assert_string_equal(err.message, "before");
    pst_fail_at(&kept, PST_ERR_CONFIG, "config.key", "a.toml", 3, 4, "unknown");
    assert_int_equal(pst_error_pass(NULL, &kept), PST_ERR_CONFIG);
    assert_int_equal(pst_error_pass(&err, &kept), PST_ERR_CONFIG);
    assert_memory_equal(&err, &kept, sizeof err);
}

TEST(failed_assertion_ends_with_70)
{
    pid_t child;
    int status = 0;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) != NULL) {
            PST_ASSERT(status == 1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 70);
}
