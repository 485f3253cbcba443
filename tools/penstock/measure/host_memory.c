/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas are filled on creation, so memory that the host does not have would end the process in the
 * middle of it: better to say so first.
 */
#include "measure/host_memory.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "train/session.h"

uint64_t pst_host_available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    bool found = false;
    char line[256];

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found ? (uint64_t)kib * 1024 : UINT64_MAX;
}

pst_status pst_session_check_host(const struct pst_session *session, struct pst_error *err)
{
    uint64_t available = pst_host_available_bytes(), needed = 0, offloaded = 0;
    uint64_t limit = session->job->run.host_memory;
    char need[32], have[32];

    for (uint32_t rank = 0; rank < session->planned.plan->n_devices; rank++) {
        offloaded += pst_team_is_near(&session->team, rank)
                         ? session->planned.plan->devices[rank].host_bytes
                         : 0;
    }
    if (limit > 0 && offloaded > limit) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "the plan offloads %s to host memory, run.host_memory is %s",
                        pst_format_bytes(need, offloaded), pst_format_bytes(have, limit));
    }
    needed = offloaded;
    if (!pst_device_is_host(session->device_ops)) {
        return PST_OK;
    }
    for (uint32_t rank = 0; rank < session->planned.plan->n_devices; rank++) {
        needed += pst_team_is_near(&session->team, rank) ? pst_session_peak(session, rank) : 0;
    }
    if (needed <= available) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_NOMEM, "machine.memory",
             "the devices take %s together, this machine has %s left",
             pst_format_bytes(need, needed), pst_format_bytes(have, available));
    pst_error_hint(err, "use a smaller model or micro-batch, or a memory optimizer");
    return PST_ERR_NOMEM;
}
