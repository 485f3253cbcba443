/* SPDX-License-Identifier: Apache-2.0 */
#include "config/json_fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void pst_fields_fail(struct pst_fields *fields, const char *kind, const char *key,
                     const char *format, ...)
{
    char text[768];
    const char *item = fields->item;
    va_list args;

    if (fields->status != PST_OK) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fields->status = pst_fail_at(
        fields->err, PST_ERR_CONFIG, kind != NULL ? kind : "input.syntax", fields->path, 0, 0,
        "%s%s%s%s%.100s%s%s%s", fields->where, fields->where[0] != '\0' && key != NULL ? "." : "",
        key != NULL ? key : "", item != NULL ? " (\"" : "", item != NULL ? item : "",
        item != NULL ? "\")" : "", fields->where[0] != '\0' || key != NULL ? ": " : "", text);
}

size_t pst_fields_enter(struct pst_fields *fields, const char *key, size_t index)
{
    const size_t mark = strlen(fields->where);

    pst_text_append(fields->where, sizeof fields->where, "%s%s",
                    mark == 0 || key[0] == '\0' ? "" : ".", key);
    if (index != PST_FIELDS_NO_INDEX) {
        pst_text_append(fields->where, sizeof fields->where, "[%zu]", index);
    }
    return mark;
}

void pst_fields_leave(struct pst_fields *fields, size_t mark)
{
    fields->where[mark] = '\0';
}
