/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables worked out by hand: checkpoints of blocks, how much of a transformer's bytes a host link
 * hides, and what is left of its largest stage.
 */
#include "test.h"

#include <math.h>

#include "memopt_rig.h"

/* A checkpoint at the input of every c-th of n blocks: (blocks n / c) inputs of a block for each in
   flight and c blocks at work, of which the first input is counted in both. (Narayanan et al.,
   Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, have one checkpoint in a stage.) */
TEST(test_checkpoints_of_blocks)
{
    const uint64_t block = 11, input = 3;
    enum { N = 12 };

    for (uint64_t k = 1; k <= 8; k++) {
        for (uint64_t c = 1; c <= N; c++) {
            struct memopt_answer answer;
            struct stage s;
            char options[64];

            stage_init(&s, (uint32_t)k, 5, input);
            for (uint32_t v = 0; v < 2 * N; v++) { /* a block: what it saves, and its result */
                bool last = v == 2 * N - 1;

                add_link(&s, 1, 2, v % 2 == 0 ? block - input : last ? 0 : input)->layer = v / 2;
            }
            snprintf(options, sizeof options, "unit = \"layer\"\nevery = %d\nskip_last = false",
                     (int)c);
            answer = ask_once("full", options, &s);
            assert_int_equal(answer.value.peak_bytes,
                             5 + k * ((N + c - 1) / c) * input + c * block - input);
        }
    }
}

/* --- the host link -----------------------------------------------------------------------------*/

/*
 * A layer of a transformer (hidden h, sequence q, micro-batch 1) moves 20 q h bytes out and as many
 * back while it computes 12 q h (6 h + q) operations. Both directions share the link, so that what
 * is hidden is the inverse of 10 / (3 (6 h + q)) x operations / bytes a second.
 * (Wan et al., PipeOffload, ICML 2025.)
 */
TEST(test_what_a_link_hides)
{
    static const struct {
        double operations, bytes, h, q, ratio, part;
    } rows[] = {{220e12, 15e9, 4096, 8192, 1.49, .67},
                {220e12, 15e9, 8192, 4096, .92, 1},
                {440e12, 21e9, 4096, 8192, 2.13, .47},
                {220e12, 15e9, 1024, 512, 7.3, .14}};
    enum { NODES = 12 };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double ratio = 10 / (3 * (6 * rows[i].h + rows[i].q)) * rows[i].operations / rows[i].bytes;
        double ns =
            12 * rows[i].q * rows[i].h * (6 * rows[i].h + rows[i].q) / rows[i].operations * 1e9;
        double bytes = 20 * rows[i].q * rows[i].h, moved = 0;
        struct memopt_answer answer;
        struct stage s;

        assert_true(fabs(ratio - rows[i].ratio) < (ratio < 5 ? .01 : .1));
        stage_init(&s, 8, 0, 0);
        for (uint32_t v = 0; v < NODES; v++) { /* many tensors: the part is met to one of them */
            add_link(&s, (uint64_t)(ns / NODES / 3), (uint64_t)(ns / NODES * 2 / 3),
                     (uint64_t)(bytes / NODES));
        }
        s.view.link_bytes_per_s = (uint64_t)rows[i].bytes;
        s.view.link_directions = 2;
        answer = ask_once("offload",
                          "min_windows = 0\nlink_target = 1.0\nslot_filter = false\n"
                          "min_swap_bytes = 0\nwhen = \"always\"\n",
                          &s);
        assert_int_equal(answer.value.extra_ns, 0);
        for (uint32_t v = 0; v < NODES; v++) {
            moved += answer.plan[v] == 'S';
        }
        moved /= NODES;
        if (moved > rows[i].part + .01 || moved < rows[i].part - 1.0 / NODES - .01) {
            fail_msg("h %.0f, q %.0f: %.3f moved, %.2f hidden", rows[i].h, rows[i].q, moved,
                     rows[i].part);
        }
    }
}

/* --- BERT-Large on eight stages ----------------------------------------------------------------*/

/* The sixteen-bit bytes of a layer with attention spelled out, in units of q h, at five heads times
   sequence over hidden (a q / h = 8): 34 + 5 x 8 = 74. Each tensor is its producer's; what the
   first norm reads is the result of the layer before. */
static const struct {
    const char *kind;
    uint32_t saved;
} parts[] = {{"norm", 2},    {"qkv", 6},    {"scores", 0},  {"softmax", 16}, {"dropout", 24},
             {"context", 2}, {"linear", 0}, {"dropout", 1}, {"add", 2},      {"norm", 2},
             {"linear", 8},  {"act", 8},    {"linear", 0},  {"dropout", 1},  {"add", 2}};

enum { PARTS = sizeof parts / sizeof parts[0] };

/* Three layers of 512 x 1024, eight micro-batches in flight. */
TEST(test_largest_stage)
{
    const uint64_t unit = 512 * 1024;
    static const struct {
        const char *id, *options;
        double megabytes;
    } rows[] = {
        {"none", "", 931}, {"full", "unit = \"stage\"", 125}, {"full", "unit = \"layer\"", 64}};
    struct stage s;
    uint64_t layer = 0;

    for (uint32_t i = 0; i < PARTS; i++) {
        layer += parts[i].saved;
    }
    assert_int_equal(layer, 74);
    stage_init(&s, 8, 0, 2 * unit);
    s.view.n_stages = 8;
    for (uint32_t v = 0; v < 3 * PARTS; v++) {
        struct pst_stage_node *node;
        bool last = v + 1 == 3 * PARTS; /* its result is the next stage's input */

        node = add_link(&s, 1, 2, last ? 0 : parts[v % PARTS].saved * unit);
        node->op = parts[v % PARTS].kind;
        node->layer = v / PARTS;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct memopt_answer answer = ask_once(rows[i].id, rows[i].options, &s);
        double megabytes = (double)answer.value.peak_bytes / 1e6;

        if (fabs(megabytes / rows[i].megabytes - 1) > .03) {
            fail_msg("%s %s: %.1f MB, expected about %.0f", rows[i].id, rows[i].options, megabytes,
                     rows[i].megabytes);
        }
    }
}
