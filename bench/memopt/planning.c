/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitions of made-up transformers by the partitioner tideline with memory optimizers behind it,
 * 300 operators on 8 devices and 1000 on 16: seconds of planning (processor time), questions asked,
 * bottleneck; then stages against their proven optimum.
 *
 *   bench-memopt
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ask/problem_partition.h"
#include "ask/problem_file.h"

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void fail(const struct pst_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static struct pst_problem *read_problem(uint32_t n, uint32_t devices, double memory,
                                        const char *memopt, const char *options)
{
    char path[] = "/tmp/penstock-bench-XXXXXX";
    char *text = layers_problem(n, devices, memory, memopt, options);
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};

    if (text == NULL || file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
    free(text);
    if (pst_problem_read(path, &problem, &err) != PST_OK) {
        fail(&err);
    }
    unlink(path);
    return problem;
}

static double remark(const struct pst_partition_result *result, const char *key)
{
    for (uint32_t i = 0; i < result->n_remarks; i++) {
        if (strcmp(result->remarks[i].key, key) == 0) {
            return result->remarks[i].number;
        }
    }
    return 0;
}

static void plan(uint32_t n, uint32_t devices, double memory, const char *memopt,
                 const char *options)
{
    struct pst_problem *problem = read_problem(n, devices, memory, memopt, options);
    const struct pst_problem_job job = {.id = "tideline", .problem = problem};
    struct pst_partition_result result;
    struct pst_error err = {0};
    double start = now_s();
    pst_status st = pst_problem_partition(&job, NULL, NULL, &result, &err);
    double seconds = now_s() - start;

    printf("  %5.1f GiB  %-10s %-24s ", memory / 1073741824, memopt, options);
    if (st == PST_OK) {
        printf("%8.3f s, %6.0f prices, bottleneck %9.1f us\n", seconds, remark(&result, "prices"),
               result.bottleneck_ns / 1000);
        pst_partition_result_finish(&result);
    } else {
        printf("%8.3f s, %s\n", seconds, st == PST_ERR_INFEASIBLE ? "nothing fits" : err.message);
    }
    pst_problem_destroy(problem);
}

static void plan_all(uint32_t n, uint32_t devices, const double *gib, uint32_t n_gib)
{
    static const struct {
        const char *memopt, *options;
    } rows[] = {
        {"two-ended", ""},
        {"two-ended", "\"allow\":\"recompute\""},
        {"dawnpiper", "\"policy\":\"capuchin\""},
        {"adapipe", ""},
        {"full", "\"unit\":\"layer\""},
    };

    printf("%u operators, %u devices\n", n, devices);
    for (uint32_t i = 0; i < n_gib; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            plan(n, devices, gib[i] * 1073741824, rows[k].memopt, rows[k].options);
        }
    }
}

int main(void)
{
    static const double small[] = {2, 1.2, 1, 0.9}, large[] = {4, 2, 1.8, 1.6};

    setvbuf(stdout, NULL, _IOLBF, 0);
    plan_all(300, 8, small, 4);
    plan_all(1000, 16, large, 4);
    measure_quality(12);
    measure_quality(32);
    return 0;
}
