/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor on a two-rank program written by hand, with a fake device: numbers worked out on
 * paper, waits, clipping, non-finite steps, failures, memory.
 *
 * With w0 = w1 = 1, x = 1 2 3 4 and t = 2 0 3 6: b - t = -1 2 0 -2, loss = 9/4, db = (b - t) / 2,
 * dw1 = sum of db a = -2.5, dw0 = sum of db w1 x = -2.5, norm = sqrt(12.5).
 */
#include "unit/exec/fake.h"
#include "unit/exec/toy.h"
#include "unit/transport/support.h" /* last: cmocka has a macro called fail */

static const float data_x[4] = {1, 2, 3, 4}, data_t[4] = {2, 0, 3, 6};

static struct pst_batch make_batch(const float *x, const float *t)
{
    return (struct pst_batch){.inputs = {x, t}, .first_sample = 100};
}

static struct toy toy;
static struct pst_exec_config config;

static void prepare(bool tied)
{
    toy_init(&toy, tied);
    config = toy_config(&toy, &fake_device, load_threads());
    config.eval_plan = &toy.eval_plan;
    config.eval_programs = toy.eval_programs;
    config.seed = 7;
}

static const struct pst_update plain = {.optimizer = PST_SGD, .lr = 0.5f, .step = 1};

static struct pst_exec *make_exec(void)
{
    struct pst_exec *exec = NULL;
    struct pst_error err = {0};

    assert_ok(pst_exec_create(&config, &exec, &err), &err);
    return exec;
}

static struct pst_exec *start(bool tied)
{
    prepare(tied);
    return make_exec();
}

static struct pst_step_result must_step(struct pst_exec *exec, const float *x, const float *t,
                                        const struct pst_update *update)
{
    struct pst_batch batch = make_batch(x, t);
    struct pst_step_result result = {0};
    struct pst_error err = {0};

    assert_ok(pst_exec_step(exec, &batch, update, &result, &err), &err);
    return result;
}

static float parameter_of(struct pst_exec *exec, uint32_t index)
{
    float value = -77;

    assert_int_equal(pst_exec_get_parameter(exec, index, &value), PST_OK);
    return value;
}

/* Both ranks have used their arenas to the last byte. */
static void expect_peaks(struct pst_exec *exec)
{
    uint64_t peaks[2];

    assert_int_equal(pst_exec_measured_peaks(exec, peaks, NULL), PST_OK);
    assert_int_equal(peaks[0], toy.programs[0]->arena_bytes);
    assert_int_equal(peaks[1], toy.programs[1]->arena_bytes);
}

static void destroy(struct pst_exec *exec)
{
    pst_exec_destroy(exec);
    assert_int_equal(fake.n_open, 0);
    assert_int_equal(fake.n_kernels, 0);
    assert_int_equal(fake.n_foreign, 0);
}

static int reset(void **state)
{
    memset(&fake, 0, sizeof fake);
    return 0;
}

TEST_WITH(test_one_step, reset, NULL)
{
    struct pst_exec *exec;
    struct pst_step_result result;
    float grad;

    exec = start(false);
    /* Operator 0: F, W; 1: F, B, W; 2: F, B; shared by micro-batches, training and evaluation. */
    assert_int_equal(fake.n_compiled, 7);
    assert_int_equal(pst_exec_get_gradient(exec, 0, &grad), PST_ERR_BUG);
    result = must_step(exec, data_x, data_t, &plain);
    assert_true(result.loss == 2.25);
    assert_true(result.grad_norm == sqrt(12.5));
    assert_false(result.skipped);
    assert_int_equal(fake.first_samples, 100 + 102);
    assert_int_equal(fake.flags, PST_CALL_TRAINING);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pst_exec_get_gradient(exec, i, &grad), PST_OK);
        assert_true(grad == -2.5f);
        assert_true(parameter_of(exec, i) == 1.0f + 0.5f * 2.5f);
    }
    assert_int_equal(pst_exec_get_parameter(exec, 2, &grad), PST_ERR_BUG);
    assert_int_equal(fake.n_compiled, 7);
    destroy(exec);
}

TEST_WITH(test_clip, reset, NULL)
{
    struct pst_exec *exec;
    float expected = 1.0f - 0.5f * ((float)(0.5 / sqrt(12.5)) * -2.5f);

    prepare(false);
    config.clip = 0.5;
    exec = make_exec();
    assert_true(must_step(exec, data_x, data_t, &plain).grad_norm == sqrt(12.5));
    assert_true(parameter_of(exec, 0) == expected);
    assert_true(parameter_of(exec, 1) == expected);
    destroy(exec);
    config.clip = 4; /* above the norm: nothing changes */
    exec = make_exec();
    must_step(exec, data_x, data_t, &plain);
    assert_true(parameter_of(exec, 0) == 2.25f);
    destroy(exec);
}

/* Both operators use w0: its gradient is the sum of both, -5, on both ranks, counted once. */
TEST_WITH(test_tied, reset, NULL)
{
    struct pst_exec *exec;
    struct pst_step_result result;
    float grad;

    exec = start(true);
    result = must_step(exec, data_x, data_t, &plain);
    assert_true(result.loss == 2.25);
    assert_true(result.grad_norm == 5.0);
    assert_int_equal(pst_exec_get_gradient(exec, 0, &grad), PST_OK);
    assert_true(grad == -5.0f);
    assert_true(parameter_of(exec, 0) == 3.5f);
    /* w = 3.5 on both ranks: b = 12.25 x. */
    result = must_step(exec, (const float[]){1, 1, 1, 1}, (const float[]){12, 12, 12, 12}, &plain);
    assert_true(result.loss == 0.0625);
    destroy(exec);
}

TEST_WITH(test_weight_decay, reset, NULL)
{
    struct pst_exec *exec;
    struct pst_update update = plain;

    exec = start(false); /* w1 alone decays */
    update.weight_decay = 0.1f;
    update.lr = 0;
    update.optimizer = PST_ADAM;
    must_step(exec, data_x, data_t, &update);
    assert_true(parameter_of(exec, 1) == 1.0f);
    update.optimizer = PST_ADAMW;
    must_step(exec, data_x, data_t, &update);
    assert_true(parameter_of(exec, 0) == 1.0f);
    assert_true(parameter_of(exec, 1) == 1001.0f);
    destroy(exec);
}

/* Slow senders and fresh data in every step: who does not wait computes with old numbers. */
TEST_WITH(test_waits, reset, NULL)
{
    struct pst_exec *exec;
    struct pst_update still = plain;

    exec = start(false);
    still.lr = 0;
    fake.slow_us = 2000;
    for (uint32_t step = 0; step < 20; step++) {
        float x[4], t[4] = {0}, sum = 0;

        for (uint32_t i = 0; i < 4; i++) {
            x[i] = (float)(step * 4 + i);
            sum += x[i] * x[i];
        }
        assert_true(must_step(exec, x, t, &still).loss == sum / 4);
    }
    destroy(exec);
}

TEST_WITH(test_eval, reset, NULL)
{
    struct pst_exec *exec;
    struct pst_batch batch = make_batch(data_x, data_t);
    struct pst_error err = {0};
    float output[3] = {0};
    double loss;

    exec = start(false);
    assert_int_equal(pst_exec_eval(exec, &batch, &loss, output, 2, &err), PST_OK);
    assert_true(loss == 2.25);
    assert_true(output[0] == 3.0f && output[1] == 4.0f);
    assert_int_equal(fake.flags, 0);
    assert_int_equal(pst_exec_eval(exec, &batch, &loss, output, 3, &err), PST_ERR_BUG);
    assert_int_equal(pst_exec_eval(exec, &batch, &loss, NULL, 0, &err), PST_OK);
    assert_true(must_step(exec, data_x, data_t, &plain).loss == 2.25);
    destroy(exec);
}

TEST_WITH(test_non_finite, reset, NULL)
{
    const float bad_t[4] = {2, 0, 3, NAN}, big_x[4] = {0, 0, 0, 1e30f}, big_t[4] = {0, 0, 0, 0};
    struct pst_batch batch = make_batch(data_x, bad_t);
    struct pst_step_result result;
    struct pst_update update = plain;
    struct pst_error err = {0};
    struct pst_exec *exec;

    exec = start(false);
    update.step = 12;
    assert_int_equal(pst_exec_step(exec, &batch, &update, &result, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.non-finite");
    assert_non_null(strstr(err.message, "step 12: the loss is not finite"));
    assert_int_equal(pst_error_exit_code(&err), 1);
    assert_true(parameter_of(exec, 0) == 1.0f);
    assert_true(parameter_of(exec, 1) == 1.0f);
    /* The run is not broken by it. */
    assert_true(must_step(exec, data_x, data_t, &plain).loss == 2.25);
    destroy(exec);

    config.skip_non_finite = true;
    exec = make_exec();
    result = must_step(exec, big_x, big_t, &plain);
    assert_true(result.skipped);
    assert_true(parameter_of(exec, 0) == 1.0f);
    assert_false(must_step(exec, data_x, data_t, &plain).skipped);
    destroy(exec);
}

TEST_WITH(test_peaks, reset, NULL)
{
    struct pst_exec *exec;
    uint64_t peaks[2];

    exec = start(false);
    assert_int_equal(pst_exec_measured_peaks(exec, peaks, NULL), PST_OK);
    assert_true(peaks[0] == 4 + toy.lists[0].values[toy.lists[0].weight].offset);
    must_step(exec, data_x, data_t, &plain);
    expect_peaks(exec);
    destroy(exec);
}

/* A kernel need not fill its workspace; what it gets is used all the same. */
TEST_WITH(test_peak_with_workspace, reset, NULL)
{
    struct toy_list *list = &toy.lists[0];
    struct pst_program_call *call = &list->calls[1];
    struct pst_exec *exec;

    prepare(false);
    assert_int_equal(call->kind, PST_C_KERNEL);
    list->operands[call->first_operand + pst_operands_of(&toy.ops[0]).workspace] =
        toy_value(list, PST_V_WORKSPACE, 1000);
    exec = make_exec();
    must_step(exec, data_x, data_t, &plain);
    expect_peaks(exec);
    destroy(exec);
}

/* The highest buffer ends in -infinity, whose last byte is that of memory never written. */
TEST_WITH(test_peak_with_infinity, reset, NULL)
{
    const float endless[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    struct pst_exec *exec;

    prepare(false);
    config.skip_non_finite = true;
    exec = make_exec();
    assert_true(must_step(exec, endless, data_t, &plain).skipped);
    expect_peaks(exec);
    destroy(exec);
}

TEST_WITH(test_stall, reset, NULL)
{
    struct pst_batch batch = make_batch(data_x, data_t);
    struct pst_step_result result;
    struct pst_error err = {0}, again = {0};
    struct pst_exec *exec;
    uint64_t peaks[2];
    float value;

    prepare(false);
    config.stall_ns = 50000000;
    exec = make_exec();
    fake.stuck_ms = 400;
    assert_int_equal(pst_exec_step(exec, &batch, &plain, &result, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
    assert_non_null(strstr(err.message, "rank 0 has waited 0.05 s for rank 1 to "));
    assert_int_equal(pst_exec_step(exec, &batch, &plain, &result, &again), PST_ERR_CANCELLED);
    assert_non_null(strstr(again.message, "the run has already failed: run stalled"));
    assert_int_equal(pst_exec_get_parameter(exec, 0, &value), PST_ERR_CANCELLED);
    assert_int_equal(pst_exec_measured_peaks(exec, peaks, NULL), PST_OK);
    destroy(exec);
}

TEST_WITH(test_create_fails, reset, NULL)
{
    struct pst_exec *exec = NULL;
    struct pst_error err = {0};

    prepare(false);
    fake.fail_compile = 2;
    assert_int_equal(pst_exec_create(&config, &exec, &err), PST_ERR_DEVICE);
    assert_string_equal(err.message, "operator second, 2 samples: no such kernel");
    destroy(exec);
    fake.fail_compile = 0;
    fake.workspace_bytes = 64;
    assert_int_equal(pst_exec_create(&config, &exec, &err), PST_ERR_UNSUPPORTED);
    assert_string_equal(err.kind, "plan.mismatch");
    destroy(exec);
    fake.workspace_bytes = 0;
    toy.lists[1].values[toy.lists[1].grad].offset = toy.lists[1].program.arena_bytes;
    assert_int_equal(pst_exec_create(&config, &exec, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");
    destroy(exec);
    toy_init(&toy, false);
    toy.lists[1].section.n_instrs -= 2; /* without NORM */
    assert_int_equal(pst_exec_create(&config, &exec, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");
    destroy(exec);
}
