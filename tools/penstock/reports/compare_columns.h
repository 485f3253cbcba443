/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of a comparison: one table, from which tables for people, for papers and for other
 * programs are made.
 */
#ifndef PST_REPORTS_COMPARE_COLUMNS_H
#define PST_REPORTS_COMPARE_COLUMNS_H

#include "reports/compare_report.h"

enum pst_cell_kind {
    PST_CELL_TEXT = 0,
    PST_CELL_COUNT,
    PST_CELL_RATE,
    PST_CELL_RATIO,
    PST_CELL_PART,   /* shown as per cent */
    PST_CELL_CHANGE, /* the same with its sign */
    PST_CELL_NS,     /* files: microseconds */
    PST_CELL_BYTES,
    PST_CELL_SECONDS, /* files: seconds */
    PST_CELL_NUMBER,
    PST_CELL_FLAG,
    PST_CELL_REMARK /* a number of a partitioner */
};

/* Behind a number that is not told apart from what it is held against. */
#define PST_SAME_MARK " ="

/* The value of one record in one column. */
struct pst_cell {
    bool there;
    bool same;          /* not told apart from what it is held against */
    double number;      /* unless it is text */
    double least;       /* of a range, which is shown where it is less than the number; else 0 */
    const char *text;   /* in the arena, or the record's */
    const char *before; /* ">= " in front of a number, or NULL */
};

/* The source of a column's value. */
struct pst_cell_of {
    const struct pst_compare_result *result;
    const struct pst_record *record;
    struct pst_arena *arena;
};

/* Where and when there is a column. */
enum {
    PST_COLUMN_TABLE = 1u << 0,     /* for people */
    PST_COLUMN_FILE = 1u << 1,      /* for programs */
    PST_COLUMN_RUN = 1u << 2,       /* in tables: of a run alone, */
    PST_COLUMN_SIMULATED = 1u << 3, /* of what is simulated alone, */
    PST_COLUMN_ROUNDS = 1u << 4,    /* of several rounds, */
    PST_COLUMN_CONFIGS = 1u << 5,   /* of several configs, */
    PST_COLUMN_METHODS = 1u << 6,   /* where some method has a name, */
    PST_COLUMN_BASELINE = 1u << 7,  /* where there is a baseline, */
    PST_COLUMN_LARGEST = 1u << 8,   /* where the largest batch is sought, */
    PST_COLUMN_COMPARED = 1u << 9,  /* where it is not, */
    PST_COLUMN_COMMON = 1u << 10,   /* where there is a common size. */
    PST_COLUMN_NAME = 1u << 11,     /* It names the combination. */
    PST_COLUMN_REPLICAS = 1u << 12, /* where there are any. */
    PST_COLUMN_REMARK = 1u << 13,   /* A partitioner remarks it of its answer. */
    PST_COLUMN_ZERO = 1u << 14,    /* where some record has another `zero` than 0, in files, too. */
    PST_COLUMN_TENSOR = 1u << 15,  /* where some record has another `tensor` than 1, likewise. */
    PST_COLUMN_SEQUENCE = 1u << 16 /* where `sequence` is true in some record, likewise. */
};

struct pst_compare_column {
    const char *key;   /* in files */
    const char *title; /* for people */
    const char *unit;  /* after the title in tables for papers, which have bare numbers; or "" */
    double scale;      /* of those numbers to this unit */
    enum pst_cell_kind kind;
    uint32_t flags;
    /* NULL: the remark `title`. */
    void (*get)(const struct pst_cell_of *of, struct pst_cell *cell);
    char order; /* '1' to '9': left out where there is no room, '9' first; 0: never */
};

extern const struct pst_compare_column pst_compare_columns[];
extern const uint32_t pst_n_compare_columns;

/* Returns true if some record has another value of one of the axes of [parallel] than its default.
 */
bool pst_compare_has_axis(const struct pst_compare_result *result, enum pst_axis_kind axis);
/* Is it in a table of this result? */
bool pst_compare_has_column(const struct pst_compare_result *result,
                            const struct pst_compare_column *column);
/* Returns true if a column of names, not the scheduler's, has one value for all records. */
bool pst_compare_is_same(const struct pst_compare_result *result,
                         const struct pst_compare_column *column);
/* Returns those names, "partitioner chain-dp, devices 4", or "". */
const char *pst_compare_same_text(const struct pst_compare_result *result, struct pst_arena *arena);
/* Columns of tables (PST_COLUMN_TABLE) or files (PST_COLUMN_FILE), and with PST_COLUMN_REMARK those
 * of remarks: as many as there are keys, in the order in which they first come. In `arena`. */
uint32_t pst_compare_list(const struct pst_compare_result *result, uint32_t which,
                          struct pst_arena *arena, const struct pst_compare_column ***ret_columns);
struct pst_cell pst_compare_cell(const struct pst_compare_result *result,
                                 const struct pst_record *record,
                                 const struct pst_compare_column *column, struct pst_arena *arena);
/* As a table for people has it; "-": there is nothing. */
const char *pst_compare_cell_text(const struct pst_compare_column *column,
                                  const struct pst_cell *cell, struct pst_arena *arena);

/* "done", "does-not-fit": stable words. */
const char *pst_trial_state_word(enum pst_trial_state state);
/* Message and hint in one line. */
const char *pst_compare_why(struct pst_arena *arena, const struct pst_error *why);
/* Returns a sentence about devices that share cores of this machine, or "" if none do. */
const char *pst_compare_sharing(const struct pst_compare_result *result, struct pst_arena *arena);
/* Returns a sentence about keys of the config that do not count in some combinations, or "". */
const char *pst_compare_undivided(const struct pst_compare_result *result);
/* Sorts the records that are done, the best first by the goal; equal ones in the order asked for.
   ret_order: [n]. Returns how many. */
uint32_t pst_compare_order(const struct pst_compare_result *result, uint32_t *ret_order);
/* Like pst_compare_order, but only the first record of each plan. */
uint32_t pst_compare_plans(const struct pst_compare_result *result, uint32_t *ret_order);

#endif
