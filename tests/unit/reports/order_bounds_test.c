/* SPDX-License-Identifier: Apache-2.0
 *
 * Lower bounds against every order of small instances and against optima that an exhaustive search
 * has proven.
 */
#include "planner/order_question.h"
#include "reports/order_bounds.h"

#include "test.h"

#include "unit/plan/order_rig.h"

/* Optima of exhaustive searches over all orders (absolute makespan, no latency). */
TEST(test_bounds_of_proven_optima)
{
    static const struct {
        bool vshape;
        uint32_t p, m;
        uint64_t cap, f, b, w, optimum;
        bool reached; /* the bound is as large */
    } rows[] = {
        {false, 2, 4, 2, 1, 1, 1, 13, true},  {false, 3, 6, 3, 1, 1, 1, 20, true},
        {false, 3, 6, 5, 1, 1, 1, 20, true},  {false, 4, 8, 4, 1, 1, 1, 27, true},
        {false, 3, 6, 2, 1, 1, 1, 25, false}, {false, 4, 6, 3, 1, 1, 1, 24, false},
        {false, 4, 6, 2, 1, 1, 1, 31, false}, {false, 3, 6, 3, 2, 2, 1, 36, true},
        {false, 3, 6, 5, 2, 2, 1, 34, true},  {false, 3, 6, 3, 1, 2, 1, 28, true},
        {false, 3, 6, 6, 1, 2, 1, 26, true},  {true, 2, 4, 2, 1, 1, 1, 33, false},
        {true, 2, 4, 3, 1, 1, 1, 27, false},  {true, 2, 4, 4, 1, 1, 1, 25, true},
        {true, 3, 4, 2, 1, 1, 1, 43, false},  {true, 3, 4, 3, 1, 1, 1, 36, false},
        {true, 3, 4, 4, 1, 1, 1, 29, true},   {true, 3, 4, 5, 1, 1, 1, 27, false},
        {true, 3, 4, 6, 1, 1, 1, 26, true},   {true, 4, 4, 3, 1, 1, 1, 46, false},
        {true, 4, 4, 4, 1, 1, 1, 35, true},   {true, 4, 4, 5, 1, 1, 1, 32, true},
        {true, 4, 4, 6, 1, 1, 1, 29, true},   {true, 4, 4, 7, 1, 1, 1, 28, false},
        {true, 4, 4, 8, 1, 1, 1, 27, true},   {true, 4, 5, 4, 1, 1, 1, 41, true},
        {true, 4, 5, 5, 1, 1, 1, 38, true},   {true, 4, 5, 6, 1, 1, 1, 35, true},
        {true, 4, 5, 7, 1, 1, 1, 34, false},  {true, 4, 5, 8, 1, 1, 1, 33, true},
        {true, 2, 4, 4, 2, 2, 1, 42, true},   {true, 2, 4, 4, 2, 3, 2, 59, false},
        {true, 3, 4, 4, 1, 2, 1, 41, false},  {true, 3, 4, 6, 1, 2, 1, 36, false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pst_order_bounds bounds;
        struct pst_order_question asked;

        chain(rows[i].p, rows[i].m, rows[i].f, rows[i].b, rows[i].w, rows[i].cap, rows[i].vshape,
              &asked);
        pst_order_bounds(&asked.in, &bounds);
        if (bounds.makespan_ns > rows[i].optimum ||
            (rows[i].reached && bounds.makespan_ns != rows[i].optimum)) {
            fail_msg("row %zu (p %u m %u cap %u): bound %u, optimum %u", i, rows[i].p, rows[i].m,
                     (unsigned)rows[i].cap, (unsigned)bounds.makespan_ns,
                     (unsigned)rows[i].optimum);
        }
        pst_order_question_finish(&asked);
    }
}

/* All orders of one device's passes, each kind in order of micro-batches: like micro-batches may as
   well come in order. A fused backward is a B with its W behind it that publishes later. */
struct search {
    const struct pst_order_question *asked;
    struct lists lists;
    uint32_t m, n_orders;
    uint64_t makespan, span; /* the least so far */
};

static void extend(struct search *search, uint32_t device, uint32_t f, uint32_t b, uint32_t w)
{
    const struct pst_order_question *asked = search->asked;
    uint32_t *n = &search->lists.n[device];
    uint64_t room = asked->activation_bytes[device];
    struct pst_order_eval eval;
    struct pst_error err;

    if (w == search->m) {
        if (device + 1 < asked->in.n_devices) {
            search->lists.n[device + 1] = 0;
            extend(search, device + 1, 0, 0, 0);
        } else if (evaluate(asked, &search->lists, &eval, &err) == PST_OK) {
            search->n_orders++;
            search->makespan =
                eval.makespan_ns < search->makespan ? eval.makespan_ns : search->makespan;
            search->span = eval.span_ns < search->span ? eval.span_ns : search->span;
            pst_order_eval_finish(&eval);
        }
        return;
    }
    if (f < search->m && (uint64_t)(f + 1 - w) <= room) {
        add(&search->lists, device, PST_PASS_F, device, f);
        extend(search, device, f + 1, b, w);
        (*n)--;
    }
    if (b < f) {
        add(&search->lists, device, PST_PASS_B, device, b);
        extend(search, device, f, b + 1, w);
        (*n)--;
    }
    if (w < b) {
        add(&search->lists, device, PST_PASS_W, device, w);
        extend(search, device, f, b, w + 1);
        (*n)--;
    }
}

TEST(test_bounds_of_all_orders)
{
    static struct search search;
    struct rng rng = {99, 0};
    uint32_t n_reached = 0;

    print_message("seed %llu\n", (unsigned long long)rng.seed);
    for (int round = 0; round < 60; round++) {
        uint32_t p = 1 + draw(&rng, 3), m = p == 3 ? 2 : 1 + draw(&rng, 3);
        struct pst_order_bounds bounds;
        struct pst_order_question asked;

        chain(p, m, 1, 1, 1, 1 + draw(&rng, 3), false, &asked);
        for (uint32_t s = 0; s < p; s++) {
            asked.stages[s].forward_ns = 1 + draw(&rng, 5);
            asked.stages[s].backward_input_ns = 1 + draw(&rng, 5);
            asked.stages[s].backward_weight_ns = draw(&rng, 5);
            if (s + 1 < p) {
                asked.links[s].transfer_ns = draw(&rng, 3);
            }
        }
        memset(&search.lists, 0, sizeof search.lists);
        search.asked = &asked;
        search.m = m;
        search.makespan = search.span = UINT64_MAX;
        extend(&search, 0, 0, 0, 0);
        pst_order_bounds(&asked.in, &bounds);
        assert_true(search.makespan < UINT64_MAX);
        assert_true(bounds.makespan_ns <= search.makespan);
        assert_true(bounds.span_ns <= search.span);
        n_reached += bounds.makespan_ns == search.makespan;
        pst_order_question_finish(&asked);
    }
    print_message("%u orders of the last instance; %u of 60 bounds are reached\n", search.n_orders,
                  n_reached);
    assert_true(n_reached >= 20); /* bounds of 0 would be bounds as well */
}
