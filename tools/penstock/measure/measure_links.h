/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures what a transport takes between two ranks of this machine, and fits the line by which
 * [cluster] describes a link: latency + bytes / bandwidth.
 */
#ifndef PST_MEASURE_MEASURE_LINKS_H
#define PST_MEASURE_MEASURE_LINKS_H

#include "exec/transport.h"

#define PST_LINK_SIZES  8
#define PST_LINK_BURSTS 3

struct pst_link_sample {
    uint64_t bytes;
    double ns; /* one way: half of a message there and one back, the median of a burst's rounds;
                  the least of the bursts, for others may hold up a whole one */
};

struct pst_measured_link {
    struct pst_link_sample samples[PST_LINK_SIZES]; /* 1 KiB to 16 MiB, by fours */
    double latency_ns, bytes_per_s;                 /* of the fitted line */
    double worst_error;                             /* of the line, part of what was measured */
};

/* Devices with memory of their own (PST_DEVICE_APART), ranks 0 and 1: opened for the measurement.
 */
struct pst_link_devices {
    const struct pst_device_ops *ops;
    const struct pst_device_config *config; /* but for the index */
};

/* Measures the link between the memories of two devices; on NULL: of the host, with each end on a
   core of its own. Messages follow each other as in a step, and the host waits for several of them
   at once. rounds: messages of each size in a burst. Starts two threads. Errors: those of the
   transport and of the devices; machine.threads, PST_ERR_NOMEM. */
pst_status pst_measure_link(const struct pst_transport_ops *transport,
                            const struct pst_link_devices *on, uint32_t rounds,
                            struct pst_measured_link *ret_link, struct pst_error *err);

/* latency + bytes / bandwidth with the least sum of squared relative errors, latency from 0. */
void pst_fit_link(const struct pst_link_sample *samples, uint32_t n, double *ret_latency_ns,
                  double *ret_bytes_per_s);

#endif
