/* SPDX-License-Identifier: Apache-2.0
 *
 * Several errors of one reading: the first becomes the error, the next ones lines of its details,
 * so that a user repairs a file in one go.
 */
#ifndef PST_CONFIG_REPORT_H
#define PST_CONFIG_REPORT_H

#include "config/config.h"

struct pst_report {
    struct pst_error first;
    uint32_t count;
};

/* At most this many lines of details. */
#define PST_REPORT_MAX 10

/* Adds an error at the value or the key of a node; NULL: no position. All are PST_ERR_CONFIG. */
void pst_report_at(struct pst_report *report, const char *kind, const struct pst_config_node *node,
                   bool at_key, const char *format, ...) __attribute__((format(printf, 5, 6)));
#define pst_report_value(report, kind, node, ...)                                                  \
    pst_report_at(report, kind, node, false, __VA_ARGS__)
#define pst_report_key(report, kind, node, ...) pst_report_at(report, kind, node, true, __VA_ARGS__)

/* Takes in what another reading found, its details included. */
void pst_report_merge(struct pst_report *report, const struct pst_error *err);

/* PST_OK, or the first error copied to *err (which may be NULL) and its status. */
pst_status pst_report_finish(const struct pst_report *report, struct pst_error *err);

/* `word` fit for one line of a message: control characters become '?', long ones end in "...".
   text holds 64 bytes; returns it. */
const char *pst_report_word(char text[64], const char *word);

#endif
