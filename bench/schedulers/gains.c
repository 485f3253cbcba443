/* SPDX-License-Identifier: Apache-2.0
 *
 * What the choices of zb-auto, v-zb, v-half and v-min are worth: an objective that fits the
 * optimizer, blocks that fit few micro-batches, costs of each stage instead of one for all.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/philox.h"

#define BENCH_MOST_STAGES 16 /* of chains whose stages differ */

struct profile {
    const char *model;
    uint32_t h, heads, p, m, f, b, w, c; /* microseconds */
};

/* Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024: times of one stage on A100.
 */
static const struct profile profiles[] = {
    {"1.5B", 2304, 24, 8, 24, 18522, 18086, 9337, 601},
    {"1.5B", 2304, 24, 8, 32, 18513, 18086, 9331, 626},
    {"1.5B", 2304, 24, 8, 64, 18546, 18097, 9321, 762},
    {"6.2B", 4096, 32, 8, 24, 29718, 29444, 19927, 527},
    {"6.2B", 4096, 32, 8, 32, 29802, 29428, 19530, 577},
    {"6.2B", 4096, 32, 8, 64, 29935, 29621, 19388, 535},
    {"14.6B", 5120, 40, 16, 48, 11347, 11248, 8132, 377},
    {"14.6B", 5120, 40, 16, 64, 11307, 11254, 8101, 379},
    {"14.6B", 5120, 40, 16, 128, 11325, 11308, 8109, 378},
    {"28.3B", 6144, 48, 32, 96, 10419, 10207, 7715, 408},
    {"28.3B", 6144, 48, 32, 128, 10408, 10204, 7703, 408},
    {"28.3B", 6144, 48, 32, 256, 10402, 10248, 7698, 460},
};

static double rate(uint64_t cost, uint64_t work)
{
    return (double)(cost - work) / (double)cost;
}

/* Both orders under a barrier: what counts is the makespan. */
static void barrier_gains(const char *id, uint32_t chunks)
{
    printf(
        "\n%s under a barrier: bubble of the makespan, memory in bytes x micro-batches of a stage\n"
        "model    p    m   made for span      made for makespan\n",
        id);
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        const struct profile *x = &profiles[i];
        struct bench_question q = {.id = id,
                                   .options = "objective=span",
                                   .p = x->p,
                                   .m = x->m,
                                   .f = x->f / chunks,
                                   .b = x->b / chunks,
                                   .w = x->w / chunks,
                                   .c = x->c,
                                   .saved = 34 * x->h + 5 * x->heads * 1024,
                                   .saved_weight = 32 * x->h,
                                   .barrier = true};
        struct bench_answer span = bench_ask(&q), makespan;
        double unit = (double)q.saved * chunks;

        q.options = "objective=makespan";
        makespan = bench_ask(&q);
        printf("%-5s %4u %4u   %.4f (%5.1f)     %.4f (%5.1f)\n", x->model, x->p, x->m,
               rate(span.makespan, span.work), (double)span.peak / unit,
               rate(makespan.makespan, makespan.work), (double)makespan.peak / unit);
    }
}

static void block_gains(const char *id)
{
    printf("\n%s, unit times: bubble of the published block / of the best block (peak)\n p   m=",
           id);
    for (uint32_t m = 1; m <= 8; m++) {
        printf("%12u", m);
    }
    printf("%12s\n", "2p");
    for (uint32_t p = 2; p <= 14; p++) {
        printf("%2u     ", p);
        for (uint32_t i = 1; i <= 9; i++) {
            uint32_t m = i < 9 ? i : 2 * p;
            struct bench_question q = {
                .id = id, .options = "", .p = p, .m = m, .f = 1, .b = 1, .w = 1};
            struct bench_answer a = bench_ask(&q), b;

            q.options = "variant=improved";
            b = bench_ask(&q);
            printf("  %2u/%2u (%2u)", (unsigned)(a.makespan - a.work),
                   (unsigned)(b.makespan - b.work), (unsigned)b.peak);
        }
        printf("\n");
    }
}

/* --- stages that differ --- */

struct spread {
    uint64_t seed;
    uint32_t percent; /* up and down */
};

static uint64_t vary(uint64_t value, const struct spread *spread, uint32_t s, uint32_t kind)
{
    struct pst_philox r = pst_philox(spread->seed, kind, s);
    uint64_t width = 2 * spread->percent + 1;

    return value * (100 - spread->percent + r.v[0] % width) / 100;
}

static void vary_stages(struct pst_order_question *asked, const void *context)
{
    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        struct pst_schedule_stage *stage = &asked->stages[s];

        stage->forward_ns = vary(stage->forward_ns, context, s, 1);
        stage->backward_input_ns = vary(stage->backward_input_ns, context, s, 2);
        stage->backward_weight_ns = vary(stage->backward_weight_ns, context, s, 3);
    }
}

static int compare(const void *a_, const void *b_)
{
    uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

    return (a > b) - (a < b);
}

/* Every stage costs what the middle one of the varied stages does. */
static void even_out(struct pst_order_question *asked, const void *context)
{
    uint64_t times[3][BENCH_MOST_STAGES];
    uint32_t n = asked->in.n_stages;

    vary_stages(asked, context);
    for (uint32_t s = 0; s < n; s++) {
        times[0][s] = asked->stages[s].forward_ns;
        times[1][s] = asked->stages[s].backward_input_ns;
        times[2][s] = asked->stages[s].backward_weight_ns;
    }
    for (uint32_t k = 0; k < 3; k++) {
        qsort(times[k], n, sizeof times[k][0], compare);
    }
    for (uint32_t s = 0; s < n; s++) {
        asked->stages[s].forward_ns = times[0][n / 2];
        asked->stages[s].backward_input_ns = times[1][n / 2];
        asked->stages[s].backward_weight_ns = times[2][n / 2];
    }
}

/* The order that one cost for all stages gives, run on stages that differ. */
static struct bench_answer blind(const struct bench_question *q)
{
    struct bench_question even = *q;
    struct pst_instance *instance = NULL;
    struct pst_order_question asked, real;
    struct pst_orders answer;
    struct pst_order_eval eval;
    struct pst_error err = {0};
    struct bench_answer a = {0};

    even.change = even_out;
    bench_open(&even, &instance, &asked);
    if (pst_orders_ask(instance, &asked.in, NULL, NULL, &answer, &err) != PST_OK) {
        return a;
    }
    pst_instance_destroy(instance);
    bench_open(q, &instance, &real);
    if (pst_order_evaluate(&real.in, (const struct pst_pass *const *)answer.passes[1],
                           answer.n_passes[1], &eval, &err) == PST_OK) {
        a = (struct bench_answer){eval.makespan_ns, eval.span_ns, eval.work_ns, 0};
        pst_order_eval_finish(&eval);
    }
    pst_orders_finish(&answer);
    pst_order_question_finish(&asked);
    pst_order_question_finish(&real);
    pst_instance_destroy(instance);
    return a;
}

static void stage_gains(const char *id, bool barrier)
{
    printf("\n%s, stages that differ, %s: mean bubble of 40 chains of 8 devices, 32 micro-batches, "
           "times 100,100,60\nspread   one cost   cost of each stage   cost less, mean and most\n",
           id, barrier ? "barrier" : "no barrier");
    for (uint32_t percent = 5; percent <= 40; percent *= 2) {
        double even = 0, each = 0, gain = 0, most = 0;

        for (uint64_t seed = 1; seed <= 40; seed++) {
            struct spread spread = {seed, percent};
            struct bench_question q = {.id = id,
                                       .options = "",
                                       .p = 8,
                                       .m = 32,
                                       .f = 100000,
                                       .b = 100000,
                                       .w = 60000,
                                       .c = 2000,
                                       .barrier = barrier,
                                       .change = vary_stages,
                                       .context = &spread};
            struct bench_answer a = blind(&q), b = bench_ask(&q);
            uint64_t ca = barrier ? a.makespan : a.span, cb = barrier ? b.makespan : b.span;
            double less = 1 - (double)cb / (double)ca;

            even += rate(ca, a.work) / 40;
            each += rate(cb, b.work) / 40;
            gain += less / 40;
            most = less > most ? less : most;
        }
        printf("%5u%%   %.4f     %.4f               %.2f%%  %.2f%%\n", percent, even, each,
               100 * gain, 100 * most);
    }
}

void bench_gains(void)
{
    barrier_gains("zb-auto", 1);
    barrier_gains("v-zb", 2);
    block_gains("v-min");
    block_gains("v-half");
    stage_gains("zb-auto", false);
    stage_gains("zb-auto", true);
    stage_gains("v-zb", false);
    stage_gains("v-zb", true);
}
