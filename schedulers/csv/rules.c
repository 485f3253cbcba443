/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the rules of a file: every stage on one row, every micro-batch once through F and backward
 * on every stage, in order; and if it names transfers, exactly those that the passes imply.
 */
#include "file.h"

#include <string.h>

static bool is_pass(const struct csv_cell *cell)
{
    return cell->kind <= PST_PASS_BW;
}

/* Memory stays in proportion to the file: there cannot be more stages than cells. */
static void count_stages(struct csv_file *file)
{
    uint32_t highest = 0, s;
    uint8_t *seen;

    for (uint32_t i = 0; i < file->n_cells; i++) {
        highest = file->cells[i].stage > highest ? file->cells[i].stage : highest;
    }
    file->n_stages = highest + 1;
    CALL_TAKE(seen, file->n_cells);
    for (uint32_t i = 0; i < file->n_cells; i++) {
        if (file->cells[i].stage < file->n_cells) {
            seen[file->cells[i].stage] = 1;
        }
    }
    for (s = 0; s < file->n_stages && s < file->n_cells && seen[s]; s++) {
    }
    call_free(seen);
    if (s < file->n_stages) {
        csv_fail(file,
                 ": stage %u is on no row, though there is a stage %u; stages are numbered from 0 "
                 "without gaps",
                 s, highest);
    }
}

static void place_stages(struct csv_file *file)
{
    CALL_TAKE(file->row_of_stage, file->n_stages);
    memset(file->row_of_stage, 0xFF, (size_t)file->n_stages * sizeof *file->row_of_stage);
    for (uint32_t r = 0; r < file->n_rows; r++) {
        if (file->first[r] == file->first[r + 1]) {
            csv_fail(file, ", row %u is empty: row i is rank i, and each rank has a stage", r + 1);
        }
        for (uint32_t i = file->first[r]; i < file->first[r + 1]; i++) {
            uint32_t *row = &file->row_of_stage[file->cells[i].stage];

            if (*row != PST_NONE && *row != r) {
                csv_fail_cell(file, &file->cells[i],
                              "stage %u is on row %u already; a stage is on one row",
                              file->cells[i].stage, *row + 1);
            }
            *row = r;
        }
    }
}

/* As many micro-batches as stage 0 has forwards; others are held against that. */
static void count_microbatches(struct csv_file *file)
{
    uint32_t n_forward = 0;

    for (uint32_t i = 0; i < file->n_cells; i++) {
        file->n_microbatches += file->cells[i].kind == PST_PASS_F && file->cells[i].stage == 0;
        n_forward += file->cells[i].kind == PST_PASS_F;
    }
    if (file->n_microbatches == 0) {
        csv_fail(file, ": stage 0 has no F");
    }
    if ((uint64_t)file->n_microbatches * file->n_stages > 2 * (uint64_t)n_forward + 1024) {
        csv_fail(file,
                 ": stage 0 has %u micro-batches, but %u stages have only %u forwards in "
                 "all",
                 file->n_microbatches, file->n_stages, n_forward);
    }
}

static void note_pass(struct csv_file *file, uint32_t index)
{
    const struct csv_cell *cell = &file->cells[index];
    size_t at = csv_index(file, cell->stage, cell->microbatch);

    if (cell->microbatch >= file->n_microbatches) {
        csv_fail_cell(file, cell, "stage 0 has micro-batches 0 to %u only",
                      file->n_microbatches - 1);
    }
    if (cell->kind == PST_PASS_F) {
        if (file->forward[at] != PST_NONE) {
            csv_fail_cell(file, cell, "comes twice on this row");
        }
        file->forward[at] = index;
        return;
    }
    if (cell->kind != PST_PASS_W) {
        if (file->backward[at] != PST_NONE) {
            csv_fail_cell(file, cell, "this micro-batch has its backward already");
        }
        if (file->forward[at] == PST_NONE) {
            csv_fail_cell(file, cell, "comes before %uF%u on its row", cell->stage,
                          cell->microbatch);
        }
        file->backward[at] = index;
    }
    if (cell->kind != PST_PASS_B) {
        if (file->weight[at] != PST_NONE) {
            csv_fail_cell(file, cell, "this micro-batch has its weight gradient already");
        }
        if (file->backward[at] == PST_NONE) {
            csv_fail_cell(file, cell, "comes before %u%s%u on its row", cell->stage,
                          file->legacy ? "B" : "I", cell->microbatch);
        }
        file->weight[at] = index;
    }
}

static void check_complete(const struct csv_file *file)
{
    for (uint32_t s = 0; s < file->n_stages; s++) {
        for (uint32_t j = 0; j < file->n_microbatches; j++) {
            size_t at = csv_index(file, s, j);
            const uint32_t *missing = file->forward[at] == PST_NONE    ? file->forward
                                      : file->backward[at] == PST_NONE ? file->backward
                                      : file->weight[at] == PST_NONE   ? file->weight
                                                                       : NULL;

            if (missing != NULL) {
                csv_fail(file, ", row %u: stage %u never runs the %s of micro-batch %u",
                         file->row_of_stage[s] + 1, s,
                         missing == file->forward    ? "forward (F)"
                         : missing == file->backward ? "backward"
                                                     : "weight gradient (W)",
                         j);
            }
        }
    }
}

void csv_check_passes(struct csv_file *file)
{
    uint32_t **tables[] = {&file->forward, &file->backward, &file->weight};

    if (file->n_cells == 0) {
        csv_fail(file, " holds no action");
    }
    count_stages(file);
    place_stages(file);
    count_microbatches(file);
    for (int i = 0; i < 3; i++) {
        size_t n = (size_t)file->n_stages * file->n_microbatches;

        CALL_TAKE(*tables[i], n);
        memset(*tables[i], 0xFF, n * sizeof **tables[i]);
    }
    for (uint32_t i = 0; i < file->n_cells; i++) {
        if (is_pass(&file->cells[i])) {
            note_pass(file, i);
        }
    }
    check_complete(file);
}

/* A transfer belongs to an edge between neighbouring stages on different rows. */
static void check_transfer(const struct csv_file *file, uint32_t index, uint8_t *seen)
{
    const struct csv_cell *cell = &file->cells[index];
    bool back = cell->kind == CELL_SEND_B || cell->kind == CELL_RECV_B;
    bool send = cell->kind == CELL_SEND_F || cell->kind == CELL_SEND_B;
    bool up = (cell->kind == CELL_SEND_F) || (cell->kind == CELL_RECV_B); /* peer: stage + 1 */
    uint32_t peer = up ? cell->stage + 1 : cell->stage - 1;
    size_t at;
    const uint32_t *table = back ? file->backward : file->forward;
    uint8_t bit = (uint8_t)(1u << (cell->kind - CELL_SEND_F));

    if ((up && peer >= file->n_stages) || (!up && cell->stage == 0)) {
        csv_fail_cell(file, cell, "there is no stage to exchange that with");
    }
    if (cell->microbatch >= file->n_microbatches) {
        csv_fail_cell(file, cell, "there are micro-batches 0 to %u only", file->n_microbatches - 1);
    }
    if (file->row_of_stage[peer] == file->row_of_stage[cell->stage]) {
        csv_fail_cell(file, cell, "stages %u and %u are on one row and need no transfer",
                      cell->stage, peer);
    }
    at = csv_index(file, cell->stage, cell->microbatch);
    if ((seen[at] & bit) != 0) {
        csv_fail_cell(file, cell, "comes twice");
    }
    seen[at] |= bit;
    if (send != (table[at] < index)) {
        csv_fail_cell(file, cell, "comes %s the pass that %s it", send ? "before" : "after",
                      send ? "produces" : "needs");
    }
}

static void check_all_transferred(const struct csv_file *file, const uint8_t *seen)
{
    for (uint32_t s = 0; s + 1 < file->n_stages; s++) {
        if (file->row_of_stage[s] == file->row_of_stage[s + 1]) {
            continue;
        }
        for (uint32_t j = 0; j < file->n_microbatches; j++) {
            uint8_t low = seen[csv_index(file, s, j)], high = seen[csv_index(file, s + 1, j)];
            const char *word = (low & 1) == 0    ? "SEND_F"
                               : (low & 8) == 0  ? "RECV_B"
                               : (high & 2) == 0 ? "RECV_F"
                               : (high & 4) == 0 ? "SEND_B"
                                                 : NULL;
            uint32_t at = (low & 9) != 9 ? s : s + 1;

            if (word != NULL) {
                csv_fail(file,
                         ", row %u: %u%s%u is missing; a file that names transfers must name all "
                         "of them",
                         file->row_of_stage[at] + 1, at, word, j);
            }
        }
    }
}

void csv_check_transfers(const struct csv_file *file)
{
    uint8_t *seen = call_alloc((size_t)file->n_stages * file->n_microbatches, 1);

    for (uint32_t i = 0; i < file->n_cells; i++) {
        if (!is_pass(&file->cells[i])) {
            check_transfer(file, i, seen);
        }
    }
    check_all_transferred(file, seen);
    call_free(seen);
}
