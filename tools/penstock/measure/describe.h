/* SPDX-License-Identifier: Apache-2.0
 *
 * This machine as a [cluster] section: what its devices and links reached in a measurement.
 */
#ifndef PST_MEASURE_DESCRIBE_H
#define PST_MEASURE_DESCRIBE_H

#include "measure/measure_links.h"
#include "measure/profile.h"

struct pst_described {
    double flops;            /* of products (linear, conv, attention) at the largest size, per s */
    double launch_ns;        /* the shortest F of an operator for one size */
    double memory_bandwidth; /* adding two large arrays into a third, bytes per s */
    double host_bandwidth;   /* copying to the device, bytes per s */
    struct pst_measured_link link; /* of one device with memory of its own: zeros */
};

/* The session must have a transport (pst_session_create). Errors: of device and transport. */
pst_status pst_describe(const struct pst_session *session, const struct pst_profiled *profile,
                        struct pst_described *ret_described, struct pst_error *err);

/* As a TOML file with this number of devices; free() it. */
char *pst_described_toml(const struct pst_described *described, const struct pst_session *session,
                         const struct pst_profiled *profile);

#endif
