/* SPDX-License-Identifier: Apache-2.0
 *
 * stage-graph in jobs: where the links between nodes are shared, no sequential planner's plan has a
 * shorter step, by the simulation that everybody is judged by.
 */
#include "job_answer.h"

/* Nodes of four with a slow link each; of the size of a V100. */
#define CLUSTER                                                                                    \
    "[cluster]\ndevices = %u\nmemory = \"14.5 GiB\"\nflops = 15.7e12\nefficiency = 0.8\n"          \
    "memory_bandwidth = \"900 GB/s\"\nlaunch_overhead = \"6 us\"\nlink_bandwidth = \"50 GB/s\"\n"  \
    "link_latency = \"5 us\"\nnode_size = 4\nnode_link_bandwidth = \"12.5 GB/s\"\n"                \
    "node_link_latency = \"10 us\"\n"
#define TRAIN                                                                                      \
    "[data]\nkind = \"synthetic\"\n[train]\nbatch = %u\nmicrobatch = %u\noptimizer = \"sgd\"\n"    \
    "clip = 0.0\ndegrees = %s\n[[memopt]]\nuse = \"none\"\n"
#define DLRM_OF(entries)                                                                           \
    "[model]\nuse = \"dlrm\"\ndense = 7\nsparse = 7\nfeatures = 4096\nlayers = 4\n"                \
    "width = 4096\nentries = " entries "\nvector = 64\nbag_size = 100\nbag = \"concat\"\n"         \
    "top_layers = 4\n"
#define DLRM DLRM_OF("100000")
#define CANDLE                                                                                     \
    "[model]\nuse = \"candle-uno\"\nvariant = \"branches\"\nbranches = 4\nfeatures = 4096\n"       \
    "layers = 4\ntop_layers = 2\nwidth = 4096\n"

struct question {
    const char *model;
    uint32_t devices, batch, microbatch;
    const char *degrees;
};

static uint64_t job_step_of(const char *job, const char *partitioner, const char *scheduler)
{
    FINISHED_BY(job_rig_finish) struct job_rig rig;
    char toml[4096];
    int n = snprintf(toml, sizeof toml, "%s%s%s", job, partitioner, scheduler);

    assert_true(n > 0 && (size_t)n < sizeof toml);
    return job_step(&rig, toml, pst_predict_step);
}

static uint64_t step_of(const struct question *q, const char *partitioner, const char *scheduler)
{
    char job[4096];
    int n = snprintf(job, sizeof job, "%s" CLUSTER TRAIN, q->model, q->devices, q->batch,
                     q->microbatch, q->degrees);

    assert_true(n > 0 && (size_t)n < sizeof job);
    return job_step_of(job, partitioner, scheduler);
}

static void compare(const struct question *q)
{
    static const char *const planners[] = {
        "[partitioner]\nuse = \"stage-graph\"\nforce_chain = true\n",
        "[partitioner]\nuse = \"chain-dp\"\n",
        "[partitioner]\nuse = \"pipedream\"\n",
        "[partitioner]\nuse = \"pipedream\"\nobjective = \"reference\"\n",
        "[partitioner]\nuse = \"dapple\"\n",
        "[partitioner]\nuse = \"uniform\"\n",
        "[partitioner]\nuse = \"greedy\"\n",
    };
    static const char *const schedulers[] = {
        "[scheduler]\nuse = \"1f1b\"\n", "[scheduler]\nuse = \"1f1b\"\neager = true\n",
        "[scheduler]\nuse = \"per-stage\"\n", "[scheduler]\nuse = \"per-stage\"\neager = true\n"};
    uint64_t graph = UINT64_MAX;

    /* those of chains too: they hold more samples on branches, which hides queues at links */
    for (size_t s = 0; s < sizeof schedulers / sizeof schedulers[0]; s++) {
        uint64_t step = step_of(q, "[partitioner]\nuse = \"stage-graph\"\n", schedulers[s]);

        graph = step < graph ? step : graph;
    }
    for (size_t i = 0; i < sizeof planners / sizeof planners[0]; i++) {
        for (size_t s = 0; s < 2; s++) {
            uint64_t chain = step_of(q, planners[i], schedulers[s]);

            if (graph > chain) {
                fail_msg("%s%s: %llu ns, the graph %llu ns", planners[i], schedulers[s],
                         (unsigned long long)chain, (unsigned long long)graph);
            }
        }
    }
}

/* A wide layer behind the join, which no cut makes shorter: the rest decides. */
TEST(test_dlrm)
{
    const struct question q = {DLRM, 8, 512, 32, "[1, 2, 4, 8]"};

    compare(&q);
}

/* Everything goes through links that four devices share. */
TEST(test_candle)
{
    const struct question q = {CANDLE, 16, 4096, 128, "[1, 2, 4, 8, 16]"};

    compare(&q);
}

/* With one scheduler the whole search has what the search of chains comes to. */
TEST(test_chains)
{
    static const char chains[] = "[partitioner]\nuse = \"stage-graph\"\nforce_chain = true\n",
                      graph[] = "[partitioner]\nuse = \"stage-graph\"\n",
                      row[] = "[scheduler]\nuse = \"1f1b\"\n";

    for (uint32_t b = 128; b <= 256; b *= 2) {
        const struct question q = {DLRM_OF("1000000"), 16, 1024, b, "[1, 2, 4, 8, 16]"};
        uint64_t chain = step_of(&q, chains, row), all = step_of(&q, graph, row);

        if (all > chain) {
            fail_msg("%u samples: %llu ns, chains %llu", b, (unsigned long long)all,
                     (unsigned long long)chain);
        }
    }
}

/* configs/models/dlrm-small.toml: three branches and the rest, one on each device, have a larger T
   than other cuts, but two stages on a path instead of three. */
TEST(test_shortest_path)
{
    static const char job[] =
        "[model]\nuse = \"dlrm\"\ndense = 3\nsparse = 3\nfeatures = 16\nlayers = 2\n"
        "width = 32\nentries = 64\nvector = 8\nbag_size = 4\nbag = \"sum\"\n"
        "[data]\nkind = \"synthetic\"\n[train]\nbatch = 16\nmicrobatch = 4\n"
        "[cluster]\ndevices = 4\n[[memopt]]\nuse = \"none\"\n";
    static const char row[] = "[scheduler]\nuse = \"1f1b\"\n";
    uint64_t graph = job_step_of(job, "[partitioner]\nuse = \"stage-graph\"\n", row),
             layers = job_step_of(job, "[partitioner]\nuse = \"vpipe\"\n", row);

    assert_true(graph <= layers);
}
