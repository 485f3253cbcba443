/* SPDX-License-Identifier: Apache-2.0
 *
 * A transport that does not let go of a device's memory: the step that was taken stands, and no
 * device is closed, nor the transport, for that might wait for ever. A transport that keeps one
 * rank's stands in front of another.
 */
#include <stdatomic.h>

#include "unit/transport/support.h"

static const struct pst_transport_ops *keeping(void);
#define load_threads keeping
#include "unit/exec/real.h"
#undef load_threads

#include "exec/state.h"

#define MODULE PENSTOCK_PLUGIN_DIR "/tests/device-apart.so"

enum { CLASSES = 7, NOBODY = 99 };

static const struct pst_transport_ops *threads;
static uint32_t keeps; /* whose memory is kept */
static atomic_uint n_asked, n_closed;

static bool detach(struct pst_transport *transport, uint32_t rank)
{
    atomic_fetch_add(&n_asked, 1);
    return (threads->detach == NULL || threads->detach(transport, rank)) && rank != keeps;
}

static void close_counted(struct pst_transport *transport)
{
    atomic_fetch_add(&n_closed, 1);
    threads->close(transport);
}

static const struct pst_transport_ops *keeping(void)
{
    static struct pst_transport_ops ops;

    threads = load_transport(PENSTOCK_PLUGIN_DIR "/transport-threads.so");
    ops = *threads;
    ops.detach = detach;
    ops.close = close_counted;
    return &ops;
}

static struct pst_exec *run(uint32_t whose, uint32_t n_ranks)
{
    const struct layout layout = {n_ranks, {0, 1, 2}, ORDER_1F1B, false, {0}};
    const struct pst_update update = {.optimizer = PST_SGD, .lr = 0.01f, .step = 1};
    struct pst_step_result result;
    struct pst_exec *exec;
    struct real real;

    keeps = whose;
    atomic_store(&n_asked, 0);
    atomic_store(&n_closed, 0);
    real_create(&real, "mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_F32, &layout, 4 * SIZE,
                0, 0);
    real_data(&real, CLASSES);
    result = real_step(&real, &update);
    assert_true(result.loss > 0);
    exec = real.exec;
    real_destroy(&real);
    assert_int_equal(atomic_load(&n_asked), n_ranks); /* also behind one that is kept */
    return exec;
}

TEST(test_lets_go)
{
    run(NOBODY, 3);
    assert_int_equal(atomic_load(&n_closed), 1);
    assert_false(pst_exec_is_stuck());
}

/* Also what moves memory that the host shares, which goes with the device. */
TEST(test_of_the_host)
{
    real_on_cpu = true;
    run(NOBODY, 3);
    real_on_cpu = false;
}

TEST(test_keeps)
{
    for (uint32_t rank = 0; rank < 3; rank++) {
        const struct pst_exec *exec = run(rank, 3);

        assert_int_equal(atomic_load(&n_closed), 0);
        assert_true(pst_exec_is_stuck());
        for (uint32_t r = 0; r < 3; r++) { /* what is left is still there */
            assert_non_null(exec->ranks[r].device);
        }
    }
}

int main(void)
{
    int failed;

    setenv("PENSTOCK_TEST_DEVICE", MODULE, 1);
    failed = run_own_tests(NULL, NULL);
    fflush(NULL);
    _exit(failed); /* as programs do with such a device */
}
