/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/cluster.h"

#include "base/saturate.h"
#include "base/util.h"

#define ROW(field, type, initial, range, doc)                                                      \
    PST_PARAM(struct pst_cluster, field, PST_PARAM_##type, initial, range, doc)

const struct pst_param pst_cluster_params[] = {
    ROW(devices, INT, "1", "1..65536", "Number of devices."),
    ROW(memory, BYTES, "0", NULL, "Memory of one device; 0: no limit."),
    ROW(reserve, BYTES, "0", NULL,
        "Part of that memory that plans leave free for libraries and other programs."),
    ROW(flops, FLOAT, "150e9", "1..", "Peak of one device in f32 operations per second."),
    ROW(bf16_flops, FLOAT, "300e9", "1..", "Peak of one device in bf16."),
    ROW(efficiency, FLOAT, "1", "0.001..1", "Part of that peak which operators reach."),
    ROW(memory_bandwidth, RATE, "12e9", "1..",
        "Bytes per second that a device reads from its memory."),
    ROW(launch_overhead, TIME, "2 us", NULL, "Time that each kernel costs besides its work."),
    ROW(host_overhead, TIME, "0", NULL,
        "Time in which the host issues the kernels of a pass of an operator. It runs ahead of the "
        "device: a pass of a stage takes the longer of what all its operators take here and "
        "there."),
    ROW(transfer_overhead, TIME, "0", NULL,
        "Time that the host takes to post a send or a receive, in which a device begins no pass."),
    ROW(step_overhead, TIME, "0", NULL,
        "Time that the host takes for the update of a stage's weights."),
    ROW(softmax_traffic, FLOAT, "0", "0..100",
        "How often a pass of attention moves the scores of all heads through memory; 0: never, in "
        "one kernel."),
    ROW(loss_traffic, FLOAT, "0", "0..100",
        "How often a pass of a loss moves its logits in f32 through memory; 0: never, in one "
        "kernel."),
    ROW(link_bandwidth, RATE, "8e9", "1..", "Bytes per second from one device to another."),
    ROW(link_latency, TIME, "5 us", NULL, "Time that each transfer costs besides its bytes."),
    ROW(node_size, INT, "0", "0..65536",
        "Devices per node, counted by rank; 0: all devices are in one node."),
    ROW(node_link_bandwidth, RATE, "1e9", "1..",
        "Bytes per second that leave a node, and that enter it; its devices share them."),
    ROW(node_link_latency, TIME, "20 us", NULL,
        "Time that a transfer to another node costs besides its bytes."),
    ROW(collective_bandwidth, RATE, "0", NULL,
        "Bytes per second of a node in sums and gathers between two nodes; 0: "
        "node_link_bandwidth."),
    ROW(collective_decay, FLOAT, "0", "0..2",
        "How these slow down: between n nodes to (n / 2) to the power of minus this."),
    ROW(host_bandwidth, RATE, "12e9", "1..", "Bytes per second to host memory, or from it."),
    ROW(link_directions, INT, "1", "1..2",
        "1: copies to and from host memory run concurrently; 2: both directions share the host "
        "link."),
    ROW(memory_factor, FLOAT, "0", "0..10",
        "Ratio of two peaks of memory: that of the framework described here, and that of penstock. "
        "plan prints what the framework would need; planners ignore it. 0: not known."),
    ROW(uncertainty, FLOAT, "0", "0..1",
        "Mean relative error of steps that this description predicts, by published measurements; "
        "0: "
        "not known."),
};

const uint32_t pst_cluster_n_params = sizeof pst_cluster_params / sizeof *pst_cluster_params;

uint64_t pst_cluster_capacity(const struct pst_cluster *cluster)
{
    if (cluster->memory == 0) {
        return UINT64_MAX;
    }
    return cluster->memory > cluster->reserve ? cluster->memory - cluster->reserve : 0;
}

uint64_t pst_cluster_capacity_of(const struct pst_cluster *cluster, uint32_t rank)
{
    return pst_sat_left(pst_cluster_capacity(cluster), pst_cluster_lacks(cluster, rank));
}

pst_status pst_cluster_check(const struct pst_cluster *cluster, struct pst_error *err)
{
    char memory[32], reserve[32];

    if (cluster->memory == 0 || cluster->reserve < cluster->memory) {
        return PST_OK;
    }
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "cluster.reserve = %s leaves nothing of cluster.memory = %s to a plan",
                    pst_format_bytes(reserve, cluster->reserve),
                    pst_format_bytes(memory, cluster->memory));
}
