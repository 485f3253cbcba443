/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/timeline_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/util.h"

enum { MIN_WIDTH = 48, MAX_LABEL = 16, WIDEST_SLOT = 4, KINDS = 6, SHADES = 3 };

struct picture {
    FILE *out;
    const struct pst_timeline *timeline;
    bool colour, utf8;
    uint32_t width, label, columns; /* of all, of the names, of the rows */
    uint64_t slot_ns;               /* of the exact picture; 0: scaled */
    uint32_t per_slot;              /* columns of a slot */
    uint32_t *cells;                /* [columns] span that shows there, or PST_NONE */
    uint32_t *chunk_of;             /* [n_stages] */
    uint32_t n_chunks;
    bool seen[KINDS];
};

static bool is_pass(const struct pst_span *span)
{
    return span->lane == PST_LANE_COMPUTE && span->op >= PST_I_F && span->op <= PST_I_R &&
           span->end_ns > span->start_ns;
}

uint32_t pst_report_chunks(const struct pst_timeline *timeline, uint32_t *ret_chunk_of)
{
    uint32_t most = 1;

    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        uint32_t chunk = 0;

        for (uint32_t i = 0; i < timeline->ranks[r].n_spans; i++) {
            const struct pst_span *span = &timeline->spans[timeline->ranks[r].first + i];

            if (span->lane == PST_LANE_COMPUTE && span->stage < timeline->n_stages) {
                ret_chunk_of[span->stage] = PST_NONE;
            }
        }
        for (uint32_t s = 0; s < timeline->n_stages; s++) {
            if (ret_chunk_of[s] == PST_NONE) {
                ret_chunk_of[s] = chunk++;
            }
        }
        most = chunk > most ? chunk : most;
    }
    return timeline->copies > 1 ? timeline->copies : most;
}

uint32_t pst_report_chunk(const struct pst_timeline *timeline, const uint32_t *chunk_of,
                          const struct pst_span *span)
{
    if (timeline->copies <= 1) {
        return chunk_of[span->stage];
    }
    return timeline->copy_of != NULL
               ? timeline->copy_of[(size_t)span->rank * timeline->n_stages + span->stage]
               : span->stage / (timeline->n_stages / timeline->copies);
}

/* A slot divides all times; the picture is exact if all slots have a column. Where most passes have
   no room for their numbers, none is shown. */
static void find_scale(struct picture *p)
{
    const struct pst_timeline *t = p->timeline;
    uint64_t all = t->end_ns - t->begin_ns, slot = all, n_passes = 0;

    for (uint32_t i = 0; i < t->n_spans; i++) {
        if (is_pass(&t->spans[i])) {
            n_passes++;
            slot = pst_gcd(slot, t->spans[i].start_ns - t->begin_ns);
            slot = pst_gcd(slot, t->spans[i].end_ns - t->begin_ns);
        }
    }
    if (slot > 0 && all / slot <= p->columns) {
        p->slot_ns = slot;
        p->per_slot = (uint32_t)(p->columns / (all / slot));
        p->per_slot = p->per_slot > WIDEST_SLOT ? WIDEST_SLOT : p->per_slot;
        p->columns = (uint32_t)(all / slot) * p->per_slot;
    } else {
        p->per_slot = (uint64_t)p->columns * t->n_ranks < 3 * n_passes ? 1 : 0;
    }
}

/* The middle of a column in time. */
static uint64_t time_of(const struct picture *p, uint32_t column)
{
    uint64_t all = p->timeline->end_ns - p->timeline->begin_ns;

    return p->timeline->begin_ns +
           (uint64_t)(((long double)column + 0.5L) * (long double)all / (long double)p->columns);
}

static void fill_cells(struct picture *p, const struct pst_timeline_rank *rank)
{
    uint32_t i = rank->first, end = rank->first + rank->n_spans;

    for (uint32_t column = 0; column < p->columns; column++) {
        uint64_t time = time_of(p, column);

        while (i < end &&
               (!is_pass(&p->timeline->spans[i]) || p->timeline->spans[i].end_ns <= time)) {
            i++;
        }
        p->cells[column] = i < end && p->timeline->spans[i].start_ns <= time ? i : PST_NONE;
    }
}

/* With two chunks the small letters are the first chunk's backward and the second one's forward:
   then a micro-batch reads F f B W b w. Of two copies the second has all small ones. */
static char letter_of(const struct picture *p, const struct pst_span *span)
{
    static const char upper[] = "?FBWXR", lower[] = "?fbwxr";
    uint32_t chunk = pst_report_chunk(p->timeline, p->chunk_of, span);
    bool up = span->op == PST_I_F || p->timeline->copies == 2;
    bool small = p->n_chunks == 2 && (up ? chunk == 1 : chunk == 0);

    return small ? lower[span->op] : upper[span->op];
}

/* Returns one of the 256 colours; each chunk has its own shade. */
static int colour_of(const struct picture *p, const struct pst_span *span)
{
    static const int colours[KINDS][SHADES] = {
        [PST_I_F] = {75, 111, 153},   [PST_I_B] = {214, 221, 223}, [PST_I_W] = {72, 115, 158},
        [PST_I_BW] = {208, 215, 217}, [PST_I_R] = {175, 182, 219},
    };
    uint32_t chunk = pst_report_chunk(p->timeline, p->chunk_of, span);

    return colours[span->op][chunk < SHADES ? chunk : SHADES - 1];
}

static void print_box(struct picture *p, uint32_t index, uint32_t length)
{
    const struct pst_span *span = &p->timeline->spans[index];
    const char *filler = p->colour ? " " : p->utf8 ? "─" : "-";
    char text[16];
    uint32_t used;

    p->seen[span->op] = true;
    snprintf(text, sizeof text, "%c%u", letter_of(p, span), span->microbatch);
    used = (uint32_t)strlen(text);
    if (p->colour) {
        fprintf(p->out, "\033[38;5;16;48;5;%dm", colour_of(p, span));
    }
    if (p->per_slot == 1 || used > length) {
        for (uint32_t i = 0; i < length; i++) {
            fputc(p->colour && i > 0 && p->per_slot != 1 ? ' ' : text[0], p->out);
        }
    } else {
        fputs(text, p->out);
        for (uint32_t i = used; i < length; i++) {
            fputs(filler, p->out);
        }
    }
    if (p->colour) {
        fputs("\033[0m", p->out);
    }
}

static void print_row(struct picture *p, uint32_t r)
{
    char name[sizeof p->timeline->ranks[r].name];
    uint32_t from = 0, to;

    snprintf(name, sizeof name, "%s", p->timeline->ranks[r].name);
    if (name[0] == '\0' || strlen(name) > MAX_LABEL) {
        snprintf(name, sizeof name, "rank %u", r);
    }
    fprintf(p->out, "%-*s ", (int)p->label, name);
    fill_cells(p, &p->timeline->ranks[r]);
    while (from < p->columns) {
        for (to = from + 1; to < p->columns && p->cells[to] == p->cells[from]; to++) {
        }
        if (p->cells[from] != PST_NONE) {
            print_box(p, p->cells[from], to - from);
        } else {
            for (uint32_t i = from; i < to; i++) {
                fputs(p->colour ? " " : p->utf8 ? "·" : ".", p->out);
            }
        }
        from = to;
    }
    fputc('\n', p->out);
}

static void format_time(const struct picture *p, uint64_t ns, char text[32])
{
    if (p->timeline->ns_per_unit > 0) {
        pst_number_format(text, (double)((long double)ns / p->timeline->ns_per_unit));
    } else {
        pst_format_ns(text, ns);
    }
}

static void print_axis(const struct picture *p)
{
    char begin[32], end[32];
    int room;

    format_time(p, p->timeline->begin_ns, begin);
    format_time(p, p->timeline->end_ns, end);
    room = (int)p->columns - (int)strlen(begin);
    fprintf(p->out, "%*s%s%*s\n", (int)p->label + 1, "", begin,
            room > (int)strlen(end) ? room : (int)strlen(end) + 1, end);
}

/* One entry: a sample, or nothing (op 0), and words; a new line where it does not fit. */
static void print_entry(const struct picture *p, uint8_t op, const char *words, uint32_t *column)
{
    static const char letters[] = "?FBWXR";
    uint32_t length = (uint32_t)strlen(words) + (op == 0 ? 0 : p->colour ? 4 : 2);
    const struct pst_span span = {.stage = 0, .op = op};

    if (*column > p->label + 1 && *column + 2 + length > p->width) {
        fprintf(p->out, "\n%*s", (int)p->label + 1, "");
        *column = p->label + 1;
    } else if (*column > p->label + 1) {
        fputs(", ", p->out);
        *column += 2;
    }
    if (op != 0 && p->colour) {
        fprintf(p->out, "\033[38;5;16;48;5;%dm %c \033[0m ", colour_of(p, &span), letters[op]);
    } else if (op != 0) {
        fprintf(p->out, "%c ", letters[op]);
    }
    fputs(words, p->out);
    *column += length;
}

static void print_legend(const struct picture *p)
{
    static const struct {
        uint8_t op;
        const char *words;
    } rows[] = {{PST_I_F, "forward"},
                {PST_I_B, "backward for inputs"},
                {PST_I_W, "for weights"},
                {PST_I_BW, "whole backward"},
                {PST_I_R, "recompute"}};
    uint32_t column = p->label + 1;

    fprintf(p->out, "%*s", (int)column, "");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (p->seen[rows[i].op]) {
            print_entry(p, rows[i].op, rows[i].words, &column);
        }
    }
    if (p->timeline->copies == 2) {
        print_entry(p, 0, "small letters: the copy that goes the other way", &column);
    } else if (p->n_chunks == 2) {
        print_entry(p, 0,
                    p->seen[PST_I_BW] ? "a micro-batch goes F f X x"
                                      : "a micro-batch goes F f B W b w",
                    &column);
    }
    if (p->slot_ns == 0) {
        print_entry(p, 0, "scaled", &column);
    }
    fputc('\n', p->out);
}

void pst_report_timeline(FILE *out, const struct pst_timeline *timeline, uint32_t width,
                         bool colour, bool utf8)
{
    struct picture p = {.out = out, .timeline = timeline, .colour = colour, .utf8 = utf8};

    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        uint32_t n = (uint32_t)strlen(timeline->ranks[r].name);

        n = n == 0 || n > MAX_LABEL ? 8 : n;
        p.label = n > p.label ? n : p.label;
    }
    p.width = width < MIN_WIDTH ? MIN_WIDTH : width;
    p.columns = p.width - p.label - 1;
    p.cells = pst_alloc(p.columns, sizeof *p.cells);
    p.chunk_of = pst_alloc((size_t)timeline->n_stages + 1, sizeof *p.chunk_of);
    if (timeline->end_ns > timeline->begin_ns) {
        p.n_chunks = pst_report_chunks(timeline, p.chunk_of);
        find_scale(&p);
        for (uint32_t r = 0; r < timeline->n_ranks; r++) {
            print_row(&p, r);
        }
        print_axis(&p);
        print_legend(&p);
    }
    free(p.cells);
    free(p.chunk_of);
}
