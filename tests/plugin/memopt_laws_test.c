/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds for the best plan of any stage: more memory, faster links and fewer micro-batches do
 * no harm, units do not matter, bounds bound. For exact, and for two-ended where it is exact.
 */
#include "test.h"

#include "memopt_rig.h"

#define PLAIN  "slot_filter = false\nlink_target = 1.0\nmin_swap_bytes = 0\nhost_memory = 1.0\n"
#define ROUNDS 60

static const uint64_t seed = 53;
static uint64_t counter;
static struct pst_instance *solvers[2];

static int open_solvers(void **state)
{
    solvers[0] = open_memopt("exact", "");
    solvers[1] = open_memopt("two-ended", PLAIN);
    return 0;
}

static int close_solvers(void **state)
{
    pst_instance_destroy(solvers[0]);
    pst_instance_destroy(solvers[1]);
    return 0;
}

static uint32_t between(uint32_t low, uint32_t high)
{
    return low + draw(seed, &counter, high - low + 1);
}

static uint64_t peak_of(const struct stage *s, uint8_t action)
{
    uint8_t actions[MAX_NODES];

    memset(actions, action, sizeof actions);
    return value_of(s, actions).peak_bytes;
}

/* Times and bytes are even, so that they can be halved. */
static void make_stage(struct stage *s, bool chain)
{
    uint32_t n = between(2, 7), v;
    uint64_t least, keep;

    stage_init(s, between(2, 6), between(0, 9), between(0, 4));
    for (v = 0; v < n; v++) {
        uint32_t tf = 2 * between(1, 6);
        uint64_t mask = v == 0 ? 0 : UINT64_C(1) << (v - 1);

        mask |= !chain && v > 1 && between(0, 2) == 0 ? UINT64_C(1) << between(0, v - 2) : 0;
        add_node(s, tf, 2 * tf, 2 * between(1, 8), chain ? 0 : between(0, 2),
                 chain ? 0 : between(0, 2), mask);
    }
    s->view.link_bytes_per_s = 100000000u * between(1, 30);
    s->view.link_directions = between(1, 2);
    keep = peak_of(s, PST_ACTION_KEEP);
    least = peak_of(s, PST_ACTION_RECOMPUTE);
    s->view.capacity_bytes = least + (keep - least) * between(0, 80) / 100;
}

/* Least period; UINT64_MAX: nothing fits. */
static uint64_t best(struct pst_instance *solver, struct stage *s)
{
    struct memopt_answer answer = ask(solver, s);

    return answer.price.fits ? answer.value.period_ns : UINT64_MAX;
}

static void without_link(struct stage *s)
{
    s->view.link_bytes_per_s = 0;
}

/* `before` and `after` of the same stage: the period does not rise, in either solver. */
static void expect_no_rise(struct stage *before, struct stage *after)
{
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(best(solvers[i], after) <= best(solvers[i], before));
    }
}

TEST(test_more_of_everything)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct stage s, t;

        make_stage(&s, round % 2 == 0);
        t = s;
        t.view.nodes = t.nodes;
        t.view.producers = t.producers;
        t.view.capacity_bytes += between(1, 20);
        expect_no_rise(&s, &t);
        t.view.capacity_bytes = s.view.capacity_bytes;
        t.view.link_bytes_per_s += between(1, 2000000000);
        expect_no_rise(&s, &t);
        t.view.link_bytes_per_s = s.view.link_bytes_per_s;
        t.view.link_directions = 1;
        expect_no_rise(&s, &t);
        t.view.link_directions = s.view.link_directions;
        t.view.staging_copies = 1;
        expect_no_rise(&s, &t);
        t.view.staging_copies = 2;
        without_link(&s);
        without_link(&t);
        t.view.in_flight--;
        expect_no_rise(&s, &t);
    }
}

TEST(test_units)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t before[2];
        struct stage s;

        make_stage(&s, round % 2 == 0);
        for (uint32_t i = 0; i < 2; i++) {
            before[i] = best(solvers[i], &s);
        }
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            s.nodes[v].forward_ns *= 10;
            s.nodes[v].backward_ns *= 10;
        }
        s.view.link_bytes_per_s /= 10; /* a whole number */
        for (uint32_t i = 0; i < 2; i++) {
            uint64_t now = best(solvers[i], &s);

            /* A period that the link decides is rounded up once, not ten times. */
            assert_true(before[i] == UINT64_MAX
                            ? now == UINT64_MAX
                            : now <= 10 * before[i] && now + 10 > 10 * before[i]);
            before[i] = now;
        }
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            s.nodes[v].saved_bytes *= 7;
            s.nodes[v].forward_work_bytes *= 7;
            s.nodes[v].backward_work_bytes *= 7;
        }
        s.view.link_bytes_per_s *= 7;
        s.view.capacity_bytes *= 7;
        s.view.static_bytes *= 7;
        s.view.input_bytes *= 7;
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(best(solvers[i], &s), before[i]);
        }
    }
}

TEST(test_links)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t hybrid[2], replays[2], slow[2];
        struct stage s;

        make_stage(&s, round % 2 == 0);
        for (uint32_t i = 0; i < 2; i++) {
            hybrid[i] = best(solvers[i], &s);
        }
        s.view.link_bytes_per_s = 1;
        for (uint32_t i = 0; i < 2; i++) {
            slow[i] = best(solvers[i], &s);
        }
        without_link(&s);
        for (uint32_t i = 0; i < 2; i++) {
            replays[i] = best(solvers[i], &s);
            assert_true(hybrid[i] <= replays[i]);
            assert_int_equal(slow[i], replays[i]);
        }
        s.view.link_bytes_per_s = UINT64_C(1) << 60;
        s.view.capacity_bytes = peak_of(&s, PST_ACTION_OFFLOAD);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(best(solvers[i], &s), total_ns(&s));
        }
    }
}

/* A node as two halves gives every plan of before, and more. */
TEST(test_halves)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t split;
        struct stage s, t;

        make_stage(&s, true);
        split = between(0, s.view.n_nodes - 1);
        stage_init(&t, s.view.in_flight, s.view.static_bytes, s.view.input_bytes);
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            const struct pst_stage_node *node = &s.nodes[v];
            uint64_t parts = v == split ? 2 : 1;

            for (uint64_t i = 0; i < parts; i++) {
                add_link(&t, node->forward_ns / parts, node->backward_ns / parts,
                         node->saved_bytes / parts);
            }
        }
        t.view.capacity_bytes = s.view.capacity_bytes;
        t.view.link_bytes_per_s = s.view.link_bytes_per_s;
        t.view.link_directions = s.view.link_directions;
        expect_no_rise(&s, &t);
    }
}

/* bound <= price <= everything replayed; the same question twice. */
TEST(test_bounds)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct stage s;
        uint64_t most = 0;

        make_stage(&s, round % 2 == 0);
        if (round % 3 == 0) {
            without_link(&s);
        }
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            most += 2 * s.nodes[v].forward_ns + s.nodes[v].backward_ns;
        }
        for (uint32_t i = 0; i < 2; i++) {
            const struct pst_memopt *f = solvers[i]->plugin->get_interface(PST_MEMOPT);
            struct memopt_answer answer = ask(solvers[i], &s), again = ask(solvers[i], &s);
            uint64_t bound = 0;

            assert_int_equal(f->bound(solvers[i]->self, &s.view, &bound), PST_OK);
            assert_string_equal(answer.plan, again.plan);
            assert_int_equal(answer.price.period_ns, again.price.period_ns);
            if (answer.price.fits) {
                assert_true(bound <= answer.price.period_ns);
                assert_true(s.view.link_bytes_per_s > 0 || answer.price.period_ns <= most);
            }
        }
    }
}

/* Whoever states a bound: of stages with nodes that take no time or no bytes, that must stay, that
   are decided about, on links of any speed, no plan that fits is shorter. Rules of an optimizer's
   own (which tensors are too small to move) bind its bound as well: here none has any. */
TEST(test_bounds_of_odd_stages)
{
    static const char *const ids[] = {"none",  "full",  "selective", "sqrt",  "rotor",  "offload",
                                      "vpipe", "exact", "two-ended", "bpipe", "adapipe"};
    static const uint64_t speeds[] = {0, 1, 1000000000, UINT64_C(1) << 60};
    uint32_t n_bounds = 0, n_tight = 0;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct pst_instance *instance =
            open_memopt(ids[i], strcmp(ids[i], "two-ended") == 0 ? PLAIN : "");
        const struct pst_memopt *f = instance->plugin->get_interface(PST_MEMOPT);

        for (uint32_t round = 0; round < 150 && f->bound != NULL; round++) {
            uint64_t bound = 0;
            struct optimum best;
            struct stage s;

            make_stage(&s, round % 2 == 0);
            for (uint32_t v = 0; v < s.view.n_nodes; v++) {
                struct pst_stage_node *node = &s.nodes[v];

                node->forward_ns *= between(0, 2) > 0;
                node->backward_ns *= between(0, 2) > 0;
                node->saved_bytes *= between(0, 2) > 0;
                node->flags = between(0, 5) == 0 ? PST_NODE_NO_RECOMPUTE : 0;
                node->flags |= between(0, 5) == 0 ? PST_NODE_NO_OFFLOAD : 0;
                node->action = between(0, 9) == 0 ? PST_ACTION_RECOMPUTE : PST_ACTION_KEEP;
                if (node->action == PST_ACTION_RECOMPUTE) {
                    node->flags = 0;
                }
            }
            s.view.link_bytes_per_s = speeds[between(0, 3)];
            s.view.capacity_bytes = peak_of(&s, PST_ACTION_KEEP) * between(20, 100) / 100;
            best = enumerate(&s, "KRS");
            assert_int_equal(f->bound(instance->self, &s.view, &bound), PST_OK);
            if (best.fits) {
                assert_true(bound <= total_ns(&s) + best.extra);
                n_bounds++;
                n_tight += bound == total_ns(&s) + best.extra;
            }
        }
        pst_instance_destroy(instance);
    }
    print_message("%u bounds, %u of them reached\n", n_bounds, n_tight);
    assert_true(n_bounds > 50 && n_tight > 10);
}

/* What cannot be, or hardly: an answer, or a word of explanation. */
TEST(test_absurd)
{
    struct memopt_answer answer;
    struct stage s;

    stage_init(&s, 0, 0, 0); /* none in flight counts as one */
    add_link(&s, 0, 0, 0);
    for (uint32_t i = 0; i < 2; i++) {
        answer = ask(solvers[i], &s);
        assert_string_equal(answer.plan, "K");
        s.view.capacity_bytes = 0;
        assert_true(ask(solvers[i], &s).price.fits); /* needs nothing */
        s.view.capacity_bytes = UINT64_MAX;
    }
    stage_init(&s, 3, 0, 1);
    add_link(&s, 1, 2, UINT64_C(1) << 40);
    add_link(&s, 0, 0, UINT64_C(1) << 40);
    s.view.link_bytes_per_s = 1;
    s.view.capacity_bytes = (UINT64_C(4) << 40) + 3;
    for (uint32_t i = 0; i < 2; i++) { /* the second one's replay costs nothing */
        assert_string_equal(ask(solvers[i], &s).plan, "KR");
    }
    s.nodes[0].saved_bytes = UINT64_MAX - 5; /* sums beyond 64 bits: kept, and too much */
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(ask(solvers[i], &s).price.fits);
    }
}

TEST_GROUP(open_solvers, close_solvers)
