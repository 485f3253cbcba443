/* SPDX-License-Identifier: Apache-2.0
 *
 * How long graphpipe searches: the models of its paper at operator granularity, every micro-batch
 * size, degrees powers of two; long chains; nested graphs.
 *
 *   bench-graphpipe [NAME]
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "partition_rig.h"
#include "solver.h"

static const uint32_t powers[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may want the core */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct workload {
    const char *name;
    uint32_t devices, batch, n_degrees;
    double memory;
    uint32_t comm;
    bool one_size;
};

static void run(const struct workload *w, const struct rig_graph *g, uint32_t grouping)
{
    struct gp_options options = {.grouping = grouping, .sp = GP_SP_AUTO, .exact = true};
    struct rig_case c = rig_case_of(g);
    struct part_problem p;
    struct gp_answer answer;
    double start;
    pst_status st;

    c.devices = w->devices;
    c.batch = w->batch;
    c.memory = w->memory;
    c.multiplier = 2;
    c.comm = w->comm;
    c.p2p = 12e3; /* bytes per us */
    c.allreduce = 12e3;
    c.degrees = powers;
    c.n_degrees = w->n_degrees;
    c.b = w->one_size ? 1 : 0;
    if (!w->one_size) {
        c.sizes = powers;
        while (c.n_sizes < 14 && powers[c.n_sizes] <= w->batch) {
            c.n_sizes++;
        }
    }
    rig_problem(&c, &p);
    start = now_s();
    st = gp_solve(&p, &options, &answer);
    printf("%-24s %7u ops %4u devices %2u sizes  %8.1f ms  ", w->name, g->n, w->devices, p.n_sizes,
           (now_s() - start) * 1e3);
    if (st != PST_OK || !answer.found) {
        printf("no plan\n");
    } else {
        printf("b %4u  T %.5g us  depth %u  %llu probes  %llu states%s\n", answer.b,
               answer.value.bottleneck_ns / 1e3, answer.value.depth,
               (unsigned long long)answer.probes, (unsigned long long)answer.states,
               answer.family_optimum ? "" : "  not proven");
    }
}

static void models(double memory, uint32_t comm)
{
    struct workload w = {.devices = 32, .n_degrees = 6, .memory = memory, .comm = comm};
    struct rig_graph g;
    char name[64];

    printf("memory %g, comm %u\n", memory, comm);
    w.name = name;
    snprintf(name, sizeof name, "mmt 4x8");
    w.batch = 512;
    rig_mmt(&g, 4, 8);
    run(&w, &g, GP_CONTIGUOUS);
    rig_graph_finish(&g);
    snprintf(name, sizeof name, "dlrm 7+7");
    w.batch = 2048;
    rig_dlrm(&g, 7, 7, 4);
    run(&w, &g, GP_CONTIGUOUS);
    run(&w, &g, GP_ANY);
    rig_graph_finish(&g);
    snprintf(name, sizeof name, "candle 7");
    w.batch = 8192;
    rig_candle(&g, 7, 2);
    run(&w, &g, GP_CONTIGUOUS);
    rig_graph_finish(&g);
}

enum { CHAIN, NESTED, NEAR, LAYERED };

static void large(uint32_t n, uint32_t comm, int family)
{
    static const char *const names[] = {"chain", "nested", "near series-parallel", "layered"};
    struct workload w = {.name = names[family],
                         .devices = 64,
                         .batch = 64,
                         .n_degrees = 5,
                         .memory = INFINITY,
                         .comm = comm,
                         .one_size = true};
    uint64_t state = 1;
    struct rig_graph g;

    switch (family) {
    case CHAIN:
        rig_chain(&g, n);
        break;
    case NESTED:
        rig_nested(&g, n, 4, 4, 30, &state);
        break;
    case NEAR:
        rig_nearsp(&g, n, 10, &state);
        break;
    default:
        rig_layered(&g, n, 8, 3, 2, &state);
        break;
    }
    rig_costs(&g, RIG_UNIFORM, &state);
    run(&w, &g, GP_CONTIGUOUS);
    rig_graph_finish(&g);
}

int main(int argc, char **argv)
{
    bool all = argc < 2;
    uint32_t comm;

    for (comm = 0; comm < 3 && (all || strcmp(argv[1], "models") == 0); comm++) {
        models(INFINITY, comm);
        models(16e9, comm);
        models(2e9, comm);
        models(5e8, comm);
    }
    if (all || strcmp(argv[1], "large") == 0) {
        for (comm = 0; comm < 2; comm++) {
            for (int family = CHAIN; family <= LAYERED; family++) {
                large(1000, comm, family);
                large(10000, comm, family);
            }
        }
        large(100000, PST_COMM_NONE, CHAIN);
        large(100000, PST_COMM_NONE, NESTED);
        large(100000, PST_COMM_NONE, LAYERED);
    }
    return 0;
}
