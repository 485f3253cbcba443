/* SPDX-License-Identifier: Apache-2.0
 *
 * The search on grids whose every point is known: all of a small one, the best of a large one, the
 * same whatever is tried side by side and ends first; within its budget, no point twice, none that
 * is hopeless.
 */
#include "test.h"

#include <math.h>

#include "base/philox.h"
#include "tune/joint.h"

#define POINTS 65536u

static struct grid {
    struct pst_joint joint;
    double (*height_of)(uint32_t point);
    uint64_t made_by;
    uint32_t n_tried, n_alike;              /* points of the same height */
    uint8_t tried[POINTS], guessed[POINTS]; /* guessed: first, while one point was open */
    double highest_hopeless;
    uint32_t n_side_by_side; /* points that are open at a time; 0: one */
    uint32_t end_after;      /* points; 0: never */
    double best;
    uint64_t order; /* of what was tried: a digest */
} grid;

static uint32_t value_of(uint32_t point, uint32_t dim)
{
    for (uint32_t d = grid.joint.n_dims - 1; d > dim; d--) {
        point /= grid.joint.size[d];
    }
    return point % grid.joint.size[dim];
}

/* Each value of a dimension has a share, and a fifth goes to pairs of neighbouring dimensions. A
   third of all pairs of the first two dimensions do not go together: 0. */
static double height_of_shares(uint32_t point)
{
    double height = 1;

    for (uint32_t d = 0; d < grid.joint.n_dims; d++) {
        const uint32_t with = d + 1 < grid.joint.n_dims ? value_of(point, d + 1) : 0;
        const struct pst_philox words =
            pst_philox(grid.made_by, d, value_of(point, d) | (uint64_t)with << 32);
        const struct pst_philox alone = pst_philox(grid.made_by, 100 + d, value_of(point, d));

        if (d == 0 && words.v[1] % 3 == 0) {
            return 0;
        }
        height *= 1 + pst_uniform(alone.v[0]) + 0.2 * (double)pst_uniform(words.v[0]);
    }
    return height;
}

static struct pst_score score_of(uint32_t point)
{
    const double height = grid.height_of(point);

    assert_in_range(point, 0, POINTS - 1);
    assert_int_equal(grid.tried[point], 0);
    grid.tried[point] = 1;
    grid.n_tried++;
    grid.best = height > grid.best ? height : grid.best;
    return (struct pst_score){height > 0 ? PST_SCORE_GOOD : PST_SCORE_NONE, height, 0};
}

static void guess(const struct pst_joint_search *search, uint32_t open)
{
    uint32_t points[PST_JOINT_ROUND];
    const uint32_t n = pst_joint_guess(search, points);

    for (uint32_t i = 0; i < n; i++) {
        assert_true(grid.tried[points[i]] == 0 && points[i] != open);
    }
    if (n > 0) {
        grid.guessed[points[0]] = 1;
    }
}

/* Points that were begun end in an order by chance: any of them may take longest. */
static void run(struct pst_joint_search *search)
{
    const uint32_t most = grid.n_side_by_side > 0 ? grid.n_side_by_side : 1;
    uint32_t open[PST_JOINT_ROUND], n_open = 0, point, n = 0;

    for (;;) {
        while (n_open < most && pst_joint_next(search, &point)) {
            open[n_open++] = point;
            grid.order = (grid.order ^ point) * 1099511628211u;
        }
        if (n_open == 0) { /* however often idle processes ask */
            for (uint32_t i = 0; i < 100; i++) {
                assert_false(pst_joint_next(search, &point));
            }
            return;
        }
        if (grid.end_after > 0 && grid.n_tried >= grid.end_after) {
            return;
        }
        if (n_open == 1) {
            guess(search, open[0]);
        }
        point = pst_philox(grid.made_by, 200, n++).v[0] % n_open;
        pst_joint_report(search, open[point], score_of(open[point]));
        open[point] = open[--n_open];
    }
}

static struct pst_joint_found search(uint64_t made_by, uint32_t budget, uint64_t seed)
{
    struct pst_joint_found found;
    struct pst_joint_search *search;

    memset(grid.tried, 0, sizeof grid.tried);
    memset(grid.guessed, 0, sizeof grid.guessed);
    grid.n_tried = 0;
    grid.best = 0;
    grid.order = 14695981039346656037u;
    grid.made_by = made_by;
    grid.joint.budget = budget;
    grid.joint.seed = seed;
    search = pst_joint_begin(&grid.joint);
    run(search);
    pst_joint_end(search, &found);
    assert_int_equal(found.n_tried, grid.n_tried);
    assert_true(grid.n_tried <= budget);
    return found;
}

static void make_grid(uint32_t n_dims, const uint32_t *size)
{
    memset(&grid, 0, sizeof grid);
    grid.height_of = height_of_shares;
    grid.joint.n_dims = n_dims;
    memcpy(grid.joint.size, size, n_dims * sizeof *size);
}

static double optimum(uint32_t n_points)
{
    double best = 0;

    for (uint32_t p = 0; p < n_points; p++) {
        best = fmax(best, grid.height_of(p));
    }
    return best;
}

TEST(test_small_grids_are_tried_as_a_whole)
{
    const uint32_t size[] = {3, 4, 5};
    struct pst_joint_found found;

    make_grid(3, size);
    found = search(1, 60, 0);
    assert_true(found.all);
    assert_int_equal(found.n_tried, 60);
    assert_true(grid.best == optimum(60));
    found = search(1, 59, 0);
    assert_false(found.all);
}

/* A tenth of the points of each of forty grids. */
TEST(test_the_best_is_found_with_few_points)
{
    const uint32_t size[] = {8, 10, 5, 3, 4};
    uint32_t n_found = 0;

    make_grid(5, size);
    for (uint64_t g = 0; g < 40; g++) {
        search(g, 480, g + 7);
        n_found += grid.best >= optimum(4800);
    }
    assert_in_range(n_found, 38, 40);
}

/* Variants are worth trying only beside what they are variants of: of a dimension of 20 groups of
   10 the sample sees first values alone. */
TEST(test_variants_are_tried_beside_their_like)
{
    const uint32_t size[] = {200, 10, 10};
    uint32_t group[200], n = 0;

    make_grid(3, size);
    for (uint32_t i = 0; i < 200; i++) {
        group[i] = i / 10 * 10;
    }
    grid.joint.group[0] = group;
    search(3, 64, 0);
    for (uint32_t p = 0; p < 20000; p++) {
        n += grid.tried[p] && value_of(p, 0) % 10 != 0;
    }
    assert_in_range(n, 0, 40);
}

/* Of 20 groups of 10 the first values are the better the later their group, by more than the other
   dimensions are worth: the best few are all of the last. One variant of another is above all. */
static double height_with_a_hidden_variant(uint32_t point)
{
    const uint32_t value = value_of(point, 0);
    const double rest = value_of(point, 1) / 10.0 + value_of(point, 2) / 100.0;

    return (value == 147 ? 100 : value % 10 == 0 ? 1 + value / 10.0 : 0.5) + rest;
}

TEST(test_variants_of_what_is_not_among_the_best_are_tried)
{
    const uint32_t size[] = {200, 10, 10};
    uint32_t group[200];

    make_grid(3, size);
    grid.height_of = height_with_a_hidden_variant;
    for (uint32_t i = 0; i < 200; i++) {
        group[i] = i / 10 * 10;
    }
    grid.joint.group[0] = group;
    for (uint64_t seed = 0; seed < 20; seed++) {
        search(0, 400, seed);
        assert_true(grid.best >= 100);
    }
}

TEST(test_a_search_is_that_of_its_seed)
{
    const uint32_t size[] = {8, 10, 5, 3, 4};
    uint8_t *before = malloc(POINTS);

    make_grid(5, size);
    search(5, 300, 11);
    memcpy(before, grid.tried, POINTS);
    search(5, 300, 11);
    assert_memory_equal(before, grid.tried, POINTS);
    search(5, 300, 12);
    assert_memory_not_equal(before, grid.tried, POINTS);
    free(before);
}

/* With 64 open at a time any of a round may be the last to be told; what is tried, and in which
   order it is begun, stays. */
TEST(test_it_does_not_matter_what_ends_first)
{
    const uint32_t size[] = {8, 10, 5, 3, 4};
    const uint32_t side_by_side[] = {2, 3, 16, 64};
    uint64_t order;

    make_grid(5, size);
    search(5, 700, 11);
    order = grid.order;
    for (uint32_t i = 0; i < sizeof side_by_side / sizeof *side_by_side; i++) {
        grid.n_side_by_side = side_by_side[i];
        assert_true(search(5, 700, 11).n_tried == 700);
        assert_true(grid.order == order);
    }
}

/* Of 64 that are open at a time all but one are told: with what is guessed then, a process that
   waits does what is to be done anyway, more often than not. */
TEST(test_guesses_come_true)
{
    const uint32_t size[] = {8, 10, 5, 3, 4};
    uint32_t n_guesses = 0, n_true = 0;

    make_grid(5, size);
    grid.n_side_by_side = PST_JOINT_ROUND;
    search(5, 700, 11);
    for (uint32_t p = 0; p < 4800; p++) {
        n_guesses += grid.guessed[p];
        n_true += grid.guessed[p] && grid.tried[p];
    }
    assert_in_range(n_guesses, 20, 700);
    assert_in_range(n_true, n_guesses / 2, n_guesses);
}

static bool is_low(void *context, uint32_t point, const struct pst_score *best)
{
    (void)context;
    return value_of(point, 1) > 0 && best->state == PST_SCORE_GOOD;
}

/* Of the last two dimensions values that are not the same are worth little: no step of one alone
   leads upwards, from wherever it starts. */
static double height_on_ridge(uint32_t point)
{
    const uint32_t a = value_of(point, 1), b = value_of(point, 2);
    const struct pst_philox words = pst_philox(grid.made_by, 0, value_of(point, 0));

    return (a == b ? 2.0 + a : 1.0 / (1 + a)) + pst_uniform(words.v[0]);
}

TEST(test_what_is_coupled_is_varied_together)
{
    const uint32_t size[] = {40, 6, 6};

    make_grid(3, size);
    grid.height_of = height_on_ridge;
    grid.joint.coupled = 6;
    for (uint64_t g = 0; g < 40; g++) {
        search(g, 150, g);
        assert_true(grid.best == optimum(1440));
    }
}

TEST(test_hopeless_points_are_passed_over)
{
    const uint32_t size[] = {16, 16}; /* more than a round */
    struct pst_joint_found found;

    make_grid(2, size);
    grid.joint.start = 16;
    grid.joint.hopeless = is_low;
    found = search(2, 256, 0);
    assert_true(found.all && found.n_hopeless > 0);
    assert_int_equal(found.n_tried + found.n_hopeless, 256);
}

TEST(test_an_end_leaves_what_there_is)
{
    const uint32_t size[] = {8, 10, 5, 3, 4};
    struct pst_joint_found found;

    make_grid(5, size);
    grid.end_after = 100;
    grid.n_side_by_side = 4;
    found = search(6, 1000, 0);
    assert_false(found.all);
    assert_int_equal(grid.n_tried, 100);
}
