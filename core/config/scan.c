/* SPDX-License-Identifier: Apache-2.0
 *
 * Refuses long lines and deep nesting before parsing: the parser recurses, and so does freeing its
 * tree, so these would need unbounded stack.
 */
#include "config/tree.h"

#include <string.h>

/* Open brackets plus the dots of the keys in front of them; the exact limit is checked in the tree.
 */
#define MAX_OPEN 64u

struct scan {
    const char *at, *end;
    const char *line_start;
    uint32_t line;
    uint32_t n_open, n_dots; /* n_dots: of the key or number that is being read */
    uint32_t weight, weights[MAX_OPEN + 1];
};

static void new_line(struct scan *scan)
{
    scan->line++;
    scan->line_start = scan->at + 1;
}

/* Returns how often the character stands at the place, at most n times. */
static size_t run_of(const struct scan *scan, const char *at, char c, size_t n)
{
    size_t length = 0;

    while (length < n && at + length < scan->end && at[length] == c) {
        length++;
    }
    return length;
}

/* Skips from the opening quote to after the closing one, or to where the string breaks off. */
static void skip_string(struct scan *scan)
{
    char quote = *scan->at;
    size_t quotes = run_of(scan, scan->at, quote, 3);

    if (quotes == 2) { /* empty */
        scan->at += 2;
        return;
    }
    for (scan->at += quotes; scan->at < scan->end; scan->at++) {
        if (*scan->at == '\n' && quotes == 1) {
            return; /* unfinished: the parser will say so */
        }
        if (*scan->at == quote && run_of(scan, scan->at, quote, quotes) == quotes) {
            /* Up to two quotes in front of the closing three belong to the string. */
            scan->at += quotes == 1 ? 1 : run_of(scan, scan->at, quote, 5);
            return;
        }
        if (*scan->at == '\\' && quote == '"' && scan->at + 1 < scan->end && scan->at[1] != '\n') {
            scan->at++;
        } else if (*scan->at == '\n') {
            new_line(scan);
        }
    }
}

static void skip_comment(struct scan *scan)
{
    const char *newline = memchr(scan->at, '\n', (size_t)(scan->end - scan->at));

    scan->at = newline == NULL ? scan->end : newline;
}

/* False when a limit is passed. */
static bool open_bracket(struct scan *scan)
{
    if (scan->weight + scan->n_dots + 1 > MAX_OPEN) {
        return false;
    }
    scan->weights[scan->n_open++] = scan->n_dots + 1;
    scan->weight += scan->n_dots + 1;
    scan->n_dots = 0;
    return true;
}

static void close_bracket(struct scan *scan)
{
    if (scan->n_open > 0) {
        scan->weight -= scan->weights[--scan->n_open];
    }
    scan->n_dots = 0;
}

/* One character outside of strings and comments. */
static bool take_character(struct scan *scan)
{
    switch (*scan->at) {
    case '[':
    case '{':
        return open_bracket(scan);
    case ']':
    case '}':
        close_bracket(scan);
        return true;
    case ',':
        scan->n_dots = 0;
        return true;
    case '.':
        return ++scan->n_dots < PST_CONFIG_MAX_PARTS;
    case '\n':
        new_line(scan);
        scan->n_dots = 0;
        return true;
    default:
        return true;
    }
}

static pst_status scan_nesting(const char *text, size_t length, const char *name,
                               struct pst_error *err)
{
    struct scan scan = {.at = text, .end = text + length, .line_start = text, .line = 1};

    while (scan.at < scan.end) {
        if (*scan.at == '#') {
            skip_comment(&scan);
        } else if (*scan.at == '"' || *scan.at == '\'') {
            skip_string(&scan);
        } else if (!take_character(&scan)) {
            return pst_fail_at(err, PST_ERR_CONFIG, "config.limit", name, scan.line,
                               pst_tree_column(scan.line_start, scan.at), "%s",
                               *scan.at == '.' ? "a dotted key of more than 32 parts"
                                               : PST_CONFIG_TOO_DEEP);
        } else {
            scan.at++;
        }
    }
    return PST_OK;
}

pst_status pst_tree_scan(const char *text, size_t length, const char *name, struct pst_error *err)
{
    const char *at = text, *end = text + length;
    uint32_t line = 1;

    if (length > PST_CONFIG_MAX_BYTES) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.limit", name, 0, 0,
                           "the file is larger than 1 MiB");
    }
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));

        newline = newline == NULL ? end : newline;
        if ((size_t)(newline - at) > PST_CONFIG_MAX_LINE) {
            return pst_fail_at(err, PST_ERR_CONFIG, "config.limit", name, line, 1,
                               "a line of %zu bytes; at most 4096, break it up",
                               (size_t)(newline - at));
        }
        line++;
        at = newline + 1;
    }
    return scan_nesting(text, length, name, err);
}
