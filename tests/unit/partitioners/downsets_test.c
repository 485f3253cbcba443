/* SPDX-License-Identifier: Apache-2.0
 *
 * Downsets: counted and listed, against trying every set of nodes and against products that are
 * known in closed form.
 */
#include "test.h"

#include "downsets_rig.h"

static uint32_t mask_of(const struct part_downsets *sets, uint32_t k)
{
    return (uint32_t)sets->bits[(size_t)k * sets->n_words];
}

/* Every set is what its parent and its own nodes are; sizes ascend; the ends are there. */
static void check_family(const struct mask_dag *g, const struct part_downsets *sets)
{
    for (uint32_t k = 0; k < sets->n_sets; k++) {
        uint32_t mask = mask_of(sets, k), from_parent = k == 0 ? 0 : mask_of(sets, sets->parent[k]);

        for (uint32_t i = sets->first_added[k]; k > 0 && i < sets->first_added[k + 1]; i++) {
            assert_int_equal(from_parent >> sets->added[i] & 1, 0);
            from_parent |= 1u << sets->added[i];
        }
        assert_int_equal(from_parent, mask);
        assert_int_equal(__builtin_popcount(mask), sets->size[k]);
        assert_true(mask_is_downset(g, mask));
        assert_true(k == 0 || sets->size[k] >= sets->size[k - 1]);
        assert_true(k == 0 || sets->parent[k] < k);
    }
    assert_int_equal(mask_of(sets, 0), 0);
    assert_int_equal(mask_of(sets, sets->n_sets - 1), (1u << g->dag.n) - 1);
}

TEST(test_all_sets)
{
    uint64_t seed = 7;

    for (int round = 0; round < 300; round++) {
        struct mask_dag g;
        struct part_downsets sets;
        uint64_t count, expected = 0;
        bool exact;

        mask_random(&g, mask_between(&seed, 1, 12), mask_between(&seed, 0, 60), false, &seed);
        for (uint32_t mask = 0; mask < 1u << g.dag.n; mask++) {
            expected += mask_is_downset(&g, mask);
        }
        part_downsets_count(&g.dag, NULL, &count, &exact);
        assert_true(exact);
        assert_int_equal(count, expected);
        assert_int_equal(part_downsets_all(&g.dag, 5000, NULL, &sets, &count, &exact), PST_OK);
        assert_int_equal(sets.n_sets, expected);
        check_family(&g, &sets);
        for (uint32_t a = 0; a < sets.n_sets; a++) {
            for (uint32_t b = 0; b < sets.n_sets && sets.n_sets < 60; b++) {
                uint32_t nodes[MASK_NODES], mask = 0, n;

                assert_true(a == b || mask_of(&sets, a) != mask_of(&sets, b));
                assert_int_equal(part_downsets_nested(&sets, a, b),
                                 (mask_of(&sets, a) & ~mask_of(&sets, b)) == 0);
                n = part_downsets_between(&sets, a, b, nodes);
                while (n-- > 0) {
                    mask |= 1u << nodes[n];
                }
                assert_int_equal(mask, mask_of(&sets, b) & ~mask_of(&sets, a));
            }
        }
    }
}

/* Sets that grow from node 0: found here by walking over masks. */
static uint32_t grown_by_walking(const struct mask_dag *g, bool *found)
{
    uint32_t needs[MASK_NODES], count = 1, n = g->dag.n;
    bool more = true;

    for (uint32_t v = 0; v < n; v++) {
        needs[v] = 1u << v;
        for (uint32_t u = 0; u < v; u++) {
            needs[v] |= (g->needs[v] >> u & 1) != 0 ? needs[u] : 0;
        }
    }
    memset(found, 0, sizeof(bool) << n);
    found[1] = true;
    while (more) {
        more = false;
        for (uint32_t mask = 1; mask < 1u << n; mask++) {
            for (uint32_t v = 0; found[mask] && v < n; v++) {
                if ((g->needs[v] & mask) != 0 && (mask >> v & 1) == 0 && !found[mask | needs[v]]) {
                    found[mask | needs[v]] = more = true;
                    count++;
                }
            }
        }
    }
    return count + 1; /* and the empty one */
}

TEST(test_grown_sets)
{
    static bool found[1 << 10];
    uint64_t seed = 11;
    int whole = 0;

    for (int round = 0; round < 300; round++) {
        struct mask_dag g;
        struct part_downsets sets, all;
        uint64_t count;
        bool exact, one_source = round % 2 == 0;
        uint32_t expected;
        pst_status st;

        mask_random(&g, mask_between(&seed, 1, 10), mask_between(&seed, 10, 60), one_source, &seed);
        expected = grown_by_walking(&g, found);
        st = part_downsets_grown(&g.dag, 5000, NULL, &sets, &count, &exact);
        assert_int_equal(st, found[(1u << g.dag.n) - 1] ? PST_OK : PST_ERR_UNSUPPORTED);
        if (st != PST_OK) {
            continue;
        }
        whole++;
        assert_int_equal(sets.n_sets, expected);
        check_family(&g, &sets);
        if (one_source) {
            assert_int_equal(part_downsets_all(&g.dag, 5000, NULL, &all, &count, &exact), PST_OK);
            assert_int_equal(all.n_sets, sets.n_sets);
        }
    }
    assert_true(whole > 200);
}

/* k branches of m nodes each, joined, then `tail` nodes. */
static struct part_dag *branches(const uint32_t *lengths, uint32_t k, uint32_t tail)
{
    uint32_t n = tail, n_edges = k + tail - 1, at = 0, e = 0, *p;
    struct part_dag *dag = calloc(1, sizeof *dag);

    for (uint32_t i = 0; i < k; i++) {
        n += lengths[i];
        n_edges += lengths[i] - 1;
    }
    p = calloc(3 * (size_t)n_edges + 2 * (size_t)n + 2, sizeof *p);
    *dag = (struct part_dag){n,
                             n_edges,
                             p,
                             p + n_edges,
                             p + 3 * (size_t)n_edges,
                             p + 3 * (size_t)n_edges + n + 1,
                             p + 2 * (size_t)n_edges};
    for (uint32_t i = 0; i < k; i++) {
        for (uint32_t j = 0; j < lengths[i]; j++, at++) {
            p[e] = at;
            p[n_edges + e++] = j + 1 < lengths[i] ? at + 1 : n - tail;
        }
    }
    for (; at + 1 < n; at++) {
        p[e] = at;
        p[n_edges + e++] = at + 1;
    }
    /* Every node but the last has one out-edge, so edge v starts at v. */
    for (uint32_t v = 0, in = 0; v <= n; v++) {
        p[3 * (size_t)n_edges + v] = v < n_edges ? v : n_edges;
        p[3 * (size_t)n_edges + n + 1 + v] = in;
        for (e = 0; e < n_edges; e++) {
            if (p[n_edges + e] == v) {
                p[2 * (size_t)n_edges + in++] = e;
            }
        }
    }
    return dag;
}

TEST(test_counts_without_listing)
{
    static const struct {
        uint32_t k, lengths[14], tail;
        uint64_t expected;
    } cases[] = {
        {2, {24, 24}, 1, 625 + 1},
        {4, {8, 8, 8, 8}, 1, 6561 + 1},
        {7, {4, 4, 4, 4, 4, 4, 4}, 1, 78125 + 1},
        {14, {4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1}, 5, 78125 * 128 + 5},
        {1, {200}, 100, 301},
        {14, {200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200}, 1, UINT64_MAX},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct part_dag *dag = branches(cases[i].lengths, cases[i].k, cases[i].tail);
        struct part_downsets sets;
        uint64_t count;
        bool exact;
        pst_status st = part_downsets_all(dag, 40000, NULL, &sets, &count, &exact);

        assert_true(exact);
        assert_true(count == cases[i].expected);
        assert_int_equal(st, cases[i].expected > 40000 ? PST_ERR_INFEASIBLE : PST_OK);
        if (st == PST_OK) {
            assert_int_equal(sets.n_sets, cases[i].expected);
        }
        free((void *)dag->from);
        free(dag);
    }
}

static bool always(const struct pst_host *host)
{
    return true;
}

static const struct pst_host at_once = {.cancelled = always};

static pst_status list_all(void *dag)
{
    struct part_downsets sets;
    uint64_t count;
    bool exact;

    return part_downsets_all(dag, 1000000, &at_once, &sets, &count, &exact);
}

static pst_status list_grown(void *dag)
{
    struct part_downsets sets;
    uint64_t count;
    bool exact;

    return part_downsets_grown(dag, 1000000, &at_once, &sets, &count, &exact);
}

TEST(test_stops)
{
    const uint32_t lengths[] = {30, 30, 30, 30};
    struct part_dag *dag = branches(lengths, 4, 1);

    assert_int_equal(call_run(list_all, dag), PST_ERR_CANCELLED);
    assert_int_equal(call_run(list_grown, dag), PST_ERR_CANCELLED);
    free((void *)dag->from);
    free(dag);
}
