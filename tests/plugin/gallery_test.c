/* SPDX-License-Identifier: Apache-2.0
 *
 * Broken plugins and what the program says to each: the words of a refusal, of a failed check, and
 * the exit codes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define SCRATCH GALLERY "/checked"

/* What sanitizers change: nothing; the words of a crash; a clock that they are too slow for. */
enum { SAME, CRASH, CLOCK };

/* A plugin that fails one test of the checker, with a reason that begins so. */
struct failure {
    const char *file, *set, *test, *reason;
    uint32_t sanitized;
};

static const struct failure loads[] = {
    {"rude/scheduler-constructor-prints.so", NULL, "load",
     "it prints: \"thank you for loading me\"; use host->log", SAME},
    {"rude/scheduler-constructor-crashes.so", NULL, "load",
     "killed by signal 11 (Segmentation fault) in loading", CRASH},
    {"rude/scheduler-constructor-thread.so", NULL, "load",
     "loading it leaves a thread behind; a constructor must not do that", SAME},
    {"rude/scheduler-constructor-file.so", NULL, "load",
     "loading it leaves a file behind; a constructor must not do that", SAME},
    {"rude/scheduler-constructor-opens.so", NULL, "load",
     "loading it leaves an open file behind; a constructor must not do that", SAME},
    {"rude/scheduler-constructor-chdir.so", NULL, "load",
     "loading it leaves another current folder behind; a constructor must not do that", SAME},
    {"rude/scheduler-constructor-slow.so", NULL, "load", "did not end within 2 s, in loading",
     SAME},
    {"scheduler-no-entry.so", NULL, "load",
     "exports no pst_plugin_entry; write PST_PLUGIN(description) once in it", SAME},
    {"scheduler-major.so", NULL, "load",
     "built for ABI 2.4, this penstock speaks 1.4: ask its author for a build", SAME},
    {"scheduler-no-schedule.so", NULL, "load", "its interface pst.scheduler/1 lacks schedule()",
     SAME},
    {"rude/scheduler-exports.so", NULL, "exports",
     "it exports rude_helper besides pst_plugin_entry; compile it with -fvisibility=hidden", SAME},
    {"rude/scheduler-create-handler.so", NULL, "exports",
     "it imports signal(), which a plugin must never call", SAME},
    {"rude/scheduler-create-hog.so", NULL, "description",
     "create(): it asked for 2147483648 bytes on top of ", SAME},
    {"rude/scheduler-create-aborts.so", NULL, "description",
     "killed by signal 6 (Aborted) in create()", CRASH},
    {"rude/scheduler-word.so", NULL, "description",
     ".provides has \"split-backwards\", which is no capability word", SAME},
    {"rude/scheduler-create-fails.so", NULL, "description",
     "create() refuses its own defaults: I only work on Sundays", SAME},
    {"rude/scheduler-create-crashes.so", NULL, "description",
     "killed by signal 11 (Segmentation fault) in create()", CRASH},
    {"rude/scheduler-prefix.so", NULL, "interfaces",
     "get_interface(\"pst.scheduler/2\") is not NULL; compare the whole id", SAME},
};

static const struct failure lives[] = {
    {"rude/scheduler-create-leaks.so", NULL, "lifecycle",
     "each create() and destroy() leaves about 112 bytes behind", CLOCK},
    {"rude/scheduler-create-handler.so", NULL, "lifecycle",
     "create() and destroy() leave a signal handler behind", SAME},
    {"rude/scheduler-destroy-null.so", NULL, "lifecycle",
     "killed by signal 11 (Segmentation fault) in destroy()", CRASH},
    {"rude/scheduler-ignores-nomem.so", NULL, "allocations",
     "killed by signal 11 (Segmentation fault) in create()", CRASH},
    {"rude/scheduler-nomem-is-bug.so", NULL, "allocations",
     "create() returned -8 when allocation number 1 failed; PST_ERR_NOMEM is expected", SAME},
    {"rude/scheduler-ignores-cancel.so", NULL, "cancel", "schedule() took 3", CLOCK},
    {"rude/scheduler-by-time.so", NULL, "repeats", "the same question gets another answer", SAME},
    {"rude/scheduler-remembers.so", NULL, "repeats",
     "the same question gets another answer when it is asked twice", SAME},
    {"rude/scheduler-by-process.so", NULL, "repeats",
     "two processes get different answers: something depends on time, addresses or memory that was "
     "never written",
     SAME},
    {"rude/scheduler-shares.so", NULL, "two-instances", "the same question gets another answer",
     SAME},
    {"rude/scheduler-own-sizeof.so", NULL, "newer-host",
     "it answers otherwise when the elements of arrays are longer than it knows; go through the "
     "accessors",
     SAME},
};

/* What each call of schedule() leaves behind, or reaches for. */
static const struct failure traces[] = {
    {"rude/scheduler-call-thread.so", NULL, "answers", "schedule() leaves a thread behind", SAME},
    {"rude/scheduler-call-file.so", NULL, "answers", "schedule() leaves a file behind", SAME},
    {"rude/scheduler-call-home.so", NULL, "answers", "schedule() leaves a file behind", SAME},
    {"rude/scheduler-call-writes.so", NULL, "answers", "writes into a file in schedule()", SAME},
    {"rude/scheduler-call-opens.so", NULL, "answers", "schedule() leaves an open file behind",
     SAME},
    {"rude/scheduler-call-setenv.so", NULL, "answers",
     "schedule() leaves a changed environment behind", SAME},
    {"rude/scheduler-call-locale.so", NULL, "answers", "schedule() leaves another locale behind",
     SAME},
    {"rude/scheduler-call-handler.so", NULL, "answers", "schedule() leaves a signal handler behind",
     SAME},
    {"rude/scheduler-call-mask.so", NULL, "answers", "schedule() leaves another signal mask behind",
     SAME},
    {"rude/scheduler-call-umask.so", NULL, "answers", "schedule() leaves another umask behind",
     SAME},
    {"rude/scheduler-call-limit.so", NULL, "answers",
     "schedule() leaves other resource limits behind", SAME},
    {"rude/scheduler-call-chdir.so", NULL, "answers",
     "schedule() leaves another current folder behind", SAME},
    {"rude/scheduler-call-rounding.so", NULL, "answers",
     "schedule() leaves another rounding mode behind", SAME},
    {"rude/scheduler-call-leaks.so", NULL, "growth", "each question leaves about 640", CLOCK},
    {"rude/scheduler-call-leaks-little.so", NULL, "growth",
     "each question leaves about 64 bytes behind; free what malloc gave", CLOCK},
    {"rude/scheduler-kills-parent.so", NULL, "answers",
     "ended the process that started it, by signal 9 (Killed), in schedule()", SAME},
    {"rude/scheduler-kills-group.so", NULL, "answers",
     "ended the process that started it, by signal 15 (Terminated), in schedule()", SAME},
    {"scheduler-extreme.so", "lie=device-other", "answers", "stage 0 is placed on device ", SAME},
    {"scheduler-extreme.so", "lie=device-most", "answers",
     "stage 0 is placed on device 4294967295, but there are ", SAME},
    {"scheduler-extreme.so", "lie=times", "answers", "schedule() wrote into its input", SAME},
    {"scheduler-extreme.so", "lie=rule-most", "answers",
     "topology() gives the unknown version rule 4294967295", SAME},
    {"partitioner-extreme.so", "lie=name", "answers", "partition() wrote into its input", SAME},
    {"partitioner-extreme.so", "lie=k-most", "answers", "stage 1 has ", SAME},
    {"partitioner-extreme.so", "lie=many-nodes", "answers",
     "stage 1 has 4294967295 nodes on 1 ranks, but there are only ", SAME},
    {"partitioner-extreme.so", "lie=many-ranks", "answers", "stage 1 has ", SAME},
    {"memopt-extreme.so", "lie=null-replays", "answers",
     "sequence() was given replays that break a rule: ", SAME},
    {"memopt-extreme.so", "lie=price", "answers", "price() wrote into its input", SAME},
    {"memopt-extreme.so", "lie=peak-most", "answers", "price() says that it fits and gives no peak",
     SAME},
};

static const struct failure answers[] = {
    {"rude/scheduler-exits.so", NULL, "answers", "the process exited with code 0 in schedule()",
     SAME},
    {"rude/scheduler-loops.so", NULL, "answers", "did not end within 2 s, in schedule()", SAME},
    {"rude/scheduler-stack-overflow.so", NULL, "answers",
     "killed by signal 11 (Segmentation fault) in schedule()", CRASH},
    {"rude/scheduler-prints.so", NULL, "answers", "it prints: \"scheduling...\"; use host->log",
     SAME},
    {"rude/scheduler-odd-status.so", NULL, "answers",
     "schedule() returned the status 77, which is none for a plugin", SAME},
    {"rude/scheduler-mute-refusal.so", NULL, "answers",
     "schedule() refuses with status -2 and does not say why; call host->fail with a message first",
     SAME},
    {"rude/scheduler-lies-cancelled.so", NULL, "answers",
     "schedule() says that it was cancelled, but it was not", SAME},
    {"rude/scheduler-says-bug.so", NULL, "answers", "schedule() reports a bug: the list is empty",
     SAME},
    {"rude/scheduler-refuses-all.so", NULL, "answers",
     "it refuses each of 60 ordinary questions; the first time it says: not today", SAME},
    {"rude/scheduler-writes-view.so", NULL, "answers", "schedule() wrote into its input", SAME},
    {"rude/scheduler-multiple-zero.so", NULL, "answers",
     "topology() asks for at least 1 micro-batches, a multiple of 0; both are at least 1", SAME},
    {"rude/scheduler-splits.so", NULL, "answers",
     "it emits a B pass but does not provide split-backward", SAME},
    {"scheduler-liar.so", "lie=missing", "answers", "no B or BW pass of stage 0 for micro-batch ",
     SAME},
    {"scheduler-liar.so", "lie=twice", "answers",
     "BW of stage 0 for micro-batch 0 is emitted twice", SAME},
    {"scheduler-liar.so", "lie=early", "answers",
     "BW of stage 0 for micro-batch 0 comes before its F", SAME},
    {"scheduler-liar.so", "lie=device", "answers",
     "F of stage 0 is emitted on device 1, but it sits on device 0", SAME},
    {"scheduler-liar.so", "lie=mute", "answers", "no F pass of stage 0 for micro-batch 0", SAME},
    {"scheduler-liar.so", "lie=part", "answers",
     "part(1) belongs to asynchronous schedules; this one is not", SAME},
    {"scheduler-liar.so", "lie=async", "answers", "emit() is called before part()", SAME},
    {"scheduler-liar.so", "lie=leak", "answers", "no B or BW pass of stage 0 for micro-batch ",
     SAME},
    {"scheduler-liar.so", "lie=deadlock", "answers",
     "the order deadlocks: on device 0, BW of stage 0 for micro-batch 0 waits for stage 1, which "
     "never comes to it",
     SAME},
    {"scheduler-liar.so", "lie=deadlock", "plan",
     "scheduler \"liar\" made an illegal plan: LIVE1: ", SAME},
    {"scheduler-liar.so", "lie=missing", "plan",
     "scheduler \"liar\" made an illegal plan: micro-batch 7 of stage 0 never gets its backward",
     SAME},
    {"scheduler-teller.so", "lie=held", "answers",
     "in_flight() promises 0 micro-batches for the stages of device 0, but the schedule holds 1",
     SAME},
    {"memopt-liar.so", "lie=promise", "plan",
     "memopt \"liar\" broke its contract: for stage 0 price() promised ", SAME},
    {"partitioner-liar.so", "lie=order", "answers", "node 0 is in no stage (", SAME},
    {"partitioner-liar.so", "lie=rank", "answers", "rank 0 is given to stage 0 and to stage 1",
     SAME},
    {"partitioner-liar.so", "lie=size", "answers",
     "stage 0 has micro-batches of 3 samples, which is none of the candidates", SAME},
    {"partitioner-liar.so", "lie=empty", "answers", "stage 1 has no nodes", SAME},
    {"partitioner-liar.so", "lie=replicas", "answers",
     "stage 0 has 2 replicas, which is none of the degrees", SAME},
    {"partitioner-liar.so", "lie=shy", "answers",
     "partition() refuses with status -2 and does not say why", SAME},
    {"partitioner-liar.so", "lie=missing", "answers", "node 3 is in no stage (a chain, ", SAME},
    {"partitioner-liar.so", "lie=twice", "answers", "node 2 is in stage 0 and in stage 1 (", SAME},
    {"partitioner-liar.so", "lie=far", "answers",
     "stage 1 has a node 6, but the graph has only 6 (", SAME},
    {"rude/partitioner-zigzag.so", NULL, "answers",
     "stage 0 is not convex: a path leaves it and comes back through node 4 to node 5", SAME},
    {"rude/memopt-reckless.so", NULL, "answers",
     "set(2, recompute) on a node that must not be replayed", SAME},
    {"memopt-liar.so", "lie=far", "answers", "set() was given position ", SAME},
    {"memopt-liar.so", "lie=action", "answers", "set() was given the unknown action 77", SAME},
    {"memopt-liar.so", "lie=broken", "answers",
     "price() returned the status 4711, which is none for a plugin", SAME},
};

/* The line "FAIL  test  reason", and exit code 3. */
static void expect_failure(const struct failure *f)
{
    char file[512], line[1024];
    const char *args[12] = {"plugins", "check", file, "--only", f->test, "--time-limit", "100"};
    struct outcome o;
    int n = 7;

    if (strstr(f->reason, "within 2 s") != NULL) {
        args[6] = "2";
    }
    if (f->set != NULL) {
        args[n++] = "--set";
        args[n++] = f->set;
    }
    if (SANITIZED && f->sanitized == CLOCK) {
        return;
    }
    snprintf(file, sizeof file, "%s/%s", GALLERY, f->file);
    o = support_run(args);
    if (o.code != 3) {
        fail_msg("%s %s: exit code %d\n%s%s", f->file, f->set != NULL ? f->set : "", o.code, o.out,
                 o.err);
    }
    snprintf(line, sizeof line, "FAIL  %-14s %s", f->test,
             SANITIZED && f->sanitized == CRASH ? "" : f->reason);
    if (strstr(o.out, line) == NULL) {
        fail_msg("%s: expected\n%s\n%s%s", f->file, line, o.out, o.err);
    }
    expect_text(o.out, "1 tests, 1 failed, 0 skipped; seed 1\n");
    outcome_finish(&o);
}

static void test_loading(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        expect_failure(&loads[i]);
    }
}

static void test_living(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++) {
        expect_failure(&lives[i]);
    }
}

static void test_traces(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) {
        expect_failure(&traces[i]);
    }
}

static void test_answering(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        expect_failure(&answers[i]);
    }
}

/* The same base without a fault passes everything: the faults are what is found. */
static void test_polite(void **state)
{
    struct outcome o = penstock("plugins", "check", GALLERY "/rude/scheduler-polite.so");

    (void)state;
    expect_code(&o, 0);
    expect_text(o.out, "15 tests, 0 failed, 0 skipped; seed 1\n");
    outcome_finish(&o);
}

/* Replays of a memory optimizer that offloads besides are judged with what it offloads. */
static void test_replays(void **state)
{
    struct outcome o = penstock("plugins", "check", GALLERY "/told/memopt-replays.so", "--set",
                                "offload=true", "--only", "answers");

    (void)state;
    expect_code(&o, 0);
    expect_text(o.out, "1 tests, 0 failed, 0 skipped; seed 1\n");
    outcome_finish(&o);
}

/* What cannot be loaded is not asked anything. */
static void test_skipping(void **state)
{
    struct outcome o = penstock("plugins", "check", GALLERY "/scheduler-minor.so");

    (void)state;
    expect_code(&o, 3);
    expect_text(o.out,
                "FAIL  load           needs penstock ABI 1.9, this penstock speaks 1.4: update "
                "penstock\nSKIP  exports        the test \"load\" failed\n");
    expect_text(o.out, "15 tests, 1 failed, 14 skipped");
    outcome_finish(&o);
}

static void test_json(void **state)
{
    struct outcome o = penstock("plugins", "check", GALLERY "/scheduler-liar.so", "--set",
                                "lie=twice", "--only", "answers", "--json", "--seed", "7");

    (void)state;
    expect_code(&o, 3);
    expect_text(o.out, "\"seed\":7,\"failed\":1,\"skipped\":0,\"tests\":[{\"test\":\"answers\"");
    expect_text(o.out, "\"outcome\":\"fail\",\"text\":\"BW of stage 0 for micro-batch 0 is emitted "
                       "twice (a chain, ");
    assert_string_equal(o.err, "");
    outcome_finish(&o);
}

/* Refusals as `plugins info` words them; code 3: the plugin's fault, 2: the request's. */
static void test_refusals(void **state)
{
    static const struct {
        const char *file;
        int code;
        const char *words;
    } refusals[] = {
        {"scheduler-no-entry.so", 3,
         "exports no pst_plugin_entry; write PST_PLUGIN(description) once in it"},
        {"scheduler-major.so", 3,
         "built for ABI 2.4, this penstock speaks 1.4: ask its author for a build"},
        {"scheduler-minor.so", 3,
         "needs penstock ABI 1.9, this penstock speaks 1.4: update penstock"},
        {"scheduler-kind.so", 3,
         "says that it is a \"memopt\", but its file is named as a scheduler; rename the file"},
        {"scheduler-other-name.so", 3,
         "says that its name is \"name\", but its file is named for \"other-name\"; rename the "
         "file "
         "to scheduler-name.so"},
        {"scheduler-no-interface.so", 3, "a scheduler without the interface pst.scheduler/1"},
        {"scheduler-undefined.so", 3, "undefined symbol: not_there"},
        {"scheduler-row.so", 3, "default outside its range"},
        {"scheduler-absent.so", 2, "No such file or directory"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char file[512];
        struct outcome o;

        snprintf(file, sizeof file, "%s/%s", GALLERY, refusals[i].file);
        o = penstock("plugins", "info", file);
        expect_code(&o, refusals[i].code);
        expect_text(o.err, refusals[i].words);
        expect_text(o.err, file);
        assert_string_equal(o.out, "");
        outcome_finish(&o);
    }
}

static char *read_sound(size_t *ret_n)
{
    FILE *file = fopen(GALLERY "/scheduler-sound.so", "rb");
    char *bytes;

    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *ret_n = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*ret_n);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *ret_n, file), *ret_n);
    fclose(file);
    return bytes;
}

static void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Copies of a sound plugin with bytes changed or missing: refused before anything of it is run. */
static void test_damaged_files(void **state)
{
    const char *path = SCRATCH "/scheduler-sound.so";
    size_t n, cut;
    char *bytes = read_sound(&n);
    struct outcome o;

    (void)state;
    mkdir(SCRATCH, 0755);
    write_bytes(path, "#!/bin/sh\n", 10);
    o = penstock("plugins", "check", path);
    expect_code(&o, 3);
    expect_text(o.out,
                "FAIL  load           not a shared object (no ELF file); rebuild the plugin or "
                "reinstall it\n");
    outcome_finish(&o);

    bytes[18] = (char)183; /* EM_AARCH64 */
    bytes[19] = 0;
    write_bytes(path, bytes, n);
    o = penstock("plugins", "check", path);
    expect_code(&o, 3);
#ifdef __x86_64__
    expect_text(o.out,
                "FAIL  load           built for aarch64, this penstock runs on x86-64; get a "
                "build for this machine\n");
#endif
    outcome_finish(&o);
    free(bytes);

    /* Whatever is left of it up to its last segment, there is an answer, and no crash in the
       dynamic linker. What is behind, symbols for debuggers, is not missed. */
    bytes = read_sound(&n);
    for (cut = 1; cut < 12000; cut = cut * 2 + 37) {
        write_bytes(path, bytes, cut);
        o = penstock("plugins", "info", path);
        expect_code(&o, 3);
        expect_text(o.err, cut < 64 ? "not a shared object (no ELF file)"
                                    : "damaged or cut short; rebuild the plugin or reinstall it");
        outcome_finish(&o);
    }
    free(bytes);
    unlink(path);
    rmdir(SCRATCH);
}

static void test_wrong_requests(void **state)
{
    struct outcome o =
        penstock("plugins", "check", GALLERY "/scheduler-liar.so", "--set", "lye=no");

    (void)state;
    expect_code(&o, 2);
    expect_text(o.err, "unknown key \"lye\" in scheduler; did you mean \"lie\"?");
    outcome_finish(&o);
    o = penstock("plugins", "check", GALLERY "/scheduler-liar.so", "--only", "anwsers");
    expect_code(&o, 2);
    expect_text(o.err, "no test \"anwsers\"");
    expect_text(o.err, "did you mean \"answers\"?");
    outcome_finish(&o);
    o = penstock("plugins", "check", GALLERY "/scheduler-liar.so", "--seed", "x");
    expect_code(&o, 2);
    outcome_finish(&o);
    o = penstock("plugins", "new", "schedule", "mine");
    expect_code(&o, 2);
    expect_text(o.err, "did you mean \"scheduler\"?");
    outcome_finish(&o);
    o = penstock("plugins", "new", "scheduler", "My_Order");
    expect_code(&o, 2);
    expect_text(o.err, "it has lower case, digits and hyphens");
    outcome_finish(&o);
    /* The hidden mode is of no use to anybody else. */
    o = penstock("--conformance-child", GALLERY "/scheduler-liar.so", "load", "1", "/");
    expect_code(&o, 2);
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loading),        cmocka_unit_test(test_living),
        cmocka_unit_test(test_answering),      cmocka_unit_test(test_traces),
        cmocka_unit_test(test_polite),         cmocka_unit_test(test_replays),
        cmocka_unit_test(test_skipping),       cmocka_unit_test(test_json),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_wrong_requests),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
