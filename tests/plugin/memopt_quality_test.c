/* SPDX-License-Identifier: Apache-2.0
 *
 * exact against enumeration, and two-ended and adapipe against exact, on random stages with little
 * memory.
 */
#include "test.h"

#include "memopt_rig.h"

#define PLAIN "slot_filter = false\nlink_target = 1.0\nmin_swap_bytes = 0\nhost_memory = 1.0\n"

static uint64_t seed, counter;

static uint32_t between(uint32_t low, uint32_t high)
{
    return low + draw(seed, &counter, high - low + 1);
}

/* k 2..8, a quarter with skips; a capacity between what everything dropped and kept needs, in the
   lower half. */
static void tight_stage(struct stage *s, uint32_t low, uint32_t high, bool link)
{
    uint32_t n = between(low, high);
    bool dag = between(0, 3) == 0;
    uint64_t keep, least = UINT64_MAX, total = 0;
    uint8_t actions[MAX_NODES] = {0};

    stage_init(s, between(2, 8), between(0, 20), between(0, 4));
    for (uint32_t v = 0; v < n; v++) {
        uint32_t tf = between(1, 10);
        uint64_t mask = v == 0 ? 0 : UINT64_C(1) << (v - 1);

        mask |= dag && v > 1 && between(0, 2) == 0 ? UINT64_C(1) << between(0, v - 2) : 0;
        add_node(s, tf, 2 * tf, between(1, 12), between(0, 2), between(0, 3), mask);
        total += s->nodes[v].saved_bytes;
    }
    if (link) {
        s->view.link_bytes_per_s = total * 1000000000u * between(10, 150) / 100 / total_ns(s);
        s->view.link_directions = between(1, 2);
    }
    keep = value_of(s, actions).peak_bytes;
    memset(actions, PST_ACTION_RECOMPUTE, n);
    least = value_of(s, actions).peak_bytes;
    s->view.capacity_bytes = least + (keep - least) * between(0, 60) / 100;
}

TEST(test_exact)
{
    static const char *const options[] = {"method = \"enumerate\"", "method = \"branch\"",
                                          "method = \"auto\"", "method = \"chain\""};
    uint32_t infeasible = 0;

    seed = 39;
    for (uint32_t round = 0; round < 240; round++) {
        struct optimum best;
        struct stage s;
        bool link = round % 2 == 0;

        tight_stage(&s, 2, link ? 6 : 8, link);
        s.view.capacity_bytes -= round % 5 == 0 ? s.view.capacity_bytes / 6 : 0;
        if (round % 4 > 1) {
            for (uint32_t v = 0; v < s.view.n_nodes; v++) {
                s.nodes[v].output_bytes = between(0, 2) == 0 ? between(1, 12) : 0;
            }
        }
        best = enumerate(&s, link ? "KRS" : "KR");
        infeasible += !best.fits;
        for (size_t i = 0; i < 4; i++) {
            struct memopt_answer answer;

            if (i == 3 &&
                (round % 4 > 1 || link || !s.view.n_nodes || s.n_producers != s.view.n_nodes - 1)) {
                continue; /* the dynamic programme is for chains without a link */
            }
            answer = ask_once("exact", options[i], &s);
            assert_int_equal(answer.price.fits, best.fits);
            if (best.fits) {
                assert_int_equal(answer.value.extra_ns, best.extra);
            }
        }
    }
    assert_in_range(infeasible, 5, 120);
}

struct tally {
    uint32_t n, optimal, missed, claimed;
    double sum, worst;
};

static void compare(struct tally *t, struct pst_instance *instance, struct stage *s,
                    const struct memopt_answer *best)
{
    struct memopt_answer answer = ask(instance, s);
    double excess;

    assert_true(best->price.fits || !answer.price.fits);
    if (!best->price.fits) {
        return;
    }
    t->n++;
    if (!answer.price.fits) {
        t->missed++;
        return;
    }
    excess = (double)answer.value.period_ns / (double)best->value.period_ns - 1;
    assert_true(excess >= 0);
    t->optimal += excess == 0;
    t->sum += excess;
    t->worst = excess > t->worst ? excess : t->worst;
}

static void report(const char *who, const struct tally *t)
{
    uint32_t found = t->n - t->missed;

    print_message("seed %llu, %s: %u stages, optimal %.1f %%, mean +%.2f %%, worst +%.1f %%, "
                  "missed %u\n",
                  (unsigned long long)seed, who, t->n, 100.0 * t->optimal / found,
                  100 * t->sum / found, 100 * t->worst, t->missed);
}

/* Both policies against exact; the two-ended one misses nothing and is never the worse one. */
static void policies(bool link, uint32_t rounds, uint32_t low, uint32_t high)
{
    OWN(instance) *exact = open_memopt("exact", "");
    OWN(instance) *two = open_memopt("two-ended", PLAIN);
    OWN(instance) *capuchin = open_memopt("dawnpiper", PLAIN "policy = \"capuchin\"");
    struct tally of_two = {0}, of_capuchin = {0};

    for (uint32_t round = 0; round < rounds; round++) {
        struct memopt_answer best, a, b;
        struct stage s;

        tight_stage(&s, low, high, link);
        best = ask(exact, &s);
        compare(&of_two, two, &s, &best);
        compare(&of_capuchin, capuchin, &s, &best);
        a = ask(two, &s);
        b = ask(capuchin, &s);
        assert_true(!b.price.fits || (a.price.fits && a.value.period_ns <= b.value.period_ns));
    }
    report(link ? "two-ended, replay and offload" : "two-ended, replay", &of_two);
    report(link ? "capuchin, replay and offload" : "capuchin, replay", &of_capuchin);
    assert_int_equal(of_two.missed, 0);
    assert_true(of_two.sum / of_two.n < 0.01 && of_two.worst <= 0.05);
    assert_true(of_capuchin.sum >= of_two.sum);
}

TEST(test_replay)
{
    seed = 284;
    policies(false, 280, 5, 9);
}

TEST(test_hybrid)
{
    seed = 309;
    policies(true, 300, 5, 9);
}

/* Larger ones: 13 nodes and replays, 10 nodes and both. */
TEST(test_larger)
{
    seed = 13;
    policies(false, 50, 13, 13);
    seed = 10;
    policies(true, 20, 10, 10);
}
