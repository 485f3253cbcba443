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
    [PST_ROW_TEXT] = {"text", PST_ROW_TEXT_BYTES},
    [PST_ROW_NAME] = {"text", 1},
    [PST_ROW_FLAG] = {"`true` or `false`", PST_ROW_FLAG_BYTES},
    [PST_ROW_COUNT] = {"integer", PST_ROW_COUNT_BYTES},
    [PST_ROW_NUMBER] = {"integer", PST_ROW_NUMBER_BYTES},
    [PST_ROW_BYTES] = {"bytes", PST_ROW_BYTES_BYTES},
    [PST_ROW_ROOM] = {"bytes", PST_ROW_ROOM_BYTES},
    [PST_ROW_NS] = {"µs", PST_ROW_NS_BYTES},
    [PST_ROW_TIME] = {"µs", PST_ROW_TIME_BYTES},
    [PST_ROW_REAL] = {"number", PST_ROW_REAL_BYTES},
    [PST_ROW_OBJECT] = {"object", 0},
};

static bool is_end(const struct pst_row *row)
{
    return row->key == NULL && row->title == NULL;
}

const void *pst_row_value(const struct pst_row *row, const struct pst_row_of *of)
{
    return (const char *)of->at[row->base] + row->at;
}

static bool is_there(const struct pst_row *row, const struct pst_row_of *of)
{
    static const uint64_t zero = 0, none = UINT64_MAX;
    const size_t size = row->size > 0 ? sizeof(void *) : kinds[row->kind].size;

    return (row->has == NULL || row->has(of)) &&
           (row->absent == PST_ROW_ALWAYS ||
            memcmp(pst_row_value(row, of), row->absent == PST_ROW_IF_ZERO ? &zero : &none, size) !=
                0);
}

static void put_value(struct pst_json *json, const char *key, enum pst_row_kind kind,
                      const void *at)
{
    switch (kind) {
    case PST_ROW_TEXT:
        pst_json_string(json, key, *(const char *const *)at);
        break;
    case PST_ROW_NAME:
        pst_json_string(json, key, at);
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
    case PST_ROW_TIME:
        pst_json_us(json, key, *(const double *)at);
        break;
    case PST_ROW_REAL:
        pst_json_real(json, key, *(const double *)at, 6);
        break;
    case PST_ROW_OBJECT:
        PST_ASSERT(!"an object has rows");
    }
}

static void put_object(struct pst_json *json, const char *key, const struct pst_row *rows,
                       const struct pst_row_of *of)
{
    pst_json_object(json, key);
    pst_rows_json(json, rows, of);
    pst_json_end(json, '}');
}

static void put_list(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const char *entry = *(const char *const *)pst_row_value(row, of);
    const uint32_t n =
        *(const uint32_t *)(const void *)((const char *)of->at[row->base] + row->n_at);
    struct pst_row_of inner;

    memcpy(&inner.at[PST_ROW_OUTER], of->at, sizeof of->at - PST_ROW_OUTER * sizeof of->at[0]);
    pst_json_array(json, row->key);
    for (uint32_t i = 0; i < n; i++, entry += row->size) {
        inner.at[PST_ROW_ENTRY] = entry;
        inner.at[PST_ROW_INDEX] = &i;
        if (row->rows != NULL) {
            put_object(json, NULL, row->rows, &inner);
        } else {
            put_value(json, NULL, row->kind, entry);
        }
    }
    pst_json_end(json, ']');
}

void pst_rows_json(struct pst_json *json, const struct pst_row *rows, const struct pst_row_of *of)
{
    for (; !is_end(rows); rows++) {
        if (rows->key == NULL || !is_there(rows, of)) {
            continue;
        }
        if (rows->json != NULL) {
            rows->json(json, rows, of);
        } else if (rows->size > 0) {
            put_list(json, rows, of);
        } else if (rows->rows != NULL) {
            put_object(json, rows->key, rows->rows, of);
        } else {
            put_value(json, rows->key, rows->kind, pst_row_value(rows, of));
        }
    }
}

/* --- for people --------------------------------------------------------------------------------*/

void pst_rows_columns(struct pst_table *table, const struct pst_row *rows,
                      const struct pst_row_of *of)
{
    for (; !is_end(rows); rows++) {
        if (rows->title != NULL && is_there(rows, of)) {
            pst_table_columns(table, rows->title);
        }
    }
}

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

static void put_cell(struct pst_table *table, const struct pst_row *row, const void *at)
{
    char text[32];

    switch (row->kind) {
    case PST_ROW_TEXT:
        pst_table_cell(table, "%s", *(const char *const *)at);
        break;
    case PST_ROW_NAME:
        pst_table_cell(table, "%s", (const char *)at);
        break;
    case PST_ROW_ROOM:
        pst_table_cell(table, "%s", pst_row_room_text(text, *(const double *)at));
        break;
    case PST_ROW_TIME:
        pst_table_cell(table, "%s", pst_row_time_text(text, *(const double *)at));
        break;
    case PST_ROW_COUNT:
        pst_table_cell(table, "%u", *(const uint32_t *)at);
        break;
    case PST_ROW_BYTES:
        pst_table_bytes(table, *(const uint64_t *)at);
        break;
    case PST_ROW_NS:
        pst_table_ns(table, *(const uint64_t *)at);
        break;
    default: /* its form depends on the table */
        PST_ASSERT(!"the row has no cell()");
    }
}

void pst_rows_cells(struct pst_table *table, const struct pst_row *rows,
                    const struct pst_row_of *of)
{
    for (; !is_end(rows); rows++) {
        if (rows->title == NULL || !is_there(rows, of)) {
            continue;
        }
        if (rows->cell != NULL) {
            rows->cell(table, of);
        } else {
            put_cell(table, rows, pst_row_value(rows, of));
        }
    }
}

/* --- documents ---------------------------------------------------------------------------------*/

void pst_rows_document(const struct pst_row *rows, const char *prefix, FILE *out)
{
    for (; !is_end(rows); rows++) {
        const bool is_list = rows->size > 0;

        if (rows->key == NULL) {
            continue;
        }
        fprintf(out, "| `%s%s` | %s%s | %s |\n", prefix, rows->key, is_list ? "list: " : "",
                rows->type != NULL ? rows->type : kinds[rows->kind].word,
                rows->doc == NULL ? "" : rows->doc);
        if (rows->rows != NULL) {
            char *inner = pst_printf("%s%s%s.", prefix, rows->key, is_list ? "[]" : "");

            pst_rows_document(rows->rows, inner, out);
            free(inner);
        }
    }
}
