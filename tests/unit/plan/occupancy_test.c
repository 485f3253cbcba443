/* SPDX-License-Identifier: Apache-2.0
 *
 * The occupancy tree against a list of everything that was added: same gap for every question. A
 * layout against best fit without any structure. And a layout of tens of thousands of buffers,
 * which a search through all others would take seconds for.
 */
#include "test.h"
#include <time.h>

#include "base/philox.h"
#include "plan/occupancy.h"
#include "plan/program_build.h"

struct life {
    uint32_t first, last;
    uint64_t begin, end;
};

static uint64_t seed, draws;

static uint32_t draw(uint32_t n)
{
    uint64_t at = draws++;

    return pst_philox(seed, (uint32_t)at, (uint32_t)(at >> 32)).v[0] % n;
}

static int by_begin(const void *a, const void *b)
{
    const struct life *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Walks over all that lives in [first, last], by begin. */
static uint64_t slow_gap(struct life *lives, uint32_t n, uint32_t first, uint32_t last,
                         uint64_t size, uint64_t origin)
{
    uint64_t end = origin, best = UINT64_MAX, best_size = UINT64_MAX;

    qsort(lives, n, sizeof *lives, by_begin);
    for (uint32_t i = 0; i < n; i++) {
        if (lives[i].last < first || lives[i].first > last) {
            continue;
        }
        if (lives[i].begin >= end + size && lives[i].begin - end < best_size) {
            best = end;
            best_size = lives[i].begin - end;
        }
        end = lives[i].end > end ? lives[i].end : end;
    }
    return best != UINT64_MAX ? best : end;
}

/* Lives of up to n_times; apart: as many times lie between theirs; in_turn: almost ascending. */
static void check_round(uint32_t n_times, uint32_t apart, uint32_t n, bool in_turn)
{
    struct life *lives = calloc(n, sizeof *lives);
    struct pst_occupancy occupancy;
    uint64_t origin = 16 * draw(3);

    pst_occupancy_init(&occupancy, n_times * apart);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = in_turn ? n_times / 2 * i / n + draw(40) : draw(n_times);
        uint32_t length = draw(4) == 0 ? n_times : 1 + n_times / (in_turn ? 256 : 8);
        uint32_t last = first + draw(length);
        uint64_t size = 1 + draw(20), begin, expected;

        last = last < n_times ? last : n_times - 1;
        expected = slow_gap(lives, i, first, last, size, origin);
        begin = pst_occupancy_best_gap(&occupancy, first * apart, last * apart, size, origin);
        if (begin != expected) {
            fail_msg("seed %llu: %llu bytes at %u to %u go to %llu, expected %llu",
                     (unsigned long long)seed, (unsigned long long)size, first, last,
                     (unsigned long long)begin, (unsigned long long)expected);
        }
        /* now and then elsewhere, so that gaps arise */
        begin = draw(3) == 0 ? origin + draw(300) : begin;
        lives[i] = (struct life){first, last, begin, begin + size};
        pst_occupancy_add(&occupancy, first * apart, last * apart, begin, begin + size);
    }
    pst_occupancy_finish(&occupancy);
    free(lives);
}

TEST(test_against_a_list)
{
    for (seed = 1; seed <= 120; seed++) {
        draws = 0;
        check_round(2 + draw(70), seed % 2 == 0 ? 1 : PST_OCCUPANCY_FEW, 1 + draw(120), false);
    }
}

TEST(test_neighbours_against_a_list)
{
    for (seed = 1; seed <= 40; seed++) {
        draws = 0;
        check_round(PST_OCCUPANCY_FEW + 1 + draw(3000), 1, 1 + draw(400), true);
    }
}

static int by_size(const void *a, const void *b)
{
    const struct pst_value *const *x = a, *const *y = b;
    const uint64_t size[2] = {((*x)->bytes + PST_VALUE_ALIGN - 1) / PST_VALUE_ALIGN,
                              ((*y)->bytes + PST_VALUE_ALIGN - 1) / PST_VALUE_ALIGN};

    return size[0] != size[1]           ? (size[0] > size[1] ? -1 : 1)
           : (*x)->first != (*y)->first ? ((*x)->first < (*y)->first ? -1 : 1)
                                        : (*x > *y) - (*x < *y);
}

/* Best fit by the definition: largest first, then earliest; each in the smallest gap by ticks. */
static void expect_best_fit(const struct pst_program *program)
{
    const uint32_t n = program->n_values;
    const struct pst_value **values = calloc(n, sizeof *values);
    struct life *lives = calloc(n, sizeof *lives);

    for (uint32_t i = 0; i < n; i++) {
        values[i] = &program->values[i];
    }
    qsort(values, n, sizeof *values, by_size);
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_value *v = values[i];
        uint64_t size = (v->bytes + PST_VALUE_ALIGN - 1) / PST_VALUE_ALIGN * PST_VALUE_ALIGN;
        uint64_t begin = slow_gap(lives, i, v->first, v->last, size, 0);

        if (v->offset != begin) {
            fail_msg("seed %llu: value %u at %llu, expected %llu", (unsigned long long)seed,
                     (unsigned)(v - program->values), (unsigned long long)v->offset,
                     (unsigned long long)begin);
        }
        lives[i] = (struct life){v->first, v->last, begin, begin + size};
    }
    free(values);
    free(lives);
}

TEST(test_layout_against_best_fit)
{
    for (seed = 1; seed <= 60; seed++) {
        struct pst_program program = {.n_ticks = seed % 20 == 0 ? 4000 : 2 + (uint32_t)seed};

        draws = 0;
        program.n_values = seed % 20 == 0 ? 2500 : 1 + draw(60);
        program.values = calloc(program.n_values, sizeof *program.values);
        for (uint32_t i = 0; i < program.n_values; i++) {
            struct pst_value *value = &program.values[i];
            uint32_t length = 1 + draw(draw(4) == 0 ? program.n_ticks : 6);

            value->bytes = 1 + (uint64_t)PST_VALUE_ALIGN * draw(5) + draw(PST_VALUE_ALIGN);
            value->first = draw(program.n_ticks);
            value->last = value->first + length - 1;
            value->last = value->last < program.n_ticks ? value->last : program.n_ticks - 1;
        }
        pst_layout_program(&program, UINT64_MAX, NULL);
        expect_best_fit(&program);
        free(program.values);
    }
}

/* As a deep pipeline has them: some kept from forward to backward, most gone after a few ticks. */
TEST(test_many_buffers)
{
    enum { N = 200000, TICKS = 150000 };
    struct pst_program program = {.n_values = N, .n_ticks = TICKS};
    clock_t start = clock();
    double seconds;

    program.values = calloc(N, sizeof *program.values);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t first = (uint32_t)((uint64_t)i * (TICKS - 8) / N);
        bool kept = i % 10 == 0 && first < TICKS / 2;

        program.values[i].bytes = 1 + 256 * (i % 7);
        program.values[i].first = first;
        program.values[i].last = kept ? TICKS - 1 - first : first + i % 5;
    }
    pst_layout_program(&program, UINT64_MAX, NULL);
    seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    free(program.values);
    assert_true(program.arena_bytes >= program.peak_bytes);
    /* half a second; 2e10 comparisons take longer on any machine */
    if (seconds >= 10) {
        fail_msg("%.1f s", seconds);
    }
}
