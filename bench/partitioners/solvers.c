/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the solvers that partitioners share take on large problems, in CPU time, and how far
 * from a proven bound their answers are. Per line: problem, devices, seconds, values of T tried or
 * orders cut, T over the bound, whether the order's optimum is proven.
 */
#include "refine.h"
#include "partition_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void cut_order(const char *name, const struct rig_case *c, uint32_t kind)
{
    struct part_chain_stats stats = {false, 0, 0};
    struct part_chain_limits limits = {
        .below = INT64_MAX, .memory = !isinf(c->memory), .stats = &stats};
    struct part_plan plan = {NULL, 0};
    struct part_problem p;
    struct part_costs costs;
    uint32_t *order = calloc(c->graph->n, sizeof *order);
    bool found = false;
    int64_t ticks = 0, bound;
    double start;

    rig_problem(c, &p);
    if (order == NULL) {
        exit(1);
    }
    part_costs_init(&p, c->b, &costs);
    part_order(&p, kind, NULL, order);
    start = seconds();
    part_chain_solve(&p, &costs, order, &limits, &found, &ticks, &plan);
    bound = part_lower_bound(&p, &costs);
    printf("%-36s %6u ops %5u devices %8.3f s %4llu probes  ", name, c->graph->n, c->devices,
           seconds() - start, (unsigned long long)stats.probes);
    if (found) {
        printf("T/bound %.6f, %u stages%s\n", (double)ticks / (double)bound, plan.n_stages,
               stats.exact ? ", proven for the order" : "");
    } else {
        printf("nothing fits%s\n", stats.exact ? ", proven for the order" : "");
    }
    part_plan_finish(&plan);
    free(order);
}

static double memory_of(const struct rig_graph *g, const struct rig_case *c, double share)
{
    double sum = 0;

    for (uint32_t v = 0; v < g->n; v++) {
        sum += c->multiplier * g->weight[v] + (double)c->b * g->saved[v];
    }
    return sum / c->devices * share;
}

static void chains(uint32_t n, uint32_t devices, uint32_t n_degrees)
{
    static const uint32_t degrees[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
    static const char *const names[] = {"transfers free", "transfers added", "transfers overlap"};
    uint64_t state = 1;
    struct rig_graph g;
    char name[64];

    rig_chain(&g, n);
    rig_costs(&g, RIG_UNIFORM, &state);
    for (int memory = 0; memory < 2; memory++) {
        for (uint32_t comm = 0; comm < 3; comm++) {
            struct rig_case c = rig_case_of(&g);

            c.devices = devices;
            c.b = 1024;
            c.batch = 1024 * 64;
            c.degrees = degrees;
            c.n_degrees = n_degrees;
            c.comm = comm;
            c.p2p = 1;
            c.allreduce = 1;
            snprintf(name, sizeof name, "chain, %s%s", names[comm], memory ? ", memory" : "");
            if (memory) {
                c.b = n_degrees == 1 ? 1 : 1024;
                c.memory = memory_of(&g, &c, n_degrees == 1 ? 64 : 40);
            }
            cut_order(name, &c, PART_ORDER_INDEX);
        }
    }
    rig_graph_finish(&g);
}

static void solve_graph(const char *name, const struct rig_case *c)
{
    struct part_refine_stats stats;
    struct part_plan plan = {NULL, 0};
    struct part_problem p;
    struct part_costs costs;
    bool found = false;
    double start;

    rig_problem(c, &p);
    part_costs_init(&p, c->b, &costs);
    start = seconds();
    part_dag_solve(&p, &costs, NULL, &found, &plan, &stats);
    printf("%-36s %6u ops %5u devices %8.3f s %4llu orders  ", name, c->graph->n, c->devices,
           seconds() - start, (unsigned long long)stats.orders);
    if (found) {
        printf("T/bound %.6f, %u stages, %llu moves%s\n", (double)stats.ticks / (double)stats.bound,
               plan.n_stages, (unsigned long long)stats.moves, stats.optimal ? ", optimal" : "");
    } else {
        printf("nothing found\n");
    }
    part_plan_finish(&plan);
}

static void graphs(uint32_t n, uint32_t devices, bool nested)
{
    static const char *const names[] = {"transfers free", "transfers added", "transfers overlap"};
    uint64_t state = 1;
    struct rig_graph g;
    char name[64];

    if (nested) {
        rig_nested(&g, n, 4, 6, 30, &state);
    } else {
        rig_layered(&g, n, 8, 3, 2, &state);
    }
    rig_costs(&g, RIG_UNIFORM, &state);
    for (int memory = 0; memory < 2; memory++) {
        for (uint32_t comm = 0; comm < 3; comm++) {
            struct rig_case c = rig_case_of(&g);

            c.devices = devices;
            c.batch = 64;
            c.comm = comm;
            c.p2p = 1;
            snprintf(name, sizeof name, "%s, %s%s", nested ? "nested" : "layered", names[comm],
                     memory ? ", memory" : "");
            c.memory = memory ? memory_of(&g, &c, 3) : INFINITY;
            solve_graph(name, &c);
        }
    }
    rig_graph_finish(&g);
}

/* chain: cuts of orders; graph: whole graphs, "graph N DEVICES NESTED" one kind; without an
   argument all. */
int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || strcmp(argv[1], "chain") == 0) {
        chains(100000, 1024, 1);
        chains(100000, 1024, 5);
        chains(100000, 1024, 11);
        chains(1000000, 1024, 5);
    }
    if (argc < 2 || (argc == 2 && strcmp(argv[1], "graph") == 0)) {
        graphs(1000, 16, false);
        graphs(10000, 64, false);
        graphs(100000, 64, false);
        graphs(1000, 16, true);
        graphs(100000, 64, true);
    }
    if (argc == 5) { /* one: n devices nested */
        graphs((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), atoi(argv[4]) != 0);
    }
    return 0;
}
