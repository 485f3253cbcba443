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
