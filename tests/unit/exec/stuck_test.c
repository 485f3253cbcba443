/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that stands still for good: the run ends with what it waited for, and so does whoever
 * destroys the executor. Nothing is closed, for that would wait for the device.
 */
#include "unit/exec/real.h"

#include "exec/state.h"

#define MODULE PENSTOCK_PLUGIN_DIR "/tests/device-apart.so"

enum { CLASSES = 7, LIMIT_S = 30 };

static void stands(const struct layout *layout, const struct pst_exec_copy_config *copies)
{
    const struct pst_update update = {.optimizer = PST_SGD, .lr = 0.01f, .step = 1};
    struct pst_step_result result;
    struct pst_batch batch = {.first_sample = 0};
    struct pst_error err = {0};
    struct real real;
    char doing[192];

    offloading = (struct offloading){
        .seed = copies != NULL ? 6 : 0, .copies = copies, .stall_ns = 200000000};
    real_create(&real, "mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_F32, layout, 4 * SIZE,
                0, 0);
    real_data(&real, CLASSES);
    memcpy(batch.inputs, real.inputs, sizeof real.inputs);
    setenv("PENSTOCK_APART_STANDS", real.graph->ops[real.graph->n_ops - 1].name, 1);
    alarm(LIMIT_S);
    assert_int_equal(pst_exec_step(real.exec, &batch, &update, &result, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
    assert_non_null(strstr(err.message, "run stalled: rank "));
    /* Beside copies others wait as long, and the first of them tells. */
    assert_true(copies != NULL || strstr(err.message, "for its device apart") != NULL);
    assert_int_equal(pst_exec_step(real.exec, &batch, &update, &result, &err), PST_ERR_CANCELLED);
    real_destroy(&real);
    for (uint32_t r = 0; r < real.n_ranks; r++) { /* the lists are gone, the executor is not */
        snprintf(doing, sizeof doing, "?");
        exec_doing(real.exec, r, doing, sizeof doing);
        assert_string_equal(doing, "");
    }
    alarm(0);
    unsetenv("PENSTOCK_APART_STANDS");
    assert_true(pst_exec_is_stuck());
}

/* One that ends is closed, so that nothing is said of it; only then others. */
TEST(one_that_ends)
{
    const struct layout layout = {2, {0, 1}, ORDER_1F1B, false, {0}};
    struct real real;

    real_create(&real, "mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_F32, &layout, 4 * SIZE,
                0, 0);
    real_destroy(&real);
    assert_false(pst_exec_is_stuck());
}

TEST(alone)
{
    stands(&(struct layout){1, {0}, ORDER_GPIPE, false, {0}}, NULL);
}

/* The queues of the others wait for it. */
TEST(among_others)
{
    stands(&(struct layout){3, {0, 1, 2}, ORDER_1F1B, false, {0}}, NULL);
}

TEST(with_queues_that_copy)
{
    static const struct pst_exec_copy_config copies = {0};

    stands(&(struct layout){2, {0, 1}, ORDER_1F1B, false, {0}}, &copies);
}

TEST(with_copies_that_are_looked_at)
{
    static const struct pst_exec_copy_config copies = {.check = true};

    stands(&(struct layout){2, {0, 1}, ORDER_1F1B, false, {0}}, &copies);
}

int main(void)
{
    int failed;

    setenv("PENSTOCK_TEST_DEVICE", MODULE, 1);
    failed = run_own_tests(NULL, NULL);
    fflush(NULL);
    _exit(failed); /* as programs do with such a device */
}
