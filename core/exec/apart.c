/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices whose memory is not the host's, and which may return before their work has ended. A rank
 * joins its device behind every pass and update, so that whatever is posted, counted or recorded
 * behind one has ended, and a buffer that is handed to the transport is whole.
 */
#include "exec/internal.h"

static void copy(void *context, uint32_t rank, void *dst, const void *src, uint64_t bytes)
{
    const struct pst_exec *exec = context;

    exec->config.device->copy(exec->ranks[rank].device, dst, src, bytes);
}

/* A failure stays with the device: the next join tells it. */
static void add(void *context, uint32_t rank, float *dst, const float *src, uint64_t elems)
{
    const struct pst_exec *exec = context;

    exec->config.device->accumulate(exec->ranks[rank].device, dst, src, elems);
    exec->config.device->sync(exec->ranks[rank].device, NULL);
}

static void *stream(void *context, uint32_t rank, int *ret_ordinal)
{
    const struct pst_exec *exec = context;
    const struct pst_device_ops *device = exec->config.device;

    return device->stream == NULL ? NULL : device->stream(exec->ranks[rank].device, ret_ordinal);
}

static void upload(void *context, uint32_t rank, void *dst, const void *src, uint64_t bytes)
{
    const struct pst_exec *exec = context;

    exec->config.device->upload(exec->ranks[rank].device, dst, src, bytes);
}

static void download(void *context, uint32_t rank, void *dst, const void *src, uint64_t bytes)
{
    const struct pst_exec *exec = context;

    exec->config.device->download(exec->ranks[rank].device, dst, src, bytes);
}

struct pst_transport_memory exec_apart_memory(struct pst_exec *exec)
{
    return (struct pst_transport_memory){.context = exec,
                                         .copy = copy,
                                         .upload = upload,
                                         .download = download,
                                         .add = add,
                                         .stream = stream};
}

pst_status exec_apart_attach(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;

    if ((config->device->flags & PST_DEVICE_APART) == 0 || config->transport->attach == NULL) {
        return PST_OK;
    }
    return config->transport->attach(rank->exec->transport, rank->index, err);
}

pst_status exec_before_post(struct exec_rank *rank, struct pst_error *err)
{
    return rank->exec->config.transport->ordered ? PST_OK : exec_join(rank, err);
}

pst_status exec_join(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    pst_status status;

    if ((device->flags & PST_DEVICE_APART) == 0 || rank->device == NULL) {
        return PST_OK;
    }
    status = device->sync(rank->device, err);
    if (status != PST_OK) {
        pst_error_prefix(err, "rank %u", rank->index);
    }
    return status == PST_OK ? exec_check(rank, err) : status;
}
