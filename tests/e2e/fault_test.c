/* SPDX-License-Identifier: Apache-2.0
 *
 * PENSTOCK_FAULT: what was asked for happens where it was asked for, the program ends as it should
 * or goes on with the same bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "support.h"

static const char mlp[] = "[model]\nuse = \"mlp\"\nlayers = 3\n[data]\nkind = \"synthetic\"\n"
                          "[train]\nsteps = 3\nbatch = 16\nmicrobatch = 4\neval_batches = 0\n"
                          "[cluster]\ndevices = 3\n[partitioner]\nuse = \"uniform\"\n"
                          "[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"none\"\n";

static struct outcome train(const char *fault, const char *set)
{
    const char *args[] = {"train", support_write("fault.toml", mlp), "--json", "--set", set, NULL};
    struct outcome outcome;

    setenv("PENSTOCK_FAULT", fault, 1);
    outcome = support_run(args);
    unsetenv("PENSTOCK_FAULT");
    return outcome;
}

static void expect(const char *fault, const char *set, int code, const char *word)
{
    struct outcome outcome = train(fault, set);

    if (outcome.code != code ||
        (strstr(outcome.out, word) == NULL && strstr(outcome.err, word) == NULL)) {
        fail_msg("%s: code %d, %s%s", fault, outcome.code, outcome.out, outcome.err);
    }
    outcome_finish(&outcome);
}

/* The others are pulled out of their waits; the message names the one that failed. */
static void failures_end_the_run(void **state)
{
    (void)state;
    expect("rank=1/pass:5", "train.steps=3", 1, "rank 1: PENSTOCK_FAULT at pass");
    expect("rank=2/recv:2:fail", "train.steps=3", 1, "rank 2: PENSTOCK_FAULT at recv");
    expect("rank=0/update:3", "train.steps=3", 1, "rank 0: PENSTOCK_FAULT at update");
    expect("rank=2/arena", "train.steps=3", 4, "rank 2: PENSTOCK_FAULT at its arena");
    expect("rank=1/instr:7:exit:7", "train.steps=3", 7, "");
    expect("rank=1/instr:7:kill", "train.steps=3", 128 + 9, "");
}

static void a_long_delay_is_a_stall(void **state)
{
    (void)state;
    expect("rank=1/pass:9:delay:4000", "run.stall_limit=\"300 ms\"", 1, "run.stalled");
}

/* All that is "loss_hex": "..." in the answer. */
static void losses_of(struct outcome *outcome, char *ret_text, size_t size)
{
    size_t n = 0;

    for (const char *at = outcome->out; (at = strstr(at, "\"loss_hex\"")) != NULL; at++) {
        n += (size_t)snprintf(ret_text + n, size - n, "%.40s\n", at);
        assert_true(n < size);
    }
    assert_true(n > 0);
}

/* Whoever is late: the numbers are the same. */
static void short_delays_change_nothing(void **state)
{
    static const char *const faults[] = {"rank=0/instr:3+:delay:2", "rank=2/pass:*:delay:3",
                                         "send:2:delay:20,rank=1/recv:4+:delay:1"};
    char expected[1024], found[1024];
    struct outcome outcome = train("", "train.steps=3");

    (void)state;
    expect_code(&outcome, 0);
    losses_of(&outcome, expected, sizeof expected);
    outcome_finish(&outcome);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        outcome = train(faults[i], "train.steps=3");
        expect_code(&outcome, 0);
        losses_of(&outcome, found, sizeof found);
        assert_string_equal(found, expected);
        outcome_finish(&outcome);
    }
}

/* Four micro-batches make 4 F and 4 BW of each step on the only stage of a rank. */
static void points_are_counted(void **state)
{
    (void)state;
    expect("count", "train.steps=3", 0, "fault point rank=1/pass: 24\n");
    expect("count", "train.steps=2", 0, "fault point rank=2/recv: 8\n");
}

/* What "plan -o" says and leaves of a file that was there, with this fault. */
static void expect_plan(const char *fault, int code, const char *word)
{
    const char *out = support_write("fault.plan", "old"),
               *config = support_write("fault.toml", mlp);
    const char *args[] = {"plan", config, "-o", out, NULL};
    struct outcome outcome;
    char *left;

    setenv("PENSTOCK_FAULT", fault, 1);
    outcome = support_run(args);
    unsetenv("PENSTOCK_FAULT");
    expect_code(&outcome, code);
    expect_text(code == 0 ? outcome.out : outcome.err, word);
    left = support_read(out);
    assert_non_null(left);
    assert_int_equal(strcmp(left, "old") == 0, code != 0);
    free(left);
    outcome_finish(&outcome);
}

/* Whatever the call: an error that is named, one that is usual, less than was asked for, a disk
   that is full from then on. Two writes: of the file, of the standard output. */
static void calls_fail_as_they_are_told(void **state)
{
    (void)state;
    expect_plan("open:1:fail:EACCES", 2, "cannot open the file: Permission denied");
    expect_plan("read:1:fail:EIO", 2, "cannot read the file: Input/output error");
    expect_plan("read:*:short:1", 0, "predicted step");
    expect_plan("read:1:fail:EINTR", 0, "predicted step");
    expect_plan("write:1", 2, "cannot write the file: No space left on device");
    expect_plan("write:*:short:7", 0, "written to");
    expect_plan("fsync:1", 2, "cannot write the file: Input/output error");
    expect_plan("rename:1:fail:EXDEV", 2, "Invalid cross-device link");
    expect_plan("read:1:disk-full", 2, "cannot create a file there: No space left on device");
    expect_plan("alloc:1+", 4, "out of host memory");
    expect_plan("rank=1/alloc:1+", 0, "predicted step"); /* of this process, the only one: 0 */
    expect_plan("dl.open:1", 4, "device \"cpu\" cannot be used");
    expect_plan("thread:1+", 0, "predicted step");
    expect("thread:2", "train.steps=3", 4, "out of threads");
    expect("mmap:1", "train.steps=3", 4, "memory");
}

static void nonsense_is_refused(void **state)
{
    static const char *const texts[] = {
        "rank=x/pass",
        "rank=1",
        ":3",
        "pass:3:explode",
        "pass:1:delay:x",
        "open:1:fail:EWHATEVER",
        "read:1:short:x",
        "pass:0",
        "pass:0+:kill",
        "rank=64/pass",
        "rank=4294967296/pass",
        "pass-and-what-else-there-may-be-in-a-run",
        "pass:000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000"
        "0000000000000000000000001"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect(texts[i], "train.steps=3", 2, "PENSTOCK_FAULT");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_end_the_run),        cmocka_unit_test(a_long_delay_is_a_stall),
        cmocka_unit_test(short_delays_change_nothing), cmocka_unit_test(points_are_counted),
        cmocka_unit_test(calls_fail_as_they_are_told), cmocka_unit_test(nonsense_is_refused),
    };

    return cmocka_run_group_tests_name("faults on demand", tests, support_begin, support_end);
}
