/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/partition_words.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "reports/table.h"

const char *pst_report_ranks(const uint32_t *ranks, uint32_t n, const char *between, char *text,
                             size_t size)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        uint32_t run = i;

        while (run + 1 < n && ranks[run + 1] == ranks[run] + 1) {
            run++;
        }
        pst_text_append(text, size, "%s%u", i == 0 ? "" : between, ranks[i]);
        if (run > i) {
            pst_text_append(text, size, "-%u", ranks[run]);
        }
        i = run;
    }
    return text;
}

const char *pst_report_limit(double memory_part, double time_part, double compute, double transfers,
                             double reduce)
{
    if (memory_part > time_part) {
        return "memory";
    }
    if (transfers > compute && transfers >= reduce) {
        return "transfers";
    }
    return reduce > compute ? "all-reduce" : "compute";
}

void pst_report_remarks_print(const struct pst_partition_remark *remarks, uint32_t n,
                              bool (*hides)(const char *key), FILE *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_partition_remark *remark = &remarks[i];
        char *line;

        if (hides != NULL && hides(remark->key)) {
            continue;
        }
        if (remark->type == PST_REMARK_TEXT) {
            line = pst_printf("  %s: %s", remark->key, remark->text);
        } else if (remark->type == PST_REMARK_FLAG) {
            line = pst_printf("  %s: %s", remark->key, remark->number != 0 ? "yes" : "no");
        } else {
            line = pst_printf("  %s: %.10g", remark->key, remark->number);
        }
        pst_text_make_plain(line);
        pst_table_paragraph(out, line, 4);
        free(line);
    }
}

void pst_report_remarks_json(const struct pst_partition_remark *remarks, uint32_t n,
                             bool (*hides)(const char *key), struct pst_json *json)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_partition_remark *remark = &remarks[i];

        if (hides != NULL && hides(remark->key)) {
            continue;
        }
        if (remark->type == PST_REMARK_TEXT) {
            pst_json_string(json, remark->key, remark->text);
        } else if (remark->type == PST_REMARK_FLAG) {
            pst_json_bool(json, remark->key, remark->number != 0);
        } else {
            pst_json_figure(json, remark->key, remark->number);
        }
    }
}
