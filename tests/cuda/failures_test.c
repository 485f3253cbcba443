/* SPDX-License-Identifier: Apache-2.0
 *
 * Every call of the CUDA runtime, of cuBLASLt and of the driver that can fail fails in turn, and
 * nothing is left behind. Failures of kernels and of memory.
 */
#include "cuda/module_rig.h"

/* Sums 16 numbers of the arena, as they are and out of a capture; copies some out between two
   timed marks. */
static pst_status use(struct pst_device *device, float *base, void *pinned, struct pst_mark *mark,
                      struct pst_replay **ret_replay, struct pst_error *err)
{
    const struct pst_changes changes = {0};
    pst_status status;

    ops->zero(device, base, 4096);
    ops->accumulate(device, base, base + 256, 16);
    if (ops->capture_begin(device)) {
        ops->accumulate(device, base, base + 256, 16);
    }
    status = ops->capture_end(device, ret_replay, err);
    if (status == PST_OK) {
        ops->replay(device, *ret_replay, &changes);
    }
    ops->mark(device, PST_QUEUE_COMPUTE, mark);
    ops->follow(device, PST_QUEUE_OUT, mark);
    ops->move(device, PST_QUEUE_OUT, pinned, base, 64);
    ops->mark(device, PST_QUEUE_OUT, mark);
    if (status == PST_OK) {
        status = ops->sync(device, err);
    }
    if (status == PST_OK && ops->wait(device, mark, 0)) {
        ops->mark_ns(device, mark);
        status = ops->sync(device, err);
    }
    return status;
}

static bool noted;

static void note(const char *text)
{
    noted = strstr(text, "is not tried: GPU 0 has no ") != NULL;
}

/* What a run does with a device before its first step, and with captures and marks in it; the calls
   that this took. */
static pst_status set_up(const struct pst_graph *graph, int *ret_calls, struct pst_error *err)
{
    struct pst_device_config config = rank_of(2, 1, 4);
    struct pst_device *device = NULL;
    struct pst_kernel *kernel = NULL;
    struct pst_replay *replay = NULL;
    struct pst_mark *mark;
    void *base, *pinned;
    pst_status status;

    noted = false;
    config.note = note;
    status = ops->open(&config, &device, err);
    if (status != PST_OK) {
        return status;
    }
    ops->enter(device);
    status = ops->arena(device, 4096, &base, err);
    status = status == PST_OK ? ops->pinned(device, 64, &pinned, err) : status;
    status = status == PST_OK ? ops->mark_create(device, true, &mark, err) : status;
    if (status == PST_OK) {
        status = ops->compile(device, graph, 0, PST_KERNEL_F, 2, &kernel, err);
    }
    status = status == PST_OK ? use(device, base, pinned, mark, &replay, err) : status;
    if (kernel != NULL) {
        kernel->destroy(kernel);
    }
    *ret_calls = atomic_load(&host->calls);
    ops->replay_destroy(device, replay);
    ops->close(device);
    return status;
}

/* The second rank of two GPUs, two ranks each, while another has the first part or has not. */
TEST_WITH(every_call_fails, reset, NULL)
{
    struct pst_graph *graph = make_model("mlp", "inputs=8 hidden=8 layers=2 classes=4", PST_F32);
    struct pst_device *other;
    struct pst_error err = {0};
    int n, calls;

    host->n_gpus = 2;
    assert_ok(set_up(graph, &n, &err), &err);
    assert_true(n > 20);
    nothing_is_left("a run");
    for (int i = 1; i <= n; i++) {
        char what[48];

        snprintf(what, sizeof what, "failure %d of %d", i, n);
        memset(&err, 0, sizeof err);
        atomic_store(&host->calls, 0);
        host->fail_at = i;
        if (set_up(graph, &calls, &err) == PST_OK && !noted) {
            fail_msg("%s is not told", what);
        }
        assert_true(noted || (err.message[0] != '\0' && err.kind[0] != '\0'));
        nothing_is_left(what);
    }
    host->fail_at = 0;
    other = open_rank(2, 0, 4); /* the GPU is split */
    atomic_store(&host->calls, 0);
    assert_ok(set_up(graph, &n, &err), &err);
    for (int i = 1; i <= n; i++) {
        atomic_store(&host->calls, 0);
        host->fail_at = i;
        assert_true(set_up(graph, &calls, &err) != PST_OK || noted);
        assert_int_equal(host->contexts, 1);
    }
    host->fail_at = 0;
    ops->close(other);
    nothing_is_left("failures beside another rank");
    pst_graph_destroy(graph);
}

TEST_WITH(out_of_memory, reset, NULL)
{
    struct pst_device *device = open_rank(2, 0, 2);
    struct pst_error err = {0};
    void *base = NULL;

    ops->enter(device);
    host->left_bytes = 1000;
    host->fail_at = atomic_load(&host->calls) + 1;
    refuses(ops->arena(device, 4096, &base, &err), &err,
            "the plan's 4096 bytes on GPU 0: cudaErrorMemoryAllocation");
    assert_non_null(strstr(err.message, "; the GPU has 1000 of its 85899345920 bytes left"));
    assert_null(base);
    assert_non_null(strstr(err.hint, "cluster.reserve"));
    memset(&err, 0, sizeof err); /* how much is left it does not say either */
    host->fail_at = atomic_load(&host->calls) + 1;
    host->fail_again = true;
    refuses(ops->arena(device, 4096, &base, &err), &err, "the plan's 4096 bytes on GPU 0");
    host->fail_again = false;
    assert_null(strstr(err.message, "left"));
    /* It is no failure of the device. */
    assert_ok(ops->sync(device, &err), &err);
    assert_ok(ops->arena(device, 4096, &base, &err), &err);
    ops->close(device);
    nothing_is_left("running out of memory");
}

/* Host memory that cannot be pinned says nothing of the GPU's, whoever asks for it. */
TEST_WITH(nothing_can_be_pinned, reset, NULL)
{
    const struct pst_device_config config = rank_of(2, 0, 2);
    struct pst_device *device = open_rank(2, 0, 2);
    struct pst_error err = {0};
    int n_found = 0, n;
    void *base;

    n = atomic_load(&host->calls);
    host->fail_at = n + 1;
    refuses(ops->pinned(device, 64, &base, &err), &err, "64 bytes of host memory cannot be pinned");
    ops->close(device);
    for (int i = 1; i <= n; i++) { /* one of the calls that open it */
        memset(&err, 0, sizeof err);
        atomic_store(&host->calls, 0);
        host->fail_at = i;
        if (ops->open(&config, &device, &err) == PST_OK) { /* that did no harm */
            ops->close(device);
        } else if (err.status == PST_ERR_NOMEM && strstr(err.message, "host memory") != NULL) {
            assert_null(strstr(err.message, "bytes left"));
            assert_int_equal(err.hint[0], '\0');
            n_found++;
        }
    }
    host->fail_at = 0;
    assert_int_equal(n_found, 1);
    nothing_is_left("memory that cannot be pinned");
}

/* The kernel is launched well and breaks later: every wait from then on names the operator. */
TEST_WITH(a_kernel_breaks, reset, NULL)
{
    struct pst_graph *graph = make_model("mlp", "inputs=8 hidden=8 layers=2 classes=4", PST_F32);
    struct pst_device *device = open_rank(2, 1, 2);
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    struct pst_mark *mark;
    char *base, words[256];
    void *operands[3];

    ops->enter(device);
    assert_ok(ops->arena(device, 1 << 16, (void **)&base, &err), &err);
    assert_ok(ops->mark_create(device, false, &mark, &err), &err);
    assert_ok(ops->compile(device, graph, 0, PST_KERNEL_F, 2, &kernel, &err), &err);
    assert_int_equal(host->product_sms, 64);
    ops->zero(device, base, 1 << 16);
    for (size_t i = 0; i < 3; i++) {
        operands[i] = base + i * 8192;
    }
    kernel->run(kernel, &(struct pst_call){.x = (void *const[]){operands[0]},
                                           .p = (void *const[]){operands[1], operands[1]},
                                           .y = (void *const[]){operands[2], operands[2]},
                                           .workspace = base + 32768,
                                           .flags = PST_CALL_TRAINING});
    assert_ok(ops->sync(device, &err), &err);
    host->break_after = atomic_load(&host->launches);
    ops->accumulate(device, (float *)base, (float *)base + 64, 8); /* one launch more */
    ops->mark(device, PST_QUEUE_COMPUTE, mark);
    assert_true(ops->wait(device, mark, 0));
    snprintf(words, sizeof words, "GPU 0 failed at %s or before it: cudaErrorIllegalAddress",
             graph->ops[0].name);
    for (int i = 0; i < 2; i++) {
        memset(&err, 0, sizeof err);
        assert_int_not_equal(ops->sync(device, &err), PST_OK);
        assert_non_null(strstr(err.message, words));
        assert_int_equal(pst_error_exit_code(&err), 1);
    }
    kernel->destroy(kernel);
    ops->close(device);
    nothing_is_left("a kernel that broke");
    pst_graph_destroy(graph);
}
