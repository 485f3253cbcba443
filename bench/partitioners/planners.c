/* SPDX-License-Identifier: Apache-2.0
 *
 * Planners side by side on the models of GraphPipe's evaluation (Jeon et al., ASPLOS 2025): seconds
 * of search over all sizes of micro-batches, the fastest of five runs and those of graphpipe's
 * time, and the bottleneck by the reference cost model. 16 GiB a device, 100 Gb/s, transfers not
 * hidden, weights and gradients. Every planner on one thread. pipedream: its recurrence over one
 * order with the model's own costs, and with those of the released program.
 *
 *   bench-planners [SECONDS]      a planner that takes longer is stopped (default 60)
 *   bench-planners -p FILE...     the same planners on problem files
 *   bench-planners -l             20 000 operators in layers, pipedream-2bw and chain-dp as well
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ask/problem_file.h"
#include "partition_rig.h"
#include "ask/problem_partition.h"

static const struct {
    const char *name, *id, *options;
} planners[] = {
    {"graphpipe", "graphpipe", "{}"},
    {"stage-graph", "stage-graph", "{\"refine\":\"true\"}"},
    {"pipedream, reference", "pipedream", "{\"objective\":\"reference\"}"},
    {"pipedream, released", "pipedream", NULL},
    {"piper", "piper", NULL},
    {"dapple", "dapple", NULL},
    {"pipedream-2bw", "pipedream-2bw", NULL},
    {"chain-dp", "chain-dp", NULL},
};

enum { N_PLANNERS = 6, N_LONG = sizeof planners / sizeof planners[0], RUNS = 5 };

static double limit_s = 60, stop_at, graphpipe_s;

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool too_late(void)
{
    return now_s() > stop_at;
}

static void report(const struct pst_partition_result *result, int planner, double least_s)
{
    graphpipe_s = planner == 0 ? least_s : graphpipe_s;
    printf("  %-20s %9.4f s %7.1f  T %12.4f us  step %12.1f us  %2u stages\n",
           planners[planner].name, least_s, least_s / graphpipe_s, result->bottleneck_ns / 1000,
           result->step_ns / 1000, result->n_stages);
}

/* One planner on a problem file; its own options come on top. */
static void ask(const char *path, int planner)
{
    struct pst_problem *problem = NULL;
    struct pst_partition_result result;
    struct pst_error err = {0};
    double least_s = INFINITY;
    struct pst_problem_job job = {.id = planners[planner].id};
    pst_status st = pst_problem_read(path, &problem, &err);

    if (st != PST_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    if (planners[planner].options != NULL) {
        json_decref(problem->options);
        problem->options = json_loads(planners[planner].options, 0, NULL);
    }
    job.problem = problem;
    for (int run = 0; run < RUNS; run++) {
        stop_at = now_s() + limit_s;
        st = pst_problem_partition(&job, NULL, too_late, &result, &err);
        if (st != PST_OK) {
            break;
        }
        least_s = fmin(least_s, result.search_seconds);
        if (run + 1 == RUNS || result.search_seconds > 2) { /* such a time says enough */
            report(&result, planner, least_s);
            run = RUNS;
        }
        pst_partition_result_finish(&result);
    }
    if (st != PST_OK) {
        printf("  %-20s %.100s\n", planners[planner].name,
               st == PST_ERR_CANCELLED ? "stopped" : err.message);
    }
    pst_problem_destroy(problem);
}

static void compare(const struct rig_graph *g, const char *name, uint32_t devices,
                    uint32_t samples_a_device, int n_planners)
{
    static const uint32_t degrees[] = {1, 2, 4, 8, 16, 32};
    uint32_t sizes[16], n = 0;
    char path[] = "/tmp/penstock-bench-XXXXXX";
    struct rig_case c = rig_case_of(g);
    FILE *file;
    char *text;
    int fd;

    c.devices = devices;
    c.batch = devices * samples_a_device;
    for (uint32_t b = 1; b <= c.batch && n < 16; b *= 2) {
        sizes[n++] = b;
    }
    c.sizes = sizes;
    c.n_sizes = n;
    c.b = sizes[n - 1];
    c.degrees = degrees;
    for (c.n_degrees = 0; c.n_degrees < 6 && degrees[c.n_degrees] <= devices; c.n_degrees++) {
    }
    c.memory = 16.0 * 1024 * 1024 * 1024;
    c.multiplier = 2;
    c.comm = PST_COMM_SUM;
    c.p2p = c.allreduce = 12500;
    text = rig_problem_json(&c, NULL);
    fd = mkstemp(path);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    if (text == NULL || file == NULL) {
        exit(1);
    }
    fputs(text, file);
    fclose(file);
    free(text);
    printf("%s, %u operators, %u devices, mini-batch %u\n", name, g->n, devices, c.batch);
    for (int i = 0; i < n_planners; i++) {
        ask(path, i);
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    struct rig_graph g;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "-p") == 0) {
        for (int f = 2; f < argc; f++) {
            printf("%s\n", argv[f]);
            for (int i = 0; i < N_PLANNERS; i++) {
                ask(argv[f], i);
            }
        }
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        uint64_t state = 1;

        rig_layered(&g, 20000, 8, 3, 3, &state);
        rig_costs(&g, RIG_UNIFORM, &state);
        compare(&g, "layers of 8", 16, 1, N_LONG);
        rig_graph_finish(&g);
        return 0;
    }
    if (argc > 1) {
        limit_s = atof(argv[1]);
    }
    for (uint32_t devices = 4; devices <= 32; devices *= 2) {
        rig_mmt(&g, 2, 8);
        compare(&g, "MMT, 2 branches", devices, 16, N_PLANNERS);
        rig_graph_finish(&g);
        rig_mmt(&g, 4, 8);
        compare(&g, "MMT, 4 branches", devices, 16, N_PLANNERS);
        rig_graph_finish(&g);
        rig_dlrm(&g, 7, 7, 4);
        compare(&g, "DLRM, 7 + 7 branches", devices, 64, N_PLANNERS);
        rig_graph_finish(&g);
        rig_candle(&g, 7, 2);
        compare(&g, "CANDLE-Uno, 7 branches", devices, 256, N_PLANNERS);
        rig_graph_finish(&g);
    }
    return 0;
}
