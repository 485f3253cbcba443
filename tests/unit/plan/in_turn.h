/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans whose memory can be counted by hand: equal stages of a chain under 1F1B, two samples to a
 * micro-batch. Models of random plans, and what comes back from the file of such a plan.
 */
#ifndef PST_TEST_PLAN_IN_TURN_H
#define PST_TEST_PLAN_IN_TURN_H

#include "unit/prove/legal_rig.h"

#define IN_TURN_MOST 80 /* passes of a device */
#define MODELS       4

static const char *const models[MODELS][2] = {
    {"mlp", "inputs=12 hidden=16 layers=6 classes=5"},
    {"gpt", "layers=2 dim=16 heads=2 context=8 vocab=11 dropout=0.1"},
    {"mmt", ""},
    {"resnet", ""}};

/* The plan as its file has it: the same bytes again, and as legal. */
static inline struct pst_plan *reread(struct rig *rig, uint32_t seed)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    struct pst_plan *read = NULL, *made = rig->plan;
    made->graph_digest = rig->graph->digest;
    made->partitioner = made->scheduler = made->memopt = "none 1.0";
    for (uint32_t s = 0; s < made->n_stages; s++) {
        pst_plan_count(made, s, &made->stages[s].in_flight, &made->stages[s].k);
    }
    char *text = pst_plan_to_json(made, rig->graph), *again;
    if (pst_plan_parse("plan", text, strlen(text), rig->graph, &read, &err) != PST_OK) {
        fail_msg("seed %u: %s", seed, err.message);
    }
    again = pst_plan_to_json(read, rig->graph);
    assert_string_equal(text, again);
    rig->plan = read;
    if (rig_check(rig, false, &report, &err) != PST_OK) {
        fail_msg("seed %u: %s\n%s", seed, err.message, err.details);
    }
    rig->plan = made;
    free(text);
    free(again);
    return read;
}

static inline uint32_t in_turn(uint32_t d, uint32_t p, uint32_t m, struct pst_pass *order)
{
    uint32_t n = 0, warm = p - 1 - d < m ? p - 1 - d : m, f = 0;
    for (; f < warm; f++) {
        order[n++] = (struct pst_pass){PST_PASS_F, d, f};
    }
    for (uint32_t b = 0; b < m; b++) {
        if (f < m) {
            order[n++] = (struct pst_pass){PST_PASS_F, d, f++};
        }
        order[n++] = (struct pst_pass){PST_PASS_BW, d, b};
    }
    return n;
}

/* p stages of m micro-batches; actions are all keep, and may be changed before the lists are made.
 */
static inline void in_turn_stages(struct rig *rig, uint32_t p, uint32_t m)
{
    uint32_t n = rig->graph->n_ops, nodes[256];
    assert_true(n <= 256 && p <= RIG_MAX && 2 * m <= IN_TURN_MOST);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(rig->graph, 2 * m, p, &rig->plan);
    for (uint32_t d = 0; d < p; d++) {
        uint32_t begin = d * n / p, end = (d + 1) * n / p;
        pst_plan_add_stage(rig->plan, nodes + begin, end - begin, &d, 1, 2, 1);
    }
    rig->plan->optimizer_slots = 1;
}

/* Lists and programs of these stages. */
static inline void in_turn_lists(struct rig *rig)
{
    struct pst_error err = {0};
    struct pst_pass orders[RIG_MAX][IN_TURN_MOST];
    const struct pst_pass *lists[RIG_MAX];
    uint32_t n_passes[RIG_MAX], p = rig->plan->n_stages;
    for (uint32_t d = 0; d < p; d++) {
        n_passes[d] = in_turn(d, p, rig->plan->stages[d].n_microbatches, orders[d]);
        lists[d] = orders[d];
    }
    assert_int_equal(pst_plan_connect(rig->plan, rig->graph, &err), PST_OK);
    assert_int_equal(pst_plan_lower(rig->plan, rig->graph, &rig->cost, lists, n_passes, true, &err),
                     PST_OK);
    rig_programs(rig);
}

#endif
