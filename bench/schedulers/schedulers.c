/* SPDX-License-Identifier: Apache-2.0
 *
 * Times schedule() of the schedulers that search:
 *
 *   bench-schedulers         CPU seconds per call, best of five, on one core
 *   bench-schedulers gains   bubbles that the choices of these schedulers save
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/config.h"
#include "host/plugin_host.h"
#include "order_chain.h"

static void check(pst_status status, const struct pst_error *err)
{
    if (status != PST_OK) {
        fprintf(stderr, "%s\n%s\n", err->message, err->details);
        exit(pst_error_exit_code(err));
    }
}

void bench_open(const struct bench_question *q, struct pst_instance **ret_instance,
                struct pst_order_question *ret_asked)
{
    static const struct pst_host_context context = {.impl = NULL};
    const struct pst_order_question_costs costs = {
        .latency_ns = q->c, .limit_bytes = UINT64_MAX, .barrier = q->barrier};
    const struct pst_plugin *plugin;
    struct pst_config *config = NULL;
    struct pst_error err = {0};

    check(pst_plugin_find("scheduler", q->id, NULL, NULL, &plugin, &err), &err);
    check(pst_config_from_list(q->options, &config, &err), &err);
    check(pst_instance_create(plugin, config->root, &context, ret_instance, &err), &err);
    pst_config_destroy(config);
    check(order_chain(*ret_instance, q->p, q->m, &costs, ret_asked, &err), &err);
    for (uint32_t s = 0; s < ret_asked->in.n_stages; s++) {
        ret_asked->stages[s].forward_ns = q->f;
        ret_asked->stages[s].backward_input_ns = q->b;
        ret_asked->stages[s].backward_weight_ns = q->w;
        ret_asked->stages[s].saved_bytes = q->saved == 0 ? 1 : q->saved;
        ret_asked->stages[s].saved_weight_bytes = q->saved == 0 ? 1 : q->saved_weight;
    }
    if (q->change != NULL) {
        q->change(ret_asked, q->context);
    }
}

struct bench_answer bench_ask(const struct bench_question *q)
{
    struct pst_instance *instance = NULL;
    struct pst_order_question asked;
    struct pst_orders answer;
    struct pst_order_eval eval;
    struct pst_error err = {0};
    struct bench_answer a = {0};

    bench_open(q, &instance, &asked);
    check(pst_orders_ask(instance, &asked.in, NULL, NULL, &answer, &err), &err);
    check(pst_order_evaluate(&asked.in, (const struct pst_pass *const *)answer.passes[1],
                             answer.n_passes[1], &eval, &err),
          &err);
    a = (struct bench_answer){eval.makespan_ns, eval.span_ns, eval.work_ns, 0};
    for (uint32_t d = 0; d < q->p; d++) {
        a.peak = eval.peak_bytes[d] > a.peak ? eval.peak_bytes[d] : a.peak;
    }
    pst_order_eval_finish(&eval);
    pst_orders_finish(&answer);
    pst_order_question_finish(&asked);
    pst_instance_destroy(instance);
    return a;
}

/* Counts what is emitted and keeps nothing. */
static pst_status count(struct pst_schedule_out *out, uint32_t device, uint32_t pass,
                        uint32_t stage, uint32_t microbatch)
{
    (void)device;
    (void)pass;
    (void)stage;
    (void)microbatch;
    ++*(uint64_t *)out->impl;
    return PST_OK;
}

/* Of this thread: what else runs on the machine counts little. */
static uint64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double bench_time(const struct bench_question *q)
{
    struct pst_instance *instance = NULL;
    struct pst_order_question asked;
    uint64_t n, best = UINT64_MAX;

    bench_open(q, &instance, &asked);
    for (uint32_t i = 0; i < 5; i++) {
        struct pst_schedule_out out = {.size = sizeof out, .impl = &n, .emit = count};
        const struct pst_scheduler *functions = instance->plugin->get_interface(PST_SCHEDULER);
        uint64_t begin = cpu_ns(), took;

        n = 0;
        if (functions->schedule(instance->self, &asked.in, &out) != PST_OK) {
            fprintf(stderr, "%s fails\n", q->id);
            exit(4);
        }
        took = cpu_ns() - begin;
        best = took < best ? took : best;
    }
    if (n != (uint64_t)3 * asked.in.n_stages * q->m) {
        fprintf(stderr, "%s emits %llu passes\n", q->id, (unsigned long long)n);
        exit(4);
    }
    pst_order_question_finish(&asked);
    pst_instance_destroy(instance);
    return (double)best * 1e-9;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *id;
        bool half; /* room for half a micro-batch per device */
    } rows[] = {{"zb-auto", false},
                {"zb-auto", true},
                {"v-zb", false},
                {"v-half", false},
                {"v-min", false}};
    static const uint32_t sizes[][2] = {{8, 32}, {64, 256}, {128, 512}};
    static const uint32_t costs[][4] = {{1, 1, 1, 0}, {10, 10, 6, 0}, {104, 102, 77, 4}};

    if (argc > 1 && strcmp(argv[1], "gains") == 0) {
        bench_gains();
        return 0;
    }
    printf("%-13s %8s %14s %9s %9s\n", "", "p x m", "tF,tB,tW,c", "span", "makespan");
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            for (uint32_t c = 0; c < 3; c++) {
                char options[40];
                struct bench_question q = {.id = rows[i].id,
                                           .options = options,
                                           .p = sizes[k][0],
                                           .m = sizes[k][1],
                                           .f = costs[c][0],
                                           .b = costs[c][1],
                                           .w = costs[c][2],
                                           .c = costs[c][3]};
                double span, makespan;

                snprintf(options, sizeof options, "memory_limit=%u", q.p / 2);
                options[0] = rows[i].half ? options[0] : '\0';
                span = bench_time(&q);
                q.barrier = true;
                makespan = bench_time(&q);
                printf("%-8s %4s %3ux%-4u %4u,%u,%u,%u%*s %9.4f %9.4f\n", rows[i].id,
                       rows[i].half ? "half" : "", q.p, q.m, costs[c][0], costs[c][1], costs[c][2],
                       costs[c][3], 2, "", span, makespan);
            }
        }
    }
    return 0;
}
