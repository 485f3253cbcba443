/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/describe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "measure/watch.h"

#define LINK_ROUNDS 5u
#define COPY_ROUNDS 7u
#define COPY_BYTES  ((uint64_t)32 << 20) /* of each array: beyond most caches */

static bool is_product(uint32_t kind)
{
    return kind == PST_OP_LINEAR || kind == PST_OP_CONV2D || kind == PST_OP_ATTENTION ||
           kind == PST_OP_MATMUL;
}

static void describe_compute(const struct pst_session *session, const struct pst_profiled *profile,
                             struct pst_described *described)
{
    uint32_t last = profile->n_sizes - 1;
    double flops = 0, ns = 0;

    described->launch_ns = 0;
    for (uint32_t o = 0; o < profile->n_ops; o++) {
        const struct pst_measured *m = &profile->measured[last][o];
        double first = profile->measured[0][o].ns[0];

        if (pst_op_is_convert(session->graph->ops[o].kind)) {
            continue; /* by what [cluster] says */
        }
        if (described->launch_ns <= 0 || first < described->launch_ns) {
            described->launch_ns = first;
        }
        for (uint32_t pass = 0; pass < 3; pass++) {
            double work = 0, bytes = 0;

            pst_op_work(session->graph, o, pass, profile->sizes[last], &work, &bytes);
            if (is_product(session->graph->ops[o].kind) && m->ns[pass] > 0) {
                flops += work;
                ns += m->ns[pass];
            }
        }
    }
    described->flops = ns > 0 ? flops / ns * 1e9 : 0;
}

/* A device that stands apart may return before it has ended. */
static uint64_t lap_ns(const struct pst_device_ops *ops, struct pst_device *device,
                       struct pst_watch *watch)
{
    if (ops->sync != NULL) {
        ops->sync(device, NULL); /* a failure stays: whoever measures asks at the end */
    }
    return pst_watch_lap(watch);
}

/* Median nanoseconds of adding two arrays into a third, and of a copy from the host. */
static void time_copies(const struct pst_session *session, struct pst_device *device,
                        unsigned char *base, const void *host, double *ret_sum_ns,
                        double *ret_copy_ns)
{
    const struct pst_device_ops *ops = session->device_ops;
    struct pst_watch watch = pst_watch_of(ops, &session->device_config);
    uint64_t sums[COPY_ROUNDS], copies[COPY_ROUNDS];

    ops->zero(device, base, 3 * COPY_BYTES);
    for (uint32_t i = 0; i < COPY_ROUNDS; i++) {
        lap_ns(ops, device, &watch);
        ops->sum(device, base, base + COPY_BYTES, base + 2 * COPY_BYTES, COPY_BYTES / sizeof(float),
                 PST_F32);
        sums[i] = lap_ns(ops, device, &watch);
        ops->upload(device, base, host, COPY_BYTES);
        copies[i] = pst_watch_lap(&watch);
    }
    qsort(sums, COPY_ROUNDS, sizeof *sums, pst_by_number);
    qsort(copies, COPY_ROUNDS, sizeof *copies, pst_by_number);
    *ret_sum_ns = (double)sums[COPY_ROUNDS / 2];
    *ret_copy_ns = (double)copies[COPY_ROUNDS / 2];
}

static pst_status describe_memory(const struct pst_session *session,
                                  struct pst_described *described, struct pst_error *err)
{
    const struct pst_device_ops *ops = session->device_ops;
    struct pst_device *device = NULL;
    void *base = NULL, *host = pst_alloc(1, COPY_BYTES);
    double sum_ns = 0, copy_ns = 0;
    pst_status status = ops->open(&session->device_config, &device, err);

    if (status == PST_OK) {
        ops->enter(device);
        status = ops->arena(device, 3 * COPY_BYTES, &base, err);
    }
    if (status == PST_OK) {
        time_copies(session, device, base, host, &sum_ns, &copy_ns);
        status = ops->sync != NULL ? ops->sync(device, err) : PST_OK;
    }
    if (status == PST_OK) {
        described->memory_bandwidth = 3 * (double)COPY_BYTES / sum_ns * 1e9;
        described->host_bandwidth = (double)COPY_BYTES / copy_ns * 1e9;
    }
    if (device != NULL) {
        ops->close(device);
    }
    free(host);
    return status;
}

pst_status pst_describe(const struct pst_session *session, const struct pst_profiled *profile,
                        struct pst_described *ret_described, struct pst_error *err)
{
    const struct pst_link_devices on = {session->device_ops, &session->device_config};
    const bool apart = (session->device_ops->flags & PST_DEVICE_APART) != 0;
    struct pst_described described = {0};
    pst_status status;

    describe_compute(session, profile, &described);
    status = describe_memory(session, &described, err);
    if (status == PST_OK && (!apart || session->cluster.devices > 1)) {
        status = pst_measure_link(session->transport_ops, apart ? &on : NULL, LINK_ROUNDS,
                                  &described.link, err);
    }
    if (status == PST_OK) {
        *ret_described = described;
    }
    return status;
}

/* Three digits say what such measurements know. */
#define ROW(file, key, value, unit, comment)                                                       \
    fprintf(file, "%s = \"%.3g %s\"%s\n", key, value, unit, comment)

char *pst_described_toml(const struct pst_described *described, const struct pst_session *session,
                         const struct pst_profiled *profile)
{
    const struct pst_cluster *cluster = &session->cluster;
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);

    if (file == NULL) {
        pst_out_of_memory();
    }
    fprintf(file,
            "# Measured with %s.\n# %s.\n# Bring it into a config: include = \"this file\".\n\n"
            "[cluster]\ndevices = %lld\n",
            session->graph->name, profile->graph->notes, (long long)cluster->devices);
    if (cluster->memory != 0) {
        fprintf(file, "memory = %llu\n", (unsigned long long)cluster->memory);
    }
    if (cluster->reserve != 0) {
        fprintf(file, "reserve = %llu\n", (unsigned long long)cluster->reserve);
    }
    fprintf(file, "%s = %.3g  # that products reached\n",
            session->job->run.dtype == PST_RUN_BF16 ? "bf16_flops" : "flops", described->flops);
    ROW(file, "memory_bandwidth", described->memory_bandwidth / 1e9, "GB/s", "");
    ROW(file, "launch_overhead", described->launch_ns / 1e3, "us",
        "  # the shortest forward pass of an operator");
    if (described->link.bytes_per_s > 0) {
        ROW(file, "link_bandwidth", described->link.bytes_per_s / 1e9, "GB/s", "");
        ROW(file, "link_latency", described->link.latency_ns / 1e3, "us", "");
    }
    ROW(file, "host_bandwidth", described->host_bandwidth / 1e9, "GB/s", "");
    if (fclose(file) != 0) {
        pst_out_of_memory();
    }
    return text;
}
