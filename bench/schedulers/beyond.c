/* SPDX-License-Identifier: Apache-2.0
 *
 * v-adaptive beside the published schedules of a V, each time under the memory that the published
 * one takes, device by device. Costs are in passes of one chunk where they are equal, else in the
 * units given; memory in chunks of one micro-batch.
 *
 *     bench-beyond [effort]
 */
#include <stdio.h>
#include <stdlib.h>

#include "instance.h"

static const char *effort = "effort=1";

struct line {
    const char *what, *method, *options; /* options of v-adaptive beside effort; NULL: none */
    struct bench_instance x;
    double noise;
    uint64_t optimum; /* proven by exhaustive search; 0: not known */
    uint64_t cap;     /* bytes for v-adaptive instead of what the other takes; 0: as the other */
};

/* Bytes of a chunk in equal instances: peaks print as chunks. */
enum { CHUNK = 1000, UNIT = 1000 };

static void print_cost(uint64_t ns)
{
    if (ns == 0) {
        printf(" %8s", "-");
    } else {
        printf(" %8.1f", (double)ns / UNIT);
    }
}

static void run(const struct line *line)
{
    struct bench_figures theirs, ours;
    struct bench_instance x = line->x;
    uint64_t caps[64], bound;
    char options[128];

    bench_measure(line->method, "", &line->x, line->noise, &theirs);
    if (!theirs.found) {
        printf("%-22s %-8s refuses p=%u m=%u\n", line->what, line->method, x.p, x.m);
        return;
    }
    for (uint32_t d = 0; d < x.p; d++) {
        caps[d] = line->cap > 0 ? line->cap : theirs.most;
    }
    x.caps = caps;
    snprintf(options, sizeof options, "%s%s%s", effort, line->options == NULL ? "" : ",",
             line->options == NULL ? "" : line->options);
    bench_measure("v-adaptive", options, &x, line->noise, &ours);
    if (!ours.found) {
        printf("%-22s v-adaptive finds nothing\n", line->what);
        return;
    }
    bound = x.barrier ? ours.bound_makespan : ours.bound_span;
    printf("%-22s %2u %3u  %-9s %5.1f", line->what, x.p, x.m, line->method,
           (double)theirs.most / CHUNK);
    print_cost(x.barrier ? theirs.makespan : theirs.span);
    printf(" %5.1f", (double)ours.most / CHUNK);
    print_cost(x.barrier ? ours.makespan : ours.span);
    print_cost(line->optimum > 0 ? line->optimum * UNIT : bound);
    printf("%s", line->optimum > 0 ? "*" : " ");
    printf(" %6.1f%%", 100.0 * ((double)(x.barrier ? theirs.makespan : theirs.span) /
                                    (double)(x.barrier ? ours.makespan : ours.span) -
                                1.0));
    if (line->noise > 0.0) {
        printf("  q50 %.1f -> %.1f  q90 %.1f -> %.1f", theirs.median / UNIT, ours.median / UNIT,
               theirs.late / UNIT, ours.late / UNIT);
    }
    printf("  %.3f s\n", ours.seconds);
}

/* Costs of a share are those of its two chunks together. */
#define X(P, M, F, B, W)                                                                           \
    .p = (P), .m = (M), .f = 2 * UNIT * (F), .b = 2 * UNIT * (B), .w = 2 * UNIT * (W),             \
    .saved = 2 * CHUNK, .saved_weight = 2 * CHUNK

/* Embedding at one end, vocabulary and loss at the other: both stages of device 0 are the heavier.
 */
static void ends_heavier(struct pst_order_question *asked)
{
    uint32_t last = asked->in.n_stages - 1;

    asked->stages[0].forward_ns += asked->stages[0].forward_ns / 4;
    asked->stages[0].backward_weight_ns += asked->stages[0].backward_weight_ns / 2;
    asked->stages[last].forward_ns += asked->stages[last].forward_ns / 2;
    asked->stages[last].backward_input_ns += asked->stages[last].backward_input_ns / 2;
    asked->stages[last].backward_weight_ns += asked->stages[last].backward_weight_ns / 2;
}

/* Stages cost from 0.75 to 1.25 of the mean. */
static void rising(struct pst_order_question *asked)
{
    uint32_t n = asked->in.n_stages;

    for (uint32_t s = 0; s < n; s++) {
        uint64_t parts = 3 * (n - 1) + 2 * s;

        asked->stages[s].forward_ns = asked->stages[s].forward_ns * parts / (4 * (n - 1));
        asked->stages[s].backward_input_ns =
            asked->stages[s].backward_input_ns * parts / (4 * (n - 1));
        asked->stages[s].backward_weight_ns =
            asked->stages[s].backward_weight_ns * parts / (4 * (n - 1));
    }
}

/* Two machines: the link in the middle of the pipeline takes a whole pass. */
static void slow_middle(struct pst_order_question *asked)
{
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        struct pst_schedule_link *link = &asked->links[i];
        uint32_t a = asked->stages[link->from].device, b = asked->stages[link->to].device;
        uint32_t half = asked->in.n_devices / 2;

        if ((a < half) != (b < half)) {
            link->transfer_ns = UNIT;
        }
    }
}

static const struct line few[] = {
    {.what = "few micro-batches", .method = "v-half", .x = {X(4, 2, 1, 1, 1)}},
    {.what = "", .method = "v-half", .x = {X(4, 3, 1, 1, 1)}},
    {.what = "", .method = "v-half", .x = {X(4, 4, 1, 1, 1), .barrier = true}, .optimum = 29},
    {.what = "", .method = "v-half", .x = {X(4, 5, 1, 1, 1), .barrier = true}, .optimum = 35},
    {.what = "", .method = "v-half", .x = {X(5, 5, 1, 1, 1)}},
    {.what = "", .method = "v-half", .x = {X(8, 6, 1, 1, 1)}},
    {.what = "", .method = "v-half", .x = {X(8, 8, 1, 1, 1)}},
    {.what = "", .method = "v-min", .x = {X(8, 8, 1, 1, 1)}},
    {.what = "", .method = "v-half", .x = {X(8, 8, 3, 4, 2)}},
    {.what = "", .method = "v-half", .x = {X(16, 16, 3, 4, 2)}},
};

static const struct line remainder_two[] = {
    {.what = "p mod 3 = 2", .method = "v-min", .x = {X(5, 10, 1, 1, 1)}},
    {.what = "", .method = "v-min", .x = {X(8, 16, 1, 1, 1)}},
    {.what = "", .method = "v-min", .x = {X(11, 22, 1, 1, 1)}},
    {.what = "p = 2, cap 3",
     .method = "v-min",
     .x = {X(2, 4, 1, 1, 1), .barrier = true},
     .optimum = 27,
     .cap = 3 * CHUNK},
    {.what = "", .method = "v-min", .x = {X(2, 16, 1, 1, 1)}, .cap = 3 * CHUNK},
};

static const struct line repeated[] = {
    {.what = "repeated bubbles", .method = "v-min", .x = {X(4, 16, 3, 4, 2)}},
    {.what = "", .method = "v-min", .x = {X(4, 64, 3, 4, 2)}},
    {.what = "", .method = "v-min", .x = {X(4, 16, 10, 10, 6)}},
    {.what = "", .method = "v-min", .x = {X(4, 64, 10, 10, 6)}},
    {.what = "", .method = "v-min", .x = {X(4, 64, 1, 2, 1)}},
    {.what = "cap 5", .method = "v-min", .x = {X(4, 64, 3, 4, 2)}, .cap = 5 * CHUNK},
    {.what = "", .method = "v-min", .x = {X(8, 32, 10, 10, 6)}},
    {.what = "", .method = "v-half", .x = {X(4, 64, 1, 2, 1)}},
    {.what = "", .method = "v-half", .x = {X(4, 16, 3, 4, 2)}},
    {.what = "", .method = "v-half", .x = {X(8, 32, 3, 4, 2)}},
};

static const struct line barrier[] = {
    {.what = "steps with a barrier", .method = "zbv", .x = {X(4, 8, 3, 4, 2), .barrier = true}},
    {.what = "", .method = "zbv", .x = {X(6, 12, 3, 4, 2), .barrier = true}},
    {.what = "", .method = "zbv", .x = {X(8, 8, 1, 1, 1), .barrier = true}},
    {.what = "2 chunks less",
     .method = "zbv",
     .x = {X(6, 12, 1, 1, 1), .barrier = true},
     .cap = 10 * CHUNK},
    {.what = "", .method = "v-zb", .x = {X(4, 8, 10, 10, 6), .barrier = true}},
    {.what = "", .method = "v-zb", .x = {X(6, 12, 3, 4, 2), .barrier = true}},
    {.what = "", .method = "zb-h2", .x = {X(4, 8, 1, 1, 1), .barrier = true}, .cap = 8 * CHUNK},
};

static const struct line uneven[] = {
    {.what = "heavy ends", .method = "v-half", .x = {X(4, 12, 10, 10, 6), .shape = ends_heavier}},
    {.what = "", .method = "v-zb", .x = {X(4, 12, 10, 10, 6), .shape = ends_heavier}},
    {.what = "rising costs", .method = "v-min", .x = {X(4, 12, 10, 10, 6), .shape = rising}},
    {.what = "", .method = "v-half", .x = {X(4, 12, 10, 10, 6), .shape = rising}},
    {.what = "", .method = "v-half", .x = {X(8, 24, 10, 10, 6), .shape = rising}},
    {.what = "", .method = "v-zb", .x = {X(4, 12, 10, 10, 6), .shape = rising}},
    {.what = "slow middle link", .method = "v-min", .x = {X(4, 12, 1, 1, 1), .shape = slow_middle}},
    {.what = "", .method = "v-half", .x = {X(4, 12, 1, 1, 1), .shape = slow_middle}},
    {.what = "", .method = "v-half", .x = {X(8, 24, 1, 1, 1), .shape = slow_middle}},
    {.what = "", .method = "v-zb", .x = {X(4, 12, 1, 1, 1), .shape = slow_middle}},
};

#define A3(P, M, F, B, W)                                                                          \
    .p = (P), .m = (M), .f = 2 * UNIT * (F), .b = 2 * UNIT * (B), .w = 2 * UNIT * (W),             \
    .saved = 2 * CHUNK, .saved_weight = 2 * CHUNK / 4

static const struct line bytes[] = {
    {.what = "W keeps a quarter", .method = "v-min", .x = {A3(4, 12, 3, 4, 2)}},
    {.what = "", .method = "v-half", .x = {A3(4, 12, 3, 4, 2)}},
    {.what = "", .method = "v-half", .x = {A3(8, 24, 3, 4, 2)}},
    {.what = "", .method = "zbv", .x = {A3(4, 12, 1, 1, 1)}, .cap = 7 * CHUNK},
    {.what = "", .method = "v-zb", .x = {A3(4, 12, 3, 4, 2)}},
};

static const struct line noise[] = {
    {.what = "times vary by 10 %", .method = "v-min", .x = {X(4, 16, 3, 4, 2)}, .noise = 0.1},
    {.what = "", .method = "v-half", .x = {X(4, 16, 3, 4, 2)}, .noise = 0.1},
    {.what = "robust = 0.1",
     .method = "v-half",
     .options = "robust=0.1",
     .x = {X(4, 16, 3, 4, 2)},
     .noise = 0.1},
    {.what = "by 30 %", .method = "v-half", .x = {X(4, 16, 1, 1, 1)}, .noise = 0.3},
    {.what = "robust = 0.3",
     .method = "v-half",
     .options = "robust=0.3",
     .x = {X(4, 16, 1, 1, 1)},
     .noise = 0.3},
    {.what = "", .method = "zbv", .x = {X(4, 16, 1, 1, 1)}, .noise = 0.3},
    {.what = "robust = 0.3",
     .method = "zbv",
     .options = "robust=0.3",
     .x = {X(4, 16, 1, 1, 1)},
     .noise = 0.3},
};

#define RUN(table)                                                                                 \
    for (size_t i = 0; i < sizeof(table) / sizeof(table)[0]; i++) {                                \
        run(&(table)[i]);                                                                          \
    }

int main(int argc, char **argv)
{
    static char text[32];

    if (argc > 1) {
        snprintf(text, sizeof text, "effort=%d", atoi(argv[1]));
        effort = text;
    }
    printf("%-22s %2s %3s  %-9s %5s %8s %5s %8s %8s  %6s\n", "", "p", "m", "method", "holds",
           "cost", "holds", "adaptive", "bound", "faster");
    RUN(few);
    RUN(remainder_two);
    RUN(repeated);
    RUN(barrier);
    RUN(uneven);
    RUN(bytes);
    RUN(noise);
    return 0;
}
