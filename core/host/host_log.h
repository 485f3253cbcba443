/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins log while one plan is made: the first 64 KiB of it, then how much more there was.
 */
#ifndef PST_HOST_HOST_LOG_H
#define PST_HOST_HOST_LOG_H

#include <stdint.h>

#define PST_HOST_LOG_BYTES ((uint64_t)64 << 10)

/* Around the making of a plan. */
void pst_host_log_begin(void);
void pst_host_log_end(void);
/* `id` is the plugin's. [any thread] */
void pst_host_log(const char *id, uint32_t level, const char *text);

#endif
