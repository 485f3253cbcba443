/* SPDX-License-Identifier: Apache-2.0
 *
 * per-stage: the worked examples of GraphPipe's setting (chains of one and of several micro-batch
 * sizes, a diamond, stage graphs of the paper's models), and on random chains that nothing waits
 * once the pipeline is full. One sample takes 1 forward and 2 backward on every stage.
 */
#include "schedule_rig.h"

#include "conformance/problem.h" /* random numbers */

#define MAX_STAGES 8

struct shape {
    uint32_t n, samples;
    uint32_t b[MAX_STAGES], k[MAX_STAGES]; /* k 0: 1 */
    uint32_t n_links, links[16][2];        /* none: a chain */
    uint32_t forward, backward;            /* per sample; 0: 1 and 2 */
};

static void apply(struct pst_order_question *asked, void *context)
{
    const struct shape *shape = context;
    uint64_t f = shape->forward != 0 ? shape->forward : 1;
    uint64_t b = shape->backward != 0 ? shape->backward : 2;

    for (uint32_t s = 0; s < shape->n; s++) {
        struct pst_schedule_stage *stage = &asked->stages[s];

        stage->microbatch_size = shape->b[s];
        stage->n_microbatches = shape->samples / shape->b[s];
        stage->k = shape->k[s] != 0 ? shape->k[s] : 1;
        stage->forward_ns = f * shape->b[s];
        stage->backward_input_ns = b * shape->b[s];
        stage->backward_weight_ns = 0;
        stage->saved_bytes = shape->b[s]; /* peaks count samples */
        stage->saved_weight_bytes = 0;
    }
    if (shape->n_links > 0) {
        struct pst_schedule_link links[16] = {{0}};

        for (uint32_t i = 0; i < shape->n_links; i++) {
            links[i].from = shape->links[i][0];
            links[i].to = shape->links[i][1];
        }
        schedule_connect(asked, links, shape->n_links);
    }
}

static struct schedule_run run_shape(const struct shape *shape, const char *options)
{
    struct shape own = *shape;

    return SCHEDULE("per-stage", .options = options, .p = shape->n,
                    .m = shape->samples / shape->b[0], .change = apply, .context = &own);
}

/* Makespan (0: not told), and samples in flight on each stage. */
static void expect(const struct shape *shape, const char *options, uint64_t makespan,
                   const uint32_t *held)
{
    OWN_RUN run = run_shape(shape, options);

    if (makespan != 0) {
        assert_int_equal(run.makespan, makespan);
    }
    for (uint32_t s = 0; s < shape->n; s++) {
        assert_int_equal(run.eval.peak_bytes[s], held[s]);
    }
}

TEST(test_chains)
{
    const struct shape same = {.n = 3, .samples = 16, .b = {4, 4, 4}};
    const struct shape mixed = {.n = 3, .samples = 16, .b = {1, 2, 4}};
    /* eight stages of ResNet: pairs of single samples in front of micro-batches of two */
    const struct shape resnet = {
        .n = 8, .samples = 64, .b = {1, 1, 1, 1, 2, 2, 2, 2}, .k = {2, 2, 2, 2, 1, 1, 1, 1}};
    const struct shape down_and_up = {.n = 3, .samples = 16, .b = {4, 1, 4}};

    expect(&same, NULL, 72, (const uint32_t[]){12, 8, 4});
    expect(&mixed, NULL, 66, (const uint32_t[]){10, 8, 4});
    expect(&resnet, NULL, 0, (const uint32_t[]){16, 14, 12, 10, 8, 6, 4, 2});
    expect(&down_and_up, NULL, 0, (const uint32_t[]){12, 8, 4});
}

TEST(test_graphs)
{
    const struct shape diamond = {.n = 4,
                                  .samples = 8,
                                  .b = {1, 1, 1, 1},
                                  .n_links = 4,
                                  .links = {{0, 1}, {0, 2}, {1, 3}, {2, 3}}};
    const struct shape chain = {.n = 4, .samples = 8, .b = {1, 1, 1, 1}};
    /* CANDLE-Uno on six devices: four branches, the stage that joins them, the last */
    const struct shape candle = {.n = 6,
                                 .samples = 1024,
                                 .b = {64, 64, 64, 64, 64, 64},
                                 .n_links = 5,
                                 .links = {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 5}}};

    /* (N + depth - 1) * 3 */
    expect(&diamond, NULL, (8 + 3 - 1) * 3, (const uint32_t[]){3, 2, 2, 1});
    expect(&chain, NULL, (8 + 4 - 1) * 3, (const uint32_t[]){4, 3, 2, 1});
    expect(&diamond, "force_chain=true", 0, (const uint32_t[]){4, 3, 2, 1});
    expect(&candle, NULL, 0, (const uint32_t[]){192, 192, 192, 192, 128, 64});
    expect(&candle, "force_chain=true", 0, (const uint32_t[]){384, 320, 256, 192, 128, 64});
}

/* With one size it is 1f1b, pass by pass; eager too; and k > 1 groups passes. */
TEST(test_same_as_1f1b)
{
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t m = 1; m <= 10; m++) {
            static const char *const options[] = {NULL, "split=true", "eager=true"};

            for (size_t i = 0; i < 3; i++) {
                OWN_RUN a = SCHEDULE("per-stage", .options = options[i], .p = p, .m = m);
                OWN_RUN b = SCHEDULE("1f1b", .options = options[i], .p = p, .m = m);

                assert_string_equal(a.csv, b.csv);
            }
        }
    }
}

TEST(test_groups)
{
    OWN_RUN run = SCHEDULE("per-stage", .options = "k=2", .p = 2, .m = 4);

    /* the last stage holds one group, the first one group more */
    assert_string_equal(run.csv, "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
                                 "1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n");
}

/* Twice the samples cost the work of the samples that were added: no stage ever waits once the
   pipeline is full. For all chains of two to four stages of these sizes. */
TEST(test_no_stall)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    static const uint32_t ratios[][2] = {{2, 1}, {1, 1}, {1, 2}, {1, 3}};

    for (uint32_t n = 2; n <= 4; n++) {
        for (uint32_t code = 0; code < 1u << (2 * n); code++) {
            struct shape shape = {.n = n};
            uint64_t total[2];

            for (uint32_t s = 0; s < n; s++) {
                shape.b[s] = sizes[code >> (2 * s) & 3];
            }
            shape.forward = ratios[code % 4][0];
            shape.backward = ratios[code % 4][1];
            for (uint32_t i = 0; i < 2; i++) {
                OWN_RUN run;

                shape.samples = i == 0 ? 128 : 256;
                run = run_shape(&shape, NULL);
                total[i] = run.makespan;
            }
            if (total[1] - total[0] != 128 * (uint64_t)(shape.forward + shape.backward)) {
                fail_msg("b = %u, %u, %u, %u: %lu more for 128 samples", shape.b[0], shape.b[1],
                         shape.b[2], shape.b[3], (unsigned long)(total[1] - total[0]));
            }
        }
    }
}

/* Random stage graphs of mixed sizes: always a complete, legal order (the rig checks it), and
   refine never makes it slower. */
TEST(test_random_graphs)
{
    uint64_t random = 20261121;

    for (uint32_t round = 0; round < 300; round++) {
        struct shape shape = {.samples = 32};
        OWN_RUN plain, refined;

        shape.n = 2 + (uint32_t)(pst_random(&random) % (MAX_STAGES - 1));
        for (uint32_t s = 0; s < shape.n; s++) {
            shape.b[s] = 1u << pst_random(&random) % 4;
            shape.k[s] = 1u << pst_random(&random) % 2;
        }
        for (uint32_t t = 1; t < shape.n; t++) {
            uint32_t from = (uint32_t)(pst_random(&random) % t);

            shape.links[shape.n_links][0] = from;
            shape.links[shape.n_links++][1] = t;
            if (from + 1 < t && pst_random(&random) % 2 == 0) {
                shape.links[shape.n_links][0] = t - 1;
                shape.links[shape.n_links++][1] = t;
            }
        }
        plain = run_shape(&shape, NULL);
        refined = run_shape(&shape, "refine=true");
        assert_true(refined.makespan <= plain.makespan);
    }
}
