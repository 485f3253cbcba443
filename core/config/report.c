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

static void add_at(struct pst_report *report, const char *kind, const char *file, uint32_t line,
                   uint32_t column, const char *format, va_list args)
{
    char message[sizeof report->first.message];
    struct pst_error err;

    vsnprintf(message, sizeof message, format, args);
    pst_fail_at(&err, PST_ERR_CONFIG, kind, file, line, column, "%s", message);
    add_error(report, &err);
}

void pst_report_value(struct pst_report *report, const char *kind,
                      const struct pst_config_node *node, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (node == NULL) {
        add_at(report, kind, NULL, 0, 0, format, args);
    } else {
        add_at(report, kind, node->file, node->line, node->column, format, args);
    }
    va_end(args);
}

void pst_report_key(struct pst_report *report, const char *kind, const struct pst_config_node *node,
                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (node == NULL) {
        add_at(report, kind, NULL, 0, 0, format, args);
    } else {
        add_at(report, kind, node->file, node->key_line, node->key_column, format, args);
    }
    va_end(args);
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
