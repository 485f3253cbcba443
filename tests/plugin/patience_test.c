/* SPDX-License-Identifier: Apache-2.0
 *
 * A trial of a search that takes too long is given up: once it has had that much of the processor,
 * not before, whoever else uses the machine.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "tune/trial.h"
#include "base/machine.h"

#define PATIENCE_NS 50000000u

/* A job whose partitioner waits until it is told to stop. */
static void run_trial(struct pst_trial *ret_trial)
{
    const struct pst_trial_options options = {.patience_ns = PATIENCE_NS};
    struct pst_error err;
    const char *job =
        "{\"model\": {\"use\": \"mlp\"}, \"data\": {\"kind\": \"synthetic\"}, "
        "\"train\": {\"batch\": 8, \"microbatch\": 2}, \"cluster\": {\"devices\": 2}, "
        "\"run\": {\"device\": \"cpu\", \"transport\": \"threads\"}, "
        "\"partitioner\": {\"use\": \"doubter\", \"lie\": \"wait\"}, "
        "\"scheduler\": {\"use\": \"1f1b\"}, \"plugins\": {\"isolate\": \"never\"}}";

    assert_int_equal(setenv("PENSTOCK_PLUGIN_PATH", GALLERY, 1), 0);
    assert_ok(pst_trial_run(job, &options, ret_trial, &err), &err);
    assert_int_equal(unsetenv("PENSTOCK_PLUGIN_PATH"), 0);
}

TEST(test_a_slow_trial_is_given_up)
{
    const uint64_t begin_ns = pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct pst_trial trial;

    run_trial(&trial);
    assert_true(pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns >= PATIENCE_NS);
    assert_int_equal(trial.state, PST_TRIAL_MISMATCH);
    assert_string_equal(trial.why.message,
                        "planning takes longer than 50.0 ms, too long for a search");
    pst_trial_finish(&trial);
}
