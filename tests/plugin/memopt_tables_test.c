/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables worked out by hand: what each cut of a pipeline of two stages costs, segments of every
 * length, how much of a transformer's bytes a host link hides, and what is left of its largest
 * stage. Plans are two-ended's and exact's where they are not named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "memopt_rig.h"

#define PLAIN "slot_filter = false\nlink_target = 1.0\nmin_swap_bytes = 0\nhost_memory = 1.0\n"
#define NONE  UINT64_MAX /* nothing fits */

/* --- cuts of two stages ------------------------------------------------------------------------*/

struct row {
    uint32_t forward, backward, saved, output, parameters;
};

struct pipeline {
    uint32_t n;
    const struct row *rows;
};

/* The side of a cut under 1F1B without stashing: two in flight on the left, one on the right; a
   gradient byte for each byte of parameters; an input of a byte. */
static void side_of(const struct pipeline *p, uint32_t cut, bool right, struct stage *s)
{
    uint64_t weights = 0;

    stage_init(s, right ? 1 : 2, 0, right ? p->rows[cut - 1].output : 1);
    for (uint32_t v = right ? cut : 0; v < (right ? p->n : cut); v++) {
        add_link(s, p->rows[v].forward, p->rows[v].backward, p->rows[v].saved);
        weights += p->rows[v].parameters;
    }
    s->view.static_bytes = 2 * weights;
}

struct cut {
    uint32_t at;
    uint64_t all_kept[2], periods[2];
};

static void expect_cuts(const struct pipeline *p, uint64_t capacity, const struct cut *cuts,
                        uint32_t n)
{
    static const char *const solvers[][2] = {{"exact", ""}, {"two-ended", PLAIN}};

    for (uint32_t i = 0; i < 2 * n; i++) {
        const struct cut *cut = &cuts[i / 2];
        struct stage s;

        side_of(p, cut->at, i % 2 == 1, &s);
        assert_int_equal(value_of_letters(&s, "").peak_bytes, cut->all_kept[i % 2]);
        s.view.capacity_bytes = capacity;
        for (uint32_t k = 0; k < 2; k++) {
            struct memopt_answer answer = ask_once(solvers[k][0], solvers[k][1], &s);
            uint64_t period = answer.price.fits ? answer.value.period_ns : NONE;

            if (period != cut->periods[i % 2]) {
                fail_msg("%s, %llu bytes, cut %u, stage %u: %s, %llu", solvers[k][0],
                         (unsigned long long)capacity, cut->at, i % 2, answer.plan,
                         (unsigned long long)period);
            }
        }
    }
}

/* Six nodes alike. Stage 0 of c of them needs 6c + 2, stage 1 4(6 - c) + 1; the memory-balanced cut
   is 2, the compute-balanced one 3. */
static void test_equal_nodes(void **state)
{
    static const struct row rows[] = {{1, 2, 2, 1, 1}, {1, 2, 2, 1, 1}, {1, 2, 2, 1, 1},
                                      {1, 2, 2, 1, 1}, {1, 2, 2, 1, 1}, {1, 2, 2, 1, 1}};
    static const struct pipeline p = {6, rows};
    static const struct {
        uint64_t capacity, left, right, at_two; /* at_two: of stage 1, where the cut is 2 */
    } table[] = {{20, 9, 9, 12}, {17, 10, 9, 12}, {16, 10, 9, 13}, {14, 11, 9, NONE}};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct cut cuts[] = {{3, {20, 13}, {table[i].left, table[i].right}},
                                   {2, {14, 17}, {6, table[i].at_two}}};

        expect_cuts(&p, table[i].capacity, cuts, 2);
    }
    for (uint32_t c = 1; c < 6; c++) { /* at 13 bytes no cut will do */
        struct stage s[2];
        bool fits = true;

        for (uint32_t i = 0; i < 2; i++) {
            side_of(&p, c, i == 1, &s[i]);
            assert_int_equal(value_of_letters(&s[i], "").peak_bytes,
                             i == 0 ? 6 * c + 2 : 4 * (6 - c) + 1);
            s[i].view.capacity_bytes = 13;
            fits = fits && ask_once("exact", "", &s[i]).price.fits;
        }
        assert_false(fits);
    }
}

static void test_the_cut_moves(void **state)
{
    static const struct row rows[] = {
        {2, 4, 1, 1, 2}, {1, 2, 4, 1, 1}, {4, 8, 4, 1, 1}, {2, 4, 1, 1, 0}, {2, 4, 1, 1, 1}};
    static const struct pipeline p = {5, rows};
    static const struct cut cuts[] = {{1, {8, 17}, {6, 27}},
                                      {2, {18, 11}, {9, 24}},
                                      {3, {28, 5}, {26, 12}},
                                      {4, {30, 4}, {32, 6}}};

    (void)state;
    expect_cuts(&p, 22, cuts, 4);
}

/* Compute and memory are balanced at 2, where the bottleneck is 31; one further it is 30. */
static void test_beside_the_pivots(void **state)
{
    static const struct row rows[] = {
        {3, 6, 6, 1, 0}, {2, 4, 1, 1, 1}, {4, 8, 4, 1, 0}, {3, 6, 6, 1, 0}, {2, 4, 6, 1, 1}};
    static const struct pipeline p = {5, rows};
    /* Kept: 2 + 2 (1 + 7) and 2 + 1 + 16; 2 + 2 (1 + 11) and 2 + 1 + 12. */
    static const struct cut cuts[] = {{2, {18, 19}, {18, 31}}, {3, {26, 15}, {30, 15}}};

    (void)state;
    expect_cuts(&p, 16, cuts, 2);
}

/* The right side of cut 2 has 8 static bytes and cannot do with less than 14. */
static void test_static_bytes_decide(void **state)
{
    static const struct row rows[] = {
        {4, 8, 1, 1, 0}, {3, 6, 1, 1, 0}, {4, 8, 4, 4, 1}, {1, 2, 1, 1, 1}, {2, 4, 1, 1, 2}};
    static const struct pipeline p = {5, rows};
    static const struct cut cuts[] = {{2, {6, 15}, {21, NONE}}, {3, {16, 12}, {37, 9}}};
    struct stage s;

    (void)state;
    expect_cuts(&p, 12, cuts, 2);
    side_of(&p, 2, true, &s);
    assert_int_equal(enumerate(&s, "KR").least_peak, 14);
    for (uint32_t c = 1; c <= 4; c++) {
        bool fits = true;

        for (uint32_t i = 0; i < 2; i++) {
            side_of(&p, c, i == 1, &s);
            s.view.capacity_bytes = 12;
            fits = fits && ask_once("exact", "", &s).price.fits;
        }
        assert_int_equal(fits, c == 3);
    }
}

/* --- segments ----------------------------------------------------------------------------------*/

/* 16 nodes of a byte, every l-th kept: about 16/l kept nodes and a segment of l, which is least at
   l = 4; with four in flight 64/l + l, least at 8. */
static void test_segments(void **state)
{
    static const uint64_t sums[] = {17, 10, 9, 8, 9, 9, 10, 10};

    (void)state;
    for (uint64_t l = 1; l <= 8; l++) {
        for (uint64_t k = 1; k <= 4; k += 3) {
            uint64_t sum = k * ((16 + l - 1) / l) + l;
            char plan[17] = {0};
            struct stage s;
            uint64_t peak;

            assert_true(k > 1 || sum == sums[l - 1]);
            stage_init(&s, (uint32_t)k, 0, 0);
            for (uint64_t v = 0; v < 16; v++) {
                add_link(&s, 1, 2, 1);
                plan[v] = (v + 1) % l == 0 || v == 15 ? 'K' : 'R';
            }
            /* The end of a segment is both kept and of the segment: one byte less. The last of the
               kept is gone before a shorter last segment is the peak. */
            peak = value_of_letters(&s, plan).peak_bytes;
            assert_true(peak + 1 <= sum);
            assert_true(16 % l != 0 || peak + 1 == sum);
            assert_true(k == 1 ? sum >= 8 : sum >= 16);
            assert_true(k == 1 || l != 8 || sum == 16);
            assert_true(k == 1 || l != 4 || sum == 20);
        }
    }
}

/* A checkpoint at the input of every c-th of n blocks: (blocks n / c) inputs of a block for each in
   flight and c blocks at work, of which the first input is counted in both. (Narayanan et al.,
   Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, have one checkpoint in a stage.) */
static void test_checkpoints_of_blocks(void **state)
{
    const uint64_t block = 11, input = 3;
    enum { N = 12 };

    (void)state;
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

/* --- one model, two kinds of plans -------------------------------------------------------------*/

/* Layers of one node with results of 2: at 14 bytes to drop the first of them and replay it, with
   the rest kept, takes 1 more; no plan of this kind does with less. */
static void test_drop_between(void **state)
{
    struct stage s;

    (void)state;
    stage_init(&s, 1, 0, 2);
    for (uint32_t l = 1; l <= 3; l++) {
        add_node(&s, l, 2 * l, 4, 0, 4, l == 1 ? 0 : 1u << (l - 2));
    }
    assert_int_equal(value_of_letters(&s, "KKK").peak_bytes, 18);
    assert_int_equal(value_of_letters(&s, "RKK").peak_bytes, 14);
    assert_int_equal(value_of_letters(&s, "RKK").extra_ns, 1);
    assert_int_equal(enumerate(&s, "KR").least_peak, 14);
}

/* --- the host link -----------------------------------------------------------------------------*/

/*
 * A layer of a transformer (hidden h, sequence q, micro-batch 1) moves 20 q h bytes out and as many
 * back while it computes 12 q h (6 h + q) operations. Both directions share the link, so that what
 * is hidden is the inverse of 10 / (3 (6 h + q)) x operations / bytes a second.
 * (Wan et al., PipeOffload, ICML 2025.)
 */
static void test_what_a_link_hides(void **state)
{
    static const struct {
        double operations, bytes, h, q, ratio, part;
    } rows[] = {{220e12, 15e9, 4096, 8192, 1.49, .67},
                {220e12, 15e9, 8192, 4096, .92, 1},
                {440e12, 21e9, 4096, 8192, 2.13, .47},
                {220e12, 15e9, 1024, 512, 7.3, .14}};
    enum { NODES = 12 };

    (void)state;
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
static void test_largest_stage(void **state)
{
    const uint64_t unit = 512 * 1024;
    static const struct {
        const char *id, *options;
        double megabytes;
    } rows[] = {
        {"none", "", 931}, {"full", "unit = \"stage\"", 125}, {"full", "unit = \"layer\"", 64}};
    struct stage s;
    uint64_t layer = 0;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_nodes),       cmocka_unit_test(test_the_cut_moves),
        cmocka_unit_test(test_beside_the_pivots), cmocka_unit_test(test_static_bytes_decide),
        cmocka_unit_test(test_segments),          cmocka_unit_test(test_checkpoints_of_blocks),
        cmocka_unit_test(test_drop_between),      cmocka_unit_test(test_what_a_link_hides),
        cmocka_unit_test(test_largest_stage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
