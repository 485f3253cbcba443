/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster.h"

#define ROW(field, type, initial, range, doc)                                                      \
    PST_PARAM(struct pst_cluster, field, PST_PARAM_##type, initial, range, doc)

const struct pst_param pst_cluster_params[] = {
    ROW(devices, INT, "1", "1..65536", "Number of devices."),
    ROW(memory, BYTES, "0", NULL, "Memory of one device; 0: no limit."),
    ROW(flops, FLOAT, "150e9", "1..", "Peak of one device in f32 operations per second."),
    ROW(bf16_flops, FLOAT, "300e9", "1..", "The same in bf16."),
    ROW(memory_bandwidth, RATE, "12e9", "1..", "What one device reads from its memory per second."),
    ROW(launch_overhead, TIME, "2 us", NULL, "Time that each kernel costs besides its work."),
    ROW(link_bandwidth, RATE, "8e9", "1..", "What goes from one device to another per second."),
    ROW(link_latency, TIME, "5 us", NULL, "Time that each transfer costs besides its bytes."),
};

const uint32_t pst_cluster_n_params = sizeof pst_cluster_params / sizeof *pst_cluster_params;
