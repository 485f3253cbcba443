/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the rows side by side: each goes on while what its next cell needs is done. If all stand
 * still before their ends the file cannot run, and a cycle of waiting cells is the reason.
 */
#include "file.h"

#include <stdarg.h>
#include <string.h>

struct run {
    const struct csv_file *file;
    uint32_t *next; /* per row: cell to run */
    uint32_t *sent; /* [pass index * 2]: cell that sends the activation, the gradient; or NULL */
};

static bool done(const struct run *run, uint32_t cell)
{
    const struct csv_file *file = run->file;
    uint32_t row = file->cells[cell].row - 1;

    return cell < run->next[row];
}

/* The cell on another place that this one needs, PST_NONE where it needs none. */
static uint32_t need_of(const struct run *run, uint32_t index)
{
    const struct csv_file *file = run->file;
    const struct csv_cell *cell = &file->cells[index];
    uint32_t s = cell->stage, j = cell->microbatch;

    switch (cell->kind) {
    case PST_PASS_F:
        return s == 0 ? PST_NONE : file->forward[csv_index(file, s - 1, j)];
    case PST_PASS_B:
    case PST_PASS_BW:
        return s + 1 == file->n_stages ? PST_NONE : file->backward[csv_index(file, s + 1, j)];
    case CELL_RECV_F:
        return run->sent[2 * csv_index(file, s - 1, j)];
    case CELL_RECV_B:
        return run->sent[2 * csv_index(file, s + 1, j) + 1];
    default:
        return PST_NONE; /* W stands after its B, a send after its pass */
    }
}

static void find_sends(struct run *run)
{
    const struct csv_file *file = run->file;

    for (uint32_t i = 0; i < file->n_cells; i++) {
        const struct csv_cell *cell = &file->cells[i];

        if (cell->kind == CELL_SEND_F || cell->kind == CELL_SEND_B) {
            run->sent[2 * csv_index(file, cell->stage, cell->microbatch) +
                      (cell->kind == CELL_SEND_B)] = i;
        }
    }
}

static void append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* From a row that waits, follow who waits for whom until a row comes again. */
static void explain(const struct run *run, uint32_t row)
{
    const struct csv_file *file = run->file;
    char text[256], name[48];
    uint32_t first;

    for (uint32_t i = 0; i < file->n_rows; i++) { /* into the cycle */
        row = file->cells[need_of(run, run->next[row])].row - 1;
    }
    first = row;
    text[0] = '\0';
    do {
        uint32_t at = run->next[row], need = need_of(run, at);

        append(text, sizeof text,
               row == first ? "%s needs " : ", which comes after %s, which needs ",
               csv_cell_name(file, &file->cells[at], name));
        append(text, sizeof text, "%s", csv_cell_name(file, &file->cells[need], name));
        append(text, sizeof text, " (row %u, cell %u)", file->cells[need].row,
               file->cells[need].column);
        row = file->cells[need].row - 1;
    } while (row != first);
    csv_fail_cell(file, &file->cells[run->next[first]],
                  "the rows wait for each other: %s, which comes after %s", text,
                  csv_cell_name(file, &file->cells[run->next[first]], name));
}

void csv_check_progress(const struct csv_file *file)
{
    size_t n = 2 * (size_t)file->n_stages * file->n_microbatches;
    struct run run = {.file = file};
    uint32_t waiting = 0;
    bool moved = true;

    CALL_TAKE(run.next, file->n_rows);
    CALL_TAKE(run.sent, n);
    memcpy(run.next, file->first, (size_t)file->n_rows * sizeof *run.next);
    memset(run.sent, 0xFF, n * sizeof *run.sent);
    find_sends(&run);
    while (waiting != PST_NONE) {
        if (!moved) {
            explain(&run, waiting);
        }
        waiting = PST_NONE;
        moved = false;
        for (uint32_t r = 0; r < file->n_rows; r++) {
            while (run.next[r] < file->first[r + 1]) {
                uint32_t need = need_of(&run, run.next[r]);

                if (need != PST_NONE && !done(&run, need)) {
                    waiting = r;
                    break;
                }
                run.next[r]++;
                moved = true;
            }
        }
    }
}
