/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches for the largest size, on sets of sizes that are given.
 */
#include "test.h"

#include "tune/largest.h"

#define LIMIT 4096

/* What fits, and what was tried how often. */
struct world {
    bool fits[LIMIT + 1];
    uint32_t n_tried, tried[LIMIT + 1];
    uint32_t fails_at; /* 0: nowhere */
};

static pst_status try_size(void *context, uint32_t size, bool *ret_fits)
{
    struct world *world = context;

    assert_in_range(size, 1, LIMIT);
    world->n_tried++;
    assert_int_equal(++world->tried[size], 1);
    *ret_fits = world->fits[size];
    return size == world->fails_at ? PST_ERR_CANCELLED : PST_OK;
}

static uint32_t search(struct world *world, uint32_t limit, bool *ret_bounded)
{
    const struct pst_largest largest = {limit, try_size, world};
    uint32_t size = UINT32_MAX;

    assert_int_equal(pst_largest_search(&largest, &size, ret_bounded), PST_OK);
    return size;
}

static struct world world_of(uint32_t n)
{
    struct world world = {.n_tried = 0};

    memset(world.fits + 1, true, n);
    return world;
}

/* Where what fits ends once, that end is found, and no more than the promised sizes are tried. */
TEST(test_finds_the_end)
{
    for (uint32_t n = 0; n <= 300; n++) {
        struct world world = world_of(n);
        bool bounded = false;
        uint32_t log = 0;

        assert_int_equal(search(&world, LIMIT, &bounded), n);
        assert_int_equal(bounded, n > 0);
        while (n >> log > 0) {
            log++;
        }
        assert_true(world.n_tried <= 2 * log + 1 + 6);
    }
}

TEST(test_stops_at_the_limit)
{
    for (uint32_t limit = 1; limit <= 70; limit++) {
        struct world world = world_of(LIMIT);
        bool bounded = true;

        assert_int_equal(search(&world, limit, &bounded), limit);
        assert_false(bounded);
    }
}

/* Nothing above a smallest size that does not do. */
TEST(test_gives_up_at_one)
{
    struct world world = world_of(0);
    bool bounded = true;

    world.fits[2] = true;
    assert_int_equal(search(&world, LIMIT, &bounded), 0);
    assert_false(bounded);
    assert_int_equal(world.n_tried, 1);
}

/* 16 is refused and 15 the last before, but 17 to 29 fit: 15 x 2^(5/6) is 26. */
TEST(test_looks_beyond_a_gap)
{
    struct world world = world_of(29);
    bool bounded = false;

    world.fits[16] = false;
    assert_int_equal(search(&world, LIMIT, &bounded), 29);
    assert_true(bounded);
}

/* What fits beyond reaches past twice the size: it doubles on. */
TEST(test_doubles_on_behind_a_gap)
{
    struct world world = world_of(100);
    bool bounded = false;

    memset(world.fits + 8, false, 5); /* 8 to 12 */
    assert_int_equal(search(&world, LIMIT, &bounded), 100);
    assert_true(bounded);
}

/* Several gaps, each narrower than a factor of 2^(1/6) beyond what is found before. */
TEST(test_goes_from_gap_to_gap)
{
    struct world world = world_of(64);
    bool bounded = false;

    memset(world.fits + 31, false, 2);
    memset(world.fits + 46, false, 3);
    assert_int_equal(search(&world, LIMIT, &bounded), 64);
    assert_true(bounded);
}

TEST(test_passes_errors_on)
{
    struct world world = world_of(20);
    const struct pst_largest largest = {LIMIT, try_size, &world};
    uint32_t size = 77;
    bool bounded = true;

    world.fails_at = 24;
    assert_int_equal(pst_largest_search(&largest, &size, &bounded), PST_ERR_CANCELLED);
    assert_int_equal(size, 77);
    assert_int_equal(world.n_tried, 7); /* 1 2 4 8 16 32 24 */
}
