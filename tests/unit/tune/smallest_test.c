/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the least memory, on tables in the place of plans.
 */
#include "tune/smallest.h"

#include "test.h"

#define ALL 10000 /* what a plan without a limit takes */

/* A plan takes nine tenths of the amount that it was made for, but no less than `least`. */
struct table {
    uint64_t least, refused_from, refused_to; /* with these amounts there is no plan */
    uint32_t n_left;                          /* plans, until the search is stopped */
};

static uint64_t need(void *context, uint64_t memory, uint64_t worth)
{
    struct table *t = context;

    t->n_left -= t->n_left > 0;
    if (memory < t->least || (memory >= t->refused_from && memory < t->refused_to)) {
        return UINT64_MAX;
    }
    return memory / 10 * 9 > t->least ? memory / 10 * 9 : t->least;
}

static bool stopped(void *context)
{
    return ((struct table *)context)->n_left == 0;
}

static uint64_t find(struct table *t, bool *ret_ended)
{
    const struct pst_smallest search = {
        .need = need, .stopped = stopped, .context = t, .most = PST_SMALLEST_MOST};

    return pst_smallest_find(&search, ALL, ret_ended);
}

TEST(to_the_end)
{
    struct table t = {.least = 3000, .n_left = UINT32_MAX};
    bool ended;

    assert_int_equal(find(&t, &ended), 3000);
    assert_false(ended);
}

/* However early it is stopped: what is named is enough by itself, or what all comes to. */
TEST(stopped_early)
{
    uint32_t less = 0;
    bool ended;

    for (uint32_t n = 1; n < PST_SMALLEST_MOST; n++) {
        /* The plan for 5000 takes 4500, with which nothing is found. */
        struct table t = {.least = 3000, .refused_from = 4400, .refused_to = 4900, .n_left = n};
        uint64_t named = find(&t, &ended);

        assert_true(ended == (t.n_left == 0));
        assert_true(named == ALL || need(&t, named, 0) <= named);
        less += named < ALL;
    }
    assert_true(less > 0);
}

/* One function says the hint and sets the field. */
TEST(said)
{
    struct pst_error err = {.status = PST_ERR_INFEASIBLE};

    pst_error_enough(&err, "cluster.memory", 131072, "more devices");
    assert_string_equal(err.hint, "cluster.memory = 131072 would do; more devices");
    assert_true(err.enough_bytes == 131072);
    pst_error_enough(NULL, "cluster.memory", 1, "");
}
