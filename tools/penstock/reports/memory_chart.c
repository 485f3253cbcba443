/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/memory_chart.h"

#include <string.h>

#include "base/util.h"

#define COLUMNS 64
#define ROWS    10

struct chart {
    uint64_t most[COLUMNS]; /* bytes; the largest of what falls into the column */
    char pass[COLUMNS];     /* F, R (a replay) or B of that */
    uint64_t top;           /* bytes of the uppermost row */
};

/* Width of an event: the time that it takes, at least a little, so that all are seen. */
static double width_of(const struct pst_memory_event *event, double least)
{
    return (double)event->ns > least ? (double)event->ns : least;
}

static void fill(struct chart *chart, const struct pst_memory_event *events, uint32_t n)
{
    double all = 0, least, at = 0;

    for (uint32_t i = 0; i < n; i++) {
        all += (double)events[i].ns;
    }
    least = all > 0 ? all / (4.0 * COLUMNS + n) : 1.0;
    all = 0;
    for (uint32_t i = 0; i < n; i++) {
        all += width_of(&events[i], least);
    }
    for (uint32_t i = 0; i < n; i++) {
        double end = at + width_of(&events[i], least);
        uint32_t from = (uint32_t)(at / all * COLUMNS), to = (uint32_t)(end / all * COLUMNS);

        for (uint32_t c = from; c < COLUMNS && (c < to || c == from); c++) {
            if (events[i].bytes >= chart->most[c]) {
                chart->most[c] = events[i].bytes;
                chart->pass[c] = "FRB"[events[i].pass];
            }
        }
        chart->top = events[i].bytes > chart->top ? events[i].bytes : chart->top;
        at = end;
    }
}

static void print_row(const struct chart *chart, uint32_t row, uint64_t capacity, FILE *out)
{
    double step = (double)chart->top / ROWS, low = step * (row - 1), high = step * row;
    bool limit = (double)capacity > low && (double)capacity <= high;
    char text[32], line[COLUMNS + 1];

    for (uint32_t c = 0; c < COLUMNS; c++) {
        /* A column reaches the row where it fills at least half of it. */
        bool filled = (double)chart->most[c] >= low + step / 2;

        line[c] = filled ? (chart->pass[c] == 'R' ? 'r' : '#') : limit ? '-' : ' ';
    }
    line[COLUMNS] = '\0';
    fprintf(out, "%12s |%s%s\n",
            row == ROWS || row == ROWS / 2 ? pst_format_bytes(text, (uint64_t)high) : "", line,
            limit ? " capacity" : "");
}

void pst_memory_chart_print(const struct pst_memory_event *events, uint32_t n_events,
                            uint64_t capacity_bytes, FILE *out)
{
    struct chart chart = {.top = 0};
    uint32_t turn = COLUMNS;

    if (n_events == 0) {
        return;
    }
    fill(&chart, events, n_events);
    for (uint32_t row = ROWS; row > 0; row--) {
        print_row(&chart, row, capacity_bytes, out);
    }
    for (uint32_t c = COLUMNS; c-- > 0;) {
        turn = chart.pass[c] == 'F' ? turn : c;
    }
    fprintf(out, "%12s +", "");
    for (uint32_t c = 0; c < COLUMNS; c++) {
        fputc(c == turn ? '+' : '-', out);
    }
    fprintf(out, "\n%14s%-*s%s\n", "", (int)turn, turn >= 8 ? "forward" : "",
            "backward (r: replays)");
}
