/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "config/config.h"

#define MAX_PARTS 64

/* The comma that ends the part at `text`, or the end of all. */
static char *part_end(char *text)
{
    char quote = 0;
    int depth = 0;

    for (; *text != '\0'; text++) {
        if (quote != 0) {
            if (*text == '\\' && quote == '"' && text[1] != '\0') {
                text++;
            } else if (*text == quote) {
                quote = 0;
            }
        } else if (*text == '"' || *text == '\'') {
            quote = *text;
        } else if (*text == '[' || *text == '{') {
            depth++;
        } else if (*text == ']' || *text == '}') {
            depth--;
        } else if (*text == ',' && depth <= 0) {
            break;
        }
    }
    return text;
}

pst_status pst_config_from_list(const char *list, struct pst_config **ret_config,
                                struct pst_error *err)
{
    const char *parts[MAX_PARTS];
    struct pst_arena arena = {0};
    char *at = pst_arena_strdup(&arena, list);
    uint32_t n = 0;
    pst_status st = PST_OK;

    while (st == PST_OK && *at != '\0') {
        char *end = part_end(at);
        bool last = *end == '\0';

        *end = '\0';
        if (n == MAX_PARTS) {
            st = pst_fail(err, PST_ERR_CONFIG, "config.limit", "there are more than %d parts in %s",
                          MAX_PARTS, list);
        } else if (strchr(at, '=') == NULL) {
            st = pst_fail(err, PST_ERR_CONFIG, "config.syntax",
                          "\"%s\" is not of the form key=value", at);
        } else {
            parts[n++] = at;
        }
        at = last ? end : end + 1;
    }
    if (st == PST_OK) {
        st = pst_config_from_sets(parts, n, ret_config, err);
    }
    pst_arena_finish(&arena);
    return st;
}
