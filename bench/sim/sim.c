/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast simulator and checker go through lists: 1F1B over many devices, lowered, on one core.
 *
 *     bench-sim [devices] [micro-batches] [runs]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "models/builder.h"
#include "prove/check.h"
#include "sim/sim.h"

struct bench {
    uint32_t devices, microbatches, runs;
    struct pst_graph *graph;
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    struct pst_plan *plan;
};

static void die(const struct pst_error *err)
{
    fprintf(stderr, "bench-sim: %s\n%s\n", err->message, err->details);
    exit(1);
}

/* A linear operator a device, and the loss. */
static void build_graph(struct bench *bench)
{
    const uint64_t dims[2] = {16, 16};
    struct pst_graph_builder *b = NULL;
    struct pst_error err = {0};

    if (pst_graph_builder_create("chain", PST_F32, &b, &err) != PST_OK) {
        die(&err);
    }
    uint32_t x = pst_graph_input(b, "x", PST_FIELD_X, PST_F32, 1, dims);
    uint32_t target = pst_graph_input(b, "target", PST_FIELD_TARGET, PST_I32, 0, dims);
    for (uint32_t d = 0; d < bench->devices; d++) {
        char name[32];
        snprintf(name, sizeof name, "layer%u", d);
        uint32_t w = pst_graph_param(b, name, 2, dims, PST_INIT_NORMAL, 1, false);
        snprintf(name, sizeof name, "linear%u", d);
        pst_graph_layer(b, d);
        x = pst_graph_add(b, &(struct pst_op){.kind = PST_OP_LINEAR,
                                              .name = name,
                                              .n_in = 1,
                                              .in = &x,
                                              .n_param = 1,
                                              .param = &w,
                                              .act = PST_ACT_RELU});
    }
    const uint32_t in[2] = {x, target};
    uint32_t loss = pst_graph_add(
        b, &(struct pst_op){.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in});
    if (pst_graph_finish(b, loss, x, &bench->graph, &err) != PST_OK) {
        die(&err);
    }
    pst_graph_builder_destroy(b);
}

static void build_plan(struct bench *bench)
{
    uint32_t p = bench->devices, m = bench->microbatches;
    struct pst_pass **orders = calloc(p, sizeof *orders);
    uint32_t *n_passes = calloc(p, sizeof *n_passes);
    struct pst_error err = {0};
    pst_status st = PST_OK;

    pst_plan_create(bench->graph, m, p, &bench->plan);
    for (uint32_t d = 0; d < p && st == PST_OK; d++) {
        const uint32_t nodes[2] = {d, d + 1};
        uint32_t f = 0;

        pst_plan_add_stage(bench->plan, nodes, d + 1 == p ? 2 : 1, &d, 1, 1, 1);
        orders[d] = calloc(2 * (size_t)m, sizeof **orders);
        for (; f < p - 1 - d && f < m; f++) {
            orders[d][n_passes[d]++] = (struct pst_pass){PST_PASS_F, d, f};
        }
        for (uint32_t b = 0; b < m; b++) {
            if (f < m) {
                orders[d][n_passes[d]++] = (struct pst_pass){PST_PASS_F, d, f++};
            }
            orders[d][n_passes[d]++] = (struct pst_pass){PST_PASS_BW, d, b};
        }
    }
    if (st == PST_OK) {
        st = pst_plan_connect(bench->plan, bench->graph, &err);
    }
    if (st == PST_OK) {
        st = pst_plan_lower(bench->plan, bench->graph, &bench->cost,
                            (const struct pst_pass *const *)orders, n_passes, true, &err);
    }
    if (st != PST_OK) {
        die(&err);
    }
    for (uint32_t d = 0; d < p; d++) {
        free(orders[d]);
    }
    free(orders);
    free(n_passes);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void simulate(const struct bench *bench)
{
    struct pst_error err = {0};
    uint64_t makespan;
    if (pst_sim_run(bench->plan, bench->graph, &bench->cost, NULL, NULL, &makespan, &err) !=
        PST_OK) {
        die(&err);
    }
}

static void check(const struct bench *bench)
{
    static struct pst_check_report report;
    const struct pst_check_limits limits = {0};
    struct pst_error err = {0};
    if (pst_plan_check(bench->plan, bench->graph, &limits, NULL, &report, &err) != PST_OK) {
        die(&err);
    }
}

/* Seconds of CPU time, fastest and median. */
static void measure(const struct bench *bench, void (*run)(const struct bench *), double *ret_least,
                    double *ret_median)
{
    double *seconds = calloc(bench->runs, sizeof *seconds);
    for (uint32_t i = 0; i < bench->runs; i++) {
        double start = now();
        run(bench);
        seconds[i] = now() - start;
    }
    qsort(seconds, bench->runs, sizeof *seconds, by_value);
    *ret_least = seconds[0];
    *ret_median = seconds[bench->runs / 2];
    free(seconds);
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .devices = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 64,
        .microbatches = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 512,
        .runs = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 15,
        .cluster = {.launch_overhead = 1000, .link_bandwidth = 1000000000, .link_latency = 1000},
    };
    static const char *const names[] = {"simulator", "checker"};
    void (*const runs[])(const struct bench *) = {simulate, check};
    uint64_t n = 0;

    if (bench.devices < 1 || bench.microbatches < 1 || bench.runs < 1) {
        fputs("bench-sim [devices] [micro-batches] [runs]\n", stderr);
        return 2;
    }
    build_graph(&bench);
    bench.cost = (struct pst_cost_model){.graph = bench.graph, .cluster = &bench.cluster};
    build_plan(&bench);
    for (uint32_t d = 0; d < bench.devices; d++) {
        n += bench.plan->devices[d].n_instrs;
    }
    printf("1f1b, %u devices, %u micro-batches, %llu instructions, %u runs on one core\n",
           bench.devices, bench.microbatches, (unsigned long long)n, bench.runs);
    for (uint32_t i = 0; i < 2; i++) {
        double least, median;
        measure(&bench, runs[i], &least, &median);
        printf("%-10s %7.2f ms median, %7.2f ms fastest, %6.1f million instructions/s\n", names[i],
               median * 1e3, least * 1e3, (double)n / median / 1e6);
    }
    pst_plan_destroy(bench.plan);
    pst_graph_destroy(bench.graph);
    return 0;
}
