/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/measure_links.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define FIRST_BYTES 1024u
#define MOST_BYTES  (FIRST_BYTES << (2 * (PST_LINK_SIZES - 1)))
#define STALL_NS    60000000000u
/* Round trips on devices: a run does not wait for a device after each message, either. */
#define TRIPS 8u

struct end {
    const struct pst_transport_ops *ops;
    struct pst_transport *transport;
    const struct pst_link_devices *on; /* NULL: the host's memory */
    struct pst_device **device;        /* its own */
    uint32_t rank, rounds;
    void *data;
    double *ns; /* [rounds]; rank 0 */
    struct pst_measured_link *link;
    bool closes; /* the device may be closed */
    pst_status status;
    struct pst_error err;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One message out and one back; the other end answers. */
static pst_status round_trip(struct end *end, uint64_t bytes, uint64_t tag)
{
    uint32_t other = 1 - end->rank;
    pst_request request;
    pst_status status = PST_OK;

    for (uint32_t half = 0; half < 2 && status == PST_OK; half++) {
        status = end->ops->post(end->transport, end->rank, other, half == end->rank, tag + half,
                                end->data, bytes, &request);
        PST_TRY(status, end->ops->wait(end->transport, end->rank, request, &end->err));
    }
    return status;
}

/* The error that ends the other thread's wait. */
static const struct pst_error ended = {
    .status = PST_ERR_CANCELLED, .kind = "run.aborted", .message = "measuring ended"};

/* Some round trips: nanoseconds of a message. */
static pst_status trips(struct end *end, uint64_t bytes, uint64_t *tag, double *ret_ns)
{
    const uint32_t n = end->on != NULL ? TRIPS : 1;
    uint64_t start = pst_now_ns();
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < n && status == PST_OK; i++, *tag += 2) {
        status = round_trip(end, bytes, *tag);
    }
    if (status == PST_OK && end->on != NULL) {
        status = end->on->ops->sync(*end->device, &end->err);
    }
    *ret_ns = (double)(pst_now_ns() - start) / (2.0 * n);
    return status;
}

/* On the thread of the device, as the executor does it. */
static pst_status set_up(struct end *end)
{
    struct pst_device_config config;
    pst_status status;

    if (end->on == NULL) {
        return PST_OK;
    }
    config = *end->on->config;
    config.index = end->rank;
    status = end->on->ops->open(&config, end->device, &end->err);
    if (status == PST_OK) {
        end->on->ops->enter(*end->device);
        status = end->on->ops->arena(*end->device, MOST_BYTES, &end->data, &end->err);
    }
    if (status == PST_OK && end->ops->attach != NULL) {
        status = end->ops->attach(end->transport, end->rank, &end->err);
    }
    return status;
}

/* Returns true if the end's device may be closed once the other end has been here, too. */
static bool let_go(struct end *end)
{
    if (*end->device != NULL) {
        end->on->ops->sync(*end->device, NULL);
    }
    return end->ops->detach == NULL || end->ops->detach(end->transport, end->rank);
}

/* Takes a core that the other end does not use: beside others, both may end up on one. */
static void take_core(uint32_t rank)
{
    cpu_set_t usable, own;

    CPU_ZERO(&own);
    for (uint32_t i = 0, n = 0;
         sched_getaffinity(0, sizeof usable, &usable) == 0 && i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &usable) && n++ == rank) {
            CPU_SET(i, &own);
            sched_setaffinity(0, sizeof own, &own);
            return;
        }
    }
}

/* All sizes, one after the other: what others hold up for a moment is all rounds of one. */
static void run_burst(struct end *end, bool first, uint64_t *tag)
{
    uint64_t bytes = FIRST_BYTES;
    double warm;

    for (uint32_t size = 0; size < PST_LINK_SIZES && end->status == PST_OK; size++, bytes *= 4) {
        end->status = trips(end, bytes, tag, &warm);
        for (uint32_t i = 0; i < end->rounds && end->status == PST_OK; i++) {
            end->status = trips(end, bytes, tag, &end->ns[i]);
        }
        if (end->rank == 0) {
            struct pst_link_sample *sample = &end->link->samples[size];
            const double *median = &end->ns[end->rounds / 2];

            qsort(end->ns, end->rounds, sizeof *end->ns, by_value);
            *sample = (struct pst_link_sample){bytes, first || *median < sample->ns ? *median
                                                                                    : sample->ns};
        }
    }
}

static void *run_end(void *argument)
{
    struct end *end = argument;
    uint64_t tag = 0;

    end->status = set_up(end);
    if (end->on == NULL) {
        take_core(end->rank);
    }
    for (uint32_t burst = 0; burst < PST_LINK_BURSTS; burst++) {
        run_burst(end, burst == 0, &tag);
    }
    if (end->status != PST_OK) {
        end->ops->abort(end->transport, end->rank, &ended);
    }
    end->closes = end->on != NULL && let_go(end);
    return NULL;
}

void pst_fit_link(const struct pst_link_sample *samples, uint32_t n, double *ret_latency_ns,
                  double *ret_bytes_per_s)
{
    double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0, slope, latency;

    for (uint32_t i = 0; i < n; i++) {
        double x = (double)samples[i].bytes, y = samples[i].ns, weight = 1 / (y * y);

        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    latency = (wy - slope * wx) / w;
    if (latency < 0) {
        latency = 0;
        slope = wxy / wxx;
    }
    *ret_latency_ns = latency;
    *ret_bytes_per_s = slope > 0 ? 1e9 / slope : 0;
}

static void judge(struct pst_measured_link *link)
{
    pst_fit_link(link->samples, PST_LINK_SIZES, &link->latency_ns, &link->bytes_per_s);
    link->worst_error = 0;
    for (uint32_t i = 0; i < PST_LINK_SIZES; i++) {
        double said = link->latency_ns + (double)link->samples[i].bytes / link->bytes_per_s * 1e9;
        double error = said / link->samples[i].ns - 1;

        error = error < 0 ? -error : error;
        link->worst_error = error > link->worst_error ? error : link->worst_error;
    }
}

/* Reports the error of the end that failed by itself; the other end may have been aborted. */
static pst_status cause_of(const struct end ends[2], struct pst_error *err)
{
    const bool pulled = ends[0].status == PST_OK || ends[0].err.kind[0] == '\0' ||
                        strcmp(ends[0].err.kind, ended.kind) == 0;
    const struct end *end = &ends[pulled && ends[1].status != PST_OK];

    if (end->status != PST_OK && err != NULL) {
        *err = end->err;
    }
    return end->status;
}

static pst_status run_both(struct end ends[2], struct pst_error *err)
{
    pthread_t threads[2];
    uint32_t started = 0;

    while (started < 2 && pthread_create(&threads[started], NULL, run_end, &ends[started]) == 0) {
        started++;
    }
    if (started == 1) {
        ends[0].ops->abort(ends[0].transport, 1, &ended);
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    if (started < 2) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.threads", "no thread could be started");
    }
    return cause_of(ends, err);
}

static void *region(void *context, uint32_t rank, uint64_t *ret_bytes)
{
    const struct end *ends = context;

    *ret_bytes = MOST_BYTES;
    return ends[rank].data;
}

static struct pst_transport_needs needs(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return (struct pst_transport_needs){.transfers = 2, .transfer_bytes = MOST_BYTES};
}

/* The transport and what is between it and the devices, if they have memory of their own. */
static pst_status open_between(struct end ends[2], struct pst_device *devices[2],
                               const struct pst_link_devices *on,
                               struct pst_transport **ret_transport, struct pst_error *err)
{
    const struct pst_transport_memory memory = {.context = ends, .region = region, .needs = needs};
    const struct pst_transport_config config = {.n_ranks = 2,
                                                .max_requests = 2,
                                                .stall_ns = STALL_NS,
                                                .device = on != NULL ? on->ops : NULL,
                                                .devices = devices,
                                                .memory = on != NULL ? &memory : NULL};

    return ends[0].ops->open(&config, ret_transport, err);
}

static void close_all(const struct end ends[2], struct pst_transport *transport)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (*ends[i].device != NULL && ends[0].closes && ends[1].closes) {
            ends[i].on->ops->enter(*ends[i].device);
            ends[i].on->ops->close(*ends[i].device);
        }
    }
    ends[0].ops->close(transport);
}

pst_status pst_measure_link(const struct pst_transport_ops *transport,
                            const struct pst_link_devices *on, uint32_t rounds,
                            struct pst_measured_link *ret_link, struct pst_error *err)
{
    struct pst_measured_link link;
    struct pst_transport *opened = NULL;
    struct pst_device *devices[2] = {NULL, NULL};
    struct end ends[2];
    char *data = on == NULL ? pst_alloc(2, MOST_BYTES) : NULL;
    double *ns = pst_alloc((size_t)2 * rounds, sizeof *ns);
    pst_status status;

    for (uint32_t i = 0; i < 2; i++) {
        ends[i] = (struct end){.ops = transport,
                               .on = on,
                               .device = &devices[i],
                               .rank = i,
                               .rounds = rounds,
                               .data = on == NULL ? data + i * (size_t)MOST_BYTES : NULL,
                               .ns = ns + (size_t)i * rounds,
                               .link = &link};
    }
    status = open_between(ends, devices, on, &opened, err);
    if (status == PST_OK) {
        ends[0].transport = ends[1].transport = opened;
        status = run_both(ends, err);
        close_all(ends, opened);
    }
    if (status == PST_OK) {
        judge(&link);
        *ret_link = link;
    }
    free(data);
    free(ns);
    return status;
}
