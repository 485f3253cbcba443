/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits that a parser would only meet after it has allocated or recursed, then the parser.
 */
#include "config/json_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct scan {
    const char *path, *text;
    size_t length, at;
    uint32_t line, depth;
    struct pst_error *err;
};

/* Behind the opening quote; ends at the closing one or at the end of the text. */
static pst_status scan_string(struct scan *scan)
{
    size_t begin = ++scan->at;

    while (scan->at < scan->length && scan->text[scan->at] != '"') {
        scan->at += scan->text[scan->at] == '\\' ? 2 : 1;
    }
    return scan->at - begin <= PST_JSON_STRING
               ? PST_OK
               : pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, scan->line, 0,
                             "a string of more than %zu bytes", PST_JSON_STRING);
}

static pst_status scan_text(struct scan *scan)
{
    pst_status st = PST_OK;

    for (; st == PST_OK && scan->at < scan->length; scan->at++) {
        char c = scan->text[scan->at];

        if (c == '"') {
            st = scan_string(scan);
        } else if (c == '\n') {
            scan->line++;
        } else if (c == '[' || c == '{') {
            if (++scan->depth > PST_JSON_NESTING) {
                st = pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, scan->line,
                                 0, "brackets nested more than %d deep", PST_JSON_NESTING);
            }
        } else if ((c == ']' || c == '}') && scan->depth > 0) {
            scan->depth--;
        }
    }
    return st;
}

pst_status pst_json_load(const char *path, size_t max_bytes, json_t **ret_root,
                         struct pst_error *err)
{
    struct scan scan = {.path = path, .line = 1, .err = err};
    json_error_t error;
    json_t *root = NULL;
    char *text = NULL;
    size_t length = 0, skip;
    pst_status st = pst_file_read(path, max_bytes, "input.path", &text, &length, err);

    if (st != PST_OK) {
        return st;
    }
    skip = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    scan.text = text + skip;
    scan.length = length - skip;
    st = scan_text(&scan);
    if (st == PST_OK) {
        root = json_loadb(text + skip, length - skip, JSON_REJECT_DUPLICATES, &error);
        if (root == NULL && json_error_code(&error) == json_error_out_of_memory) {
            st = pst_fail_nomem(err);
        } else if (root == NULL) {
            st = pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path,
                             error.line > 0 ? (uint32_t)error.line : 0,
                             error.column > 0 ? (uint32_t)error.column : 0, "%s", error.text);
        }
    }
    free(text);
    if (st == PST_OK) {
        *ret_root = root;
    }
    return st;
}
