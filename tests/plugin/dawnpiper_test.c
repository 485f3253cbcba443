/* SPDX-License-Identifier: Apache-2.0
 *
 * tideline with an exact memory optimizer behind it: worked examples of two and four stages, and
 * random chains against every cut.
 */
#include "plugin_rig.h"

#include "test.h"

#include "base/philox.h"
#include "base/util.h"
#include "exact_memory.h"

static struct t_world t;

static void nodes(uint32_t n, const uint32_t (*rows)[5])
{
    memset(&t, 0, sizeof t);
    t.x_0 = t.copies = 1;
    for (uint32_t i = 0; i < n; i++) {
        t.nodes[i] = (struct t_node){rows[i][0], rows[i][1], rows[i][2], rows[i][3], rows[i][4]};
    }
}

static void equal_nodes(uint32_t n, uint32_t tf, uint32_t tb, uint64_t a, uint64_t o, uint64_t w)
{
    memset(&t, 0, sizeof t);
    t.x_0 = t.copies = 1;
    for (uint32_t i = 0; i < n; i++) {
        t.nodes[i] = (struct t_node){tf, tb, a, o, w};
    }
}

/* Bottleneck of the answer; UINT64_MAX: infeasible. */
static uint64_t ask(const char *options)
{
    struct pst_remarks remarks;
    struct pst_error err;
    pst_status st = t_ask(&t, "tideline", options, &remarks, &err);

    if (st == PST_ERR_INFEASIBLE) {
        assert_non_null(strstr(err.message, "fit"));
        return UINT64_MAX;
    }
    assert_ok(st, &err);
    assert_int_equal(t.w.n_cut, t.w.n_stages);
    for (uint32_t i = 0; i < remarks.n; i++) {
        if (strcmp(remarks.items[i].key, "bottleneck_us_per_sample") == 0) {
            assert_true(remarks.items[i].number * 1000 == (double)t_bottleneck(&t, t.w.cuts));
        }
    }
    return t_bottleneck(&t, t.w.cuts);
}

/* --- the optimizer of these tests, on stages worked out by hand --------------------------------*/

TEST(test_stage)
{
    /* Four nodes of (1, 2, 2), an input of 1, three in flight: extra time by capacity. */
    static const struct {
        uint64_t capacity, extra;
    } table[] = {{27, 0}, {23, 1}, {21, 1}, {19, 2}, {17, 2}, {15, 3}, {13, 3}, {11, 4}};
    /* (1,2,8) (6,12,4) (1,2,6) (4,8,2), static 10, input 2, two in flight. */
    static const struct {
        uint64_t capacity, extra;
    } mixed[] = {{54, 0}, {50, 1}, {38, 1}, {36, 2}, {32, 2}, {30, 6}};
    static const uint32_t rows[][5] = {
        {1, 2, 8, 0, 5}, {6, 12, 4, 0, 0}, {1, 2, 6, 0, 0}, {4, 8, 2, 0, 0}};
    uint64_t keep = 0;

    equal_nodes(4, 1, 2, 2, 1, 0);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        t.w.in.capacity_bytes = table[i].capacity;
        assert_int_equal(t_period(&t, 0, 4, 3, 1, &keep), 12 + table[i].extra);
        assert_int_equal(keep, 27);
    }
    t.w.in.capacity_bytes = 10;
    assert_true(t_period(&t, 0, 4, 3, 1, NULL) == UINT64_MAX);
    nodes(4, rows);
    t.x_0 = 2;
    for (size_t i = 0; i < sizeof mixed / sizeof mixed[0]; i++) {
        t.w.in.capacity_bytes = mixed[i].capacity;
        assert_int_equal(t_period(&t, 0, 4, 2, 1, &keep), 36 + mixed[i].extra);
        assert_int_equal(keep, 54);
    }
}

/* --- examples ----------------------------------------------------------------------------------*/

static const char *const searches[] = {"", "search = \"binary\"", "search = \"exact\"",
                                       "search = \"threshold\"",
                                       "search = \"binary\"\ninterval = \"paper\""};

static void expect(uint64_t ns, uint32_t cut)
{
    for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
        uint64_t got = ask(searches[i]);

        if (got != ns || (ns != UINT64_MAX && cut != 0 && t.w.cuts[1] != cut)) {
            fail_msg("%s: %llu at %u, expected %llu at %u", searches[i], (unsigned long long)got,
                     t.w.cuts[1], (unsigned long long)ns, cut);
        }
    }
}

/* Both pivots are 2, where the bottleneck is 31; one further it is 30. */
TEST(test_margin)
{
    static const uint32_t rows[][5] = {
        {3, 6, 6, 1, 0}, {2, 4, 1, 1, 1}, {4, 8, 4, 1, 0}, {3, 6, 6, 1, 0}, {2, 4, 6, 1, 1}};

    nodes(5, rows);
    t_finish(&t, 5, 2, 8, 16);
    assert_int_equal(ask("search = \"binary\"\ninterval = \"paper\"\nmargin = 0"), 31);
    assert_int_equal(t.w.cuts[1], 2);
    expect(30, 3);
}

/* Both pivots are 2, which does not fit whatever is done; 3 alone does. */
TEST(test_outside)
{
    static const uint32_t rows[][5] = {
        {4, 8, 1, 1, 0}, {3, 6, 1, 1, 0}, {4, 8, 4, 4, 1}, {1, 2, 1, 1, 1}, {2, 4, 1, 1, 2}};

    nodes(5, rows);
    t_finish(&t, 5, 2, 8, 12);
    expect(37, 3);
    assert_int_equal(ask("search = \"binary\"\ninterval = \"paper\"\nmargin = 0"), 37);
    assert_int_equal(ask("search = \"binary\"\nmargin = 0"), 37);
}

/* Outputs 2 8 40 8 2 2, two bytes a tick: the middle costs a transfer of 20 and is the best; a
   filter of the cheapest bytes times four loses it, and a link that both directions share. */
TEST(test_transfers)
{
    static const uint32_t rows[][5] = {{2, 4, 0, 2, 0}, {2, 4, 0, 8, 0}, {2, 4, 0, 40, 0},
                                       {2, 4, 0, 8, 0}, {2, 4, 0, 2, 0}, {2, 4, 0, 2, 0}};

    nodes(6, rows);
    t_finish(&t, 6, 2, 8, UINT64_MAX);
    t.w.link_bytes_per_ns = 2;
    expect(20, 3);
    assert_int_equal(ask("search = \"binary\"\nvolume_factor = 4\ninterval = \"paper\""), 24);
    assert_int_equal(t.w.cuts[1], 2);
    assert_int_equal(ask("shared_link = true"), 24); /* 40 against 24 and a transfer of 8 */
}

/* Where no cut has so few tensors, there is none. */
TEST(test_boundary_tensors)
{
    equal_nodes(6, 1, 2, 2, 1, 1);
    t_finish(&t, 6, 2, 8, UINT64_MAX);
    /* Node 0 feeds node 3 as well: cuts 2 and 3 have two tensors. */
    world_edge(&t.w, 0, 3, 1);
    for (uint32_t v = 0; v < 6; v++) {
        t.w.nodes[v].n_in = t.w.nodes[v].n_out = 0;
    }
    world_finish(&t.w);
    assert_int_equal(ask("max_boundary_tensors = 1"), 12);
    assert_int_equal(t.w.cuts[1], 4);
    assert_int_equal(ask("max_boundary_tensors = 1\nsearch = \"binary\""), 12);
    assert_int_equal(ask("max_boundary_tensors = 1\nsearch = \"threshold\""), 12);
    assert_int_equal(ask("max_boundary_tensors = 2"), 9);
}

/* --- random chains -----------------------------------------------------------------------------*/

static uint64_t seed, counter;

static uint32_t draw(uint32_t low, uint32_t high)
{
    return low + pst_philox(seed, 0, counter++).v[0] % (high - low + 1);
}

/* Tight: less than what an even cut needs if everything is kept. */
static void random_chain(uint32_t n, uint32_t stages, bool even_messages)
{
    uint64_t keep = 0;

    memset(&t, 0, sizeof t);
    t.copies = draw(1, 3);
    t.x_0 = draw(0, 3);
    t.stashing = draw(0, 1) == 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tf = draw(1, 6);

        t.nodes[i] =
            (struct t_node){tf, 2 * tf, draw(1, 8), even_messages ? 1 : draw(1, 4), draw(0, 3)};
    }
    t_finish(&t, n, stages, 8, UINT64_MAX);
    t_period(&t, 0, n / stages, stages, t_versions(&t, 0, stages), &keep);
    t.w.in.capacity_bytes = keep * draw(45, 95) / 100;
}

/* Two stages: the wide interval holds an optimal cut, the paper's mostly does. */
TEST(test_interval)
{
    uint32_t feasible = 0, wide = 0, narrow = 0;

    seed = 20255;
    for (int round = 0; round < 1500; round++) {
        uint32_t cuts[17];
        uint64_t best;

        random_chain(draw(6, 10), 2, false);
        best = t_optimum(&t, cuts);
        if (best == UINT64_MAX) {
            assert_true(ask("search = \"binary\"") == UINT64_MAX);
            continue;
        }
        feasible++;
        wide += ask("search = \"binary\"") == best;
        narrow += ask("search = \"binary\"\ninterval = \"paper\"\nmargin = 0") == best;
    }
    print_message("%u feasible, %u optimal, %u by the paper's interval\n", feasible, wide, narrow);
    assert_true(feasible > 700);
    assert_true(wide * 1000 >= feasible * 995);
    assert_true(narrow * 100 >= feasible * 90 && narrow < feasible);
}

/* Four stages: halving finds a plan whenever there is one, nearly always the best; the default is
   never worse than the paper's way; the other two searches are exact. */
TEST(test_searches)
{
    uint32_t feasible = 0, optimal = 0;
    double ratio = 0, worst = 1;

    seed = 4242;
    for (int round = 0; round < 500; round++) {
        uint32_t cuts[17];
        uint64_t best, binary, paper;

        random_chain(draw(8, 12), 4, round % 2 == 0);
        t.w.link_bytes_per_ns = draw(0, 1);
        best = t_optimum(&t, cuts);
        binary = ask("search = \"binary\"");
        assert_true(ask("search = \"exact\"") == best);
        assert_true(ask("search = \"threshold\"") == best);
        assert_true(ask("") == best);
        if (best == UINT64_MAX) {
            assert_true(binary == UINT64_MAX);
            continue;
        }
        paper = ask("search = \"binary\"\ninterval = \"paper\"");
        assert_true(paper != UINT64_MAX && best <= binary && binary <= paper);
        assert_true(binary <= ask("search = \"binary\"\ninterval = \"paper\"\nmargin = 0"));
        feasible++;
        optimal += binary == best;
        ratio += (double)binary / (double)best;
        worst = (double)binary / (double)best > worst ? (double)binary / (double)best : worst;
    }
    print_message("%u feasible, %u optimal by halving, mean %.4f, worst %.3f\n", feasible, optimal,
                  ratio / feasible, worst);
    assert_true(feasible > 200);
    assert_true(optimal * 100 >= feasible * 97);
    assert_true(ratio / feasible < 1.01 && worst < 1.25);
}

/* --- size --------------------------------------------------------------------------------------*/

TEST(test_large)
{
    static const char *const options[] = {"", "search = \"exact\"", "search = \"threshold\""};
    uint64_t before[3] = {0};

    for (int tight = 0; tight < 2; tight++) {
        for (int i = 0; i < 3; i++) {
            uint64_t begin, ns;

            memset(&t, 0, sizeof t);
            seed = 5;
            counter = 0;
            t.copies = 1;
            t.simple = true;
            for (uint32_t v = 0; v < 1000; v++) {
                t.nodes[v] = (struct t_node){draw(100, 1000), draw(100, 2000), draw(1, 7), 1, 4};
            }
            t_finish(&t, 1000, 16, 64, tight ? 2100 : UINT64_MAX);
            begin = pst_now_ns();
            ns = ask(options[i]);
            print_message("%s%s: %llu ns in %.3f s, %llu prices\n", tight ? "tight " : "",
                          options[i], (unsigned long long)ns, (double)(pst_now_ns() - begin) / 1e9,
                          (unsigned long long)t.w.n_prices);
            assert_true(ns != UINT64_MAX);
            assert_true(i == 0 || ns <= before[tight]);
            before[tight] = i == 0 ? ns : before[tight];
            if (i == 0) { /* of 16 x 1000 x 1001 / 2 ranges */
                assert_true(t.w.n_prices < 200000);
            }
        }
    }
    t.w.in.capacity_bytes = 1000; /* some stages fit, all together do not */
    assert_true(ask("") == UINT64_MAX);
    print_message("too little: %llu prices\n", (unsigned long long)t.w.n_prices);
    assert_true(t.w.n_prices < 400000);
    t.w.stop = true;
    {
        struct pst_remarks remarks;
        struct pst_error err;

        assert_int_equal(t_ask(&t, "tideline", "", &remarks, &err), PST_ERR_CANCELLED);
    }
}
