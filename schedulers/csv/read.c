/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar: cells separated by commas, rows by LF or CRLF; the whole trimmed cell must match.
 *   cell    = "" | action | "(" action (";" action)* ")OVERLAP_F_B"
 *   action  = stage kind [microbatch]
 * Two conventions share these letters. In the newer one "I" is the input-gradient half and "B" the
 * whole backward; in the older one "B" is the half and "BW" the whole.
 */
#include "file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INDEX (1u << 20)

/* Kinds while the dialect is not known. */
enum { RAW_B = 32, RAW_I = 33, RAW_BW = 34 };

struct word {
    const char *text;
    uint8_t kind;
    bool has_microbatch;
};

/* Longer words first: the first that the text begins with is taken. */
static const struct word words[] = {
    {"WAIT_REDUCE_GRAD", CELL_DROPPED, false},
    {"WAIT_SEND_F", CELL_DROPPED, true},
    {"WAIT_SEND_B", CELL_DROPPED, true},
    {"REDUCE_GRAD", CELL_DROPPED, false},
    {"UNSHARD", CELL_DROPPED, false},
    {"RESHARD", CELL_DROPPED, false},
    {"SEND_F", CELL_SEND_F, true},
    {"RECV_F", CELL_RECV_F, true},
    {"SEND_B", CELL_SEND_B, true},
    {"RECV_B", CELL_RECV_B, true},
    {"BW", RAW_BW, true},
    {"F", PST_PASS_F, true},
    {"I", RAW_I, true},
    {"B", RAW_B, true},
    {"W", PST_PASS_W, true},
};

pst_status csv_fail_cell(const struct csv_file *file, const struct csv_cell *cell,
                         const char *format, ...)
{
    char name[48], text[320];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pst_failf(file->host, PST_ERR_CONFIG, "%s, row %u, cell %u (%s): %s", file->path,
                     cell->row, cell->column, csv_cell_name(file, cell, name), text);
}

const char *csv_cell_name(const struct csv_file *file, const struct csv_cell *cell, char *text)
{
    const char *kind = "?";

    switch (cell->kind) {
    case PST_PASS_F:
        kind = "F";
        break;
    case PST_PASS_B:
        kind = file->legacy ? "B" : "I";
        break;
    case PST_PASS_W:
        kind = "W";
        break;
    case PST_PASS_BW:
        kind = file->legacy ? "BW" : "B";
        break;
    default:
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            kind = words[i].kind == cell->kind ? words[i].text : kind;
        }
    }
    snprintf(text, 48, "%u%s%u", cell->stage, kind, cell->microbatch);
    return text;
}

static bool take_number(const char **at, uint32_t *ret_number)
{
    uint32_t number = 0;
    const char *from = *at;

    while (**at >= '0' && **at <= '9' && number < MAX_INDEX) {
        number = number * 10 + (uint32_t)(*(*at)++ - '0');
    }
    *ret_number = number;
    return *at != from && number < MAX_INDEX;
}

static pst_status fail_text(const struct csv_file *file, uint32_t row, uint32_t column,
                            const char *text, const char *expected)
{
    char shown[48];
    size_t n = 0;

    for (; text[n] != '\0' && n < sizeof shown - 1; n++) {
        shown[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    }
    shown[n] = '\0';
    return pst_failf(file->host, PST_ERR_CONFIG, "%s, row %u, cell %u: \"%s\" is no action: %s",
                     file->path, row, column, shown, expected);
}

/* One action from *at on, which moves behind it. */
static const char *take_action(const char **at, struct csv_cell *ret_cell)
{
    size_t i;

    if (!take_number(at, &ret_cell->stage)) {
        return "it begins with the number of a stage, below 1048576, as in 0F3";
    }
    for (i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i].text);

        if (strncmp(*at, words[i].text, n) == 0) {
            *at += n;
            break;
        }
    }
    if (i == sizeof words / sizeof words[0]) {
        return "behind the stage comes F, I, B, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, "
               "RESHARD or REDUCE_GRAD";
    }
    ret_cell->kind = words[i].kind;
    ret_cell->microbatch = 0;
    if (words[i].has_microbatch && !take_number(at, &ret_cell->microbatch)) {
        return "the number of a micro-batch is missing or not below 1048576, as in 0F3";
    }
    return NULL;
}

static bool push(struct csv_file *file, uint32_t *room, const struct csv_cell *cell)
{
    if (file->n_cells == *room) {
        uint32_t more = *room == 0 ? 256 : 2 * *room;
        struct csv_cell *cells = realloc(file->cells, (size_t)more * sizeof *cells);

        if (cells == NULL) {
            return false;
        }
        file->cells = cells;
        *room = more;
    }
    file->cells[file->n_cells++] = *cell;
    return true;
}

/* "(0F1;1B0)OVERLAP_F_B": exactly one F and one whole backward; stored F first. */
static pst_status parse_group(struct csv_file *file, uint32_t *room, const char *text,
                              struct csv_cell at)
{
    struct csv_cell pair[2] = {at, at};
    const char *next = text + 1, *why = NULL;

    for (int i = 0; i < 2 && why == NULL; i++) {
        why = take_action(&next, &pair[i]);
        if (why == NULL && *next++ != (i == 0 ? ';' : ')')) {
            why = "a pair is written (0F1;1B0)OVERLAP_F_B";
        }
    }
    if (why == NULL && strcmp(next, "OVERLAP_F_B") != 0) {
        why = "a pair is written (0F1;1B0)OVERLAP_F_B";
    }
    if (why == NULL && pair[0].kind == RAW_B && pair[1].kind == PST_PASS_F) {
        struct csv_cell first = pair[1];

        pair[1] = pair[0];
        pair[0] = first;
    }
    if (why == NULL && (pair[0].kind != PST_PASS_F || pair[1].kind != RAW_B)) {
        why = "a pair holds one F and one B";
    }
    if (why != NULL) {
        return fail_text(file, at.row, at.column, text, why);
    }
    pair[0].opens_pair = true;
    return push(file, room, &pair[0]) && push(file, room, &pair[1]) ? PST_OK : PST_ERR_NOMEM;
}

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) {
        *--end = '\0';
    }
    return text;
}

static pst_status parse_cell(struct csv_file *file, uint32_t *room, char *text, uint32_t row,
                             uint32_t column)
{
    struct csv_cell cell = {.row = row, .column = column};
    const char *next = trim(text), *shown = next, *why;

    if (*next == '\0') {
        return PST_OK; /* an idle step */
    }
    if (*next == '(') {
        return parse_group(file, room, next, cell);
    }
    why = take_action(&next, &cell);
    if (why == NULL && *next != '\0') {
        why = "nothing may follow the action";
    }
    if (why != NULL) {
        return fail_text(file, row, column, shown, why);
    }
    if (cell.kind == CELL_DROPPED) {
        file->n_dropped++;
        return PST_OK;
    }
    file->has_transfers |= cell.kind >= CELL_SEND_F && cell.kind <= CELL_RECV_B;
    return push(file, room, &cell) ? PST_OK : PST_ERR_NOMEM;
}

/* An older file has B and W of one micro-batch of one stage: then B was the half. */
static int by_pass(const void *a_, const void *b_)
{
    const struct csv_cell *a = a_, *b = b_;

    if (a->stage != b->stage) {
        return a->stage < b->stage ? -1 : 1;
    }
    if (a->microbatch != b->microbatch) {
        return a->microbatch < b->microbatch ? -1 : 1;
    }
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static pst_status has_half_b(const struct csv_file *file, bool *ret_found)
{
    struct csv_cell *sorted = malloc(((size_t)file->n_cells + 1) * sizeof *sorted);
    uint32_t i, n = 0;

    if (sorted == NULL) {
        return PST_ERR_NOMEM;
    }
    for (i = 0; i < file->n_cells; i++) {
        if (file->cells[i].kind == RAW_B || file->cells[i].kind == PST_PASS_W) {
            sorted[n++] = file->cells[i];
        }
    }
    qsort(sorted, n, sizeof *sorted, by_pass);
    *ret_found = false;
    for (i = 1; i < n; i++) {
        *ret_found |= sorted[i].stage == sorted[i - 1].stage &&
                      sorted[i].microbatch == sorted[i - 1].microbatch &&
                      sorted[i].kind != sorted[i - 1].kind;
    }
    free(sorted);
    return PST_OK;
}

static pst_status find_dialect(struct csv_file *file)
{
    const struct csv_cell *newer = NULL, *older = NULL;
    uint32_t i;

    for (i = 0; i < file->n_cells; i++) {
        const struct csv_cell *cell = &file->cells[i];

        newer = cell->kind == RAW_I || cell->opens_pair ? cell : newer;
        older = cell->kind == RAW_BW ? cell : older;
    }
    if (newer != NULL && older != NULL) {
        return pst_failf(file->host, PST_ERR_CONFIG,
                         "%s mixes two conventions: row %u, cell %u uses I or a pair, row %u, cell "
                         "%u uses BW; write I and B, or B and BW",
                         file->path, newer->row, newer->column, older->row, older->column);
    }
    file->legacy = older != NULL;
    if (newer == NULL && older == NULL) {
        pst_status st = has_half_b(file, &file->legacy);

        if (st != PST_OK) {
            return st;
        }
    }
    for (i = 0; i < file->n_cells; i++) {
        uint8_t *kind = &file->cells[i].kind;

        *kind = *kind == RAW_I || (*kind == RAW_B && file->legacy) ? PST_PASS_B
                : *kind == RAW_BW || *kind == RAW_B                ? PST_PASS_BW
                                                                   : *kind;
    }
    return PST_OK;
}

pst_status csv_parse(struct csv_file *file, char *text, size_t length)
{
    char *at = text, *end = text + length;
    uint32_t room = 0, row = 0;
    pst_status st = PST_OK;

    while (end > text && strchr(" \t\r\n", end[-1]) != NULL) {
        *--end = '\0';
    }
    for (char *c = text; c < end; c++) {
        file->n_rows += c == text || c[-1] == '\n';
    }
    file->first = calloc((size_t)file->n_rows + 1, sizeof *file->first);
    if (file->first == NULL) {
        return PST_ERR_NOMEM;
    }
    for (; row < file->n_rows && st == PST_OK; row++) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        uint32_t column = 1;

        line_end = line_end == NULL ? end : line_end;
        *line_end = '\0';
        file->first[row] = file->n_cells;
        for (char *cell = at; st == PST_OK && cell != NULL; column++) {
            char *comma = strchr(cell, ',');

            if (comma != NULL) {
                *comma = '\0';
            }
            st = parse_cell(file, &room, cell, row + 1, column);
            cell = comma == NULL ? NULL : comma + 1;
        }
        at = line_end + 1;
    }
    file->first[file->n_rows] = file->n_cells;
    return st == PST_OK ? find_dialect(file) : st;
}
