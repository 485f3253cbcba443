/* SPDX-License-Identifier: Apache-2.0
 *
 * Several steps in flight, with and without NORM in the lists: the same bits as one step at a time,
 * ranks that run ahead, steps that are not finite.
 */
#include "unit/exec/fake.h"
#include "unit/exec/toy.h"
#include "unit/transport/support.h" /* last: cmocka has a macro called fail */

enum { STEPS = 12, FIRST = 100 };

struct samples {
    float x[4], t[4];
};

struct trace {
    struct pst_step_result results[STEPS];
    float weights[2];
};

static struct samples data[STEPS];

static int reset(void **state)
{
    memset(&fake, 0, sizeof fake);
    for (uint32_t i = 0; i < STEPS; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            data[i].x[k] = (float)((i * 7 + k * 3) % 11) / 9.0f;
            data[i].t[k] = (float)((i * 5 + k) % 7) / 3.0f;
        }
    }
    return 0;
}

static struct toy toy;

static struct pst_exec *start(bool tied, bool norm, bool skip)
{
    struct pst_exec_config config;
    struct pst_exec *exec = NULL;
    struct pst_error err = {0};

    toy_init(&toy, tied);
    if (!norm) {
        toy_drop_norm(&toy);
    }
    config = toy_config(&toy, &fake_device, load_threads());
    config.skip_non_finite = skip;
    assert_ok(pst_exec_create(&config, &exec, &err), &err);
    return exec;
}

static pst_status submit(struct pst_exec *exec, uint32_t step, struct pst_error *err)
{
    struct pst_batch batch = {.inputs = {data[step].x, data[step].t},
                              .first_sample = FIRST + 4 * step};
    struct pst_update update = {
        .optimizer = PST_SGD, .lr = 0.01f + 0.01f * (float)step, .step = step + 1};

    return pst_exec_submit(exec, &batch, &update, err);
}

static void must_submit(struct pst_exec *exec, uint32_t step)
{
    struct pst_error err = {0};

    assert_ok(submit(exec, step, &err), &err);
}

static struct pst_step_result must_collect(struct pst_exec *exec)
{
    struct pst_step_result result = {0};
    struct pst_error err = {0};

    assert_ok(pst_exec_collect(exec, &result, &err), &err);
    return result;
}

static float weight_of(struct pst_exec *exec, uint32_t index)
{
    float value = -77;

    assert_int_equal(pst_exec_get_parameter(exec, index, &value), PST_OK);
    return value;
}

static void destroy(struct pst_exec *exec)
{
    pst_exec_destroy(exec);
    assert_int_equal(fake.n_open, 0);
    assert_int_equal(fake.n_foreign, 0);
}

static struct trace train(bool tied, bool norm, uint32_t depth)
{
    struct pst_exec *exec;
    struct trace trace = {0};

    exec = start(tied, norm, false);
    for (uint32_t next = 0, done = 0; done < STEPS; done++) {
        while (next < STEPS && pst_exec_in_flight(exec) < depth) {
            must_submit(exec, next++);
        }
        trace.results[done] = must_collect(exec);
    }
    assert_int_equal(pst_exec_in_flight(exec), 0);
    for (uint32_t i = 0; i < (tied ? 1 : 2); i++) {
        trace.weights[i] = weight_of(exec, i);
    }
    destroy(exec);
    return trace;
}

static void compare(bool tied)
{
    struct trace first = train(tied, true, 1);

    assert_true(first.results[0].loss != first.results[STEPS - 1].loss);
    for (uint32_t depth = 1; depth <= PST_EXEC_IN_FLIGHT; depth++) {
        for (uint32_t norm = 0; norm < 2; norm++) {
            struct trace trace = train(tied, norm == 1, depth);

            for (uint32_t i = 0; i < STEPS; i++) {
                assert_true(trace.results[i].loss == first.results[i].loss);
                assert_true(trace.results[i].grad_norm == first.results[i].grad_norm);
            }
            assert_memory_equal(trace.weights, first.weights, sizeof first.weights);
        }
    }
}

TEST_WITH(test_same_bits, reset, NULL)
{
    compare(false);
    compare(true);
    fake.slow_us = 300;
    compare(false);
}

/* The update of rank 1 waits until rank 0 has begun the second step. */
TEST_WITH(test_runs_ahead, reset, NULL)
{
    for (uint32_t norm = 0; norm < 2; norm++) {
        struct pst_exec *exec;

        memset(&fake, 0, sizeof fake);
        exec = start(false, norm == 1, false);
        fake.hold_update = 2 * FIRST + 2 + FIRST + 4;
        must_submit(exec, 0);
        must_submit(exec, 1);
        must_collect(exec);
        must_collect(exec);
        assert_int_equal(fake.n_held_too_long, 0);
        destroy(exec);
    }
}

TEST_WITH(test_limits, reset, NULL)
{
    struct pst_step_result result;
    struct pst_error err = {0};
    struct pst_exec *exec;
    float value;

    exec = start(false, false, false);
    assert_int_equal(pst_exec_collect(exec, &result, &err), PST_ERR_BUG);
    for (uint32_t i = 0; i < PST_EXEC_IN_FLIGHT; i++) {
        must_submit(exec, i);
    }
    assert_int_equal(pst_exec_in_flight(exec), PST_EXEC_IN_FLIGHT);
    assert_int_equal(submit(exec, 4, &err), PST_ERR_BUG);
    assert_int_equal(pst_exec_get_parameter(exec, 0, &value), PST_ERR_BUG);
    must_collect(exec);
    must_submit(exec, 4);
    destroy(exec); /* with steps in flight */
}

/* Both stages see it; the one nearer to the loss is named. */
TEST_WITH(test_non_finite_gradient, reset, NULL)
{
    struct pst_step_result result;
    struct pst_error err = {0}, again = {0};
    struct pst_exec *exec;
    float value;

    exec = start(false, false, false);
    /* The loss is about 1e38, its slope 5e18; that times 1e25 is more than a float holds. */
    data[0] = (struct samples){.x = {0, 0, 1e25f, 0}, .t = {0, 0, 1e25f - 1e19f, 0}};
    must_submit(exec, 0);
    must_submit(exec, 1);
    must_submit(exec, 2);
    assert_int_equal(pst_exec_collect(exec, &result, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.non-finite");
    assert_string_equal(err.message, "step 1: the gradient of stage 1 is not finite (inf)");
    assert_int_equal(pst_error_exit_code(&err), 1);
    assert_int_equal(pst_exec_in_flight(exec), 0);
    assert_int_equal(submit(exec, 3, &again), PST_ERR_CANCELLED);
    assert_non_null(strstr(again.message, "the run has already failed: step 1"));
    assert_int_equal(pst_exec_get_parameter(exec, 0, &value), PST_ERR_CANCELLED);
    destroy(exec);
}

/* A loss that is not finite is named, not what follows from it. */
TEST_WITH(test_non_finite_loss, reset, NULL)
{
    struct pst_step_result result;
    struct pst_error err = {0};
    struct pst_exec *exec;

    exec = start(false, false, false);
    data[1].t[3] = NAN;
    must_submit(exec, 0);
    must_submit(exec, 1);
    must_submit(exec, 2);
    must_collect(exec);
    assert_int_equal(pst_exec_collect(exec, &result, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.message, "step 2: the loss is not finite (nan)");
    destroy(exec);
}

/* With NORM nobody updates, the steps behind are passed over, and the run can go on. */
TEST_WITH(test_passed_over, reset, NULL)
{
    struct pst_step_result result;
    struct pst_error err = {0};
    struct pst_exec *exec;
    double loss;

    loss = train(false, true, 1).results[1].loss;
    exec = start(false, true, false);
    must_submit(exec, 0);
    data[5].t[0] = NAN;
    must_submit(exec, 5);
    must_submit(exec, 2);
    must_submit(exec, 3);
    must_collect(exec);
    assert_int_equal(pst_exec_collect(exec, &result, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.message,
                        "step 6: the loss is not finite (nan); no parameter was updated");
    assert_int_equal(pst_exec_in_flight(exec), 0);
    must_submit(exec, 1);
    must_submit(exec, 2);
    assert_true(must_collect(exec).loss == loss);
    must_collect(exec);
    destroy(exec);
}

TEST_WITH(test_skip, reset, NULL)
{
    struct pst_exec *exec;
    double loss;

    loss = train(false, true, 1).results[1].loss;
    exec = start(false, true, true);
    data[5].t[0] = NAN;
    must_submit(exec, 0);
    must_submit(exec, 5);
    must_submit(exec, 1);
    assert_false(must_collect(exec).skipped);
    assert_true(must_collect(exec).skipped);
    assert_true(must_collect(exec).loss == loss);
    destroy(exec);
}

TEST_WITH(test_needs_norm, reset, NULL)
{
    struct pst_exec_config config;
    struct pst_exec *exec = NULL;
    struct pst_error err = {0};

    toy_init(&toy, false);
    toy_drop_norm(&toy);
    config = toy_config(&toy, &fake_device, load_threads());
    config.clip = 1;
    assert_int_equal(pst_exec_create(&config, &exec, &err), PST_ERR_BUG);
    config.clip = 0;
    config.skip_non_finite = true;
    assert_int_equal(pst_exec_create(&config, &exec, &err), PST_ERR_BUG);
    assert_null(exec);
}
