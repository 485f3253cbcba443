/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "reports/progress.h"

TEST(test_units)
{
    char text[32];

    assert_string_equal(pst_format_eta(text, 0), "0s");
    assert_string_equal(pst_format_eta(text, 59), "59s");
    assert_string_equal(pst_format_eta(text, 250), "4m10s");
    assert_string_equal(pst_format_eta(text, 7380), "2h03m");
    assert_string_equal(pst_format_count(text, 812), "812");
    assert_string_equal(pst_format_count(text, 999.6), "1.0k");
    assert_string_equal(pst_format_count(text, 18230), "18.2k");
    assert_string_equal(pst_format_count(text, 3.14e6), "3.1M");
}

/* Away from a terminal: whole lines at every fourth step and at the end, no control characters. */
TEST(test_lines)
{
    struct pst_progress progress;
    char *text = NULL;
    size_t size = 0, lines = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    pst_progress_init(&progress, out, 10, 4);
    assert_false(progress.terminal);
    for (uint64_t step = 1; step <= 10; step++) {
        /* Half a second for 100 tokens: 200 a second; 6 steps are left at step 4. */
        pst_progress_step(&progress, step, 3.4123, 500000000, 100, 3u << 20, step);
    }
    pst_progress_note(&progress, "note");
    pst_progress_clear(&progress);
    fclose(out);
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n';
        assert_true(text[i] == '\n' || (unsigned char)text[i] >= 0x20);
    }
    assert_int_equal(lines, 4);
    assert_int_equal(strncmp(text, "step 4/10  loss 3.412  200 tok/s  peak 3.00 MiB  eta 3s\n", 56),
                     0);
    assert_non_null(strstr(text, "\nstep 8/10 "));
    assert_non_null(strstr(text, "\nstep 10/10 "));
    assert_non_null(strstr(text, "\nnote\n"));
    free(text);
}

/* On a terminal: one line that is drawn over, at most ten times a second. */
TEST(test_terminal)
{
    struct pst_progress progress;
    char *text = NULL;
    size_t size = 0, drawn = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    pst_progress_init(&progress, out, 1000, 1);
    progress.terminal = true;
    for (uint64_t step = 1; step <= 500; step++) {
        /* A step takes a millisecond: 500 of them are half a second. */
        pst_progress_step(&progress, step, 1.0, 1000000, 1, 1, 5000000000u + step * 1000000);
    }
    fflush(out);
    for (size_t i = 0; i < size; i++) {
        drawn += text[i] == '\r';
        assert_true(text[i] != '\n');
    }
    assert_in_range(drawn, 5, 6);
    pst_progress_note(&progress, "note");
    fclose(out);
    assert_int_equal(strcmp(text + size - strlen("\r\033[Knote\n"), "\r\033[Knote\n"), 0);
    free(text);
}

/* A narrow terminal gets as much as stands in one row. */
TEST(test_narrow)
{
    struct pst_progress progress;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    pst_progress_init(&progress, out, 10, 1);
    progress.terminal = true;
    progress.width = 10;
    pst_progress_step(&progress, 10, 1.0, 1000000, 1, 1, 5000000000u);
    fclose(out);
    assert_string_equal(text, "\rstep 10/1\033[K");
    free(text);
}

/* What the first step takes more than the others says nothing about the rest of the run. */
TEST(test_first_step)
{
    struct pst_progress progress;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    pst_progress_init(&progress, out, 12, 2);
    pst_progress_step(&progress, 1, 1.0, 60000000000u, 1, 1, 1);
    pst_progress_step(&progress, 2, 1.0, 1000000000, 1, 1, 2);
    fclose(out);
    assert_non_null(strstr(text, "eta 10s"));
    free(text);
}
