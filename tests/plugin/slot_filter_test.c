/* SPDX-License-Identifier: Apache-2.0
 *
 * two-ended and offload with their margins: what they offload has time for its trips, leaves its
 * place on the device within the period, replays counted, and leaves the link a part of its time.
 * Against every plan that obeys.
 */
#include "test.h"

#include "memopt_rig.h"

#define TARGET  .9
#define NO_SIZE "min_swap_bytes = 0\nhost_memory = 1.0\n"

static double trip_ns(const struct stage *s, uint32_t v)
{
    return (double)s->nodes[v].saved_bytes * 1e9 / (double)s->view.link_bytes_per_s;
}

/* Between the forward and the backward of v there is room for a trip out and back, and for so many
   more. */
static bool has_time(const struct stage *s, uint32_t v, double windows)
{
    double ns = (s->view.in_flight - 1.0) * (double)total_ns(s);

    for (uint32_t u = v + 1; u < s->view.n_nodes; u++) {
        ns += (double)(s->nodes[u].forward_ns + s->nodes[u].backward_ns);
    }
    return ns >= (1 + windows) * 2 * trip_ns(s, v);
}

/* The node before whose backward the run from `first` on is there again. */
static uint32_t wanted_at(const struct stage *s, const char *plan, uint32_t first)
{
    uint32_t at = first;

    for (uint32_t u = first; plan[u] == 'R'; u++) {
        for (uint32_t v = u; v < s->view.n_nodes; v++) {
            at = (v == u || reads_node(s, v, u)) && v > at ? v : at;
        }
    }
    return at;
}

/* The backward pass, replay by replay: from the first reader of v to the end of v's own. */
static uint64_t occupied_ns(const struct stage *s, const char *plan, uint32_t v)
{
    uint64_t ns = 0;
    bool read = false;

    for (uint32_t t = s->view.n_nodes; t-- > v;) {
        for (uint32_t first = s->view.n_nodes; first-- > 0;) {
            bool begins = plan[first] == 'R' && (first == 0 || plan[first - 1] != 'R');

            if (begins && wanted_at(s, plan, first) == t) {
                uint64_t run_ns = 0;

                for (uint32_t u = first; plan[u] == 'R'; u++) {
                    read = read || reads_node(s, u, v);
                    run_ns += s->nodes[u].forward_ns;
                }
                ns += read ? run_ns : 0;
            }
        }
        read = read || t == v || reads_node(s, t, v);
        ns += read ? s->nodes[t].backward_ns : 0;
    }
    return ns;
}

/* Nodes that are offloaded against the rules; their number. */
static uint32_t faults(const struct stage *s, const char *plan, double windows)
{
    uint32_t n = 0;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        if (plan[v] == 'S') {
            uint64_t busy = occupied_ns(s, plan, v);

            busy = busy > s->nodes[v].forward_ns ? busy : s->nodes[v].forward_ns;
            n += !has_time(s, v, windows) ||
                 trip_ns(s, v) + (double)busy > TARGET * (double)total_ns(s);
        }
    }
    return n;
}

/* What the plan takes if the link works for so much of the time only. */
static double period_of(const struct stage *s, const char *plan)
{
    double replay = 0, link = 0;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        replay += plan[v] == 'R' ? (double)s->nodes[v].forward_ns : 0;
        link += plan[v] == 'S' ? trip_ns(s, v) * s->view.link_directions : 0;
    }
    replay += (double)total_ns(s);
    return replay > link / TARGET ? replay : link / TARGET;
}

/* The shortest of all plans of these letters that obey and fit; below 0: there is none. Without
   replays no time is to be lost either. */
static double shortest(const struct stage *s, const char *letters_, double windows)
{
    uint32_t n = s->view.n_nodes, n_letters = (uint32_t)strlen(letters_), n_plans = 1;
    double best = -1;

    for (uint32_t v = 0; v < n; v++) {
        n_plans *= n_letters;
    }
    for (uint32_t i = 0; i < n_plans; i++) {
        char plan[MAX_NODES + 1] = {0};
        struct pst_stage_value value;

        for (uint32_t v = 0, rest = i; v < n; v++, rest /= n_letters) {
            plan[v] = letters_[rest % n_letters];
        }
        value = value_of_letters(s, plan);
        if (value.legal && value.peak_bytes <= s->view.capacity_bytes &&
            faults(s, plan, windows) == 0 && (best < 0 || period_of(s, plan) < best) &&
            (strchr(letters_, 'R') != NULL || period_of(s, plan) <= (double)total_ns(s))) {
            best = period_of(s, plan);
        }
    }
    return best;
}

/* A tensor that is read by a replay long before its own reader: with the replay of node 1 before
   the backward of node 3 node 0 is in its place for 2 + 4 + 4 + 30 + 4 of 66. */
TEST(test_by_hand)
{
    struct stage s;

    stage_init(&s, 4, 0, 0);
    add_node(&s, 2, 4, 20, 0, 0, 0);
    add_node(&s, 2, 4, 10, 0, 0, 1u << 0);
    add_node(&s, 15, 30, 10, 0, 0, 1u << 1);
    add_node(&s, 5, 4, 10, 0, 0, 1u << 2 | 1u << 1);
    assert_int_equal(occupied_ns(&s, "SKKK", 0), 8);
    assert_int_equal(occupied_ns(&s, "SRKK", 0), 44);
    assert_int_equal(occupied_ns(&s, "SRKR", 0), 44);
    assert_int_equal(occupied_ns(&s, "KSKR", 1), 5 + 4 + 30 + 4);
}

static void against_every_plan(const char *id, const char *options, const char *letters_,
                               double windows)
{
    const uint64_t seed = 20261123;
    OWN(instance) *instance = open_memopt(id, options);
    uint64_t counter = 0;
    uint32_t n_fit = 0, n_offload = 0;

    for (int round = 0; round < 300; round++) {
        struct memopt_answer answer;
        uint64_t keep, least;
        struct stage s;
        double best;

        random_stage(&s, 5, seed, &counter);
        s.view.link_bytes_per_s = UINT64_C(500000000) * (1 + draw(seed, &counter, 16));
        s.view.link_directions = 1 + draw(seed, &counter, 2);
        keep = value_of_letters(&s, "").peak_bytes;
        least = enumerate(&s, "KR").least_peak * 7 / 10;
        s.view.capacity_bytes = least + draw(seed, &counter, (uint32_t)(keep - least + 1));
        best = shortest(&s, letters_, windows);
        answer = ask(instance, &s);
        if ((best >= 0) != (answer.price.fits != 0)) {
            fail_msg("round %d: %s, the best %.2f", round, answer.price.fits ? "fits" : "no", best);
        }
        if (best >= 0) {
            double period = period_of(&s, answer.plan);

            n_fit++;
            n_offload += strchr(answer.plan, 'S') != NULL;
            if (faults(&s, answer.plan, windows) > 0 || period > best * 1.05) {
                fail_msg("round %d: %s, %.2f, %u against the rules; the best %.2f", round,
                         answer.plan, period, faults(&s, answer.plan, windows), best);
            }
        }
    }
    print_message("%s: %u fit, %u offload\n", id, n_fit, n_offload);
    assert_true(n_fit > 60 && n_offload > 60);
}

TEST(test_two_ended)
{
    against_every_plan("two-ended", NO_SIZE, "KRS", 0);
}

/* Obeys the same rules in Capuchin's order; what it finds is as it may be. */
TEST(test_capuchin)
{
    const uint64_t seed = 20261124;
    OWN(instance) *instance = open_memopt("dawnpiper", NO_SIZE "policy = \"capuchin\"\n");
    uint64_t counter = 0;
    uint32_t n_both = 0;

    for (int round = 0; round < 1000; round++) {
        struct memopt_answer answer;
        struct stage s;

        random_stage(&s, 7, seed, &counter);
        s.view.link_bytes_per_s = UINT64_C(500000000) * (1 + draw(seed, &counter, 16));
        s.view.in_flight += 2;
        s.view.capacity_bytes =
            value_of_letters(&s, "").peak_bytes * (3 + draw(seed, &counter, 5)) / 10;
        answer = ask(instance, &s);
        if (answer.price.fits) {
            assert_int_equal(faults(&s, answer.plan, 0), 0);
            n_both += strchr(answer.plan, 'S') != NULL && strchr(answer.plan, 'R') != NULL;
        }
    }
    print_message("%u offload and replay\n", n_both);
    assert_true(n_both > 10);
}

/* What one search must not offload is free for the next: the default policy, which looks in
   Capuchin's order too where it has not found the best, is behind it nowhere. */
TEST(test_both_policies)
{
    const uint64_t seed = 20261125;
    OWN(instance) *both = open_memopt("two-ended", NO_SIZE);
    OWN(instance) *one = open_memopt("dawnpiper", NO_SIZE "policy = \"capuchin\"\n");
    const struct pst_memopt *f = one->plugin->get_interface(PST_MEMOPT);
    uint64_t counter = 0;
    uint32_t n_fit = 0;

    for (int round = 0; round < 2500; round++) {
        struct pst_stage_price price = {.size = sizeof price}, other = {.size = sizeof other};
        struct stage s;

        random_stage(&s, 30, seed, &counter);
        s.view.link_bytes_per_s = UINT64_C(500000000) * (1 + draw(seed, &counter, 16));
        s.view.in_flight += 2;
        s.view.capacity_bytes =
            value_of_letters(&s, "").peak_bytes * (3 + draw(seed, &counter, 5)) / 10;
        assert_int_equal(f->price(one->self, &s.view, &other), PST_OK);
        assert_int_equal(f->price(both->self, &s.view, &price), PST_OK);
        n_fit += other.fits;
        if (other.fits && (!price.fits || price.period_ns > other.period_ns)) {
            fail_msg("round %d: %llu ns, in Capuchin's order %llu ns", round,
                     (unsigned long long)price.period_ns, (unsigned long long)other.period_ns);
        }
    }
    print_message("%u fit\n", n_fit);
    assert_true(n_fit > 1000);
}

TEST(test_offload)
{
    against_every_plan("offload", "min_swap_bytes = 0\n", "KS", 1);
}
