/* SPDX-License-Identifier: Apache-2.0
 *
 * The same question has the same answer to the byte: in another process, where memory lies
 * elsewhere and held something else, on another number of processors, from several threads at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "support.h"

#include "commands.h"
#include "plugin/job_rig.h"

#define MODEL                                                                                      \
    "[model]\nuse = \"mmt\"\nbranches = 2\nlayers = 2\ndim = 16\nheads = 2\ncontext = 8\n"         \
    "vocab = 11\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 16\nmicrobatch = 2\nclip = 0.0\n"  \
    "[cluster]\ndevices = 4\nhost_bandwidth = \"4 GB/s\"\n"

/* Every memory optimizer once, where it can, with too little memory to keep everything. */
static const struct {
    const char *memory, *partitioner, *scheduler, *memopt;
} jobs[] = {
    {"9 MiB", "stage-graph", "per-stage", "none"},     {"9 MiB", "piper", "per-stage", "selective"},
    {"110 KiB", "tideline", "1f1b", "two-ended"},      {"110 KiB", "uniform", "1f1b", "exact"},
    {"128 KiB", "chain-dp", "zb-h1", "rotor"},         {"110 KiB", "vpipe", "1f1b", "vpipe"},
    {"125 KiB", "chain-dp", "interleaved", "adapipe"}, {"110 KiB", "uniform", "zb-auto", "sqrt"},
    {"120 KiB", "pipedream-2bw", "2bw", "full"},       {"264 KiB", "dapple", "v-adaptive", "bpipe"},
    {"260 KiB", "uniform", "gpipe", "offload"},
};
enum { JOBS = sizeof jobs / sizeof *jobs, CREW = 3 };

static void write_job(char text[2048], size_t i)
{
    snprintf(text, 2048,
             MODEL "memory = \"%s\"\n[partitioner]\nuse = \"%s\"\n[scheduler]\nuse = \"%s\"\n"
                   "[[memopt]]\nuse = \"%s\"\n",
             jobs[i].memory, jobs[i].partitioner, jobs[i].scheduler, jobs[i].memopt);
}

/* --- from several threads ----------------------------------------------------------------------
 */

/* The plan file; NULL: there is no plan. free() it. */
static char *plan_of(size_t i)
{
    struct pst_planned planned;
    struct job_rig rig;
    char toml[2048], *text = NULL;

    write_job(toml, i);
    if (job_rig_plan(&rig, toml, &planned) == PST_OK) {
        text = pst_plan_to_json(planned.plan, rig.graph);
        pst_planned_finish(&planned);
    }
    job_rig_finish(&rig);
    return text;
}

struct planner_thread {
    pthread_t thread;
    size_t first;
    char *texts[JOBS];
};

static void *plan_all(void *context)
{
    struct planner_thread *self = context;

    for (size_t i = 0; i < JOBS; i++) {
        size_t job = (self->first + i) % JOBS;

        self->texts[job] = plan_of(job);
    }
    return NULL;
}

static void test_threads_side_by_side(void **state)
{
    static struct planner_thread crew[CREW];
    char *alone[JOBS];

    (void)state;
    for (size_t i = 0; i < JOBS; i++) {
        alone[i] = plan_of(i);
        if (alone[i] == NULL) {
            fail_msg("no plan: job %zu", i);
        }
    }
    for (size_t t = 0; t < CREW; t++) {
        crew[t].first = t / 2; /* two at a time begin with the same job */
        assert_int_equal(pthread_create(&crew[t].thread, NULL, plan_all, &crew[t]), 0);
    }
    for (size_t t = 0; t < CREW; t++) {
        assert_int_equal(pthread_join(crew[t].thread, NULL), 0);
    }
    for (size_t i = 0; i < JOBS; i++) {
        for (size_t t = 0; t < CREW; t++) {
            assert_non_null(crew[t].texts[i]);
            assert_string_equal(crew[t].texts[i], alone[i]);
            free(crew[t].texts[i]);
        }
        free(alone[i]);
    }
}

/* --- in other processes ------------------------------------------------------------------------
 */

/* Addresses differ from process to process by themselves. Here memory also begins as another byte
   and the environment, so the stack, has another size; and there is one processor alone. */
static void go_elsewhere(bool elsewhere)
{
    static cpu_set_t all;
    cpu_set_t one = all;
    char filler[4097];

    if (!elsewhere) {
        if (CPU_COUNT(&all) > 0) {
            assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
        }
        assert_int_equal(unsetenv("MALLOC_PERTURB_"), 0);
        assert_int_equal(unsetenv("PENSTOCK_TEST_FILLER"), 0);
        return;
    }
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
        }
    }
    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(setenv("MALLOC_PERTURB_", "165", 1), 0);
    assert_int_equal(setenv("PENSTOCK_TEST_FILLER", filler, 1), 0);
}

static void test_plans_of_processes(void **state)
{
    (void)state;
    for (size_t i = 0; i < JOBS; i++) {
        char toml[2048], *texts[2];

        write_job(toml, i);
        for (int turn = 0; turn < 2; turn++) {
            const char *path = support_path("plan.json");
            struct outcome o;

            go_elsewhere(turn == 1);
            o = penstock("plan", support_write("job.toml", toml), "-o", path);
            go_elsewhere(false);
            expect_code(&o, 0);
            outcome_finish(&o);
            texts[turn] = support_read(path);
        }
        assert_string_equal(texts[0], texts[1]);
        free(texts[0]);
        free(texts[1]);
    }
}

/* An answer without how it was searched for, which is of the moment; free() it. */
static char *answer_of(const char *const *args, bool elsewhere)
{
    static const char *const moments[] = {"search_seconds", "probes", "states", "sizes"};
    struct outcome o;
    json_t *root;
    char *text;

    go_elsewhere(elsewhere);
    o = support_run(args);
    go_elsewhere(false);
    root = only_line(&o);
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        (void)json_object_del(root, moments[i]);
    }
    text = json_dumps(root, 0);
    assert_non_null(text);
    json_decref(root);
    outcome_finish(&o);
    return text;
}

/* A search that has threads of its own, for three sizes of micro-batch, and how many is an option
   of it. */
static void test_threads_of_a_search(void **state)
{
    static const char *const options[] = {"threads=1", "threads=2", "threads=3", "threads=0"};
    char *first = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *const args[] = {"partition",
                                    "graphpipe",
                                    "--json",
                                    "--problem",
                                    PENSTOCK_SOURCE_DIR "/configs/problems/two-branches.json",
                                    "--options",
                                    options[i],
                                    NULL};
        char *text = answer_of(args, i == 3);

        expect_text(text, "\"feasible\": true");
        first = first == NULL ? text : first;
        assert_string_equal(text, first);
        if (text != first) {
            free(text);
        }
    }
    free(first);
}

/* Everything that a memory optimizer says, but for the time that it took. */
static void test_stages_of_processes(void **state)
{
    static const char *const names[] = {"none",  "full",  "selective", "sqrt",  "rotor",  "offload",
                                        "vpipe", "exact", "dawnpiper", "bpipe", "adapipe"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const args[] = {"memopt",
                                    names[i],
                                    "--json",
                                    "--problem",
                                    PENSTOCK_SOURCE_DIR "/configs/problems/four-layers.json",
                                    NULL};
        char *here = answer_of(args, false), *there = answer_of(args, true);

        assert_string_equal(here, there);
        free(here);
        free(there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_side_by_side),
        cmocka_unit_test(test_plans_of_processes),
        cmocka_unit_test(test_threads_of_a_search),
        cmocka_unit_test(test_stages_of_processes),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
