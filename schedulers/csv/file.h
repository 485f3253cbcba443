/* SPDX-License-Identifier: Apache-2.0
 *
 * A schedule in PyTorch's CSV form, as read: one row per rank, one action per cell. Both letter
 * conventions end up in penstock's: the file's "I" (or a legacy "B") is B, its "B" (or "BW") is BW.
 */
#ifndef SCHEDULERS_CSV_FILE_H
#define SCHEDULERS_CSV_FILE_H

#include "plugin_call.h"

/* Contents of a cell besides passes (PST_PASS_*). */
enum {
    CELL_SEND_F = 16,
    CELL_RECV_F = 17,
    CELL_SEND_B = 18,
    CELL_RECV_B = 19,
    CELL_DROPPED = 20 /* UNSHARD, RESHARD, REDUCE_GRAD, WAIT_... */
};

struct csv_cell {
    uint32_t stage, microbatch;
    uint32_t row, column; /* as a person counts, from 1 */
    uint8_t kind;
    bool opens_pair; /* with the next cell: one overlapped pair of F and backward */
};

struct csv_file {
    const struct pst_host *host;
    const char *path;
    uint32_t n_rows, n_cells;
    struct csv_cell *cells; /* row by row */
    uint32_t *first;        /* [n_rows + 1]: first cell of a row */
    uint32_t n_stages, n_microbatches;
    uint32_t *row_of_stage; /* [n_stages] */
    bool has_transfers, legacy;
    uint32_t n_dropped;
    /* [stage * n_microbatches + microbatch]: cell of that pass, PST_NONE */
    uint32_t *forward, *backward, *weight; /* backward: B or BW; weight: W or BW */
};

/* All of these end the call where the file is wrong. read.c: the file, cells and
   dialect, and all checks. */
void csv_read(struct csv_file *file);

/* rules.c: stages, micro-batches, passes; then transfers. */
void csv_check_passes(struct csv_file *file);
void csv_check_transfers(const struct csv_file *file);

/* dry_run.c: the rows side by side run to their end. */
void csv_check_progress(const struct csv_file *file);

/* "FILE: " + text, and "FILE, row 2, cell 5 (3F0): " + text, which say what was expected. */
void csv_fail(const struct csv_file *file, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void csv_fail_cell(const struct csv_file *file, const struct csv_cell *cell, const char *format,
                   ...) __attribute__((noreturn, format(printf, 3, 4)));
/* The cell as the file's letters put it; text holds 48 bytes. */
const char *csv_cell_name(const struct csv_file *file, const struct csv_cell *cell, char *text);

static inline size_t csv_index(const struct csv_file *file, uint32_t stage, uint32_t microbatch)
{
    return (size_t)stage * file->n_microbatches + microbatch;
}

#endif
