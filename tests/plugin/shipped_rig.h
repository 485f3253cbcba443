/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans made with every scheduler of the tree, as the planner makes them: with and without a
 * barrier, with tied parameters, with recomputation, on graphs of stages, of several micro-batch
 * sizes, with replicas, asynchronous. The folders of schedulers/ are counted, so that none is
 * forgotten.
 */
#ifndef TESTS_PLUGIN_SHIPPED_RIG_H
#define TESTS_PLUGIN_SHIPPED_RIG_H

#include "job_rig.h"
#include "unit/prove/rig.h"

#include <dirent.h>
#include <unistd.h>

#define SHIPPED_MAX 64

#define SHIPPED_MLP                                                                                \
    "[model]\nuse = \"mlp\"\nlayers = 12\ninputs = 8\nhidden = 8\n"                                \
    "[partitioner]\nuse = \"uniform\"\n"
#define SHIPPED_GPT                                                                                \
    "[model]\nuse = \"gpt\"\nlayers = 6\ndim = 8\nheads = 2\ncontext = 4\nvocab = 7\n"             \
    "[partitioner]\nuse = \"uniform\"\n"
#define SHIPPED_BRANCHES                                                                           \
    "[model]\nuse = \"mmt\"\nbranches = 3\nlayers = 1\ndim = 8\nheads = 2\ncontext = 4\n"          \
    "vocab = 7\n[partitioner]\nuse = \"manual\"\n"                                                 \
    "stages = \"branch.0.*;branch.1.*;branch.2.*;*\"\n"

#define SHIPPED_MANUAL                                                                             \
    "[model]\nuse = \"gpt\"\nlayers = 3\ndim = 8\nheads = 2\ncontext = 4\nvocab = 7\n"             \
    "[partitioner]\nuse = \"manual\"\nstages = \"wte, drop, h.0.*; h.1.*; *\"\n"

#define SHIPPED_UNTIED                                                                             \
    "[model]\nuse = \"gpt\"\nlayers = 2\ndim = 8\nheads = 2\ncontext = 4\nvocab = 7\n"             \
    "tied = false\n[partitioner]\nuse = \"uniform\"\n"

struct shipped_case {
    const char *id; /* of a scheduler; NULL: of all that are not named in `special` */
    const char *model;
    uint32_t p, microbatch, batch;
    const char *train;     /* lines */
    const char *scheduler; /* lines */
    const char *memopt;
};

static const struct shipped_case shipped_cases[] = {
    {NULL, SHIPPED_MLP, 2, 1, 4, "clip = 0.0", "", "none"},
    {NULL, SHIPPED_GPT, 3, 2, 12, "clip = 1.0", "", "full"},
    {NULL, SHIPPED_MLP, 4, 2, 16, "clip = 0.0", "", "full"},
    {NULL, SHIPPED_GPT, 4, 2, 8, "clip = 0.0\ndegrees = [2]", "", "none"},
    {"1f1b", SHIPPED_MANUAL "replicas = [2, 1, 3]\n", 6, 6, 24, "clip = 1.0\ndegrees = [1, 2, 3]",
     "", "none"},
    {"per-stage", SHIPPED_BRANCHES "microbatch_sizes = [2,4,8,4]\nreplicas = [1,2,1,4]\n", 8, 2, 8,
     "clip = 0.0\ndegrees = [1, 2, 4]", "", "none"},
    {"2bw", SHIPPED_MANUAL "replicas = [1, 4, 2]\n", 7, 4, 16, "clip = 1.0\ndegrees = [1, 2, 4]",
     "", "none"},
    {"2bw", SHIPPED_MANUAL "replicas = [2, 1, 2]\n", 5, 2, 8, "clip = 0.0\ndegrees = [1, 2]", "",
     "full"},
    {"optimal", SHIPPED_MLP, 2, 1, 4, "clip = 0.0", "placement = \"vshape\"", "none"},
    {"optimal", SHIPPED_GPT, 3, 2, 8, "clip = 1.0", "", "full"},
    {"v-adaptive", SHIPPED_MLP, 2, 1, 4, "clip = 0.0", "effort = 0", "none"},
    {"v-adaptive", SHIPPED_GPT, 3, 2, 12, "clip = 1.0", "effort = 0", "full"},
    {"csv", SHIPPED_MLP, 2, 1, 8, "clip = 0.0",
     "file = \"" PENSTOCK_SOURCE_DIR "/schedulers/csv/example.csv\"", "none"},
    {"csv", SHIPPED_GPT, 2, 2, 16, "clip = 1.0",
     "file = \"" PENSTOCK_SOURCE_DIR "/schedulers/csv/example.csv\"", "full"},
    {"gpipe", SHIPPED_GPT, 3, 2, 12, "clip = 0.0", "split = true", "none"},
    {"per-stage", SHIPPED_BRANCHES, 4, 2, 12, "clip = 1.0", "", "none"},
    {"per-stage", SHIPPED_BRANCHES "microbatch_sizes = \"1,2,4,6\"\n", 4, 2, 12, "clip = 0.0",
     "split = true", "full"},
    {"1f1b", "[model]\nuse = \"resnet\"\n[partitioner]\nuse = \"uniform\"\n", 3, 2, 8, "clip = 1.0",
     "", "none"},
    {"2bw", SHIPPED_GPT, 3, 2, 8, "clip = 0.0\ndrain_every = 3", "", "none"},
    {"2bw", SHIPPED_GPT, 4, 1, 4, "clip = 1.0\ndrain_every = 2", "", "full"},
    {"2bw", SHIPPED_MLP, 4, 1, 2, "clip = 1.0", "relaxed_m = true", "none"},
    {"pipedream", SHIPPED_MLP, 4, 1, 4, "clip = 0.0", "", "none"},
    {"pipedream", SHIPPED_UNTIED, 3, 2, 10, "clip = 0.0\ndrain_every = 2", "", "full"},
    {"pipedream", SHIPPED_MLP, 6, 2, 8, "clip = 0.0\ndegrees = [2]", "", "none"},
};
#define N_SHIPPED_CASES (sizeof shipped_cases / sizeof shipped_cases[0])

/* Search too long for the common cases, or need a file, or weights that are not tied. */
static inline bool shipped_is_special(const char *id)
{
    return strcmp(id, "optimal") == 0 || strcmp(id, "v-adaptive") == 0 || strcmp(id, "csv") == 0 ||
           strcmp(id, "pipedream") == 0;
}

static inline int shipped_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Folders of schedulers/ but that of what they share; sorted. */
static inline uint32_t shipped_schedulers(char (*ids)[64])
{
    DIR *folder = opendir(PENSTOCK_SOURCE_DIR "/schedulers");
    struct dirent *entry;
    uint32_t n = 0;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        char path[512];
        snprintf(path, sizeof path, PENSTOCK_SOURCE_DIR "/schedulers/%s/CMakeLists.txt",
                 entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, "common") != 0 && access(path, R_OK) == 0) {
            assert_true(n < SHIPPED_MAX && strlen(entry->d_name) < sizeof ids[0]);
            memcpy(ids[n++], entry->d_name, strlen(entry->d_name) + 1);
        }
    }
    closedir(folder);
    qsort(ids, n, sizeof ids[0], shipped_compare);
    return n;
}

/* The plan of a case; false: the scheduler refuses it, in words. */
static inline bool shipped_open(const struct shipped_case *c, const char *id, struct job_rig *job,
                                struct rig *rig)
{
    struct pst_planned planned = {.plan = NULL};
    char toml[2048];
    snprintf(toml, sizeof toml,
             "%s[data]\nkind = \"synthetic\"\n[train]\nbatch = %u\nmicrobatch = %u\n%s\n"
             "[cluster]\ndevices = %u\n[scheduler]\nuse = \"%s\"\n%s\n[[memopt]]\nuse = \"%s\"\n",
             c->model, c->batch, c->microbatch, c->train, c->p, id, c->scheduler, c->memopt);
    pst_status st = job_rig_plan(job, toml, &planned);
    if (st == PST_ERR_INFEASIBLE || st == PST_ERR_UNSUPPORTED ||
        (st == PST_ERR_CONFIG && pst_job_slices(&job->job) > 1)) { /* not of this model */
        print_message("%s, %u devices, batch %u: %s\n", id, c->p, c->batch, job->err.message);
        job_rig_finish(job);
        return false;
    }
    if (st != PST_OK) {
        fail_msg("%s: %s\n%s", id, job->err.message, job->err.details);
    }
    *rig = (struct rig){.graph = job->graph, .cost = job->cost, .plan = planned.plan, .seed = 2026};
    assert_true(planned.plan->n_devices <= RIG_MAX);
    memcpy(rig->programs, planned.programs, planned.plan->n_devices * sizeof *planned.programs);
    free(planned.programs);
    return true;
}

static inline void shipped_close(struct job_rig *job, struct rig *rig)
{
    rig_drop_plan(rig);
    job_rig_finish(job);
}

/* Calls visit for every plan of a scheduler; how many there are. */
static inline uint32_t shipped_each(const char *id,
                                    void (*visit)(struct rig *rig, const char *name))
{
    uint32_t n = 0;
    for (size_t i = 0; i < N_SHIPPED_CASES; i++) {
        const struct shipped_case *c = &shipped_cases[i];
        struct job_rig job;
        struct rig rig;
        char name[128];
        if (c->id == NULL ? shipped_is_special(id) : strcmp(c->id, id) != 0) {
            continue;
        }
        snprintf(name, sizeof name, "%s, case %u", id, (unsigned)i);
        if (shipped_open(c, id, &job, &rig)) {
            visit(&rig, name);
            shipped_close(&job, &rig);
            n++;
        }
    }
    return n;
}

#endif
