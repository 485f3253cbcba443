/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that keep a clock. The executor carries times between them and the transport; whether
 * this machine is late changes none of them.
 */
#include "exec/internal.h"

/* A message is all the tensors of an edge: one latency, however many pieces. */
static struct pst_transfer_time transfer(void *context, uint32_t from, uint32_t to, uint64_t tag,
                                         uint64_t bytes)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_links *links = exec->config.links;
    struct pst_transfer_time time = {.ns = links->transfer_ns(links->context, bytes, from, to),
                                     .follows = exec_tag_part(tag) > 0};

    if (time.follows) {
        time.ns -= links->transfer_ns(links->context, 0, from, to);
    }
    return time;
}

static uint64_t collective_ns(void *context, uint64_t bytes, const uint32_t *ranks,
                              uint32_t n_ranks)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_links *links = exec->config.links;

    return links->collective_ns(links->context, bytes, ranks, n_ranks);
}

static uint32_t node(void *context, uint32_t rank)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_links *links = exec->config.links;

    return links->node(links->context, rank);
}

struct pst_transport_times exec_clock_times(struct pst_exec *exec)
{
    return (struct pst_transport_times){
        .context = exec,
        .transfer = transfer,
        .collective_ns = collective_ns,
        .node = node,
    };
}

void exec_clock_begin(struct exec_rank *rank, const struct exec_task *task)
{
    const struct pst_device_ops *device = rank->exec->config.device;

    if (device->advance != NULL && (task->command == EXEC_STEP || task->command == EXEC_EVAL)) {
        device->advance(rank->device, task->posted_ns);
    }
}

void exec_clock_finish(struct exec_rank *rank)
{
    if (rank->exec->config.device->finish != NULL) {
        rank->exec->config.device->finish(rank->device);
    }
}

void exec_clock_touch(struct exec_rank *rank, const void *data, uint64_t bytes)
{
    if (rank->exec->config.device->touch != NULL) {
        rank->exec->config.device->touch(rank->device, data, bytes);
    }
}
