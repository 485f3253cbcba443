/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluator of memory plans against a ledger that books every tensor of the active micro-batch
 * one event at a time.
 */
#include "plugin/eval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "eval_rig.h"

static bool reads(const struct stage *s, uint32_t v, uint32_t u)
{
    for (uint32_t i = 0; i < s->nodes[v].n_producers; i++) {
        if (s->producers[s->nodes[v].first_producer + i] == u) {
            return true;
        }
    }
    return false;
}

static uint32_t last_reader(const struct stage *s, uint32_t u)
{
    uint32_t last = u;

    for (uint32_t v = u + 1; v < s->view.n_nodes; v++) {
        last = reads(s, v, u) ? v : last;
    }
    return last;
}

static uint64_t resident(const struct stage *s, const bool *here)
{
    uint64_t sum = 0;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        sum += here[v] ? s->nodes[v].saved_bytes : 0;
    }
    return sum;
}

/* Books the active micro-batch, event by event; the largest sum it sees. */
static uint64_t ledger(const struct stage *s, const char *plan)
{
    uint32_t n = s->view.n_nodes;
    bool here[MAX_NODES] = {false};
    uint64_t most = 0, now;

    for (uint32_t v = 0; v < n; v++) {
        here[v] = true;
        now = resident(s, here) + s->nodes[v].forward_work_bytes;
        most = now > most ? now : most;
        for (uint32_t u = 0; u <= v; u++) {
            if (plan[u] == 'R' && last_reader(s, u) <= v) {
                here[u] = false;
            }
        }
    }
    for (uint32_t v = n; v-- > 0;) {
        for (uint32_t q = n; q-- > 0;) { /* runs that end at q, later ones first */
            uint32_t p = q, t = q;

            if (plan[q] != 'R' || (q + 1 < n && plan[q + 1] == 'R')) {
                continue;
            }
            while (p > 0 && plan[p - 1] == 'R') {
                p--;
            }
            for (uint32_t u = p; u <= q; u++) {
                t = last_reader(s, u) > t ? last_reader(s, u) : t;
            }
            for (uint32_t u = p; t == v && u <= q; u++) {
                here[u] = true;
                now = resident(s, here) + s->nodes[u].forward_work_bytes;
                most = now > most ? now : most;
            }
        }
        now = resident(s, here) + s->nodes[v].backward_work_bytes;
        most = now > most ? now : most;
        here[v] = false;
    }
    return most;
}

static bool ledger_legal(const struct stage *s, const char *plan)
{
    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        for (uint32_t u = 0; u < v; u++) {
            bool same = true;

            for (uint32_t i = u; i <= v; i++) {
                same = same && plan[i] == 'R';
            }
            if (plan[v] == 'R' && plan[u] == 'R' && reads(s, v, u) && !same) {
                return false;
            }
        }
    }
    return true;
}

static uint32_t draw(uint64_t seed, uint64_t *counter, uint32_t below)
{
    return pst_philox(seed, 1, (*counter)++).v[0] % below;
}

static void random_stage(struct stage *s, uint64_t seed, uint64_t *counter, char *plan)
{
    uint32_t n = 1 + draw(seed, counter, MAX_NODES - 1);
    bool chain = draw(seed, counter, 2) == 0;

    stage_init(s, 1 + draw(seed, counter, 5), draw(seed, counter, 50), draw(seed, counter, 9));
    s->view.staging_copies = 1 + draw(seed, counter, 3);
    s->view.link_bytes_per_s = 1000000000;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t mask = v == 0 ? 0 : 1u << (chain ? v - 1 : draw(seed, counter, v));

        if (!chain && v > 0 && draw(seed, counter, 2) == 0) {
            mask |= 1u << draw(seed, counter, v);
        }
        add_node(s, draw(seed, counter, 9), draw(seed, counter, 9), draw(seed, counter, 20),
                 draw(seed, counter, 6), draw(seed, counter, 6), mask);
        plan[v] = "KRRS"[draw(seed, counter, 4)];
    }
    plan[n] = '\0';
}

static void test_ledger_agrees_on_random_plans(void **state)
{
    const uint64_t seed = 20240607;
    uint64_t counter = 0;
    uint32_t legal = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 20000; round++) {
        struct stage s;
        char plan[MAX_NODES + 1];
        uint8_t actions[MAX_NODES] = {0};
        uint64_t kept = 0, offloaded = 0, time = 0, replay = 0, peak, k, staged;
        struct pst_stage_value value;

        random_stage(&s, seed, &counter, plan);
        letters(plan, actions);
        value = value_of(&s, actions);
        assert_int_equal(value.legal, ledger_legal(&s, plan));
        if (!value.legal) {
            continue;
        }
        legal++;
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            kept += plan[v] == 'K' ? s.nodes[v].saved_bytes : 0;
            offloaded += plan[v] == 'S' ? s.nodes[v].saved_bytes : 0;
            replay += plan[v] == 'R' ? s.nodes[v].forward_ns : 0;
            time += s.nodes[v].forward_ns + s.nodes[v].backward_ns;
        }
        k = s.view.in_flight;
        staged = k < s.view.staging_copies ? k : s.view.staging_copies;
        peak = s.view.static_bytes + k * s.view.input_bytes + (k - 1) * kept +
               (staged - 1) * offloaded + ledger(&s, plan);
        if (value.peak_bytes != peak) {
            fail_msg("round %d, plan %s: %llu, the ledger has %llu", round, plan,
                     (unsigned long long)value.peak_bytes, (unsigned long long)peak);
        }
        assert_int_equal(value.period_ns, time + replay > offloaded ? time + replay : offloaded);
    }
    print_message("%u legal plans\n", legal);
    assert_true(legal > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger_agrees_on_random_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
