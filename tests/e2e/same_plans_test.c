/* SPDX-License-Identifier: Apache-2.0
 *
 * The same question has the same answer to the byte, from several threads at once.
 * same_answers_test.txt asks in other processes.
 */
#include "test.h"

#include <pthread.h>

#include "plugin/job_rig.h"

#define MODEL                                                                                      \
    "[model]\nuse = \"mmt\"\nbranches = 2\nlayers = 2\ndim = 16\nheads = 2\ncontext = 8\n"         \
    "vocab = 11\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 16\nmicrobatch = 2\nclip = 0.0\n"  \
    "[cluster]\ndevices = 4\nhost_bandwidth = \"4 GB/s\"\n"

/* Every memory optimizer once, where it can, with too little memory to keep everything. */
static const struct {
    const char *memory, *partitioner, *scheduler, *memopt;
} jobs[] = {
    {"9 MiB", "stage-graph", "per-stage", "none"},
    {"9 MiB", "piper", "per-stage", "selective"},
    {"110 KiB", "tideline", "1f1b", "two-ended"},
    {"110 KiB", "uniform", "1f1b", "exact"},
    {"128 KiB", "chain-dp", "zb-h1", "rotor"},
    {"110 KiB", "vpipe", "1f1b", "vpipe"},
    {"125 KiB", "chain-dp", "interleaved", "adapipe"},
    {"110 KiB", "dapple", "zb-auto", "sqrt"},
    {"120 KiB", "pipedream-2bw", "2bw", "full"},
    {"264 KiB", "uniform", "v-adaptive", "bpipe"},
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

TEST(test_threads_side_by_side)
{
    static struct planner_thread crew[CREW];
    char *alone[JOBS];

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
