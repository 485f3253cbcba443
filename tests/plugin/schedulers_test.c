/* SPDX-License-Identifier: Apache-2.0
 *
 * gpipe and 1f1b: lists written by hand for three devices and four micro-batches; makespan, memory
 * and in-flight counts against their closed forms on random sizes; stages with branches.
 */
#include "planner/emission.h"
#include "plugin_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/philox.h"

#define MAX_STAGES 12

/* A chain, unless links are added, of equal stages on a device each. */
struct pipeline {
    struct pst_schedule_in in;
    struct pst_schedule_stage stages[MAX_STAGES];
    struct pst_schedule_link links[MAX_STAGES * MAX_STAGES];
    uint32_t out_links[MAX_STAGES * MAX_STAGES];
    uint64_t room[MAX_STAGES];
    struct pst_emission emission;
};

static void pipeline_init(struct pipeline *p, uint32_t n_stages, uint32_t n_microbatches,
                          uint64_t tf, uint64_t tb, uint64_t tw)
{
    memset(p, 0, sizeof *p);
    for (uint32_t s = 0; s < n_stages; s++) {
        p->room[s] = UINT64_MAX;
        p->stages[s] = (struct pst_schedule_stage){
            .device = s,
            .microbatch_size = 1,
            .n_microbatches = n_microbatches,
            .k = 1,
            .forward_ns = tf,
            .backward_input_ns = tb,
            .backward_weight_ns = tw,
            .saved_bytes = 1,
            .first_pred = s > 0 ? s - 1 : 0,
            .n_pred = s > 0,
            .first_succ = s,
            .n_succ = s + 1 < n_stages,
        };
        p->links[s] = (struct pst_schedule_link){.from = s, .to = s + 1};
        p->out_links[s] = s;
    }
    p->in = (struct pst_schedule_in){
        .size = sizeof p->in,
        .n_devices = n_stages,
        .n_stages = n_stages,
        .stage_size = sizeof p->stages[0],
        .n_links = n_stages - 1,
        .link_size = sizeof p->links[0],
        .stages = p->stages,
        .links = p->links,
        .out_links = p->out_links,
        .activation_bytes = p->room,
    };
}

static struct pst_instance *open_scheduler(const char *id, const char *options)
{
    const struct pst_host_context context = {0};
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};

    if (plugin_rig_open("scheduler", id, options, &context, &instance, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    return instance;
}

static const struct pst_scheduler *functions(const struct pst_instance *instance)
{
    return instance->plugin->get_interface(PST_SCHEDULER);
}

static void run(struct pipeline *p, const struct pst_instance *instance)
{
    pst_emission_init(&p->emission, &p->in);
    assert_int_equal(functions(instance)->schedule(instance->self, &p->in, &p->emission.out),
                     PST_OK);
    assert_true(pst_emission_complete(&p->emission));
    assert_string_equal(p->emission.fault, "");
}

/* "F0 F1 BW0 ..." of one device. */
static void expect_list(const struct pipeline *p, uint32_t device, const char *expected)
{
    static const char *const names[] = {"", "F", "B", "W", "BW", "R"};
    char text[1024] = "";

    for (uint32_t i = 0; i < p->emission.n_passes[device]; i++) {
        const struct pst_pass *pass = &p->emission.passes[device][i];
        size_t used = strlen(text);

        assert_int_equal(pass->stage, device);
        snprintf(text + used, sizeof text - used, "%s%s%u", i > 0 ? " " : "", names[pass->op],
                 pass->microbatch);
    }
    assert_string_equal(text, expected);
}

static void check_lists(const char *id, const char *options, const char *const *expected)
{
    struct pst_instance *instance = open_scheduler(id, options);
    struct pipeline p;

    pipeline_init(&p, 3, 4, 1, 1, 1);
    run(&p, instance);
    for (uint32_t d = 0; d < 3; d++) {
        expect_list(&p, d, expected[d]);
    }
    pst_emission_finish(&p.emission);
    pst_instance_destroy(instance);
}

static void test_lists_of_three_devices(void **state)
{
    static const char *const gpipe[] = {"F0 F1 F2 F3 BW0 BW1 BW2 BW3",
                                        "F0 F1 F2 F3 BW0 BW1 BW2 BW3",
                                        "F0 F1 F2 F3 BW0 BW1 BW2 BW3"};
    static const char *const reversed[] = {"F0 F1 F2 F3 BW3 BW2 BW1 BW0",
                                           "F0 F1 F2 F3 BW3 BW2 BW1 BW0",
                                           "F0 F1 F2 F3 BW3 BW2 BW1 BW0"};
    static const char *const split[] = {"F0 F1 F2 F3 B0 W0 B1 W1 B2 W2 B3 W3",
                                        "F0 F1 F2 F3 B0 W0 B1 W1 B2 W2 B3 W3",
                                        "F0 F1 F2 F3 B0 W0 B1 W1 B2 W2 B3 W3"};
    static const char *const plain[] = {"F0 F1 F2 BW0 F3 BW1 BW2 BW3",
                                        "F0 F1 BW0 F2 BW1 F3 BW2 BW3",
                                        "F0 BW0 F1 BW1 F2 BW2 F3 BW3"};
    static const char *const one_split[] = {"F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3",
                                            "F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3",
                                            "F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3"};
    static const char *const eager[] = {"F0 F1 F2 F3 BW0 BW1 BW2 BW3",
                                        "F0 F1 F2 BW0 F3 BW1 BW2 BW3",
                                        "F0 BW0 F1 BW1 F2 BW2 F3 BW3"};

    (void)state;
    check_lists("gpipe", "", gpipe);
    check_lists("gpipe", "reverse = true", reversed);
    check_lists("gpipe", "split = true", split);
    check_lists("1f1b", "", plain);
    check_lists("1f1b", "split = true", one_split);
    check_lists("1f1b", "eager = true", eager);
}

/* --- evaluation: start as early as the lists allow, links take `latency`
 * --------------------------*/

struct clockwork {
    uint64_t end[6][MAX_STAGES][64]; /* [pass][stage][microbatch]; 0: not done */
    uint64_t now[MAX_STAGES];
    uint32_t at[MAX_STAGES];
};

/* When is what this pass waits for there; UINT64_MAX: not yet. */
static uint64_t ready(const struct pipeline *p, const struct clockwork *c, uint64_t latency,
                      const struct pst_pass *pass)
{
    uint64_t when = 0, own = 0;

    for (uint32_t e = 0; e < p->in.n_links; e++) {
        const struct pst_schedule_link *link = &p->links[e];
        uint64_t end = UINT64_MAX;

        if (pass->op == PST_PASS_F && link->to == pass->stage) {
            end = c->end[PST_PASS_F][link->from][pass->microbatch];
        } else if ((pass->op == PST_PASS_B || pass->op == PST_PASS_BW) &&
                   link->from == pass->stage) {
            end = c->end[PST_PASS_BW][link->to][pass->microbatch];
        } else {
            continue;
        }
        if (end == 0) {
            return UINT64_MAX;
        }
        when = end + latency > when ? end + latency : when;
    }
    if (pass->op != PST_PASS_F) {
        own = c->end[pass->op == PST_PASS_W ? PST_PASS_BW : PST_PASS_F][pass->stage]
                    [pass->microbatch];
        assert_true(own > 0);
    }
    return when > own ? when : own;
}

/* Makespan; fails where the lists cannot run to their end. */
static uint64_t evaluate(const struct pipeline *p, uint64_t latency)
{
    static struct clockwork c;
    uint64_t makespan = 0;
    bool advanced = true;

    memset(&c, 0, sizeof c);
    while (advanced) {
        advanced = false;
        for (uint32_t d = 0; d < p->in.n_devices; d++) {
            while (c.at[d] < p->emission.n_passes[d]) {
                const struct pst_pass *pass = &p->emission.passes[d][c.at[d]];
                const struct pst_schedule_stage *s = &p->stages[pass->stage];
                uint64_t start = ready(p, &c, latency, pass);
                uint64_t span = pass->op == PST_PASS_F   ? s->forward_ns
                                : pass->op == PST_PASS_B ? s->backward_input_ns
                                : pass->op == PST_PASS_W
                                    ? s->backward_weight_ns
                                    : s->backward_input_ns + s->backward_weight_ns;

                if (start == UINT64_MAX) {
                    break;
                }
                c.now[d] = (start > c.now[d] ? start : c.now[d]) + span;
                c.end[pass->op == PST_PASS_B ? PST_PASS_BW : pass->op][pass->stage]
                     [pass->microbatch] = c.now[d];
                c.at[d]++;
                advanced = true;
            }
        }
    }
    for (uint32_t d = 0; d < p->in.n_devices; d++) {
        assert_int_equal(c.at[d], p->emission.n_passes[d]);
        makespan = c.now[d] > makespan ? c.now[d] : makespan;
    }
    return makespan;
}

/* The scheduler's own word, and the peak of its lists, against the closed form. */
static void check_held(struct pipeline *p, const struct pst_instance *instance, uint32_t m,
                       bool (*closed_form)(uint32_t, uint32_t, uint32_t, uint32_t))
{
    uint32_t held[MAX_STAGES];
    uint32_t n = p->in.n_stages;

    pst_emission_count(&p->emission, held);
    for (uint32_t s = 0; s < n; s++) {
        struct pst_place place = {
            .size = sizeof place,
            .stage = s,
            .n_stages = n,
            .n_devices = n,
            .n_microbatches = m,
            .microbatch_size = 1,
            .k = 1,
        };
        struct pst_held said = {.size = sizeof said};

        assert_int_equal(functions(instance)->in_flight(instance->self, &place, &said), PST_OK);
        assert_int_equal(said.microbatches, held[s]);
        assert_int_equal(said.weight_versions, 1);
        assert_true(closed_form(s, n, m, held[s]));
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool held_gpipe(uint32_t s, uint32_t p, uint32_t m, uint32_t held)
{
    (void)s;
    (void)p;
    return held == m;
}

static bool held_1f1b(uint32_t s, uint32_t p, uint32_t m, uint32_t held)
{
    return held == least(m, p - s);
}

static bool held_eager(uint32_t s, uint32_t p, uint32_t m, uint32_t held)
{
    return held == least(m, 2 * (p - s) - 1);
}

struct law {
    const char *id, *options;
    bool split;
    bool (*held)(uint32_t, uint32_t, uint32_t, uint32_t);
};

static void test_closed_forms_on_random_sizes(void **state)
{
    static const struct law laws[] = {
        {"gpipe", "", false, held_gpipe},
        {"gpipe", "reverse = true", false, held_gpipe},
        {"gpipe", "split = true", true, held_gpipe},
        {"1f1b", "", false, held_1f1b},
        {"1f1b", "split = true", true, held_1f1b},
        {"1f1b", "eager = true", false, held_eager},
        {"1f1b", "eager = true\nsplit = true", true, held_eager},
    };
    const uint64_t seed = 77;
    uint64_t counter = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        struct pst_instance *instance = open_scheduler(laws[i].id, laws[i].options);

        for (int round = 0; round < 200; round++) {
            struct pst_philox r = pst_philox(seed, 0, counter++);
            struct pst_philox q = pst_philox(seed, 1, counter++);
            uint32_t n = 1 + r.v[0] % 10, m = 1 + r.v[1] % 30;
            uint64_t tf = 1 + r.v[2] % 5, tb = 1 + r.v[3] % 5, tw = 1 + q.v[0] % 5;
            uint64_t expected = laws[i].split ? m * (tf + tb + tw) + (n - 1) * (tf + tb)
                                              : (m + n - 1) * (tf + tb + tw);
            struct pipeline p;

            pipeline_init(&p, n, m, tf, tb, tw);
            run(&p, instance);
            if (evaluate(&p, 0) != expected) {
                fail_msg("%s %s: p %u m %u tf %u tb %u tw %u: makespan %u, expected %u", laws[i].id,
                         laws[i].options, n, m, (unsigned)tf, (unsigned)tb, (unsigned)tw,
                         (unsigned)evaluate(&p, 0), (unsigned)expected);
            }
            check_held(&p, instance, m, laws[i].held);
            pst_emission_finish(&p.emission);
        }
        pst_instance_destroy(instance);
    }
}

/* Four devices, eight micro-batches, unit costs, links of latency 1: 1f1b pays the link on every
   micro-batch, running ahead pays it once on the way down and once on the way up. */
static void test_latency(void **state)
{
    struct pst_instance *plain = open_scheduler("1f1b", "");
    struct pst_instance *eager = open_scheduler("1f1b", "eager = true");
    struct pst_instance *gpipe = open_scheduler("gpipe", "");
    struct pipeline p;

    (void)state;
    pipeline_init(&p, 4, 8, 1, 1, 1);
    run(&p, plain);
    assert_int_equal(evaluate(&p, 1), 49);
    pst_emission_finish(&p.emission);
    run(&p, eager);
    assert_int_equal(evaluate(&p, 1), 39);
    pst_emission_finish(&p.emission);
    run(&p, gpipe);
    assert_int_equal(evaluate(&p, 1), (8 + 4 - 1) * 3 + 2 * 3);
    pst_emission_finish(&p.emission);
    pst_instance_destroy(plain);
    pst_instance_destroy(eager);
    pst_instance_destroy(gpipe);
}

/* Any edges that go forward are legal for the chain rule, and stages hold what they do in a chain.
 */
static void test_branches(void **state)
{
    static const char *const ids[] = {"gpipe", "1f1b", "1f1b"};
    static const char *const options[] = {"", "", "eager = true"};
    static bool (*const held[])(uint32_t, uint32_t, uint32_t, uint32_t) = {held_gpipe, held_1f1b,
                                                                           held_eager};
    const uint64_t seed = 5;
    uint64_t counter = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < 3; i++) {
        struct pst_instance *instance = open_scheduler(ids[i], options[i]);

        for (int round = 0; round < 100; round++) {
            struct pst_philox r = pst_philox(seed, 0, counter++);
            uint32_t n = 2 + r.v[0] % 8, m = 1 + r.v[1] % 12;
            struct pipeline p;

            pipeline_init(&p, n, m, 1 + r.v[2] % 3, 1, 1);
            p.in.n_links = 0;
            for (uint32_t to = 1; to < n; to++) {
                for (uint32_t from = 0; from < to; from++) {
                    if (pst_philox(seed, 2, counter++).v[0] % 3 == 0) {
                        p.links[p.in.n_links++] = (struct pst_schedule_link){from, to, 0};
                    }
                }
            }
            run(&p, instance);
            evaluate(&p, 2); /* runs to its end */
            check_held(&p, instance, m, held[i]);
            pst_emission_finish(&p.emission);
        }
        pst_instance_destroy(instance);
    }
}

static void test_limits(void **state)
{
    struct pst_instance *instance = open_scheduler("1f1b", "");
    struct pst_instance *gpipe = open_scheduler("gpipe", "");
    struct pst_topology topology = {.size = sizeof topology};
    struct pipeline p;

    (void)state;
    assert_int_equal(functions(instance)->topology(instance->self, 5, &topology), PST_OK);
    assert_int_equal(topology.n_stages, 0);
    assert_int_equal(topology.version_rule, PST_VERSION_SYNC);
    assert_int_equal(topology.min_microbatches, 1);
    assert_int_equal(topology.microbatch_multiple, 1);

    pipeline_init(&p, 3, 4, 1, 1, 1);
    p.stages[1].n_microbatches = 2;
    pst_emission_init(&p.emission, &p.in);
    assert_int_equal(functions(instance)->schedule(instance->self, &p.in, &p.emission.out),
                     PST_ERR_UNSUPPORTED);
    assert_non_null(strstr(instance->failure.message, "stage 1 has 2 micro-batches"));
    pst_emission_finish(&p.emission);
    run(&p, gpipe); /* takes stages with sizes of their own */
    pst_emission_finish(&p.emission);

    pipeline_init(&p, 3, 4, 1, 1, 1);
    p.in.n_devices = 2;
    p.stages[2].device = 0;
    run(&p, gpipe); /* and stages that share a device */
    assert_int_equal(p.emission.n_passes[0], 16);
    pst_emission_finish(&p.emission);
    pst_instance_destroy(instance);
    pst_instance_destroy(gpipe);
}

static void test_the_collector_refuses(void **state)
{
    static const struct {
        uint32_t device, pass, stage, microbatch;
        const char *words;
    } wrong[] = {
        {0, PST_PASS_BW, 0, 0, "BW of micro-batch 0 on stage 0 comes before its F"},
        {0, PST_PASS_F, 2, 0, "stage 2, but there are 2 stages"},
        {1, PST_PASS_F, 0, 0, "emitted on device 1, but the stage is on device 0"},
        {0, PST_PASS_F, 0, 3, "micro-batch 3 on stage 0, which has 3"},
        {0, PST_PASS_R, 0, 0, "R of stage 0 is placed"},
        {0, 9, 0, 0, "no pass 9"},
        {7, PST_PASS_F, 0, 0, "emitted on device 7"},
    };
    struct pipeline p;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pst_schedule_out *out = &p.emission.out;

        pipeline_init(&p, 2, 3, 1, 1, 1);
        pst_emission_init(&p.emission, &p.in);
        assert_int_equal(
            out->emit(out, wrong[i].device, wrong[i].pass, wrong[i].stage, wrong[i].microbatch),
            PST_ERR_BUG);
        if (strstr(p.emission.fault, wrong[i].words) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", p.emission.fault, wrong[i].words);
        }
        /* From then on nothing is taken. */
        assert_int_equal(out->emit(out, 0, PST_PASS_F, 0, 0), PST_ERR_BUG);
        pst_emission_finish(&p.emission);
    }
    pipeline_init(&p, 1, 1, 1, 1, 1);
    pst_emission_init(&p.emission, &p.in);
    assert_int_equal(p.emission.out.emit(&p.emission.out, 0, PST_PASS_F, 0, 0), PST_OK);
    assert_int_equal(p.emission.out.emit(&p.emission.out, 0, PST_PASS_B, 0, 0), PST_OK);
    assert_false(pst_emission_complete(&p.emission));
    assert_string_equal(p.emission.fault, "micro-batch 0 of stage 0 never gets its W");
    pst_emission_finish(&p.emission);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_three_devices),
        cmocka_unit_test(test_closed_forms_on_random_sizes),
        cmocka_unit_test(test_latency),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_the_collector_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
