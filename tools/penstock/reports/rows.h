/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command answers, one row a figure. The same rows are members of a --json object, columns
 * of a table, and lines of docs/reference/json.md:
 *
 *     structs --> rows --> pst_rows_json     {"stages":[{"id":0,"operators":3}]}
 *                     |--> pst_rows_print    stage  ops
 *                     |                          0    3
 *                     '--> pst_rows_document | `stages[].id` | integer | number of the stage |
 */
#ifndef PST_REPORTS_ROWS_H
#define PST_REPORTS_ROWS_H

#include <stddef.h>

#include "base/json.h"
#include "reports/table.h"

/* Kinds of figures: the member that has the value, and the word of the documents. */
#define PST_ROW_KINDS(X)                                                                           \
    X(TEXT, const char *, "text")      /* NULL: null */                                            \
    X(NAME, char *, "text")            /* an array */                                              \
    X(WORD, uint8_t, "text")           /* the row's word() of the value */                         \
    X(FLAG, bool, "`true` or `false`") /* for people "yes" */                                      \
    X(COUNT, uint32_t, "integer")                                                                  \
    X(NUMBER, uint64_t, "integer")                                                                 \
    X(BYTES, uint64_t, "bytes")     /* for people "1.20 MiB" */                                    \
    X(ROOM, double, "bytes")        /* likewise; in --json to three decimals */                    \
    X(NS, uint64_t, "µs")           /* for people "75.1 ms" */                                     \
    X(MEAN, double, "µs")           /* likewise */                                                 \
    X(TIME, double, "µs")           /* for people to four digits */                                \
    X(SECONDS, uint64_t, "seconds") /* nanoseconds */                                              \
    X(REAL, double, "number")       /* to the row's decimals */                                    \
    X(FIGURE, double, "number")     /* to twelve digits */                                         \
    X(VALUE, double, "number")      /* every digit */                                              \
    X(OBJECT, char, "object")       /* its members are `rows`, or what `json` writes */

#define PST_ROW_KIND(kind, type, word)   PST_ROW_##kind,
#define PST_ROW_MEMBER(kind, type, word) type kind;
enum pst_row_kind { PST_ROW_KINDS(PST_ROW_KIND) };
struct pst_row_types {
    PST_ROW_KINDS(PST_ROW_MEMBER)
};

enum pst_row_absent {
    PST_ROW_ALWAYS = 0, /* there */
    PST_ROW_IF_ZERO,    /* absent if the value is 0 or NULL */
    PST_ROW_IF_NONE,    /* absent if it is the largest of its type */
    PST_ROW_IF_NOT_ZERO
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
    const char *key; /* in --json; NULL: in the table alone, but `rows` are members beside it */
    const char *doc;
    enum pst_row_kind kind;
    uint32_t base; /* place in struct pst_row_of */
    size_t at;     /* offset of the value */
    /* A list: `at` has a pointer to entries of this size, `n_at` their number (uint32_t). They are
       values of the kind, objects with `rows`, or the list `each`. */
    size_t size, n_at;
    const struct pst_row *rows, *each;
    const char *type;  /* in the document, instead of the kind's word; NULL: that word */
    const char *title; /* of the column, with the signs of table.h; NULL: in --json alone */
    enum pst_row_absent absent;
    const char *none; /* for people, if the value is the largest of its type, which is
                         null in --json; NULL: that is a value as any other */
    const char *form; /* of a double for people, as of printf */
    int decimals;     /* of PST_ROW_REAL; 0: six */
    const char *(*word)(uint32_t value);
    /* PST_ROW_UNLESS: the member that says whether the row is absent; of size 0: none does. */
    enum pst_row_absent unless;
    uint32_t unless_base;
    size_t unless_at, unless_size;
    /* NULL: by the kind. */
    void (*json)(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of);
    void (*cell)(struct pst_table *table, const struct pst_row_of *of);
};

/* Fields of a row: its kind, and where its value is. A member of another type does not compile. */
#define PST_ROW_AT(row_kind, struct_base, type, member)                                            \
    PST_ROW_##row_kind,                                                                            \
        .base = (struct_base),                                                                     \
        .at = offsetof(type, member) +                                                             \
              0 * _Generic(((type *)NULL)->member,                                                 \
                           __typeof__(((struct pst_row_types *)NULL)->row_kind) : 1)
#define PST_ROW_EACH(struct_base, type, list, count)                                               \
    .base = (struct_base), .at = offsetof(type, list), .n_at = offsetof(type, count),              \
    .size = sizeof *((type *)NULL)->list
/* Absent IF_ZERO, IF_NONE or IF_NOT_ZERO, of another member than the value. */
#define PST_ROW_UNLESS(test, struct_base, type, member)                                            \
    .unless = PST_ROW_##test, .unless_base = (struct_base), .unless_at = offsetof(type, member),   \
    .unless_size = sizeof((type *)NULL)->member
/* A list that json() writes. */
#define PST_ROW_LIST .size = 1
#define PST_ROWS_END                                                                               \
    {                                                                                              \
        0                                                                                          \
    }

/* Members of the object that is open. */
void pst_rows_json(struct pst_json *json, const struct pst_row *rows, const struct pst_row_of *of);
void pst_rows_object(struct pst_json *json, const char *key, const struct pst_row *rows,
                     const struct pst_row_of *of);
/* The list of that key as a table: a line for each entry. */
void pst_rows_print(const struct pst_row *rows, const char *key, const struct pst_row_of *of,
                    const char *indent, bool color, FILE *out);

/* The value that a row is about. */
const void *pst_row_value(const struct pst_row *row, const struct pst_row_of *of);
char *pst_row_time_text(char text[32], double ns);
char *pst_row_room_text(char text[32], double bytes);

/* Lines of a Markdown table; fields of objects as `stages[].id`. */
void pst_rows_document(const struct pst_row *rows, const char *prefix, FILE *out);

/* Answers of commands. */
extern const struct pst_row pst_plan_rows[], pst_partition_rows[], pst_memopt_rows[],
    pst_schedule_rows[], pst_simulate_rows[], pst_profile_rows[], pst_doctor_rows[],
    pst_check_rows[], pst_check_folder_rows[];
/* Lines of training. */
extern const struct pst_row pst_step_rows[], pst_eval_rows[], pst_saved_rows[], pst_resumed_rows[],
    pst_done_rows[];

#endif
