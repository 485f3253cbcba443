/* SPDX-License-Identifier: Apache-2.0 */
#include "host/host_log.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"

static _Atomic uint64_t logged, dropped; /* bytes, since the plan was begun */

void pst_host_log_begin(void)
{
    atomic_store(&logged, 0);
    atomic_store(&dropped, 0);
}

void pst_host_log_end(void)
{
    uint64_t n = atomic_exchange(&dropped, 0);

    if (n > 0) {
        pst_log(PST_LOG_WARN, "plugin", "%" PRIu64 " bytes of what plugins logged are left out", n);
    }
}

void pst_host_log(const char *id, uint32_t level, const char *text)
{
    uint64_t n = strlen(text) + 1;

    if (level > pst_log_level()) {
        return;
    }
    if (atomic_fetch_add(&logged, n) + n > PST_HOST_LOG_BYTES) {
        atomic_fetch_add(&dropped, n);
    } else {
        pst_log(level, id, "%s", text);
    }
}
