/* SPDX-License-Identifier: Apache-2.0
 *
 * adapipe where it has too many units to look for the least peak one by one: what it names as
 * enough is enough, what it says fits does, and it says no only beyond what it has.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

enum { UNITS = 130, MOST_READ = 2 };

struct wide {
    struct pst_stage_view view;
    struct pst_stage_node nodes[UNITS];
    uint32_t producers[UNITS * MOST_READ];
    uint8_t actions[UNITS];
};

/* A node reads the one before it, or an earlier one, or two of them; sizes are far apart, so that
   a few nodes decide about the peak. */
static void random_wide(struct wide *w, uint64_t seed, uint64_t *counter)
{
    uint32_t n = 0;

    memset(w, 0, sizeof *w);
    w->view = (struct pst_stage_view){
        .size = sizeof w->view,
        .node_size = sizeof w->nodes[0],
        .n_nodes = UNITS,
        .nodes = w->nodes,
        .producers = w->producers,
        .n_stages = 1,
        .in_flight = 1 + draw(seed, counter, 3),
        .weight_versions = 1,
        .static_bytes = draw(seed, counter, 50),
        .input_bytes = draw(seed, counter, 9),
        .staging_copies = 2,
        .link_directions = 1,
    };
    for (uint32_t v = 0; v < UNITS; v++) {
        struct pst_stage_node *node = &w->nodes[v];
        uint64_t many = draw(seed, counter, 3) == 0 ? 100 : 1;

        *node = (struct pst_stage_node){
            .node = v,
            .forward_ns = draw(seed, counter, 9),
            .backward_ns = draw(seed, counter, 9),
            .saved_bytes = many * draw(seed, counter, 20),
            .forward_work_bytes = draw(seed, counter, 60),
            .backward_work_bytes = draw(seed, counter, 60),
            .first_producer = n,
            .output_bytes = draw(seed, counter, 12),
        };
        node->output_saved = node->output_bytes <= node->saved_bytes;
        for (uint32_t i = 0; v > 0 && i < MOST_READ; i++) {
            if (i == 0 || draw(seed, counter, 3) == 0) {
                uint32_t back = i == 0 ? 1 : 1 + draw(seed, counter, v < 12 ? v : 12);

                w->producers[n++] = v - back;
                node->n_producers++;
            }
        }
    }
}

static pst_status take(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    struct wide *w = out->impl;

    assert_in_range(position, 0, UNITS - 1);
    w->actions[position] = (uint8_t)action;
    return PST_OK;
}

/* Asks with so much memory: does it fit? Price and plan agree by the evaluator. */
static bool fits(struct pst_instance *instance, struct wide *w, uint64_t capacity,
                 struct pst_stage_price *ret_price)
{
    const struct pst_memopt *f = instance->plugin->get_interface(PST_MEMOPT);
    struct pst_evaluator evaluator = {0};
    struct pst_stage_value value = {.size = sizeof value};
    struct pst_action_out out = {.size = sizeof out, .impl = w, .set = take};

    w->view.capacity_bytes = capacity;
    memset(w->actions, PST_ACTION_KEEP, sizeof w->actions);
    *ret_price = (struct pst_stage_price){.size = sizeof *ret_price};
    assert_int_equal(f->price(instance->self, &w->view, ret_price), PST_OK);
    assert_int_equal(f->plan(instance->self, &w->view, &out),
                     ret_price->fits ? PST_OK : PST_ERR_INFEASIBLE);
    if (!ret_price->fits) {
        return false;
    }
    pst_evaluate(&evaluator, &w->view, w->actions, &value);
    assert_true(value.legal);
    if (value.peak_bytes != ret_price->peak_bytes || value.period_ns != ret_price->period_ns ||
        value.peak_bytes > capacity) {
        fail_msg("of %llu bytes the plan takes %llu, its price says %llu",
                 (unsigned long long)capacity, (unsigned long long)value.peak_bytes,
                 (unsigned long long)ret_price->peak_bytes);
    }
    pst_evaluator_finish(&evaluator);
    return true;
}

TEST(test_what_is_named_is_enough)
{
    const uint64_t seed = 7;
    struct pst_instance *instance = open_memopt("adapipe", "quanta = 64");
    struct wide *w = malloc(sizeof *w);
    uint64_t counter = 0;
    uint32_t refused = 0;

    assert_non_null(w);
    for (uint32_t round = 0; round < 120; round++) {
        struct pst_stage_price all, price, again;

        random_wide(w, seed, &counter);
        assert_true(fits(instance, w, UINT64_MAX, &all));
        for (uint32_t percent = 90; percent > 0; percent -= 10) {
            uint64_t capacity = all.peak_bytes * percent / 100;

            if (fits(instance, w, capacity, &price)) {
                continue;
            }
            refused++;
            assert_true(price.peak_bytes > capacity);
            if (!fits(instance, w, price.peak_bytes, &again)) {
                fail_msg("round %u: %llu bytes are named, then %llu", round,
                         (unsigned long long)price.peak_bytes,
                         (unsigned long long)again.peak_bytes);
            }
        }
    }
    print_message("%u refused\n", refused);
    assert_true(refused > 50);
    free(w);
    pst_instance_destroy(instance);
}
