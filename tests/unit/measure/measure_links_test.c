/* SPDX-License-Identifier: Apache-2.0
 *
 * A link as a line: the fit gives back what made the figures, and the transport's own threads can
 * be measured.
 */
#include "measure/measure_links.h"

#include "module.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

#include "base/machine.h"

static void make(struct pst_link_sample *samples, double latency_ns, double bytes_per_s)
{
    for (uint32_t i = 0; i < PST_LINK_SIZES; i++) {
        samples[i].bytes = (uint64_t)1024 << (2 * i);
        samples[i].ns = latency_ns + (double)samples[i].bytes / bytes_per_s * 1e9;
    }
}

TEST(test_a_line_is_found_again)
{
    struct pst_link_sample samples[PST_LINK_SIZES];
    double latency, bandwidth;

    make(samples, 5000, 8e9);
    pst_fit_link(samples, PST_LINK_SIZES, &latency, &bandwidth);
    assert_true(fabs(latency - 5000) < 1e-3);
    assert_true(fabs(bandwidth - 8e9) < 1);
}

/* A latency below zero is no latency: the line goes through the origin. */
TEST(test_latency_is_never_negative)
{
    struct pst_link_sample samples[PST_LINK_SIZES];
    double latency, bandwidth;

    make(samples, -50, 8e9);
    pst_fit_link(samples, PST_LINK_SIZES, &latency, &bandwidth);
    assert_true(latency == 0);
    assert_true(bandwidth > 8e9);
}

TEST(test_threads_can_be_measured)
{
    const struct pst_transport_ops *threads =
        load_transport(PENSTOCK_PLUGIN_DIR "/transport-threads.so");
    struct pst_measured_link link;
    struct pst_error err = {0};

    assert_ok(pst_measure_link(threads, NULL, 3, &link, &err), &err);
    for (uint32_t i = 0; i < PST_LINK_SIZES; i++) {
        assert_true(link.samples[i].ns > 0);
    }
    assert_true(link.bytes_per_s > 0 && link.latency_ns >= 0);
}

#define HELD_UP_NS 20000000
#define ROUNDS     5u
#define WAITS      (4 * (1 + ROUNDS)) /* for a size of a burst: there and back, at both ends */

static const struct pst_transport_ops *transport;
static atomic_uint n_waits;
static cpu_set_t cores[2];

/* Others have the cores while the first burst is at its shortest size. */
static pst_status wait_held_up(struct pst_transport *opened, uint32_t rank, pst_request request,
                               struct pst_error *err)
{
    const struct timespec time = {.tv_nsec = HELD_UP_NS};

    sched_getaffinity(0, sizeof cores[rank], &cores[rank]);
    if (atomic_fetch_add(&n_waits, 1) < WAITS) {
        nanosleep(&time, NULL);
    }
    return transport->wait(opened, rank, request, err);
}

TEST(test_a_machine_that_is_busy_for_a_moment_is_no_latency)
{
    struct pst_transport_ops ops = *load_transport(PENSTOCK_PLUGIN_DIR "/transport-threads.so");
    struct pst_measured_link link;
    struct pst_error err = {0};

    transport = load_transport(PENSTOCK_PLUGIN_DIR "/transport-threads.so");
    ops.wait = wait_held_up;
    assert_ok(pst_measure_link(&ops, NULL, ROUNDS, &link, &err), &err);
    assert_int_equal(atomic_load(&n_waits), PST_LINK_BURSTS * PST_LINK_SIZES * WAITS);
    assert_true(link.samples[0].ns < HELD_UP_NS);
    if (pst_usable_cores() > 1) {
        assert_true(CPU_COUNT(&cores[0]) == 1 && CPU_COUNT(&cores[1]) == 1);
        assert_false(CPU_EQUAL(&cores[0], &cores[1]));
    }
}

/* Between devices whose memory the host cannot touch. */
TEST(test_devices_can_be_measured)
{
    const struct pst_transport_ops *threads =
        load_transport(PENSTOCK_PLUGIN_DIR "/transport-threads.so");
    const struct pst_device_config config = {.threads = 1};
    const struct pst_link_devices on = {
        load_device_module(PENSTOCK_PLUGIN_DIR "/tests/device-apart.so"), &config};
    struct pst_measured_link link;
    struct pst_device *first = NULL;
    struct pst_error err = {0};

    /* as whoever measures has opened one: oneDNN sets itself up, which TSan does not follow */
    assert_ok(on.ops->open(&config, &first, &err), &err);
    on.ops->close(first);
    assert_ok(pst_measure_link(threads, &on, 3, &link, &err), &err);
    for (uint32_t i = 0; i < PST_LINK_SIZES; i++) {
        assert_true(link.samples[i].ns > 0);
    }
    assert_true(link.bytes_per_s > 0 && link.latency_ns >= 0);
}
