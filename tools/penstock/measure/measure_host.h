/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's work for a step while its devices compute: it reads the next batch, hands it over,
 * starts the ranks and waits for them. If devices use all cores, it takes this time from them.
 */
#ifndef PST_MEASURE_HOST_H
#define PST_MEASURE_HOST_H

#include "session/session.h"

struct pst_measured_host {
    double step_ns, sample_ns; /* of a processor: whatever the batch; for each of its samples */
    uint32_t devices;          /* that have all cores of this machine */
};

/* Measures this work for the job's data and batch, in processor time, which other load does not
   change. Errors: those of pst_data_create, pst_data_read; machine.threads. */
pst_status pst_measure_host(const struct pst_session *session, struct pst_measured_host *ret_host,
                            struct pst_error *err);

#endif
