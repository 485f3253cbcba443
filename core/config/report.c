/* SPDX-License-Identifier: Apache-2.0 */
#include "config/report.h"

#include <stdio.h>
#include <string.h>

static void add_error(struct pst_report *report, const struct pst_error *err)
{
    char place[sizeof err->file + 32] = "";

    if (report->count++ == 0) {
        report->first = *err;
        report->first.details[0] = '\0';
        return;
    }
    if (report->count > PST_REPORT_MAX + 1) {
        return;
    }
    if (err->line != 0) {
        snprintf(place, sizeof place, "%s:%u:%u: ", err->file, err->line, err->column);
    } else if (err->file[0] != '\0') {
        snprintf(place, sizeof place, "%s: ", err->file);
    }
    pst_error_detail(&report->first, "%s%s\n", place, err->message);
}

void pst_report_at(struct pst_report *report, const char *kind, const struct pst_config_node *node,
                   bool at_key, const char *format, ...)
{
    char message[sizeof report->first.message];
    struct pst_error err;
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    pst_fail_at(&err, PST_ERR_CONFIG, kind, node == NULL ? NULL : node->file,
                node == NULL ? 0
                : at_key     ? node->key_line
                             : node->line,
                node == NULL ? 0
                : at_key     ? node->key_column
                             : node->column,
                "%s", message);
    add_error(report, &err);
}

void pst_report_merge(struct pst_report *report, const struct pst_error *err)
{
    const char *line = err->details;

    add_error(report, err);
    while (*line != '\0') {
        int n = (int)strcspn(line, "\n");

        if (report->count++ <= PST_REPORT_MAX) {
            pst_error_detail(&report->first, "%.*s\n", n, line);
        }
        line += n + (line[n] == '\n');
    }
}

pst_status pst_report_finish(const struct pst_report *report, struct pst_error *err)
{
    if (report->count == 0) {
        return PST_OK;
    }
    if (err != NULL) {
        *err = report->first;
        if (report->count > PST_REPORT_MAX + 1) {
            pst_error_detail(err, "and %u more\n", report->count - PST_REPORT_MAX - 1);
        }
    }
    return report->first.status;
}

const char *pst_report_word(char text[64], const char *word)
{
    size_t n = 0;

    while (word[n] != '\0' && n < 63) {
        unsigned char c = (unsigned char)word[n];

        text[n++] = c < 0x20 || c == 0x7F ? '?' : (char)c;
    }
    if (word[n] != '\0') {
        /* Cut in front of a character, not inside one. */
        n = 60;
        while (n > 0 && ((unsigned char)word[n] & 0xC0) == 0x80) {
            n--;
        }
        memcpy(text + n, "...", 3);
        n += 3;
    }
    text[n] = '\0';
    return text;
}

/* --- words that are near ----------------------------------------------------------------------*/

#define MAX_WORD 64

/* Letters of another case, and '-' for '_', are not mistakes worth counting. */
static char fold_letter(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c == '-' ? '_' : c;
}

static uint32_t smaller_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/*
 * Insertions, deletions, substitutions and swaps of neighbours that turn a into b, no substring
 * edited twice ("optimal string alignment"). Damerau: "A technique for computer detection and
 * correction of spelling errors", CACM 7(3), 1964.
 */
static uint32_t distance(const char *a, uint32_t n_a, const char *b, uint32_t n_b)
{
    uint32_t rows[3][MAX_WORD + 1];
    uint32_t *before = rows[0], *last = rows[1], *row = rows[2];

    for (uint32_t j = 0; j <= n_b; j++) {
        last[j] = j;
        before[j] = 0;
    }
    for (uint32_t i = 1; i <= n_a; i++) {
        uint32_t *spare = before;

        row[0] = i;
        for (uint32_t j = 1; j <= n_b; j++) {
            bool same = fold_letter(a[i - 1]) == fold_letter(b[j - 1]);

            row[j] = smaller_of(smaller_of(last[j], row[j - 1]) + 1, last[j - 1] + !same);
            if (i > 1 && j > 1 && fold_letter(a[i - 1]) == fold_letter(b[j - 2]) &&
                fold_letter(a[i - 2]) == fold_letter(b[j - 1])) {
                row[j] = smaller_of(row[j], before[j - 2] + 1);
            }
        }
        before = last;
        last = row;
        row = spare;
    }
    return last[n_b];
}

/* "memory" for "memory_bytes", or "batch_size" for "batch": nearer than any word with other
   letters. */
static bool has_other_unit(const char *word, size_t n, const char *candidate, size_t m)
{
    const size_t least = n < m ? n : m;
    size_t same = 0;

    while (same < least && fold_letter(word[same]) == fold_letter(candidate[same])) {
        same++;
    }
    return least >= 4 && same == least &&
           (fold_letter(candidate[least]) == '_' || fold_letter(word[least]) == '_');
}

const char *pst_nearest(const char *word, const char *const *candidates, uint32_t n_candidates)
{
    size_t n = strlen(word);
    const char *best = NULL;
    uint32_t limit, best_distance = UINT32_MAX;

    if (n == 0 || n > MAX_WORD) {
        return NULL;
    }
    limit = n < 3 ? 1 : (uint32_t)n / 3;
    for (uint32_t i = 0; i < n_candidates; i++) {
        size_t m = strlen(candidates[i]);
        uint32_t d;

        if (m == 0 || m > MAX_WORD) {
            continue;
        }
        d = has_other_unit(word, n, candidates[i], m)
                ? 1
                : distance(word, (uint32_t)n, candidates[i], (uint32_t)m);
        /* d < n: at least one character was right. */
        if (d <= limit && d < n && d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}

const char *pst_nearest_hint(char text[96], const char *word, const char *const *candidates,
                             uint32_t n_candidates)
{
    const char *nearest = pst_nearest(word, candidates, n_candidates);

    text[0] = '\0';
    if (nearest != NULL) {
        snprintf(text, 96, "; did you mean \"%s\"?", nearest);
    }
    return text;
}
