/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer.h"

#include <stdio.h>
#include <string.h>

const char *mem_bytes_text(char text[32], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024.0;
    uint32_t unit = 0;

    if (bytes < 1024) {
        snprintf(text, 32, "%llu bytes", (unsigned long long)bytes);
        return text;
    }
    while (value >= 1024.0 && unit < 5) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, 32, "%.2f %s", value, units[unit]);
    return text;
}

static bool is_word(const char *at, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(at, word, length) == 0;
}

pst_status mem_allow(const struct pst_host *host, const char *list, bool *ret_recompute,
                     bool *ret_offload)
{
    bool recompute = false, offload = false;

    for (const char *at = list;; at++) {
        const char *end;
        size_t length;

        at += strspn(at, " ");
        length = strcspn(at, ", ");
        end = at + length + strspn(at + length, " ");
        if ((!is_word(at, length, "recompute") && !is_word(at, length, "offload") &&
             !is_word(at, length, "both")) ||
            (*end != ',' && *end != '\0')) {
            return pst_failf(
                host, PST_ERR_CONFIG,
                "allow: \"%.100s\" must be recompute, offload, or both, separated by a comma",
                list);
        }
        recompute |= *at != 'o';
        offload |= *at != 'r';
        at = end;
        if (*at != ',') {
            break;
        }
    }
    *ret_recompute = recompute;
    *ret_offload = offload;
    return PST_OK;
}

pst_status mem_refuse(const struct pst_host *host, const struct pst_stage_view *view,
                      uint64_t peak_bytes)
{
    char missing[32], capacity[32], enough[32];

    return pst_failf(host, PST_ERR_INFEASIBLE,
                     "stage %u does not fit: it lacks %s, its device leaves it %s; the "
                     "smallest capacity that would do for it is %s (%llu bytes)",
                     view->stage, mem_bytes_text(missing, peak_bytes - view->capacity_bytes),
                     mem_bytes_text(capacity, view->capacity_bytes),
                     mem_bytes_text(enough, peak_bytes), (unsigned long long)peak_bytes);
}
