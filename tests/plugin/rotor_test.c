/* SPDX-License-Identifier: Apache-2.0
 *
 * rotor: the evaluator of listed replays against a ledger; random chains against a search over all
 * schedules that keep what they store until its backward, with one and more micro-batches in
 * flight; what more memory, more slots and fewer micro-batches do. e2e/memopt_rotor_test.txt has
 * three layers worked out by hand.
 */
#include "test.h"

#include "checkpoint_search.h"
#include "memopt_rig.h"
#include "replay_ledger.h"

/* A layer in one node: saves all, of which the result is a part. */
static void add_layer(struct stage *s, uint64_t uf, uint64_t ub, uint64_t x, uint64_t saved,
                      uint64_t wf, uint64_t wb)
{
    struct pst_stage_node *node = add_link(s, uf, ub, saved);

    node->output_bytes = x;
    node->output_saved = 1;
    node->forward_work_bytes = wf;
    node->backward_work_bytes = wb;
}

/* --- the evaluator -----------------------------------------------------------------------------*/

static uint32_t random_list(const struct stage *s, struct pst_replay *replays, uint64_t seed,
                            uint64_t *counter)
{
    uint32_t n = 0;

    for (uint32_t v = s->view.n_nodes; v-- > 0;) {
        while (n < s->view.n_nodes && draw(seed, counter, 3) == 0) {
            uint32_t last = draw(seed, counter, v + 1);

            replays[n++] = (struct pst_replay){v, draw(seed, counter, last + 1), last};
        }
    }
    return n;
}

TEST(test_evaluator_is_the_ledger)
{
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        struct pst_stage_value value = {.size = sizeof value};
        struct pst_replay replays[MAX_NODES];
        struct ledger_value booked;
        uint64_t counter = 0;
        struct stage s;
        uint32_t n;

        random_stage(&s, 8, seed, &counter);
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            s.nodes[v].output_saved = draw(seed, &counter, 3) > 0;
            s.nodes[v].output_bytes = s.nodes[v].output_saved
                                          ? draw(seed, &counter, s.nodes[v].saved_bytes + 1)
                                          : draw(seed, &counter, 20);
            s.nodes[v].flags = draw(seed, &counter, 6) == 0 ? PST_NODE_NO_RECOMPUTE : 0;
            s.nodes[v].action = draw(seed, &counter, 8) == 0 ? PST_ACTION_OFFLOAD : 0;
        }
        n = random_list(&s, replays, seed, &counter);
        pst_evaluate_replays(&s.view, replays, n, &value, NULL);
        booked = ledger_of_replays(&s, replays, n);
        assert_true(value.legal);
        if (value.peak_bytes != booked.peak || value.period_ns < booked.total + booked.extra) {
            fail_msg("seed %llu: peak %llu, booked %llu; period %llu, booked %llu + %llu",
                     (unsigned long long)seed, (unsigned long long)value.peak_bytes,
                     (unsigned long long)booked.peak, (unsigned long long)value.period_ns,
                     (unsigned long long)booked.total, (unsigned long long)booked.extra);
        }
    }
}

TEST(test_broken_lists)
{
    static const struct pst_replay wrong[][2] = {
        {{3, 0, 1}, {2, 0, 0}}, /* there is no node 3 */
        {{1, 0, 2}, {0, 0, 0}}, /* behind the backward that comes next */
        {{2, 1, 0}, {0, 0, 0}}, /* ends before it begins */
        {{0, 0, 0}, {1, 0, 0}}, /* ascends */
    };
    struct pst_stage_value value = {.size = sizeof value};
    static const struct pst_replay many[4] = {{2, 0, 0}, {2, 0, 0}, {2, 0, 0}, {2, 0, 0}};
    struct stage s;

    stage_init(&s, 1, 0, 2);
    for (uint32_t v = 0; v < 3; v++) {
        add_layer(&s, 1, 2, 2, 4, 0, 4);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pst_evaluate_replays(&s.view, wrong[i], 2, &value, NULL);
        assert_int_equal(value.legal, 0);
        assert_non_null(value.rule);
        assert_int_equal(value.node, i == 2 ? 1 : 0); /* the first that the wrong one names */
    }
    pst_evaluate_replays(&s.view, many, 3, &value, NULL);
    assert_int_equal(value.legal, 1);
    pst_evaluate_replays(&s.view, many, 4, &value, NULL);
    assert_int_equal(value.legal, 0);
    s.nodes[1].action = PST_ACTION_RECOMPUTE;
    pst_evaluate_replays(&s.view, many, 3, &value, NULL);
    assert_int_equal(value.legal, 0);
}

/* --- all schedules -----------------------------------------------------------------------------*/

static void random_chain(struct stage *s, uint32_t n, uint32_t k, uint64_t seed, uint64_t *counter)
{
    stage_init(s, k, draw(seed, counter, 5), 1 + draw(seed, counter, 3));
    for (uint32_t l = 0; l < n; l++) {
        uint64_t x = 1 + draw(seed, counter, 3);

        add_layer(s, 1 + draw(seed, counter, 4), 1 + draw(seed, counter, 4), x,
                  x + draw(seed, counter, 3), draw(seed, counter, 2),
                  x + 1 + draw(seed, counter, 3));
    }
}

/* Random chains; capacities from nothing fits to everything does. */
static void against_search(uint32_t most, uint32_t in_flight, uint64_t seeds)
{
    struct pst_instance *instance = open_memopt("rotor", "");
    uint32_t n_tight = 0, n_finer = 0;

    for (uint64_t seed = 1; seed <= seeds; seed++) {
        uint64_t counter = 0, ample, least;
        struct memopt_answer answer;
        struct stage s;
        uint32_t found;

        random_chain(&s, 2 + draw(seed, &counter, most - 1),
                     in_flight == 1 ? 1 : 2 + draw(seed, &counter, in_flight - 1), seed, &counter);
        ample = value_of_letters(&s, "").peak_bytes;
        least = in_flight == 1 ? ample * 6 / 10 : ample / 3;
        s.view.capacity_bytes = least + draw(seed, &counter, (uint32_t)(ample - least));
        found = search(&s);
        answer = ask(instance, &s);
        if (found == NOT_REACHED) { /* the evaluator may let go of more */
            n_finer += answer.price.fits;
            continue;
        }
        n_tight += found > total_ns(&s);
        if (!answer.price.fits || answer.value.period_ns != found) {
            fail_msg("seed %llu: %u nodes, k %u, capacity %llu: %s, %llu ns, expected %u",
                     (unsigned long long)seed, s.view.n_nodes, s.view.in_flight,
                     (unsigned long long)s.view.capacity_bytes, answer.price.fits ? "fits" : "no",
                     (unsigned long long)answer.value.period_ns, found);
        }
        if (answer.n_replays > 0) {
            struct ledger_value booked = ledger_of_replays(&s, answer.replays, answer.n_replays);

            assert_int_equal(booked.peak, answer.value.peak_bytes);
            assert_int_equal(booked.total + booked.extra, found);
        }
    }
    print_message("%u of %u with replays; %u fit by the evaluator alone\n", n_tight,
                  (unsigned)seeds, n_finer);
    assert_true(n_tight > seeds / 4);
    pst_instance_destroy(instance);
}

TEST(test_chains_against_search)
{
    against_search(MOST_LAYERS, 1, 250);
}

TEST(test_in_flight_against_search)
{
    against_search(4, 4, 150);
}

/* --- laws --------------------------------------------------------------------------------------*/

static uint64_t period_or_never(struct pst_instance *instance, struct stage *s)
{
    struct memopt_answer answer = ask(instance, s);

    return answer.price.fits ? answer.value.period_ns : UINT64_MAX;
}

/* More memory, slots, and fewer micro-batches never cost time. */
TEST(test_laws)
{
    OWN(instance) *instance = open_memopt("rotor", "");
    OWN(instance) *few = open_memopt("rotor", "slots = 20");
    OWN(instance) *twice = open_memopt("rotor", "slots = 40");

    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t counter = 0, before = UINT64_MAX, ample;
        struct stage s;

        random_chain(&s, 10, 1 + draw(seed, &counter, 4), seed, &counter);
        ample = value_of_letters(&s, "").peak_bytes;
        for (uint32_t part = 3; part <= 10; part++) {
            uint64_t now, coarse, fine;

            s.view.capacity_bytes = ample * part / 10;
            now = period_or_never(instance, &s);
            assert_true(now <= before);
            before = now;
            coarse = period_or_never(few, &s);
            fine = period_or_never(twice, &s);
            assert_true(fine <= coarse && now <= fine);
            s.view.in_flight++;
            assert_true(period_or_never(instance, &s) >= now);
            s.view.in_flight--;
        }
        assert_int_equal(before, total_ns(&s)); /* everything kept fits */
    }
}

/* Layers of several nodes with a skip inside, nodes that must not run again, earlier decisions: a
   plan that is found is legal, fits by the ledger, and comes again. */
TEST(test_stages_of_all_kinds)
{
    OWN(instance) *instance = open_memopt("rotor", "layers = 6");
    uint32_t n_nested = 0;

    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t counter = 0;
        struct memopt_answer answer, again;
        struct stage s;

        random_stage(&s, 20, seed, &counter);
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            s.nodes[v].output_saved = draw(seed, &counter, 3) > 0;
            s.nodes[v].output_bytes =
                s.nodes[v].output_saved ? s.nodes[v].saved_bytes / 2 : draw(seed, &counter, 20);
            s.nodes[v].flags = draw(seed, &counter, 8) == 0 ? PST_NODE_NO_RECOMPUTE : 0;
            s.nodes[v].action =
                seed % 4 == 0 && draw(seed, &counter, 5) == 0 ? PST_ACTION_OFFLOAD : 0;
        }
        s.view.capacity_bytes = value_of(&s, NULL).peak_bytes * (40 + seed % 60) / 100;
        answer = ask(instance, &s);
        again = ask_once("rotor", "layers = 6", &s);
        assert_int_equal(answer.n_replays, again.n_replays);
        assert_memory_equal(answer.replays, again.replays,
                            answer.n_replays * sizeof answer.replays[0]);
        if (answer.n_replays > 0) {
            struct ledger_value booked = ledger_of_replays(&s, answer.replays, answer.n_replays);

            assert_int_equal(booked.peak, answer.value.peak_bytes);
            assert_true(booked.peak <= s.view.capacity_bytes);
            n_nested++;
        }
    }
    print_message("%u of 300 with replays\n", n_nested);
    assert_true(n_nested > 50);
}
