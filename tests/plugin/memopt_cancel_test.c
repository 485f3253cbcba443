/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory optimizers ask whether they are to stop: more often where there is more to do, at least
 * once for every row of their tables; once they are told so, at whichever time, they end with
 * PST_ERR_CANCELLED, and are as good as before when they are asked again.
 */
#include "test.h"

#include "memopt_rig.h"

#define NODES 40

static uint64_t polls, stop_at; /* stop_at 0: never */

static bool is_cancelled(void *impl)
{
    polls++;
    return stop_at != 0 && polls >= stop_at;
}

static const struct optimizer {
    const char *id, *options;
    uint32_t nodes;
    uint64_t least; /* polls of a price and a plan in between which there is little to do */
} optimizers[] = {
    {"sqrt", "", NODES, 2},
    {"offload", "", NODES, 2},
    {"vpipe", "", NODES, 2},
    /* a knapsack asks at every node, and there are two of them at least */
    {"adapipe", "quanta = 65536", NODES, 2 * NODES},
    {"two-ended", "", NODES, 2 * NODES},
    {"dawnpiper", "policy = \"capuchin\"", NODES, 2},
    {"exact", "", 10, 2},
    /* C has a row for every range of layers */
    {"rotor", "slots = 100\nlayers = 40", NODES, NODES *(NODES + 1) / 2},
};

/* Nodes of all sizes, none of which the next one can do without. */
static void make_stage(struct stage *s, uint32_t n)
{
    uint64_t seed = 5, counter = 0;

    stage_init(s, 4, 1000, 100);
    s->view.link_bytes_per_s = 400000000;
    for (uint32_t v = 0; v < n; v++) {
        add_link(s, 50 + draw(seed, &counter, 100), 200, (64u << 10) + draw(seed, &counter, 9999))
            ->output_bytes = 1000;
    }
    s->view.capacity_bytes = 0;
    for (uint32_t v = 0; v < n; v++) {
        s->view.capacity_bytes += 2 * s->nodes[v].saved_bytes; /* half of what it would take */
    }
}

static pst_status set_letter(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    ((uint8_t *)out->impl)[position] = (uint8_t)action;
    return PST_OK;
}

static pst_status set_replays(struct pst_action_out *out, const struct pst_replay *replays,
                              uint32_t n_replays)
{
    uint8_t *bytes = out->impl;

    assert_true(n_replays * sizeof *replays <= NODES * sizeof *replays);
    memcpy(bytes + NODES, replays, n_replays * sizeof *replays);
    return PST_OK;
}

struct answer {
    pst_status priced, planned;
    struct pst_stage_price price;
    uint8_t plan[NODES + NODES * sizeof(struct pst_replay)];
};

static struct answer ask_both(struct pst_instance *instance, const struct stage *s, uint64_t stop)
{
    const struct pst_memopt *f = instance->plugin->get_interface(PST_MEMOPT);
    struct answer answer;
    struct pst_action_out out = {sizeof out, answer.plan, set_letter, set_replays};

    memset(&answer, 0, sizeof answer);
    answer.price.size = sizeof answer.price;
    polls = 0;
    stop_at = stop;
    answer.priced = f->price(instance->self, &s->view, &answer.price);
    answer.planned = f->plan(instance->self, &s->view, &out);
    return answer;
}

static void try_optimizer(const struct optimizer *o)
{
    static const struct pst_eval eval = {sizeof eval, rig_evaluate, rig_evaluate_replays};
    const struct pst_host_context context = {.eval = &eval, .cancelled = is_cancelled};
    OWN(instance) *instance = NULL;
    struct pst_error err = {0};
    struct answer first, again;
    struct stage s;
    uint64_t all, step;

    assert_ok(plugin_rig_open("memopt", o->id, o->options, &context, &instance, &err), &err);
    make_stage(&s, o->nodes);
    first = ask_both(instance, &s, 0);
    all = polls;
    print_message("%s %s: asks %llu times\n", o->id, o->options, (unsigned long long)all);
    assert_int_equal(first.priced, PST_OK);
    assert_true(all >= o->least);
    step = all / 40 + 1;
    for (uint64_t at = 1; at <= all; at += step) {
        struct answer stopped = ask_both(instance, &s, at);

        /* the host goes on to say so, so that the plan ends in any case */
        assert_int_equal(stopped.planned, PST_ERR_CANCELLED);
        assert_true(stopped.priced == PST_OK || stopped.priced == PST_ERR_CANCELLED);
        if (at == 1) {
            assert_int_equal(stopped.priced, PST_ERR_CANCELLED);
        }
    }
    again = ask_both(instance, &s, 0);
    assert_int_equal(polls, all);
    assert_memory_equal(&first, &again, sizeof first);
}

TEST(test_all)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        try_optimizer(&optimizers[i]);
    }
}
