/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines on standard error: level, area, lower-case words. Thread-safe. The level is set once by
 * the command line (-v, -q) or PENSTOCK_LOG.
 */
#ifndef PST_BASE_LOG_H
#define PST_BASE_LOG_H

#include <penstock/host.h>

void pst_log_set_level(uint32_t level); /* PST_LOG_*; default PST_LOG_WARN */
uint32_t pst_log_level(void);
/* The sink gets all records; NULL: standard error. Set it while there is one thread. */
void pst_log_set_sink(void (*sink)(uint32_t level, const char *area, const char *text));
void pst_log(uint32_t level, const char *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs each text once; after 256 different texts, no new one. */
void pst_log_once(uint32_t level, const char *area, const char *text);

#endif
