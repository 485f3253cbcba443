/* SPDX-License-Identifier: Apache-2.0
 *
 * Rehearsals on emulated devices through the program: what it says where nothing is computed, its
 * scale, traces (also of runs that compute), signals, many devices. How well step times agree with
 * the simulator's is fidelity_test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
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

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The lines of a JSON output; the last one is returned, the others are counted and looked at. */
static json_t *read_lines(const char *text, uint32_t *ret_steps)
{
    json_t *last = NULL;

    *ret_steps = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        json_t *line = json_loadb(text, length, 0, NULL);

        assert_non_null(line);
        if (json_object_get(line, "step") != NULL) {
            ++*ret_steps;
            assert_int_equal(json_integer_value(json_object_get(line, "step")), *ret_steps);
            assert_true(json_is_null(json_object_get(line, "loss")));
            assert_true(json_is_null(json_object_get(line, "loss_hex")));
            assert_true(json_is_null(json_object_get(line, "grad_norm")));
            assert_true(json_real_value(json_object_get(line, "seconds")) > 0);
            assert_null(json_object_get(line, "skipped"));
        }
        json_decref(last);
        last = line;
        text += length + (text[length] == '\n');
    }
    assert_non_null(last);
    return last;
}

static void expect_equal_peaks(const json_t *done, size_t n_devices)
{
    const json_t *peaks = json_object_get(done, "peak_bytes");
    const json_t *predicted = json_object_get(done, "predicted_peak_bytes");

    assert_int_equal(json_array_size(peaks), n_devices);
    assert_int_equal(json_array_size(predicted), n_devices);
    for (size_t i = 0; i < n_devices; i++) {
        assert_true(json_integer_value(json_array_get(peaks, i)) > 0);
        assert_int_equal(json_integer_value(json_array_get(peaks, i)),
                         json_integer_value(json_array_get(predicted, i)));
    }
}

/* No data is read, nothing is evaluated or written, and there are no losses; everything else is
   there. Wall time is what it says: never less than scale times the step time. */
static void nothing_is_computed(void **state)
{
    const char *path = support_write("run.toml", model);
    double begin = seconds(), step;
    struct outcome outcome = penstock("train", path, "--json", "--set", "run.emulated_scale=25",
                                      "--set", "data={kind=\"text\",train=\"/nowhere\"}");
    json_t *done;
    uint32_t n;

    (void)state;
    begin = seconds() - begin;
    expect_code(&outcome, 0);
    done = read_lines(outcome.out, &n);
    assert_int_equal(n, 4);
    assert_true(json_is_true(json_object_get(done, "done")));
    assert_true(json_is_true(json_object_get(done, "emulated")));
    assert_true(json_number_value(json_object_get(done, "emulated_scale")) == 25);
    assert_true(json_is_null(json_object_get(done, "final_loss")));
    assert_true(json_is_null(json_object_get(done, "eval_loss")));
    assert_true(json_is_null(json_object_get(done, "sample")));
    assert_null(json_object_get(done, "signal"));
    step = json_number_value(json_object_get(done, "predicted_step_seconds"));
    assert_true(step > 0 && begin >= 3 * 25 * step); /* steps in flight overlap by less than one */
    expect_equal_peaks(done, 4);
    json_decref(done);
    outcome_finish(&outcome);
    outcome = penstock("train", path, "--set", "train.steps=2");
    expect_code(&outcome, 0);
    expect_text(outcome.out, "nothing was computed, so there is no loss");
    expect_text(outcome.err, "step 2/2");
    assert_null(strstr(outcome.err, "loss"));
    outcome_finish(&outcome);
}

/* 0: as slow as this machine needs, at 100 us for each instruction and core, and never faster than
   described. */
static void scale_of_its_own(void **state)
{
    const char *path = support_write("run.toml", model);
    const char *const slow[] = {"cluster.bf16_flops=20e12", "cluster.bf16_flops=5e9"};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct outcome outcome =
            penstock("train", path, "--json", "--set", "train.steps=1", "--set", slow[i], "--set",
                     "model.layers=4", "--set", "model.context=32", "--set", "train.batch=4");
        json_t *done;
        uint32_t n;
        double scale;

        expect_code(&outcome, 0);
        done = read_lines(outcome.out, &n);
        scale = json_number_value(json_object_get(done, "emulated_scale"));
        if (i == 0) {
            assert_true(scale >= 1 && scale <= 1000 && scale == floor(scale));
        } else {
            assert_true(scale == 1);
        }
        json_decref(done);
        outcome_finish(&outcome);
    }
    struct outcome outcome = penstock("train", path, "--set", "run.emulated_scale=-1");
    expect_code(&outcome, 2);
    expect_text(outcome.err, "emulated_scale");
    outcome_finish(&outcome);
}

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
static void a_run_is_its_prediction(void **state)
{
    static const char *const schedulers[] = {
        "scheduler={use=\"1f1b\"}",  "scheduler={use=\"gpipe\",reverse=true}",
        "scheduler={use=\"zb-h1\"}", "scheduler={use=\"interleaved\",chunks=2}",
        "scheduler={use=\"zbv\"}",   "scheduler={use=\"1f1b\"}",
        "scheduler={use=\"gpipe\"}", "scheduler={use=\"dualpipev\"}"};
    static const char *const memopts[] = {"memopt.use=none", "memopt.use=full"};
    const char *path = support_write("run.toml", model);

    (void)state;
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
static void guests_as_predicted(void **state)
{
    static const char *const schedulers[] = {
        "scheduler={use=\"1f1b\"}", "scheduler={use=\"gpipe\"}", "scheduler={use=\"zb-h1\"}"};
    const char *path;
    char text[sizeof model];

    (void)state;
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
static void shared_links_as_predicted(void **state)
{
    static const char sharing[] = "include = \"run.toml\"\n"
                                  "[train]\nsteps = 2\n"
                                  "[cluster]\nnode_size = 2\nnode_link_bandwidth = \"1 GB/s\"\n"
                                  "[scheduler]\nuse = \"interleaved\"\n";
    long long difference = INT64_MAX;
    uint32_t scale = 20;

    (void)state;
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
static void traces_of_real_runs(void **state)
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

    (void)state;
    trace_rig_same_instructions(&rig);
    trace_rig_finish(&rig);
    rig = traced(path, "scheduler={use=\"interleaved\"}", "memopt.use=full", "run.device=\"cpu\"");
    trace_rig_same_instructions(&rig);
    trace_rig_finish(&rig);
}

/* The steps in flight end, what was done is reported, 128 + signal comes back. */
/* Before the first step, not behind the last one. */
static void refuses_a_trace_that_cannot_be_written(void **state)
{
    struct outcome o;

    (void)state;
    support_write("job.toml", model);
    o = penstock("train", support_path("job.toml"), "--set", "output.trace=/no/such/folder/t.json");
    expect_code(&o, 2);
    assert_non_null(strstr(o.err, "/no/such/folder/t.json: cannot create a file there"));
    assert_string_equal(o.out, "");
    outcome_finish(&o);
}

static void stops_when_told(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};
    const char *path = support_write("run.toml", model);

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const char *args[] = {"train",
                              path,
                              "--json",
                              "--set",
                              "train.steps=1000000",
                              "--set",
                              "run.emulated_scale=20",
                              NULL};
        int ends[2], err = memfd_create("err", MFD_CLOEXEC);
        struct outcome outcome = {0};
        char text[1 << 16];
        size_t n = 0;
        ssize_t got;
        json_t *done;
        uint32_t steps;
        pid_t pid;

        assert_int_equal(pipe(ends), 0);
        fcntl(ends[0], F_SETFD, FD_CLOEXEC);
        pid = support_spawn(args, ends[1], err);
        close(ends[1]);
        while ((got = read(ends[0], text + n, sizeof text - 1 - n)) > 0) {
            if (n == 0) {
                kill(pid, signals[i]); /* with the first line */
            }
            n += (size_t)got;
        }
        text[n] = '\0';
        close(ends[0]);
        outcome.code = support_wait(pid);
        outcome.out = text;
        outcome.err = support_drain(err);
        expect_code(&outcome, 128 + signals[i]);
        done = read_lines(text, &steps);
        assert_true(steps >= 1 && steps < 100);
        assert_true(json_is_true(json_object_get(done, "done")));
        assert_int_equal(json_integer_value(json_object_get(done, "steps")), steps);
        assert_int_equal(json_integer_value(json_object_get(done, "signal")), signals[i]);
        expect_equal_peaks(done, 4);
        json_decref(done);
        free(outcome.err);
    }
}

/* 64 devices with more than a terabyte in use between them, on whatever this machine has. */
static void a_cluster_on_a_laptop(void **state)
{
    static const char cluster[] =
        "[model]\nuse = \"gpt\"\nlayers = 64\ndim = 12288\nheads = 96\ncontext = 128\n"
        "vocab = 50000\n"
        "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 1\noptimizer = \"adamw\"\n"
        "[cluster]\ndevices = 64\nmemory = \"160 GiB\"\nbf16_flops = 400e12\nflops = 60e12\n"
        "memory_bandwidth = \"3 TB/s\"\nlink_bandwidth = \"200 GB/s\"\nnode_size = 8\n"
        "node_link_bandwidth = \"100 GB/s\"\n"
        "[run]\ndevice = \"emulated\"\ndtype = \"bf16\"\n"
        "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n";
    struct outcome outcome =
        penstock("train", support_write("cluster.toml", cluster), "--json", "-q");
    json_t *done;
    uint64_t total = 0;
    uint32_t n;

    (void)state;
    expect_code(&outcome, 0);
    done = read_lines(outcome.out, &n);
    assert_int_equal(n, 2);
    expect_equal_peaks(done, 64);
    for (size_t i = 0; i < 64; i++) {
        total +=
            (uint64_t)json_integer_value(json_array_get(json_object_get(done, "peak_bytes"), i));
    }
    assert_true(total > (uint64_t)1 << 40); /* a terabyte */
    json_decref(done);
    outcome_finish(&outcome);
}

static void doctor_knows_it(void **state)
{
    struct outcome outcome = penstock("doctor");

    (void)state;
    expect_code(&outcome, 0);
    expect_text(outcome.out, "device-emulated    yes");
    outcome_finish(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_computed),
        cmocka_unit_test(scale_of_its_own),
        cmocka_unit_test(a_run_is_its_prediction),
        cmocka_unit_test(guests_as_predicted),
        cmocka_unit_test(shared_links_as_predicted),
        cmocka_unit_test(traces_of_real_runs),
        cmocka_unit_test(refuses_a_trace_that_cannot_be_written),
        cmocka_unit_test(stops_when_told),
        cmocka_unit_test(a_cluster_on_a_laptop),
        cmocka_unit_test(doctor_knows_it),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
