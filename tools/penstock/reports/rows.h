/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command answers, one row a figure. The same rows are members of a --json object, columns
 * of a table, and lines of docs/reference/json.md:
 *
 *     structs --> rows --> pst_rows_json     {"id":0,"operators":3}
 *                     |--> pst_rows_columns  stage  ops
 *                     |--> pst_rows_cells        0    3
 *                     '--> pst_rows_document | `id` | integer | number of the stage |
 */
#ifndef PST_REPORTS_ROWS_H
#define PST_REPORTS_ROWS_H

#include <stddef.h>

#include "base/json.h"
#include "reports/table.h"

enum pst_row_kind {
    PST_ROW_TEXT,   /* const char *; NULL: null */
    PST_ROW_NAME,   /* char[] */
    PST_ROW_FLAG,   /* bool */
    PST_ROW_COUNT,  /* uint32_t */
    PST_ROW_NUMBER, /* uint64_t */
    PST_ROW_BYTES,  /* uint64_t; for people "1.20 MiB" */
    PST_ROW_ROOM,   /* the same of a double; in --json to three decimals */
    PST_ROW_NS,     /* uint64_t; in --json microseconds, for people "75.1 ms" */
    PST_ROW_TIME,   /* double; for people to four digits */
    PST_ROW_REAL,   /* double, to six decimals */
    PST_ROW_OBJECT  /* its members are `rows`, or what `json` writes */
};

enum pst_row_absent {
    PST_ROW_ALWAYS = 0, /* there */
    PST_ROW_IF_ZERO,    /* absent if the value is 0 or NULL */
    PST_ROW_IF_NONE     /* absent if it is the largest of its type */
};

/* The structs that values are in. Of an entry of a list: the entry, its number (uint32_t), then the
   structs of the list itself. */
#define PST_ROW_BASES 8
struct pst_row_of {
    const void *at[PST_ROW_BASES];
};
#define PST_ROW_OF(...) (&(const struct pst_row_of){{__VA_ARGS__}})
enum { PST_ROW_ENTRY = 0, PST_ROW_INDEX, PST_ROW_OUTER };

struct pst_row {
    const char *key; /* in --json; NULL: in the table alone */
    const char *doc;
    enum pst_row_kind kind;
    uint32_t base; /* place in struct pst_row_of */
    size_t at;     /* offset of the value */
    /* A list: `at` has a pointer to entries of this size, `n_at` their number (uint32_t). They are
       values of the kind, or objects with `rows`. */
    size_t size, n_at;
    const struct pst_row *rows;
    const char *type;  /* in the document, instead of the kind's word; NULL: that word */
    const char *title; /* of the column, with the signs of table.h; NULL: in --json alone */
    enum pst_row_absent absent;
    bool (*has)(const struct pst_row_of *of); /* false: absent */
    /* NULL: by the kind. */
    void (*json)(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of);
    void (*cell)(struct pst_table *table, const struct pst_row_of *of);
};

/* Bytes of a value; 0: any. A row whose member has another size does not compile. */
enum {
    PST_ROW_TEXT_BYTES = sizeof(char *),
    PST_ROW_NAME_BYTES = 0,
    PST_ROW_FLAG_BYTES = sizeof(bool),
    PST_ROW_COUNT_BYTES = sizeof(uint32_t),
    PST_ROW_NUMBER_BYTES = sizeof(uint64_t),
    PST_ROW_BYTES_BYTES = sizeof(uint64_t),
    PST_ROW_ROOM_BYTES = sizeof(double),
    PST_ROW_NS_BYTES = sizeof(uint64_t),
    PST_ROW_TIME_BYTES = sizeof(double),
    PST_ROW_REAL_BYTES = sizeof(double)
};
#define PST_ROW_FITS(row_kind, type, member)                                                       \
    (PST_ROW_##row_kind##_BYTES == 0 || sizeof((type *)NULL)->member == PST_ROW_##row_kind##_BYTES)
/* Fields of a row: its kind, and where its value is. */
#define PST_ROW_AT(row_kind, struct_base, type, member)                                            \
    PST_ROW_##row_kind, .base = (struct_base),                                                     \
                        .at = offsetof(type, member) +                                             \
                              0 * sizeof(char[PST_ROW_FITS(row_kind, type, member) ? 1 : -1])
#define PST_ROW_EACH(struct_base, type, list, count)                                               \
    .base = (struct_base), .at = offsetof(type, list), .n_at = offsetof(type, count),              \
    .size = sizeof *((type *)NULL)->list
/* A list that json() writes. */
#define PST_ROW_LIST .size = 1
#define PST_ROWS_END                                                                               \
    {                                                                                              \
        .key = NULL                                                                                \
    }

/* Members of the object that is open. */
void pst_rows_json(struct pst_json *json, const struct pst_row *rows, const struct pst_row_of *of);
void pst_rows_columns(struct pst_table *table, const struct pst_row *rows,
                      const struct pst_row_of *of);
void pst_rows_cells(struct pst_table *table, const struct pst_row *rows,
                    const struct pst_row_of *of);

/* The value that a row is about. */
const void *pst_row_value(const struct pst_row *row, const struct pst_row_of *of);
char *pst_row_time_text(char text[32], double ns);
char *pst_row_room_text(char text[32], double bytes);

/* Lines of a Markdown table; fields of objects as `stages[].id`. */
void pst_rows_document(const struct pst_row *rows, const char *prefix, FILE *out);

/* Answers of commands. */
extern const struct pst_row pst_plan_rows[], pst_partition_rows[], pst_memopt_rows[],
    pst_schedule_rows[];

#endif
