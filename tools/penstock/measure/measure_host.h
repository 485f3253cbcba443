/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host does for a step while its devices compute: the next batch is read, handed over, the
 * ranks are told and waited for. Where devices have all cores, it takes them from these.
 */
#ifndef PST_MEASURE_HOST_H
#define PST_MEASURE_HOST_H

#include "session/session.h"

struct pst_measured_host {
    double step_ns, sample_ns; /* of a processor: whatever the batch; for each of its samples */
    uint32_t devices;          /* that have all cores of this machine */
};

/* Of the job's data and batch, in processor time, so that a busy machine tells the same. Errors:
   those of pst_data_create, pst_data_read; machine.threads. */
pst_status pst_measure_host(const struct pst_session *session, struct pst_measured_host *ret_host,
                            struct pst_error *err);

#endif
