/* SPDX-License-Identifier: Apache-2.0
 *
 * docs/config.md against the rows of parameters that it must show. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_CONFIG_DOCS_H
#define PENSTOCK_TESTS_CONFIG_DOCS_H

#include <stdio.h>
#include <string.h>

#include <penstock/params.h>

static char docs_text[1 << 17];

static inline void docs_read(void)
{
    FILE *file = fopen(PENSTOCK_SOURCE_DIR "/docs/config.md", "rb");

    assert_non_null(file);
    assert_true(fread(docs_text, 1, sizeof docs_text - 1, file) > 1000);
    assert_true(feof(file));
    fclose(file);
}

/* "| `a`, `b` |" of "a|b"; "| `0..1` |"; "|  |" where there is none. */
static inline void docs_range(const struct pst_param *row, char text[256])
{
    size_t used = 0;

    snprintf(text, 256, "|  |");
    if (row->range == NULL) {
        return;
    }
    used = (size_t)snprintf(text, 256, "| `");
    for (const char *c = row->range; *c != '\0' && used < 240; c++) {
        used += (size_t)(*c == '|' ? snprintf(text + used, 256 - used, "`, `")
                                   : snprintf(text + used, 256 - used, "%c", *c));
    }
    snprintf(text + used, 256 - used, "` |");
}

/* The row stands in that part of the file, with default, range and meaning:
   "| `steps` | integer | `100` | `1..` | Optimizer steps of the run. |". */
static inline void docs_expect_row(const char *heading, const char *part, size_t length,
                                   const struct pst_param *row)
{
    char cell[80], initial[96], range[256], line[1024];
    const char *at;

    snprintf(cell, sizeof cell, "\n| `%s` |", row->key);
    at = memmem(part, length, cell, strlen(cell));
    if (at == NULL) {
        fail_msg("docs/config.md: %s lacks %s", heading, row->key);
        return;
    }
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    snprintf(initial, sizeof initial, row->initial == NULL ? "| required |" : "| `%s` |",
             row->initial == NULL || row->initial[0] == '\0' ? "\"\"" : row->initial);
    docs_range(row, range);
    if (strstr(line, initial) == NULL || strstr(line, range) == NULL ||
        strstr(line, row->doc) == NULL) {
        fail_msg("docs/config.md, %s: %s\nis not: default %s, range %s, %s", heading, line, initial,
                 range, row->doc);
    }
}

/* All rows of a section, whose heading is "## HEADING". */
static inline void docs_expect(const char *heading, const struct pst_param *rows, uint32_t n_rows,
                               size_t row_size)
{
    char title[160];
    const char *part, *end;
    size_t length;

    snprintf(title, sizeof title, "\n## %s\n", heading);
    part = strstr(docs_text, title);
    if (part == NULL) {
        fail_msg("docs/config.md has no ## %s", heading);
        return;
    }
    end = strstr(part + 1, "\n## ");
    length = end == NULL ? strlen(part) : (size_t)(end - part);
    for (uint32_t i = 0; i < n_rows; i++) {
        docs_expect_row(heading, part, length,
                        (const struct pst_param *)((const char *)rows + i * row_size));
    }
}

#endif
