/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/util.h"
#include "plan/plan_file.h"

struct scan {
    const char *path, *text;
    size_t length, at;
    uint32_t depth, line;
    uint64_t n_arrays;
    size_t key_begin, key_end; /* the last string */
    bool in_provenance;
    size_t config_begin, config_end;
    struct pst_error *err;
};

static pst_status too_much(const struct scan *scan, const char *what, uint64_t limit)
{
    return pst_fail_at(scan->err, PST_ERR_CONFIG, "input.limit", scan->path, scan->line, 0,
                       "%s; a plan file may have at most %llu", what, (unsigned long long)limit);
}

static pst_status broken(const struct scan *scan, const char *what)
{
    return pst_fail_at(scan->err, PST_ERR_CONFIG, "input.syntax", scan->path, scan->line, 0,
                       "%s; the file is damaged or cut off", what);
}

static pst_status scan_string(struct scan *scan)
{
    size_t begin = ++scan->at;
    while (scan->at < scan->length && scan->text[scan->at] != '"') {
        scan->at += scan->text[scan->at] == '\\' ? 2 : 1;
        if (scan->at - begin > PST_PLAN_FILE_STRING) {
            return too_much(scan, "a string of many bytes", PST_PLAN_FILE_STRING);
        }
    }
    if (scan->at >= scan->length) {
        return broken(scan, "a string does not end");
    }
    scan->key_begin = begin;
    scan->key_end = scan->at;
    return PST_OK;
}

static bool key_is(const struct scan *scan, const char *key)
{
    size_t length = strlen(key);
    return scan->key_end - scan->key_begin == length &&
           memcmp(scan->text + scan->key_begin, key, length) == 0;
}

/* Behind a colon: is this the value that we look for? */
static void scan_member(struct scan *scan)
{
    if (scan->depth == 1) {
        scan->in_provenance = key_is(scan, "provenance");
    } else if (scan->depth == 2 && scan->in_provenance && scan->config_begin == 0 &&
               key_is(scan, "config")) {
        size_t begin = scan->at + 1;
        begin += strspn(scan->text + begin, " \t\r\n");
        scan->config_begin = begin;
    }
}

/* A comma or bracket at depth 2 behind the start of the value ends it. */
static void end_config(struct scan *scan)
{
    if (scan->depth == 2 && scan->config_begin != 0 && scan->config_end == 0) {
        size_t end = scan->at;
        while (end > scan->config_begin && strchr(" \t\r\n", scan->text[end - 1]) != NULL) {
            end--;
        }
        scan->config_end = end;
    }
}

static pst_status scan_character(struct scan *scan)
{
    switch (scan->text[scan->at]) {
    case '"':
        return scan_string(scan);
    case ':':
        scan_member(scan);
        break;
    case ',':
        end_config(scan);
        break;
    case '[':
    case '{':
        scan->n_arrays += scan->text[scan->at] == '[';
        if (++scan->depth > PST_PLAN_FILE_NESTING) {
            return too_much(scan, "brackets nested deeply", PST_PLAN_FILE_NESTING);
        }
        if (scan->n_arrays > 2ull * PST_PLAN_FILE_INSTRS) {
            return too_much(scan, "very many arrays", 2ull * PST_PLAN_FILE_INSTRS);
        }
        break;
    case ']':
    case '}':
        end_config(scan);
        if (scan->depth == 0) {
            return broken(scan, "a bracket closes what was not opened");
        }
        scan->depth--;
        break;
    case '\n':
        scan->line++;
        break;
    default:
        break;
    }
    return PST_OK;
}

pst_status pst_plan_file_scan(const char *path, const char *text, size_t length, size_t *ret_begin,
                              size_t *ret_end, struct pst_error *err)
{
    struct scan scan = {.path = path, .text = text, .length = length, .line = 1, .err = err};
    if (memchr(text, '\0', length) != NULL) {
        return pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0,
                           "a zero byte, which no JSON has; the file is damaged");
    }
    for (; scan.at < length; scan.at++) {
        pst_status status = scan_character(&scan);
        if (status != PST_OK) {
            return status;
        }
    }
    if (scan.depth > 0) {
        return broken(&scan, "a bracket is not closed");
    }
    *ret_begin = scan.config_end != 0 ? scan.config_begin : 0;
    *ret_end = scan.config_end;
    return PST_OK;
}
