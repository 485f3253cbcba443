/* SPDX-License-Identifier: Apache-2.0
 *
 * none and full: which nodes are dropped, what the plans cost, what a replay may not do.
 */
#include "plugin/eval.h"
#include "plugin_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"

#define MAX_NODES 16

struct stage {
    struct pst_stage_view view;
    struct pst_stage_node nodes[MAX_NODES];
    uint32_t producers[MAX_NODES * MAX_NODES];
    uint32_t n_producers;
    struct pst_action_out out;
    char letters[MAX_NODES + 1];
};

static struct pst_evaluator evaluator;

static pst_status evaluate(const struct pst_host *host, const struct pst_stage_view *view,
                           const uint8_t *actions, struct pst_stage_value *ret_value)
{
    (void)host;
    return pst_evaluate(&evaluator, view, actions, ret_value) ? PST_OK : PST_ERR_NOMEM;
}

static pst_status set_action(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    struct stage *s = out->impl;

    assert_in_range(position, 0, s->view.n_nodes - 1);
    assert_in_range(action, PST_ACTION_KEEP, PST_ACTION_OFFLOAD);
    s->letters[position] = "KRS"[action];
    return PST_OK;
}

static void stage_init(struct stage *s, uint32_t stage, uint32_t n_stages, uint32_t k)
{
    memset(s, 0, sizeof *s);
    s->out = (struct pst_action_out){sizeof s->out, s, set_action};
    s->view = (struct pst_stage_view){
        .size = sizeof s->view,
        .stage = stage,
        .n_stages = n_stages,
        .node_size = sizeof s->nodes[0],
        .nodes = s->nodes,
        .producers = s->producers,
        .in_flight = k,
        .weight_versions = 1,
        .staging_copies = 2,
        .link_directions = 1,
        .capacity_bytes = UINT64_MAX,
        .input_bytes = 1,
    };
}

/* A node that reads the positions of the mask. */
static void add_node(struct stage *s, uint32_t layer, uint32_t reads)
{
    uint32_t v = s->view.n_nodes++;
    struct pst_stage_node *node = &s->nodes[v];

    node->layer = layer;
    node->forward_ns = 1;
    node->backward_ns = 2;
    node->saved_bytes = 2;
    node->first_producer = s->n_producers;
    for (uint32_t u = 0; u < v; u++) {
        if (reads >> u & 1) {
            s->producers[s->n_producers++] = u;
            node->n_producers++;
        }
    }
}

/* layers: one digit per node of a chain. */
static void add_chain(struct stage *s, const char *layers)
{
    for (; *layers != '\0'; layers++) {
        add_node(s, (uint32_t)(*layers - '0'),
                 s->view.n_nodes == 0 ? 0 : 1u << (s->view.n_nodes - 1));
    }
}

static struct pst_instance *open_memopt(const char *id, const char *options)
{
    static const struct pst_eval eval = {sizeof eval, evaluate};
    const struct pst_host_context context = {.eval = &eval};
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};

    if (plugin_rig_open("memopt", id, options, &context, &instance, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    return instance;
}

/* The finished plan as letters; its price must be the evaluator's. */
static const char *plan(struct stage *s, const char *id, const char *options)
{
    struct pst_instance *instance = open_memopt(id, options);
    const struct pst_memopt *f = instance->plugin->get_interface(PST_MEMOPT);
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_stage_value value = {.size = sizeof value};
    uint8_t actions[MAX_NODES];

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        s->letters[v] = "KRS"[s->nodes[v].action];
    }
    s->letters[s->view.n_nodes] = '\0';
    assert_int_equal(f->price(instance->self, &s->view, &price), PST_OK);
    assert_int_equal(f->plan(instance->self, &s->view, &s->out), PST_OK);
    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        actions[v] = s->letters[v] == 'R'   ? PST_ACTION_RECOMPUTE
                     : s->letters[v] == 'S' ? PST_ACTION_OFFLOAD
                                            : PST_ACTION_KEEP;
    }
    assert_true(pst_evaluate(&evaluator, &s->view, actions, &value));
    assert_int_equal(value.legal, 1);
    assert_int_equal(price.period_ns, value.period_ns);
    assert_int_equal(price.peak_bytes, value.peak_bytes);
    assert_int_equal(price.fits, value.peak_bytes <= s->view.capacity_bytes);
    pst_instance_destroy(instance);
    return s->letters;
}

static void test_none(void **state)
{
    struct stage s;

    (void)state;
    stage_init(&s, 0, 2, 3);
    add_chain(&s, "0011");
    assert_string_equal(plan(&s, "none", ""), "KKKK");
    s.view.capacity_bytes = 26; /* one less than 3 x (1 + 8) */
    assert_string_equal(plan(&s, "none", ""), "KKKK");
    s.nodes[1].action = PST_ACTION_RECOMPUTE;
    assert_string_equal(plan(&s, "none", ""), "KRKK");
}

static void test_whole_stages(void **state)
{
    struct stage s;
    struct pst_instance *instance = open_memopt("full", "");
    const struct pst_memopt *f = instance->plugin->get_interface(PST_MEMOPT);
    struct pst_stage_price price = {.size = sizeof price};

    (void)state;
    stage_init(&s, 0, 2, 3);
    add_chain(&s, "0011");
    assert_string_equal(plan(&s, "full", ""), "RRRR");
    assert_int_equal(f->price(instance->self, &s.view, &price), PST_OK);
    assert_int_equal(price.peak_bytes, 11); /* 3 inputs of 1, one micro-batch of 8 */
    assert_int_equal(price.period_ns, 16);
    pst_instance_destroy(instance);

    /* The last stage with one micro-batch keeps all: its backward follows at once. */
    stage_init(&s, 1, 2, 1);
    add_chain(&s, "0011");
    assert_string_equal(plan(&s, "full", ""), "KKKK");
    assert_string_equal(plan(&s, "full", "skip_last = false"), "RRRR");
    s.view.in_flight = 2;
    assert_string_equal(plan(&s, "full", ""), "RRRR");
}

static void test_layers(void **state)
{
    struct stage s;

    (void)state;
    stage_init(&s, 0, 2, 3);
    add_chain(&s, "00011122");
    assert_string_equal(plan(&s, "full", "unit = \"layer\""), "RRKRRKRK");
    assert_string_equal(plan(&s, "full", "unit = \"layer\"\nevery = 2"), "RRRRRKRK");
    assert_string_equal(plan(&s, "full", "unit = \"layer\"\nevery = 99"), "RRRRRRRK");
    s.view.stage = 1;
    s.view.in_flight = 1;
    assert_string_equal(plan(&s, "full", "unit = \"layer\""), "RRKRRKKK");
    assert_string_equal(plan(&s, "full", "unit = \"layer\"\nskip_last = false"), "RRKRRKRK");
}

static void test_what_is_never_dropped(void **state)
{
    struct stage s;

    (void)state;
    stage_init(&s, 0, 2, 2);
    add_chain(&s, "000000");
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    assert_string_equal(plan(&s, "full", ""), "RRKRRR");

    /* Node 4 of the second layer reads node 1 of the first: its replay could not, so it is kept. */
    stage_init(&s, 0, 2, 2);
    add_chain(&s, "0001");
    add_node(&s, 1, 1u << 3 | 1u << 1);
    add_node(&s, 1, 1u << 4);
    assert_string_equal(plan(&s, "full", "unit = \"layer\""), "RKKRRK");
    assert_string_equal(plan(&s, "full", ""), "RRRRRR"); /* in one run nothing is in the way */

    /* Keeping node 2 splits the run, so that node 3 may no longer read node 0. */
    stage_init(&s, 0, 2, 2);
    add_chain(&s, "000");
    add_node(&s, 0, 1u << 2 | 1u << 0);
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    assert_string_equal(plan(&s, "full", ""), "KRKR");

    /* What an earlier optimizer decided stays, and what it dropped cannot be read by another run.
     */
    stage_init(&s, 0, 2, 2);
    add_chain(&s, "0000");
    s.nodes[1].action = PST_ACTION_OFFLOAD;
    s.view.link_bytes_per_s = 1000000000;
    assert_string_equal(plan(&s, "full", ""), "RSRR");
    stage_init(&s, 0, 2, 2);
    add_chain(&s, "000");
    add_node(&s, 0, 1u << 2 | 1u << 0);
    s.nodes[0].action = PST_ACTION_RECOMPUTE;
    s.nodes[2].flags = PST_NODE_NO_RECOMPUTE;
    assert_string_equal(plan(&s, "full", ""), "RRKK");
}

/* On any graph the answer is legal (plan() above asserts it) and respects flags. */
static void test_random_stages(void **state)
{
    const uint64_t seed = 31;
    uint64_t counter = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        struct stage s;
        struct pst_philox r = pst_philox(seed, 0, counter++);
        uint32_t n = 1 + r.v[0] % MAX_NODES, layer = 0;
        const char *text;

        stage_init(&s, r.v[1] % 2, 2, 1 + r.v[2] % 4);
        for (uint32_t v = 0; v < n; v++) {
            struct pst_philox q = pst_philox(seed, 1, counter++);

            layer += q.v[0] % 3 == 0;
            add_node(&s, layer, q.v[1] & ((1u << v) - 1));
            s.nodes[v].flags = q.v[2] % 5 == 0 ? PST_NODE_NO_RECOMPUTE : 0;
        }
        text = plan(&s, "full", r.v[3] % 2 == 0 ? "" : "unit = \"layer\"\nevery = 2");
        for (uint32_t v = 0; v < n; v++) {
            assert_false(text[v] == 'R' && s.nodes[v].flags != 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),          cmocka_unit_test(test_whole_stages),
        cmocka_unit_test(test_layers),        cmocka_unit_test(test_what_is_never_dropped),
        cmocka_unit_test(test_random_stages),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pst_evaluator_finish(&evaluator);
    return failed;
}
