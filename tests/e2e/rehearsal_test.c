/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of rehearsals on emulated devices, and of runs that compute, through the program. What
 * else is said of rehearsals is rehearsal_output_test.txt, how well step times agree with the
 * simulator's fidelity_test.
 */
#include "test.h"

#include <jansson.h>

#include "support.h"
#include "trace_rig.h"

static const char model[] = "[model]\nuse = \"gpt\"\nlayers = 8\ndim = 256\nheads = 4\n"
                            "context = 128\nvocab = 2000\n"
                            "[train]\nsteps = 4\nbatch = 8\nmicrobatch = 1\noptimizer = \"adamw\"\n"
                            "[cluster]\nflops = 5e12\nbf16_flops = 20e12\n"
                            "memory_bandwidth = \"600 GB/s\"\nlaunch_overhead = \"5 us\"\n"
                            "link_bandwidth = \"3 GB/s\"\nlink_latency = \"15 us\"\n"
                            "devices = 4\nmemory = \"8 GiB\"\n"
                            "[run]\ndevice = \"emulated\"\ndtype = \"bf16\"\n"
                            "[partitioner]\nuse = \"chain-dp\"\n"
                            "[scheduler]\nuse = \"1f1b\"\n";

static struct trace_rig traced(const char *path, const char *scheduler, const char *memopt,
                               const char *more)
{
    const char *trace = support_path("trace.json");
    char set[200];

    snprintf(set, sizeof set, "output={trace=\"%s\",trace_steps=2}", trace);
    struct outcome outcome = penstock("train", path, "-q", "--set", set, "--set", scheduler,
                                      "--set", memopt, "--set", more);
    struct trace_rig rig;

    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    rig = trace_rig_load(trace);
    assert_int_equal(rig.n_steps, 2);
    assert_true(rig.n_waits > 0 && rig.n_arrows > 0 && rig.n_counters > 0);
    trace_rig_ordered(&rig);
    return rig;
}

/*
 * Emulated devices keep clocks that know nothing of how late this machine is, so the trace of a run
 * is the prediction: the executor posted, matched and waited as the simulator says. A microsecond
 * is for updates, which the simulator rounds once for a stage and the device once for a parameter.
 */
TEST(a_run_is_its_prediction)
{
    static const char *const schedulers[] = {
        "scheduler={use=\"1f1b\"}",  "scheduler={use=\"gpipe\",reverse=true}",
        "scheduler={use=\"zb-h1\"}", "scheduler={use=\"interleaved\",chunks=2}",
        "scheduler={use=\"zbv\"}",   "scheduler={use=\"1f1b\"}",
        "scheduler={use=\"gpipe\"}", "scheduler={use=\"dualpipev\"}"};
    static const char *const memopts[] = {"memopt.use=none", "memopt.use=full"};
    const char *path = support_write("run.toml", model);

    for (uint32_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++) {
        struct trace_rig rig = traced(path, schedulers[i], memopts[i % 2], "run.emulated_scale=10");
        long long difference;

        trace_rig_same_instructions(&rig);
        difference = trace_rig_difference(&rig);
        if (difference > 1000) {
            fail_msg("%s: %lld ns from the prediction", schedulers[i], difference);
        }
        trace_rig_finish(&rig);
    }
}

/* A guest is one message, of however many tensors: one latency. */
TEST(guests_as_predicted)
{
    static const char *const schedulers[] = {
        "scheduler={use=\"1f1b\"}", "scheduler={use=\"gpipe\"}", "scheduler={use=\"zb-h1\"}"};
    const char *path;
    char text[sizeof model];

    memcpy(text, model, sizeof model);
    memcpy(strstr(text, "chain-dp\""), "uniform\" ", strlen("uniform\" ")); /* guests cost steps */
    path = support_write("run.toml", text);
    for (uint32_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++) {
        struct trace_rig rig = traced(path, schedulers[i], "memopt={use=\"bpipe\",when=\"always\"}",
                                      "run.emulated_scale=10");
        long long difference;
        uint32_t n_guests = 0;

        for (size_t k = 0; k < rig.n; k++) {
            n_guests += strstr(rig.slices[k].name, "evict") != NULL ||
                        strstr(rig.slices[k].name, "guest") != NULL;
        }
        assert_true(n_guests > 0);
        trace_rig_same_instructions(&rig);
        difference = trace_rig_difference(&rig);
        if (difference > 1000) {
            fail_msg("%s: %lld ns from the prediction", schedulers[i], difference);
        }
        trace_rig_finish(&rig);
    }
}

/*
 * Also where devices of a node share a link and the order of requests decides. From rest, as the
 * simulator begins. A machine that wakes a thread later than half a transfer takes may serve
 * another request first: so again, more slowly, where it is busy.
 */
TEST(shared_links_as_predicted)
{
    static const char sharing[] = "include = \"run.toml\"\n"
                                  "[train]\nsteps = 2\n"
                                  "[cluster]\nnode_size = 2\nnode_link_bandwidth = \"1 GB/s\"\n"
                                  "[scheduler]\nuse = \"interleaved\"\n";
    long long difference = INT64_MAX;
    uint32_t scale = 20;

    support_write("run.toml", model);
    for (uint32_t try = 0; try < 5 && difference > 1000; try++) {
        const char *path = support_write("sharing.toml", sharing);
        char set[64];
        struct trace_rig rig;

        snprintf(set, sizeof set, "run.emulated_scale=%u", scale);
        rig = traced(path, "scheduler.chunks=2", "memopt.use=none", set);
        trace_rig_same_instructions(&rig);
        difference = trace_rig_difference(&rig);
        trace_rig_finish(&rig);
        scale *= 2;
    }
    if (difference > 1000) {
        fail_msg("%lld ns from the prediction", difference);
    }
}

/* A run that computes: real times, so only their order is known. */
TEST(traces_of_real_runs)
{
    static const char small[] =
        "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 16\nheads = 2\ncontext = 12\n"
        "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"
        "[train]\nsteps = 5\nbatch = 8\nmicrobatch = 2\neval_batches = 0\nsample = 0\n"
        "[cluster]\ndevices = 2\n[partitioner]\nuse = \"chain-dp\"\n"
        "[scheduler]\nuse = \"1f1b\"\n";
    const char *path = support_write("small.toml", small);
    struct trace_rig rig =
        traced(path, "scheduler={use=\"zb-h1\"}", "memopt.use=none", "run.device=\"cpu\"");

    trace_rig_same_instructions(&rig);
    trace_rig_finish(&rig);
    rig = traced(path, "scheduler={use=\"interleaved\"}", "memopt.use=full", "run.device=\"cpu\"");
    trace_rig_same_instructions(&rig);
    trace_rig_finish(&rig);
}

TEST_GROUP(support_begin, support_end)
