/* SPDX-License-Identifier: Apache-2.0
 *
 * Prices and plans of one stage against the proven optimum.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/philox.h"
#include "planner/eval.h"
#include "plugin_rig.h"

enum { MOST = 64, STAGES = 60 };

#define FULL_LINK "slot_filter = false\nlink_target = 1.0\nhost_memory = 1.0\nmin_swap_bytes = 0\n"

struct stage {
    struct pst_stage_view view;
    struct pst_stage_node nodes[MOST];
    uint32_t producers[2 * MOST];
};

static struct pst_evaluator evaluator;

static pst_status evaluate(const struct pst_host *host, const struct pst_stage_view *view,
                           const uint8_t *actions, struct pst_stage_value *ret_value)
{
    (void)host;
    pst_evaluate(&evaluator, view, actions, ret_value);
    return PST_OK;
}

/* `least` operators, or up to 8 more, from somewhere in a transformer, with 2 to 8 in flight, 30 to
 * 80 % of the memory. */
static void make_stage(struct stage *s, uint32_t number, uint32_t least, bool link)
{
    struct pst_philox r = pst_philox(11, 1, number), q = pst_philox(11, 2, number);
    uint32_t n = least + r.v[0] % 9, first = r.v[1] % 300, n_producers = 0, v;
    struct pst_stage_value value = {.size = sizeof value};

    s->view = (struct pst_stage_view){.size = sizeof s->view,
                                      .n_stages = 1,
                                      .n_nodes = n,
                                      .node_size = sizeof s->nodes[0],
                                      .nodes = s->nodes,
                                      .producers = s->producers,
                                      .in_flight = 2 + r.v[2] % 7,
                                      .weight_versions = 1,
                                      .staging_copies = 2,
                                      .link_directions = 1,
                                      .capacity_bytes = UINT64_MAX,
                                      .input_bytes = 1 << 20,
                                      .link_bytes_per_s = link ? 12000000000 : 0};
    for (v = 0; v < n; v++) {
        struct operation ops[N_OPERATIONS];
        const struct operation *op = &ops[(first + v) % N_OPERATIONS];

        layer_operations((first + v) / N_OPERATIONS, ops);
        s->nodes[v] = (struct pst_stage_node){
            .node = v,
            .forward_ns = (uint64_t)(op->forward_us * 1000),
            .backward_ns = (uint64_t)(op->backward_us * 1000),
            .saved_bytes = op->saved,
            .forward_work_bytes = op->output,
            .backward_work_bytes = op->output,
            .first_producer = n_producers,
        };
        if (v > 0) {
            s->producers[n_producers++] = v - 1;
        }
        if (op->reads_back > 1 && op->reads_back <= v) {
            s->producers[n_producers++] = v - op->reads_back;
        }
        s->nodes[v].n_producers = n_producers - s->nodes[v].first_producer;
    }
    pst_evaluate(&evaluator, &s->view, NULL, &value);
    s->view.capacity_bytes = value.peak_bytes / 100 * (30 + q.v[0] % 51);
}

/* Period of the plan; 0: nothing fits; UINT64_MAX: not found out. */
struct answer {
    uint64_t priced_ns, planned_ns;
    double price_s, plan_s;
};

static pst_status take(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    ((uint8_t *)out->impl)[position] = (uint8_t)action;
    return PST_OK;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct answer ask(struct pst_instance *instance, const struct stage *s)
{
    const struct pst_memopt *f = instance->plugin->get_interface(PST_MEMOPT);
    uint8_t actions[MOST] = {0};
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_stage_value value = {.size = sizeof value};
    struct pst_action_out out = {sizeof out, actions, take, NULL};
    struct answer answer = {0};
    double start = now_s();

    if (f->price(instance->self, &s->view, &price) != PST_OK) {
        answer.planned_ns = UINT64_MAX; /* refused: too many steps */
        return answer;
    }
    answer.price_s = now_s() - start;
    start = now_s();
    if (price.fits && f->plan(instance->self, &s->view, &out) == PST_OK) {
        pst_evaluate(&evaluator, &s->view, actions, &value);
        answer.priced_ns = price.period_ns;
        answer.planned_ns = value.period_ns;
    }
    answer.plan_s = now_s() - start;
    return answer;
}

struct sums {
    uint32_t n, none, missed, optimal_prices, optimal_plans;
    double price, plan, worst_price, worst_plan, price_s, plan_s;
};

static void compare(struct sums *s, struct pst_instance *instance, const struct stage *stage,
                    const struct answer *best)
{
    struct answer answer = ask(instance, stage);
    double price, plan;

    s->price_s += answer.price_s;
    s->plan_s += answer.plan_s;
    if (best->planned_ns == 0) {
        s->none++;
        return;
    }
    s->n++;
    if (answer.planned_ns == 0) {
        s->missed++;
        return;
    }
    price = 100 * ((double)answer.priced_ns / (double)best->planned_ns - 1);
    plan = 100 * ((double)answer.planned_ns / (double)best->planned_ns - 1);
    s->optimal_prices += answer.priced_ns == best->planned_ns;
    s->optimal_plans += answer.planned_ns == best->planned_ns;
    s->price += price;
    s->plan += plan;
    s->worst_price = price > s->worst_price ? price : s->worst_price;
    s->worst_plan = plan > s->worst_plan ? plan : s->worst_plan;
}

static struct pst_instance *open_one(const char *id, const char *options)
{
    static const struct pst_eval eval = {sizeof eval, evaluate, NULL};
    const struct pst_host_context context = {.eval = &eval};
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};

    if (plugin_rig_open("memopt", id, options, &context, &instance, &err) != PST_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return instance;
}

void measure_quality(uint32_t least)
{
    static const struct {
        const char *name, *id, *options;
        bool link;
    } rows[] = {
        {"two-ended, replay", "two-ended", FULL_LINK, false},
        {"capuchin, replay", "dawnpiper", FULL_LINK "policy = \"capuchin\"", false},
        {"adapipe, replay", "adapipe", "", false},
        {"two-ended, replay and offload", "two-ended", FULL_LINK, true},
        {"capuchin, replay and offload", "dawnpiper", FULL_LINK "policy = \"capuchin\"", true},
    };

    printf("%d stages of %u to %u operators, 30 to 80 %% of the memory; above exact:\n", STAGES,
           least, least + 8);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pst_instance *exact = open_one("exact", "max_nodes = 64\nmax_steps = 200000");
        struct pst_instance *instance = open_one(rows[i].id, rows[i].options);
        struct sums s = {0};
        double exact_s = 0;
        uint32_t refused = 0;

        for (uint32_t number = 0; number < STAGES; number++) {
            struct stage stage;
            struct answer best;

            make_stage(&stage, number, least, rows[i].link);
            best = ask(exact, &stage);
            exact_s += best.price_s;
            if (best.planned_ns == UINT64_MAX) {
                refused++;
                continue;
            }
            compare(&s, instance, &stage, &best);
        }
        printf("  %-30s price +%.2f %% (worst %.1f), plan +%.2f %% (worst %.1f, %u of %u optimal), "
               "missed %u; %.2f ms a price, %.2f ms a plan, exact %.1f ms, gives %u up\n",
               rows[i].name, s.price / (s.n - s.missed), s.worst_price, s.plan / (s.n - s.missed),
               s.worst_plan, s.optimal_plans, s.n - s.missed, s.missed,
               1e3 * s.price_s / (s.n + s.none), 1e3 * s.plan_s / (s.n + s.none),
               1e3 * exact_s / STAGES, refused);
        pst_instance_destroy(exact);
        pst_instance_destroy(instance);
    }
    pst_evaluator_finish(&evaluator);
}
