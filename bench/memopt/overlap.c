/* SPDX-License-Identifier: Apache-2.0
 *
 * What it costs to offload, beside passes and not beside them: one device, a transformer, four
 * micro-batches ahead, then backward and forward in turn. The same plan three times: everything
 * kept; everything that backward passes read offloaded, copies beside passes; the same with each
 * copy made alone.
 *
 *   bench-overlap [load [rounds]]
 *
 * load: percent of the kept step that the host link is busy in each direction, 50. Rounds of the
 * three take turns; medians are printed, and their ratios.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/util.h"
#include "exec/exec.h"
#include "job/training.h"
#include "session/session.h"

enum { BATCH = 64, MICROBATCH = 4, MICROS = BATCH / MICROBATCH, AHEAD = 4 };
enum { STEPS = 2, MOST_ROUNDS = 99 };
enum way { KEPT, BESIDE, ALONE, WAYS };

static const char config_text[] =
    "[model]\nuse = 'gpt'\nlayers = 2\ndim = 128\nheads = 4\ncontext = 64\nvocab = 256\n"
    "[train]\nbatch = 64\nmicrobatch = 4\n";

struct bench {
    struct pst_config *config;
    struct pst_job job;
    struct pst_session *session;
    struct pst_plan *plan;
    struct pst_program *program;
    void *inputs[PST_MAX_INPUTS];
    uint64_t bandwidth, link_ns, stall_ns, step_ns[WAYS][MOST_ROUNDS];
};

static void check(pst_status status, const struct pst_error *err)
{
    if (status != PST_OK) {
        fprintf(stderr, "%s\n%s", err->message, err->details);
        exit(pst_error_exit_code(err));
    }
}

static void open_session(struct bench *bench)
{
    struct pst_error err = {0};

    check(pst_config_parse(config_text, sizeof config_text - 1, "bench", &bench->config, &err),
          &err);
    pst_job_set_defaults("cpu", "threads");
    pst_job_set_training(&pst_training_rows);
    check(pst_job_read(bench->config, &bench->job, &err), &err);
    check(pst_session_create(&bench->job, NULL, &bench->session, &err), &err);
    for (uint32_t i = 0; i < bench->session->graph->n_inputs; i++) {
        const struct pst_tensor *tensor = &bench->session->graph->tensors[i];
        int32_t *values = calloc(BATCH * tensor->elems, sizeof *values);

        for (uint64_t k = 0; values != NULL && k < BATCH * tensor->elems; k++) {
            values[k] = (int32_t)(pst_philox(1, i, (uint32_t)k).v[0] % 256);
        }
        bench->inputs[i] = values;
    }
}

static void make_plan(struct bench *bench, bool offload)
{
    const struct pst_graph *graph = bench->session->graph;
    uint32_t n = graph->n_ops, *nodes = calloc(n, sizeof *nodes), rank = 0;
    struct pst_pass order[2 * MICROS];
    const struct pst_pass *orders[] = {order};
    const uint32_t n_passes = 2 * MICROS;
    struct pst_error err = {0};

    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    for (uint32_t j = 0, at = 0; j < MICROS + AHEAD; j++) {
        if (j >= AHEAD) {
            order[at++] = (struct pst_pass){PST_PASS_BW, 0, j - AHEAD};
        }
        if (j < MICROS) {
            order[at++] = (struct pst_pass){PST_PASS_F, 0, j};
        }
    }
    pst_plan_create(graph, BATCH, 1, &bench->plan);
    pst_plan_add_stage(bench->plan, nodes, n, &rank, 1, MICROBATCH, 1);
    if (offload) {
        memset((uint8_t *)(uintptr_t)bench->plan->stages[0].actions, PST_ACTION_OFFLOAD, n);
    }
    bench->plan->barrier = true;
    check(pst_plan_connect(bench->plan, graph, &err), &err);
    check(pst_plan_lower(bench->plan, graph, &bench->session->cost, orders, &n_passes, true, &err),
          &err);
    check(pst_program_create(bench->plan, graph, &bench->session->cost, 0, &bench->program, &err),
          &err);
    free(nodes);
}

static void drop_plan(struct bench *bench)
{
    pst_program_destroy(bench->program);
    pst_plan_destroy(bench->plan);
}

static uint64_t time_steps(struct bench *bench, const struct pst_exec_config *config)
{
    const struct pst_update update = {.optimizer = PST_SGD, .lr = 0.01f, .step = 1};
    struct pst_exec_copies before, after;
    struct pst_batch batch = {.first_sample = 0};
    struct pst_step_result result;
    struct pst_exec *exec;
    struct pst_error err = {0};
    uint64_t begin;

    memcpy(batch.inputs, bench->inputs, sizeof bench->inputs);
    check(pst_exec_create(config, &exec, &err), &err);
    check(pst_exec_step(exec, &batch, &update, &result, &err), &err);
    check(pst_exec_copied(exec, 0, &before, &err), &err);
    begin = pst_now_ns();
    for (uint32_t i = 0; i < STEPS; i++) {
        check(pst_exec_step(exec, &batch, &update, &result, &err), &err);
    }
    begin = pst_now_ns() - begin;
    check(pst_exec_copied(exec, 0, &after, &err), &err);
    if (!config->copies.serial && bench->program->n_copies > 0) {
        bench->link_ns = (after.ns[0] - before.ns[0]) / STEPS;
        bench->stall_ns = (after.stall_ns - before.stall_ns) / STEPS;
    }
    pst_exec_destroy(exec);
    return begin / STEPS;
}

static uint64_t run(struct bench *bench, enum way way)
{
    const struct pst_program *programs[] = {bench->program};
    struct pst_exec_config config = {
        .graph = bench->session->graph,
        .plan = bench->plan,
        .programs = programs,
        .device = bench->session->device_ops,
        .device_config = bench->session->device_config,
        .transport = bench->session->transport_ops,
        .seed = 1,
        .copies = {.bytes_per_s = bench->bandwidth, .serial = way == ALONE},
    };

    return time_steps(bench, &config);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    static struct bench bench;
    uint64_t load = argc > 1 ? strtoull(argv[1], NULL, 10) : 50, moved = 0, ns[WAYS], host;
    uint64_t arena[2];
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 5;

    if (load < 1 || load > 1000 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "bench-overlap [load in percent [rounds]]\n");
        return 2;
    }
    open_session(&bench);
    for (uint32_t r = 0; r < rounds; r++) {
        make_plan(&bench, false);
        bench.step_ns[KEPT][r] = run(&bench, KEPT);
        arena[0] = bench.program->arena_bytes;
        drop_plan(&bench);
        make_plan(&bench, true);
        for (uint32_t c = 0; r == 0 && c < bench.program->n_copies; c++) {
            moved += bench.program->copies[c].out ? bench.program->copies[c].bytes : 0;
        }
        if (r == 0) {
            bench.bandwidth = (uint64_t)((double)moved * 1e9 * 100 / (double)load /
                                         (double)bench.step_ns[KEPT][0]);
        }
        arena[1] = bench.program->arena_bytes;
        host = bench.program->host_bytes;
        bench.step_ns[BESIDE][r] = run(&bench, BESIDE);
        bench.step_ns[ALONE][r] = run(&bench, ALONE);
        drop_plan(&bench);
    }
    for (uint32_t w = 0; w < WAYS; w++) {
        ns[w] = median(bench.step_ns[w], rounds);
    }
    printf("offloaded  %.1f MB a step each way at %.0f MB/s; the link is busy for %.1f ms\n",
           (double)moved / 1e6, (double)bench.bandwidth / 1e6, (double)bench.link_ns / 1e6);
    printf("memory     %.1f MB on the device where all is kept, %.1f MB and %.1f MB in host "
           "memory\n",
           (double)arena[0] / 1e6, (double)arena[1] / 1e6, (double)host / 1e6);
    printf("kept       %.1f ms\n", (double)ns[KEPT] / 1e6);
    printf("beside     %.1f ms, %.2f times; passes stood still for %.1f ms\n",
           (double)ns[BESIDE] / 1e6, (double)ns[BESIDE] / (double)ns[KEPT],
           (double)bench.stall_ns / 1e6);
    printf("alone      %.1f ms, %.2f times\n", (double)ns[ALONE] / 1e6,
           (double)ns[ALONE] / (double)ns[KEPT]);
    pst_session_destroy(bench.session);
    pst_job_finish(&bench.job);
    pst_config_destroy(bench.config);
    for (uint32_t i = 0; i < PST_MAX_INPUTS; i++) {
        free(bench.inputs[i]);
    }
    return 0;
}
