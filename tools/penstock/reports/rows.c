/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"

static const struct {
    const char *word; /* in the documents */
    size_t size;      /* of what tells whether a value is 0: of a name the first byte */
} kinds[] = {
#define KIND(kind, type, word) {word, PST_ROW_##kind == PST_ROW_NAME ? 1 : sizeof(type)},
    PST_ROW_KINDS(KIND)};

static bool is_end(const struct pst_row *row)
{
    return row->key == NULL && row->title == NULL && row->rows == NULL;
}

const void *pst_row_value(const struct pst_row *row, const struct pst_row_of *of)
{
    return (const char *)of->at[row->base] + row->at;
}

static bool is_absent(enum pst_row_absent test, const void *at, size_t size)
{
    const unsigned char *bytes = at, byte = test == PST_ROW_IF_NONE ? UINT8_MAX : 0;
    size_t i = 0;

    while (test != PST_ROW_ALWAYS && i < size && bytes[i] == byte) { /* json() may read less */
        i++;
    }
    return test != PST_ROW_ALWAYS && (i == size) != (test == PST_ROW_IF_NOT_ZERO);
}

static bool is_there(const struct pst_row *row, const struct pst_row_of *of)
{
    const size_t size = row->size > 0 ? sizeof(void *) : kinds[row->kind].size;

    return !is_absent(row->absent, pst_row_value(row, of), size) &&
           !is_absent(row->unless, (const char *)of->at[row->unless_base] + row->unless_at,
                      row->unless_size);
}

/* Is it the value that the row has a text for? */
static bool is_none(const struct pst_row *row, const struct pst_row_of *of)
{
    return row->none != NULL &&
           is_absent(PST_ROW_IF_NONE, pst_row_value(row, of), kinds[row->kind].size);
}

/* key: that of the row, or NULL for an entry of a list. */
static void put_value(struct pst_json *json, const char *key, const struct pst_row *row,
                      const void *at)
{
    switch (row->kind) {
    case PST_ROW_TEXT:
        pst_json_string(json, key, *(const char *const *)at);
        break;
    case PST_ROW_NAME:
        pst_json_string(json, key, at);
        break;
    case PST_ROW_WORD:
        pst_json_string(json, key, row->word(*(const uint8_t *)at));
        break;
    case PST_ROW_FLAG:
        pst_json_bool(json, key, *(const bool *)at);
        break;
    case PST_ROW_COUNT:
        pst_json_uint(json, key, *(const uint32_t *)at);
        break;
    case PST_ROW_NUMBER:
    case PST_ROW_BYTES:
        pst_json_uint(json, key, *(const uint64_t *)at);
        break;
    case PST_ROW_ROOM:
        pst_json_real(json, key, *(const double *)at, 3);
        break;
    case PST_ROW_NS:
        pst_json_us(json, key, (double)*(const uint64_t *)at);
        break;
    case PST_ROW_MEAN:
    case PST_ROW_TIME:
        pst_json_us(json, key, *(const double *)at);
        break;
    case PST_ROW_SECONDS:
        pst_json_real(json, key, (double)*(const uint64_t *)at / 1e9, 9);
        break;
    case PST_ROW_REAL:
        pst_json_real(json, key, *(const double *)at, row->decimals > 0 ? row->decimals : 6);
        break;
    case PST_ROW_FIGURE:
        pst_json_figure(json, key, *(const double *)at);
        break;
    case PST_ROW_VALUE:
        pst_json_number(json, key, *(const double *)at);
        break;
    case PST_ROW_OBJECT:
        PST_ASSERT(!"an object has rows");
    }
}

void pst_rows_object(struct pst_json *json, const char *key, const struct pst_row *rows,
                     const struct pst_row_of *of)
{
    pst_json_object(json, key);
    pst_rows_json(json, rows, of);
    pst_json_end(json, '}');
}

static uint32_t count_entries(const struct pst_row *row, const struct pst_row_of *of)
{
    return *(const uint32_t *)(const void *)((const char *)of->at[row->base] + row->n_at);
}

/* The structs of an entry. */
static struct pst_row_of enter(const struct pst_row *row, const struct pst_row_of *of,
                               const uint32_t *index)
{
    const char *entries = *(const char *const *)pst_row_value(row, of);
    struct pst_row_of inner = {{entries + *index * row->size, index}};

    memcpy(&inner.at[PST_ROW_OUTER], of->at, sizeof of->at - PST_ROW_OUTER * sizeof of->at[0]);
    return inner;
}

static void put_list(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const uint32_t n = count_entries(row, of);

    pst_json_array(json, row->key);
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_row_of inner = enter(row, of, &i);

        if (row->each != NULL) {
            put_list(json, row->each, &inner);
        } else if (row->rows != NULL) {
            pst_rows_object(json, NULL, row->rows, &inner);
        } else {
            put_value(json, NULL, row, inner.at[PST_ROW_ENTRY]);
        }
    }
    pst_json_end(json, ']');
}

void pst_rows_json(struct pst_json *json, const struct pst_row *rows, const struct pst_row_of *of)
{
    for (; !is_end(rows); rows++) {
        if ((rows->key == NULL && rows->rows == NULL) || !is_there(rows, of)) {
            continue;
        }
        if (rows->json != NULL) {
            rows->json(json, rows, of);
        } else if (rows->size > 0) {
            put_list(json, rows, of);
        } else if (rows->key == NULL) {
            pst_rows_json(json, rows->rows, of);
        } else if (rows->rows != NULL) {
            pst_rows_object(json, rows->key, rows->rows, of);
        } else if (is_none(rows, of)) {
            pst_json_raw(json, rows->key, "null");
        } else {
            put_value(json, rows->key, rows, pst_row_value(rows, of));
        }
    }
}

/* --- for people --------------------------------------------------------------------------------*/

char *pst_row_time_text(char text[32], double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    uint32_t unit = 0;

    while (unit < 3 && ns >= 999.95) {
        ns /= 1000.0;
        unit++;
    }
    snprintf(text, 32, "%.4g %s", ns, units[unit]);
    return text;
}

char *pst_row_room_text(char text[32], double bytes)
{
    return pst_format_bytes(text, bytes < 1.8e19 ? (uint64_t)ceil(bytes) : UINT64_MAX);
}

static const char *value_text(const struct pst_row *row, const void *at, char text[32])
{
    switch (row->kind) {
    case PST_ROW_TEXT:
        return *(const char *const *)at;
    case PST_ROW_NAME:
        return at;
    case PST_ROW_FLAG:
        return *(const bool *)at ? "yes" : "no";
    case PST_ROW_ROOM:
        return pst_row_room_text(text, *(const double *)at);
    case PST_ROW_TIME:
        return pst_row_time_text(text, *(const double *)at);
    case PST_ROW_MEAN:
        return pst_format_ns(text, (uint64_t) * (const double *)at);
    case PST_ROW_NS:
        return pst_format_ns(text, *(const uint64_t *)at);
    case PST_ROW_BYTES:
        return pst_format_bytes(text, *(const uint64_t *)at);
    case PST_ROW_COUNT:
        snprintf(text, 32, "%u", *(const uint32_t *)at);
        return text;
    case PST_ROW_REAL:
        snprintf(text, 32, row->form, *(const double *)at);
        return text;
    default: /* its form depends on the table */
        PST_ASSERT(!"the row has no cell()");
        return "";
    }
}

static void put_cells(struct pst_table *table, const struct pst_row *rows,
                      const struct pst_row_of *of)
{
    char text[32];

    for (; !is_end(rows); rows++) {
        if (rows->title == NULL || !is_there(rows, of)) {
            continue;
        }
        if (rows->cell != NULL) {
            rows->cell(table, of);
        } else if (is_none(rows, of)) {
            pst_table_cell(table, "%s", rows->none);
        } else {
            pst_table_cell(table, "%s", value_text(rows, pst_row_value(rows, of), text));
        }
    }
}

void pst_rows_print(const struct pst_row *rows, const char *key, const struct pst_row_of *of,
                    const char *indent, bool color, FILE *out)
{
    struct pst_table table;
    uint32_t n;

    while (rows->key == NULL || strcmp(rows->key, key) != 0) {
        rows++;
    }
    n = count_entries(rows, of);
    if (n == 0) {
        return;
    }
    pst_table_init(&table, "");
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_row_of inner = enter(rows, of, &i);

        for (const struct pst_row *row = rows->rows; i == 0 && !is_end(row); row++) {
            if (row->title != NULL && is_there(row, &inner)) {
                pst_table_columns(&table, row->title);
            }
        }
        put_cells(&table, rows->rows, &inner);
    }
    pst_table_end(&table, out, indent, color);
}

/* --- documents ---------------------------------------------------------------------------------*/

void pst_rows_document(const struct pst_row *rows, const char *prefix, FILE *out)
{
    for (; !is_end(rows); rows++) {
        const struct pst_row *each = rows->each != NULL ? rows->each : rows;
        const char *list = rows->size == 0 ? "" : each != rows ? "[][]" : "[]";

        if (rows->key != NULL) {
            fprintf(out, "| `%s%s` | %s%s | %s |\n", prefix, rows->key,
                    rows->size == 0 ? ""
                    : each != rows  ? "list: list: "
                                    : "list: ",
                    rows->type != NULL ? rows->type : kinds[each->kind].word,
                    rows->doc == NULL ? "" : rows->doc);
        }
        if (each->rows != NULL) {
            char *inner = rows->key == NULL ? pst_printf("%s", prefix)
                                            : pst_printf("%s%s%s.", prefix, rows->key, list);

            pst_rows_document(each->rows, inner, out);
            free(inner);
        }
    }
}
