/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/text.h"

#define FFFD "\xEF\xBF\xBD"

/* Shortest forms only, no surrogates, nothing above U+10FFFF (RFC 3629, section 4). */
TEST(test_length)
{
    assert_int_equal(pst_utf8_length("a"), 1);
    assert_int_equal(pst_utf8_length("\xC3\xA4"), 2);
    assert_int_equal(pst_utf8_length("\xE2\x82\xAC"), 3);
    assert_int_equal(pst_utf8_length("\xF0\x9F\x98\x80"), 4);
    assert_int_equal(pst_utf8_length("\x80"), 0);
    assert_int_equal(pst_utf8_length("\xC3"), 0);
    assert_int_equal(pst_utf8_length("\xE2\x82"), 0);
    assert_int_equal(pst_utf8_length("\xC0\x80"), 0);
    assert_int_equal(pst_utf8_length("\xE0\x9F\xBF"), 0);
    assert_int_equal(pst_utf8_length("\xED\xA0\x80"), 0);
    assert_int_equal(pst_utf8_length("\xF4\x90\x80\x80"), 0);
}

static void expect_print(const char *text, const char *wanted)
{
    char *printed = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&printed, &size);

    assert_non_null(out);
    pst_text_print(out, text);
    fclose(out);
    assert_string_equal(printed, wanted);
    free(printed);
}

TEST(test_print)
{
    expect_print("", "");
    expect_print("a\tb\nc", "a\tb\nc");
    expect_print("\xC3\xA4\xE2\x82\xAC", "\xC3\xA4\xE2\x82\xAC");
    expect_print("\033[31m\r\a\x7F", FFFD "[31m" FFFD FFFD FFFD);
    /* U+009B, which some terminals take for ESC [; U+00A0 is a space. */
    expect_print("\xC2\x9B\xC2\xA0", FFFD "\xC2\xA0");
    expect_print("\x9B\xFF\xC3", FFFD FFFD FFFD);
    /* Unicode 15, table 3-8, and section 3.9: bytes that begin a character are one U+FFFD */
    expect_print("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64",
                 "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d");
    expect_print("\xE0\x80\xED\xA0\xF0\x8F\xF4\x90", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD);
}

/* Unicode 15, section 23.2: marks, embeddings, overrides and isolates change the order in which a
   terminal shows what follows; U+2028 and U+2029 end a line. Joiners do not. */
TEST(direction_marks_are_written_as_numbers)
{
    expect_print("a\xE2\x80\xAEgpj.b", "a\\u{202e}gpj.b");
    expect_print("\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F", "\\u{61c}\\u{200e}\\u{200f}");
    expect_print("\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA", "\\u{2028}\\u{2029}\\u{202a}");
    expect_print("\xE2\x81\xA6\xE2\x81\xA9\xEF\xBB\xBF", "\\u{2066}\\u{2069}\\u{feff}");
    expect_print("\xE2\x80\x8D\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5\xEF\xBB\xBE",
                 "\xE2\x80\x8D\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5\xEF\xBB\xBE");
}

/* A line stays one; a format's own text is treated as its arguments are. */
TEST(lines_and_formats)
{
    char *printed = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&printed, &size);

    assert_non_null(out);
    pst_text_print_line(out, "a\nb\tc\033d");
    pst_text_printf(out, "\n%s|%d\n", "\033[2J\xE2\x80\xAE", 7);
    pst_text_printf(out, "%s\n\n%s\n", "e\nf", "\1\2\t");
    fclose(out);
    assert_string_equal(printed, "a\\nb\\tc" FFFD "d\n" FFFD "[2J\\u{202e}|7\n"
                                 "e\\nf\n\n" FFFD FFFD "\\t\n");
    free(printed);
}

static void expect_plain(const char *text, const char *wanted)
{
    char copy[64];

    snprintf(copy, sizeof copy, "%s", text);
    pst_text_make_plain(copy);
    assert_string_equal(copy, wanted);
    assert_true(pst_text_is_plain(copy));
    assert_int_equal(pst_text_is_plain(text), strcmp(text, wanted) == 0);
}

/* Seven characters and the NUL are what there is room for. */
TEST(appended_text_ends_where_its_room_does)
{
    char text[8] = "ab";
    const uint64_t dims[] = {3, 40};

    pst_text_append(text, sizeof text, "%d", 12345);
    assert_string_equal(text, "ab12345");
    pst_text_append(text, sizeof text, "x");
    assert_string_equal(text, "ab12345");
    assert_string_equal(pst_shape_text(text, sizeof text, 2, dims), "[3, 40]");
    assert_string_equal(pst_shape_text(text, 5, 2, dims), "[3, ");
}

/* One line, as long as it was. */
TEST(test_plain)
{
    expect_plain("", "");
    expect_plain("a \xC3\xA4\xE2\x82\xAC\xC2\xA0", "a \xC3\xA4\xE2\x82\xAC\xC2\xA0");
    expect_plain("\033[31m\r\n\t\a\x7F.", " [31m     .");
    expect_plain("\xC2\x9B.", "  .");
    expect_plain("\xE2\x80\xAE.\xE2\x80\x8D", "   .\xE2\x80\x8D");
    expect_plain("\x9B\xFF\xE2\x82", "????");
}

TEST(words_of_a_list)
{
    static const char *const words[] = {"one", "two", NULL}, *const none[] = {NULL};

    assert_true(pst_text_is_one_of(words, "two"));
    assert_false(pst_text_is_one_of(words, "tw"));
    assert_false(pst_text_is_one_of(words, ""));
    assert_false(pst_text_is_one_of(none, "two"));
    assert_false(pst_text_is_one_of(NULL, "two"));
}

TEST(list)
{
    const char *list = ", a ,b c,, *.d", *items[] = {"a", "b c", "*.d"};
    char name[600];
    size_t length;

    for (size_t i = 0; i < 3; i++) {
        const char *item = pst_list_next(&list, &length);

        assert_int_equal(length, strlen(items[i]));
        assert_memory_equal(item, items[i], length);
    }
    assert_null(pst_list_next(&list, &length));
    assert_true(pst_list_matches("a, *.d", "h.d"));
    assert_false(pst_list_matches("a, *.d", "d"));
    assert_false(pst_list_matches(" ", ""));
    /* a long pattern is compared whole */
    snprintf(name, sizeof name, "x, %0300d", 1);
    assert_true(pst_list_matches(name, name + 3));
    name[302] = '0';
    assert_false(pst_list_matches("x, 0*1", name + 3));
}
