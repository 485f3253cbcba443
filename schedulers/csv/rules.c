/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file must keep to: every stage on one row, every micro-batch once through F and backward
 * on every stage, in order; and where it names transfers, exactly those that the passes imply.
 */
#include "file.h"

#include <stdlib.h>
#include <string.h>

static bool is_pass(const struct csv_cell *cell)
{
    return cell->kind <= PST_PASS_BW;
}

/* Memory stays in proportion to the file: there cannot be more stages than cells. */
static pst_status count_stages(struct csv_file *file)
{
    uint32_t highest = 0, s;
    uint8_t *seen;

    for (uint32_t i = 0; i < file->n_cells; i++) {
        highest = file->cells[i].stage > highest ? file->cells[i].stage : highest;
    }
    file->n_stages = highest + 1;
    seen = calloc((size_t)file->n_cells + 1, 1);
    if (seen == NULL) {
        return PST_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < file->n_cells; i++) {
        if (file->cells[i].stage < file->n_cells) {
            seen[file->cells[i].stage] = 1;
        }
    }
    for (s = 0; s < file->n_stages && s < file->n_cells && seen[s]; s++) {
    }
    free(seen);
    if (s < file->n_stages) {
        return pst_failf(file->host, PST_ERR_CONFIG,
                         "%s: stage %u is on no row, though there is a stage %u; stages are "
                         "numbered from 0 without holes",
                         file->path, s, highest);
    }
    return PST_OK;
}

static pst_status place_stages(struct csv_file *file)
{
    file->row_of_stage = malloc((size_t)file->n_stages * sizeof *file->row_of_stage);
    if (file->row_of_stage == NULL) {
        return PST_ERR_NOMEM;
    }
    memset(file->row_of_stage, 0xFF, (size_t)file->n_stages * sizeof *file->row_of_stage);
    for (uint32_t r = 0; r < file->n_rows; r++) {
        if (file->first[r] == file->first[r + 1]) {
            return pst_failf(file->host, PST_ERR_CONFIG,
                             "%s, row %u is empty: row i is rank i, and each rank has a stage",
                             file->path, r + 1);
        }
        for (uint32_t i = file->first[r]; i < file->first[r + 1]; i++) {
            uint32_t *row = &file->row_of_stage[file->cells[i].stage];

            if (*row != PST_NONE && *row != r) {
                return csv_fail_cell(file, &file->cells[i],
                                     "stage %u is on row %u already; a stage is on one row",
                                     file->cells[i].stage, *row + 1);
            }
            *row = r;
        }
    }
    return PST_OK;
}

/* As many micro-batches as stage 0 has forwards; others are held against that. */
static pst_status count_microbatches(struct csv_file *file)
{
    uint32_t n_forward = 0;

    for (uint32_t i = 0; i < file->n_cells; i++) {
        file->n_microbatches += file->cells[i].kind == PST_PASS_F && file->cells[i].stage == 0;
        n_forward += file->cells[i].kind == PST_PASS_F;
    }
    if (file->n_microbatches == 0) {
        return pst_failf(file->host, PST_ERR_CONFIG, "%s: stage 0 has no F", file->path);
    }
    if ((uint64_t)file->n_microbatches * file->n_stages > 2 * (uint64_t)n_forward + 1024) {
        return pst_failf(file->host, PST_ERR_CONFIG,
                         "%s: stage 0 has %u micro-batches, but %u stages have only %u forwards in "
                         "all",
                         file->path, file->n_microbatches, file->n_stages, n_forward);
    }
    return PST_OK;
}

static pst_status note_pass(struct csv_file *file, uint32_t index)
{
    const struct csv_cell *cell = &file->cells[index];
    size_t at = csv_index(file, cell->stage, cell->microbatch);

    if (cell->microbatch >= file->n_microbatches) {
        return csv_fail_cell(file, cell, "stage 0 has micro-batches 0 to %u only",
                             file->n_microbatches - 1);
    }
    if (cell->kind == PST_PASS_F) {
        if (file->forward[at] != PST_NONE) {
            return csv_fail_cell(file, cell, "comes twice on this row");
        }
        file->forward[at] = index;
        return PST_OK;
    }
    if (cell->kind != PST_PASS_W) {
        if (file->backward[at] != PST_NONE) {
            return csv_fail_cell(file, cell, "this micro-batch has its backward already");
        }
        if (file->forward[at] == PST_NONE) {
            return csv_fail_cell(file, cell, "comes before %uF%u on its row", cell->stage,
                                 cell->microbatch);
        }
        file->backward[at] = index;
    }
    if (cell->kind != PST_PASS_B) {
        if (file->weight[at] != PST_NONE) {
            return csv_fail_cell(file, cell, "this micro-batch has its weight gradient already");
        }
        if (file->backward[at] == PST_NONE) {
            return csv_fail_cell(file, cell, "comes before %u%s%u on its row", cell->stage,
                                 file->legacy ? "B" : "I", cell->microbatch);
        }
        file->weight[at] = index;
    }
    return PST_OK;
}

static pst_status check_complete(const struct csv_file *file)
{
    for (uint32_t s = 0; s < file->n_stages; s++) {
        for (uint32_t j = 0; j < file->n_microbatches; j++) {
            size_t at = csv_index(file, s, j);
            const uint32_t *missing = file->forward[at] == PST_NONE    ? file->forward
                                      : file->backward[at] == PST_NONE ? file->backward
                                      : file->weight[at] == PST_NONE   ? file->weight
                                                                       : NULL;

            if (missing != NULL) {
                return pst_failf(file->host, PST_ERR_CONFIG,
                                 "%s, row %u: stage %u never runs the %s of micro-batch %u",
                                 file->path, file->row_of_stage[s] + 1, s,
                                 missing == file->forward    ? "forward (F)"
                                 : missing == file->backward ? "backward"
                                                             : "weight gradient (W)",
                                 j);
            }
        }
    }
    return PST_OK;
}

static bool allocate_tables(struct csv_file *file)
{
    size_t n = (size_t)file->n_stages * file->n_microbatches;
    uint32_t **tables[] = {&file->forward, &file->backward, &file->weight};

    for (int i = 0; i < 3; i++) {
        *tables[i] = malloc(n * sizeof **tables[i]);
        if (*tables[i] == NULL) {
            return false;
        }
        memset(*tables[i], 0xFF, n * sizeof **tables[i]);
    }
    return true;
}

pst_status csv_check_passes(struct csv_file *file)
{
    pst_status st = file->n_cells == 0
                        ? pst_failf(file->host, PST_ERR_CONFIG, "%s holds no action", file->path)
                        : count_stages(file);

    st = st != PST_OK ? st : place_stages(file);
    st = st != PST_OK ? st : count_microbatches(file);
    if (st == PST_OK && !allocate_tables(file)) {
        st = PST_ERR_NOMEM;
    }
    for (uint32_t i = 0; st == PST_OK && i < file->n_cells; i++) {
        if (is_pass(&file->cells[i])) {
            st = note_pass(file, i);
        }
    }
    return st != PST_OK ? st : check_complete(file);
}

/* A transfer belongs to an edge between neighbouring stages on different rows. */
static pst_status check_transfer(const struct csv_file *file, uint32_t index, uint8_t *seen)
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
        return csv_fail_cell(file, cell, "there is no stage to exchange that with");
    }
    if (cell->microbatch >= file->n_microbatches) {
        return csv_fail_cell(file, cell, "there are micro-batches 0 to %u only",
                             file->n_microbatches - 1);
    }
    if (file->row_of_stage[peer] == file->row_of_stage[cell->stage]) {
        return csv_fail_cell(file, cell, "stages %u and %u are on one row and need no transfer",
                             cell->stage, peer);
    }
    at = csv_index(file, cell->stage, cell->microbatch);
    if ((seen[at] & bit) != 0) {
        return csv_fail_cell(file, cell, "comes twice");
    }
    seen[at] |= bit;
    if (send != (table[at] < index)) {
        return csv_fail_cell(file, cell, "comes %s the pass that %s it", send ? "before" : "after",
                             send ? "produces" : "needs");
    }
    return PST_OK;
}

static pst_status check_all_transferred(const struct csv_file *file, const uint8_t *seen)
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
                return pst_failf(file->host, PST_ERR_CONFIG,
                                 "%s, row %u: %u%s%u is missing; a file that names transfers names "
                                 "all of them",
                                 file->path, file->row_of_stage[at] + 1, at, word, j);
            }
        }
    }
    return PST_OK;
}

pst_status csv_check_transfers(const struct csv_file *file)
{
    uint8_t *seen = calloc((size_t)file->n_stages * file->n_microbatches, 1);
    pst_status st = seen == NULL ? PST_ERR_NOMEM : PST_OK;

    for (uint32_t i = 0; st == PST_OK && i < file->n_cells; i++) {
        if (!is_pass(&file->cells[i])) {
            st = check_transfer(file, i, seen);
        }
    }
    st = st != PST_OK ? st : check_all_transferred(file, seen);
    free(seen);
    return st;
}
