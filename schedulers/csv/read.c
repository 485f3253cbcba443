/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar: cells separated by commas, rows by LF or CRLF; the whole trimmed cell must match.
 *   cell    = "" | action | "(" action (";" action)* ")OVERLAP_F_B"
 *   action  = stage kind [microbatch]
 * Two conventions share these letters. In the newer one "I" is the input-gradient half and "B" the
 * whole backward; in the older one "B" is the half and "BW" the whole.
 */
#include "file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (256u << 20)
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

void csv_fail(const struct csv_file *file, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    call_end(pst_failf(file->host, PST_ERR_CONFIG, "%s%s", file->path, text));
}

void csv_fail_cell(const struct csv_file *file, const struct csv_cell *cell, const char *format,
                   ...)
{
    char name[48], text[320];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    csv_fail(file, ", row %u, cell %u (%s): %s", cell->row, cell->column,
             csv_cell_name(file, cell, name), text);
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

static void fail_text(const struct csv_file *file, uint32_t row, uint32_t column, const char *text,
                      const char *expected)
{
    char shown[48];
    size_t n = 0;

    for (; text[n] != '\0' && n < sizeof shown - 1; n++) {
        shown[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    }
    shown[n] = '\0';
    csv_fail(file, ", row %u, cell %u: \"%s\" is not an action: %s", row, column, shown, expected);
}

/* One action from *at on, which moves after it. */
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
        return "after the stage comes F, I, B, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD "
               "or REDUCE_GRAD";
    }
    ret_cell->kind = words[i].kind;
    ret_cell->microbatch = 0;
    if (words[i].has_microbatch && !take_number(at, &ret_cell->microbatch)) {
        return "the number of a micro-batch is missing or not below 1048576, as in 0F3";
    }
    return NULL;
}

static void push(struct csv_file *file, uint32_t *room, const struct csv_cell *cell)
{
    CALL_MAKE_ROOM(file->cells, file->n_cells, *room);
    file->cells[file->n_cells++] = *cell;
}

/* "(0F1;1B0)OVERLAP_F_B": exactly one F and one whole backward; stored F first. */
static void parse_group(struct csv_file *file, uint32_t *room, const char *text, struct csv_cell at)
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
        fail_text(file, at.row, at.column, text, why);
    }
    pair[0].opens_pair = true;
    push(file, room, &pair[0]);
    push(file, room, &pair[1]);
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

static void parse_cell(struct csv_file *file, uint32_t *room, char *text, uint32_t row,
                       uint32_t column)
{
    struct csv_cell cell = {.row = row, .column = column};
    const char *next = trim(text), *shown = next, *why;

    if (*next == '\0') {
        return; /* an idle step */
    }
    if (*next == '(') {
        parse_group(file, room, next, cell);
        return;
    }
    why = take_action(&next, &cell);
    if (why == NULL && *next != '\0') {
        why = "nothing may follow the action";
    }
    if (why != NULL) {
        fail_text(file, row, column, shown, why);
    }
    if (cell.kind == CELL_DROPPED) {
        file->n_dropped++;
        return;
    }
    file->has_transfers |= cell.kind >= CELL_SEND_F && cell.kind <= CELL_RECV_B;
    push(file, room, &cell);
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

static bool has_half_b(const struct csv_file *file)
{
    struct csv_cell *sorted = call_alloc(file->n_cells, sizeof *sorted);
    uint32_t i, n = 0;
    bool found = false;

    for (i = 0; i < file->n_cells; i++) {
        if (file->cells[i].kind == RAW_B || file->cells[i].kind == PST_PASS_W) {
            sorted[n++] = file->cells[i];
        }
    }
    qsort(sorted, n, sizeof *sorted, by_pass);
    for (i = 1; i < n; i++) {
        found |= sorted[i].stage == sorted[i - 1].stage &&
                 sorted[i].microbatch == sorted[i - 1].microbatch &&
                 sorted[i].kind != sorted[i - 1].kind;
    }
    call_free(sorted);
    return found;
}

static void find_dialect(struct csv_file *file)
{
    const struct csv_cell *newer = NULL, *older = NULL;
    uint32_t i;

    for (i = 0; i < file->n_cells; i++) {
        const struct csv_cell *cell = &file->cells[i];

        newer = cell->kind == RAW_I || cell->opens_pair ? cell : newer;
        older = cell->kind == RAW_BW ? cell : older;
    }
    if (newer != NULL && older != NULL) {
        csv_fail(file,
                 " mixes two conventions: row %u, cell %u uses I or a pair, row %u, cell %u uses "
                 "BW; write I and B, or B and BW",
                 newer->row, newer->column, older->row, older->column);
    }
    file->legacy = older != NULL || (newer == NULL && has_half_b(file));
    for (i = 0; i < file->n_cells; i++) {
        uint8_t *kind = &file->cells[i].kind;

        *kind = *kind == RAW_I || (*kind == RAW_B && file->legacy) ? PST_PASS_B
                : *kind == RAW_BW || *kind == RAW_B                ? PST_PASS_BW
                                                                   : *kind;
    }
}

/* The whole file with a NUL after it. */
static char *slurp(const struct csv_file *file, size_t *ret_length)
{
    FILE *in = fopen(file->path, "rb");
    char *text = NULL;
    size_t n = 0, room = 0;
    pst_status status = PST_OK;

    if (in == NULL && errno == ENOMEM) {
        call_end(PST_ERR_NOMEM);
    }
    if (in == NULL) {
        call_end(pst_failf(file->host, PST_ERR_IO, "cannot open the schedule \"%s\": %s",
                           file->path, strerror(errno)));
    }
    while (status == PST_OK && !feof(in)) {
        if (n + 1 >= room) { /* the call must not end while the file is open */
            char *more = room < MAX_BYTES ? call_try_alloc(2 * room + 65536, 1) : NULL;

            if (more == NULL) {
                status = room < MAX_BYTES ? PST_ERR_NOMEM
                                          : pst_failf(file->host, PST_ERR_CONFIG,
                                                      "%s is over 256 MiB", file->path);
                break;
            }
            if (n > 0) {
                memcpy(more, text, n);
            }
            call_free(text);
            text = more;
            room = 2 * room + 65536;
        }
        n += fread(text + n, 1, room - n - 1, in);
        if (ferror(in)) {
            status = pst_failf(file->host, PST_ERR_IO, "cannot read the schedule \"%s\": %s",
                               file->path, strerror(errno));
        }
    }
    fclose(in);
    call_check(status);
    text[n] = '\0';
    *ret_length = n;
    return text;
}

void csv_read(struct csv_file *file)
{
    size_t length;
    char *text = slurp(file, &length), *at = text, *end = text + length;
    uint32_t room = 0;

    if (strlen(text) != length) {
        csv_fail(file, " has a NUL at byte %zu: it is not a text file", strlen(text));
    }
    at += strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (end > at && strchr(" \t\r\n", end[-1]) != NULL) {
        *--end = '\0';
    }
    for (char *c = at; c < end; c++) {
        file->n_rows += c == at || c[-1] == '\n';
    }
    CALL_TAKE(file->first, file->n_rows + 1);
    for (uint32_t row = 0; row < file->n_rows; row++) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        uint32_t column = 1;

        line_end = line_end == NULL ? end : line_end;
        *line_end = '\0';
        file->first[row] = file->n_cells;
        for (char *cell = at; cell != NULL; column++) {
            char *comma = strchr(cell, ',');

            if (comma != NULL) {
                *comma = '\0';
            }
            parse_cell(file, &room, cell, row + 1, column);
            cell = comma == NULL ? NULL : comma + 1;
        }
        at = line_end + 1;
    }
    file->first[file->n_rows] = file->n_cells;
    find_dialect(file);
    call_free(text);
    csv_check_passes(file);
    if (file->has_transfers) {
        csv_check_transfers(file);
    }
    csv_check_progress(file);
}
