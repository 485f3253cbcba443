/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "reports/table.h"

static void expect_print(const struct pst_table *table, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    pst_table_print(table, out, "> ", false);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

/* Widths follow characters, not bytes; the last column has no blanks behind it, nor have titles; a
   short row is completed. */
TEST(test_layout)
{
    struct pst_table table;

    pst_table_init(&table, "name|>n");
    pst_table_columns(&table, "note");
    pst_table_cell(&table, "%s", "long name");
    pst_table_cell(&table, "%d", 7);
    pst_table_cell(&table, "ok");
    pst_table_cell(&table, "\xC3\xA9t\xC3\xA9"); /* two letters of two bytes each */
    pst_table_cell(&table, "%d", 123);
    expect_print(&table, "> name         n  note\n"
                         "> long name    7  ok\n"
                         "> \xC3\xA9t\xC3\xA9        123  \n");
    pst_table_finish(&table);
}

TEST(test_empty)
{
    struct pst_table table;

    pst_table_init(&table, "a|b");
    expect_print(&table, "> a  b\n");
    pst_table_finish(&table);
}

static void fill(struct pst_table *table)
{
    pst_table_init(table, "name|2>n|~note|9left");
    pst_table_cell(table, "alpha");
    pst_table_cell(table, "1");
    pst_table_cell(table, "one two three four five six");
    pst_table_cell(table, "gone");
    pst_table_cell(table, "beta");
    pst_table_cell(table, "22");
    pst_table_cell(table, "short");
    pst_table_cell(table, "gone");
}

/* With less and less room: all of it; the text in several lines; without the columns that matter
   least; those without a number stay, whatever comes. "> " stands before each line. */
TEST(test_room)
{
    struct pst_table table;

    fill(&table);
    pst_table_set_room(46); /* 2 + 5 + 2 + 2 + 2 + 27 + 2 + 4 */
    expect_print(&table, "> name    n  note                         left\n"
                         "> alpha   1  one two three four five six  gone\n"
                         "> beta   22  short                        gone\n");
    pst_table_set_room(44);
    expect_print(&table, "> name    n  note                       left\n"
                         "> alpha   1  one two three four five    gone\n"
                         ">            six                        \n"
                         "> beta   22  short                      gone\n");
    pst_table_set_room(30);
    expect_print(&table, "> name    n  note\n"
                         "> alpha   1  one two three\n"
                         ">            four five six\n"
                         "> beta   22  short\n"
                         "> left out: left; --wide shows\n"
                         "    all\n");
    pst_table_set_room(25);
    expect_print(&table, "> name   note\n"
                         "> alpha  one two three\n"
                         ">        four five six\n"
                         "> beta   short\n"
                         "> left out: n, left;\n"
                         "    --wide shows all\n");
    pst_table_set_room(0);
    pst_table_finish(&table);
}

/* What is left out for a wider column's sake comes back where that one goes as well: 2 + 4 + 2 + 16
   and 8 + 2 more are too many for 30, 2 + 4 + 2 + 8 are not. */
TEST(test_comes_back)
{
    struct pst_table table;

    pst_table_init(&table, "name|4number|3~text");
    pst_table_cell(&table, "a");
    pst_table_cell(&table, "12345678");
    pst_table_cell(&table, "words that take more than one line");
    pst_table_set_room(30);
    expect_print(&table, "> name  text\n"
                         "> a     words that take more\n"
                         ">       than one line\n"
                         "> left out: number; --wide\n"
                         "    shows all\n");
    pst_table_set_room(22);
    expect_print(&table, "> name  number\n"
                         "> a     12345678\n"
                         "> left out: text;\n"
                         "    --wide shows all\n");
    pst_table_set_room(0);
    pst_table_finish(&table);
}

static void fill_reasons(struct pst_table *table)
{
    static const char reason[] = "a reason of so many words that they take more than forty-eight";

    pst_table_init(table, "name|+why");
    for (uint32_t i = 0; i < 3; i++) {
        pst_table_cell(table, "%c", "abc"[i]);
        pst_table_cell(table, "%s", i < 2 ? reason : "");
    }
}

/* Beside the row where 48 columns are left, 2 + 4 + 2 + 48; else below it, once for rows that
   follow each other. A column of reasons without one is none. */
TEST(test_reasons)
{
    struct pst_table table;

    fill_reasons(&table);
    pst_table_set_room(56);
    expect_print(&table, "> name  why\n"
                         "> a     a reason of so many words that they take more\n"
                         ">       than forty-eight\n"
                         "> b     a reason of so many words that they take more\n"
                         ">       than forty-eight\n"
                         "> c     \n");
    pst_table_set_room(55);
    expect_print(&table, "> name\n"
                         "> a\n"
                         "> b\n"
                         ">     a reason of so many words that they take more\n"
                         "      than forty-eight\n"
                         "> c\n");
    pst_table_set_room(0);
    pst_table_finish(&table);
    pst_table_init(&table, "name|+why");
    pst_table_cell(&table, "a");
    pst_table_cell(&table, "%s", "");
    expect_print(&table, "> name\n"
                         "> a\n");
    pst_table_finish(&table);
}

/* A name that is longer than the room is cut behind one of its signs. */
TEST(test_long_name)
{
    struct pst_table table;

    pst_table_init(&table, "~a");
    pst_table_cell(&table, "lab/my-scheduler-cpp");
    pst_table_set_room(18);
    expect_print(&table, "> a\n"
                         "> lab/my-\n"
                         "> scheduler-cpp\n");
    pst_table_set_room(0);
    pst_table_finish(&table);
}

/* A word that is longer than the room is cut between characters, here of two bytes each. */
TEST(test_long_word)
{
    struct pst_table table;

    pst_table_init(&table, "~a");
    pst_table_cell(&table, "%s",
                   "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"
                   "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9xyz");
    pst_table_set_room(18);
    expect_print(&table, "> a\n"
                         "> \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"
                         "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\n"
                         "> xyz\n");
    pst_table_set_room(0);
    pst_table_finish(&table);
}
